"""The global vector, and the one who decides for all machines: both on rank 0.

    machine: offer -> owner: total += offer; answer = what is news to that machine
    at rest: all offers -> all answers (the same vector everywhere) -> all reports -> one decision

An offer in passing is answered at once. Those of machines that rest, or have ended, are answered
when the last has come, so that all then have the same vector, and it has everything that was
offered. Then each reports what its epoch has come to; from the sums the owner makes one criterion,
one step size of each column and one stop word, by the code by which a run of one machine does.

Who writes: the thread of rank 0 that talks to the others, everything here. Who reads: the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numba import typeof

from hogshare.engine.session import Session
from hogshare.kernels import between, layout
from hogshare.kernels.epochs import Plan
from hogshare.kernels.jit import JIT_DISABLED
from hogshare.runtimes.mpi.clocks import CLOCK, WORDS, Clocks, expect_again, packed, unpacked
from hogshare.runtimes.mpi.posts import OWNER, Post, parts, send
from hogshare.runtimes.mpi.verdict import Verdict
from hogshare.runtimes.mpi.words import (
    ALL_REST,
    AT_END,
    AT_REST,
    GO_ON,
    IN_PASSING,
    ORDINARY,
    STOP_NOW,
    Decision,
    Flat,
    Report,
)

NOWHERE, NOTHING = np.empty(0, np.int64), np.empty(0)


class Owner:
    """The owner of the global vector.

    session : of machine 0, for what all have alike: the rule, and the columns as they begin
    plan : with the criterion of the run, by which machines by themselves do not stop
    clocks : of machine 0, for whose words are whose
    start : the flat vector that all machines begin with
    n_rows : rows that all machines train on
    posts : of every machine
    places : most values of a message that have a place each
    single : whether values are sent in four bytes
    """

    def __init__(
        self,
        session: Session,
        plan: Plan,
        clocks: Clocks,
        start: np.ndarray,
        n_rows: int,
        posts: Mapping[int, Post],
        places: int,
        single: bool,
    ) -> None:
        self.rule, self.flat = session.rule, Flat.of(session)
        self.verdict = Verdict(session, plan, n_rows)
        self.posts, self.clocks = posts, clocks
        # of each site the words that came with its last offer
        self._words = {k: np.zeros(clocks.size_of(k), np.int64) for k in posts}
        self.total = start.copy()
        self._told = {k: start.copy() for k in posts}
        self._places, self._values = np.empty(places, np.int64), np.empty(places)
        self._single = int(single)
        self._waiting: dict[int, int] = {}  # machines whose offer is not answered, and its round
        self._ended: set[int] = set()  # machines that are at their end, as they say
        self._given: set[int] = set()  # those of them whose last offer has come
        self._reports: dict[int, Report] = {}
        self._stop = layout.RUNNING
        self.is_done = False  # all has been said

    def prepare(self) -> None:
        """Load or compile its kernels; a run does nothing else before."""
        if JIT_DISABLED:
            return
        told, offered = self._told[OWNER], (self._places, self._values)
        between.settle_offer.compile(tuple(map(typeof, (self.total, told, *offered, 1.0, 0))))
        between.list_news.compile(tuple(map(typeof, (self.total, told, *offered, self._single))))
        self.verdict.prepare()

    def poll(self) -> bool:
        """Take in what has come, and answer; whether anything has come."""
        moved = False
        for k, post in self.posts.items():
            moved |= self._take_offer(k, post) | self._take_report(k, post)
        if moved:
            self._answer_all()
            self._decide()
        return moved

    # -- vectors

    def _take_offer(self, k: int, post: Post) -> bool:
        message = post.offers.poll()
        if message is None:
            return False
        tail = 2 * len(self._words[k]) if self.clocks.are_waited_for else 0
        places, values, words = parts(message, tail)
        zeros = int(self.rule.l1_ratio > 0.0)
        told, n = self._told[k], float(len(self.posts))
        where = NOWHERE if places is None else places
        between.settle_offer(self.total, told, where, values, n, zeros)
        if tail:
            self._words[k] = unpacked(words)
        round_ = message.round
        post.offers.take()
        if round_ == IN_PASSING:
            self._answer(k, IN_PASSING)
        else:
            self._waiting[k] = round_
            if round_ == AT_END:
                self._ended.add(k)
                self._given.add(k)
        return True

    def _answer(self, k: int, round_: int) -> None:
        count = between.list_news(
            self.total, self._told[k], self._places, self._values, self._single
        )
        answers, tail = self.posts[k].answers, NOTHING
        if self.clocks.are_waited_for:
            tail = packed(np.concatenate(list(self._words.values())))
        if count <= len(self._places):
            went = send(answers, self._values[:count], self._places[:count], tail, round_)
        else:
            went = send(answers, self._told[k], None, tail, round_)
        assert went, "a machine offers again only when it has its answer"

    def _answer_all(self) -> None:
        """Answer those that wait for the last one, if it has come."""
        everybody = len(self._waiting) == len(self.posts)
        all_rest = everybody and set(self._waiting.values()) == {AT_REST} and not self._ended
        if everybody and len(self._ended) in (0, len(self.posts)):
            waiting = list(self._waiting)
        elif everybody:  # some rest, and others have ended: those wait for the end of all
            waiting = [k for k in self._waiting if k not in self._ended]
        else:
            return
        for k in waiting:
            round_ = self._waiting.pop(k)
            self._answer(k, ALL_REST if all_rest else round_)
        self._expect(waiting)

    def _expect(self, sites: list[int]) -> None:
        """Have barriers wait for the workers of sites that rest: they begin again, at one clock."""
        clock = max(int(words[1 + CLOCK :: len(WORDS)].max()) for words in self._words.values())
        for k in sites:
            expect_again(self._words[k], clock)

    # -- words

    def _take_report(self, k: int, post: Post) -> bool:
        message = post.reports.poll()
        if message is None:
            return False
        report = self._reports[k] = Report.of(message.values)
        post.reports.take()
        if report.is_last:  # whose last offer, on its way by itself, may come later
            self._ended.add(k)
        if report.stop not in ORDINARY and self._stop == layout.RUNNING:
            self._stop = report.stop
            for other, line in self.posts.items():
                if other not in self._waiting and other not in self._reports:
                    line.decisions.post(self._decision(report.epochs).words(), None, STOP_NOW)
        return True

    def _decide(self) -> None:
        """Decide, once all that are not at their end have reported, or all that are."""
        at_end = len(self._given) == len(self.posts)
        expected = set(self.posts) if at_end else set(self.posts) - self._ended
        if not expected or not expected <= set(self._reports) or self.is_done:
            return
        reports = [self._reports[k] for k in self.posts if k in self._reports]
        n_epochs = min(report.epochs for report in reports)
        if all(report.epochs == n_epochs for report in reports) and n_epochs > self.verdict.epochs:
            sums = np.sum([report.sums for report in reports], axis=0)
            w, is_finite = self.flat.coefficients(self.total), bool(np.isfinite(self.total).all())
            stop = self.verdict.of(n_epochs, sums, w, is_finite)
            if self._stop == layout.RUNNING:
                self._stop = stop
        if at_end and self._stop == layout.RUNNING:
            self._stop = layout.STOPPED_BY_LIMIT
        words = self._decision(n_epochs).words()
        for k in expected:
            del self._reports[k]
            went = self.posts[k].decisions.post(words, None, GO_ON)
            assert went, "a machine reports again only when it has a decision"
        self.is_done = at_end

    def vector(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts as they stand: copies, each number whole."""
        kind = self.verdict.kind
        w = self.flat.coefficients(self.total).astype(kind)
        return w, self.flat.intercepts(self.total).copy()

    def put_intercept(self, intercept: np.ndarray) -> None:
        """Take intercepts that all have moved alike while all rest, with nothing under way."""
        for flat in (self.total, *self._told.values()):
            self.flat.intercepts(flat)[:] = intercept

    def _decision(self, n_epochs: int) -> Decision:
        return Decision(self._stop, n_epochs, self.verdict.loss, self.verdict.columns)
