"""A master at one site, and workers at all sites: it receives their mail, and sends its model back.

    worker -> slot -> channel -> slot at the master -> the master's sum -> the next version
    version -> news: values new to a site -> channel -> the site's vector, under its seqlock

The master is at the first rank, in the thread that communicates with other ranks; this rank also
has workers. Each worker reads a snapshot from its site's vector, which is a version of the master's
model. Staleness, cut-offs and damping have the same meaning as in one memory, but the staleness is
larger by the number of messages under way.

Reports of a worker follow its changes. A block counts when the master has taken its message
(`count_posted`). A site gets the workers' words together with a model; this model has all changes
that the words count. The report that a worker has left the run is sent once all of its mail is
taken.

At an epoch barrier, when all workers pause, the master sends its model to all sites, and all sites
make the same decision.

Writers: each rank's thread that communicates with other ranks writes all data of this file. At the
master's site these data are the model and the sum; at another site they are the site's vector
(`hogshare.kernels.exchange.master_copies`). Readers: the workers. Order: the channel's order. No
news are sent to a site while earlier news are under way to this site. Freeing: `close`.
"""

from __future__ import annotations

import time

import numpy as np
from numba import typeof

from hogshare.engine.participants import MasterService
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.exchange import master_copies
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.kernels.schedule import worker_life
from hogshare.links.link import Line
from hogshare.links.run_links import Network
from hogshare.runtimes.mpi.clocks import Clocks, expect_again
from hogshare.runtimes.mpi.level import Level, Model
from hogshare.runtimes.mpi.mail import FIRST_KIND_OF_RUN, MailTransport
from hogshare.runtimes.mpi.rank_pool import RankPool

MASTER = 0  # its rank
NEWS, NEWS_TAKEN, REPORT = range(FIRST_KIND_OF_RUN, FIRST_KIND_OF_RUN + 3)
# columns that the master writes in the rows of all workers
COUNTS = (layout.T_PUSHES, layout.T_DROPPED, layout.T_APPLIED, layout.T_STALENESS)
VERSIONS = [layout.VERSION, layout.APPLIED]
HEAD = 4  # fields of news before the workers' words: epoch_barriers, version, applied, places


