"""What SAGA remembers of rows: the derivatives of their losses, and the average of gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hogshare.kernels import layout, saga, sgd
from hogshare.kernels.averages import average_table
from hogshare.problems.model import Model
from hogshare.rules.remembered import begins_empty, check_start
from hogshare.rules.rowmemory import RowMemory, Run, Shapes, trained

if TYPE_CHECKING:
    from hogshare.problems.protocol import Problem, RowProblem


class Table(RowMemory):
    """The table of derivatives."""

    method: ClassVar[int] = sgd.SAGA
    kept: ClassVar[tuple[str, ...]] = ("gradients", "average")
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

    def check(self, problem: RowProblem, memory: np.ndarray) -> None:
        """Refuse what is no derivative of the rows' losses."""
        check_start(problem, memory)

    def begin(self, run: Run) -> None:
        """Its own step, and how that falls."""
        columns = run.schedule.columns
        columns[layout.C_ETA] = run.rule.saga_step
        columns[layout.C_CALM] = np.inf
        columns[layout.C_FALLS] = run.rule.falls

    def fill(self, run: Run, start: Model) -> None:
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
            local = run.private(0).local
            saga.remember(
                run.rows, run.rule, a["w"], a["intercept"], run.schedule, run.memory, local
            )
        self.sum_anew(run)

    def sum_anew(self, run: Run) -> None:
        """The average, and its part for the intercept."""
        a, share = run.arrays, 1.0 / run.rule.dual_rows
        average_table(run.rows, a["gradients"], share, a["average"], a["dual_mean"])

    def derivatives(self, arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
        """The table as it stands."""
        return self._of(arrays, n_columns)

    def intercept_step(self, numbers: sgd.Rule) -> float:
        """The intercept's share."""
        return numbers.intercept_step

    def epochs_of_penalty(self, problem: RowProblem, numbers: sgd.Rule) -> float:
        """By Defazio et al. (2014)."""
        return 1.0 / max(numbers.saga_step * problem.l2 * numbers.dual_rows, 1e-300)

    @staticmethod
    def _of(arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray:
        return arrays["gradients"].reshape(-1, n_columns)
