"""What the caller reads and writes in the memory of a run, and what its workers call.

A snapshot's place is written by the worker whose block made it due. A session is arrays by name
plus a few numbers, so that a process that is handed the arrays builds the same session from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hogshare.barriers import UserBarrier
from hogshare.engine.gradient_steps import BlockWorker, GradientSteps
from hogshare.engine.homes import Homes
from hogshare.engine.participants import MasterService, Worker
from hogshare.engine.worker_states import remembered_states
from hogshare.engine.workspace import SessionSettings, Workspace
from hogshare.kernels import layout
from hogshare.kernels.schedule import barrier_codes, epoch_schedule, repair, worker_life
from hogshare.planes.protocol import Plane
from hogshare.problems.model import Model, as_coef, columns_last, shrunk
from hogshare.shm.table import IN_RUN
from hogshare.stragglers import Stragglers
from hogshare.system.interrupts import errstate
from hogshare.system.machine import usable_cores

POLLS_OF_NAP = 64  # of a master's, for one that sleeps in between: workers help it
AT_ONCE = 1 << 15  # numbers of a mean that are added up while a cache has them


class Session(Workspace):
    """The arrays of one run.

    arrays : as `shapes` lists them, plus the rows' arrays
    barrier : a barrier of the user's own, which workers ask between turns
    stragglers : the law by which workers are slow on purpose, if the plan says that they are
    outside : what steps are made of that are taken outside of kernels; None: kernels take them
    plane : one of the user's own, whose workers have homes
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
        """Have workers call the user's code in some way: barrier, law of stragglers, gradient.

        way : makes a function of one that does the same
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
        """Say what turns do by themselves; called before any worker starts.

        They look again for a while where they have to wait, and do the master's work if nobody is
        at it, where there is one memory. If nothing is between, a worker's
        first turn enters the run and its last one leaves it: a call of a kernel takes the
        interpreter, by turns with other threads, and comes back when it is free again, a tenth of a
        millisecond, so that a run of 16 threads should need few of them. With a master or rounds
        entering and leaving stay calls of their own, and with stragglers, a barrier of the user's
        own, or on a virtual clock turns do neither.

        n_polls : how often turns that find no block, or are held, look again, in one wait
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
        """What worker `me` calls."""
        is_compiled = self.outside is None or self.plan.grid > 0
        return Worker(self, me) if is_compiled else BlockWorker(self, me)

    def master(self) -> MasterService:
        """What the master calls; where workers have all cores, it sleeps between two looks."""
        is_crowded = len(self.local_workers) >= usable_cores()
        return MasterService(self, -(self.n_polls // POLLS_OF_NAP) if is_crowded else self.n_polls)

    # -- words that the caller's side reads and writes ------------------------------------------

    def give_up(self, me: int) -> None:
        """Count a worker of the calling thread as dead, which has been interrupted between turns.

        For a run that has been stopped: a master waits until every worker is done or dead.
        """
        worker_life.apply(self.schedule.table[me], worker_life.DIE)

    def model(self, last: bool = False) -> Model:
        """The model as it stands, averages included (exact once every worker has left).

        Coefficients lie in memory as the run has them, feature by feature.

        last : whether every worker has left for good, so that the run's own arrays are the model
        """
        n_columns, vector = self.settings.n_columns, self.vector
        local = self.locals()
        w, intercept = vector.w, vector.intercept
        if self.homes is not None:
            w, intercept = self.homes.model()
        elif self.is_alone:
            # the one worker's scale and intercept stand beside the vector until it leaves
            if last:
                self._fold()
            else:
                scaled = w.reshape(-1, n_columns) * local[0, layout.L_SCALE]
                w = scaled.astype(w.dtype, copy=False).reshape(-1)
            intercept = local[0, layout.L_INTERCEPT]
        elif not last:
            w = w.copy()
        coef = shrunk(as_coef(w, n_columns), self.rule.threshold)
        intercept = intercept.astype(vector.w.dtype)
        n_all = round(self.schedule.order.shape[1] * self.plan.stride)
        t = self.rule.first_t + self.word(layout.EPOCHS) * float(n_all)
        if not self.rule.average:
            return Model(coef, intercept, t)
        average, bias = self.mean_of_iterates(last)
        return Model(coef, intercept, t, average, bias.astype(coef.dtype))

    def snapshot(self) -> Any:
        """The model as it stands, as users see the problem's."""
        model = self.model()
        return model if self.outside is None else self.outside.problem.view(model)

    def mean_of_iterates(self, last: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean of the iterates with those before this run, as coefficients and intercepts.

        last : whether the run's own arrays may be written for it
        """
        before = max(0.0, self.rule.first_t - self.rule.average)
        n_columns, kind = self.settings.n_columns, self.vector.w.dtype
        count, total, bias = self.sums_of_iterates(last)
        share = 1.0 / np.maximum(count + before, 1.0)
        bias = (bias + before * self.arrays["average_intercept"]) * share
        if self.rule.iterate < 1.0:  # those before are in the sum, which is a mean of so many
            share, before = share / self.rule.iterate, 0.0
        if not (before or count.any()):
            mean = total if total.dtype == kind else np.zeros(total.shape, kind)
            return as_coef(mean, n_columns), bias
        first = columns_last(self.arrays["average_coef"]) if before else total
        if total.dtype == kind:
            out = total
        else:
            out = first if last and first.dtype == kind else np.empty(total.shape, kind)
        step = max(1, AT_ONCE // n_columns)
        shares = share[0] if (share == share[0]).all() else np.tile(share, step)
        for start in range(0, len(total), step * n_columns):
            part = slice(start, start + step * n_columns)
            piece = total[part]
            if before:
                piece += np.multiply(first[part], before, dtype=np.float64)
            of_piece = shares if np.ndim(shares) == 0 else shares[: len(piece)]
            np.multiply(piece, of_piece, out=out[part], casting="same_kind")
        return as_coef(out, n_columns), bias

    def settle(self) -> None:
        """Leave arrays that are the caller's as a model, after a run that was broken off."""
        if not self.is_alone:
            return  # others write the vector at exchanges only, or as it is
        with errstate(all="ignore"):
            self._fold()
            if self.rule.iterate < 1.0:
                self.mean_of_iterates(last=True)

    def _fold(self) -> None:
        """Fold the one worker's scale, if it has never come to leave."""
        local, lag = self.locals()[0], self.arrays["lag"]
        w = self.vector.w.reshape(-1, self.settings.n_columns)
        if lag.size and local[layout.L_AVERAGE_SCALE].any():
            lag = lag[0, : self.size].reshape(w.shape)
            lag += local[layout.L_AVERAGE_SCALE] * w
            local[layout.L_AVERAGE_SCALE] = 0.0
        if (local[layout.L_SCALE] != 1.0).any():
            w[:] = local[layout.L_SCALE] * w
            local[layout.L_SCALE] = 1.0

    def sums_of_iterates(self, last: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How many iterates this run has summed per column, their sum, and their intercepts'.

        last : whether a lag may be written; then one worker's is the sum
        """
        local = self.locals()
        counts = local[:, layout.L_AVERAGE_COUNT]
        lag = self.arrays["lag"][:, : self.size]
        total = lag[0] if last and len(lag) == 1 else lag.sum(axis=0)
        # what is not in the lag yet: see `hogshare.kernels.rules.sgd_steps`
        in_place = (
            self.plan.private in (epoch_schedule.LOCK_FREE, epoch_schedule.MASTER)
            and not self.plan.copied
        )
        weights = counts if in_place else local[:, layout.L_AVERAGE_SCALE]
        for k in np.flatnonzero(weights.any(axis=1)):
            w = self.vector.w if in_place else self.private(self.local_workers.start + int(k)).w
            total = total + np.tile(weights[k], self.settings.n_features) * w
        found = counts.sum(axis=0), total, local[:, layout.L_AVERAGE_INTERCEPT].sum(axis=0)
        if self.over_sites is None:
            return found
        counts, total, bias = map(self.over_sites, found)
        return counts, total, bias

    def put_intercept(self, intercept: np.ndarray) -> None:
        """Move the intercepts while nobody works; whoever joins again starts from there."""
        self.vector.intercept[:] = intercept
        if self.is_alone:
            self.locals()[0, layout.L_INTERCEPT] = intercept

    def is_paused(self) -> bool:
        """Whether the epochs up to the limit are done and every worker has pushed what it had."""
        # In an ordered run those that start are waited for: raised too early, the limit would let
        # the first ones go on with a section of somebody who rests.
        busy = (*IN_RUN, layout.STARTING) if self.plan.ordered else IN_RUN
        return (
            self.word(layout.LIMIT) <= self.word(layout.EPOCHS) < self.plan.max_epochs
            # by their states: LIVE may be one off after a death inside of joining or leaving
            and set(busy).isdisjoint(self.local_table[:, layout.T_STATE].tolist())
            and self.word(layout.STOP) == layout.RUNNING
            and self.master_is_idle()
        )

    @property
    def local_table(self) -> np.ndarray:
        """The rows of the table that belong to the workers here: a view."""
        return self.schedule.table[self.local_workers.start : self.local_workers.stop]

    @property
    def has_master(self) -> bool:
        """Whether somebody besides the workers has to be the master."""
        return self.plan.private == epoch_schedule.MASTER and not self.plan.inline

    def master_is_idle(self) -> bool:
        """Whether all that workers have posted is in the model; they post no more, or rest."""
        if not self.has_master:
            return True
        here = [
            k for k in self.local_workers if self.schedule.table[k, layout.T_STATE] != layout.DEAD
        ]
        counters = self.mail.box.counters[here]
        taken = (counters[:, layout.M_POSTED] == counters[:, layout.M_TAKEN]).all()
        words = (layout.GATHERED, layout.JOURNAL, layout.SERVING)
        return bool(taken) and not any(self.word(word) for word in words)

    def raise_limit(self, epochs: int) -> None:
        """Let workers that rest go on up to so many epochs.

        Where workers have homes, or are at several sites, those that rest are expected again from
        now on, at one clock unless each goes on by itself: not everybody may have had a block in
        the last round. Worker 0 has the next section, if there are any: who rests there has not
        waited for one, so that it may be anybody's. It also has it where mini-batches are split,
        whose parts would else be in
        two rounds from here on.
        """
        n, table, control = self.settings.n_workers, self.schedule.table, self.schedule.control
        resting = table[:, layout.T_STATE] == layout.RESTING
        if not self.plan.free and (self.homes is not None or not self.settings.world.is_one):
            # others may have gone on by now, at another site, and be ahead
            table[resting, layout.T_CLOCK] = table[resting, layout.T_CLOCK].max(initial=0)
        if self.homes is not None:
            table[resting, layout.T_EXPECTED] = min(epochs, self.plan.max_epochs)  # first
            for k in np.flatnonzero(resting):
                worker_life.apply(table[k], worker_life.EXPECT)
        if (
            self.plan.barrier != barrier_codes.FREE
        ):  # which wait for those of other sites from now on
            for k in np.flatnonzero(resting):
                if k not in self.local_workers:
                    worker_life.apply(table[k], worker_life.AWAIT)
        if self.homes is not None or self.plan.split:
            control[layout.SECTION] = -(-control[layout.SECTION] // n) * n
        self.schedule.control[layout.LIMIT] = min(epochs, self.plan.max_epochs)
        if self.on_limit is not None:
            self.on_limit()

    def open_epochs(self) -> None:
        """Let workers that go on by themselves begin with the epoch after those that are done."""
        if not self.plan.free:
            return
        s, epoch = self.schedule, self.word(layout.EPOCHS)
        s.remaining[:: layout.WORD] = self.plan.n_blocks
        s.sums[:] = 0.0
        s.table[:, layout.T_DEALT] = epoch
        s.control[layout.READY] = epoch + len(s.sums)

    @property
    def called_for(self) -> int | None:
        """The epoch after which an epoch's end has asked for a look, if it has."""
        enough = self.arrays["columns"][layout.C_ENOUGH, 0]
        return -int(enough) if enough < 0.0 else None

    @property
    def change(self) -> float:
        """Sum of squared changes, in the last epoch, of what is remembered of rows."""
        return float(self.arrays["columns"][layout.C_CHANGE, 0])

    def ask_for_check(self, change: float, gradient: float, soonest: int) -> None:
        """Let workers rest before the limit, once an epoch's changes have come down to `change`.

        And, where SAGA's average tells of it, the gradient to `gradient`; not before the epoch
        `soonest`. A `change` of 0: not before the limit; a `gradient` of 0: whatever it is. While
        nobody works.
        """
        columns = self.arrays["columns"]
        columns[layout.C_ENOUGH, 0], columns[layout.C_SMALL, 0] = change, gradient
        columns[layout.C_SOONEST, 0] = soonest

    def put_units(self, origin: np.ndarray, size: np.ndarray, known: np.ndarray) -> None:
        """Say in which units SAGA's average is compared (`problems.linear.units`); as above."""
        units = self.arrays["units"]
        if not units.size:
            return
        units[0] = origin
        np.divide(1.0, size, out=units[1], where=known & (size > 0.0))

    def remembered(self) -> Any:
        """What is remembered of rows, as derivatives: a copy; None by a rule that remembers none.

        Where steps are taken outside, what the rule keeps with each worker. While nobody works.
        """
        if self.outside is not None:
            return remembered_states(self.arrays)
        found = self.row_memory.derivatives(self.arrays, self.settings.n_columns)
        return found if found is None or found.flags.owndata else found.copy()

    def mean_slopes(self) -> np.ndarray:
        """Mean of what is remembered of the rows, as it stands: float64 of shape (n_columns,)."""
        if self.is_alone:
            return self.locals()[0, layout.L_DUAL_MEAN]
        return self.memory.dual_mean

    def restore_sums(self) -> None:
        """Make what is bound to be a sum over the rows that sum again, if a worker has died.

        During the run `run_membership.pause` does that; this is for a death at the run's end.
        """
        if self._lost_anyone():
            self.row_memory.sum_anew(self)

    def _lost_anyone(self) -> bool:
        return layout.DEAD in self.schedule.table[:, layout.T_STATE].tolist()

    def restore_at_pause(self) -> bool:
        """`restore_sums` while all rest; False if a worker that joined late is just about it."""
        if not self._lost_anyone():
            return True
        me = self.settings.n_workers + 1  # the caller, beside the workers
        if not repair.take_sums(self.schedule.control, me):
            return False
        self.restore_sums()
        repair.give_sums_back(self.schedule.control)
        return True
