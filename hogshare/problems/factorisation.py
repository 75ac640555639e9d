"""Matrix factorisation: ratings of items by users, explained by biases and a few factors.

Every user and every item has a bias and factors. Writers: `in_cells` copies the ratings, and no
code writes the copies later. Readers: all workers. Freeing: the copies end with the problem.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hogshare.kernels.ratings import cells, factors
from hogshare.kernels.ratings.factors import RatingArrays
from hogshare.kernels.rows.shared_passes import Each
from hogshare.kernels.rules import losses
from hogshare.kernels.schedule import quanta
from hogshare.problems.gradient import CompiledPass, GradientProblem, Whole
from hogshare.problems.kernel_arrays import FLOATS, frozen, require_unmasked
from hogshare.problems.model import Model
from hogshare.problems.params import Params, params_of
from hogshare.system import memory, missed_calls, ranges
from hogshare.system.lazy_attribute import once
from hogshare.system.messages import nearest

LOSSES = {"squared_error": "squared_error", "logistic": "log_loss"}  # as kernels call them
SWEEPS = 4  # passes over all biases; more passes hardly change the biases
FIRST_SHARE = 0.3  # size of products of initial factors, as a share of the residuals' size
MOST_LINES = 1 << 32  # largest number of users, or of items, that uint32 can number
BIAS_CAUTION = 2.0  # weight of a rating's biases in the length of a step, at a pace of 1
LARGEST = 1e150  # largest rating: its square is finite
LINES_AT_ONCE = 4  # least number of vectors that a run needs
# Fewest ratings of a cell, and the fewest and the most groups of users, or of items.
CELL_RATINGS, FEWEST_GROUPS, MOST_GROUPS = 1 << 12, 4, 64
SLICES = 8  # number of parts of the ratings, for passes by several threads
MIXED_ROWS = 1 << 17  # with fewer ratings, a shuffled epoch mixes ratings of different cells
CELLS_SEED = 0  # a constant, so equal arguments always state the same problem


class FactorisationProblem(GradientProblem):
    """A factorisation of ratings; make one with `hogshare.problems.factorisation`.

    Attributes
    ----------
    ratings : RatingArrays
        The arrays that kernels read.
    width : int
        Length of the part of the vector that belongs to one user or one item: its factors and its
        bias.
    ends : ndarray of int64 or None
        Position after the last rating of each cell, in the order of `in_cells`; None if the
        problem has no cells.
    """

    releases_interpreter: ClassVar[bool] = True
    name: ClassVar[str] = "factorisation"
    each: Each = map  # calls a function for each part of a pass over the ratings; not pickled

    def __init__(self, ratings: RatingArrays, loss: str, ends: np.ndarray | None = None) -> None:
        self.ratings = ratings
        self.loss = loss
        self.ends = ends
        self.n_rows = len(ratings.values)
        # in a small cell all ratings of a block belong to the same few users and items: a
        # mini-batch takes the sum of their gradients as one step, and this step is too long
        self.keeps_neighbours = self.n_rows >= MIXED_ROWS
        self.width = ratings.n_factors + ratings.biases
        self.n_users, self.n_items = len(ratings.of_users), len(ratings.of_items)
        self.n_params = (self.n_users + self.n_items) * self.width
        self.dtype = ratings.values.dtype

    def __getstate__(self) -> dict[str, Any]:
        return {name: one for name, one in vars(self).items() if name != "each"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        # read-only as in the first process: kernels are compiled for that type
        arrays: dict[str, Any] = {
            name: frozen(one)
            for name, one in self.ratings._asdict().items()
            if isinstance(one, np.ndarray)
        }
        self.ratings = self.ratings._replace(**arrays)
        self.ends = None if self.ends is None else frozen(self.ends)

    @property
    def cells(self) -> CompiledPass | None:  # type: ignore[override]
        """The compiled pass by cells; in a cell, a group of users has rated a group of items."""
        if self.ends is None:
            return None
        return CompiledPass(quanta.factors_quantum, self.ratings, self.ends)

    @property
    def nnz(self) -> int:
        """Number of values that a pass over the ratings touches."""
        return 2 * self.n_rows * self.width

    def advance(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:
        """Take a step in place in `w` for each rating."""
        return float(factors.advance(w, self.ratings, rows, eta))

    def gradient(
        self, w: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Add the gradients of some ratings to `out`; return the loss and the written places."""
        loss = float(factors.gradient(w, self.ratings, rows, out))
        users = np.unique(self.ratings.users[rows]).astype(np.int64)
        items = np.unique(self.ratings.items[rows]).astype(np.int64) + self.n_users
        lines = np.concatenate([users, items])[:, np.newaxis]
        return loss, (lines * self.width + np.arange(self.width)).ravel()

    def objective(self, params: np.ndarray) -> float:
        """Return the mean loss plus the penalty divided by the number of ratings."""
        w = self._feasible(np.ascontiguousarray(params, dtype=self.dtype))
        (of_losses,) = self.totals(np.array([self._sum_of_losses(w)]))
        loss = float(of_losses[0])
        squares = np.square(w.reshape(-1, self.width), dtype=np.float64)
        penalty = self._weighed @ (squares @ self._strengths)
        return (loss + 0.5 * float(penalty)) / self.n_all

    def _sum_of_losses(self, w: np.ndarray) -> float:
        w = frozen(w)
        found = self.each(lambda part: factors.sum_of_losses(w, self.ratings, *part), self._slices)
        return math.fsum(found)

    @property
    def _slices(self) -> list[tuple[int, int]]:
        """Parts of the ratings, independent of the threads, so that sums have the same bits."""
        return slices(self.n_rows)

    def among(self, whole: Whole) -> GradientProblem:
        """Return a copy as `GradientProblem.among` does, with the mean and counts of all ratings.

        All ranks must call this method. All parts must number the same users and the same items.
        """
        own = self._copy_among(whole)
        (mean,) = own.totals(np.array([self.n_rows * self.ratings.mean]))
        shares = (1.0 / np.maximum(own._counts, 1)).astype(self.dtype)
        own.ratings = self.ratings._replace(
            of_users=frozen(shares[: self.n_users]),
            of_items=frozen(shares[self.n_users :]),
            mean=float(mean[0]) / own.n_all,
        )
        return own

    @once
    def _counts(self) -> np.ndarray:
        """Number of ratings of each user and of each item."""
        of_users = np.bincount(self.ratings.users, minlength=self.n_users)
        of_items = np.bincount(self.ratings.items, minlength=self.n_items)
        return self.totals(np.concatenate([of_users, of_items]))[0]

    @once
    def _weighed(self) -> np.ndarray:
        """Penalty weight of each user and each item, summed over the ratings."""
        return self._counts * np.concatenate([self.ratings.of_users, self.ratings.of_items])

    @property
    def _strengths(self) -> np.ndarray:
        """Strength of the penalty on each element of the part of one user or item."""
        ratings = self.ratings
        alphas = [ratings.alpha] * ratings.n_factors + [ratings.bias_alpha] * ratings.biases
        return np.asarray(alphas)

    def _feasible(self, params: np.ndarray) -> np.ndarray:
        """Return `params`, or a copy with factors at least 0 if factors must not be negative."""
        if not self.ratings.nonnegative:
            return params
        lines = params.reshape(-1, self.width).copy()
        factors_of = lines[:, : self.ratings.n_factors]
        np.maximum(factors_of, 0.0, out=factors_of)
        return lines.reshape(-1)

    def view(self, model: Model) -> Params:
        """Return a model of the engine as `Params`, with factors set to zero as in `_feasible`."""
        known = params_of(model)
        average = None if known.average is None else self._feasible(known.average)
        return Params(self._feasible(known.params), known.t, average)

    def split(self, params: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the biases and factors of users, then of items, as views of a vector.

        Returns
        -------
        user_biases, user_factors, item_biases, item_factors : ndarray
            Biases are zeros if the problem has none.
        """
        k = self.ratings.n_factors
        lines = np.asarray(params).reshape(-1, self.width)
        biases = lines[:, k] if self.ratings.biases else np.zeros(len(lines), lines.dtype)
        n = self.n_users
        return biases[:n], lines[:n, :k], biases[n:], lines[n:, :k]

    def start(self, seed: int = 0) -> np.ndarray:
        """Return a run's default start: biases fitted without factors, and small random factors.

        The biases of all items, and then the biases of all users, are fitted `SWEEPS` times. Each
        fit is one step of Newton's method. For squared error this step sets a bias to the shrunk
        mean of its residuals, which are computed without this bias.

        Parameters
        ----------
        seed : int, default=0
            Seed for the factors. They are drawn from a normal distribution with mean zero. If
            factors must not be negative, they are the absolute values of such draws. The product of
            a user's and an item's factors has a standard deviation of `FIRST_SHARE` times the
            standard deviation of the residuals.
        """
        lines = np.zeros((self.n_users + self.n_items, self.width), self.dtype)
        k = self.ratings.n_factors
        if self.ratings.biases:
            lines[:, k] = self._fitted_biases
        if k:
            size = math.sqrt(FIRST_SHARE * self.residual / math.sqrt(k))
            draws = np.random.default_rng(seed).standard_normal((len(lines), k), dtype=np.float32)
            lines[:, :k] = size * (np.abs(draws) if self.ratings.nonnegative else draws)
        return lines.reshape(-1)

    @once
    def _fitted_biases(self) -> np.ndarray:
        n, m = self.n_users, self.n_items
        found = np.zeros(n + m)
        for _ in range(SWEEPS):
            for kind, part in ((1, slice(n, None)), (0, slice(n))):
                slopes, curvatures = np.zeros((2, n + m))
                self._add_slopes(found, kind, slopes, curvatures)
                slopes, curvatures = self.totals(slopes, curvatures)
                alpha = self.ratings.bias_alpha * self._weighed[part]
                down = slopes[part] + alpha * found[part]
                up = curvatures[part] + alpha
                found[part] -= np.divide(down, up, out=np.zeros(len(up)), where=up > 0.0)
        return found

    def _add_slopes(
        self, biases: np.ndarray, which: int, slopes: np.ndarray, curvatures: np.ndarray
    ) -> None:
        """Add slopes and curvatures as `factors.bias_slopes` does, for all users or all items."""
        ends = frozen(np.array([self.n_rows])) if self.ends is None else self.ends

        def add(group: int) -> None:
            factors.bias_slopes(biases, self.ratings, ends, which, group, slopes, curvatures)

        list(self.each(add, range(math.isqrt(len(ends)))))

    @once
    def residual(self) -> float:
        """Standard deviation of the ratings minus mean and biases; 1 for the logistic loss."""
        if self.loss == "logistic":
            return 1.0
        n_lines = self.n_users + self.n_items
        biases = frozen(self._fitted_biases if self.ratings.biases else np.zeros(n_lines))
        parts = self.each(
            lambda part: factors.squares_left(biases, self.ratings, *part), self._slices
        )
        found = np.array(list(parts))
        own = math.fsum(found[:, 0]), found[:, 1].max()
        (squares, largest) = self.totals(np.array(own, np.float64))[0]
        size = math.sqrt(float(squares) / self.n_all)
        least = float(np.finfo(self.dtype).eps) * float(largest)  # smaller residuals are rounding
        return max(size, least) or 1.0

    def unexplained(self, params: np.ndarray | None = None) -> float:
        """Return the size of the residuals at a vector: the root mean square of loss derivatives.

        If `params` is None, the factors are taken as zero. For the logistic loss this method
        returns 0.5, an upper bound for any vector.
        """
        if self.loss == "logistic":
            return 0.5
        if params is None:
            return self.residual
        (of_losses,) = self.totals(np.array([self._sum_of_losses(self._feasible(params))]))
        loss = float(of_losses[0])
        return math.sqrt(2.0 * loss / self.n_all)

    def noise_edge(self, params: np.ndarray | None = None) -> float:
        """Return a penalty at which factors do not explain chance.

        The penalty subtracts `alpha` from every singular value of the matrix that the factors
        explain. Consider a matrix with n random entries of size s at random places. Its largest
        singular value is about ``s (sqrt(a) + sqrt(b))``, where a is the mean number of entries in
        a row, and b is the mean number of entries in a column. In both means each row or column is
        weighted by its number of entries, because the largest rows and columns determine the
        singular value. The size s is the size of the residuals at `params`, as `unexplained`
        returns it.

        Source: Bandeira and van Handel 2016, "Sharp nonasymptotic bounds on the norm of random
        matrices", with the mean over entries in place of their largest sums of squares.
        """
        counts = self._counts
        parts = counts[: self.n_users], counts[self.n_users :]
        return self.unexplained(params) * size_of_chance(parts)

    def with_alpha(self, alpha: float) -> FactorisationProblem:
        """Return a copy of the problem with the same arrays and another penalty on the factors."""
        return self._with(self.ratings._replace(alpha=float(alpha)))

    def with_bias_pace(self, pace: float) -> FactorisationProblem:
        """Return a copy of the problem whose step size of biases is `pace` times that of factors.

        The copy shares the arrays of this problem. A factor has the unit of a rating's square root,
        and a bias has the unit of a rating. So the correct step size of factors has the unit of one
        over a rating, and the correct step size of biases has no unit. Therefore a fit is
        independent of the unit of the ratings only if `pace` has the unit of a rating. `residual`
        has this unit.
        """
        return self._with(self.ratings._replace(bias_pace=float(pace)))

    def mean_loss(self, params: np.ndarray) -> float:
        """Return the mean loss of the ratings at a vector, without penalties."""
        w = self._feasible(np.ascontiguousarray(params, dtype=self.dtype))
        return float(self.totals(np.array([self._sum_of_losses(w)]))[0][0]) / self.n_all

    def divided(self, held: np.ndarray) -> tuple[FactorisationProblem, FactorisationProblem]:
        """Return two problems: one of the ratings that are not held out, one of the others.

        Both problems have the same users and items, in the same order, and the same mean as this
        problem. Both have copies of their ratings.

        Parameters
        ----------
        held : ndarray of bool of shape (n_rows,)
            True for each held-out rating.
        """
        return self._part(~held), self._part(held)

    def _part(self, chosen: np.ndarray) -> FactorisationProblem:
        """Return a problem with copies of some of the ratings."""
        ratings = self.ratings
        users, items, values = (
            frozen(one[chosen]) for one in (ratings.users, ratings.items, ratings.values)
        )
        of_users, of_items = (
            frozen((1.0 / np.maximum(np.bincount(line, minlength=n), 1)).astype(self.dtype))
            for line, n in ((users, self.n_users), (items, self.n_items))
        )
        ends = self.ends
        if ends is not None:
            ends = frozen(np.concatenate([[0], np.cumsum(chosen)])[ends])
        arrays: dict[str, Any] = {"users": users, "items": items, "values": values}
        arrays |= {"of_users": of_users, "of_items": of_items}
        made = type(self)(ratings._replace(**arrays), self.loss, ends)
        made.each = self.each
        return made

    def _with(self, ratings: RatingArrays) -> FactorisationProblem:
        made = copy.copy(self)  # shares cached biases, which do not depend on these settings
        made.ratings, made.each = ratings, self.each
        return made

    @property
    def sharpness(self) -> float:
        """Approximate curvature of a rating's loss along the factors of its user and item.

        This is the curvature after a fit. Suppose that the products of k factors explain residuals
        of size s. Then the squared length of a user's factors, or of an item's, is about s sqrt(k).
        Biases are already fitted when a run begins. Factors tolerate long steps, but long steps
        would only perturb the biases. So biases count with the weight `BIAS_CAUTION`.
        """
        bound = losses.CURVATURE[losses.CODES[LOSSES[self.loss]]]
        lengths = self.residual * math.sqrt(self.ratings.n_factors)
        lengths += BIAS_CAUTION * self.ratings.bias_pace * self.ratings.biases
        return 2.0 * bound * lengths

    def curvature(self) -> np.ndarray:
        """Return the curvature along each coordinate of the vector.

        The curvature of a coordinate is the curvature of one rating's loss, multiplied by the
        number of ratings of its user or item, plus the curvature of the penalty. For a bias, the
        curvature of the penalty is multiplied by the pace of biases, because only the product of
        curvature and step size matters.
        """
        of_line = 0.5 * self.sharpness * self._counts
        paces = np.append(
            np.ones(self.ratings.n_factors), [self.ratings.bias_pace] * self.ratings.biases
        )
        of_all = of_line[:, np.newaxis] + self._weighed[:, np.newaxis] * self._strengths * paces
        return of_all.ravel() / self.n_all

    def facts(self) -> dict[str, Any]:
        """Return a description as plain data, for reports."""
        return {
            **super().facts(),
            "users": self.n_users,
            "items": self.n_items,
            "factors": self.ratings.n_factors,
            "biases": bool(self.ratings.biases),
            "loss": self.loss,
            "alpha": self.ratings.alpha,
            "bias_alpha": self.ratings.bias_alpha,
            "nonnegative": bool(self.ratings.nonnegative),
        }


@missed_calls.counted
def factorisation(
    users: Any,
    items: Any,
    ratings: Any,
    shape: tuple[int, int] | None = None,
    *,
    n_factors: int = 8,
    biases: bool = True,
    loss: str = "squared_error",
    alpha: float = 1.0,
    bias_alpha: float = 1.0,
    nonnegative: bool = False,
    dtype: Any = np.float32,
) -> FactorisationProblem:
    """State the factorisation of a matrix with some known entries as a problem.

    The objective is::

        sum over ratings of loss(r, mean + b_u + c_i + p_u . q_i)
            + alpha / 2 (|P|^2 + |Q|^2) + bias_alpha / 2 (|b|^2 + |c|^2)

    divided by the number of ratings. The penalty is a ridge: the same `alpha` shrinks the factors
    of every user and item, for any number of ratings. The step for one of the n ratings of a user
    or item uses the penalty alpha / n, as in Hogwild!; Koren uses alpha for each rating.

    Parameters
    ----------
    users, items : array-like of int of shape (n_ratings,)
        User and item of each rating, numbered from 0.
    ratings : array-like of shape (n_ratings,)
        The ratings. A pair of user and item that occurs twice counts as two ratings.
    shape : (int, int) or None, default=None
        Number of users and number of items; by default the largest numbers that occur, plus one.
    n_factors : int, default=8
        Number of factors in each p_u and q_i. If 0, the model has only biases.
    biases : bool, default=True
        Whether the model has biases b and c and a mean. The mean is the mean of all ratings and is
        not fitted. Without biases the prediction is p_u . q_i.
    loss : {"squared_error", "logistic"}, default="squared_error"
        Loss of a rating r with the prediction z. "squared_error": ``(r - z)^2 / 2``. "logistic":
        ``log(1 + exp(z)) - r z``, for ratings from 0 to 1.
    alpha, bias_alpha : float, default=1.0
        Strength of the penalty on factors, and strength of the penalty on biases. If `alpha` is
        below ``problem.noise_edge()``, the factors also explain chance.
    nonnegative : bool, default=False
        Whether the factors (not the biases) must be at least 0.
    dtype : dtype, default=float32
        Type of the vector: float32 or float64.

    Returns
    -------
    FactorisationProblem
        A problem for `solve`. After the run, ``report.model.params`` is a vector with a part for
        each user, followed by a part for each item. A part contains the factors and then the bias.
        ``problem.split(params)`` returns views of the biases and the factors.

    Raises
    ------
    TypeError, ValueError
        If there are no ratings; if some ratings are outside the matrix, NaN, infinite or, for the
        logistic loss, not between 0 and 1; or if an argument is out of its range.

    Notes
    -----
    Plain `SGD()` takes a step for each rating, in a compiled pass (`GradientProblem.advance`).
    Mini-batches and your own rules use gradients of blocks. A run on one vector without locks
    (``Shared(exchange=None)``) is the application in the Hogwild! paper.

    The ratings are copied, in an order by cells of a few users and a few items. So two workers
    seldom write the factors of the same user or item, and the factors of a block fit into the
    caches. A shuffled epoch draws the order of the blocks, and the order of the ratings in each
    block. The initial factors are drawn at random; ``start=problem.start(seed)`` draws others.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import Shared, problems, solve
    >>> rng = np.random.default_rng(0)
    >>> users, items = rng.integers(200, size=8000), rng.integers(100, size=8000)
    >>> P, Q = rng.normal(size=(200, 2)), rng.normal(size=(100, 2))
    >>> ratings = (P[users] * Q[items]).sum(axis=1)
    >>> problem = problems.factorisation(users, items, ratings, n_factors=2, alpha=0.1)
    >>> report = solve(problem, plane=Shared(exchange=None), step=0.05, stop=30, seed=0)
    >>> bool(problem.objective(report.model.params) < 0.1 * problem.objective(problem.start()))
    True
    """
    if loss not in LOSSES:
        raise ValueError(
            f"loss must be one of {list(LOSSES)}; got {loss!r}.{nearest(loss, LOSSES)}"
        )
    form = checked_form(
        FactorisationForm(n_factors, biases, loss, alpha, bias_alpha, nonnegative), dtype
    )
    values = checked_ratings(ratings, loss, dtype)
    lines = checked_lines(users, items, len(values), shape)
    counts = tuple(np.bincount(line, minlength=n) for line, n in lines)
    mean = mean_of(values, loss) if biases else 0.0
    return build(lines[0][0], lines[1][0], values.astype(dtype), counts, form, mean)


class FactorisationForm(NamedTuple):
    """The form of a factorisation; its fields are arguments of `factorisation`."""

    n_factors: int
    biases: bool
    loss: str
    alpha: float
    bias_alpha: float
    nonnegative: bool


def checked_form(form: FactorisationForm, dtype: Any) -> FactorisationForm:
    """Return a form with plain Python numbers; refuse an invalid form or dtype of the vector.

    Raises
    ------
    TypeError, ValueError
    """
    n_factors, biases, loss, alpha, bias_alpha, nonnegative = form
    ranges.whole(0, n_factors=n_factors)
    ranges.flag(biases=biases, nonnegative=nonnegative)
    ranges.not_negative(alpha=alpha, bias_alpha=bias_alpha)
    if not (n_factors or biases):
        raise ValueError("n_factors=0 without biases leaves nothing to fit.")
    if np.dtype(dtype) not in FLOATS:
        raise ValueError(f"dtype must be float32 or float64; got {dtype!r}.")
    strengths = float(alpha), float(bias_alpha)
    return FactorisationForm(int(n_factors), bool(biases), loss, *strengths, bool(nonnegative))


def build(
    users: np.ndarray,
    items: np.ndarray,
    values: np.ndarray,
    counts: tuple[np.ndarray, ...],
    form: FactorisationForm,
    mean: float,
    seed: int = CELLS_SEED,
    each: Each = map,
) -> FactorisationProblem:
    """Make the problem of checked ratings.

    users, items, values : the ratings; they are copied
    counts : number of ratings of each user, and of each item, among which the penalty of the user
        or item is divided; larger than in `users` and `items` if earlier ratings also count
    mean : constant term of the predictions
    seed : seed for the order of the ratings
    each : as in `FactorisationProblem`
    """
    n_lines = sum(map(len, counts))
    memory.require(
        LINES_AT_ONCE * n_lines * (form.n_factors + form.biases) * values.dtype.itemsize,
        f"A factorisation with {n_lines:,} users and items",
    )
    (users, items, values), ends = in_cells(users, items, values, counts, seed, each)
    of_users, of_items = (
        frozen((1.0 / np.maximum(count, 1)).astype(values.dtype)) for count in counts
    )
    ratings = RatingArrays(
        frozen(users),
        frozen(items),
        frozen(values),
        of_users,
        of_items,
        form.alpha,
        form.bias_alpha,
        1.0,
        form.n_factors,
        int(form.biases),
        float(mean),
        losses.CODES[LOSSES[form.loss]],
        int(form.nonnegative),
    )
    made = FactorisationProblem(ratings, form.loss, frozen(ends))
    made.each = each
    return made


def size_of_chance(counts: Sequence[np.ndarray]) -> float:
    """Return about the largest singular value of a matrix of noise of size 1 at the rated places.

    `FactorisationProblem.noise_edge` has the formula.

    counts : number of ratings of each user, and of each item
    """
    n = max(1, int(counts[0].sum()))
    return sum(math.sqrt(float(np.square(part).sum()) / n) for part in counts)


def checked_ratings(ratings: Any, loss: str, dtype: Any = np.float32) -> np.ndarray:
    """Return ratings as float64; refuse ratings so large or small that their squares overflow."""
    require_unmasked("ratings", ratings)
    try:
        values = np.asarray(ratings, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"ratings must be numbers ({error}).") from error
    if values.ndim != 1:
        raise ValueError(f"ratings must have one dimension; got shape {values.shape}.")
    if not values.size:
        raise ValueError("There are no ratings: at least one is needed.")
    if not np.isfinite(values).all():
        first = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(
            f"ratings contains NaN or infinity, first at place {first}: leave such ratings out."
        )
    most = min(float(np.finfo(dtype).max), LARGEST)
    if np.abs(values).max() > most:
        first = int(np.argmax(np.abs(values) > most))
        raise ValueError(
            f"ratings go up to {np.abs(values).max():g}, first at place {first} above {most:.3g}, "
            f"the largest that a fit in {np.dtype(dtype)} allows: divide all of them by a number."
        )
    least = max(float(np.finfo(dtype).tiny), 1.0 / LARGEST)
    # with the logistic loss, a rating as small as this counts as 0
    vanishing = (np.abs(values) < least) & (values != 0.0) & (loss != "logistic")
    if vanishing.any():
        first = int(np.argmax(vanishing))
        raise ValueError(
            f"ratings go down to {values[first]:g}, first at place {first} nearer to 0 than "
            f"{least:.3g}, the smallest that a fit in {np.dtype(dtype)} allows except 0: multiply "
            "all of them by a number."
        )
    if loss == "logistic" and (values.min() < 0.0 or values.max() > 1.0):
        raise ValueError(
            "loss='logistic' takes ratings from 0 (no) to 1 (yes), and these go from "
            f"{values.min():g} to {values.max():g}: give counts as 1 where they are above 0, or "
            "use loss='squared_error'."
        )
    return values


def checked_lines(
    users: Any, items: Any, n_ratings: int, shape: tuple[int, int] | None
) -> list[tuple[np.ndarray, int]]:
    """Check the user and item of each rating; return (users, n_users) and (items, n_items)."""
    if shape is not None:
        if len(ranges.several(shape=shape)) != 2:
            raise ValueError(f"shape must be the numbers of users and of items; got {shape!r}.")
        for n in shape:
            ranges.whole(1, shape=n)
    found = []
    for kind, (name, given) in enumerate((("users", users), ("items", items))):
        line = np.asarray(given)
        if line.shape != (n_ratings,):
            raise ValueError(
                f"{name} must have one number for each of the {n_ratings} ratings; got shape "
                f"{line.shape}."
            )
        if line.dtype.kind not in "iu":
            raise TypeError(
                f"{name} must be whole numbers from 0 on; got {line.dtype}. "
                "hogshare.MatrixFactorization takes ids of any kind."
            )
        n = int(line.max()) + 1 if shape is None else int(shape[kind])
        if int(line.min()) < 0 or int(line.max()) >= n:
            raise ValueError(
                f"{name} go from {line.min()} to {line.max()}, outside of a matrix with {n} "
                f"{name}, which are counted from 0."
            )
        if n > MOST_LINES:
            raise ValueError(f"{name} go up to {n - 1:,}; {MOST_LINES:,} is the most.")
        found.append((line, n))
    return found


def mean_of(values: np.ndarray, loss: str) -> float:
    """Return the constant term: the mean, or for the logistic loss a finite logit of the mean."""
    mean = float(values.mean())
    if loss == "squared_error":
        return mean
    inside = 0.5 / len(values)
    share = min(max(mean, inside), 1.0 - inside)
    return math.log(share / (1.0 - share))


def in_cells(
    users: np.ndarray,
    items: np.ndarray,
    values: np.ndarray,
    counts: tuple[np.ndarray, ...],
    seed: int,
    each: Each = map,
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """Order ratings by cells, in which neighbouring ratings belong to few users and few items.

    Users are divided at random into groups with about the same number of ratings; items are divided
    in the same way. A cell has the ratings of one group of items by one group of users. The cells
    are ordered along diagonals of the grid of groups, so neighbouring cells have no user and no
    item in common (`hogshare.kernels.schedule.grid_quanta`). The ratings within a cell are in a
    random order. The arguments are not changed.

    Parameters
    ----------
    each : callable
        As in `FactorisationProblem`; the resulting order does not depend on it.

    Returns
    -------
    users, items, values : ndarrays of uint32, uint32 and the type of `values`
    ends : ndarray of int64
        Position after the last rating of each cell.
    """
    n, rng = len(values), np.random.default_rng(seed)
    # an even number, so that two workers that take cells alternately each have their own users
    n_groups = 2 * int(math.sqrt(n / CELL_RATINGS) / 2.0)
    n_groups = max(FEWEST_GROUPS, min(MOST_GROUPS, n_groups))
    groups = tuple(groups_of(count, n_groups, rng) for count in counts)
    lines = (frozen(line.astype(np.int64, copy=False)) for line in (users, items))
    ratings = (*lines, frozen(values))
    parts = slices(n)
    counted = np.zeros((len(parts), n_groups * n_groups), np.int64)

    def count(k: int) -> None:
        cells.count_cells(*ratings[:2], *groups, n_groups, *parts[k], counted[k])

    list(each(count, range(len(parts))))
    of_cells = counted.sum(axis=0)
    ends = np.cumsum(of_cells)
    # in a cell, the ratings of the first slice come first, followed by the second slice's
    places = np.cumsum(counted, axis=0) - counted + (ends - of_cells)
    out = np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, values.dtype)

    def put(k: int) -> None:
        cells.put_into_cells(ratings, *groups, n_groups, *parts[k], places[k], out)

    def shuffle(diagonal: int) -> None:
        first = diagonal * n_groups
        cells.shuffle_cells(ends, first, first + n_groups, drawn, out)

    drawn = int(rng.integers(1 << 31))
    list(each(put, range(len(parts))))
    list(each(shuffle, range(n_groups)))
    return out, ends


def groups_of(counts: np.ndarray, n_groups: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a group for each user or item; all groups have about the same number of ratings.

    counts : number of ratings of each user, or of each item
    """
    drawn = rng.permutation(len(counts))
    before = np.cumsum(counts[drawn])
    groups = np.empty(len(counts), np.int64)
    groups[drawn] = np.minimum(n_groups - 1, before * n_groups // (before[-1] + 1))
    return frozen(groups)


def slices(n: int) -> list[tuple[int, int]]:
    """Return the start and the end of each part of `n` ratings, for passes that run in parallel."""
    return [(n * k // SLICES, n * (k + 1) // SLICES) for k in range(SLICES)]
