"""What a rule remembers of the rows of a linear problem: nothing, unless it declares otherwise.

Which arrays that takes, how they are filled, which of them a checkpoint keeps, and what is done
when a worker has died over them. `Duals` is SDCA's, `GradientTable` SAGA's.

Outside the kernels there is one form of it for all rules, the derivative of each row's loss as the
rule last knew it: SAGA's table, and SDCA's dual variables with their sign turned, which at the
optimum is the same thing. So either rule goes on from where the other has ended.

A run's numbers travel to its workers, and the rule does not: so what it remembers is found by them,
by the code that kernels have for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rules import dual_ascent, losses, saga_steps, sgd_steps
from hogshare.kernels.shared_arrays import MemoryArrays, Schedule
from hogshare.problems.model import Model
from hogshare.rules.start_memory import begins_empty, check_start

if TYPE_CHECKING:
    from hogshare.problems.protocol import Problem, RowProblem

Shapes = dict[str, tuple[tuple[int, ...], str]]


class RunArrays(Protocol):
    """A run's arrays and numbers, as a rule fills them; nobody works meanwhile."""

    arrays: Mapping[str, np.ndarray]
    rows: RowArrays
    rule: sgd_steps.RuleNumbers
    local_workers: range
    schedule: Schedule
    memory: MemoryArrays

    def private(self, me: int) -> sgd_steps.Private:
        """Worker `me`'s own arrays."""
        ...


class RowMemory:
    """Nothing: of a rule whose steps depend on the model alone."""

    # code of the kernels that step with it
    method: ClassVar[int] = sgd_steps.GRADIENT
    # arrays that a checkpoint keeps, the same for any number of workers
    checkpointed: ClassVar[tuple[str, ...]] = ()
    # whether there is an average over the rows beside the vector, of which workers that exchange
    # have copies too, and which is weighed by how rare features are
    has_average: ClassVar[bool] = False
    # whether steps are proximal: then nobody owes features that rows have not touched any l1
    is_proximal: ClassVar[bool] = False

    def arrays(self, problem: Problem) -> Shapes:
        """What it takes besides what every run has: shapes and dtypes by name."""
        return {}

    def check(self, problem: RowProblem, memory: np.ndarray) -> None:
        """Refuse what a start remembers, if no run on this problem can have come to it."""
        if self.checkpointed:
            check_start(problem, memory)

    def begin(self, run: RunArrays) -> None:
        """Write what its steps begin with, if that is not the step size of the run."""

    def fill(self, run: RunArrays, start: Model) -> None:
        """Remember what the start model does, or the derivatives at it; at zero nothing.

        The run's vector, intercept and columns have been filled.
        """

    def sum_anew(self, run: RunArrays) -> None:
        """Make what is bound to be a sum over the rows that sum again, after a death."""

    def derivatives(self, arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
        """What is remembered, in the form of all rules: [n_rows, n_columns]; maybe a view."""
        return None

    def intercept_step(self, numbers: sgd_steps.RuleNumbers) -> float:
        """The intercept's step in units of the features' step."""
        return numbers.intercept_decay

    def epochs_of_penalty(self, problem: RowProblem, numbers: sgd_steps.RuleNumbers) -> float:
        """Epochs in which the l2 part alone brings the model nearer by a factor of e, at most."""
        return np.inf


def trained(arrays: Mapping[str, Any]) -> Any:
    """Which rows are trained on, as an index."""
    held_out = arrays["held_out"]
    return held_out == 0 if held_out.size else slice(None)


class Duals(RowMemory):
    """SDCA's dual variables, one for each row and column, and their sums, the model.

    Each row's stand behind the moment of its last visit.
    """

    method: ClassVar[int] = sgd_steps.DUAL
    checkpointed: ClassVar[tuple[str, ...]] = ("dual",)
    is_proximal: ClassVar[bool] = True

    def arrays(self, problem: Problem) -> Shapes:
        """The rows' numbers."""
        return {"dual": ((problem.n_rows * (1 + problem.n_columns),), problem.dtype.name)}

    def fill(self, run: RunArrays, start: Model) -> None:
        """The start's, if it has any."""
        if start.memory is None:
            return
        place = trained(run.arrays)
        duals = _variables(run.arrays, run.schedule.columns.shape[1])
        duals[place] = -np.asarray(start.memory)[place]
        self.sum_anew(run)

    def sum_anew(self, run: RunArrays) -> None:
        """The vector, and the mean for the intercept."""
        a, numbers = run.arrays, run.rule
        dual_ascent.sum_of_duals(run.rows, a["dual"], numbers.dual_scale, a["w"])
        dual_ascent.mean_of_duals(a["dual"], numbers.dual_rows, a["dual_mean"])

    def derivatives(self, arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
        """The dual variables with their sign turned."""
        return -_variables(arrays, n_columns)

    def intercept_step(self, numbers: sgd_steps.RuleNumbers) -> float:
        """The intercept's, whose scale is not the penalty's."""
        return numbers.intercept_step * numbers.dual_scale

    def epochs_of_penalty(self, problem: RowProblem, numbers: sgd_steps.RuleNumbers) -> float:
        """By theorem 5 of Shalev-Shwartz and Zhang (2013)."""
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
        """The table, its average, and the units that the average is compared in."""
        n_features, n_columns = problem.n_features, problem.n_columns
        return {
            "gradients": ((problem.n_rows * n_columns,), problem.dtype.name),
            "average": ((n_features * n_columns,), "float64"),
            "units": ((2, n_features), "float64"),
        }

    def begin(self, run: RunArrays) -> None:
        """Its own step, and how that falls."""
        columns = run.schedule.columns
        columns[layout.C_ETA] = run.rule.saga_step
        columns[layout.C_CALM] = np.inf
        columns[layout.C_FALLS] = run.rule.falls

    def fill(self, run: RunArrays, start: Model) -> None:
        """The start's, or the derivatives at it.

        From zero an empty table is ahead, by an epoch and more: a row's first step is its whole
        gradient, as in SGD.
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
        """The average, and its part for the intercept."""
        a, share = run.arrays, 1.0 / run.rule.dual_rows
        saga_steps.average_table(run.rows, a["gradients"], share, a["average"], a["dual_mean"])

    def derivatives(self, arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
        """The table as it stands."""
        return self._of(arrays, n_columns)

    def intercept_step(self, numbers: sgd_steps.RuleNumbers) -> float:
        """The intercept's share."""
        return numbers.intercept_step

    def epochs_of_penalty(self, problem: RowProblem, numbers: sgd_steps.RuleNumbers) -> float:
        """By Defazio et al. (2014)."""
        return 1.0 / max(numbers.saga_step * problem.l2 * numbers.dual_rows, 1e-300)

    @staticmethod
    def _of(arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray:
        return arrays["gradients"].reshape(-1, n_columns)


BY_METHOD: Mapping[int, RowMemory] = {
    memory.method: memory for memory in (RowMemory(), Duals(), GradientTable())
}
# arrays that checkpoints keep, whichever rule it is
CHECKPOINTED = tuple(name for memory in BY_METHOD.values() for name in memory.checkpointed)


def derivatives_in(arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
    """What is remembered in a run's arrays, or in those that a checkpoint has kept."""
    for memory in BY_METHOD.values():
        if memory.checkpointed and memory.checkpointed[0] in arrays:
            return memory.derivatives(arrays, n_columns)
    return None
