"""A site's exchange with other sites: it offers its vector's changes, and adds their offers.

An *offer* is a message with the changes of a site's vector since the site's last offer. `site_pace`
computes the number of rows between two offers. The *ghost* is the change that other sites are
presumed to have made while this site made its last offer
(`hogshare.kernels.exchange.site_exchange`).

**Credits.** A site acknowledges an offer once it has added the offer to its vector. A site offers
again when at most one of its offers is under way to each other site.

**Order.** An offer's message also contains the progress words of the site's workers (`clocks`). The
sender reads these words before it makes the offer. The receiver writes these words after it has
added the offer to its vector. So a worker that reads another worker's clock sees the changes that
this clock counts.

**Deaths.** It may be that only some sites have received a dead site's last offers. So at the next
epoch barrier all sites take the bits of one vector. A dead site's part of the ghost is removed.

**Epoch barriers.** A site that has left an epoch barrier may offer while other sites are still in
it. Such an offer has a later `phase`, and is deferred until the receiver leaves the barrier.

Writers: only the site's calling thread communicates with other sites and writes the data of this
file. Concurrently with the workers, it also writes the session's vector, under the lock words of
the vector's segments. `hogshare.kernels.exchange.site_exchange` describes the order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numba import typeof

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.exchange import copy_exchange, site_exchange
from hogshare.kernels.exchange.site_exchange import Account, OfferTerms
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.kernels.mail import locks
from hogshare.kernels.rules.sgd_steps import DUAL
from hogshare.kernels.schedule import epoch_schedule
from hogshare.links.link import Line
from hogshare.links.run_links import Network
from hogshare.runtimes.mpi.channel import FIRST_KIND, NAP_SECONDS, Channel
from hogshare.runtimes.mpi.clocks import Clocks, expect_again
from hogshare.runtimes.mpi.flat_vector import Flat
from hogshare.runtimes.mpi.site_pace import SitePace

LONGEST_NAP = 0.004
CREDITS = 2  # offers that may be under way to another site
OFFER, TAKEN = FIRST_KIND, FIRST_KIND + 1  # kinds of messages
PHASE, COUNT, CLAIMS, WORDS = range(4)  # fields of an offer's head
HEAD = 4
DENSE = -1  # in COUNT: the offer has values of all coordinates
NO_PLACES, NO_VALUES = np.empty(0, np.int32), np.empty(0)


class Site:
    """One site's end of the shared vector.

    start : the flat vector that all sites begin with
    share : this site's share of all rows, from 0 to 1
    single : whether values are sent in four bytes each
    network : emulated links between sites
    """

    def __init__(
        self,
        session: Session,
        channel: Channel,
        clocks: Clocks,
        start: np.ndarray,
        pace: SitePace,
        share: float,
        single: bool,
        network: Network,
    ) -> None:
        self.session, self.channel, self.clocks, self.pace = session, channel, clocks, pace
        self.share = share
        self.flat, kind = Flat.of(session), np.float32 if single else np.float64
        clips = session.rule.l1_ratio > 0.0
        self.account = Account(
            start.astype(kind),
            np.zeros(len(start), kind),
            np.zeros(len(start), kind),
            np.zeros(self.flat.m if clips else 0, np.int64),
        )
        others = channel.others
        self._lines = {to: Line(network.between(channel.me, to)) for to in others}
        self._haunted: set[int] = set()  # sites whose part of the ghost is still in the vector
        self._untaken = dict.fromkeys(others, 0)
        self.phase = 0  # the number of epoch barriers completed
        self._put_off: list[tuple[int, np.ndarray]] = []
        self._came: dict[int, np.ndarray] = {}  # progress words, by the sender of an offer
        self._coming: np.ndarray | None = None  # the sum of these offers
        self._offered_rows = self._rows()
        self.is_at_work = False  # whether local workers work; if not, `poll` offers nothing
        # the local workers' words when last sent: other sites know where the workers begin
        self._words = clocks.words() if clocks.are_waited_for else np.zeros(0, np.int64)
        self._offered_at = 0.0
        self._seen, self._rate = (self._offered_rows, time.perf_counter()), 0.0
        self._n_rows = session.arrays["order"].shape[1]
        channel.on(OFFER, self._receive)
        channel.on(TAKEN, self._settle)

    def prepare(self) -> None:
        """Load or compile the site's kernels, before a run."""
        if JIT_DISABLED:
            return
        session, account, offered = self.session, self.account, self.account.offered
        own = session.vector, session.memory, account, self._terms(0, 0.0)
        etas = session.locals()[:, layout.L_ETA].max(axis=0)
        site_exchange.offer.compile(tuple(map(typeof, (*own, etas))))
        site_exchange.take_in.compile(tuple(map(typeof, (*own[:3], offered, own[3]))))
        site_exchange.places_of.compile(tuple(map(typeof, (offered, NO_PLACES, offered))))
        site_exchange.add_places.compile(tuple(map(typeof, (offered, NO_PLACES, offered))))
        if len(account.claims):
            claims = account.claims, NO_VALUES
            site_exchange.claimed.compile(tuple(map(typeof, (account, *claims))))
            site_exchange.add_claims.compile(
                tuple(map(typeof, (account, offered, *claims, 1.0, 1.0)))
            )

    @property
    def has_own(self) -> bool:
        """Whether this site's vector differs from the common start, as it may in a resumed run."""
        vector, memory, flat = self.session.vector, self.session.memory, self.flat
        start = self.account.base
        parts = (
            (vector.w, flat.coefficients(start)),
            (vector.intercept, flat.intercepts(start)),
            (memory.dual_mean, flat.means(start)),
            (memory.average, flat.averages(start)),
        )
        return not all(np.array_equal(one, other) for one, other in parts)

    # -- while the workers work

    def poll(self) -> bool:
        """Take in other sites' offers, and offer if due; return whether anything was done."""
        moved = self.take_in()
        if self.is_at_work and max(self._untaken.values(), default=CREDITS) < CREDITS:
            rows = self._rows()
            if rows - self._offered_rows >= self.pace.rows_now(rows) or self._is_urgent():
                self.offer(rows)
                moved = True
        return moved

    @property
    def nap(self) -> float:
        """The seconds until the next offer is due, estimated from the present rows per second."""
        now, rows = time.perf_counter(), self._rows()
        if self.clocks.are_waited_for or not self.is_at_work:
            since = now - self._offered_at  # assume that the next round is as short as this one
            return min(NAP_SECONDS, max(0.1 * NAP_SECONDS, 0.1 * since))
        if self.channel.is_moving:
            return 2 * NAP_SECONDS
        seen, then = self._seen
        if now - then > 4 * LONGEST_NAP:
            self._rate, self._seen = (rows - seen) / (now - then), (rows, now)
        due = self._offered_rows + self.pace.rows_now(rows)
        ends = self._n_rows - rows % self._n_rows
        left = min(max(0, due - rows), ends)
        return min(LONGEST_NAP, max(NAP_SECONDS, left / max(1.0, self._rate)))

    def _is_urgent(self) -> bool:
        """Whether a worker of any site may wait at a barrier for this site's news."""
        return self.clocks.are_waited_for and self.clocks.are_news(self._words)

    def go_on(self, works: bool = True) -> None:
        """Leave an epoch barrier, and take in the offers that were deferred until then.

        works : whether local workers work; False if they have ended
        """
        self.phase += 1
        if works:
            self.clocks.expect_again()
        self.is_at_work = works
        put_off, self._put_off = self._put_off, []
        for sender, content in put_off:
            self._receive(sender, content)
        self.take_in()

    def bury(self, site: int, share: float) -> None:
        """Continue without a dead site: remove its lines, its clocks and its part of the ghost.

        site : the dead site
        share : this site's share of the survivors' rows, from 0 to 1
        """
        lines = len(self._lines)
        if site in self._haunted:
            self._haunted.discard(site)
            self._take_in(np.zeros_like(self.account.base), self._left(1))
        self.account.ghost[:] *= (lines - 1) / lines  # each other site has an equal part
        del self._lines[site], self._untaken[site]
        self.share = share
        self._put_off = [one for one in self._put_off if one[0] != site]
        if site in self._came:
            self._came[site] = np.zeros(0, np.int64)
        self.clocks.bury(site)

    # -- offers

    def offer(self, rows: int | None = None, is_whole: bool = False) -> None:
        """Add the received offers to the vector, and offer its changes to all other sites.

        rows : number of rows whose steps are in the vector. None if this is the offer of an epoch
            barrier, at which a site waits for all sites' offers.
        is_whole : whether this is the offer at the beginning of a run
        """
        self.take_in()
        session, account, channel = self.session, self.account, self.channel
        if self.clocks.are_waited_for:
            self._words = self.clocks.words()  # read first: the counted changes are in the vector
            if session.word(layout.EPOCHS) < session.word(layout.LIMIT):
                # a worker that still seems paused is about to begin, and others wait for it
                expect_again(self._words, int(self.clocks.table[:, layout.T_CLOCK].max()))
        now, left = self._rows() if rows is None else rows, self._left(len(self._haunted))
        terms = self._terms(now, left, haunts=rows is not None, is_whole=is_whole)
        etas = session.locals()[:, layout.L_ETA].max(axis=0)
        n_values, n_claims = site_exchange.offer(
            session.vector, session.memory, account, terms, etas
        )
        claims, values, places = account.claims[:n_claims], np.empty(n_claims), NO_PLACES
        if n_claims:
            site_exchange.claimed(account, claims, values)
        offered, count = account.offered, DENSE
        if n_values * (4 + offered.itemsize) < offered.nbytes:
            places, offered = np.empty(n_values, np.int32), np.empty(n_values, offered.dtype)
            site_exchange.places_of(account.offered, places, offered)
            count = n_values
        head = np.array([self.phase, count, n_claims, len(self._words)])
        parts = head, self._words, claims, values, np.array([self.share]), offered, places
        for to, line in self._lines.items():
            channel.post(to, OFFER, parts, "update", 0, line)
            self._untaken[to] += 1
        channel.flush()
        self._offered_at = time.perf_counter()
        self._offered_rows, self._haunted = now, set(self._lines) if rows is not None else set()

    def _receive(self, sender: int, content: np.ndarray) -> None:
        head = content[: 8 * HEAD].view(np.int64)
        if head[PHASE] > self.phase:
            self._put_off.append((sender, content))
            return
        count, n_claims, n_words = (int(one) for one in head[COUNT:])
        cut, account = _Cutter(content, 8 * HEAD), self.account
        words = cut(n_words, np.int64)
        claims, claimed = cut(n_claims, np.int64), cut(n_claims, np.float64)
        share = cut(1, np.float64)
        values = cut(len(account.base) if count == DENSE else count, account.offered.dtype)
        places = NO_PLACES if count == DENSE else cut(count, np.int32)
        if count != DENSE:
            self._coming = np.zeros_like(account.base) if self._coming is None else self._coming
            site_exchange.add_places(self._coming, places, values)
        elif self._coming is None:
            self._coming = values  # a view of the message, which only this site uses
        else:
            self._coming += values
        if n_claims:
            left = self._left(len(self._haunted))
            others = claims, claimed, float(share[0]), left
            site_exchange.add_claims(account, self._coming, *others)
        self._came[sender] = words
        self.channel.post(sender, TAKEN)

    def _settle(self, sender: int, content: np.ndarray) -> None:
        self._untaken[sender] -= 1

    def take_in(self) -> bool:
        """Add the received offers to the vector; return whether there were any."""
        came, coming, self._coming = self._came, self._coming, None
        if coming is None:
            return False
        n_gone = len(self._haunted & set(came))
        self._haunted -= set(came)
        self._take_in(coming, self._left(n_gone))
        for sender, words in came.items():  # after the vector: it has the counted changes
            if len(words):
                self.clocks.take_in(sender, words)
        came.clear()
        return True

    def _take_in(self, coming: np.ndarray, left: float) -> None:
        session, terms = self.session, self._terms(0, left)
        site_exchange.take_in(session.vector, session.memory, self.account, coming, terms)
        # a worker that passes a barrier from now on has the offers in its copy: see `exchange.pull`
        locks.note(session.schedule.control, layout.BROUGHT, session.word(layout.BROUGHT) + 1)

    def _left(self, n: int) -> float:
        """Return the part of the ghost that `n` other sites have."""
        return n / max(1, len(self._lines))

    def _rows(self) -> int:
        """Return the number of rows whose steps are in the site's vector."""
        table = self.session.local_table
        return int((table[:, layout.T_ROWS] - table[:, layout.T_UNEXCHANGED]).sum())

    def _terms(
        self, rows: int, left: float, haunts: bool = True, is_whole: bool = False
    ) -> OfferTerms:
        session = self.session
        is_sum = session.rule.method == DUAL
        carries = is_sum or (self.pace.carries and haunts)
        return OfferTerms(
            share=self.share,
            rows=float(rows - self._offered_rows),
            decay=float(copy_exchange.decay_of(session.rule)),
            carry=float(carries),
            whole=int(is_sum or is_whole),
            stretch=1.0 if is_whole else float(session.rule.represents),
            stretch_of_means=1.0 if is_sum else 1.0 / self.share,
            zeros=int(session.rule.l1_ratio > 0.0 and not carries),
            left=left,
            haunts=int(haunts),
            locks=int(session.plan.private == epoch_schedule.EXCHANGE),
            atomic=int(session.plan.atomic),
            me=session.settings.n_workers + 2,  # after the numbers of workers and caller
        )

    # -- while workers pause

    def adopt(self) -> None:
        """Give all sites one vector's bits (collective): each site adds offers in another order."""
        account = self.account
        kind = account.offered.dtype
        known = self.channel.spread(account.base.astype(kind), "model").view(kind)
        self._take_in(known - account.base, 0.0)
        account.base[:] = known

    def known(self) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of the coefficients and intercepts that result from all offers so far."""
        flat = self.account.base - self._left(len(self._haunted)) * self.account.ghost
        kind = self.session.vector.w.dtype
        return self.flat.coefficients(flat).astype(kind), self.flat.intercepts(flat).copy()

    def put_known(self) -> None:
        """Set the session's vector to the vector that all sites share."""
        vector, base = self.session.vector, self.account.base
        vector.w[:] = self.flat.coefficients(base)
        vector.intercept[:] = self.flat.intercepts(base)

    @contextmanager
    def common(self) -> Iterator[None]:
        """Set the session to the common vector within a with block, while workers pause.

        This writes the session's coefficients, intercepts and sums in place. After the block, the
        site's own values, which differ by roundings, are restored. Intercepts that the block has
        moved stay moved.
        """
        vector, memory, base = self.session.vector, self.session.memory, self.account.base
        arrays = vector.w, vector.intercept, memory.dual_mean, memory.average
        own = [array.copy() for array in arrays]
        self.put_known()
        memory.dual_mean[:] = self.flat.means(base)
        memory.average[:] = self.flat.averages(base)
        before = vector.intercept.copy()
        try:
            yield
        finally:
            moved = vector.intercept.copy()
            for array, values in zip(arrays, own, strict=True):
                array[:] = values
            if not np.array_equal(moved, before, equal_nan=True):
                vector.intercept[:] = moved
                self.flat.intercepts(base)[:] = moved


class _Cutter:
    """A cutter of bytes into consecutive arrays, as views."""

    def __init__(self, content: np.ndarray, at: int) -> None:
        self.content, self.at = content, at

    def __call__(self, n: int, kind: np.dtype | type) -> np.ndarray:
        begin, self.at = self.at, self.at + n * np.dtype(kind).itemsize
        return self.content[begin : self.at].view(kind)
