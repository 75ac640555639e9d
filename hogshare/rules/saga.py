"""SAGA: stochastic average gradients, and the lengths of their steps.

`docs/auto.md` has the derivation of the numbers, and `docs/tried/2026-11/auto.md` has the
measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hogshare.kernels.rules import losses
from hogshare.planes.protocol import Plane
from hogshare.problems.linear.row_arrays import exceeds_memory
from hogshare.rules.protocol import Rule
from hogshare.rules.row_memory import (
    GradientTable,
    RowMemory,
    check_remembering,
    longest_intercept,
    neutral,
    smoothness_of,
)
from hogshare.rules.run_choices import OtherChoices
from hogshare.rules.steps import StepSize
from hogshare.system import ranges
from hogshare.system.messages import own

if TYPE_CHECKING:
    from hogshare.problems.protocol import RowProblem

# Share of an epoch in which SAGA's step is constant before it falls. Without a constant part, the
# step begins at twice its mean. This is too long if the mean is already 2 / (3 L). Such means occur
# (1) for the largest rows if rows are drawn by importance, and (2) with stretched steps.
LEVEL = 0.8
# If rows are drawn by importance and one row has at least the share HEAVY of all squared norms,
# SAGA's step is shorter, by the factor CAUTION: that row is drawn many times between two visits of
# the other rows.
HEAVY, CAUTION = 0.05, 0.75
FALLS = 8  # number of epochs in which the step falls if the loss has kinks; most rows then settle
# With at least TALL rows per feature, steps for losses with kinks are shortest. With fewer rows,
# they are longer, by at most the factor LONGEST_KINKED.
TALL, LONGEST_KINKED = 100.0, 6.0


@dataclass(frozen=True)
class SAGA(Rule):
    """Stochastic average gradients, row by row; steps have no lasting noise.

    The rule remembers, for every row, the derivative of the loss at the row's last visit. If the
    loss has kinks, it remembers the derivative at the row's proximal point (Point-SAGA). The rule
    supports any loss and any penalty. SAGA is faster than `SDCA` if there are many rows relative to
    features, unless ``mean |x|^2 / (alpha n)`` is small; see ``docs/auto.md``.

    Source: Defazio et al. 2014. Source for sparse rows: Leblond et al. 2017 (ASAGA) and Pedregosa
    et al. 2017 (ProxASAGA). Source for losses with kinks: Defazio 2016 (Point-SAGA). Several
    workers have private copies with an exchange. With ``Shared(exchange=None)`` they have one
    shared vector without locks, as in these papers.

    Parameters
    ----------
    step : float or None, default=None
        Constant step size, as in the papers. By default the step size is automatic.

        Let L be a bound of the curvature of a row's loss with respect to the model. The automatic
        step is on average 1 / (3 L) with the L of the mean row, but at most 1 / (2 L) with the L of
        the largest row. This step falls within every epoch, to leave little noise at the end of the
        epoch. It is halved whenever the change of the table in an epoch continues to grow.

        If the loss has kinks, the first step is one third to six thirds, divided by the squared
        norm of the mean row (and, for a regression, multiplied by the median distance of the
        targets from their median). The step falls within each of the first eight epochs, and with
        the cube root of their number. Then it is constant at half of the first step. A run that
        begins with a model begins with the constant step.
    sampling : {"uniform", "importance"}, default="uniform"
        How often rows are visited. "uniform": all rows equally often. "importance": half of the
        visits are distributed equally over all rows, and half in proportion to L of each row. So
        large rows are visited often, with small steps. With "importance" the automatic step is
        ``1 / (3 L)`` with the L of the mean row, even if rows are uneven (Schmidt et al. 2015). It
        is three quarters of this step if one row has more than a twentieth of the sum of squared
        norms.
    replace : bool, default=False
        Whether every visit is drawn independently, as in the papers. Otherwise an epoch is a
        permutation of the rows; with "importance", the number of visits of a row in an epoch
        differs from the row's share by at most one.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import SAGA, Stop, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = solve(problems.linear(scale(X), y, alpha=0.01), rule=SAGA(), stop=Stop(epochs=20))
    >>> report.settings["rule"]["name"]
    'SAGA'
    """

    step: float | None = None  # type: ignore[assignment]
    sampling: str = "uniform"
    replace: bool = False
    memory: ClassVar[RowMemory] = GradientTable()
    has_kernels: ClassVar[bool] = True
    remembers: ClassVar[bool] = True
    reads_neighbours: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.sampling, str) or self.sampling not in ("uniform", "importance"):
            raise ValueError(f"sampling must be 'uniform' or 'importance'; got {self.sampling!r}.")
        if self.step is not None:
            ranges.positive(step=self.step)
        ranges.flag(replace=self.replace)

    def check(self, chosen: OtherChoices) -> None:
        """Raise an error if rows are to be drawn but have a given order or are in a large file."""
        super().check(chosen)
        problem = check_remembering("SAGA", chosen)
        if self.draws and not chosen.shuffle:
            raise ValueError(
                f"{self} draws rows at random; leave shuffle=False out, or use SAGA() for the "
                "rows in their order."
            )
        if self.draws and exceeds_memory(problem.rows):
            raise ValueError(
                f"{self} visits rows in a fully random order, and these are in a file larger than "
                "half the free memory; use SAGA(), which reads neighbours together."
            )

    def check_simulated(self, plane: Plane) -> None:
        """Raise an error for one vector without locks, which SAGA reads and writes row by row."""
        if plane.is_lock_free:
            raise ValueError(
                "SAGA reads and writes the one vector of Shared(exchange=None) row by row, and a "
                "Simulator block by block: use SAGA() with private copies, plane=Shared()."
            )

    def knows_units(self, chosen: OtherChoices) -> bool:
        """Return whether copies are private and no check evaluates the model during the run."""
        return chosen.plane.has_copies and not chosen.stop.has_checks

    def numbers(self, problem: RowProblem, l1: float, n_rows: int, empty: bool) -> dict[str, Any]:
        """Return the numbers for kernels that describe SAGA's memory and steps."""
        return neutral(problem.loss, n_rows) | step_numbers(self, problem, empty)

    def schedule(self, step: StepSize) -> dict[str, Any] | None:
        """Return SAGA's step size as plain data; the step falls unless `step` has been passed."""
        return {"kind": "falls" if self.step is None else "constant"}

    def remedy(self, step: StepSize) -> str:
        """Return the setting that makes SAGA's steps smaller."""
        chosen = "a smaller step than the one chosen from the rows, SAGA(step=...),"
        return own("SAGA(step=...)", chosen)


