"""The session of a run: its memory as the caller reads and writes it, and its participants.

A session is a set of named arrays and a few numbers, so a process with the same arrays builds the
same session. If a worker's block makes a snapshot due, the worker writes the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hogshare.barriers import UserBarrier
from hogshare.engine.gradient_steps import BlockWorker, GradientSteps
from hogshare.engine.homes import Homes
from hogshare.engine.participants import MasterService, Worker
from hogshare.engine.session_model import SessionModel
from hogshare.engine.workspace import SessionSettings
from hogshare.kernels import layout
from hogshare.kernels.schedule import barrier_codes, epoch_schedule, repair, worker_life
from hogshare.planes.protocol import Plane
from hogshare.shm.table import IN_RUN
from hogshare.stragglers import Stragglers
from hogshare.system.machine import usable_cores

POLLS_OF_NAP = 64  # a napping master divides its polls by this number: workers help it


class Session(SessionModel):
    """The arrays of one run.

    arrays : the arrays that `shapes` lists, plus the rows' arrays; none is copied
    barrier : the user's own barrier, which workers ask between quanta
    stragglers : the function that returns how long a worker sleeps in a block, if the plan has
        stragglers
    outside : the problem and the rule of steps outside of kernels, or None if kernels take the
        steps
    plane : a plane whose workers have homes, or None if workers have no homes
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        settings: SessionSettings,
        barrier: UserBarrier | None = None,
        stragglers: Stragglers | None = None,
        outside: GradientSteps | None = None,
        plane: Plane | None = None,
    ) -> None:
        super().__init__(arrays, settings, barrier, stragglers, outside)
        self.plane = plane
        self.homes = None if plane is None else Homes(self, plane)

    def call_users_by(self, way: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Wrap the user's code that workers call: barrier, law of stragglers, gradient and plane.

        way : a function that takes a function and returns a wrapper with the same results
        """
        if self.barrier is not None:
            self.barrier = way(self.barrier)
        if self.law is not None:
            self.law = way(self.law)
        if self.outside is not None:
            self.outside.around.append(way)
        if self.homes is not None:
            self.homes.call = way(self.homes.call)

    def set_up_quanta(self, n_polls: int) -> None:
        """Set the work that quanta do besides blocks; call it before any worker starts.

        (1) Quanta poll for a while when they have to wait. (2) On one site, they do the master's
        work when no other participant does it. (3) A worker's first quantum joins the run, and its
        last quantum leaves it, so a run of 16 threads needs few calls of kernels. The number of
        calls matters, because threads take the interpreter one after another. A call needs the
        interpreter, and returns only when the interpreter is free again, after a tenth of a
        millisecond. With a master or with rounds, joining and leaving are separate calls. With
        stragglers, with the user's own barrier, and on a virtual clock, quanta do none of (1) to
        (3).

        n_polls : number of polls in one wait of a quantum that finds no block, or waits at a
            barrier
        """
        plan = self.plan
        if plan.sleeps or plan.parts or self.barrier is not None:
            return
        self.schedule.table[:, layout.T_POLLS] = n_polls
        if self.settings.world.is_one and self.has_master:
            self.schedule.table[:, layout.T_HELPS] = 1
        if not plan.ordered and plan.private != epoch_schedule.MASTER:
            self.schedule.table[:, layout.T_ENTERS] = 1

    def worker(self, me: int) -> Worker:
        """Make worker `me`, with the methods that its loop calls."""
        is_compiled = self.outside is None or self.plan.grid > 0
        return Worker(self, me) if is_compiled else BlockWorker(self, me)

    def master(self) -> MasterService:
        """Make the master; if the workers use all cores, it sleeps between two polls."""
        is_crowded = len(self.local_workers) >= usable_cores()
        return MasterService(self, -(self.n_polls // POLLS_OF_NAP) if is_crowded else self.n_polls)

    def give_up(self, me: int) -> None:
        """Mark worker `me` as dead: it ran in the calling thread and was interrupted.

        Call it if the interruption came between two quanta, after the run has been stopped. Without
        this mark, a master would wait for the worker: a master waits until every worker is done or
        dead.
        """
        worker_life.apply(self.schedule.table[me], worker_life.DIE)

    def put_intercept(self, intercept: np.ndarray) -> None:
        """Set the intercepts while no worker works; workers that join again start from them."""
        self.vector.intercept[:] = intercept
        if self.is_alone:
            self.locals()[0, layout.L_INTERCEPT] = intercept

    def is_paused(self) -> bool:
        """Whether the epochs up to the limit are done and every worker has pushed its changes."""
        # An ordered run also waits for starting workers: if the limit were raised too early, the
        # first workers would go on with a paused worker's section.
        busy = (*IN_RUN, layout.STARTING) if self.plan.ordered else IN_RUN
        return (
            self.word(layout.LIMIT) <= self.word(layout.EPOCHS) < self.plan.max_epochs
            # read the states: LIVE may be off by one after a death during joining or leaving
            and set(busy).isdisjoint(self.local_table[:, layout.T_STATE].tolist())
            and self.word(layout.STOP) == layout.RUNNING
            and self.master_is_idle()
        )

    @property
    def local_table(self) -> np.ndarray:
        """The rows of the table that belong to this site's workers: a view."""
        return self.schedule.table[self.local_workers.start : self.local_workers.stop]

    @property
    def has_master(self) -> bool:
        """Whether the run has a master besides the workers."""
        return self.plan.private == epoch_schedule.MASTER and not self.plan.inline

    def master_is_idle(self) -> bool:
        """Whether the model contains all messages; call it when all workers are done or paused."""
        if not self.has_master:
            return True
        live = [
            k for k in self.local_workers if self.schedule.table[k, layout.T_STATE] != layout.DEAD
        ]
        counters = self.mail.box.counters[live]
        taken = (counters[:, layout.M_POSTED] == counters[:, layout.M_TAKEN]).all()
        words = (layout.GATHERED, layout.JOURNAL, layout.SERVING)
        return bool(taken) and not any(self.word(word) for word in words)

    def raise_limit(self, epochs: int) -> None:
        """Let paused workers go on until `epochs` epochs are done.

        If workers have homes, or are at several sites, paused workers are expected again from now
        on. If workers wait for each other, all workers get the same clock, because some may have
        had no block in the last round.

        If workers have homes, or if mini-batches are split, worker 0 gets the next section (the
        right to fold and claim, which passes from worker to worker; see `ordered_rounds`). A worker
        with a home pauses without waiting for its section, so without this the next section could
        belong to any worker. The parts of a split mini-batch would be in two rounds.
        """
        n, table, control = self.settings.n_workers, self.schedule.table, self.schedule.control
        resting = table[:, layout.T_STATE] == layout.RESTING
        if not self.plan.free and (self.homes is not None or not self.settings.world.is_one):
            # workers of another site may have gone on by now, and be ahead
            table[resting, layout.T_CLOCK] = table[resting, layout.T_CLOCK].max(initial=0)
        if self.homes is not None:
            # before the move, after which the workers are expected
            table[resting, layout.T_EXPECTED] = min(epochs, self.plan.max_epochs)
            for k in np.flatnonzero(resting):
                worker_life.apply(table[k], worker_life.EXPECT)
        # barriers other than FREE wait for the workers of other sites from now on
        if self.plan.barrier != barrier_codes.FREE:
            for k in np.flatnonzero(resting):
                if k not in self.local_workers:
                    worker_life.apply(table[k], worker_life.AWAIT)
        if self.homes is not None or self.plan.split:
            control[layout.SECTION] = -(-control[layout.SECTION] // n) * n
        # last: a paused worker joins again as soon as it reads the new limit
        self.schedule.control[layout.LIMIT] = min(epochs, self.plan.max_epochs)
        if self.on_limit is not None:
            self.on_limit()

    def open_epochs(self) -> None:
        """Let workers that do not wait for each other begin epochs after the finished epochs."""
        if not self.plan.free:
            return
        s, epoch = self.schedule, self.word(layout.EPOCHS)
        s.remaining[:: layout.WORD] = self.plan.n_blocks
        s.sums[:] = 0.0
        s.table[:, layout.T_DEALT] = epoch
        s.control[layout.READY] = epoch + len(s.sums)

    @property
    def called_for(self) -> int | None:
        """The epoch after which a worker has requested a check, or None without a request."""
        enough = self.arrays["columns"][layout.C_ENOUGH, 0]
        return -int(enough) if enough < 0.0 else None

    @property
    def change(self) -> float:
        """Sum of squared changes of the memory of rows in the last epoch."""
        return float(self.arrays["columns"][layout.C_CHANGE, 0])

    def ask_for_check(self, change: float, gradient: float, soonest: int) -> None:
        """Request a pause before the limit, once an epoch's changes have come down to `change`.

        If SAGA's average gives the gradient, the gradient must also have come down to `gradient`.
        The pause does not come before the epoch `soonest`. If `change` is 0, workers pause only at
        the limit. If `gradient` is 0, any gradient suffices. Call it while no worker works.
        """
        columns = self.arrays["columns"]
        columns[layout.C_ENOUGH, 0], columns[layout.C_SMALL, 0] = change, gradient
        columns[layout.C_SOONEST, 0] = soonest

    def put_units(self, origin: np.ndarray, size: np.ndarray, known: np.ndarray) -> None:
        """Set the units in which SAGA's average is compared (`problems.linear.units`).

        Call it while no worker works.
        """
        units = self.arrays["units"]
        if not units.size:
            return
        units[0] = origin
        np.divide(1.0, size, out=units[1], where=known & (size > 0.0))

    def restore_sums(self) -> None:
        """Recompute the sums over the memory of rows if a worker has died.

        During the run, `run_membership.pause` recomputes the sums. This method is for a death at
        the run's end.
        """
        if self._lost_anyone():
            self.row_memory.sum_anew(self)

    def _lost_anyone(self) -> bool:
        return layout.DEAD in self.schedule.table[:, layout.T_STATE].tolist()

    def restore_at_pause(self) -> bool:
        """Call `restore_sums` in a pause; return False if a late worker is already doing it."""
        if not self._lost_anyone():
            return True
        me = self.settings.n_workers + 1  # the caller's number
        if not repair.take_sums(self.schedule.control, me):
            return False
        self.restore_sums()
        repair.give_sums_back(self.schedule.control)
        return True
