"""A master at one site and workers at all: mail goes to it, and its model is brought to each.

    worker -> slot -> wire -> slot there -> the master's sum -> the next version
    version -> news: what a site does not know -> wire -> the site's vector, under its seqlock

The master is at the first rank, beside the workers there, and is the thread that talks to the
others. A worker anywhere reads a snapshot from its site's vector, which is the master's model as of
some version. So ages, cut-offs and damping are what they are in one memory; they are larger by what
is under way.

What is told of a worker travels behind what it has done: its block counts when the master has taken
its message (`turns.count_posted`), and the words of all workers come with a model that has what
they count. Words that a worker has left the run are sent when all of its mail is taken.

At the end of an epoch, when all workers rest, the sites meet; the master brings what it has to all,
and one verdict is for all.

Who writes: this thread of each rank, everything here; at the master's site the model and the sum,
at the others their vector (`hogshare.kernels.far_master`). Who frees: `close`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numba import typeof

from hogshare.engine.participants import MasterSide
from hogshare.engine.session import Session
from hogshare.kernels import far_master, layout
from hogshare.kernels.jit import JIT_DISABLED
from hogshare.links.network import Network
from hogshare.runtimes.mpi.assembly import Assembly, Pool
from hogshare.runtimes.mpi.beats import Beats
from hogshare.runtimes.mpi.channel import EdgeTraffic
from hogshare.runtimes.mpi.clocks import Clocks, expect_again
from hogshare.runtimes.mpi.level import (
    Between,
    GoOn,
    Level,
    give_back,
    keep_snapshot,
    note_decision,
    note_end,
    pool_iterates,
)
from hogshare.runtimes.mpi.posts import most_places, parts, send
from hogshare.runtimes.mpi.verdict import Verdict
from hogshare.runtimes.mpi.wire import Wire
from hogshare.runtimes.mpi.words import ORDINARY, Decision
from hogshare.shm.mailbox import Edge, mailbox_of, shapes

MASTER = 0  # its rank
EPOCHS, IS_LAST, STOP, IS_FINITE, CLOCK, FIRST_SUM = range(6)  # of a site's words in a meeting
# what the master writes into the rows of all workers
COUNTS = (layout.T_PUSHES, layout.T_DROPPED, layout.T_APPLIED, layout.T_STALENESS)
NOWHERE = np.empty(0, np.int64)


class MasterLevel(Level):
    """The level of sites whose workers have one master.

    pool : one rank for each site
    n_rows : rows that all sites train on
    network : links between sites besides the real ones
    """

    def __init__(self, pool: Pool, session: Session, n_rows: int, network: Network) -> None:
        self.session, self.pool, self.traffic = session, pool, EdgeTraffic()
        self.deliver: Callable[[], None] = lambda: None
        self.is_over, self.is_master = False, pool.me == MASTER
        self.is_served, self._is_ending = True, False
        self.verdict = Verdict(session, session.plan, n_rows)
        # by itself a site meets no criterion; whether all do is decided in the meetings
        session.plan = session.plan._replace(tol=-np.inf, early_stopping=0)
        self.clocks, self.meetings = Clocks(session), 0
        self._sites = range(pool.size)
        self._others = [k for k in self._sites if k != MASTER] if self.is_master else [MASTER]
        self._comms = [pool.copy_of_comm() for _ in range(5)]
        ends = [(int(site), MASTER) for site in self.clocks.world.site_of]
        mail = Wire(
            self._comms[0], session.mail.box, ends, "mail", self.traffic, "float64", network
        )
        now = self._flat()
        self._places = np.empty(most_places(len(now), 8), np.int64)
        self._values = np.empty(len(self._places))
        most = max(self.clocks.world.sites)
        tail = 2 + most + sum(map(self.clocks.size_of, self._sites))
        words = 1 + max(map(self.clocks.size_of, self._sites))
        models = self._edges(1, "model", (len(self._places) + tail, len(now) + tail), network)
        reports = self._edges(2, "progress", (0, words), network)
        (self._news, by), (self._reports, other) = models, reports
        self._wires = [mail, by, other]
        self._reported = {k: now.copy() for k in self._others}  # at the master
        self._sent: dict[int, np.ndarray] = {}  # version and words that another was sent last
        self._known = {k: np.zeros(self.clocks.size_of(k), np.int64) for k in self._sites}
        self.beats = Beats(self._comms[3], self._others)
        self.assembly = Assembly(self._comms[4], self.wait, self.traffic)

    def _edges(
        self, comm: int, kind: str, room: tuple[int, int], network: Network
    ) -> tuple[dict[int, Edge], Wire]:
        """An edge between the master's site and each other, of so many places and values."""
        arrays = shapes(len(self._others), 1, *room)
        box = mailbox_of({name: np.zeros(one, of) for name, (one, of) in arrays.items()})
        ends = [(MASTER, k if self.is_master else self.pool.me) for k in self._others]
        if kind != "model":
            ends = [(k, master) for master, k in ends]
        wire = Wire(self._comms[comm], box, ends, kind, self.traffic, "float64", network)
        return {k: Edge(box, at, wire) for at, k in enumerate(self._others)}, wire

    def _flat(self) -> np.ndarray:
        vector = self.session.vector
        return np.concatenate([vector.w.astype(np.float64), vector.intercept])

    def prepare(self) -> None:
        """Load or compile the kernels."""
        self.verdict.prepare()
        if JIT_DISABLED:
            return
        session = self.session
        if self.is_master:
            MasterSide(session).prepare()
            news = session.vector, self._values, self._places, self._values
            far_master.list_news.compile(tuple(map(typeof, news)))
        else:
            numbers = self._places, self._values, 0, 0, self._places, 0
            groups = session.schedule, session.vector
            far_master.take_news.compile(tuple(map(typeof, (*groups, *numbers))))

    def begin(self, is_heard: bool) -> None:
        """Nothing: all begin at one model."""

    # -- while the workers work

    def poll(self) -> bool:
        """Do whatever there is to do; whether anything was."""
        self.beats.poll()
        moved = [wire.poll() for wire in self._wires]
        if self._is_ending:  # what is posted is taken, and nothing more is posted
            return any([*moved, self._take_reports() if self.is_master else self._take_news()])
        if self.is_master:
            return any([*moved, self._take_reports(), self._serve(), self._send_news()])
        return any([*moved, self._take_news(), self._report()])

    def _serve(self) -> bool:
        """Be the master for a while."""
        began = time.perf_counter_ns()
        side = MasterSide(self.session)
        taken = side.serve()
        if taken > 0:
            side.note(taken, time.perf_counter_ns() - began)
        return taken > 0

    def _take_reports(self) -> bool:
        """Take in what other sites tell of their workers."""
        moved = False
        for site, edge in self._reports.items():
            while (message := edge.poll()) is not None:
                if message.round >= self.meetings:  # else of workers that have rested since
                    self._known[site] = message.values.astype(np.int64)
                    self.clocks.take_in(site, self._known[site])
                edge.take()
                moved = True
        return moved

    def _send_news(self) -> bool:
        """Send each site the model as it is, and what it has not been told of workers."""
        moved, session = False, self.session
        self._known[MASTER] = self.clocks.words()  # the first: what they count is in the model
        words = np.concatenate(list(self._known.values()))
        version = session.word(layout.VERSION)
        for site, edge in self._news.items():
            now = np.concatenate([[version], words if self.clocks.are_waited_for else words[:0]])
            if not edge.has_room or np.array_equal(now, self._sent.get(site, now[:0])):
                continue
            reported = self._reported[site]
            vector = session.vector
            n = far_master.list_news(vector, reported, self._places, self._values)
            applied = self.clocks.rows_of(site)[:, layout.T_APPLIED]
            counts = version, session.word(layout.APPLIED)
            tail = np.concatenate([counts, applied, words]).astype(np.float64)
            if n <= len(self._places):
                send(edge, self._values[:n], self._places[:n], tail, self.meetings)
            else:
                send(edge, reported, None, tail, self.meetings)
            self._sent[site] = now
            moved = True
        return moved

    def _take_news(self) -> bool:
        """Write the master's model into the vector here, and then what it tells of workers."""
        edge, session = self._news[MASTER], self.session
        message = edge.poll()
        if message is None:
            return False
        if message.round >= self.meetings:  # else older than what was brought in the meeting
            n_here = len(session.here)
            n_words = sum(map(self.clocks.size_of, self._sites))
            places, values, tail = parts(message, 2 + n_here + n_words)
            tail = tail.astype(np.int64)
            counts = int(tail[0]), int(tail[1]), tail[2 : 2 + n_here], session.here.start
            where = NOWHERE if places is None else places
            far_master.take_news(session.schedule, session.vector, where, values, *counts)
            self.clocks.take_in_all(tail[2 + n_here :])
        edge.take()
        return True

    def _report(self) -> bool:
        """Tell the master's site of the workers here, if there is anything to tell."""
        edge, words = self._reports[MASTER], self.clocks.words()
        states = self.session.table_here[:, layout.T_STATE]
        seen = words if self.clocks.are_waited_for else states
        seen = np.concatenate([[self.meetings], seen])
        if not edge.has_room or np.array_equal(seen, self._sent.get(MASTER, seen[:0])):
            return False
        if (states >= layout.DONE).any() and not self._is_taken():
            return False  # the master would think that nothing is to come
        edge.post(words.astype(np.float64), None, self.meetings)
        self._sent[MASTER] = seen
        return True

    def _is_taken(self) -> bool:
        """Whether the master has taken all that workers here have posted."""
        counters = self.session.mail.box.counters[self.session.here]
        return bool((counters[:, layout.M_POSTED] == counters[:, layout.M_TAKEN]).all())

    # -- while they rest

    def rest(self, between: Between, before_all_go_on: GoOn) -> Decision:
        """Meet all others, while the workers rest."""
        decision, _ = self._meet(between, is_last=False)
        if decision.stop == layout.RUNNING:
            before_all_go_on()
        return decision

    def end(self) -> None:
        """Meet until all have ended."""
        are_all_last = False
        while not are_all_last:
            decision, are_all_last = self._meet(lambda *_: layout.RUNNING, is_last=True)
        self._is_ending = True
        self.assembly.gathered(np.zeros(1))  # nobody posts anything from here on
        self.wait(lambda: all(wire.is_quiet for wire in self._wires))
        self.wait(self.beats.have_parted)
        note_end(self.session, decision)
        pool_iterates(self.session, self.pool)
        self.is_over = True

    def close(self) -> None:
        """Give everything back; nobody sends anything more."""
        self.beats.close()
        self.assembly.close()
        for wire in self._wires:
            wire.close()
        give_back(self._comms, self.is_over)

    def _meet(self, between: Between, is_last: bool) -> tuple[Decision, bool]:
        """Come to one model and one decision; and whether all have ended."""
        session = self.session
        self.wait(self._is_taken)
        stop, n_epochs = session.word(layout.STOP), session.word(layout.EPOCHS)
        sums = session.arrays["sums"][(n_epochs - 1) % 2]
        clock = session.table_here[:, layout.T_CLOCK].max()
        is_finite = bool(np.isfinite(session.vector.w).all())
        words = np.concatenate([[n_epochs, is_last, stop, is_finite, clock], sums])
        found = self.assembly.gathered(words)
        epochs, stops = found[:, EPOCHS].astype(int), found[:, STOP].astype(int)
        are_over = found[:, IS_LAST] > 0.0
        are_all_last, n_epochs = bool(are_over.all()), int(epochs.min())
        is_new = bool((epochs == n_epochs).all()) and n_epochs > self.verdict.epochs
        self._bring(are_over, int(found[:, CLOCK].max()))
        model = session.vector.w, session.vector.intercept
        if is_new:
            keep_snapshot(session, n_epochs, *model)
            if self.score is not None:
                self.verdict.score[:] = self.score()
            word = between(n_epochs, not are_over.any())
            stop = stop if word == layout.RUNNING else word
            for reported in self._reported.values():
                reported[:] = self._flat()  # intercepts may have been moved, everywhere alike
        said = self.assembly.gathered(np.array([stop]))[:, 0].astype(int).tolist()
        reason = next((one for one in (*stops, *said) if one not in ORDINARY), layout.RUNNING)
        if is_new:
            is_finite = bool(np.isfinite(model[0]).all())
            judged = self.verdict.of(
                n_epochs, found[:, FIRST_SUM:].sum(axis=0), model[0], is_finite
            )
            reason = judged if reason == layout.RUNNING else reason
        if are_all_last and reason == layout.RUNNING:
            reason = layout.STOPPED_BY_LIMIT
        decision = Decision(int(reason), n_epochs, self.verdict.loss, self.verdict.columns)
        note_decision(session, decision)
        return decision, are_all_last

    def _bring(self, are_over: np.ndarray, clock: int) -> None:
        """Bring the master's model, with all that was sent, and its counts of all workers."""
        session, table = self.session, self.session.schedule.table
        for site in self._sites:
            if site != self.pool.me:
                state = layout.DONE if are_over[site] else layout.RESTING
                self.clocks.rows_of(site)[:, layout.T_STATE] = state
        if self.is_master:
            self.wait(lambda: session.word(layout.GATHERED) == 0)  # the rest of a sum is applied
        table[:, layout.T_CLOCK] = clock  # where all go on from
        vector, words = session.vector, (layout.VERSION, layout.APPLIED)
        arrays = (
            *(vector.w, vector.intercept, table[:, COUNTS]),
            np.array([session.word(word) for word in words]),
        )
        sizes = [sum(one.nbytes for one in arrays) if k == MASTER else 0 for k in self._sites]
        own = b"".join(one.tobytes() for one in arrays) if self.is_master else b""
        brought = self.assembly.gathered_bytes(np.frombuffer(own, np.uint8), sizes)[MASTER]
        at, found = 0, []
        for one in arrays:
            part = brought[at : (at := at + one.nbytes)]
            found.append(part.copy().view(one.dtype).reshape(one.shape))
        vector.w[:], vector.intercept[:], table[:, COUNTS] = found[:3]
        session.schedule.control[list(words)] = found[3]
        # of which some sites may be through before this one, and report as after it
        self.meetings += 1
        for known in self._known.values():
            expect_again(known, clock)
        for reported in self._reported.values():
            reported[:] = self._flat()
        self._sent.clear()
        if not self.clocks.are_waited_for:  # else barriers count them from the next limit on
            far = np.setdiff1d(np.arange(len(table)), session.here)
            resting = far[table[far, layout.T_STATE] == layout.RESTING]
            table[resting, layout.T_STATE] = layout.STARTING