def step_numbers(rule: SAGA, problem: RowProblem, empty: bool) -> dict[str, Any]:
    """Return the entries of `Rule.numbers` that describe SAGA's steps and are not neutral."""
    mean, largest = problem.norms
    share = intercept_share(problem, mean)
    numbers: dict[str, Any] = {"method": rule.memory.method, "intercept_step": share}
    if rule.step is not None:
        return numbers | {"saga_step": rule.step, "falls": 0}
    if not math.isfinite(mean):  # the step would be zero, and the model would not change
        problem.require_norms()
    is_uniform = rule.sampling == "uniform"
    numbers["level"] = 0.0 if is_uniform else LEVEL
    numbers["steep"] = int(empty and is_uniform)
    if problem.loss in losses.KINKED:
        first = kinked_step(problem, mean + share)
        # a run that begins with a model must not take steps that lead far away from it
        later = first * FALLS ** (-1.0 / 3.0)
        return numbers | {"saga_step": first if empty else later, "falls": FALLS if empty else 0}
    step = saga_step(rule, smoothness_of(problem), mean, largest, share)
    # at least 4 times the mean, since among few rows every row has a large share
    if not is_uniform and largest > max(HEAVY * problem.n_all, 4.0) * mean:
        step *= CAUTION
    return numbers | {"saga_step": step, "tamed": 1}


def intercept_share(problem: RowProblem, mean: float) -> float:
    """Return SAGA's step for the intercept, as a share of the step for the features.

    The step of the intercept must be at most `longest_intercept`. The step of the features is
    ``1 / (3 L)``, where L includes the intercept with its share: ``L = smoothness (mean + share)``.
    If rows are much larger than 1, the step is so short that the share is 1.
    """
    longest = longest_intercept(problem)
    return min(1.0, longest * mean / (1.0 - longest)) if longest < 1.0 else 1.0


def kinked_step(problem: RowProblem, mean: float) -> float:
    """Return the step for losses with kinks: a third of the mean row's way to the kink, or more.

    The step is longer if there are many features. With a proximal point, a step is never too long,
    for rows of any size. A longer step makes more progress, but also leaves more noise for a longer
    time. If there are many rows relative to features, an epoch makes enough progress with short
    steps (docs/auto.md).
    """
    few = TALL * problem.n_features / max(1, problem.n_all)
    way = 3.0 * problem.sharpness * mean
    return min(max(few, 1.0), LONGEST_KINKED) / max(way, 1e-300)


def saga_step(rule: SAGA, smoothness: float, mean: float, largest: float, share: float) -> float:
    """Return 1 / (3 L) with the mean row's L, but at most 1 / (2 L) with the largest row's L.

    The theory requires 1 / (3 L) with the largest row's L. In tests with a constant step of up to
    ``2 / (3 L)``, no run diverged on any set of rows. With 1 / L, runs on many sets diverged. A
    step that falls within the epoch may begin longer, see docs/auto.md. If rows are drawn by
    importance, L of a row divided by its chance is at most twice the mean. So the first bound is
    always below ``2 / (3 L)``.

    mean : mean squared norm of the rows
    largest : largest squared norm of the rows
    share : the intercept's contribution to both norms
    """
    if rule.sampling == "importance":
        largest = mean
    steps = 3.0 * smoothness * (mean + share), 2.0 * smoothness * (largest + share)
    return 1.0 / max(*steps, 1e-300)
