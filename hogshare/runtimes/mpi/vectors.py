"""Machines with a vector each: what each has changed goes to the owner of the global one.

Who writes: each rank's thread that talks to the others, by `hogshare.runtimes.mpi.site` and
`owner`, which say the rest. Who frees: `close`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hogshare.engine.arrays import snapshots
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.links.network import Network
from hogshare.runtimes.mpi.assembly import Assembly, Pool
from hogshare.runtimes.mpi.clocks import Clocks
from hogshare.runtimes.mpi.level import Between, GoOn, Level, give_back, pool_iterates
from hogshare.runtimes.mpi.owner import Owner
from hogshare.runtimes.mpi.posts import OWNER, Posts
from hogshare.runtimes.mpi.site import Site, SitePace
from hogshare.runtimes.mpi.words import ORDINARY, Decision, Flat, most_words

SNAPSHOTS = tuple(snapshots(0, 0, 0, "float64", False))  # names of their arrays


class VectorLevel(Level):
    """The level of machines with a vector each: its site, and on rank 0 the owner.

    shares_trace : whether snapshots within an epoch are taken: of the owner's vector, when the
        workers of rank 0 have done that share of their rows

    pool : one rank for each machine
    n_rows : rows that all machines train on
    """

    def __init__(
        self, pool: Pool, session: Session, pace: SitePace, n_rows: int, network: Network
    ) -> None:
        flat, start = Flat.of(session), Flat.of(session).start(session)
        single = session.vector.w.dtype == np.float32 and not flat.average
        values = "float32" if single else "float64"
        words = most_words(flat.columns)
        self.session, self.pool, self.is_over = session, pool, False
        self.clocks = Clocks(session)
        self.posts = Posts(pool, flat.size, self.clocks.tail, words, values, network)
        self.beats, self.traffic = self.posts.beats, self.posts.traffic
        self._comm = pool.copy_of_comm()
        self.assembly = Assembly(self._comm, self.wait, self.traffic)
        me, places = self.posts.me, self.posts.places
        self.owner: Owner | None = None
        if me == OWNER:
            numbers = n_rows, self.posts.of, places, single
            self.owner = Owner(session, session.plan, self.clocks, start, *numbers)
        self.shares_trace = False
        # by itself a machine meets no criterion; whether all do is the owner's to say
        session.plan = session.plan._replace(tol=-np.inf, early_stopping=0)
        machines = self.posts.n_machines
        self.site = Site(
            session, self.clocks, start, pace, self.posts.of[me], places, single, machines
        )
        self.deliver: Callable[[], None] = lambda: None  # an interrupt, while it waits

    def poll(self) -> bool:
        """Do whatever there is to do; whether anything was."""
        moved = self.posts.poll()
        if self.owner is not None:
            moved |= self.owner.poll()
        return moved | self.site.poll()

    def prepare(self) -> None:
        """Load or compile the kernels of messages."""
        self.site.prepare()
        if self.owner is not None:
            self.owner.prepare()

    def begin(self, is_heard: bool) -> None:
        """Agree on how curved the objective is, and begin at one vector."""
        a, added = self.session.arrays, self.pool.added
        n_rows = float(a["order"].shape[1])
        share = n_rows / added(np.array([n_rows]))[0]
        for name in ("curvature", "rarity"):
            if a[name].size:
                a[name][:] = added(share * a[name].astype(np.float64))
        self.site.begin(self.wait)
        if self.owner is not None and self.shares_trace:
            self.session.whole = self.owner.vector

    def rest(self, between: Between, before_all_go_on: GoOn) -> Decision:
        """Come to one vector and one decision with all machines."""

        def inside(n_epochs: int, all_rest: bool) -> int:
            if all_rest:
                self._take_score()
            return between(n_epochs, all_rest)

        decision = self.site.rest(self.wait, inside)
        if decision.stop == layout.RUNNING:
            before_all_go_on()
        return decision

    @contextmanager
    def common(self) -> Iterator[None]:
        """As of `Level`."""
        known = self.site.flat.intercepts(self.site.account.known)
        before = known.copy()
        with self.site.common():
            yield
        if self.owner is not None and not np.array_equal(known, before, equal_nan=True):
            self.owner.put_intercept(known)  # nothing is under way: all rest, and have said so

    def end(self) -> None:
        """Bring the run to its end on all machines, with one model."""
        self.site.end(self.wait, self._take_last_score)
        self.wait(lambda: self.posts.is_quiet and (self.owner is None or self.owner.is_done))
        self.wait(self.beats.have_parted)
        pool_iterates(self.session, self.pool)
        if self.shares_trace:
            self._share_trace()
        self.is_over = True

    def _share_trace(self) -> None:
        """Have the owner's snapshots on all machines: others count blocks of their own."""
        arrays: Any = self.session.arrays
        self.session.whole = None
        own = pickle.dumps([arrays[name] for name in SNAPSHOTS])
        found = pickle.loads(self.pool.spread(own))
        arrays.update(zip(SNAPSHOTS, found, strict=True))

    def _take_score(self) -> None:
        if self.score is not None:
            with self.site.common():
                score = self.score()
            if self.owner is not None:
                self.owner.verdict.score[:] = score

    def _take_last_score(self) -> None:
        """Score the model if the last epoch is one of all."""
        if self.score is None:
            return
        session = self.session
        words = np.array([session.word(layout.EPOCHS), session.word(layout.STOP)])
        epochs, stops = self.assembly.gathered(words).astype(int).T
        if (epochs == epochs[0]).all() and set(stops.tolist()) <= set(ORDINARY):
            self._take_score()

    def close(self) -> None:
        """Give back what the messages took."""
        self.posts.close()
        self.assembly.close()
        give_back([*self.posts.comms, self._comm], self.is_over)
