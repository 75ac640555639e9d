"""Memories of rules: the numbers that a rule stores for each row of a linear problem.

By default a rule stores no such numbers. A memory declares its arrays, fills them, names the arrays
that a checkpoint stores, and repairs them after the death of a worker. `Duals` is the memory of
SDCA; `GradientTable` is the memory of SAGA.

Outside of kernels, all memories have the same form: the last known derivative of each row's loss.
For SAGA this is the table, and for SDCA the dual variables with the opposite sign. At the optimum
both are the same, so either rule can continue from the end of the other. The memory of a start
model is checked against the problem.

Workers receive the numbers of a run, but not its rule. They find the memory by its code in kernels
(`BY_METHOD`). `docs/auto.md` has the derivation of the numbers, and `docs/tried/2026-11/auto.md`
has the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rules import dual_ascent, losses, saga_steps, sgd_steps
from hogshare.kernels.shared_arrays import MemoryArrays, Schedule
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem, has_rows
from hogshare.rules.run_choices import OtherChoices
from hogshare.system.interrupts import errstate

if TYPE_CHECKING:
    from hogshare.problems.protocol import Problem, RowProblem
if TYPE_CHECKING:
    from hogshare.problems.protocol import RowProblem

# Lowest and highest derivative with respect to the prediction, for rows of a column's own class,
# with target 1 (of {0, 1} or {-1, 1}). For rows of other classes, the range is mirrored at 0.
OWN_CLASS = {
    "log_loss": (-1.0, 0.0),
    "multinomial": (-1.0, 0.0),
    "hinge": (-1.0, 0.0),
    "perceptron": (-1.0, 0.0),
    "squared_hinge": (-math.inf, 0.0),
    "modified_huber": (-4.0, 0.0),
}


def derivative_range(problem: RowProblem) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest possible derivative of each row's loss, without its weight.

    Both arrays have the shape (n_rows, n_columns).
    """
    n, columns = problem.n_rows, problem.n_columns
    if problem.loss not in OWN_CLASS:
        bound = {"huber": problem.epsilon, "epsilon_insensitive": 1.0}.get(problem.loss, math.inf)
        return np.full((n, columns), -bound), np.full((n, columns), bound)
    y = problem.rows.y[:, None]
    own = y > 0.0 if columns == 1 else y == np.arange(columns)
    low, high = OWN_CLASS[problem.loss]
    return np.where(own, low, -high), np.where(own, high, -low)


def check_start(problem: RowProblem, memory: np.ndarray) -> None:
    """Raise an error if no run on this problem can have produced a memory.

    Raises ValueError if the shape does not fit, or if a value is not finite or is not a derivative
    of the loss.
    """
    shape = (problem.n_rows, problem.n_columns)
    if np.shape(memory) != shape:
        raise ValueError(
            f"The start model remembers {np.shape(memory)} derivatives, and this problem has "
            f"{shape} rows and columns: a memory belongs to its rows. Start on the same rows, or "
            "without it (dataclasses.replace(model, memory=None))."
        )
    memory = np.asarray(memory, dtype=np.float64)
    if not np.isfinite(memory).all():
        raise ValueError(
            "The start model's memory contains NaN or infinity: start without it "
            "(dataclasses.replace(model, memory=None))."
        )
    low, high = derivative_range(problem)
    size = problem.row_sizes()[:, None]
    slack = 1e-5 * (1.0 + size)
    with errstate(invalid="ignore"):  # zero times infinity, for rows of weight 0
        low = np.where(size > 0.0, low * size, 0.0)
        high = np.where(size > 0.0, high * size, 0.0)
    wrong = (memory < low - slack) | (memory > high + slack)
    if wrong.any():
        r, c = (int(k) for k in np.argwhere(wrong)[0])
        raise ValueError(
            f"The start model's memory is not that of loss={problem.loss!r} on these rows: row {r} "
            f"has {memory[r, c]:.6g}, and the derivative of its loss is between {low[r, c]:.6g} "
            f"and {high[r, c]:.6g}. Were labels, weights or the loss changed?"
        )


def check_remembering(name: str, chosen: OtherChoices) -> RowProblem:
    """Raise an error for choices that no rule with a memory of rows supports; return the problem.

    name : name of the rule, for the message
    """
    if not has_rows(chosen.problem):
        raise ValueError(
            f"{name} remembers a number for each row of a linear problem, and this problem is "
            "known only by gradients of blocks: use SGD()."
        )
    if chosen.plane.has_master or chosen.plane.has_homes:
        raise ValueError(f"{name} needs a shared vector: use plane=Shared(), or rule=SGD().")
    if chosen.step is not None:
        raise ValueError(f"{name} has no schedule of step sizes; leave `step` out.")
    return chosen.problem


def begins_empty(start: Model | None) -> bool:
    """Return whether a rule that remembers rows begins a run with an empty memory."""
    if start is None:
        return True
    return start.memory is None and start.is_zero()


Shapes = dict[str, tuple[tuple[int, ...], str]]


