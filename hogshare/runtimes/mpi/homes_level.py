"""Sites whose workers have homes: mail between them, and an epoch barrier after each epoch.

    while they work     mail of the plane's edges, and the workers' progress (`site_news`)
    at an epoch's end   words  ->  vectors  ->  callers  ->  one decision (`level`)

Every site has the whole arrays of the plane; a worker writes its own rows, at its own site. When
all workers pause, all sites get the homes and the rows that the plane's `owners` name. So the model
and its evaluations have the same bits on all sites. Vectors are sent at the last epoch barrier,
and at each epoch barrier at which a trace, `on_epoch` or a criterion evaluates the model. At the
end, readers take all unread mail. After that, no message is under way.

If a site dies, its workers are marked as dead at once, and workers of other sites stop waiting for
them. At an epoch barrier all sites must make the same model, so all workers whose site was not in
the barrier count as dead. After a death, a plane may move edges to readers at any site. The news
that follow the mail announce the new readers.

Writers: each rank's thread that communicates with other ranks. While workers work, it writes the
data that `mail` and `site_news` describe. At an epoch barrier, when all workers pause or have
ended, it writes the other sites' homes, and the rows of their workers in the plane's arrays and in
the table. Readers: local workers and the plane. Order: the channel's order. Freeing: `close`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hogshare.engine.homes import Homes
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.links.link import Link
from hogshare.links.run_links import Network
from hogshare.planes.protocol import owners_of
from hogshare.runtimes.mpi.clocks import Clocks
from hogshare.runtimes.mpi.level import Level, Model
from hogshare.runtimes.mpi.mail import MailTransport
from hogshare.runtimes.mpi.rank_pool import RankPool
from hogshare.runtimes.mpi.site_news import Owned, SiteNews

HOMES, TABLE = " homes", " table"  # a plane's arrays never have these names


class HomesLevel(Level):
    """The level of sites whose workers have homes of one plane.

    network : emulated links between sites, if the plane has no links
    """

    def __init__(self, pool: RankPool, session: Session, n_rows: int, network: Network) -> None:
        super().__init__(pool, session, n_rows)
        self.is_evaluated = self.has_criterion or len(session.arrays["snapshots"]) > 0
        assert session.homes is not None
        self.homes, plane = session.homes, session.homes.plane
        self._site_of = session.settings.world.site_of
        self._owned = _owned(self.homes, self._site_of)
        self._checkpointed = [
            _rows_of(self.homes.arrays[name], owners, self._site_of)
            for name, owners in plane.checkpointed_owners(self.homes.n_workers).items()
        ]
        ends = [(int(self._site_of[a]), int(self._site_of[b])) for a, b in self.homes.edges]
        links: Sequence[Link | None] = self.homes.links or [
            None if sender == to else network.between(sender, to) for sender, to in ends
        ]
        box, are_registers = session.mail.box, plane.uses_registers
        may_lose = pool.living is not None
        reader = self._site_of_reader if may_lose else None
        self.mail = MailTransport(
            self.channel, box, ends, links, plane.kind_of, are_registers, reader
        )
        self.homes.carry_by(self.mail, [k for k, (a, b) in enumerate(ends) if may_lose or a != b])
        seen = [self._owned[name] for name in plane.seen]
        senders = np.array([a for a, _ in self.homes.edges], np.int64)
        for name in plane.moved if may_lose and len(senders) else ():
            seen.append(_rows_of(self.homes.arrays[name], senders, self._site_of))
        self._n_lost = 0  # dead sites that all survivors have accounted for in the plane's arrays
        self._meets = False  # whether sites are at an epoch barrier, or have ended
        self.progress = SiteNews(self.channel, Clocks(session), seen, self.mail)
        self.channel.work = self.progress.poll

    def begin(self, is_heard: bool) -> None:
        """Agree on whether any site evaluates the model during the run."""
        wished = np.array([self.is_evaluated or is_heard])
        self.is_evaluated = bool(self.channel.gathered(wished).any())

    def bury(self, site: int) -> None:
        """Stop waiting for a dead site; see `Level`."""
        self.mail.bury(site)
        self.progress.bury(site)
        if not self._meets:
            self.progress.clocks.bury(site)

    def _site_of_reader(self, edge: int) -> int:
        return int(self._site_of[self.homes.ends(edge)[1]])

    # -- an epoch barrier

    def arrive(self) -> None:
        """Note that no local worker works, or waits for dead workers; see `Level`."""
        self._meets = True

    def has_finite(self) -> bool:
        """Whether all numbers of local homes are finite; see `Level`."""
        return all(np.isfinite(self.homes.vector_of(k)).all() for k in self.homes.local_workers)

    def bring(self, clock: int) -> Model | None:
        """Exchange all homes, and the arrays' rows that the model needs; see `Level`."""
        homes = self.homes
        homes.table[:, layout.T_CLOCK] = clock  # all workers continue from it
        if are_all_last := bool(self.are_over.all()):
            homes.finish()
        if not (are_all_last or self.is_evaluated or len(self.pool.lost) > self._n_lost):
            return None
        assert homes.brought is not None
        homes.brought[list(homes.local_workers)] = [homes.vector_of(k) for k in homes.local_workers]
        self._bring_rows(list(self._owned.values()))
        if self.pool.lost:
            # a plane may need these rows to continue without the dead
            self._bring_rows(self._checkpointed)
            if len(self.pool.lost) > self._n_lost:
                self._n_lost = len(self.pool.lost)
                homes.plane.agree(homes.arrays, homes.table[:, layout.T_STATE] == layout.DEAD)
        return homes.model()  # computed before any site may continue and send news

    def bring_checkpointed(self) -> None:
        """Exchange the remaining arrays that a checkpoint needs; all sites must call it."""
        if self._checkpointed:
            self._bring_rows(self._checkpointed)

    def _bring_rows(self, brought: Sequence[Owned]) -> None:
        me = self.pool.me
        own = b"".join(array[rows[me]].tobytes() for array, rows in brought)
        parts = self.channel.gathered_by_site(np.frombuffer(own, np.uint8))
        for k, part in parts.items():
            at = 0
            for array, rows in brought if k != me else ():
                shape = (len(rows[k]), *array.shape[1:])
                size = array[:1].nbytes * len(rows[k])
                array[rows[k]] = part[at : at + size].view(array.dtype).reshape(shape)
                at += size
        for site in self.pool.lost:
            self.progress.clocks.bury(site)

    def store_trace(self, n_epochs: int, model: Model) -> None:
        """Store the epoch's snapshot, and how much the homes disagree; see `Level`."""
        super().store_trace(n_epochs, model)
        spreads = self.session.arrays["snapshot_spreads"]
        if 0 < n_epochs <= len(spreads):  # one for each epoch
            spreads[n_epochs - 1] = self.homes.disagreement()

    def go_on(self) -> None:
        """Leave an epoch barrier; see `Level`."""
        self._meets = False
        for site in range(self.pool.size):
            if site != self.pool.me and site not in self.channel.others:
                self.progress.clocks.bury(site)
        self.progress.meet(self.are_over)

    def end(self) -> None:
        """End the run, and defer no more news of a later epoch; see `Level`."""
        self.progress.is_over = True
        super().end()

    def clear(self) -> None:
        """Take all unread mail."""
        if self.saves:
            self.bring_checkpointed()
        self.mail.is_over = True  # no worker waits for registers
        self.channel.gathered(np.zeros(0))  # then all sites know, and all posted mail has come
        for k in () if self.mail.are_registers else self.mail.incoming:
            while self.homes.boxes[k].has_mail:
                self.homes.boxes[k].take()
        self.mail.poll()


def _owned(homes: Homes, site_of: np.ndarray) -> dict[str, Owned]:
    """Return the arrays that all sites get, by name, with the rows that each site writes."""
    assert homes.brought is not None
    of_workers = {HOMES: homes.brought, TABLE: homes.table}
    arrays = {**homes.arrays, **of_workers}
    owners = owners_of(homes.plane, homes.n_workers, homes.arrays)
    owners |= dict.fromkeys(of_workers, np.arange(homes.n_workers))
    return {name: _rows_of(arrays[name], of, site_of) for name, of in owners.items()}


def _rows_of(array: np.ndarray, owners: np.ndarray, site_of: np.ndarray) -> Owned:
    sites = range(int(site_of.max()) + 1)
    return array, [np.flatnonzero(site_of[owners] == k) for k in sites]
