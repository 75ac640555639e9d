"""What a rule remembers of the rows of a linear problem: nothing, unless it declares otherwise.

Which arrays that takes, how they are filled, which of them a checkpoint keeps, and what is done
when a worker has died over them. `hogshare.rules.duals` is SDCA's, `hogshare.rules.table` SAGA's.

Outside the kernels there is one form of it for all rules, the derivative of each row's loss as the
rule last knew it: SAGA's table, and SDCA's dual variables with their sign turned, which at the
optimum is the same thing. So either rule goes on from where the other has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from hogshare.kernels import sgd
from hogshare.kernels.rows import Rows
from hogshare.kernels.shared import Memory, Schedule
from hogshare.problems.model import Model

if TYPE_CHECKING:
    from hogshare.problems.protocol import Problem, RowProblem

Shapes = dict[str, tuple[tuple[int, ...], str]]


class Run(Protocol):
    """A run's arrays and numbers, as a rule fills them; nobody works meanwhile."""

    arrays: Mapping[str, np.ndarray]
    rows: Rows
    rule: sgd.Rule
    schedule: Schedule
    memory: Memory

    def private(self, me: int) -> sgd.Private:
        """Worker `me`'s own arrays."""
        ...


class RowMemory:
    """Nothing: of a rule whose steps depend on the model alone."""

    # code of the kernels that step with it
    method: ClassVar[int] = sgd.GRADIENT
    # arrays that a checkpoint keeps, the same for any number of workers
    kept: ClassVar[tuple[str, ...]] = ()
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

    def begin(self, run: Run) -> None:
        """Write what its steps begin with, if that is not the step size of the run."""

    def fill(self, run: Run, start: Model) -> None:
        """Remember what the start model does, or the derivatives at it; at zero nothing.

        The run's vector, intercept and columns have been filled.
        """

    def sum_anew(self, run: Run) -> None:
        """Make what is bound to be a sum over the rows that sum again, after a death."""

    def derivatives(self, arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
        """What is remembered, in the form of all rules: [n_rows, n_columns]; maybe a view."""
        return None

    def intercept_step(self, numbers: sgd.Rule) -> float:
        """The intercept's step in units of the features' step."""
        return numbers.intercept_decay

    def epochs_of_penalty(self, problem: RowProblem, numbers: sgd.Rule) -> float:
        """Epochs in which the l2 part alone brings the model nearer by a factor of e, at most."""
        return np.inf


def trained(arrays: Mapping[str, Any]) -> Any:
    """Which rows are trained on, as an index."""
    held_out = arrays["held_out"]
    return held_out == 0 if held_out.size else slice(None)
