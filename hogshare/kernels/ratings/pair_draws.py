"""Pairs of users and items that have met, compared with drawn pairs that have not met.

A user and an item *have met* if the data contain their pair. A row is a pair that has met, in a
`RatingArrays` whose values are 1. For each row the kernels draw items that the row's user has not
met. With a loss of single pairs, rows have rating 1 and drawn pairs rating 0. With the pairwise
loss, the user prefers the row's item to the drawn item.

A draw depends on the seed, the epoch and the row, but not on the worker or the time of the step.

Writers: `advance` writes the lines (a user's or an item's factors and bias) of its rows and of the
items drawn for these rows, as `hogshare.kernels.ratings.factors` does. Readers: the same function.

Source: Rendle, Freudenthaler, Gantner and Schmidt-Thieme 2009, "BPR: Bayesian personalized ranking
from implicit feedback", figure 4. Departures: (1) the ridge penalty of a line is divided among its
rows, as in `factors`; (2) a drawn pair has never met; (3) biases.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels.jit.decorators import helper, inlined, kernel
from hogshare.kernels.ratings.factors import fetch_ahead, lines_of, predicted, take_step
from hogshare.kernels.rules.losses import LOG_LOSS, loss_derivative, loss_value
from hogshare.kernels.schedule.streams import block_state, next_random

NO_ITEM = -1  # the draw for a user who has met all items
TRIES = 16  # draws by popularity, before a uniform draw among the items not met


class Drawing(NamedTuple):
    """The data for the draws of a row's items, for kernels.

    begins : int64 (n_users + 1,), start of each user's items in `known`
    known : uint32 (n_pairs,), the items that each user has met, sorted, each item once
    n_negatives : number of draws per row
    by_popularity : 1 to draw items in proportion to their number of rows, 0 to draw uniformly
    pairwise : 1 for the pairwise loss, 0 for a loss of single pairs
    seed : seed for the draws
    """

    begins: np.ndarray
    known: np.ndarray
    n_negatives: int
    by_popularity: int
    pairwise: int
    seed: int


@inlined
def below(known, begin, end, item):
    """Return the place of the first known item of a user that is not below `item`."""
    while begin < end:
        middle = (begin + end) // 2
        if known[middle] < item:
            begin = middle + 1
        else:
            end = middle
    return begin


@helper
def drawn(ratings, drawing, u, number, epoch):
    """Draw an item that a user has not met. Return the item, or `NO_ITEM` if there is none.

    number : number of the draw, among all draws of the epoch
    """
    known = drawing.known
    begin, end = drawing.begins[u], drawing.begins[u + 1]
    n_left = np.int64(ratings.of_items.shape[0]) - (end - begin)
    if n_left <= 0:
        return np.int64(NO_ITEM)
    state = block_state(drawing.seed, epoch, number)
    if drawing.by_popularity != 0:
        for _ in range(TRIES):
            state = next_random(state)
            item = ratings.items[np.int64(state) % ratings.items.shape[0]]
            place = below(known, begin, end, item)
            if place == end or known[place] != item:
                return np.int64(item)
    state = next_random(state)
    rank = np.int64(state) % n_left
    # the item that comes after `rank` other items that the user has not met
    low, high = np.int64(0), end - begin
    while low < high:
        middle = (low + high) // 2
        if np.int64(known[begin + middle]) - middle <= rank:
            low = middle + 1
        else:
            high = middle
    return rank + low


@inlined
def line_of_item(ratings, item):
    """Return the start of an item's line in the vector."""
    width = np.uint64(ratings.n_factors + ratings.biases)
    return (np.uint64(ratings.of_users.shape[0]) + np.uint64(item)) * width


@inlined
def advance_negative(w, ratings, p, q, eta):
    """Take the step of a drawn pair, with rating 0 and no penalty; return its loss."""
    kind = w.dtype.type
    zero, n_factors = kind(0.0), np.uint64(ratings.n_factors)
    z = predicted(w, ratings, p, q)
    slope = loss_derivative(ratings.loss, 0.0, 0.0, z)
    change = kind(-eta * slope)
    for f in range(n_factors):
        a, b = w[p + f], w[q + f]
        if ratings.nonnegative != 0:
            w[p + f] = max(zero, a + change * b)
            w[q + f] = max(zero, b + change * a)
        else:
            w[p + f] = a + change * b
            w[q + f] = b + change * a
    if ratings.biases != 0:
        change = kind(-eta * ratings.bias_pace * slope)
        w[p + n_factors] += change
        w[q + n_factors] += change
    return loss_value(ratings.loss, 0.0, 0.0, z)


@inlined
def advance_pairwise(w, ratings, u, i, p, q, s, shrink, eta):
    """Take the step of a row and a drawn item; return the loss before the step.

    p, q, s : starts of the lines of the user, of the row's item and of the drawn item
    shrink : 1 to apply the penalties of the row's lines, as the caller does once per row; otherwise
        0
    """
    kind = w.dtype.type
    one, zero, n_factors = kind(1.0), kind(0.0), np.uint64(ratings.n_factors)
    z = predicted(w, ratings, p, q) - predicted(w, ratings, p, s)
    slope = loss_derivative(LOG_LOSS, 0.0, 1.0, z)
    change = kind(-eta * slope)
    rate = kind(shrink * eta * ratings.alpha)
    scale_p = max(zero, one - rate * ratings.of_users[u])
    scale_q = max(zero, one - rate * ratings.of_items[i])
    for f in range(n_factors):
        a, b, c = w[p + f], w[q + f], w[s + f]
        a_new, b_new, c_new = (
            scale_p * a + change * (b - c),
            scale_q * b + change * a,
            c - change * a,
        )
        if ratings.nonnegative != 0:
            a_new, b_new, c_new = max(zero, a_new), max(zero, b_new), max(zero, c_new)
        w[p + f], w[q + f], w[s + f] = a_new, b_new, c_new
    if ratings.biases != 0:
        bias_eta = eta * ratings.bias_pace
        rate = kind(shrink * bias_eta * ratings.bias_alpha)
        change = kind(-bias_eta * slope)
        w[p + n_factors] *= max(zero, one - rate * ratings.of_users[u])
        scale_q = max(zero, one - rate * ratings.of_items[i])
        w[q + n_factors] = scale_q * w[q + n_factors] + change
        w[s + n_factors] -= change
    return loss_value(LOG_LOSS, 0.0, 1.0, z)


