"""Machines with a vector each: what each has changed goes to the owner of the global one.

Who writes: each rank's thread that talks to the others, by `hogshare.runtimes.mpi.site` and
`owner`, which say the rest. Who frees: `close`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hogshare.engine.session import Session
from hogshare.links.network import Network
from hogshare.runtimes.mpi.assembly import Pool
from hogshare.runtimes.mpi.clocks import Clocks
from hogshare.runtimes.mpi.level import Level, Tell, give_back, pool_iterates
from hogshare.runtimes.mpi.owner import Owner
from hogshare.runtimes.mpi.posts import OWNER, Posts
from hogshare.runtimes.mpi.site import Site, SitePace
from hogshare.runtimes.mpi.words import Decision, Flat, most_words


class VectorLevel(Level):
    """The level of machines with a vector each: its site, and on rank 0 the owner.

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
        me, places = self.posts.me, self.posts.places
        self.owner: Owner | None = None
        if me == OWNER:
            numbers = n_rows, self.posts.of, places, single
            self.owner = Owner(session, session.plan, self.clocks, start, *numbers)
        # by itself a machine meets no criterion; whether all do is the owner's to say
        session.plan = session.plan._replace(tol=-np.inf)
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

    def rest(self, tell: Tell) -> Decision:
        """Come to one vector and one decision with all machines."""
        return self.site.rest(self.wait, tell)

    def end(self) -> None:
        """Bring the run to its end on all machines, with one model."""
        self.site.end(self.wait)
        self.wait(lambda: self.posts.is_quiet and (self.owner is None or self.owner.is_done))
        self.wait(self.beats.have_parted)
        pool_iterates(self.session, self.pool)
        self.is_over = True

    def close(self) -> None:
        """Give back what the messages took."""
        self.posts.close()
        give_back(self.posts.comms, self.is_over)
