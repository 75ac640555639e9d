"""The grid plane: one vector; two workers never write the same entries at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hogshare.kernels.schedule import epoch_schedule
from hogshare.planes.protocol import Plane


@dataclass(frozen=True)
class Grid(Plane):
    """One vector in shared memory; two workers never write the same entries at the same time.

    For problems whose rows belong to cells, such as ratings (`hogshare.problems.factorisation`):
    users and items are split into groups, and a cell contains the ratings of one group of users for
    one group of items. A block is a cell. A worker begins a cell when all earlier cells with the
    same users or the same items are done. A worker begins an epoch when the previous epoch is done.
    Each entry of the vector thus gets the same steps in the same order, whichever workers take the
    steps. The model's bits depend on the seed, not on the number of workers or the runtime.

    An epoch visits the cells, and the ratings of each cell, in the problem's order. If rows are
    shuffled, the order begins at a random cell, and in each cell at a random rating. All workers
    must share one memory.

    Notes
    -----
    The cells are the blocks of FPSGD (Zhuang, Chin, Juan and Lin 2013), and form the strata of DSGD
    (Gemulla, Nijkamp, Haas and Sismanis 2011). FPSGD's scheduler draws any free block. `Grid` has a
    fixed order, which makes a fit repeatable.

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
        """True: a block is a cell of the problem."""
        return True

    def mode(self, n_workers: int) -> int:
        """Return the plane's code in a run's plan, as for one vector that all workers write."""
        return epoch_schedule.LOCK_FREE

    def numbers(self) -> dict[str, Any]:
        """Return the plane's fields of a run's plan."""
        return {"atomic": 0, "gradients": 0, "cutoff": -1, "damped": 0}
