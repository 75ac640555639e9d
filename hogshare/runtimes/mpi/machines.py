"""Machines that share no memory: one model by messages, with workers of its own on each.

Every machine has a session over its own rows, and a vector of its own, which its workers share as
on a run of one machine. That vector is exchanged with the global one on rank 0. Epochs, step sizes
and stops are decided there once for all: after each epoch the workers of a machine rest until all
machines have come as far and have the same vector.

Who writes: each rank's calling thread, which talks to the others, `hogshare.runtimes.mpi.site` and
`owner`; the workers, threads, as `hogshare.engine.session` says. Who frees: `close`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hogshare.barriers import Barrier, is_free
from hogshare.engine.arrays import NOTHING, Shapes, private_memory
from hogshare.engine.checks import AtRest
from hogshare.engine.choices import Choices
from hogshare.engine.session import Session
from hogshare.interrupts import Holding
from hogshare.kernels import layout
from hogshare.kernels.parts import Each
from hogshare.problems.linear.part import (
    PartOfRows,
    Sizes,
    every_so_many,
    part_of,
    sizes_of,
    together,
)
from hogshare.problems.protocol import Problem, has_rows
from hogshare.runtimes.hooks import EpochHook, OnEpoch
from hogshare.runtimes.mpi.flat import Flat
from hogshare.runtimes.mpi.owner import Owner
from hogshare.runtimes.mpi.paces import SitePace, site_pace
from hogshare.runtimes.mpi.pooling import NAP_SECONDS, Pool
from hogshare.runtimes.mpi.posts import OWNER, Posts
from hogshare.runtimes.mpi.site import Site
from hogshare.runtimes.mpi.words import most_words
from hogshare.runtimes.news import Bell
from hogshare.runtimes.protocol import Outcome, Runtime
from hogshare.runtimes.threads import ThreadCrew
from hogshare.simulation.network import Network

ONE = "the ranks of one machine"


class Level:
    """The level between machines, as one of them has it: its site, and on rank 0 the owner.

    Parameters
    ----------
    pool : Pool
        One rank for each machine.
    session : Session
    pace : SitePace
    n_rows : int
        Rows that all machines train on.
    network : Network
    """

    def __init__(
        self, pool: Pool, session: Session, pace: SitePace, n_rows: int, network: Network
    ) -> None:
        flat, start = Flat.of(session), Flat.of(session).start(session)
        single = session.vector.w.dtype == np.float32 and not flat.average
        values = "float32" if single else "float64"
        words = most_words(flat.columns)
        self.session, self.pool = session, pool
        self.posts = Posts(pool, flat.size, words, values, network)
        me, places = self.posts.me, self.posts.places
        self.owner: Owner | None = None
        if me == OWNER:
            numbers = n_rows, self.posts.of, places, single
            self.owner = Owner(session, session.plan, start, *numbers)
        # by itself a machine meets no criterion; whether all do is the owner's to say
        session.plan = session.plan._replace(tol=-np.inf)
        machines = self.posts.n_machines
        self.site = Site(session, start, pace, self.posts.of[me], places, single, machines)
        self.deliver: Callable[[], None] = lambda: None  # an interrupt, while it waits

    def poll(self) -> bool:
        """Do whatever there is to do; whether anything was."""
        moved = self.posts.poll()
        if self.owner is not None:
            moved |= self.owner.poll()
        return moved | self.site.poll()

    def wait(self, ready: Callable[[], bool]) -> None:
        """Poll until something is so, asleep in between."""
        while not ready():
            if not self.poll():
                self.deliver()
                self.pool.look()
                time.sleep(NAP_SECONDS)

    def prepare(self) -> None:
        """Load or compile the kernels of messages."""
        self.site.prepare()
        if self.owner is not None:
            self.owner.prepare()

    def begin(self) -> None:
        """Agree on how curved the objective is, and begin at one vector."""
        a, added = self.session.arrays, self.pool.added
        n_rows = float(a["order"].shape[1])
        share = n_rows / added(np.array([n_rows]))[0]
        for name in ("curvature", "rarity"):
            if a[name].size:
                a[name][:] = added(share * a[name].astype(np.float64))
        self.site.begin(self.wait)

    def end(self) -> None:
        """Bring the run to its end on all machines, with one model."""
        self.site.end(self.wait)
        self.wait(lambda: self.posts.is_quiet and (self.owner is None or self.owner.is_done))
        self._pool_iterates()

    def _pool_iterates(self) -> None:
        """Have this machine's sum of iterates be that of all."""
        session = self.session
        lag, local = session.arrays["lag"], session.locals()
        if not lag.size:
            return
        counts, total, intercepts = session.sums_of_iterates()
        local[:, [layout.L_AVERAGE_SCALE, layout.L_AVERAGE_COUNT]] = 0.0
        local[:, layout.L_AVERAGE_INTERCEPT] = 0.0
        lag[:] = 0.0
        lag[0, : session.size] = self.pool.added(total)
        local[0, layout.L_AVERAGE_COUNT] = self.pool.added(counts)
        local[0, layout.L_AVERAGE_INTERCEPT] = self.pool.added(intercepts)


