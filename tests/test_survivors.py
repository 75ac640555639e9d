"""How ranks come together when any of them may die at any moment: all that live have the same.

Ranks are threads of which one runs at a time, between any two of which letters arrive in any order
that MPI allows, ranks die, and others get to know of it. `test_deaths.py` kills processes.
"""

import random
import threading
from collections import defaultdict, deque
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("mpi4py", exc_type=ImportError)

from hogshare.runtimes.mpi.survivors import TOGETHER, Contribution, RankDied, Survivors

pytestmark = pytest.mark.filterwarnings("ignore::hogshare.runtimes.mpi.survivors.RankDied")

TIMES = 6  # that ranks come together
MOST_STEPS = 3_000


class Died(BaseException):
    """Ends a rank's thread."""


class Rank:
    """A rank of a job, and its call, as `Survivors` knows that."""

    def __init__(self, job, number, size, kind):
        self.job, self.number = job, number
        others = [rank for rank in range(size) if rank != number]
        self.talk = SimpleNamespace(others=others, dead=set())
        self.may_lose, self.serve = True, lambda: None
        self.arrived = defaultdict(deque)
        self.go, self.paused = threading.Semaphore(0), threading.Semaphore(0)
        self.is_over = self.is_dead = False
        self.results, self.error = [], None
        comm = SimpleNamespace(Get_rank=lambda: number, Get_size=lambda: size)
        self.survivors = kind(self, comm)
        self.survivors.rows = np.array([10, 20, 3000, 4])[:size]
        self.thread = threading.Thread(target=self._run, daemon=True)

    # -- as a call

    def post(self, to, kind, content=None):
        self.job.may_die(self)
        if to not in self.talk.dead:
            self.job.under_way[self.number, to].append(content)

    def heard(self, source, kind):
        queue = self.arrived[source]
        return SimpleNamespace(content=queue.popleft()) if queue else None

    def poll(self):
        self.serve()

    look = poll

    # -- as a program

    def _run(self):
        self.go.acquire()
        try:
            if self.is_dead:
                raise Died
            for time in range(TIMES):
                if time % 3 == 2:  # what the first one has
                    found = self.survivors.of_first(lambda: self.number, self._wait)
                    self.results.append(found)
                else:
                    found = self.survivors.together((time, self.number), self._wait)
                    self.results.append(tuple(found.items()))
            while not self.job.are_all_over(self):
                self._pause()  # as in `Call.end`: others may still ask
        except Died:
            pass
        except BaseException as error:
            self.error = error
        self.is_over = True
        self.paused.release()

    def _wait(self, ready):
        while not ready():
            self._pause()

    def _pause(self):
        self.paused.release()
        self.go.acquire()
        if self.is_dead:
            raise Died
        self.serve()

    def step(self):
        """Let it run until it waits."""
        self.go.release()
        assert self.paused.acquire(timeout=20)


class Job:
    """Ranks, their letters, and what chance does to them.

    deaths : how many ranks die; their chance is one in so many of what happens
    """

    def __init__(self, size, deaths, draw, kind=Survivors):
        self.draw, self.deaths = draw, deaths
        self.under_way = defaultdict(deque)
        self.rare = draw.choice([5, 20, 60])
        self.ranks = [Rank(self, number, size, kind) for number in range(size)]

    @property
    def living(self):
        return [rank for rank in self.ranks if not rank.is_dead]

    def may_die(self, rank):
        """Maybe end the rank that runs."""
        if self.deaths and len(self.living) > 1 and self.draw.randrange(self.rare) == 0:
            self._kill(rank)
            raise Died

    def _kill(self, rank):
        self.deaths -= 1
        rank.is_dead = True

    def are_all_over(self, asking):
        done = (len(rank.results) == TIMES for rank in self.living if rank is not asking)
        return all(done) and len(asking.results) == TIMES

    def run(self):
        for rank in self.ranks:
            rank.thread.start()
        for _ in range(MOST_STEPS):
            if all(rank.is_over for rank in self.living):
                break
            self._happens()
        for rank in self.ranks:
            rank.is_alive_at_the_end, rank.is_dead = not rank.is_dead, True
            rank.go.release()
            rank.thread.join(20)
        return self

    def _happens(self):
        draw = self.draw
        chance = draw.random()
        if chance < 0.5:
            waiting = [rank for rank in self.living if not rank.is_over]
            draw.choice(waiting).step()
        elif chance < 0.95:
            self._deliver()
        elif chance < 0.98:
            dead = [rank.number for rank in self.ranks if rank.is_dead]
            if dead:  # MPI answers for one rank at a time; what is under way may still arrive
                who, of = draw.choice(self.living), draw.choice(dead)
                who.talk.dead.add(of)
        elif self.deaths and len(self.living) > 1 and draw.randrange(self.rare) == 0:
            self._kill(draw.choice(self.living))

    def _deliver(self):
        edges = [edge for edge, queue in self.under_way.items() if queue]
        if edges:
            sender, to = self.draw.choice(edges)
            self.ranks[to].arrived[sender].append(self.under_way[sender, to].popleft())