@kernel
def advance(w, ratings, drawing, rows, epoch, eta):
    """Take the steps of some rows and of their drawn items; return the sum of losses.

    Each loss is computed before its step.

    w : float32 or float64 (n_params,), updated
    rows : int64, the rows' numbers
    eta : step size of factors
    """
    losses = 0.0
    for k in range(np.uint64(rows.shape[0])):
        fetch_ahead(w, ratings, rows, k)
        r = np.int64(rows[k])
        u, i, p, q = lines_of(ratings, np.uint64(r))
        if drawing.pairwise == 0:
            losses += take_step(w, ratings, np.uint64(r), eta)
        shrink = 1.0
        for n in range(drawing.n_negatives):
            item = drawn(ratings, drawing, np.int64(u), r * drawing.n_negatives + n, epoch)
            if item == NO_ITEM:
                continue
            s = line_of_item(ratings, item)
            if drawing.pairwise == 0:
                losses += advance_negative(w, ratings, p, s, eta)
            else:
                losses += advance_pairwise(w, ratings, u, i, p, q, s, shrink, eta)
                shrink = 0.0
    return losses


@inlined
def add_outer(w, out, p, q, n_factors, slope):
    """Add a slope times the gradient of the inner product of two lines to `out`."""
    for f in range(n_factors):
        out[p + f] += slope * w[q + f]
        out[q + f] += slope * w[p + f]


@kernel
def gradient(w, ratings, drawing, rows, epoch, out, items):
    """Add the gradients of some rows, with penalties, to `out`; return the sum of losses.

    items : int64 (rows.shape[0] * n_negatives,), overwritten with the drawn items
    """
    kind = w.dtype.type
    n_factors, biases = np.uint64(ratings.n_factors), ratings.biases != 0
    losses = 0.0
    for k in range(rows.shape[0]):
        r = np.int64(rows[k])
        u, i, p, q = lines_of(ratings, np.uint64(r))
        if drawing.pairwise == 0:
            y, z = np.float64(ratings.values[r]), predicted(w, ratings, p, q)
            losses += loss_value(ratings.loss, 0.0, y, z)
            slope = kind(loss_derivative(ratings.loss, 0.0, y, z))
            add_outer(w, out, p, q, n_factors, slope)
            if biases:
                out[p + n_factors] += slope
                out[q + n_factors] += slope
        has_step = drawing.pairwise == 0
        for n in range(drawing.n_negatives):
            number = r * drawing.n_negatives + n
            item = drawn(ratings, drawing, np.int64(u), number, epoch)
            items[k * drawing.n_negatives + n] = max(item, np.int64(0))
            if item == NO_ITEM:
                continue
            has_step = True
            s = line_of_item(ratings, item)
            if drawing.pairwise == 0:
                z = predicted(w, ratings, p, s)
                losses += loss_value(ratings.loss, 0.0, 0.0, z)
                slope = kind(loss_derivative(ratings.loss, 0.0, 0.0, z))
                add_outer(w, out, p, s, n_factors, slope)
                if biases:
                    out[p + n_factors] += slope
                    out[s + n_factors] += slope
            else:
                z = predicted(w, ratings, p, q) - predicted(w, ratings, p, s)
                losses += loss_value(LOG_LOSS, 0.0, 1.0, z)
                slope = kind(loss_derivative(LOG_LOSS, 0.0, 1.0, z))
                add_outer(w, out, p, q, n_factors, slope)
                add_outer(w, out, p, s, n_factors, -slope)
                if biases:
                    out[q + n_factors] += slope
                    out[s + n_factors] -= slope
        if has_step:
            of_u, of_i = ratings.of_users[u], ratings.of_items[i]
            alpha, bias_alpha = kind(ratings.alpha), kind(ratings.bias_alpha)
            for f in range(n_factors):
                out[p + f] += alpha * of_u * w[p + f]
                out[q + f] += alpha * of_i * w[q + f]
            if biases:
                out[p + n_factors] += bias_alpha * of_u * w[p + n_factors]
                out[q + n_factors] += bias_alpha * of_i * w[q + n_factors]
    return losses


@kernel
def sum_of_losses(w, ratings, drawing, epoch):
    """Return the sum of losses of all rows and of their drawn items, without penalties."""
    losses = 0.0
    for r in range(ratings.values.shape[0]):
        u, _, p, q = lines_of(ratings, np.uint64(r))
        z = predicted(w, ratings, p, q)
        if drawing.pairwise == 0:
            losses += loss_value(ratings.loss, 0.0, np.float64(ratings.values[r]), z)
        for n in range(drawing.n_negatives):
            number = r * drawing.n_negatives + n
            item = drawn(ratings, drawing, np.int64(u), number, epoch)
            if item == NO_ITEM:
                continue
            other = predicted(w, ratings, p, line_of_item(ratings, item))
            if drawing.pairwise == 0:
                losses += loss_value(ratings.loss, 0.0, 0.0, other)
            else:
                losses += loss_value(LOG_LOSS, 0.0, 1.0, z - other)
    return losses
