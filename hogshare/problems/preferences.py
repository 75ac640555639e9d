"""Preferences: items that a user has chosen, compared with drawn items that the user has not.

A chosen pair is a user and an item that the user has chosen: clicked, bought, played. Writers:
`preferences` makes the arrays of the problem, which are copies, and no code writes them later.
Readers: all workers. Freeing: the copies end with the problem.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit

from hogshare.kernels.ratings import pair_draws as kernels
from hogshare.kernels.ratings.factors import RatingArrays
from hogshare.kernels.ratings.pair_draws import Drawing
from hogshare.problems.factorisation import (
    FactorisationForm,
    FactorisationProblem,
    build,
    checked_form,
    checked_lines,
)
from hogshare.problems.gradient import BlockClaim
from hogshare.problems.kernel_arrays import frozen
from hogshare.system import missed_calls, ranges
from hogshare.system.lazy_attribute import once
from hogshare.system.messages import nearest

PAIRWISE, POINTWISE = "bpr", "logistic"
LOSSES = (PAIRWISE, POINTWISE)
SAMPLING = ("uniform", "popularity")
EVALUATED = (1 << 31) - 1  # number of the epoch whose draws the objective uses
EDGE_SHARE = 0.2  # of `FactorisationProblem.noise_edge`
NEWTON = 30  # Newton steps for the initial biases of items; fewer suffice


class PreferenceProblem(FactorisationProblem):
    """Chosen pairs, and drawn items for each; make one with `hogshare.problems.preferences`.

    Attributes
    ----------
    drawing : Drawing
        How kernels draw items for each pair.
    """

    name: ClassVar[str] = "preferences"

    def __init__(self, ratings: RatingArrays, drawing: Drawing) -> None:
        super().__init__(ratings, POINTWISE)
        self.drawing = drawing

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        begins, known = frozen(self.drawing.begins), frozen(self.drawing.known)
        self.drawing = self.drawing._replace(begins=begins, known=known)

    @property
    def nnz(self) -> int:
        """Number of values that a pass over the pairs touches, including drawn items."""
        return super().nnz * (1 + self.drawing.n_negatives)

    def for_worker(self, me: int) -> PreferenceGradient:
        """Return a worker's gradient function, which uses the draws of the current epoch."""
        return PreferenceGradient(self)

    def advance_for_worker(self, me: int) -> PreferencePass:
        """Return a worker's function for `advance`, which uses the draws of the current epoch."""
        return PreferencePass(self)

    def advance(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:
        """Take a step in place for each pair, with the draws that the objective uses."""
        return PreferencePass(self)(w, rows, eta)

    def gradient(
        self, w: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Add the gradients of some pairs to `out`, with the draws that the objective uses."""
        return PreferenceGradient(self)(w, rows, out)

    def _sum_of_losses(self, w: np.ndarray) -> float:
        return float(kernels.sum_of_losses(frozen(w), self.ratings, self.drawing, EVALUATED))

    def noise_edge(self, params: np.ndarray | None = None) -> float:
        """Return a penalty that suits most data: a share of `FactorisationProblem.noise_edge`.

        Most drawn items are far from a user's taste and carry little information. So the noise in
        the ratings is less than the noise of an equal number of coin tosses, which
        `FactorisationProblem.noise_edge` assumes. Penalties of 0.05, 0.1, 0.2, 0.4 and 0.8 times
        that edge were compared by recall at 20, with both losses, on three data sets of 90,000 to
        160,000 pairs. In each case 0.2 gave the best recall, or a recall within 5 % of the best.
        """
        return EDGE_SHARE * super().noise_edge(params)

    @once
    def _fitted_biases(self) -> np.ndarray:
        """Return biases that explain how often each item is chosen, compared to its draws.

        Without factors, the loss of an item that is chosen n times and drawn m times is least at
        the prediction ``log(n / m)``. For the pairwise loss the biases are the strengths of Bradley
        and Terry's model.
        """
        found = np.zeros(self.n_users + self.n_items)
        met = self._counts[self.n_users :].astype(np.float64)
        if self.drawing.by_popularity:
            return found  # zeros: items are drawn in proportion to how often they are chosen
        of_all = 1.0 if self.drawing.pairwise else float(self.drawing.n_negatives)
        drawn = np.full(self.n_items, of_all * met.sum() / self.n_items)
        mean, alpha = self.ratings.mean, self.ratings.bias_alpha
        biases = np.zeros(self.n_items)
        for _ in range(NEWTON):
            share = expit(mean + biases)
            slope = (met + drawn) * share - met + alpha * biases
            biases -= np.clip(slope / ((met + drawn) * share * (1.0 - share) + alpha), -2.0, 2.0)
        found[self.n_users :] = biases
        return found

    def facts(self) -> dict[str, Any]:
        """Return a description as plain data, for reports."""
        drawing = self.drawing
        return {
            **super().facts(),
            "loss": PAIRWISE if drawing.pairwise else POINTWISE,
            "negatives": drawing.n_negatives,
            "sampling": SAMPLING[drawing.by_popularity],
        }


class PreferenceGradient:
    """A worker's gradient function; `begin` sets the epoch whose draws the function uses."""

    def __init__(self, problem: PreferenceProblem) -> None:
        self.problem, self.epoch = problem, EVALUATED

    def begin(self, claim: BlockClaim) -> None:
        """Use the draws of the claim's epoch."""
        self.epoch = claim.epoch

    def __call__(
        self, w: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Add gradients to `out` as `PreferenceProblem.gradient` does, with this epoch's draws."""
        problem = self.problem
        ratings, drawing = problem.ratings, problem.drawing
        drawn = np.empty(len(rows) * drawing.n_negatives, np.int64)
        loss = float(kernels.gradient(w, ratings, drawing, rows, self.epoch, out, drawn))
        users = np.unique(ratings.users[rows]).astype(np.int64)
        items = np.concatenate([ratings.items[rows].astype(np.int64), drawn])
        lines = np.concatenate([users, np.unique(items) + problem.n_users])[:, np.newaxis]
        return loss, (lines * problem.width + np.arange(problem.width)).ravel()


class PreferencePass(PreferenceGradient):
    """A worker's function for `advance`; `begin` sets the epoch whose draws the function uses."""

    def __call__(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:  # type: ignore[override]
        """Take steps in `w` as `PreferenceProblem.advance` does, with this epoch's draws."""
        problem = self.problem
        of_rows = problem.ratings, problem.drawing, rows
        return float(kernels.advance(w, *of_rows, self.epoch, eta))


@missed_calls.counted
def preferences(
    users: Any,
    items: Any,
    shape: tuple[int, int] | None = None,
    *,
    n_factors: int = 8,
    biases: bool = True,
    loss: str = PAIRWISE,
    negatives: int = 1,
    sampling: str = "uniform",
    alpha: float = 1.0,
    bias_alpha: float = 1.0,
    nonnegative: bool = False,
    dtype: Any = np.float32,
    seed: int = 0,
) -> PreferenceProblem:
    """State the preferences of users for items as a problem: clicks, purchases, plays.

    A pair is a user and an item that this user has chosen. In every epoch some items that the user
    has never chosen are drawn for each pair. The objective is the following sum, divided by the
    number of pairs::

        sum over pairs of their losses
            + alpha / 2 (|P|^2 + |Q|^2) + bias_alpha / 2 (|b|^2 + |c|^2)

    The prediction for user u and item i is ``z_ui = mean + b_u + c_i + p_u . q_i``. The losses of a
    pair (u, i) and of each item j that is drawn for the pair are

    - "bpr": ``log(1 + exp(z_uj - z_ui))``;
    - "logistic": ``log(1 + exp(-z_ui))`` once, and ``log(1 + exp(z_uj))``.

    Parameters
    ----------
    users, items : array-like of int of shape (n_pairs,)
        User and item of each pair, numbered from 0; they are copied. A repeated pair counts each
        time.
    shape : (int, int) or None, default=None
        Number of users and number of items; by default the largest numbers that occur, plus one.
    n_factors : int, default=8
        Number of factors in each p_u and q_i. If 0, the model has only biases.
    biases : bool, default=True
        Whether the model has biases b and c, and for "logistic" also a mean.
    loss : {"bpr", "logistic"}, default="bpr"
        Loss of a pair, as above.
    negatives : int, default=1
        Number of items that are drawn for each pair.
    sampling : {"uniform", "popularity"}, default="uniform"
        Distribution of the drawn items. "uniform": all items that the user has not chosen are
        equally likely. "popularity": an item is drawn in proportion to the number of pairs that
        contain it. If 16 such draws give only items that the user has chosen, the next draw is
        uniform.
    alpha, bias_alpha : float, default=1.0
        Strength of the penalty on factors, and strength of the penalty on biases.
    nonnegative : bool, default=False
        Whether the factors (not the biases) must be at least 0.
    dtype : dtype, default=float32
        Type of the vector: float32 or float64.
    seed : int, default=0
        Seed for the draws. A draw depends only on the seed, the epoch and the pair.

    Returns
    -------
    PreferenceProblem
        A problem like the result of `hogshare.problems.factorisation`. Its `objective` uses the
        same draws in each call.

    Raises
    ------
    TypeError, ValueError
        If there are no pairs, if some pairs are outside the matrix, or if an argument is out of
        its range.

    Notes
    -----
    Source: Rendle et al. 2009, "BPR: Bayesian personalized ranking from implicit feedback".
    Departures: (1) an item that the user has chosen is never drawn for the user; (2) initial biases
    are fitted to the frequencies of items; (3) the penalty on the factors of a user or an item is a
    ridge (see `hogshare.problems.factorisation`).

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import Shared, problems, solve
    >>> rng = np.random.default_rng(0)
    >>> users = np.repeat(np.arange(100), 10)
    >>> items = rng.integers(20, size=1000) + 20 * (users % 2)  # two tastes
    >>> problem = problems.preferences(users, items, n_factors=2, alpha=0.1)
    >>> report = solve(problem, plane=Shared(exchange=None), step=0.2, stop=20, seed=0)
    >>> _, P, _, Q = problem.split(report.model.params)
    >>> bool((P @ Q.T)[0, :20].mean() > (P @ Q.T)[0, 20:].mean())
    True
    """
    ranges.whole(1, negatives=negatives)
    for name, value, known in (("loss", loss, LOSSES), ("sampling", sampling, SAMPLING)):
        if value not in known:
            raise ValueError(
                f"{name} must be one of {list(known)}; got {value!r}.{nearest(value, known)}"
            )
    form = checked_form(
        FactorisationForm(n_factors, biases, POINTWISE, alpha, bias_alpha, nonnegative), dtype
    )
    if not np.size(users):
        raise ValueError("There are no pairs: at least one is needed.")
    lines = checked_lines(users, items, np.size(users), shape)
    counts = tuple(np.bincount(line, minlength=n) for line, n in lines)
    draws = PairDraws(loss, int(negatives), sampling, int(seed))
    values = np.ones(len(lines[0][0]), dtype)
    return build_preferences((lines[0][0], lines[1][0]), values, counts, form, draws)


class PairDraws(NamedTuple):
    """The settings of the draws, and the loss; the fields are arguments of `preferences`."""

    loss: str
    negatives: int
    sampling: str
    seed: int


def build_preferences(
    lines: tuple[np.ndarray, np.ndarray],
    values: np.ndarray,
    counts: tuple[np.ndarray, ...],
    form: FactorisationForm,
    draws: PairDraws,
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> PreferenceProblem:
    """Make the problem of checked pairs.

    lines : user numbers and item numbers of the pairs
    values : ratings of the pairs, from 0 to 1, in the vector's dtype
    counts : number of pairs of each user, and of each item
    known : the result of `met_by_users` for a larger set of pairs, or None for these pairs
    """
    users, items = lines
    # with biases at 0 the mean predicts `negatives` drawn pairs for every chosen pair
    pairwise = draws.loss == PAIRWISE
    mean = -float(np.log(draws.negatives)) if form.biases and not pairwise else 0.0
    ratings = build(users, items, values, counts, form, mean, draws.seed).ratings
    begins, items_of = known if known is not None else met_by_users(users, items, counts)
    by_popularity = int(draws.sampling == "popularity")
    drawn = frozen(begins), frozen(items_of), draws.negatives, by_popularity
    return PreferenceProblem(ratings, Drawing(*drawn, int(pairwise), draws.seed))


def met_by_users(
    users: np.ndarray, items: np.ndarray, counts: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return where each user's items begin, and the items: by user, sorted, without repeats."""
    n_items = len(counts[1])
    pairs = np.unique(users.astype(np.int64) * n_items + items)
    begins = np.searchsorted(pairs, np.arange(len(counts[0]) + 1) * n_items)
    return begins.astype(np.int64), (pairs % n_items).astype(np.uint32)
