"""The grid's plane: one vector, of which no two workers write the same numbers at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hogshare.kernels.schedule import epoch_schedule
from hogshare.planes.protocol import Plane


@dataclass(frozen=True)
class Grid(Plane):
    """One vector in shared memory, and workers that never meet on it.

    For problems whose rows stand in cells, as ratings do (`hogshare.problems.factorisation`): users
    and items are cut into groups, and a cell is the ratings of one group of users by one group of
    items. A block is a cell. A worker begins one when the cells before it that have its users or
    its items are done, and an epoch when the one before is. So each number has the same steps in
    the same order whoever takes them: the model's bits depend on the seed and not on the number of
    workers, nor on the runtime.

    An epoch visits the cells in the problem's order, and so the ratings of each; shuffled, each
    begins at a drawn one. Workers share one memory.

    Notes
    -----
    The blocks are those of FPSGD (Zhuang, Chin, Juan and Lin 2013) and the strata of DSGD (Gemulla,
    Nijkamp, Haas and Sismanis 2011). FPSGD's scheduler draws any free block; here the order stands,
    which is what makes a fit repeatable.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import Grid, problems, solve
    >>> rng = np.random.default_rng(0)
    >>> users, items = rng.integers(50, size=2000), rng.integers(40, size=2000)
    >>> problem = problems.factorisation(users, items, rng.normal(size=2000), n_factors=2)
    >>> run = {"plane": Grid(), "runtime": "threads", "step": 0.02, "seed": 0}
    >>> one, four = (solve(problem, n_workers=n, **run).model.params for n in (1, 4))
    >>> bool((one == four).all())
    True
    """

    has_homes: ClassVar[bool] = False

    @property
    def has_cells(self) -> bool:
        """Whether a block is a cell of the problem's."""
        return True

    def mode(self, n_workers: int) -> int:
        """Code of the plane in a run's plan: all write the one vector."""
        return epoch_schedule.LOCK_FREE

    def numbers(self) -> dict[str, Any]:
        """Fields of a run's plan."""
        return {"atomic": 0, "gradients": 0, "cutoff": -1, "damped": 0}
