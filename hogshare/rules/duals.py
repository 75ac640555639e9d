"""What SDCA remembers of rows: a dual variable each per column, and their sums, the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hogshare.kernels import dual, losses, sgd
from hogshare.problems.model import Model
from hogshare.rules.remembered import check_start
from hogshare.rules.rowmemory import RowMemory, Run, Shapes, trained

if TYPE_CHECKING:
    from hogshare.problems.protocol import Problem, RowProblem


class Duals(RowMemory):
    """The dual variables, each row's behind the moment of its last visit."""

    method: ClassVar[int] = sgd.DUAL
    kept: ClassVar[tuple[str, ...]] = ("dual",)
    is_proximal: ClassVar[bool] = True

    def arrays(self, problem: Problem) -> Shapes:
        """The rows' numbers."""
        return {"dual": ((problem.n_rows * (1 + problem.n_columns),), problem.dtype.name)}

    def check(self, problem: RowProblem, memory: np.ndarray) -> None:
        """Refuse what is no derivative of the rows' losses."""
        check_start(problem, memory)

    def fill(self, run: Run, start: Model) -> None:
        """The start's, if it has any."""
        if start.memory is None:
            return
        place = trained(run.arrays)
        duals = _variables(run.arrays, run.schedule.columns.shape[1])
        duals[place] = -np.asarray(start.memory)[place]
        self.sum_anew(run)

    def sum_anew(self, run: Run) -> None:
        """The vector, and the mean for the intercept."""
        a, numbers = run.arrays, run.rule
        dual.sum_of_duals(run.rows, a["dual"], numbers.dual_scale, a["w"])
        dual.mean_of_duals(a["dual"], numbers.dual_rows, a["dual_mean"])

    def derivatives(self, arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
        """The dual variables with their sign turned."""
        return -_variables(arrays, n_columns)

    def intercept_step(self, numbers: sgd.Rule) -> float:
        """The intercept's, whose scale is not the penalty's."""
        return numbers.intercept_step * numbers.dual_scale

    def epochs_of_penalty(self, problem: RowProblem, numbers: sgd.Rule) -> float:
        """By theorem 5 of Shalev-Shwartz and Zhang (2013)."""
        _, largest = problem.norms
        sharp = problem.sharpness if problem.loss in losses.KINKED else numbers.curvature
        weight = 1.0 if problem.loss in losses.KINKED else problem.largest_weight
        return 1.0 + sharp * weight * (largest / numbers.dual_scale + numbers.intercept_step)


def _variables(arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray:
    return arrays["dual"].reshape(-1, 1 + n_columns)[:, 1:]
