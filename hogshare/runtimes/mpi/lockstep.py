"""Ranks without shared memory that run in step: each has the whole run, and computes a part of it.

Every rank is a site with a session of all workers, in memory of its own. A worker's blocks are
computed on one site, which sends each block's result to all other sites
(`hogshare.engine.ownership`). Every site folds results, claims blocks, ends epochs, evaluates the
model and calls the plane by itself, with the same values in the same order
(`hogshare.kernels.schedule.ordered_rounds`). So a run has the same bits as a run of as many
threads, for any plane, rule, problem and criterion that has an order.

Some decisions depend on a clock or on the user's code, so sites must agree on them: (1) whether a
caller wants to stop, after all callers have been called; (2) the next limit after a pause, which
rank 0 decides.

A site is at most one round of its workers ahead of any other site. So at most two blocks of a
worker are under way, and no credits (`hogshare.runtimes.mpi.channel`) are needed.

Writers: one thread for each worker of the rank, and one thread for the master and the workers of
all other sites, as `hogshare.engine.session` describes. Only the calling thread communicates with
other ranks; it also writes the run's flags while no worker works. Readers: the thread that drives a
worker on this site reads the worker's received blocks. Order: a worker's blocks arrive in posting
order. Freeing: `close`.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hogshare.engine.checkpoints import AnothersFile, OneFile
from hogshare.engine.choices import Choices
from hogshare.engine.convergence_checks import AtPause
from hogshare.engine.loop import loop_of, master_loop, together
from hogshare.engine.ownership import MEASURED, BlockDelivery
from hogshare.engine.participants import MasterService
from hogshare.engine.session import Session
from hogshare.engine.world import World
from hogshare.kernels import layout
from hogshare.kernels.rows.shared_passes import Each
from hogshare.kernels.schedule.ordered_rounds import BROUGHT
from hogshare.links.link import Line
from hogshare.links.run_links import Network
from hogshare.runtimes.events import Bell
from hogshare.runtimes.hooks import EpochHook, OnEpoch
from hogshare.runtimes.mpi.channel import FIRST_KIND, NAP_SECONDS, Channel
from hogshare.runtimes.mpi.rank_pool import RankPool
from hogshare.runtimes.mpi.survivors import refuse
from hogshare.runtimes.protocol import Outcome, Runtime
from hogshare.runtimes.threads import ThreadCrew
from hogshare.shm.table import IN_RUN
from hogshare.system.interrupts import DeferredSignals

DECIDES = 0  # the rank that decides
BLOCK = FIRST_KIND  # the kind of a message with a block's worker and result
SHORTEST_NAP = 2e-5  # seconds, while waiting for a block
DIFFERENT = (
    "The ranks have come to different models: do not use any of them. A custom plane, rule or "
    "gradient must compute the same on all ranks; without one this is an error of hogshare: "
    "please report it with the call."
)
OVER = -1.0  # sent in place of an epoch: end the run
BUSY = (*IN_RUN, layout.STARTING)


class HasNoOrder(Exception):
    """The run's workers have no order, so the run does not repeat: sites cannot run in step."""


