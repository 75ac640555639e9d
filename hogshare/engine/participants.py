"""The participants of a session, workers and master, with the methods that the loop calls.

Writers: a worker writes its own row of every private array and of the progress table. If a worker's
block makes a snapshot due, the worker writes the snapshot. For writers and readers of the shared
arrays see `hogshare.kernels.shared_arrays`. Freeing: the session's owner.
"""

from __future__ import annotations

import os

import numpy as np
from numba import typeof

from hogshare.barriers import POLLS_PER_BLOCK, BarrierError, ask, name_of
from hogshare.engine.home import WorkerHome
from hogshare.engine.workspace import Workspace
from hogshare.kernels import layout
from hogshare.kernels.exchange import master_updates
from hogshare.kernels.jit import announcements
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.kernels.schedule import block_claims, epoch_schedule, run_membership, worker_life
from hogshare.kernels.schedule.barrier_codes import EVERYBODY, LAG
from hogshare.problems.model import shrunk
from hogshare.shm.speeds import MESSAGES, NANOSECONDS, QuantumTimes
from hogshare.shm.table import ProgressTable
from hogshare.system.interrupts import errstate

ROW_NS, VALUE_NS = 50.0, 5.0  # time of a row and of a value: high estimates
SERVE_ROUNDS = 256  # rounds over all workers' mail in a quantum of the master
# quanta and types that this process has loaded
_PREPARED: set[tuple[str, tuple[int, ...], bool]] = set()