class RunArrays(Protocol):
    """A run's arrays and numbers. A rule fills the arrays while no worker runs."""

    arrays: Mapping[str, np.ndarray]
    rows: RowArrays
    rule: sgd_steps.RuleNumbers
    local_workers: range
    schedule: Schedule
    memory: MemoryArrays

    def private(self, me: int) -> sgd_steps.Private:
        """Return views of the arrays of worker `me`."""
        ...


class RowMemory:
    """An empty memory, for a rule whose steps depend only on the model."""

    # code of the kernels that step with it
    method: ClassVar[int] = sgd_steps.GRADIENT
    # arrays that a checkpoint stores, the same for any number of workers
    checkpointed: ClassVar[tuple[str, ...]] = ()
    # whether there is an average over the rows in addition to the vector; workers that exchange
    # also have copies of this average, which is weighted by the rarity of features
    has_average: ClassVar[bool] = False
    # whether steps are proximal; if so, features that rows have not touched owe no l1 later
    is_proximal: ClassVar[bool] = False

    def arrays(self, problem: Problem) -> Shapes:
        """Return the shapes and dtypes, by name, of the memory's own arrays."""
        return {}

    def check(self, problem: RowProblem, memory: np.ndarray) -> None:
        """Raise an error if no run on this problem can have produced a start's memory."""
        if self.checkpointed:
            check_start(problem, memory)

    def begin(self, run: RunArrays) -> None:
        """Write the first step sizes to the run's arrays, if the memory has its own step sizes."""

    def fill(self, run: RunArrays, start: Model) -> None:
        """Fill the arrays of the memory for a start model.

        Either the values are copied from the start model, or they are the derivatives at the start
        model. For a model of zeros without a memory, the memory stays empty. The vector, the
        intercepts and the columns of the run must be filled before this call.
        """

    def sum_anew(self, run: RunArrays) -> None:
        """Recompute the sums over the rows in the run's arrays, after the death of a worker."""

    def derivatives(self, arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
        """Return the memory in the common form, of shape (n_rows, n_columns); it may be a view."""
        return None

    def intercept_step(self, numbers: sgd_steps.RuleNumbers) -> float:
        """Return the intercept's step in units of the features' step."""
        return numbers.intercept_decay

    def epochs_of_penalty(self, problem: RowProblem, numbers: sgd_steps.RuleNumbers) -> float:
        """Return a bound of the number of epochs in which the l2 part alone gains a factor of e."""
        return np.inf


def trained(arrays: Mapping[str, Any]) -> Any:
    """Return an index that selects the training rows."""
    held_out = arrays["held_out"]
    return held_out == 0 if held_out.size else slice(None)


class Duals(RowMemory):
    """SDCA's dual variables, one for each row and column; the model is a sum over them.

    In the array, each row has the time of its last visit, followed by its variables.
    """

    method: ClassVar[int] = sgd_steps.DUAL
    checkpointed: ClassVar[tuple[str, ...]] = ("dual",)
    is_proximal: ClassVar[bool] = True

    def arrays(self, problem: Problem) -> Shapes:
        """Return the shape and dtype of the array of the dual variables."""
        return {"dual": ((problem.n_rows * (1 + problem.n_columns),), problem.dtype.name)}

    def fill(self, run: RunArrays, start: Model) -> None:
        """Copy the memory of the start model, if there is one, and recompute the vector."""
        if start.memory is None:
            return
        place = trained(run.arrays)
        duals = _variables(run.arrays, run.schedule.columns.shape[1])
        duals[place] = -np.asarray(start.memory)[place]
        self.sum_anew(run)

    def sum_anew(self, run: RunArrays) -> None:
        """Recompute the vector, and the mean of the dual variables, which the intercept uses."""
        a, numbers = run.arrays, run.rule
        dual_ascent.sum_of_duals(run.rows, a["dual"], numbers.dual_scale, a["w"])
        dual_ascent.mean_of_duals(a["dual"], numbers.dual_rows, a["dual_mean"])

    def derivatives(self, arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
        """Return a copy of the dual variables, with the opposite sign."""
        return -_variables(arrays, n_columns)

    def intercept_step(self, numbers: sgd_steps.RuleNumbers) -> float:
        """Return the intercept's step in units of the features' step, which the penalty scales."""
        return numbers.intercept_step * numbers.dual_scale

    def epochs_of_penalty(self, problem: RowProblem, numbers: sgd_steps.RuleNumbers) -> float:
        """Return the bound in theorem 5 of Shalev-Shwartz and Zhang (2013)."""
        _, largest = problem.norms
        sharp = problem.sharpness if problem.loss in losses.KINKED else numbers.curvature
        weight = 1.0 if problem.loss in losses.KINKED else problem.largest_weight
        return 1.0 + sharp * weight * (largest / numbers.dual_scale + numbers.intercept_step)


def _variables(arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray:
    return arrays["dual"].reshape(-1, 1 + n_columns)[:, 1:]


class GradientTable(RowMemory):
    """SAGA's table of the derivatives of the rows' losses, and the average of gradients."""

    method: ClassVar[int] = sgd_steps.SAGA
    checkpointed: ClassVar[tuple[str, ...]] = ("gradients", "average")
    has_average: ClassVar[bool] = True
    is_proximal: ClassVar[bool] = True

    def arrays(self, problem: Problem) -> Shapes:
        """Return the shapes of the table, of its average, and of the units to compare averages."""
        n_features, n_columns = problem.n_features, problem.n_columns
        return {
            "gradients": ((problem.n_rows * n_columns,), problem.dtype.name),
            "average": ((n_features * n_columns,), "float64"),
            "units": ((2, n_features), "float64"),
        }

    def begin(self, run: RunArrays) -> None:
        """Write SAGA's step size, and the numbers by which it falls, to the run's columns."""
        columns = run.schedule.columns
        columns[layout.C_ETA] = run.rule.saga_step
        columns[layout.C_CALM] = np.inf
        columns[layout.C_FALLS] = run.rule.falls

    def fill(self, run: RunArrays, start: Model) -> None:
        """Copy the memory of the start model, or compute the derivatives at the start model.

        From a model of zeros, the run is faster by an epoch or more with an empty table, because
        the first step of a row is then its whole gradient, as in SGD. So in this case the table
        stays empty.
        """
        a = run.arrays
        if start.memory is not None:
            place = trained(a)
            table = self._of(a, run.schedule.columns.shape[1])
            table[place] = np.asarray(start.memory)[place]
        elif begins_empty(start):
            return
        else:
            local = run.private(run.local_workers.start).local
            saga_steps.remember(
                run.rows, run.rule, a["w"], a["intercept"], run.schedule, run.memory, local
            )
        self.sum_anew(run)

    def sum_anew(self, run: RunArrays) -> None:
        """Recompute the average of gradients, for features and for the intercept."""
        a, share = run.arrays, 1.0 / run.rule.dual_rows
        saga_steps.average_table(run.rows, a["gradients"], share, a["average"], a["dual_mean"])

    def derivatives(self, arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
        """Return a view of the table of derivatives."""
        return self._of(arrays, n_columns)

    def intercept_step(self, numbers: sgd_steps.RuleNumbers) -> float:
        """Return the intercept's step in units of the features' step."""
        return numbers.intercept_step

    def epochs_of_penalty(self, problem: RowProblem, numbers: sgd_steps.RuleNumbers) -> float:
        """Return the bound of Defazio et al. (2014) that depends on the l2 part."""
        return 1.0 / max(numbers.saga_step * problem.l2 * numbers.dual_rows, 1e-300)

    @staticmethod
    def _of(arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray:
        return arrays["gradients"].reshape(-1, n_columns)


BY_METHOD: Mapping[int, RowMemory] = {
    memory.method: memory for memory in (RowMemory(), Duals(), GradientTable())
}
# arrays that checkpoints store, for any rule
CHECKPOINTED = tuple(name for memory in BY_METHOD.values() for name in memory.checkpointed)


def derivatives_in(arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
    """Return the memory in the arrays of a run or a checkpoint, or None if there is none."""
    for memory in BY_METHOD.values():
        if memory.checkpointed and memory.checkpointed[0] in arrays:
            return memory.derivatives(arrays, n_columns)
    return None


FOREVER = 1 << 31  # number of epochs in which SAGA's step falls, if it falls in all epochs
# number of rows within which the intercept settles, unless the step is too short
INTERCEPT_ROWS = 3000


def neutral(loss: str, n_rows: int) -> dict[str, Any]:
    """Return the numbers of a rule without a memory of rows."""
    return {
        "method": sgd_steps.GRADIENT,
        "dual_scale": 1.0,
        "dual_rows": float(n_rows),
        "intercept_step": 0.0,
        "threshold": 0.0,
        "tamed": 0,
        "curvature": losses.CURVATURE[losses.CODES[loss]],
        "saga_step": 0.0,
        "level": 1.0,
        "steep": 0,
        "falls": FOREVER,
        "fewest": 1.0,
        "carry": 0.0,
        "stretch": 1.0,
    }


def smoothness_of(problem: RowProblem) -> float:
    """Return a bound above zero of a row's curvature with respect to its prediction."""
    curvature = losses.CURVATURE[losses.CODES[problem.loss]]
    return float(max(curvature * problem.largest_weight, 1e-300))


def longest_intercept(problem: RowProblem) -> float:
    """Return the largest step of the intercept, or 0 without an intercept.

    The unit is 1 / (3 L), where L counts only the intercept. Every row contributes to the
    intercept, with the value 1. With a step of 1, the intercept would follow the last few rows.
    Near the end of an epoch in which no row is repeated, these are the rows that remained. With
    many rows, the intercept settles within an epoch even with far shorter steps.
    """
    return min(1.0, INTERCEPT_ROWS / problem.n_all) if problem.fit_intercept else 0.0
