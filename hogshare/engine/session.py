"""One run's memory and the four things a worker does with it: join, take turns, record, leave.

Who writes: as `hogshare.kernels.epochs` and `hogshare.kernels.exchange` say for the shared arrays;
row `me` of every private array belongs to worker `me`. A snapshot's place is written by the worker
whose block made it due. Who frees: whoever allocated (the runtime: private memory, or an arena).

A session is arrays by name plus a few numbers, so that a process that is handed the arrays builds
the same session from them.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import typeof

from hogshare.barriers import BarrierError, UserBarrier, ask, name_of
from hogshare.engine.memory import sum_anew
from hogshare.kernels import epochs, layout, master, repair, sgd, turns
from hogshare.kernels.epochs import Plan
from hogshare.kernels.epochs import Shared as SharedArrays
from hogshare.kernels.jit import JIT_DISABLED, is_cached
from hogshare.kernels.rows import Rows
from hogshare.problems.model import Model
from hogshare.shm.table import IN_RUN, ProgressTable
from hogshare.stragglers import FIRST_BLOCKS, Stragglers

log = logging.getLogger("hogshare")


@dataclass(frozen=True)
class Settings:
    """Numbers that make a session out of arrays; plain data, so that they travel."""

    rule: dict[str, Any]
    plan: dict[str, Any]
    width: int
    n_features: int
    n_columns: int
    n_workers: int


class Session:
    """The arrays of one run.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        As `shapes` lists them, plus the rows' arrays.
    settings : Settings
    barrier : callable or None
        A barrier of the user's own, which workers ask between turns.
    stragglers : Stragglers or None
        The law by which workers are slow on purpose, if the plan says that they are.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        settings: Settings,
        barrier: UserBarrier | None = None,
        stragglers: Stragglers | None = None,
    ) -> None:
        self.arrays = arrays
        self.settings = settings
        self.barrier = barrier
        self.stragglers = stragglers
        self.rule = sgd.Rule(**settings.rule)
        self.plan = Plan(**settings.plan)
        rows = [arrays[name].view() for name in ROW_ARRAYS]
        for view in rows:
            view.flags.writeable = False
        self.rows = Rows(rows[0], rows[1], rows[2], settings.width, rows[3], rows[4])
        self.shared = SharedArrays(**{name: arrays[name] for name in SharedArrays._fields})
        self.size = settings.n_features * settings.n_columns
        self.take_turn = turns.TURNS[self.rule.method, self.plan.private, self.plan.ordered]

    def private(self, me: int) -> sgd.Private:
        """Worker `me`'s own arrays."""
        fields = {}
        for name in ("copy", "base", "received", "lag", "average_copy", "average_base"):
            array = self.arrays[name]
            fields[name] = array[me, : self.size] if array.shape[1] else array[me]
        if self.plan.private == epochs.ALONE:
            fields["copy"] = self.shared.w
            fields["average_copy"] = self.shared.average
        local = self.arrays["local"][me, : layout.N_LOCAL_FIELDS * self.settings.n_columns]
        return sgd.Private(
            fields["copy"],
            fields["base"],
            fields["received"],
            fields["lag"],
            local.reshape(layout.N_LOCAL_FIELDS, self.settings.n_columns),
            self.arrays["pending"][me],
            fields["average_copy"],
            fields["average_base"],
        )

    def worker(self, me: int) -> Worker:
        """What worker `me` calls."""
        return Worker(self, me)

    def master(self) -> MasterSide:
        """What the master calls."""
        return MasterSide(self)

    # -- words that the caller's side reads and writes ------------------------------------------

    def word(self, place: int) -> int:
        """A control word: an aligned load; what it orders is read after every worker has left."""
        return int(self.shared.control[place])

    def block_seconds(self) -> float:
        """Mean time of the run's first blocks; 0 until they are done.

        Whoever asks first writes it down. Two who do at once may differ by a block; a plain store
        of one word, so both are whole, and the later stays.
        """
        control, table = self.shared.control, self.shared.table
        if not control[layout.BLOCK_TIME] and self.word(layout.COMPLETED) >= FIRST_BLOCKS:
            busy, blocks = table[:, layout.T_BUSY].sum(), table[:, layout.T_BLOCKS].sum()
            control[layout.BLOCK_TIME] = busy // blocks
        return int(control[layout.BLOCK_TIME]) * 1e-9

    def stop(self, reason: int = layout.STOPPED_BY_CALLER) -> None:
        """Ask all workers to stop at their next block; the first reason that is given stands."""
        turns.stop(self.shared.control, reason)

    def model(self) -> Model:
        """The model as it stands, averages included (exact once every worker has left)."""
        n_columns, shared = self.settings.n_columns, self.shared
        local = self.locals()
        coef = shared.w.reshape(-1, n_columns)
        intercept = shared.intercept
        if self.plan.private == epochs.ALONE:
            # the one worker's scale and intercept stand beside the vector until it leaves
            coef = (coef * local[0, layout.L_SCALE]).astype(shared.w.dtype)
            intercept = local[0, layout.L_INTERCEPT]
        coef = shrunk(np.array(coef.T, order="C"), self.rule.threshold)
        intercept = intercept.astype(shared.w.dtype)
        t = self.rule.first_t + self.word(layout.EPOCHS) * float(shared.order.shape[1])
        if not self.rule.average:
            return Model(coef, intercept, t)
        count, total, bias = self.sums_of_iterates()
        before = max(0.0, self.rule.first_t - self.rule.average)
        total = total.reshape(-1, n_columns).T + before * self.arrays["average_coef"]
        bias = bias + before * self.arrays["average_intercept"]
        share = 1.0 / np.maximum(count + before, 1.0)
        return Model(
            coef,
            intercept,
            t,
            (total * share[:, None]).astype(coef.dtype),
            (bias * share).astype(coef.dtype),
        )

    def sums_of_iterates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How many iterates this run has summed per column, their sum, and their intercepts'."""
        local = self.locals()
        counts = local[:, layout.L_AVERAGE_COUNT]
        total = self.arrays["lag"][:, : self.size].sum(axis=0)
        # what is not in the lag yet: see `hogshare.kernels.sgd`
        in_place = self.plan.private in (epochs.LOCK_FREE, epochs.MASTER)
        weights = counts if in_place else local[:, layout.L_AVERAGE_SCALE]
        for k in np.flatnonzero(weights.any(axis=1)):
            w = self.shared.w if in_place else self.private(int(k)).w
            total = total + np.tile(weights[k], self.settings.n_features) * w
        return counts.sum(axis=0), total, local[:, layout.L_AVERAGE_INTERCEPT].sum(axis=0)

    def put_intercept(self, intercept: np.ndarray) -> None:
        """Move the intercepts while nobody works; whoever joins again starts from there."""
        self.shared.intercept[:] = intercept
        if self.plan.private == epochs.ALONE:
            self.locals()[0, layout.L_INTERCEPT] = intercept

    def rests(self) -> bool:
        """Whether the epochs up to the limit are done and every worker has pushed what it had."""
        # In an ordered run those that start are waited for: raised too early, the limit would let
        # the first ones go on with a section of somebody who rests.
        busy = (*IN_RUN, layout.STARTING) if self.plan.ordered else IN_RUN
        return (
            self.word(layout.LIMIT) <= self.word(layout.EPOCHS) < self.plan.max_epochs
            # by their states: LIVE may be one off after a death inside of joining or leaving
            and not np.isin(self.shared.table[:, layout.T_STATE], busy).any()
            and self.word(layout.STOP) == layout.RUNNING
            and self.master_is_idle()
        )

    @property
    def has_master(self) -> bool:
        """Whether somebody besides the workers has to be the master."""
        return self.plan.private == epochs.MASTER and not self.plan.inline

    def master_is_idle(self) -> bool:
        """Whether all that workers have posted is in the model; they post no more, or rest."""
        if not self.has_master:
            return True
        table = self.shared.table[self.shared.table[:, layout.T_STATE] != layout.DEAD]
        taken = (table[:, layout.T_MAILED] == table[:, layout.T_TAKEN]).all()
        words = (layout.GATHERED, layout.JOURNAL, layout.SERVING)
        return bool(taken) and not any(self.word(word) for word in words)

    def raise_limit(self, epochs: int) -> None:
        """Let workers that rest go on up to so many epochs."""
        self.shared.control[layout.LIMIT] = min(epochs, self.plan.max_epochs)

    def restore_sums(self) -> None:
        """Make what is bound to be a sum over the rows that sum again, if a worker has died.

        During the run that is done too (`turns.pause`); this is for a death that came at the end.
        """
        if self._lost_anyone():
            sum_anew(self)

    def _lost_anyone(self) -> bool:
        return bool((self.shared.table[:, layout.T_STATE] == layout.DEAD).any())

    def restore_at_rest(self) -> bool:
        """`restore_sums` while all rest; False if a worker that joined late is just about it."""
        if not self._lost_anyone():
            return True
        me = self.settings.n_workers + 1  # the caller, beside the workers
        if not repair.take_sums(self.shared.control, me):
            return False
        self.restore_sums()
        repair.give_sums_back(self.shared.control)
        return True

    def locals(self) -> np.ndarray:
        """Workers' own numbers: float64 [n_workers, layout.N_LOCAL_FIELDS, n_columns]."""
        n = layout.N_LOCAL_FIELDS * self.settings.n_columns
        return self.arrays["local"][:, :n].reshape(
            self.settings.n_workers, layout.N_LOCAL_FIELDS, self.settings.n_columns
        )