class AtEpochs:
    """What a machine does when its workers rest: it waits for the others.

    Parameters
    ----------
    level : Level
    tell : callable
        ``tell(epochs)`` tells this machine's caller; True: it has the run stop.
    """

    def __init__(self, level: Level, tell: Callable[[int], bool]) -> None:
        self.level, self.tell = level, tell

    def look(self, session: Session, each: Each = map) -> int | None:
        """Come to one vector and one decision with all machines."""
        decision = self.level.site.rest(self.level.wait, self.tell)
        if decision.stop != layout.RUNNING:
            session.stop(decision.stop)
            return session.word(layout.EPOCHS)
        return decision.epochs + 1

    def meanwhile(self) -> Callable[[], None] | None:
        """Nothing."""
        return None


class Machines(Runtime):
    """The runtime of machines that exchange their vectors by messages; one rank for each.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    look : callable
        Called while this rank waits for others; raises if one has failed.
    rows : {"shard", "all"}, default="shard"
        Whether the problem of a rank holds rows of its own, or all rows, of which rank k of n takes
        rows k, k + n and so on.
    network : Network, default=Network()
        Links between the machines besides the real ones.
    """

    name = "mpi"

    def __init__(
        self,
        comm: Any,
        look: Callable[[], Any],
        rows: str = "shard",
        network: Network | None = None,
    ) -> None:
        self.rows, self.network = rows, network or Network()
        self.pool = Pool(comm, look)
        self.me, self.n_machines = self.pool.me, self.pool.size
        self.level: Level | None = None

    # -- before

    def here(self, problem: Problem) -> Problem:
        """The machine's part of the rows, which knows how many there are, and how large.

        Raises
        ------
        ValueError
            If the problem has no rows that kernels step through, or a machine has none.
        """
        if not has_rows(problem):
            raise ValueError(
                "between machines runtime='mpi' solves linear problems: a problem by a gradient "
                f"runs on {ONE}."
            )
        own: Any = problem
        if self.rows == "all" and self.n_machines > 1:
            own = own.with_rows(every_so_many(own.rows, self.me, self.n_machines))
        found = self.pool.gathered(np.array([*sizes_of(own), *_shape(problem)]))
        for rank, other in enumerate(found):
            if other[0] < 1:
                raise ValueError(f"rank {rank} has no rows: between machines each needs some.")
            if (other[5:] != found[0, 5:]).any():
                raise ValueError(
                    f"rank {rank} has {int(other[5])} features and {int(other[6])} columns (one "
                    f"for each class, if more than two), and rank 0 {int(found[0, 5])} and "
                    f"{int(found[0, 6])}, or other numbers: between machines all solve one problem."
                )
        whole = together([Sizes(int(one[0]), *one[1:5].tolist()) for one in found])
        return part_of(own, whole, self._add)

    def settle(self, barrier: Barrier, n_workers: int) -> None:
        """Refuse barriers: between machines there is the end of an epoch."""
        if not is_free(barrier):
            raise ValueError(
                f"barriers hold among {ONE}: between machines workers wait for each other at "
                "epochs' ends only. Leave barrier out."
            )

    def settled(self, choices: Choices) -> Choices:
        """With how many machines there are, and how many rows they have.

        Raises
        ------
        ValueError
        """
        plane, stop = choices.plane, choices.stop
        for is_asked, what in (
            (plane.has_homes or plane.has_master, f"the plane {type(plane).__name__}"),
            (bool(choices.record), "record=True"),
            (choices.trace > 1, "a trace of more than one snapshot an epoch"),
            (bool(stop.looks), "Stop(gradient=...) and Stop(gap=...)"),
            (stop.validation is not None, "Stop(validation=...)"),
            (bool(stop.confirm), "Stop(confirm=True)"),
            (
                bool(choices.rule.average) and plane.is_lock_free,
                "an average of iterates on one vector without locks",
            ),
        ):
            if is_asked:
                raise ValueError(f"{what} needs {ONE}: between machines it is not there.")
        problem = choices.problem
        assert isinstance(problem, PartOfRows)
        beside = problem.n_all - problem.n_rows
        choices = dataclasses.replace(
            choices, n_machines=self.n_machines, n_beside=beside, iterate=1.0
        )
        vectors = 2 if choices.rule.remembers and not choices.rule.is_sum else 1
        size = vectors * problem.n_features * problem.n_columns
        self.n_rows, self.pace = choices.n_all, site_pace(choices, size)
        return choices

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        lent: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """Memory of this process; what is lent is copied, for all machines write it."""
        arrays = {**private_memory(shapes), **rows}
        for name, array in lent.items():
            arrays[name][:] = array
        return arrays

    def prepare(self, session: Session) -> None:
        """Open the edges to the others, and have workers rest after each epoch."""
        self.level = Level(self.pool, session, self.pace, self.n_rows, self.network)
        self.level.prepare()
        session.raise_limit(1)

    # -- the run

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtRest | None = None
    ) -> Outcome:
        """Run this machine's workers to their end, which is that of all machines."""
        level = self.level
        assert level is not None
        crew = ThreadCrew(session, range(session.settings.n_workers), news := Bell())
        with Holding(news) as held:

            def tell(n_epochs: int) -> bool:
                if on_epoch is None:
                    return False
                level.posts.beats.rest()
                return bool(held.outside(on_epoch, n_epochs, session.snapshot))

            level.deliver = held.deliver
            at_epochs = AtEpochs(level, tell)
            with EpochHook(session, None, at_epochs, crew.each, held) as hook:
                try:
                    level.begin()
                    crew.start()
                    while crew.running:
                        level.poll()
                        level.pool.look()
                        hook.poll()
                        crew.wait(NAP_SECONDS)
                except BaseException:
                    session.stop(layout.STOPPED_BY_CALLER)
                    crew.join(crew.patience(held))
                    raise
                crew.finish()
                level.end()
        return Outcome([], traffic=level.posts.traffic.as_dict())

    def close(self) -> None:
        """Give back what the messages took."""
        if self.level is not None:
            self.level.posts.close()
            self.level = None

    def facts(self) -> dict[str, Any]:
        """How many machines there were, and after how many rows each exchanged."""
        return {"machines": self.n_machines, "machine_exchange_rows": self.pace.rows}

    def _add(self, number: float) -> float:
        return float(self.pool.added(np.array([number]))[0])


def _shape(problem: Any) -> tuple[float, ...]:
    """What has to be the same on all machines, as numbers."""
    return (
        float(problem.n_features),
        float(problem.n_columns),
        float(problem.alpha),
        float(problem.l1_ratio),
        float(problem.fit_intercept),
        float(problem.dtype.itemsize),
    )
