"""One run's memory and numbers, of which its workers need no more than this.

Who writes: as `hogshare.kernels.shared_arrays` says for the shared arrays; of every private array,
row `me - first` belongs to worker `me`, `first` being the first worker of this site. Who frees:
whoever allocated (the runtime: private memory, or an arena).
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

SUM_ARRAYS = MasterMail._fields[2:]  # what a master makes of its mail
ROW_ARRAYS = ("row_data", "row_indices", "row_indptr", "row_y", "row_weight")


@dataclass(frozen=True)
class SessionSettings:
    """Numbers that make a session out of arrays; plain data, so that they travel."""

    rule: dict[str, Any]
    plan: dict[str, Any]
    width: int
    n_features: int
    n_columns: int
    world: World

    @property
    def n_workers(self) -> int:
        """Workers of all sites."""
        return self.world.n_workers


class Workspace:
    """The arrays of one run by name and in groups, as kernels take them; see `Session`."""

    homes: Any  # of planes that look after workers' vectors themselves; None: there are none

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
        self.on_limit: Callable[[], None] | None = None  # wakes those that rest
        self.bring: Callable[[int], bool] | None = None  # over sites: see `loop._bring`
        # vector and intercepts of all sites, as they stand; None: there is one, or nobody has them
        self.whole: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None
        # sums over all sites of what each has, while all ask; None: they are not asked
        self.over_sites: Callable[[np.ndarray], np.ndarray] | None = None
        self.patience_ns: int | None = None  # with a barrier of the user's; None: the loop's own
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
        self.data: RowArrays | grid_quanta.Cells = self.rows  # what quanta read
        if self.plan.grid:
            self.take_quantum, data, ends = outside.problem.cells
            self.data = grid_quanta.Cells(self.rows, data, ends)
        else:
            of_run = self.plan, self.rule, settings.n_columns, outside is not None
            self.take_quantum = quanta.quantum_for(*of_run)

    @property
    def n_polls(self) -> int:
        """How often turns that find no block, or are held, look again, in one wait."""
        return int(self.schedule.table[0, layout.T_POLLS])

    @property
    def is_alone(self) -> bool:
        """Whether the only worker works on the run's vector itself."""
        return self.plan.private == epoch_schedule.ALONE and self.homes is None

    def private(self, me: int) -> sgd_steps.Private:
        """Worker `me`'s own arrays."""
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
        """The vector that worker `me` reads and writes, where it has no copy: the run's, or one
        that it shares with its group alone.
        """
        if not self.arrays["vectors"].size:
            return self.vector
        group = int(self.schedule.table[me, layout.T_GROUP])
        w = self.arrays["vectors"][group, : self.size]
        return self.vector._replace(w=w, intercept=self.arrays["vector_intercepts"][group])

    def word(self, place: int) -> int:
        """A control word: an aligned load; what it orders is read after every worker has left."""
        return int(self.schedule.control[place])

    def block_seconds(self) -> float:
        """Mean time of the run's first blocks; 0 until they are done, of one that was resumed too.

        Whoever asks first writes it down. Two who do at once may differ by a block; a plain store
        of one word, so both are whole, and the later stays.
        """
        control, table = self.schedule.control, self.schedule.table
        if not control[layout.BLOCK_TIME] and self.word(layout.COMPLETED) >= FIRST_BLOCKS:
            busy, blocks = table[:, layout.T_BUSY].sum(), table[:, layout.T_BLOCKS].sum()
            if blocks >= FIRST_BLOCKS:  # a resumed run has others, which nobody timed here
                control[layout.BLOCK_TIME] = busy // blocks
        return int(control[layout.BLOCK_TIME]) * 1e-9

    def stop(self, reason: int = layout.STOPPED_BY_CALLER) -> None:
        """Ask all workers to stop at their next block; the first reason that is given stands."""
        block_claims.stop(self.schedule.control, reason)

    def locals(self) -> np.ndarray:
        """Own numbers of the workers here: float64 [., layout.N_LOCAL_FIELDS, n_columns]."""
        n = layout.N_LOCAL_FIELDS * self.settings.n_columns
        return self.arrays["local"][:, :n].reshape(
            len(self.local_workers), layout.N_LOCAL_FIELDS, self.settings.n_columns
        )
