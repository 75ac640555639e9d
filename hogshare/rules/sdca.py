"""SDCA: stochastic dual coordinate ascent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hogshare.kernels.rules import losses
from hogshare.rules.protocol import Rule
from hogshare.rules.row_memory import (
    Duals,
    RowMemory,
    check_remembering,
    longest_intercept,
    neutral,
    smoothness_of,
)
from hogshare.rules.run_choices import OtherChoices
from hogshare.rules.steps import StepSize
from hogshare.system.messages import own

if TYPE_CHECKING:
    from hogshare.problems.protocol import RowProblem


@dataclass(frozen=True)
class SDCA(Rule):
    """Stochastic dual coordinate ascent, row by row, without a step size or lasting noise.

    Every row has one dual variable per column. A step on a row solves the row's own part of the
    problem, with all other variables fixed. The penalty must have an l2 part, whose strength
    replaces the step size. A run must start from zero, or from a model of SDCA or SAGA on the same
    rows. The rule is fast if there are as many features as rows, as in text, or if
    ``mean |x|^2 / (alpha n)`` is at most a few units; see ``docs/auto.md``.

    Source: Shalev-Shwartz and Zhang 2013 (SDCA) and 2014 (Prox-SDCA, for the elastic net). The
    first epoch begins like their "SDCA with SGD initialization", but with several rows, whose
    number depends on the length of a row's step. This is omitted for losses with kinks. Several
    workers have private copies with an exchange. Each worker carries the changes that an exchange
    withholds.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import SDCA, Stop, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = solve(problems.linear(scale(X), y, alpha=0.1), rule=SDCA(), stop=Stop(epochs=20))
    >>> report.settings["rule"]["name"]
    'SDCA'
    """

    memory: ClassVar[RowMemory] = Duals()
    has_kernels: ClassVar[bool] = True
    remembers: ClassVar[bool] = True
    is_sum: ClassVar[bool] = True
    interleaves_windows: ClassVar[bool] = True

    def check(self, chosen: OtherChoices) -> None:
        """Raise an error for problems without a dual, and for starts that are no sum over rows."""
        super().check(chosen)
        problem, start = check_remembering("SDCA", chosen), chosen.start
        if chosen.plane.is_lock_free:
            raise ValueError(
                "SDCA needs private copies: use Shared() instead of exchange=None, or SAGA()."
            )
        if problem.loss in losses.COUPLED:
            raise ValueError(
                "SDCA moves one column of a row at a time, and "
                f"loss={problem.loss!r} couples them; use SAGA() or SGD(), or loss='log_loss' for "
                "each class against all others."
            )
        if problem.l2 == 0.0:
            raise ValueError(
                "SDCA needs an l2 part in the penalty: use penalty='l2', or 'elasticnet' with "
                "l1_ratio < 1, and alpha > 0; or SAGA()."
            )
        if start is not None and start.memory is None and not start.is_zero():
            raise ValueError(
                "SDCA starts from zero, or from a model of SDCA or SAGA on the same rows: its "
                "model is a sum over the rows' dual variables, which this start model does not "
                "have (memory)."
            )

    def numbers(self, problem: RowProblem, l1: float, n_rows: int, empty: bool) -> dict[str, Any]:
        """Return the numbers for kernels; `fewest_rows` is used only in a run from zero."""
        smoothness = smoothness_of(problem)
        numbers = neutral(problem.loss, n_rows) | {
            "method": self.memory.method,
            "dual_scale": (1.0 - l1) * problem.alpha * n_rows,
            "threshold": l1 / (1.0 - l1),
            "intercept_step": longest_intercept(problem) / (3.0 * smoothness),
        }
        if empty and problem.loss not in losses.KINKED:
            reach = problem.sampled_norms[0] / numbers["dual_scale"] + numbers["intercept_step"]
            numbers["fewest"] = fewest_rows(smoothness * reach)
        return numbers

    def schedule(self, step: StepSize) -> dict[str, Any] | None:
        """Return None: SDCA has no step size."""
        return None

    def remedy(self, step: StepSize) -> str:
        """Return the setting that makes SDCA's steps smaller."""
        return f"{own('a larger alpha')} (SDCA has no step size; the l2 penalty takes its place)"


def fewest_rows(reach: float) -> float:
    """Return the least share of rows from which a first epoch extrapolates SDCA's model.

    In a first epoch, the model is extrapolated from the visited rows to all rows. For this purpose
    at least this share of the rows counts as visited.

    reach : reach of the mean row (`hogshare.rules.automatic_rule`), including the intercept's step

    If rows are short relative to the penalty, their dual variables depend little on each other, and
    a few rows predict the sum over all rows well. From a reach of 1 on, the first rows predict too
    large a sum, and magnify steps that other rows would have undone.
    """
    return min(1.0, math.sqrt(reach))
