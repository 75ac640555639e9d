"""Preferences: who has met what, against what is drawn among all that they have not met.

Who writes: nobody after `__init__`; workers read the problem's own copies.
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
EVALUATED = (1 << 31) - 1  # the epoch whose draws the objective is of
EDGE_SHARE = 0.2
NEWTON = 30  # steps to the items' first biases, which have long come to an end


class PreferenceProblem(FactorisationProblem):
    """Pairs that have met and what is drawn for each; `hogshare.problems.preferences` makes one.

    Attributes
    ----------
    drawing : Drawing
        What is drawn for each pair, as kernels read it.
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
        """Numbers that a pass over the pairs touches."""
        return super().nnz * (1 + self.drawing.n_negatives)

    def for_worker(self, me: int) -> PreferenceGradient:
        """The gradient, with the draws of the epoch in hand."""
        return PreferenceGradient(self)

    def advance_for_worker(self, me: int) -> PreferencePass:
        """The pass, with the draws of the epoch in hand."""
        return PreferencePass(self)

    def advance(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:
        """Take a step for each pair, with the draws that the objective is of."""
        return PreferencePass(self)(w, rows, eta)

    def gradient(
        self, w: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """The sum over some pairs, with the draws that the objective is of."""
        return PreferenceGradient(self)(w, rows, out)

    def _sum_of_losses(self, w: np.ndarray) -> float:
        return float(kernels.sum_of_losses(frozen(w), self.ratings, self.drawing, EVALUATED))

    def noise_edge(self, params: np.ndarray | None = None) -> float:
        """A penalty that suits most sets, as `FactorisationProblem.noise_edge` but for its size.

        Most of what is drawn is far from what a user likes and says little, so that chance is less
        than as many coins'. Of 0.05, 0.1, 0.2, 0.4 and 0.8 times those this one's recall at 20 was
        the best or within 5 % of it, by either loss, on three sets of 90,000 to 160,000 pairs.
        """
        return EDGE_SHARE * super().noise_edge(params)

    @once
    def _fitted_biases(self) -> np.ndarray:
        """Biases that say how often each item is met, as far as the draws do not say it.

        Of an item that is met n times and drawn m times the loss is least, without factors, where
        the prediction is the logarithm of n / m; of the pairwise loss these are the strengths of
        Bradley and Terry's model.
        """
        found = np.zeros(self.n_users + self.n_items)
        met = self._counts[self.n_users :].astype(np.float64)
        if self.drawing.by_popularity:
            return found  # drawn as often as met, in proportion
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
        """What it is, as plain data, for reports."""
        drawing = self.drawing
        return {
            **super().facts(),
            "loss": PAIRWISE if drawing.pairwise else POINTWISE,
            "negatives": drawing.n_negatives,
            "sampling": SAMPLING[drawing.by_popularity],
        }


class PreferenceGradient:
    """Gradients of a worker: who begins a block says of which epoch it is."""

    def __init__(self, problem: PreferenceProblem) -> None:
        self.problem, self.epoch = problem, EVALUATED

    def begin(self, claim: BlockClaim) -> None:
        """Draw as the claim's epoch does."""
        self.epoch = claim.epoch

    def __call__(
        self, w: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """As `PreferenceProblem.gradient`."""
        problem = self.problem
        ratings, drawing = problem.ratings, problem.drawing
        drawn = np.empty(len(rows) * drawing.n_negatives, np.int64)
        loss = float(kernels.gradient(w, ratings, drawing, rows, self.epoch, out, drawn))
        users = np.unique(ratings.users[rows]).astype(np.int64)
        items = np.concatenate([ratings.items[rows].astype(np.int64), drawn])
        lines = np.concatenate([users, np.unique(items) + problem.n_users])[:, np.newaxis]
        return loss, (lines * problem.width + np.arange(problem.width)).ravel()


class PreferencePass(PreferenceGradient):
    """Passes of a worker, as `PreferenceGradient`."""

    def __call__(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:  # type: ignore[override]
        """As `PreferenceProblem.advance`."""
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
    """State what users prefer, from what they have met: clicks, purchases, plays.

    For each pair some items are drawn in every epoch that its user has never met. What is minimised
    is, over the number of pairs::

        sum over pairs of their losses
            + alpha / 2 (|P|^2 + |Q|^2) + bias_alpha / 2 (|b|^2 + |c|^2)

    with, for a pair (u, i) and each drawn j, ``z_ui = mean + b_u + c_i + p_u . q_i`` and

    - "bpr": ``log(1 + exp(z_uj - z_ui))``;
    - "logistic": ``log(1 + exp(-z_ui))`` once, and ``log(1 + exp(z_uj))``.

    Parameters
    ----------
    users, items : array-like of int of shape (n_pairs,)
        Who has met what, counted from 0. A pair that is there twice counts twice.
    shape : (int, int) or None, default=None
        How many users and items there are; None: as far as the numbers go.
    n_factors : int, default=8
        Numbers of p_u and of q_i; 0: biases alone.
    biases : bool, default=True
        Whether there are b and c, and for "logistic" a mean.
    loss : {"bpr", "logistic"}, default="bpr"
    negatives : int, default=1
        Items that are drawn for each pair.
    sampling : {"uniform", "popularity"}, default="uniform"
        Whether all items that a user has not met are drawn alike, or each as often as it is met by
        others. After 16 draws by popularity that the user has met, one is drawn uniformly.
    alpha, bias_alpha : float, default=1.0
        Strengths of the penalties on factors and biases.
    nonnegative : bool, default=False
        Whether the factors (not the biases) are to be at least 0.
    dtype : dtype, default=float32
        Of the vector: float32 or float64.
    seed : int, default=0
        Of the draws, which depend on it, on the epoch and on the pair alone.

    Returns
    -------
    PreferenceProblem
        As of `hogshare.problems.factorisation`. Its `objective` is of one fixed draw.

    Raises
    ------
    TypeError, ValueError
        If there are no pairs, some lie outside of the matrix, or an argument is out of its range.

    Notes
    -----
    Source: Rendle et al. 2009, "BPR: Bayesian personalized ranking from implicit feedback".
    Departures: what is drawn is never a pair that has met, biases begin at how often items are met,
    and a line's penalty is a ridge (see `hogshare.problems.factorisation`).

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
    """What is drawn for each pair, and by which loss; as of `preferences`."""

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
    """The problem of pairs that have been checked.

    values : ratings of the pairs, from 0 to 1, in the vector's type
    known : begins and sorted items of what each user has met, if that is more than these pairs
    """
    users, items = lines
    # biases and draws balance: without factors a drawn pair is met as often as one is drawn
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
    """What each user has met, sorted and each once: where it begins, and the items."""
    n_items = len(counts[1])
    pairs = np.unique(users.astype(np.int64) * n_items + items)
    begins = np.searchsorted(pairs, np.arange(len(counts[0]) + 1) * n_items)
    return begins.astype(np.int64), (pairs % n_items).astype(np.uint32)