class Lockstep(Runtime):
    """The runtime of ranks without shared memory, for runs in which workers have an order.

    comm : a communicator that only this call uses
    watch : called while this rank waits for other ranks; raises an error if another rank has failed
    workers_of : the number of workers of each rank
    network : emulated links between the ranks; None if links are not emulated
    survives : whether the call asks to continue without dead ranks; such a run cannot do so
    """

    name = "mpi"

    def __init__(
        self,
        comm: Any,
        watch: Callable[[], Any],
        workers_of: Sequence[int],
        network: Network | None = None,
        survives: bool = False,
    ) -> None:
        self.survives = survives
        self.pool, self.network = RankPool(comm, watch), network
        self.me = self.pool.me
        self.world = World(tuple(workers_of), self.me)
        self.channel: Channel | None = None
        self._crews: list[ThreadCrew] = []

    @property
    def files(self) -> OneFile:
        """The reader and writer of checkpoints: all ranks read, and rank 0 writes."""
        return OneFile() if self.me == DECIDES else AnothersFile()

    # -- before

    def settled(self, choices: Choices) -> Choices:
        """Return the choices with the seed of rank 0; all ranks must call this.

        Raises HasNoOrder in three cases: (1) the workers have no order; (2) the plane's links delay
        messages; (3) two workers may draw the same remembered row in one round.
        """
        delayed = choices.plane.edge_links(choices.n_workers) is not None
        # two workers may draw the same row in a round, and would update it in no fixed order
        draws = choices.rule.remembers and choices.rule.draws
        if not choices.is_ordered or delayed or draws:
            raise HasNoOrder
        if self.survives:
            raise refuse("a run in step (BSP of rows that every rank has)")
        seeds = self.pool.gathered(np.array([choices.seed]))
        return dataclasses.replace(choices, seed=int(seeds[DECIDES, 0]))

    def prepare(self, session: Session) -> None:
        """Assign each worker's site, and open the channel between the ranks."""
        n = session.settings.n_workers
        table = session.schedule.table
        table[:, layout.T_SITE] = layout.REMOTE
        table[self.world.local_workers.start : self.world.local_workers.stop, layout.T_SITE] = (
            layout.ASKS
        )
        others = np.delete(np.arange(n), self.world.local_workers)
        table[others, layout.T_POLLS] = 0  # one thread drives them all: none may wait for another
        self.session, self._others = session, others.tolist()
        self._brought = [BlockDelivery(session, k) for k in range(n)]
        session.bring = self._bring
        self._news = Bell()
        self._come: dict[int, deque[np.ndarray]] = {worker: deque() for worker in self._others}
        self._open()

    def _open(self) -> None:
        """Open a channel between the ranks."""
        self.channel = Channel(self.pool.copy_of_comm(), self._watch)
        links = self.network or Network()
        self._lines = {to: Line(links.between(self.me, to)) for to in self.channel.others}
        self.channel.on(BLOCK, self._take_block)

    def _watch(self) -> None:
        """Raise a local worker's error, or another rank's failure."""
        for crew in self._crews:
            if crew.errors:
                raise crew.errors[0]
        self.pool.watch()

    @property
    def _talk(self) -> Channel:
        assert self.channel is not None
        return self.channel

    def counts_mail(self, session: Session) -> bool:
        """Return True: the channel counts mail between sites; mail within a site is not sent."""
        return True

    # -- the run

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run until all ranks end the run."""
        if self._talk.is_over:  # an ended run that continues needs a new channel
            self._talk.close()
            self._open()
        n = session.settings.n_workers
        self._on_epoch, self._reported = on_epoch, session.word(layout.EPOCHS)
        self._is_heard = self._wants_stop = False
        own = ThreadCrew(session, self.world.local_workers, self._news)
        # the number after the last worker, for a thread without a core of its own
        beyond = range(n, n + 1)
        self._crews = [ThreadCrew(session, beyond, self._news, loop=self._loop_of_others), own]
        at_pause = _Agreed(self, checks)
        with (
            DeferredSignals(self._news) as signals,
            EpochHook(session, None, at_pause, own.each, signals) as hook,
        ):
            self._talk.deliver, self._signals = signals.deliver, signals
            try:
                self._agree_to_begin(on_epoch is not None)
                for crew in self._crews:
                    crew.start()
                idle = 0
                while any(crew.running for crew in self._crews):
                    idle = 0 if self._talk.poll() else idle + 1
                    self.pool.watch()
                    self.report()
                    if session.is_paused():
                        self._talk.pause()  # the next messages may take long
                    hook.poll()
                    own.wake()
                    if idle:  # a block comes soon after the previous block, or late
                        own.wait(min(SHORTEST_NAP * 2.0 ** min(idle, 8), NAP_SECONDS))
            except BaseException:
                session.stop(layout.STOPPED_BY_CALLER)
                for crew in self._crews:
                    crew.join(crew.patience(signals))
                raise
            for crew in self._crews:
                crew.finish()
            self.report()
            self._end()
        session.bring = None  # a reference cycle would delay freeing the run's memory
        return Outcome([], traffic=self._talk.traffic.as_dict())

    def close(self) -> None:
        """Free the channel's resources."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def facts(self) -> dict[str, Any]:
        """Return the number of machines, and that they ran in step."""
        return {"machines": self.pool.size, "in_step": True}

    def _loop_of_others(self, me: int) -> Any:
        """Return the joint loop of other ranks' workers, and of the master if the run has one."""
        session = self.session
        loops = [loop_of(session, k) for k in self._others]
        if session.has_master:
            loops.append(master_loop(MasterService(session, n_polls=0)))
        return together(loops)

    # -- a worker's block, in the thread that drives the worker

    def _bring(self, me: int) -> bool:
        """Advance a worker's block that begins, or is computed; return False if it must wait."""
        row, brought = self.session.schedule.table[me], self._brought[me]
        if row[layout.T_COMPUTED] != 0:
            parts = [np.array([me]), *brought.pack()]
            for to, line in self._lines.items():
                self._talk.post(to, BLOCK, parts, "block", 0, line)
            self._news.set()
            row[layout.T_COMPUTED] = BROUGHT
            return True
        if self._wants_stop:
            self.session.stop(layout.STOPPED_IN_STEP)
            return True
        if self._is_heard and self._reported < self.session.word(layout.EPOCHS):
            return False  # callers are notified of an epoch before a later round's block begins
        if row[layout.T_SITE] != layout.REMOTE:
            brought.begin()
            row[layout.T_SITE] = layout.BEGINS
            return True
        if not self._come[me]:
            return False
        brought.unpack(self._come[me].popleft())
        row[layout.T_COMPUTED] = BROUGHT
        return True

    def _take_block(self, sender: int, content: np.ndarray) -> None:
        self._come[int(content[:8].view(np.int64)[0])].append(content[8:])

    # -- what ranks agree on, in the calling thread

    def _agree_to_begin(self, is_heard: bool) -> None:
        """Check that all ranks begin with the same state, and set rank 0's first limit of epochs.

        All ranks must call this. It writes the limit to the session.

        Raises ValueError if the states differ, for instance if one rank has another start or
        checkpoint.
        """
        session, control = self.session, self.session.schedule.control
        a = session.arrays
        begin = checksum(a["w"], a["intercept"], a["columns"], a["copy"], a["dual"], a["gradients"])
        words = [is_heard, session.word(layout.EPOCHS), begin, control[layout.LIMIT]]
        found = self._talk.gathered(np.array(words, np.float64))
        differs = np.flatnonzero((found[:, 1:3] != found[DECIDES, 1:3]).any(axis=1))
        if differs.size:
            raise ValueError(
                f"rank {differs[0]} begins with another model than rank {DECIDES}: pass the same "
                "start=, and the same checkpoint as resume=, on all ranks."
            )
        self._is_heard = bool(found[:, 0].any())
        control[layout.LIMIT] = int(found[DECIDES, 3])

    def report(self) -> None:
        """Notify all callers of the ended epochs, and agree whether any caller wants to stop."""
        session = self.session
        while self._is_heard and self._has_news():
            self._talk.wait(self._is_between_rounds)  # all ranks then see the same state
            if session.word(layout.STOP) == layout.STOPPED_BY_DIVERGENCE:
                return
            epoch, is_over = self._reported + 1, False
            if self._on_epoch is not None:
                self._talk.pause()
                is_over = bool(self._signals.outside(self._on_epoch, epoch, session.snapshot))
            self._wants_stop |= bool(self._talk.gathered(np.array([is_over])).any())
            self._reported = epoch

    def _has_news(self) -> bool:
        return not self._wants_stop and self._reported < self.session.word(layout.EPOCHS)

    def _is_between_rounds(self) -> bool:
        """Whether no worker folds: each waits to begin its next block, is paused, or is done."""
        session, table = self.session, self.session.schedule.table
        section = session.word(layout.SECTION)
        folds = bool(table[:, [layout.T_COMPUTED, layout.T_PENDING]].any())
        is_whole = section % session.settings.n_workers == 0
        # if both reads of `section` are equal, no worker's section has ended in between
        if is_whole and not folds and section == session.word(layout.SECTION):
            return True
        return not np.isin(table[:, layout.T_STATE], BUSY).any()

    def decide(self, evaluate: Callable[[], int | None]) -> int | None:
        """Return rank 0's next limit of epochs after a pause, or None to end the run.

        All ranks must call this. It writes rank 0's columns and intercepts to the session.

        evaluate : evaluates the model, and returns this rank's limit; each rank calls its own
        """
        session = self.session
        self.report()
        if self._wants_stop:
            session.stop(layout.STOPPED_IN_STEP)
            return None
        again = evaluate()
        columns, intercept = session.schedule.columns, session.vector.intercept
        limit = np.array([OVER if again is None else again])
        own = np.concatenate([limit, columns.ravel(), intercept])
        found = self._talk.gathered(own)[DECIDES]
        columns[:] = found[1 : 1 + columns.size].reshape(columns.shape)
        intercept[:] = found[1 + columns.size :]
        return None if found[0] == OVER else int(found[0])

    def _end(self) -> None:
        """Exchange the workers' measurements, and close the channel once nothing is under way.

        Raises RuntimeError if sites have different models.
        """
        session, table, a = self.session, self.session.schedule.table, self.session.arrays
        vector = a["w"], a["intercept"]
        if session.homes is not None:
            vector = session.homes.model()
        end = checksum(*vector, a["columns"], a["lag"], a["dual"], a["gradients"])
        found = self._talk.gathered(np.array([end], np.float64))
        if (found != found[DECIDES]).any():
            raise RuntimeError(DIFFERENT)
        began, quanta = session.began, session.arrays["quanta"]
        table[:, layout.T_JOINED] -= began
        words = [*MEASURED, layout.T_JOINED]

        def measured(workers: range) -> list[np.ndarray]:
            return [table[workers][:, words], quanta[workers.start : workers.stop]]

        own = np.concatenate([one.reshape(-1) for one in measured(self.world.local_workers)])
        parts = self._talk.gathered_bytes(own.view(np.uint8))
        first = 0
        for count, part in zip(self.world.sites, parts, strict=True):
            numbers, workers = part.view(np.int64), slice(first, first + count)
            table[workers, words] = numbers[: count * len(words)].reshape(count, -1)
            quanta[workers] = numbers[count * len(words) :].reshape(quanta[workers].shape)
            first += count
        table[:, layout.T_JOINED] += began
        if session.word(layout.STOP) == layout.STOPPED_IN_STEP:
            session.schedule.control[layout.STOP] = layout.STOPPED_BY_CALLER
        self._talk.part()


def checksum(*arrays: np.ndarray) -> int:
    """Return a checksum of the arrays' bits."""
    total = 0
    for array in arrays:
        total = zlib.crc32(array.tobytes(), total)
    return total


class _Agreed(AtPause):
    """The callers' actions on all ranks while workers pause; rank 0's verdict is used on all."""

    def __init__(self, runtime: Lockstep, checks: AtPause | None) -> None:
        self.runtime, self.checks = runtime, checks

    def act(self, session: Session, each: Each = map) -> int | None:
        """Evaluate the model, and decide together with the other ranks."""

        def evaluate() -> int | None:
            checks = self.checks
            return session.plan.max_epochs if checks is None else checks.act(session, each)

        return self.runtime.decide(evaluate)

    def meanwhile(self) -> Callable[[], None] | None:
        """Return the evaluation's remaining work."""
        return None if self.checks is None else self.checks.meanwhile()
