"""One run's arrays and settings: everything that its workers need.

Writers and readers: for the shared arrays see `hogshare.kernels.shared_arrays`. Row `me - first` of
every private array belongs to worker `me`, where `first` is the number of this site's first worker.
Freeing: the runtime that has allocated the private memory, or the arena.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.barriers import UserBarrier
from hogshare.engine.world import World
from hogshare.kernels import layout
from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rules import sgd_steps
from hogshare.kernels.schedule import (
    block_claims,
    epoch_schedule,
    grid_quanta,
    quanta,
)
from hogshare.kernels.schedule.epoch_schedule import EpochPlan
from hogshare.kernels.shared_arrays import MasterMail, MemoryArrays, Schedule, Vector
from hogshare.rules.row_memory import BY_METHOD
from hogshare.shm.mailbox import mailbox_of
from hogshare.stragglers import FIRST_BLOCKS, Stragglers, asked

SUM_ARRAYS = MasterMail._fields[2:]  # the arrays of the sums that a master computes from mail
ROW_ARRAYS = ("row_data", "row_indices", "row_indptr", "row_y", "row_weight")


@dataclass(frozen=True)
class SessionSettings:
    """Settings that define a session, together with its arrays; plain data for other processes."""

    rule: dict[str, Any]
    plan: dict[str, Any]
    width: int
    n_features: int
    n_columns: int
    world: World

    @property
    def n_workers(self) -> int:
        """Number of workers of all sites."""
        return self.world.n_workers


class Workspace:
    """The arrays of one run by name and in groups, as kernels take them; see `Session`.

    Nothing is allocated: the groups contain the given arrays. The problem's rows are read-only
    views of the given arrays.

    outside : `gradient_steps.GradientSteps`, or None if kernels take the steps
    """

    # set by `Session` for planes that manage workers' vectors themselves; None: workers have no
    # homes
    homes: Any

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        settings: SessionSettings,
        barrier: UserBarrier | None,
        stragglers: Stragglers | None,
        outside: Any,
    ) -> None:
        self.arrays = arrays
        self.settings = settings
        self.barrier = barrier
        self.stragglers = stragglers
        self.law = None if stragglers is None else asked(stragglers)
        self.outside = outside
        self.clock: Callable[[], int] = time.perf_counter_ns  # a simulation has its own
        self.began = 0  # by that clock
        self.on_limit: Callable[[], None] | None = None  # wakes paused workers
        self.bring: Callable[[int], bool] | None = None  # for several sites, see `loop._bring`
        # current vector and intercepts of all sites; None: one site, or no site has the whole
        self.whole: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None
        # function that sums an array over all sites (collective: all sites must call it
        # together); None: the values of this site suffice
        self.over_sites: Callable[[np.ndarray], np.ndarray] | None = None
        # time without progress before the loop raises an error; None: the loop's default
        self.patience_ns: int | None = None
        self.rule = sgd_steps.RuleNumbers(**settings.rule)
        self.plan = EpochPlan(**settings.plan)
        self.local_workers = settings.world.local_workers  # numbers of the workers of this site
        self.row_memory = BY_METHOD[self.rule.method]
        rows = [arrays[name].view() for name in ROW_ARRAYS]
        for view in rows:
            view.flags.writeable = False
        self.rows = RowArrays(rows[0], rows[1], rows[2], settings.width, rows[3], rows[4])
        self.schedule = Schedule(*(arrays[name] for name in Schedule._fields))
        self.vector = Vector(*(arrays[name] for name in Vector._fields))
        self.memory = MemoryArrays(*(arrays[name] for name in MemoryArrays._fields))
        self.mail = MasterMail(
            arrays["ages"], mailbox_of(arrays), *(arrays[name] for name in SUM_ARRAYS)
        )
        self.size = settings.n_features * settings.n_columns
        self.data: RowArrays | grid_quanta.Cells = self.rows  # read by quanta
        if self.plan.grid:
            self.take_quantum, data, ends = outside.problem.cells
            self.data = grid_quanta.Cells(self.rows, data, ends)
        else:
            of_run = self.plan, self.rule, settings.n_columns, outside is not None
            self.take_quantum = quanta.quantum_for(*of_run)

    @property
    def n_polls(self) -> int:
        """Number of polls in one wait of a quantum that finds no block, or waits at a barrier."""
        return int(self.schedule.table[0, layout.T_POLLS])

    @property
    def is_alone(self) -> bool:
        """Whether the run has one worker, which works on the run's vector itself."""
        return self.plan.private == epoch_schedule.ALONE and self.homes is None

    def private(self, me: int) -> sgd_steps.Private:
        """Return worker `me`'s own arrays (views)."""
        fields, row = {}, me - self.local_workers.start
        for name in ("copy", "base", "received", "lag", "average_copy", "average_base"):
            array = self.arrays[name]
            fields[name] = array[row, : self.size] if array.shape[1] else array[row]
        if self.is_alone:
            fields["copy"] = self.vector.w
            fields["average_copy"] = self.memory.average
        local = self.arrays["local"][row, : layout.N_LOCAL_FIELDS * self.settings.n_columns]
        return sgd_steps.Private(
            fields["copy"],
            fields["base"],
            fields["received"],
            fields["lag"],
            local.reshape(layout.N_LOCAL_FIELDS, self.settings.n_columns),
            self.arrays["pending"][row],
            fields["average_copy"],
            fields["average_base"],
            self.arrays["scratch"][row],
        )

    def vector_of(self, me: int) -> Vector:
        """Return the vector (a view) that worker `me` shares: of its group, or else of the run."""
        if not self.arrays["vectors"].size:
            return self.vector
        group = int(self.schedule.table[me, layout.T_GROUP])
        w = self.arrays["vectors"][group, : self.size]
        return self.vector._replace(w=w, intercept=self.arrays["vector_intercepts"][group])

    def word(self, place: int) -> int:
        """Load an aligned control word; read data that it orders after all workers have left."""
        return int(self.schedule.control[place])

    def block_seconds(self) -> float:
        """Return the mean time of a block in seconds, over the run's first blocks.

        It is 0 until these blocks are done, also in a resumed run. The first call after that stores
        the time, and later calls return the stored time.
        """
        control, table = self.schedule.control, self.schedule.table
        if not control[layout.BLOCK_TIME] and self.word(layout.COMPLETED) >= FIRST_BLOCKS:
            busy, blocks = table[:, layout.T_BUSY].sum(), table[:, layout.T_BLOCKS].sum()
            if blocks >= FIRST_BLOCKS:  # the earlier blocks of a resumed run were not timed
                # not atomic: two simultaneous callers may differ by a block, and the later store
                # stays; a store is never torn
                control[layout.BLOCK_TIME] = busy // blocks
        return int(control[layout.BLOCK_TIME]) * 1e-9

    def stop(self, reason: int = layout.STOPPED_BY_CALLER) -> None:
        """Ask all workers to stop at their next block; the first of several reasons is stored."""
        block_claims.stop(self.schedule.control, reason)

    def locals(self) -> np.ndarray:
        """Return the local fields of this site's workers (a view).

        The array is float64 of shape (n_local, layout.N_LOCAL_FIELDS, n_columns).
        """
        n = layout.N_LOCAL_FIELDS * self.settings.n_columns
        return self.arrays["local"][:, :n].reshape(
            len(self.local_workers), layout.N_LOCAL_FIELDS, self.settings.n_columns
        )
