"""The kind of ratings: explicit ratings of items, or implicit feedback.

Implicit feedback consists of pairs of a user and an item that *have met*: the user has clicked,
bought or played the item, without a rating.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hogshare.problems.preferences import PAIRWISE, POINTWISE
from hogshare.system.callers import warn

AUTO, ALTERNATING, STEPS = "auto", "als", "sgd"
# Number of items drawn for each pair with negatives="auto".
NEGATIVES = {PAIRWISE: 1, POINTWISE: 4}
FACTORS = {ALTERNATING: 64, STEPS: 8}
HAVE_MET = (
    "All {n:,} ratings are {value:g}, and are taken for pairs of users and items that have met, "
    "such as clicks or purchases, since no item is rated lower. They are fitted {how}. To confirm "
    "this pass ratings=None; to fit them as ratings set {otherwise}."
)


class Feedback(NamedTuple):
    """The method by which ratings are fitted.

    solver : "als" or "sgd"
    negatives : number of items drawn for each pair in every epoch; 0 for explicit ratings
    values : ratings, or strengths of pairs that have met, in float64, of shape (n_ratings,)
    unit : the given value of each rating if all are equal and fitted as 1; 1.0 otherwise
    """

    solver: str
    negatives: int
    values: np.ndarray
    unit: float = 1.0

    @property
    def is_implicit(self) -> bool:
        """Whether ratings are fitted as pairs that have met."""
        return self.solver == ALTERNATING or self.negatives > 0


def feedback_of(model: Any, values: np.ndarray | None, n: int, is_part: bool = False) -> Feedback:
    """Return how an estimator with these parameters fits ratings; warn if all ratings are equal.

    model : the estimator
    values : the ratings; None for pairs alone
    n : number of pairs
    is_part : whether further ratings may follow and differ from these

    Raises
    ------
    ValueError
        If the parameters do not suit the ratings.
    """
    alone = values is None
    given = np.ones(n) if values is None else values
    alike = alone or (n > 1 and not is_part and 0.0 < given.min() == given.max())
    solver = _solver_of(model, alike and not is_part, given)
    negatives = _negatives_of(model, alike)
    if model.loss == PAIRWISE and given.min() != given.max():
        raise ValueError(
            "loss='bpr' takes pairs that have met, without ratings, but these ratings differ: "
            "select the pairs that count, such as those rated at least 4, and pass ratings=None."
        )
    if alone and model.loss == "squared_error" and solver == STEPS:
        raise ValueError(
            "solver='sgd' with loss='squared_error' fits ratings, but ratings is None: pass them, "
            "or use loss='bpr', loss='logistic', or solver='als'."
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
            f"no rating is positive (the largest is {given.max():g}), so no pair has met: pass the "
            "pairs that have met, with positive ratings or with ratings=None."
        )
    if alike and implicit:
        return Feedback(solver, negatives, np.ones(n), float(given[0]))  # equal ratings count as 1
    return Feedback(solver, negatives, given)


def _negatives_of(model: Any, alike: bool) -> int:
    """Return the number of items to draw for each pair."""
    if model.loss not in NEGATIVES:
        return 0
    if model.negatives == AUTO:
        return NEGATIVES[model.loss] if alike or model.loss == PAIRWISE else 0
    if model.loss == PAIRWISE and model.negatives == 0:
        raise ValueError(
            "negatives=0, but loss='bpr' compares with drawn items: use 1 or more, or 'auto'."
        )
    return int(model.negatives)


def _solver_of(model: Any, alike: bool, values: np.ndarray) -> str:
    """Return the solver, "als" or "sgd"; refuse parameters that "als" does not support."""
    if model.solver == AUTO:
        solver = ALTERNATING if alike and model.loss == "squared_error" else STEPS
    else:
        solver = model.solver
    if solver == STEPS:
        return STEPS
    because = ""
    if model.solver == AUTO:
        because = " (the choice of solver='auto' for pairs; solver='sgd' fits ratings)"
    if model.loss != "squared_error":
        raise ValueError(f"solver='als' fits loss='squared_error', not {model.loss!r}.")
    if model.nonnegative:
        raise ValueError(
            f"solver='als'{because} does not bound factors: nonnegative=True needs loss='bpr' or "
            "loss='logistic'."
        )
    for name in ("plane", "barrier"):
        if getattr(model, name) is not None:
            raise ValueError(
                f"solver='als'{because} solves rows in threads and has no {name}: use "
                f"{name}=None, or loss='bpr' or loss='logistic'."
            )
    if model.runtime not in (AUTO, "threads", "caller"):
        raise ValueError(
            f"solver='als'{because} runs in threads and supports no runtime={model.runtime!r}: use "
            "runtime='auto', or loss='bpr' or loss='logistic'."
        )
    if values.min() < 0.0:
        raise ValueError(
            f"solver='als' takes ratings that say how often or how long pairs have met, which must "
            f"not be negative; got {values.min():g}. Leave out disliked items."
        )
    return ALTERNATING


def _warn_of(model: Any, values: np.ndarray, solver: str, negatives: int) -> None:
    """Warn how ratings that are all equal are fitted."""
    if solver == STEPS and not negatives:
        if values[0] <= 0.0:
            warn(f"All {len(values):,} ratings are {values[0]:g}: no item is rated higher.")
            return
        warn(
            f"All {len(values):,} ratings are {values[0]:g}: no item is rated lower. If they are "
            "clicks or purchases, pass ratings=None, or use solver='als', loss='bpr', or "
            "loss='logistic' with negatives.",
        )
        return
    if model.loss == PAIRWISE or model.solver == ALTERNATING:
        return  # the parameters already request pairs that have met
    how = "by solver='als' against all other pairs"
    otherwise = "solver='sgd'"
    if negatives:
        how = f"with {negatives} drawn items for each, which its user has not met"
        otherwise = "negatives=0"
    warn(HAVE_MET.format(n=len(values), value=values[0], how=how, otherwise=otherwise))