class Worker:
    """One worker of a session."""

    def __init__(self, session: Workspace, me: int) -> None:
        self.session = session
        self.me = me
        self.private = session.private(me)
        self.vector = session.vector_of(me)
        self.table = session.schedule.table[me]
        homes = session.homes
        self.home = None if homes is None else WorkerHome(session, homes, me)

    def quantum_times(self) -> QuantumTimes:
        """The times of this worker's last quanta."""
        return QuantumTimes(
            self.session.arrays["quanta"][self.me - self.session.local_workers.start], self.table
        )

    def prepare(self) -> None:
        """Load or compile the kernels for this session's types, before the worker joins the run."""
        s = self.session
        name = s.take_quantum.__name__
        kinds = s.vector.w.dtype.num, s.rows.indices.dtype.num, self.private.lag.dtype.num
        key = name, kinds, self.enters
        if key in _PREPARED or JIT_DISABLED:
            return
        run = s.data, s.rule, s.plan, s.schedule, self.vector, s.memory, s.mail
        s.take_quantum.compile(tuple(map(typeof, (*run, self.private, self.me, 0))))
        if not self.enters:
            args = (s.rule, s.plan, s.schedule, self.vector, s.memory, self.private, self.me)
            run_membership.join.compile(tuple(map(typeof, args)))
            run_membership.leave.compile(tuple(map(typeof, (*args, worker_life.LEAVE))))
        # compiled in advance, because a request to stop must not wait for a compilation
        block_claims.stop.compile(
            tuple(map(typeof, (s.schedule.control, layout.STOPPED_BY_CALLER)))
        )
        if s.plan.private == epoch_schedule.MASTER:
            MasterService(s).prepare()
        _PREPARED.add(key)
        announcements.over()

    def join(self) -> bool:
        """Enter the run and pull for the first time; return False if the run has been closed."""
        s = self.session
        args = s.rule, s.plan, s.schedule, self.vector, s.memory, self.private, self.me
        joined = bool(run_membership.join(*args))
        if joined:
            self._sign(s.clock())
        return joined

    def _sign(self, nanoseconds: int) -> None:
        """Record this worker's process, and the time at which the worker has entered the run."""
        if not self.table[layout.T_PROCESS]:
            self.table[layout.T_PROCESS] = os.getpid()
            self.table[layout.T_JOINED] = nanoseconds

    @property
    def enters(self) -> bool:
        """Whether quanta themselves join the run and leave it."""
        return bool(self.table[layout.T_ENTERS])

    def first_quantum(self, nanoseconds: int) -> int:
        """Return the number of blocks of the first quantum; 1 if a quantum is a block.

        According to a high estimate, these blocks take less than `nanoseconds`. If the whole run
        takes less than twice this time, the run is one quantum. This quantum also finds that no
        block is left, which saves a call of a kernel (50 microseconds).
        """
        s = self.session
        if s.plan.sleeps or self.home is not None:
            return 1
        values = len(s.rows.data) / max(1, len(s.rows.y)) * s.settings.n_columns
        estimate = s.plan.block_rows * (ROW_NS + VALUE_NS * values)
        wanted = max(1, int(nanoseconds / estimate))
        whole_run = s.plan.max_epochs * s.plan.n_blocks
        return whole_run + 1 if whole_run < 2 * wanted else wanted

    @property
    def is_at_barrier(self) -> bool:
        """Whether a barrier has yet to let this worker pass."""
        return bool(self.table[layout.T_PASSED] <= self.table[layout.T_CLOCK])

    def must_ask(self) -> bool:
        """Whether the user's own barrier has yet to let this worker pass."""
        return self.is_at_barrier and self.session.barrier is not None

    def progress(self) -> tuple[int, ...]:
        """Return counters; each quantum that makes progress increases at least one of them.

        The counters are of rows, blocks, pushes and the master's writes. The master's writes are
        counted only if workers serve the master's mail between their blocks; otherwise this counter
        is 0.
        """
        s, item = self.session, self.table.item
        written = s.word(layout.VERSION) + s.word(layout.GATHERED) if s.plan.inline else 0
        return item(layout.T_ROWS), item(layout.T_BLOCKS), item(layout.T_PUSHES), written

    def ask(self) -> bool:
        """Ask the user's barrier; if it lets the worker pass, record that and return True."""
        assert self.session.barrier is not None
        array, me = self.session.schedule.table, self.me
        group = array[:, layout.T_GROUP] == array[me, layout.T_GROUP]
        if not group.all():  # the barrier sees a copy of the group's rows
            array, me = array[group], int(np.count_nonzero(group[:me]))
        table = ProgressTable(array)
        # read before the call: the barrier may not have seen a worker that joins later
        present = table.in_run
        if not ask(self.session.barrier, table, me):
            return False
        present &= table.in_run
        clock = table.clock
        lead = clock[me] - clock[present].min(initial=clock[me])
        self.table[layout.T_LAG] = max(self.table[layout.T_LAG], lead)
        self.table[layout.T_PASSED] = clock[me] + 1
        return True

    def poll_seconds(self) -> float:
        """Return the seconds until the next poll of a barrier that samples; 0 is without delay.

        If a barrier draws a sample at each poll, the time between polls is part of its rule: among
        many polls at the same moment, one would pass by chance. A worker that waits for a repair
        does not wait at the barrier, and gets 0.
        """
        s, table = self.session, self.table
        plan = s.plan
        if plan.barrier != LAG or plan.sample == EVERYBODY or plan.reuses:
            return 0.0
        repairing = s.word(layout.REPAIR_WANTED) != s.word(layout.REPAIRED)
        if not self.is_at_barrier or repairing or not table[layout.T_BLOCKS]:
            return 0.0
        block_ns = table[layout.T_BUSY] / table[layout.T_BLOCKS]
        return float(1e-9 * block_ns / POLLS_PER_BLOCK)

    def nobody_computes(self) -> bool:
        """Whether no worker in the run is computing a claimed block."""
        table = self.session.schedule.table
        in_run = ProgressTable(table).in_run
        return bool((table[in_run, layout.T_BLOCK] == layout.NO_BLOCK).all())

    def stuck(self, waited_ns: int) -> BarrierError:
        """Return the error to raise when the user's barrier lets no worker pass."""
        assert self.session.barrier is not None
        return BarrierError(
            f"The barrier {name_of(self.session.barrier)} has let no worker pass for "
            f"{waited_ns * 1e-9:.0f} seconds in which none had a block in hand, so that nothing it "
            "waits for can happen. A barrier must not wait for workers that are starting, done or "
            f"dead (table.in_run). Last moves: {worker_life.stories(self.session.schedule.table)}."
        )

    def sleep_seconds(self) -> float:
        """Return the seconds to sleep in the claimed block; 0 without a law of stragglers."""
        s = self.session
        if s.law is None:
            return 0.0
        block, n_workers = int(self.table[layout.T_BLOCKS]), s.settings.n_workers
        return s.law(self.me, block, n_workers, s.block_seconds())

    def is_stopped(self) -> bool:
        """Whether the run has been asked to stop."""
        return self.session.word(layout.STOP) != layout.RUNNING

    def is_broken_off(self) -> bool:
        """Whether the run is broken off before its end, after which no worker waits."""
        broken = layout.STOPPED_BY_CALLER, layout.STOPPED_BY_DIVERGENCE
        return self.session.word(layout.STOP) in broken

    def standstill(self) -> tuple[int, int] | None:
        """Return counters that a standstill does not change; None if some worker is or gets active.

        A worker gets active by itself if it is starting, or if its wait has a time limit. The first
        counter is of completed blocks, the second of completed waits for a plane. If a counter
        changes between two polls, the run has not stood still.
        """
        homes = self.session.homes
        table = self.session.schedule.table if homes is None else homes.table
        states = table[:, layout.T_STATE]
        plane_waits = table[states == layout.WAITING, layout.T_PLANE_WAIT]
        if ((states == layout.STARTING) | (states == layout.ACTIVE)).any():
            return None
        if (plane_waits == layout.FOR_TIME).any():
            return None
        return int(table[:, layout.T_BLOCKS].sum()), int(table[:, layout.T_PLANE_WAITS].sum())

    def must_pause(self) -> bool:
        """Whether the caller has yet to raise the limit."""
        s = self.session
        return (
            s.word(layout.LIMIT) <= s.word(layout.EPOCHS) and s.word(layout.STOP) == layout.RUNNING
        )

    def pause_again(self) -> None:
        """Stay paused if other workers have done all blocks for which this worker was expected.

        This worker came too late to begin a block. Without this call, the planes of other workers
        would wait for this worker. The caller, which acts when all workers are paused, would wait
        for it as well.
        """
        table = self.table
        if self.session.word(layout.EPOCHS) >= table[layout.T_EXPECTED]:
            worker_life.apply(table, worker_life.MISS)

    def rejoin(self) -> bool:
        """Join the run after a pause, or let the quantum join; return False if the run is over."""
        if self.session.word(layout.STOP) != layout.RUNNING:
            worker_life.apply(self.table, worker_life.CLOSE)
            return False
        return self.enters or self.join()

    def run_quantum(self, n_blocks: int) -> int:
        """Claim and compute up to `n_blocks` blocks; return one of the ``QUANTUM_`` answers."""
        s = self.session
        began = s.clock()
        groups = s.schedule, self.vector, s.memory, s.mail
        answer = s.take_quantum(s.data, s.rule, s.plan, *groups, self.private, self.me, n_blocks)
        self.table[layout.T_HEARTBEAT] = s.clock()
        if self.enters and answer != layout.QUANTUM_CLOSED:
            self._sign(began)
        return int(answer)

    def leave(self, event: int = worker_life.LEAVE) -> None:
        """Push the remaining changes, and become done or paused."""
        s = self.session
        run_membership.leave(
            s.rule, s.plan, s.schedule, self.vector, s.memory, self.private, self.me, event
        )
        if s.plan.inline:
            MasterService(s).serve()  # the master's remainder of a sum

    def record(self, again: int = 20) -> None:
        """Copy the model into the place of the snapshot that is due."""
        s = self.session
        completed = s.word(layout.COMPLETED)
        slot = completed // s.plan.record_every - 1
        if not 0 <= slot < len(s.arrays["snapshot_blocks"]):
            return
        intercept = s.vector.intercept
        scale = np.ones(s.settings.n_columns)
        w = s.vector.w
        if s.whole is not None:
            w, intercept = s.whole()
        elif s.homes is not None:
            w, intercept = s.homes.model()
            s.arrays["snapshot_spreads"][slot] = s.homes.disagreement()
        elif s.is_alone:
            scale = self.private.local[layout.L_SCALE]
            intercept = self.private.local[layout.L_INTERCEPT]
        snapshot = s.arrays["snapshots"][slot]
        before = s.word(layout.WRITES)  # odd while the master writes the vector
        with errstate(all="ignore"):  # a diverging run may overflow; the run's end reports it
            np.multiply(
                w.reshape(-1, s.settings.n_columns),
                scale.astype(snapshot.dtype),
                out=snapshot.reshape(-1, s.settings.n_columns),
            )
            # without a threshold, this would copy the snapshot onto itself while the clock runs
            if s.rule.threshold > 0.0:
                snapshot[:] = shrunk(snapshot, s.rule.threshold)
        s.arrays["snapshot_intercepts"][slot] = intercept
        if (before % 2 != 0 or s.word(layout.WRITES) != before) and again:
            self.record(again - 1)  # the master wrote meanwhile
            return
        s.arrays["snapshot_times"][slot] = s.clock()
        s.arrays["snapshot_blocks"][slot] = completed


