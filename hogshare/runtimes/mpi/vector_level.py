"""Sites with a vector each: a site sends its changes to all others; all sites end epochs together.

    while they work     offers, from each site to each other site (`site`)
    at an epoch's end   offers -> words (epochs, stop flags, sums) -> one vector's bits -> callers
                        -> one decision, which each site computes by itself

An offer is a message with a site's changes. A site that has stopped in the middle of an epoch
announces this, and joins the same epoch barriers as the paused sites, until all sites have ended.

Writer: each rank's thread that communicates with other ranks, as `hogshare.runtimes.mpi.site`
describes. Freeing: `close`.
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

SNAPSHOTS = tuple(snapshots(0, 0, 0, "float64", False))  # names of the arrays of snapshots
STOP_NOW = TAKEN + 1  # the kind of message of a site that stops in the middle of an epoch


class VectorLevel(Level):
    """The level of sites with a vector each.

    If a site, or the rule, evaluates the model between epochs, an epoch barrier has two more steps:
    (1) all sites get the bits of rank 0's vector, because each site has added the offers in another
    order; (2) all sites get the callers' decisions.

    pool : one rank for each site
    session : this site's session
    pace : the interval between this site's offers
    n_rows : number of rows that all sites train on
    network : emulated links between sites

    shares_trace : whether snapshots exist. All sites have rank 0's snapshots of rank 0's vector. A
        snapshot within an epoch is taken when rank 0's workers have done that share of their rows.
    is_evaluated : whether any site evaluates the model between two epochs
    """

    def __init__(
        self, pool: RankPool, session: Session, pace: SitePace, n_rows: int, network: Network
    ) -> None:
        super().__init__(pool, session, n_rows)
        self.is_evaluated = self.has_criterion or session.rule.schedule == step_schedules.ADAPTIVE
        # until a barrier, sites may disagree on which coefficients are claimed to be zero
        self.is_evaluated |= session.rule.l1_ratio > 0.0
        flat, start = Flat.of(session), Flat.of(session).start(session)
        single = session.vector.w.dtype == np.float32 and not flat.average
        self.shares_trace = len(session.arrays["snapshots"]) > 0
        share, clocks = session.arrays["order"].shape[1] / n_rows, Clocks(session)
        self.site = Site(session, self.channel, clocks, start, pace, share, single, network)
        self.channel.on(STOP_NOW, self._stop)

    @property
    def nap(self) -> float:
        """The seconds until the site's next offer is due; see `Level`."""
        return self.site.nap

    def poll(self) -> bool:
        """Do all pending work; return whether there was any."""
        return self.channel.poll() | self.site.poll()

    def prepare(self) -> None:
        """Load or compile the kernels of messages."""
        super().prepare()
        self.site.prepare()

    def begin(self, is_heard: bool) -> None:
        """Agree on the objective's curvature, and begin with the same vector on all sites."""
        arrays, site = self.session.arrays, self.site
        curved = [arrays[name] for name in ("curvature", "rarity")]
        own = [float(self.is_evaluated or is_heard), float(site.has_own)]
        # in one collective call: each call costs as much as a hundred thousand rows
        found = self.pool.added(
            np.concatenate([own, *(site.share * one.astype(np.float64) for one in curved)])
        )
        self.is_evaluated = bool(found[0])
        curved[0][:] = found[2 : 2 + len(curved[0])]
        curved[1][:] = found[2 + len(curved[0]) :]
        if found[1]:
            site.offer(is_whole=True)
            self.channel.gathered(np.zeros(0))  # after this call all offers have come
            site.take_in()
            site.adopt()
        # after deaths, any rank may become the first rank
        is_first = self.pool.me == 0 or self.pool.living is not None
        if is_first and self.session.plan.record_every < self.session.plan.n_blocks:
            self.session.whole = self.site.known
        self.site.go_on()

    def end(self) -> None:
        """End the run on all sites, with one model."""
        stop = self.session.word(layout.STOP)
        if stop not in ORDINARY:  # the other sites must stop now
            for to in self.channel.others:
                self.channel.post(to, STOP_NOW, [np.array([stop])])
        super().end()
        if self.shares_trace:
            self._share_trace()

    def common(self) -> AbstractContextManager[None]:
        """Set the session's model to the common one within a block; see `Level`."""
        return self.site.common()

    def has_finite(self) -> bool:
        """Whether all numbers of the common vector are finite; see `Level`."""
        return bool(np.isfinite(self.site.account.base).all())

    def arrive(self) -> None:
        """Offer the remaining changes; see `Level`."""
        self.site.is_at_work = False
        self.site.offer()

    def bring(self, clock: int) -> Model:
        """Return the common model, with the same bits on all sites if evaluated; see `Level`."""
        self.site.take_in()
        self.session.local_table[:, layout.T_CLOCK] = clock  # all workers continue from it
        if self.is_evaluated or self.are_over.any():
            self.site.adopt()
        return self.site.known()

    def go_on(self) -> None:
        """Leave an epoch barrier; see `Level`."""
        self.site.go_on()

    def clear(self) -> None:
        """Set the session's vector to the common one; see `Level`."""
        self.site.put_known()

    def bury(self, site: int) -> None:
        """Continue without a dead site, and recompute shares of the rows; see `Level`."""
        rows, me = self.pool.training, self.pool.me
        self.site.bury(site, float(rows[me] / rows[[me, *self.channel.others]].sum()))

    def _meet(self, between: Between, is_last: bool) -> Decision:
        decision = super()._meet(between, is_last)
        if is_last and not self.are_over.all():
            self.site.go_on(works=False)  # other sites continue, and offer
        return decision

    def _stop(self, sender: int, content: np.ndarray) -> None:
        if self.session.word(layout.STOP) in ORDINARY:
            self.session.stop(int(content.view(np.int64)[0]))

    def _share_trace(self) -> None:
        """Copy rank 0's snapshots to all sites, because other sites count their own blocks."""
        arrays: Any = self.session.arrays
        self.session.whole = None
        own = pickle.dumps([arrays[name] for name in SNAPSHOTS])
        found = pickle.loads(self.pool.spread(own))
        arrays.update(zip(SNAPSHOTS, found, strict=True))
