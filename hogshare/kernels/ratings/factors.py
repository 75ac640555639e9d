"""Matrix factorisation: a rating is a row that reads and writes a user's and an item's factors.

The vector contains a *line* for each user, then a line for each item. A line consists of the
factors and, if biases are used, the bias. A rating's prediction is ``mean + b_u + c_i + p_u .
q_i``.

Writers: `advance` writes the lines of its ratings by plain stores, in a worker's copy or in the one
vector. In the one vector other workers write the same lines, so an update may be lost, as in
Hogwild!. `advance_between` writes the lines of adjacent ratings. On the grid these are a cell's
ratings, and no other worker writes their lines (`hogshare.kernels.schedule.grid_quanta`). Readers:
the same functions. Losses and their derivatives are computed in float64, products in the vector's
dtype.

Source: Niu, Recht, Re and Wright (2011), "Hogwild!", its equation (2.4): the penalty of a line is
divided among its ratings, ``alpha / 2 |p_u|^2 / n_u`` each, so the sum over all ratings is the
ridge penalty. Departures: (1) biases (Koren, Bell and Volinsky 2009), (2) a logistic loss, and (3)
for nonnegative factors, lines that are clipped at zero after each step.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels.jit.atomics import prefetch, prefetch_to_write
from hogshare.kernels.jit.decorators import helper, inlined, kernel
from hogshare.kernels.rules.losses import loss_curvature, loss_derivative, loss_value

# number of ratings ahead at which a rating (SOON) and its two lines (SOONER) are prefetched
SOON, SOONER = np.uint64(8), np.uint64(4)


class RatingArrays(NamedTuple):
    """The arrays and constants of a factorisation, for kernels.

    users, items : uint32 (n_ratings,), user number and item number of each rating
    values : float32 or float64 (n_ratings,), the vector's dtype
    of_users : of the dtype of `values`, (n_users,), a rating's share in its user's penalty
    of_items : of the dtype of `values`, (n_items,), a rating's share in its item's penalty
    alpha : strength of the penalty on factors
    bias_alpha : strength of the penalty on biases
    bias_pace : step size of biases in `advance`, divided by the step size of factors. The step size
        of factors has the unit of one over a rating; the step size of biases has no unit.
    n_factors : number of factors of a line
    biases : 1 if a line ends with a bias, otherwise 0
    mean : float, the constant term of predictions
    loss : code of a loss of `hogshare.kernels.rules.losses`
    nonnegative : 1 if factors are at least 0
    """

    users: np.ndarray
    items: np.ndarray
    values: np.ndarray
    of_users: np.ndarray
    of_items: np.ndarray
    alpha: float
    bias_alpha: float
    bias_pace: float
    n_factors: int
    biases: int
    mean: float
    loss: int
    nonnegative: int


@inlined
def lines_of(ratings, r):
    """Return the user and the item of a rating, and the starts of their lines in the vector."""
    width = np.uint64(ratings.n_factors + ratings.biases)
    u, i = np.uint64(ratings.users[r]), np.uint64(ratings.items[r])
    first_item = np.uint64(ratings.of_users.shape[0])
    return u, i, u * width, (first_item + i) * width


@inlined
def fetch_ahead(w, ratings, rows, k):
    """Prefetch ratings that come after place `k` of `rows`, and their lines."""
    n = np.uint64(rows.shape[0])
    if k + SOON < n:
        r = np.uint64(rows[k + SOON])
        prefetch(ratings.users, r)
        prefetch(ratings.items, r)
        prefetch(ratings.values, r)
    if k + SOONER < n:
        _, _, p, q = lines_of(ratings, np.uint64(rows[k + SOONER]))
        prefetch_to_write(w, p)
        prefetch_to_write(w, q)


@inlined
def predicted(w, ratings, p, q):
    """Return the prediction (before a logistic function) of the lines that begin at `p` and `q`."""
    n_factors = np.uint64(ratings.n_factors)
    total = w.dtype.type(0.0)
    for f in range(n_factors):
        total += w[p + f] * w[q + f]
    z = ratings.mean + np.float64(total)
    if ratings.biases != 0:
        z += np.float64(w[p + n_factors]) + np.float64(w[q + n_factors])
    return z


@inlined
def take_step(w, ratings, r, eta):
    """Take a rating's step; return its loss before the step."""
    kind = w.dtype.type
    one, zero = kind(1.0), kind(0.0)
    n_factors = np.uint64(ratings.n_factors)
    bias_eta = eta * ratings.bias_pace
    shrink, bias_shrink = kind(eta * ratings.alpha), kind(bias_eta * ratings.bias_alpha)
    u, i, p, q = lines_of(ratings, r)
    z, y = predicted(w, ratings, p, q), np.float64(ratings.values[r])
    loss = loss_value(ratings.loss, 0.0, y, z)
    slope = loss_derivative(ratings.loss, 0.0, y, z)
    change = kind(-eta * slope)
    of_u, of_i = ratings.of_users[u], ratings.of_items[i]
    scale_p, scale_q = max(zero, one - shrink * of_u), max(zero, one - shrink * of_i)
    if ratings.nonnegative != 0:
        for f in range(n_factors):
            a, b = w[p + f], w[q + f]
            w[p + f] = max(zero, scale_p * a + change * b)
            w[q + f] = max(zero, scale_q * b + change * a)
    else:
        for f in range(n_factors):
            a, b = w[p + f], w[q + f]
            w[p + f] = scale_p * a + change * b
            w[q + f] = scale_q * b + change * a
    if ratings.biases != 0:
        scale_p, scale_q = (
            max(zero, one - bias_shrink * of_u),
            max(zero, one - bias_shrink * of_i),
        )
        change = kind(-bias_eta * slope)
        w[p + n_factors] = scale_p * w[p + n_factors] + change
        w[q + n_factors] = scale_q * w[q + n_factors] + change
    return loss