class MasterLevel(Level):
    """The level of sites whose workers have one master.

    network : emulated links between sites
    """

    def __init__(self, pool: RankPool, session: Session, n_rows: int, network: Network) -> None:
        super().__init__(pool, session, n_rows)
        self.is_served, self.is_master = True, pool.me == MASTER
        self.clocks, self.epoch_barriers = Clocks(session), 0
        self._sites = range(pool.size)
        ends = [(int(site), MASTER) for site in self.clocks.world.site_of]
        links = [network.between(*one) if one[0] != one[1] else None for one in ends]
        self._mail = MailTransport(self.channel, session.mail.box, ends, links, lambda *_: "update")
        now = self._flat()
        # for more values, a message of all values without places is shorter
        self._places = np.empty(len(now) // 2, np.int64)
        self._values = np.empty(len(self._places))
        others = self.channel.others if self.is_master else []
        self._reported = {k: now.copy() for k in others}
        self._lines = {k: Line(network.between(MASTER, k)) for k in others}
        self._is_under_way = dict.fromkeys(others, False)
        self._sent: dict[int, np.ndarray] = {}  # site -> version and words last sent to it
        self._known = {k: np.zeros(self.clocks.size_of(k), np.int64) for k in self._sites}
        self.channel.on(NEWS, self._take_news)
        self.channel.on(NEWS_TAKEN, self._note_taken)
        self.channel.on(REPORT, self._take_report)
        self.channel.work = self._work

    def _flat(self) -> np.ndarray:
        vector = self.session.vector
        return np.concatenate([vector.w.astype(np.float64), vector.intercept])

    def prepare(self) -> None:
        """Load or compile the kernels."""
        super().prepare()
        if JIT_DISABLED:
            return
        session = self.session
        if self.is_master:
            MasterService(session).prepare()
            news = session.vector, self._values, self._places, self._values
            master_copies.list_news.compile(tuple(map(typeof, news)))
        else:
            numbers = self._places, self._values, 0, 0, self._places, 0
            groups = session.schedule, session.vector
            master_copies.take_news.compile(tuple(map(typeof, (*groups, *numbers))))

    def begin(self, is_heard: bool) -> None:
        """Do nothing: all sites begin with the same model."""

    # -- while the workers work

    def _work(self) -> bool:
        """Do all pending work except incoming messages; return whether there was any."""
        words = self.clocks.words()  # read first: the blocks that they count are sent before them
        moved = self._mail.poll()
        if self.is_master:
            return self._serve() | self._send_news(words) | moved
        return self._report(words) | moved

    def _serve(self) -> bool:
        """Do the master's work for a while."""
        began = time.perf_counter_ns()
        service = MasterService(self.session)
        taken = service.serve()
        if taken > 0:
            service.note(taken, time.perf_counter_ns() - began)
        return taken > 0

    def _take_report(self, site: int, content: np.ndarray) -> None:
        """Take in another site's report of its workers."""
        words = content.view(np.int64)
        if words[0] >= self.epoch_barriers:  # otherwise old: workers have paused since
            self._known[site] = words[1:]
            self.clocks.take_in(site, words[1:])

    def _send_news(self, words: np.ndarray) -> bool:
        """Send each site the current model, and news of workers."""
        session, self._known[MASTER], moved = self.session, words, False
        all_words = np.concatenate(list(self._known.values()))
        version = session.word(layout.VERSION)
        now = np.concatenate([[version], all_words if self.clocks.are_waited_for else words[:0]])
        for site, reported in self._reported.items():
            if self._is_under_way[site] or np.array_equal(now, self._sent.get(site, now[:0])):
                continue
            n = master_copies.list_news(session.vector, reported, self._places, self._values)
            applied = self.clocks.rows_of(site)[:, layout.T_APPLIED]
            is_whole = n > len(self._places)
            head = self.epoch_barriers, version, session.word(layout.APPLIED), 0 if is_whole else n
            news = (reported,) if is_whole else (self._places[:n], self._values[:n])
            parts = np.array(head), applied, all_words, *news
            self.channel.post(site, NEWS, parts, "model", 0, self._lines[site])
            self._sent[site], self._is_under_way[site], moved = now, True, True
        return moved

    def _note_taken(self, site: int, content: np.ndarray) -> None:
        self._is_under_way[site] = False

    def _take_news(self, site: int, content: np.ndarray) -> None:
        """Write the master's model into the local vector, and then its report of workers."""
        session, begin = self.session, HEAD + len(self.session.local_workers)
        end = begin + sum(map(self.clocks.size_of, self._sites))
        words = content[: 8 * end].view(np.int64)
        epoch_barriers, version, applied, count = words[:HEAD].tolist()
        if epoch_barriers >= self.epoch_barriers:  # otherwise older than the barrier's model
            places = content[8 * end : 8 * (end + count)].view(np.int64)
            values = content[8 * (end + count) :].view(np.float64)
            counts = version, applied, words[HEAD:begin], session.local_workers.start
            master_copies.take_news(session.schedule, session.vector, places, values, *counts)
            self.clocks.take_in_all(words[begin:])
        self.channel.post(MASTER, NEWS_TAKEN)

    def _report(self, words: np.ndarray) -> bool:
        """Report local workers to the master's site, if anything has changed."""
        states = self.session.local_table[:, layout.T_STATE]
        seen = words if self.clocks.are_waited_for else states
        seen = np.concatenate([[self.epoch_barriers], seen])
        if np.array_equal(seen, self._sent.get(MASTER, seen[:0])):
            return False
        if (states >= layout.DONE).any() and not self._is_taken():
            return False  # otherwise the master would expect no more mail of them
        self.channel.post(MASTER, REPORT, [np.array([self.epoch_barriers]), words], "progress")
        self._sent[MASTER] = seen
        return True

    def _is_taken(self) -> bool:
        """Whether the master has taken all mail of local workers."""
        counters = self.session.mail.box.counters[self.session.local_workers]
        return bool((counters[:, layout.M_POSTED] == counters[:, layout.M_TAKEN]).all())

    # -- an epoch barrier

    def arrive(self) -> None:
        """Wait until the master has taken all mail of local workers; see `Level`."""
        self.channel.wait(self._is_taken)

    def bring(self, clock: int) -> Model:
        """Return the master's model with all messages applied, and copy its counts; see `Level`."""
        session, table = self.session, self.session.schedule.table
        for site in self.channel.others:
            state = layout.DONE if self.are_over[site] else layout.RESTING
            for row in self.clocks.rows_of(site):
                worker_life.copy_state(row, state)
        if self.is_master:  # an incomplete sum is applied, too
            self.channel.wait(lambda: session.word(layout.GATHERED) == 0)
        table[:, layout.T_CLOCK] = clock  # all workers continue from it
        vector, control, at = session.vector, session.schedule.control, 0
        arrays = vector.w, vector.intercept, table[:, COUNTS], control[VERSIONS]
        own = b"".join(one.tobytes() for one in arrays) if self.is_master else b""
        brought, found = self.channel.spread(np.frombuffer(own, np.uint8)), []
        for one in arrays:
            part = brought[at : (at := at + one.nbytes)]
            found.append(part.view(one.dtype).reshape(one.shape))
        vector.w[:], vector.intercept[:], table[:, COUNTS], control[VERSIONS] = found
        # counted before the barrier ends: sites that leave it first already report the new number
        self.epoch_barriers += 1
        for known in self._known.values():
            expect_again(known, clock)
        self._sent.clear()
        if not self.clocks.are_waited_for:  # if not, barriers count them from the next limit on
            far = np.setdiff1d(np.arange(len(table)), session.local_workers)
            resting = far[table[far, layout.T_STATE] == layout.RESTING]
            for k in resting:
                worker_life.apply(table[k], worker_life.EXPECT)
        self._announce_anew()
        return vector.w, vector.intercept

    def called(self) -> None:
        """Note moved intercepts, which are the same at all sites; see `Level`."""
        self._announce_anew()

    def clear(self) -> None:
        """Stop sending news: all mail is taken, and no site would acknowledge news."""
        self.channel.work = lambda: False

    def _announce_anew(self) -> None:
        for reported in self._reported.values():
            reported[:] = self._flat()
