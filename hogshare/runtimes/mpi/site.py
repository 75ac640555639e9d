"""A machine among others: what its vector has changed goes to the owner, and the news come back.

How often machines exchange is settled by rows, as for workers, at what a message costs. Between
machines an exchange is an offer and an answer. What it costs a machine is the time that its talking
thread takes from the workers' cores: the vector is read and written about four times on
each side, and each message is put together, moved and taken apart in Python. As for workers, there
is a *shortest* interval, at which that is a quarter of the rows' time, and an *easy* one, at which
it is a tenth; in between as many rows as keep the machines close, an eighth of all for plain
descent and a sixteenth for rules that remember rows.

More curvature between machines than between workers asks for nothing else: the weight of a
coordinate (`hogshare.kernels.between`) falls as its curvature times the rows, so what is too curved
for the interval is averaged.

Who writes: the thread of the machine that talks to the others, everything here, and the session's
vector under its segments' words, beside the workers; `hogshare.kernels.between` tells the order.
Words of the session (columns, history, the stop word) it writes while the workers rest or have
ended, but for a stop in the middle of an epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numba import typeof

from hogshare.engine.choices import Choices
from hogshare.engine.session import Session
from hogshare.kernels import between, epochs, exchange, layout
from hogshare.kernels.between import Account, Terms
from hogshare.kernels.jit import JIT_DISABLED
from hogshare.kernels.sgd import DUAL
from hogshare.planes.shared import EASY_SHARE, EXCHANGE_SHARE, row_nanoseconds
from hogshare.rules.pace import DELAY
from hogshare.runtimes.mpi.clocks import Clocks, packed, unpacked
from hogshare.runtimes.mpi.level import Between, keep_snapshot, note_decision, note_end
from hogshare.runtimes.mpi.posts import Post, parts, send
from hogshare.runtimes.mpi.words import (
    ALL_REST,
    AT_BEGIN,
    AT_END,
    AT_REST,
    IN_PASSING,
    ORDINARY,
    STOP_NOW,
    Decision,
    Flat,
    Report,
)

MESSAGES_NS = 150_000.0  # of an offer and its answer, however short they are
COORDINATE_NS = 8.0  # of each of their numbers
DESCENT_SPREAD, SPREAD = 8, 16  # rows per row that all machines have between two exchanges of each
FIRST, GROWTH = 256, 1.0 / 16.0  # rows of a worker at first, and later in rows that are done

Wait = Callable[[Callable[[], bool]], None]  # polls until something is so


class SitePace(NamedTuple):
    """How often a machine offers.

    rows : of all its workers, between two offers
    first : of all its workers, at first
    keeps : whether what a weight holds back stays in the machine's vector
    """

    rows: int
    first: int
    keeps: bool

    def rows_now(self, done: int) -> int:
        """Rows between offers: few at first, when the model moves fast.

        Examples
        --------
        >>> from hogshare.runtimes.mpi.site import SitePace
        >>> pace = SitePace(rows=4000, first=512, keeps=False)
        >>> pace.rows_now(0), pace.rows_now(32_000), pace.rows_now(10**6)
        (512, 2000, 4000)
        """
        return min(self.rows, max(self.first, int(GROWTH * done)))


def site_pace(choices: Choices, size: int) -> SitePace:
    """How often a machine of a run offers.

    choices : with how many machines there are, and how many rows they have
    size : numbers of a vector that is exchanged
    """
    problem, rule, machines = choices.problem, choices.rule, len(choices.world.sites)
    cost, row = MESSAGES_NS + COORDINATE_NS * size, row_nanoseconds(problem)
    shortest, easy = EXCHANGE_SHARE * cost / row, EASY_SHARE * cost / row
    close = choices.n_all / ((SPREAD if rule.remembers else DESCENT_SPREAD) * machines)
    rows = max(1, int(max(shortest, min(easy, close))))
    first = min(rows, FIRST * choices.n_here)
    # as of workers: what is held back comes so many exchanges later, and is not to be too old
    fresh = DELAY * rows * machines**2 <= choices.n_all and problem.l1 == 0.0
    return SitePace(rows, first, rule.remembers and fresh)


class Site:
    """One machine's side.

    start : the flat vector that all machines begin with
    places : most values of a message that have a place each
    single : whether values are sent in four bytes
    """

    def __init__(
        self,
        session: Session,
        clocks: Clocks,
        start: np.ndarray,
        pace: SitePace,
        post: Post,
        places: int,
        single: bool,
        n_machines: int,
    ) -> None:
        self.session, self.clocks, self.pace, self.post = session, clocks, pace, post
        self.flat = Flat.of(session)
        self.account = Account(start.copy(), start.copy(), np.zeros(len(start)))
        self.n_machines, self._places, self._single = n_machines, places, int(single)
        self._offered_rows = self._rows()
        self._is_under_way = False
        self._are_at_work = False  # the workers here: else there is nothing to offer in passing
        self._words = np.zeros(0, np.int64)  # of the workers here, as they were last told
        self._answered = IN_PASSING  # the round of the last answer
        self._decisions: list[Decision] = []

    def prepare(self) -> None:
        """Load or compile its kernels; a run does nothing else before."""
        if not JIT_DISABLED:
            session, terms = self.session, self._terms(IN_PASSING, 0)
            sides = session.vector, session.memory, self.account, terms
            etas = session.locals()[:, layout.L_ETA].max(axis=0)
            between.offer.compile(tuple(map(typeof, (*sides, etas))))
            between.take_in.compile(tuple(map(typeof, sides)))

    # -- while the workers work

    def poll(self) -> bool:
        """Take in what has come, and offer what it is time for; whether anything was done."""
        moved = self._take_answer() | self._take_decision()
        rows = self._rows()
        may_offer = self._are_at_work and not self._is_under_way
        if may_offer and (self._is_due(rows) or self._is_urgent()):
            self._offer(IN_PASSING, rows)
            moved = True
        return moved

    def _is_due(self, rows: int) -> bool:
        return rows - self._offered_rows >= self.pace.rows_now(rows)

    def _is_urgent(self) -> bool:
        """Whether somebody may wait at a barrier for what there is to tell, at any site."""
        clocks = self.clocks
        if not clocks.are_waited_for:
            return False
        return clocks.is_pressing or not np.array_equal(clocks.words(), self._words)

    def begin(self, wait: Wait) -> None:
        """Have all machines begin at one vector, which has the sums of all."""
        self._exchange(AT_BEGIN, wait)
        self._are_at_work = True

    # -- while they rest

    def rest(self, wait: Wait, between_both: Between) -> Decision:
        """Bring an epoch to its end: with all others, and with one decision for all."""
        self._are_at_work = False
        self._exchange(AT_REST, wait)
        n_epochs = self.session.word(layout.EPOCHS)
        self._keep_snapshot(n_epochs)
        self._report(between_both(n_epochs, self._answered == ALL_REST), wait, is_last=False)
        decision = self._decided(wait)
        self._are_at_work = True
        return decision

    def end(self, wait: Wait, at_the_end: Callable[[], None]) -> Decision:
        """Bring the run to its end: the vector is the global one, and has everything.

        at_the_end : called when all have ended, and have one vector, before they decide
        """
        self._are_at_work = False
        wait(lambda: not self._is_under_way)
        self._offer(AT_END, self._rows())
        session, stop = self.session, self.session.word(layout.STOP)
        if stop not in ORDINARY:  # the others are to hear of it now
            self._report(stop, wait, is_last=True)
        wait(lambda: not self._is_under_way)
        at_the_end()
        if stop in ORDINARY:
            self._report(stop, wait, is_last=True)
        decision = self._decided(wait)
        self._put_known()
        note_end(session, decision)
        self._keep_snapshot(decision.epochs)
        return decision

    def _exchange(self, round_: int, wait: Wait) -> None:
        wait(lambda: not self._is_under_way)
        self._offer(round_, self._rows())
        wait(lambda: not self._is_under_way)
        assert self._answered in (round_, ALL_REST)

    @contextmanager
    def common(self) -> Iterator[None]:
        """A block in which the session has what all have alike, bit for bit, while all rest.

        What is this machine's own, such as the roundings of a sum, comes back after it.
        """
        vector, memory = self.session.vector, self.session.memory
        arrays = vector.w, vector.intercept, memory.dual_mean, memory.average
        own = [array.copy() for array in arrays]
        self._put_known()
        memory.dual_mean[:] = self.flat.means(self.account.known)
        memory.average[:] = self.flat.averages(self.account.known)
        before = vector.intercept.copy()
        try:
            yield
        finally:
            moved = vector.intercept.copy()
            for array, values in zip(arrays, own, strict=True):
                array[:] = values
            if not np.array_equal(moved, before, equal_nan=True):
                vector.intercept[:] = moved
                for flat in (self.account.known, self.account.base):
                    self.flat.intercepts(flat)[:] = moved

    def _put_known(self) -> None:
        vector = self.session.vector
        vector.w[:] = self.flat.coefficients(self.account.known)
        vector.intercept[:] = self.flat.intercepts(self.account.known)

    def _report(self, stop: int, wait: Wait, is_last: bool) -> None:
        session = self.session
        n_epochs = session.word(layout.EPOCHS)
        sums = session.arrays["sums"][(n_epochs - 1) % 2]
        self._decisions.clear()
        words = Report(n_epochs, stop, is_last, sums).words()
        wait(lambda: self.post.reports.post(words))  # the one before may be told as taken late

    def _decided(self, wait: Wait) -> Decision:
        """Do as is decided."""
        wait(lambda: bool(self._decisions))
        decision = self._decisions.pop()
        note_decision(self.session, decision)
        return decision

    def _keep_snapshot(self, n_epochs: int) -> None:
        known = self.account.known
        vector = self.flat.coefficients(known), self.flat.intercepts(known)
        keep_snapshot(self.session, n_epochs, *vector)

    # -- vectors

    def _rows(self) -> int:
        """Rows whose steps are in the machine's vector."""
        table = self.session.table_here
        return int((table[:, layout.T_ROWS] - table[:, layout.T_UNEXCHANGED]).sum())

    def _terms(self, round_: int, rows: int) -> Terms:
        session = self.session
        is_sum, begins = session.rule.method == DUAL, round_ == AT_BEGIN
        keeps = is_sum or (self.pace.keeps and round_ == IN_PASSING)
        return Terms(
            n_machines=float(self.n_machines),
            rows=float(rows - self._offered_rows),
            decay=float(exchange.decay_of(session.rule)),
            keep=float(keeps),
            whole=int(is_sum or begins),
            stretch=1.0 if begins else float(session.rule.machines),
            zeros=int(session.rule.l1_ratio > 0.0 and not keeps),
            single=self._single,
            locks=int(session.plan.private == epochs.EXCHANGE),
            atomic=int(session.plan.atomic),
            me=session.settings.n_workers + 2,  # after the workers, and the caller
        )

    def _offer(self, round_: int, rows: int) -> None:
        session, offered = self.session, self.account.offered
        if self.clocks.are_waited_for:
            self._words = self.clocks.words()  # the first: what belongs to them is in the vector
        etas = session.locals()[:, layout.L_ETA].max(axis=0)
        self._sent_terms = self._terms(round_, rows)
        between.offer(session.vector, session.memory, self.account, self._sent_terms, etas)
        places, tail = np.flatnonzero(offered), packed(self._words)
        if len(places) <= self._places:
            went = send(self.post.offers, offered[places], places, tail, round_)
        else:
            went = send(self.post.offers, offered, None, tail, round_)
        assert went, "there is one offer at a time"
        self._offered_rows, self._is_under_way = rows, True

    def _take_answer(self) -> bool:
        message = self.post.answers.poll()
        if message is None:
            return False
        known = self.account.known
        places, values, tail = parts(message, self.clocks.tail)
        if places is None:
            known[:] = values
        else:
            known[places] = values
        words = unpacked(tail)
        self._answered = message.round
        self.post.answers.take()
        session = self.session
        between.take_in(session.vector, session.memory, self.account, self._sent_terms)
        if self.clocks.are_waited_for:  # behind the vector, which has what they count
            self.clocks.take_in_all(words)
        self._is_under_way = False
        return True

    def _take_decision(self) -> bool:
        message = self.post.decisions.poll()
        if message is None:
            return False
        decision = Decision.of(message.values)
        if message.round == STOP_NOW:
            self.session.stop(decision.stop)
        else:
            self._decisions.append(decision)
        self.post.decisions.take()
        return True
