"""What ratings say: how much something is liked, or only that somebody has met it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hogshare.problems.preferences import PAIRWISE, POINTWISE
from hogshare.system.callers import warn

AUTO, ALTERNATING, STEPS = "auto", "als", "sgd"
# Items that are drawn for each pair, where that is left to us.
NEGATIVES = {PAIRWISE: 1, POINTWISE: 4}
FACTORS = {ALTERNATING: 64, STEPS: 8}
HAVE_MET = (
    "All {n:,} ratings are {value:g}, and are taken for pairs of users and items that have met, "
    "such as clicks or purchases: nothing says what is liked less. They are fitted {how}. "
    "Leave ratings out (ratings=None) to say so, or set {otherwise} to fit them as they are."
)


class Feedback(NamedTuple):
    """How ratings are to be fitted.

    solver : "als" or "sgd"
    negatives : items that are drawn for each pair in every epoch; 0: none
    values : float64 (n_ratings,), ratings, or strengths where pairs have met
    unit : of ratings that are all the same and count as 1
    """

    solver: str
    negatives: int
    values: np.ndarray
    unit: float = 1.0

    @property
    def is_implicit(self) -> bool:
        """Whether who has met what is all that is asked."""
        return self.solver == ALTERNATING or self.negatives > 0


def feedback_of(model: Any, values: np.ndarray | None, n: int, is_part: bool = False) -> Feedback:
    """What an estimator's parameters make of ratings.

    values : None of pairs alone
    n : how many
    is_part : whether there may be more, which differ from these

    Raises
    ------
    ValueError
        If parameters and ratings do not go together.
    """
    alone = values is None
    given = np.ones(n) if values is None else values
    alike = alone or (n > 1 and not is_part and 0.0 < given.min() == given.max())
    solver = _solver_of(model, alike and not is_part, given)
    negatives = _negatives_of(model, alike)
    if model.loss == PAIRWISE and given.min() != given.max():
        raise ValueError(
            "loss='bpr' takes pairs that have met, and these ratings differ: choose those that "
            "count, such as ratings of at least 4, and leave their ratings out."
        )
    if alone and model.loss == "squared_error" and solver == STEPS:
        raise ValueError(
            "solver='sgd' with loss='squared_error' fits ratings, and there are none: give them, "
            "or take loss='bpr' or loss='logistic', or fit by solver='als'."
        )
    if (
        n > 1
        and not alone
        and given.min() == given.max()
        and not (is_part and solver == STEPS and model.loss == "squared_error")
    ):
        _warn_of(model, given, solver, negatives)
    implicit = negatives > 0 or solver == ALTERNATING
    if implicit and not given.max() > 0.0:
        raise ValueError(
            f"ratings go up to {given.max():g}, so that nobody has met anything: give what has "
            "been met, with ratings above 0 or without."
        )
    if alike and implicit:
        return Feedback(solver, negatives, np.ones(n), float(given[0]))
    return Feedback(solver, negatives, given)


def _negatives_of(model: Any, alike: bool) -> int:
    """Items to be drawn for each pair."""
    if model.loss not in NEGATIVES:
        return 0
    if model.negatives == AUTO:
        return NEGATIVES[model.loss] if alike or model.loss == PAIRWISE else 0
    if model.loss == PAIRWISE and model.negatives == 0:
        raise ValueError("loss='bpr' compares with what is drawn: negatives must be 1 or more.")
    return int(model.negatives)


def _solver_of(model: Any, alike: bool, values: np.ndarray) -> str:
    """Which solver fits, "als" or "sgd"; refuses what "als" does not do."""
    if model.solver == AUTO:
        solver = ALTERNATING if alike and model.loss == "squared_error" else STEPS
    else:
        solver = model.solver
    if solver == STEPS:
        return STEPS
    because = ""
    if model.solver == AUTO:
        because = " (to which solver='auto' takes pairs; solver='sgd' fits ratings as they are)"
    if model.loss != "squared_error":
        raise ValueError(f"solver='als' fits loss='squared_error', not {model.loss!r}.")
    if model.nonnegative:
        raise ValueError(
            f"solver='als'{because} does not bound factors: nonnegative=True goes with "
            "loss='bpr' or loss='logistic'."
        )
    for name in ("plane", "barrier"):
        if getattr(model, name) is not None:
            raise ValueError(
                f"solver='als'{because} solves rows in threads and has no {name}: leave {name} "
                "out, or take loss='bpr' or loss='logistic'."
            )
    if model.runtime not in (AUTO, "threads", "caller"):
        raise ValueError(
            f"solver='als'{because} runs in threads and takes no other runtime: take "
            "runtime='auto', or loss='bpr' or loss='logistic'."
        )
    if values.min() < 0.0:
        raise ValueError(
            f"solver='als' takes how often or how long pairs have met, and ratings go down to "
            f"{values.min():g}: leave out what is disliked."
        )
    return ALTERNATING


def _warn_of(model: Any, values: np.ndarray, solver: str, negatives: int) -> None:
    """Say what ratings that are all one value are taken for."""
    if solver == STEPS and not negatives:
        if values[0] <= 0.0:
            warn(f"All {len(values):,} ratings are {values[0]:g}: nothing says what is liked more.")
            return
        warn(
            f"All {len(values):,} ratings are {values[0]:g}: nothing says what anybody would like "
            "less. If they are clicks or purchases, leave ratings out, or take solver='als', "
            "loss='bpr', or loss='logistic' with negatives.",
        )
        return
    if model.loss == PAIRWISE or model.solver == ALTERNATING:
        return  # which ask for nothing else
    how = "by solver='als' against all other pairs"
    otherwise = "solver='sgd'"
    if negatives:
        how = f"with {negatives} items drawn for each that its user has not met"
        otherwise = "negatives=0"
    warn(HAVE_MET.format(n=len(values), value=values[0], how=how, otherwise=otherwise))