class MasterService:
    """The master of a session.

    n_polls : number of polls for mail before the master reports that there is none
    """

    def __init__(self, session: Workspace, n_polls: int | None = None) -> None:
        self.session = session
        self.n_polls = session.n_polls if n_polls is None else n_polls

    def prepare(self) -> None:
        """Load or compile the kernel."""
        if not JIT_DISABLED:
            s = self.session
            groups = s.schedule, s.vector, s.mail
            master_updates.serve.compile(
                tuple(map(typeof, (s.plan, *groups, SERVE_ROUNDS, self.n_polls)))
            )

    def take_over(self) -> None:
        """Repair the state that another master has left behind."""
        s = self.session
        master_updates.take_over(s.schedule, s.vector, s.mail, s.settings.n_workers)

    def serve(self) -> int:
        """Take the workers' messages; return their number, or `master_updates.OVER`."""
        s = self.session
        return int(
            master_updates.serve(s.plan, s.schedule, s.vector, s.mail, SERVE_ROUNDS, self.n_polls)
        )

    def waited(self) -> int:
        """Return the nanoseconds that quanta have waited for mail so far."""
        return self.session.word(layout.MAIL_WAIT)

    def note(self, messages: int, nanoseconds: int) -> None:
        """Add a quantum of the master to the cost of messages; omit quanta without messages."""
        total = self.session.arrays["quanta"][-1, 0]
        total[MESSAGES] += messages
        total[NANOSECONDS] += nanoseconds