def fault(job):
    """What is wrong with what a job has come to; None: nothing."""
    errors = [rank.error for rank in job.ranks if rank.error is not None]
    living = [rank for rank in job.ranks if rank.is_alive_at_the_end]
    if errors or not living or any(len(rank.results) < TIMES for rank in living):
        return f"errors {errors}, results {[rank.results for rank in job.ranks]}"
    numbers, results = {rank.number for rank in living}, living[0].results
    if len({tuple(rank.results) for rank in living}) > 1:
        return f"others: {[rank.results for rank in living]}"
    parts = [one for one in results if isinstance(one, tuple)]
    included = [{number for number, _ in one} for one in parts]
    if not all(numbers <= one for one in included):
        return f"who lives is in all: {included}"
    if any(before < after for before, after in pairwise(included)):
        return f"nobody comes again: {included}"
    is_own = [
        (time, n) == part for time, one in enumerate(results) if time % 3 < 2 for n, part in one
    ]
    return None if all(is_own) else f"parts of another time: {results}"


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_all_that_live_have_the_same(size):
    died = 0
    for k in range(200):
        draw = random.Random(f"{size} {k}")
        job = Job(size, draw.randrange(size), draw).run()
        assert fault(job) is None, k
        died += sum(not rank.is_alive_at_the_end for rank in job.ranks)
    assert size == 1 or died > 20


class Silent(Survivors):
    """Reports nothing to the next one."""

    def _bury(self, dead):
        self._buried |= dead
        self._first = min({*range(self.size)} - self._buried)
        if self._part is not None and self._first == self.me:
            self._brought[self.me] = self._part


class Forgets(Survivors):
    """Reports no result to the next one."""

    def _bury(self, dead):
        last, self._last = self._last, None
        super()._bury(dead)
        self._last = last


class Listens(Survivors):
    """Reads what comes from the dead."""

    def serve(self):
        buried, self._buried = self._buried, set()
        for rank in self.call.talk.others:
            while letter := self.call.heard(rank, TOGETHER):
                self._read(rank, letter.content)
        self._buried = buried
        super().serve()


@pytest.mark.parametrize(("twin", "seed"), [(Silent, 5), (Forgets, 39), (Listens, 227)])
def test_a_broken_twin_is_noticed(twin, seed):
    for k in range(seed, seed + 2000):  # the first one that notices it, as long as draws are these
        draw = random.Random(k)
        if fault(Job(4, 3, draw, twin).run()):
            return
    raise AssertionError("nothing was noticed")


@pytest.mark.parametrize("is_over", [False, True])
def test_a_death_is_reported_with_its_rows(is_over):
    rank = Rank(Job(3, 0, random.Random(0)), 0, 3, Survivors)
    rank.talk.dead.add(1)
    rank.arrived[2].append(Contribution(0, (None,)))
    rank.survivors.is_over = is_over
    with pytest.warns(RankDied, match="rank 1 has died, with 20 of 3,030 rows") as caught:
        rank.survivors.together(None, lambda ready: rank.poll())
    assert rank.survivors.lost == (1,) and rank.survivors.notes == [str(caught[0].message)]
    assert ("the run was over" in rank.survivors.notes[0]) == is_over


def test_nobody_is_left_out_before_all_have_begun():
    rank = Rank(Job(2, 0, random.Random(0)), 0, 2, Survivors)
    rank.may_lose = False
    rank.talk.dead.add(1)
    rank.survivors.together(None, lambda ready: rank.poll())
    assert rank.survivors.lost == ()
