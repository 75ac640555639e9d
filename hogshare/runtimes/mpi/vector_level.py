"""Sites with a vector each: what each has changed goes to all others, and one epoch ends for all.

    while they work     offers, from each site to each (`site`)
    at an epoch's end   offers -> words (epochs, stop words, sums) -> one vector's bits -> callers
                        -> one decision, which all come to by themselves

Who has stopped in the middle of an epoch says so, and comes to the same epoch_barriers as those who
rest, until all have ended.

Who writes: each rank's thread that talks to the others, by `hogshare.runtimes.mpi.site`, which says
the rest. Who frees: `close`.
"""

from __future__ import annotations

import pickle
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from hogshare.engine.arrays import snapshots
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.rules import step_schedules
from hogshare.links.run_links import Network
from hogshare.runtimes.mpi.clocks import Clocks
from hogshare.runtimes.mpi.flat_vector import ORDINARY, Decision, Flat
from hogshare.runtimes.mpi.level import Between, Level, Model
from hogshare.runtimes.mpi.rank_pool import RankPool
from hogshare.runtimes.mpi.site import TAKEN, Site
from hogshare.runtimes.mpi.site_pace import SitePace

SNAPSHOTS = tuple(snapshots(0, 0, 0, "float64", False))  # names of their arrays
STOP_NOW = TAKEN + 1  # the kind of message of who has stopped in the middle of an epoch


class VectorLevel(Level):
    """The level of sites with a vector each.

    A meeting has two more steps where anybody looks at the model between epochs, or the rule does:
    all get rank 0's bits, since each has added the offers in another order, and all hear what
    callers say.

    pool : one rank for each site
    n_rows : rows that all sites train on
    network : links between sites besides the real ones

    shares_trace : whether there are snapshots, which are rank 0's: of what it knows of the vector,
        within an epoch when its workers have done that share of their rows
    is_evaluated : whether anybody looks at the model between two epochs
    """

    def __init__(
        self, pool: RankPool, session: Session, pace: SitePace, n_rows: int, network: Network
    ) -> None:
        super().__init__(pool, session, n_rows)
        self.is_evaluated = self.has_criterion or session.rule.schedule == step_schedules.ADAPTIVE
        # sites may disagree on what has been claimed to be zero, until they meet
        self.is_evaluated |= session.rule.l1_ratio > 0.0
        flat, start = Flat.of(session), Flat.of(session).start(session)
        single = session.vector.w.dtype == np.float32 and not flat.average
        self.shares_trace = len(session.arrays["snapshots"]) > 0
        share, clocks = session.arrays["order"].shape[1] / n_rows, Clocks(session)
        self.site = Site(session, self.channel, clocks, start, pace, share, single, network)
        self.channel.on(STOP_NOW, self._stop)

    @property
    def nap(self) -> float:
        """As of `Level`."""
        return self.site.nap

    def poll(self) -> bool:
        """Do whatever there is to do; whether anything was."""
        return self.channel.poll() | self.site.poll()

    def prepare(self) -> None:
        """Load or compile the kernels of messages."""
        super().prepare()
        self.site.prepare()

    def begin(self, is_heard: bool) -> None:
        """Agree on how curved the objective is, and begin at one vector."""
        arrays, site = self.session.arrays, self.site
        curved = [arrays[name] for name in ("curvature", "rarity")]
        own = [float(self.is_evaluated or is_heard), float(site.has_own)]
        # at once: each that is asked for by itself costs as much as a hundred thousand rows
        found = self.pool.added(
            np.concatenate([own, *(site.share * one.astype(np.float64) for one in curved)])
        )
        self.is_evaluated = bool(found[0])
        curved[0][:] = found[2 : 2 + len(curved[0])]
        curved[1][:] = found[2 + len(curved[0]) :]
        if found[1]:
            site.offer(is_whole=True)
            self.channel.gathered(np.zeros(0))  # behind the offers
            site.take_in()
            site.adopt()
        is_first = self.pool.me == 0 or self.pool.living is not None  # or may be, in the end
        if is_first and self.session.plan.record_every < self.session.plan.n_blocks:
            self.session.whole = self.site.known
        self.site.go_on()

    def end(self) -> None:
        """Bring the run to its end on all sites, with one model."""
        stop = self.session.word(layout.STOP)
        if stop not in ORDINARY:  # the others are to hear of it now
            for to in self.channel.others:
                self.channel.post(to, STOP_NOW, [np.array([stop])])
        super().end()
        if self.shares_trace:
            self._share_trace()

    def common(self) -> AbstractContextManager[None]:
        """As of `Level`."""
        return self.site.common()

    def has_finite(self) -> bool:
        """As of `Level`."""
        return bool(np.isfinite(self.site.account.base).all())

    def arrive(self) -> None:
        """Offer what is left."""
        self.site.is_at_work = False
        self.site.offer()

    def bring(self, clock: int) -> Model:
        """As of `Level`; the same bits for all, if anybody looks at them."""
        self.site.take_in()
        self.session.local_table[:, layout.T_CLOCK] = clock  # where all go on from
        if self.is_evaluated or self.are_over.any():
            self.site.adopt()
        return self.site.known()

    def go_on(self) -> None:
        """As of `Level`."""
        self.site.go_on()

    def clear(self) -> None:
        """As of `Level`."""
        self.site.put_known()

    def bury(self, site: int) -> None:
        """As of `Level`; a site's share is that of the rows which are left."""
        rows, me = self.pool.training, self.pool.me
        self.site.bury(site, float(rows[me] / rows[[me, *self.channel.others]].sum()))

    def _meet(self, between: Between, is_last: bool) -> Decision:
        decision = super()._meet(between, is_last)
        if is_last and not self.are_over.all():
            self.site.go_on(works=False)  # others have gone on, and offer
        return decision

    def _stop(self, sender: int, content: np.ndarray) -> None:
        if self.session.word(layout.STOP) in ORDINARY:
            self.session.stop(int(content.view(np.int64)[0]))

    def _share_trace(self) -> None:
        """Have the snapshots of rank 0 on all sites: others count blocks of their own."""
        arrays: Any = self.session.arrays
        self.session.whole = None
        own = pickle.dumps([arrays[name] for name in SNAPSHOTS])
        found = pickle.loads(self.pool.spread(own))
        arrays.update(zip(SNAPSHOTS, found, strict=True))
