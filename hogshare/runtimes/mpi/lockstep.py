"""Ranks that share no memory, and run in step: each has the whole run, and computes a part of it.

Every rank is a site with a session of all workers, in memory of its own. A worker computes its
blocks on one site; what each has come to is sent to all others (`hogshare.engine.ownership`), and
every site folds, claims, ends epochs, evaluates the model and calls the plane by itself, by the
same numbers in the same order (`hogshare.kernels.schedule.ordered_rounds`). So a run has the bits
of as many threads, with whatever plane, rule, problem and criterion has an order.

Where sites might differ, because somebody's clock or code decides, they agree: whether callers want
to stop, when all have been called; how far to go on after a pause, as rank 0 says.

A site is never more than a round of its workers ahead of any other, so that no more than two
blocks of a worker are under way, and nobody has to count them.

Who writes: each rank's workers, a thread each, and one thread for the workers of all other sites
and the master, as `hogshare.engine.session` says; the calling thread, which alone talks to the
other ranks, the words of the run while nobody works. Who reads: of a block that has come the thread
that drives its worker here. Order: a worker's blocks as it has posted them. Who frees: `close`.
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

DECIDES = 0  # the rank
BLOCK = FIRST_KIND  # the kind of message of what a block has come to, behind its worker
SHORTEST_NAP = 2e-5  # seconds, of who waits for a block
DIFFERENT = (
    "The ranks have come to different models, and none is to be trusted. A plane, rule or gradient "
    "of your own has to do the same on all ranks; if there is none this is an error of hogshare: "
    "please report it with the call."
)
OVER = -1.0  # in place of an epoch: the run is to end
BUSY = (*IN_RUN, layout.STARTING)


class HasNoOrder(Exception):
    """The run has no order of its workers, and does not repeat: sites cannot keep in step."""


class Lockstep(Runtime):
    """The runtime of ranks that share no memory, for runs in which workers have an order.

    comm : of the call alone
    watch : called while this rank waits for others; raises if one has failed
    workers_of : how many workers each rank has
    network : links between the ranks besides the real ones; None: there are none
    survives : whether the call is to go on without ranks that die, which such a run cannot
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
        """Who reads and writes checkpoints: all read, and rank 0 writes."""
        return OneFile() if self.me == DECIDES else AnothersFile()

    # -- before

    def settled(self, choices: Choices) -> Choices:
        """With the seed of rank 0, which counts.

        Raises HasNoOrder if workers have none, on any site or in time.
        """
        delayed = choices.plane.edge_links(choices.n_workers) is not None
        # who draws rows may draw one twice in a round, and workers then meet at it in any order
        draws = choices.rule.remembers and choices.rule.draws
        if not choices.is_ordered or delayed or draws:
            raise HasNoOrder
        if self.survives:
            raise refuse("a run in step (BSP of rows that every rank has)")
        seeds = self.pool.gathered(np.array([choices.seed]))
        return dataclasses.replace(choices, seed=int(seeds[DECIDES, 0]))

    def prepare(self, session: Session) -> None:
        """Say who computes where, and open what joins the ranks."""
        n = session.settings.n_workers
        table = session.schedule.table
        table[:, layout.T_SITE] = layout.REMOTE
        table[self.world.local_workers.start : self.world.local_workers.stop, layout.T_SITE] = (
            layout.ASKS
        )
        others = np.delete(np.arange(n), self.world.local_workers)
        table[others, layout.T_POLLS] = 0  # one thread has them all, and none waits for another
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
        """Raise what a worker has raised, or what another rank has failed by."""
        for crew in self._crews:
            if crew.errors:
                raise crew.errors[0]
        self.pool.watch()

    @property
    def _talk(self) -> Channel:
        assert self.channel is not None
        return self.channel

    def counts_mail(self, session: Session) -> bool:
        """Always: between sites it goes by the channel, and what stays at one is not sent."""
        return True

    # -- the run

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run to the end, which is that of all ranks."""
        if self._talk.is_over:  # of a run that had ended, and goes on
            self._talk.close()
            self._open()
        n = session.settings.n_workers
        self._on_epoch, self._reported = on_epoch, session.word(layout.EPOCHS)
        self._is_heard = self._wants_stop = False
        own = ThreadCrew(session, self.world.local_workers, self._news)
        # after the last worker's number, which takes no core of its own
        beyond = range(n, n + 1)
        self._crews = [ThreadCrew(session, beyond, self._news, loop=self._loop_of_others), own]
        at_pause = _Agreed(self, checks)
        with (
            DeferredSignals(self._news) as held,
            EpochHook(session, None, at_pause, own.each, held) as hook,
        ):
            self._talk.deliver, self._held = held.deliver, held
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
                        self._talk.pause()  # what comes then may take its time
                    hook.poll()
                    own.wake()
                    if idle:  # a block comes soon after the one before it, or late
                        own.wait(min(SHORTEST_NAP * 2.0 ** min(idle, 8), NAP_SECONDS))
            except BaseException:
                session.stop(layout.STOPPED_BY_CALLER)
                for crew in self._crews:
                    crew.join(crew.patience(held))
                raise
            for crew in self._crews:
                crew.finish()
            self.report()
            self._end()
        session.bring = None  # a cycle would hold the run's memory till it is collected
        return Outcome([], traffic=self._talk.traffic.as_dict())

    def close(self) -> None:
        """Give back what the messages took."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def facts(self) -> dict[str, Any]:
        """How many machines there were, and that each had the whole run."""
        return {"machines": self.pool.size, "in_step": True}

    def _loop_of_others(self, me: int) -> Any:
        """Those of the workers of other ranks, and of the master if there is one."""
        session = self.session
        loops = [loop_of(session, k) for k in self._others]
        if session.has_master:
            loops.append(master_loop(MasterService(session, n_polls=0)))
        return together(loops)

    # -- a worker's block, in the thread that drives the worker

    def _bring(self, me: int) -> bool:
        """See to a block that begins, or is computed; False: not yet."""
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
            return False  # callers hear of an epoch before a block of a later round begins
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
        """See that all begin with the same numbers, and pause where rank 0 does first.

        Raises ValueError if they do not, as with another start or checkpoint on one.
        """
        session, control = self.session, self.session.schedule.control
        a = session.arrays
        begin = checksum(a["w"], a["intercept"], a["columns"], a["copy"], a["dual"], a["gradients"])
        words = [is_heard, session.word(layout.EPOCHS), begin, control[layout.LIMIT]]
        found = self._talk.gathered(np.array(words, np.float64))
        differs = np.flatnonzero((found[:, 1:3] != found[DECIDES, 1:3]).any(axis=1))
        if differs.size:
            raise ValueError(
                f"rank {differs[0]} begins with another model than rank {DECIDES}: start= and the "
                "checkpoint of resume= have to be the same on all ranks."
            )
        self._is_heard = bool(found[:, 0].any())
        control[layout.LIMIT] = int(found[DECIDES, 3])

    def report(self) -> None:
        """Call all callers for the epochs that have ended, and see whether one wants to stop."""
        session = self.session
        while self._is_heard and self._has_news():
            self._talk.wait(self._is_between_rounds)  # where all ranks see the same
            if session.word(layout.STOP) == layout.STOPPED_BY_DIVERGENCE:
                return
            epoch, is_over = self._reported + 1, False
            if self._on_epoch is not None:
                self._talk.pause()
                is_over = bool(self._held.outside(self._on_epoch, epoch, session.snapshot))
            self._wants_stop |= bool(self._talk.gathered(np.array([is_over])).any())
            self._reported = epoch

    def _has_news(self) -> bool:
        return not self._wants_stop and self._reported < self.session.word(layout.EPOCHS)

    def _is_between_rounds(self) -> bool:
        """Whether nobody folds: all wait to begin their next block, or are paused, or are done."""
        session, table = self.session, self.session.schedule.table
        section = session.word(layout.SECTION)
        folds = bool(table[:, [layout.T_COMPUTED, layout.T_PENDING]].any())
        is_whole = section % session.settings.n_workers == 0
        # the first and the second value alike: nobody's section has ended in between
        if is_whole and not folds and section == session.word(layout.SECTION):
            return True
        return not np.isin(table[:, layout.T_STATE], BUSY).any()

    def decide(self, evaluate: Callable[[], int | None]) -> int | None:
        """How far to go on after a pause, as rank 0 has it; None: to end.

        evaluate : evaluates the model, as each rank does by itself
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
        """Bring what was measured of workers on their sites, and part when nothing is under way.

        Raises RuntimeError if sites have other models.
        """
        session, table, a = self.session, self.session.schedule.table, self.session.arrays
        vector = a["w"], a["intercept"]
        if session.homes is not None:
            vector = session.homes.model()
        end = checksum(*vector, a["columns"], a["lag"], a["dual"], a["gradients"])
        found = self._talk.gathered(np.array([end], np.float64))
        if (found != found[DECIDES]).any():
            raise RuntimeError(DIFFERENT)
        began, turns = session.began, session.arrays["turns"]
        table[:, layout.T_JOINED] -= began
        words = [*MEASURED, layout.T_JOINED]

        def measured(workers: range) -> list[np.ndarray]:
            return [table[workers][:, words], turns[workers.start : workers.stop]]

        own = np.concatenate([one.reshape(-1) for one in measured(self.world.local_workers)])
        parts = self._talk.gathered_bytes(own.view(np.uint8))
        first = 0
        for count, part in zip(self.world.sites, parts, strict=True):
            numbers, workers = part.view(np.int64), slice(first, first + count)
            table[workers, words] = numbers[: count * len(words)].reshape(count, -1)
            turns[workers] = numbers[count * len(words) :].reshape(turns[workers].shape)
            first += count
        table[:, layout.T_JOINED] += began
        if session.word(layout.STOP) == layout.STOPPED_IN_STEP:
            session.schedule.control[layout.STOP] = layout.STOPPED_BY_CALLER
        self._talk.part()


def checksum(*arrays: np.ndarray) -> int:
    """A number that is the same where arrays have the same bits."""
    total = 0
    for array in arrays:
        total = zlib.crc32(array.tobytes(), total)
    return total


class _Agreed(AtPause):
    """What callers of all ranks do where workers pause; rank 0's verdict is everybody's."""

    def __init__(self, runtime: Lockstep, checks: AtPause | None) -> None:
        self.runtime, self.checks = runtime, checks

    def act(self, session: Session, each: Each = map) -> int | None:
        """Evaluate the model, and decide with the others."""

        def evaluate() -> int | None:
            checks = self.checks
            return session.plan.max_epochs if checks is None else checks.act(session, each)

        return self.runtime.decide(evaluate)

    def meanwhile(self) -> Callable[[], None] | None:
        """What the evaluation has left to do."""
        return None if self.checks is None else self.checks.meanwhile()