@kernel
def advance(w, ratings, rows, eta):
    """Take a step for each rating of `rows`, in order; return the sum of their losses.

    Each loss is computed before the rating's step. The losses do not include the penalties; the
    steps do.

    w : float32 or float64 (n_params,), updated
    rows : int64, the ratings' numbers
    eta : step size of factors
    """
    losses = 0.0
    for k in range(np.uint64(rows.shape[0])):
        fetch_ahead(w, ratings, rows, k)
        losses += take_step(w, ratings, np.uint64(rows[k]), eta)
    return losses


@helper
def advance_between(w, ratings, first, end, eta):
    """Take a step for each rating from `first` to `end`, in order; return the sum of losses."""
    losses, last = 0.0, np.uint64(end)
    for r in range(np.uint64(first), last):
        if r + SOONER < last:  # the ratings themselves are fetched by the processor
            _, _, p, q = lines_of(ratings, r + SOONER)
            prefetch_to_write(w, p)
            prefetch_to_write(w, q)
        losses += take_step(w, ratings, r, eta)
    return losses


@kernel
def gradient(w, ratings, rows, out):
    """Add the gradients of some ratings, with penalties, to `out`; return the sum of losses."""
    n_factors = np.uint64(ratings.n_factors)
    kind = w.dtype.type
    alpha, bias_alpha = kind(ratings.alpha), kind(ratings.bias_alpha)
    losses = 0.0
    for k in range(np.uint64(rows.shape[0])):
        r = np.uint64(rows[k])
        u, i, p, q = lines_of(ratings, r)
        z, y = predicted(w, ratings, p, q), np.float64(ratings.values[r])
        losses += loss_value(ratings.loss, 0.0, y, z)
        slope = kind(loss_derivative(ratings.loss, 0.0, y, z))
        of_u, of_i = alpha * ratings.of_users[u], alpha * ratings.of_items[i]
        for f in range(n_factors):
            a, b = w[p + f], w[q + f]
            out[p + f] += slope * b + of_u * a
            out[q + f] += slope * a + of_i * b
        if ratings.biases != 0:
            of_u, of_i = bias_alpha * ratings.of_users[u], bias_alpha * ratings.of_items[i]
            out[p + n_factors] += slope + of_u * w[p + n_factors]
            out[q + n_factors] += slope + of_i * w[q + n_factors]
    return losses


@kernel
def sum_of_losses(w, ratings, first, end):
    """Return the sum of losses of the ratings from `first` to `end`, without penalties."""
    total = 0.0
    for r in range(np.uint64(first), np.uint64(end)):
        _, _, p, q = lines_of(ratings, r)
        y, z = np.float64(ratings.values[r]), predicted(w, ratings, p, q)
        total += loss_value(ratings.loss, 0.0, y, z)
    return total


@inlined
def with_places(ratings, r):
    """Return a rating's value, and the places of its user's and its item's bias."""
    u = np.uint64(ratings.users[r])
    i = np.uint64(ratings.of_users.shape[0]) + np.uint64(ratings.items[r])
    return np.float64(ratings.values[r]), u, i


@kernel
def squares_left(biases, ratings, first, end):
    """Return the sum of squared residuals, and the largest absolute rating.

    A residual is the rating minus the mean and the biases. The ratings from `first` to `end` count.

    biases : float64 (n_users + n_items,), zeros if biases are not used
    """
    total, largest = 0.0, 0.0
    for r in range(np.uint64(first), np.uint64(end)):
        y, u, i = with_places(ratings, r)
        left = y - ratings.mean - biases[u] - biases[i]
        total += left * left
        largest = max(largest, abs(y))
    return total, largest


@kernel
def bias_slopes(biases, ratings, ends, which, group, slopes, curvatures):
    """Add the losses' first and second derivatives with respect to the biases of a group.

    Predictions are computed with factors of zero. `grid_quanta` describes the groups. One call sums
    each derivative completely, in the order of its ratings.

    biases : float64 (n_users + n_items,)
    ends : int64 (n_cells,), end of each cell's ratings
    which : 0 for a group of users, 1 for a group of items
    group : number of the group
    slopes, curvatures : float64 (n_users + n_items,), to which the derivatives are added
    """
    n_groups = np.int64(np.sqrt(ends.shape[0]))
    for diagonal in range(n_groups):
        of_users = group if which == 0 else (group + n_groups - diagonal) % n_groups
        cell = diagonal * n_groups + of_users
        first = 0 if cell == 0 else ends[cell - 1]
        for r in range(np.uint64(first), np.uint64(ends[cell])):
            y, u, i = with_places(ratings, r)
            z = ratings.mean + biases[u] + biases[i]
            j = u if which == 0 else i
            slopes[j] += loss_derivative(ratings.loss, 0.0, y, z)
            curvatures[j] += loss_curvature(ratings.loss, 0.0, y, z)
