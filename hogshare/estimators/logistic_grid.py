"""The penalties among which `LogisticRegressionCV` chooses, from its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from hogshare.system import memory
from hogshare.system.callers import warn
from hogshare.system.ranges import meaning, whole

COPIES = 3  # arrays of the size of `Cs` while the scale is computed


@dataclass(frozen=True)
class PenaltyGrid:
    """The penalties to choose among, and the scoring."""

    Cs: np.ndarray
    ratios: list[Any]  # [None] where `l1_ratios` is None
    penalty: str
    scoring: Any
    legacy: bool


def kind_of(penalty: str, ratio: float | None) -> str:
    """Name a penalty by its parts: kernels skip the part that a pure l1 or l2 does not need."""
    if penalty != "elasticnet" or ratio is None:
        return penalty
    return {0.0: "l2", 1.0: "l1"}.get(ratio, penalty)


def settled(estimator: Any) -> PenaltyGrid:
    """Read the grid of penalties from the parameters, with scikit-learn's warnings about defaults.

    Raises
    ------
    ValueError
        If the grid is empty, or contains an invalid penalty.
    """
    est = estimator
    ratios: Any = None if isinstance(est.l1_ratios, str) else est.l1_ratios
    if isinstance(est.l1_ratios, str):
        _warn_of_change(
            "The default value for l1_ratios will change from None to (0.0,) in version 1.10; "
            "set a value, e.g. l1_ratios=(0,)."
        )
    elif est.penalty == "deprecated" and ratios is None:
        _warn_of_change(
            "'l1_ratios=None' was deprecated in version 1.8 and will trigger an error in 1.10. Use "
            "an array-like with values in [0, 1] instead."
        )
    if est.penalty == "deprecated":
        with meaning("l1_ratios must be numbers between 0 and 1"):
            shares = np.unique(np.asarray([0.0] if ratios is None else ratios, float)).tolist()
        penalty = {(0.0,): "l2", (1.0,): "l1"}.get(tuple(shares), "elasticnet")
    else:
        penalty = est.penalty
        _warn_of_change(
            "'penalty' was deprecated in version 1.8 and will be removed in 1.10. Use "
            "l1_ratios=(0,) instead of penalty='l2', l1_ratios=(1,) instead of penalty='l1', "
            "l1_ratios set to floats between 0 and 1 instead of penalty='elasticnet', and "
            "Cs=(np.inf,) instead of penalty=None."
        )
        if penalty != "elasticnet" and ratios is not None:
            warn(
                "l1_ratios parameter is only used when penalty is 'elasticnet'. Got "
                f"(penalty={penalty})",
            )
    if penalty == "elasticnet":
        given = ratios is not None and len(ratios) > 0
        if not given or not all(isinstance(r, Real) and 0.0 <= float(r) <= 1.0 for r in ratios):
            raise ValueError(
                "l1_ratios must be an array-like of numbers between 0 and 1; got "
                f"(l1_ratios={ratios!r})"
            )
    if est.scoring == "warn":
        _warn_of_change(
            "The default value of the parameter 'scoring' will change from None, i.e. accuracy, to "
            "'neg_log_loss' in version 1.11; set scoring='neg_log_loss', or scoring='accuracy'."
        )
    if est.use_legacy_attributes == "warn":
        name = type(est).__name__
        _warn_of_change(
            f"The fitted attributes of {name} will be simplified in scikit-learn 1.10. Set "
            "`use_legacy_attributes=False` to have that now, or `True` to silence this warning. "
            "The default value of use_legacy_attributes will change from True to False."
        )
    if isinstance(est.Cs, Integral):
        n_cs = int(est.Cs)
        whole(1, Cs=n_cs)
        memory.require(COPIES * 8 * n_cs, f"Cs={n_cs}")
        Cs = np.logspace(-4, 4, n_cs)
    else:
        with meaning("Cs must be a number or a list of positive numbers"):
            Cs = np.asarray(est.Cs, float)
    if Cs.ndim != 1 or not Cs.size or not (Cs > 0.0).all():
        raise ValueError(f"Cs must be a number or a list of positive numbers; got {est.Cs!r}.")
    return PenaltyGrid(
        Cs,
        [None] if ratios is None else list(ratios),
        penalty,
        None if est.scoring == "warn" else est.scoring,
        est.use_legacy_attributes in ("warn", True),
    )


def _warn_of_change(text: str) -> None:
    warn(text, FutureWarning)