def shrunk(coef: np.ndarray, threshold: float) -> np.ndarray:
    """Move every coefficient towards zero: from the dual rule's vector to its model."""
    if threshold == 0.0:
        return coef
    sizes = np.maximum(np.abs(coef) - coef.dtype.type(threshold), 0.0)
    return np.copysign(sizes, coef).astype(coef.dtype)


ROW_ARRAYS = ("row_data", "row_indices", "row_indptr", "row_y", "row_weight")
SERVE_ROUNDS = 256  # of all workers' mail, in a turn of the master
_PREPARED: set[tuple[str, str, str]] = set()  # turns and types that this process has loaded


class Worker:
    """One worker's side of a session."""

    def __init__(self, session: Session, me: int) -> None:
        self.session = session
        self.me = me
        self.private = session.private(me)
        self.table = session.shared.table[me]
        self.scratch = session.arrays["scratch"][me]

    def prepare(self) -> None:
        """Load or compile the kernels for this session's types; a run does nothing else before."""
        s = self.session
        name = s.take_turn.__name__
        key = (name, s.shared.w.dtype.name, s.rows.indices.dtype.name)
        if key in _PREPARED or JIT_DISABLED:
            return
        if not is_cached(f"turns.{name}"):
            log.info("compiling; this takes some seconds, once per rule and type of number")
        turn = (s.rows, s.rule, s.plan, s.shared, self.private, self.scratch, self.me, 0)
        s.take_turn.compile(tuple(map(typeof, turn)))
        turns.join.compile(tuple(map(typeof, (s.rule, s.plan, s.shared, self.private, self.me))))
        leave = (s.rule, s.plan, s.shared, self.private, self.me, layout.DONE)
        turns.leave.compile(tuple(map(typeof, leave)))
        # not when somebody wants to stop: that has to be quick
        turns.stop.compile(tuple(map(typeof, (s.shared.control, layout.STOPPED_BY_CALLER))))
        if s.plan.private == epochs.MASTER:
            s.master().prepare()
        _PREPARED.add(key)

    def join(self) -> bool:
        """Enter the run and pull for the first time; False if the run has been closed."""
        s = self.session
        joined = bool(turns.join(s.rule, s.plan, s.shared, self.private, self.me))
        if joined and not self.table[layout.T_JOINED]:
            self.table[layout.T_PROCESS] = os.getpid()
            self.table[layout.T_JOINED] = time.perf_counter_ns()
        return joined

    def must_ask(self) -> bool:
        """Whether a barrier of the user's has yet to say that this worker may go on."""
        held = self.table[layout.T_PASSED] <= self.table[layout.T_CLOCK]
        return held and self.session.barrier is not None

    def ask(self) -> bool:
        """Ask the user's barrier, and take note if it lets the worker pass."""
        assert self.session.barrier is not None
        table = ProgressTable(self.session.shared.table)
        present = table.in_run  # who joins after this look may not have been asked about
        if not ask(self.session.barrier, table, self.me):
            return False
        present &= table.in_run
        clock = table.clock
        lead = clock[self.me] - clock[present].min(initial=clock[self.me])
        self.table[layout.T_LAG] = max(self.table[layout.T_LAG], lead)
        self.table[layout.T_PASSED] = clock[self.me] + 1
        return True

    def nobody_computes(self) -> bool:
        """Whether no worker in the run has a block in hand."""
        table = self.session.shared.table
        in_run = ProgressTable(table).in_run
        return bool((table[in_run, layout.T_BLOCK] == layout.NO_BLOCK).all())

    def stuck(self, waited_ns: int) -> BarrierError:
        """What to raise when the user's barrier lets nobody pass."""
        assert self.session.barrier is not None
        return BarrierError(
            f"The barrier {name_of(self.session.barrier)} has let no worker pass for "
            f"{waited_ns * 1e-9:.0f} seconds in which none had a block in hand, so that nothing it "
            "waits for can happen. Workers that are starting, done or dead must not hold others "
            "(table.in_run)."
        )

    def sleep_seconds(self) -> float:
        """How long to sleep in the block in hand."""
        s = self.session
        assert s.stragglers is not None
        block, n_workers = int(self.table[layout.T_BLOCKS]), s.settings.n_workers
        return s.stragglers.sleep(self.me, block, n_workers, s.block_seconds())

    def is_stopped(self) -> bool:
        """Whether somebody has asked everybody to stop."""
        return self.session.word(layout.STOP) != layout.RUNNING

    def must_rest(self) -> bool:
        """Whether the caller has yet to raise the limit."""
        s = self.session
        return (
            s.word(layout.LIMIT) <= s.word(layout.EPOCHS) and s.word(layout.STOP) == layout.RUNNING
        )

    def rejoin(self) -> bool:
        """Enter the run again after a rest; False if it has ended meanwhile."""
        if self.session.word(layout.STOP) != layout.RUNNING:
            self.table[layout.T_STATE] = layout.DONE
            return False
        return self.join()

    def turn(self, n_blocks: int) -> int:
        """Claim and compute up to `n_blocks` blocks; one of the ``TURN_`` answers."""
        s = self.session
        answer = s.take_turn(
            s.rows, s.rule, s.plan, s.shared, self.private, self.scratch, self.me, n_blocks
        )
        self.table[layout.T_HEARTBEAT] = time.perf_counter_ns()
        return int(answer)

    def leave(self, state: int = layout.DONE) -> None:
        """Push what is left, and be done or resting."""
        s = self.session
        turns.leave(s.rule, s.plan, s.shared, self.private, self.me, state)
        if s.plan.inline:
            s.master().serve()  # the rest of its sum

    def record(self, again: int = 20) -> None:
        """Copy the model into the place of the snapshot that is due."""
        s = self.session
        completed = s.word(layout.COMPLETED)
        slot = completed // s.plan.record_every - 1
        if not 0 <= slot < len(s.arrays["snapshot_blocks"]):
            return
        intercept = s.shared.intercept
        scale = np.ones(s.settings.n_columns)
        if s.plan.private == epochs.ALONE:
            scale = self.private.local[layout.L_SCALE]
            intercept = self.private.local[layout.L_INTERCEPT]
        snapshot = s.arrays["snapshots"][slot]
        before = s.word(layout.WRITES)
        with np.errstate(all="ignore"):  # a diverging run may overflow here; it is told at the end
            np.multiply(
                s.shared.w.reshape(-1, s.settings.n_columns),
                scale.astype(snapshot.dtype),
                out=snapshot.reshape(-1, s.settings.n_columns),
            )
            snapshot[:] = shrunk(snapshot, s.rule.threshold)
        s.arrays["snapshot_intercepts"][slot] = intercept
        if (before % 2 != 0 or s.word(layout.WRITES) != before) and again:
            self.record(again - 1)  # the master wrote meanwhile
            return
        s.arrays["snapshot_times"][slot] = time.perf_counter_ns()
        s.arrays["snapshot_blocks"][slot] = completed

    def model(self) -> Model:
        """The model as it stands between this worker's turns."""
        return self.session.model()


class MasterSide:
    """The master's side of a session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def prepare(self) -> None:
        """Load or compile the kernel."""
        if not JIT_DISABLED:
            s = self.session
            master.serve.compile(tuple(map(typeof, (s.plan, s.shared, SERVE_ROUNDS))))

    def take_over(self) -> None:
        """Put in order what another master has left."""
        master.take_over(self.session.shared)

    def serve(self) -> int:
        """Take what workers have posted; how many messages, or `master.OVER`."""
        return int(master.serve(self.session.plan, self.session.shared, SERVE_ROUNDS))
