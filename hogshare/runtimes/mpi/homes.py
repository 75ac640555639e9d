"""Machines whose workers have homes: mail between them, and a meeting when an epoch is over.

    while they work     mail of the plane's edges, and who is how far (`progress`)
    at an epoch's end   words (epochs, stop words, sums)  ->  vectors  ->  callers  ->  one decision

Every machine has the plane's arrays whole, and its own workers write their rows. When all rest,
the rows that the plane's `owners` name, and the homes, are brought to all; so the model is the same
bits everywhere, and so is what is made of it. Vectors are brought in the last meeting, and in
others where somebody looks at the model: a trace, `on_epoch`, a criterion.

Who has stopped in the middle of an epoch comes to the same meetings as those who rest, until all
have ended. Then mail that nobody has read is taken, so that nothing is under way.

Who writes: the thread of each rank that talks to the others. While workers work, what `wire` and
`progress` say; in a meeting, when all rest or have ended, the other machines' rows of the plane's
arrays and of the table, and their homes. Who frees: `close`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hogshare.engine.homes import Homes
from hogshare.engine.session import Session
from hogshare.kernels import layout, mailbox, tracking
from hogshare.links.network import Network
from hogshare.planes.protocol import owners_of
from hogshare.runtimes.mpi.assembly import Assembly, Pool
from hogshare.runtimes.mpi.beats import Beats
from hogshare.runtimes.mpi.boards import BoardsWire
from hogshare.runtimes.mpi.channel import EdgeTraffic
from hogshare.runtimes.mpi.clocks import Clocks
from hogshare.runtimes.mpi.level import (
    Between,
    GoOn,
    Level,
    give_back,
    keep_snapshot,
    note_decision,
    note_end,
    pool_iterates,
)
from hogshare.runtimes.mpi.progress import Owned, Progress
from hogshare.runtimes.mpi.verdict import Verdict
from hogshare.runtimes.mpi.wire import Wire
from hogshare.runtimes.mpi.words import ORDINARY, Decision

EPOCHS, IS_LAST, STOP, IS_FINITE, CLOCK, FIRST_SUM = range(6)  # of a machine's words in a meeting
HOMES, TABLE = " homes", " table"  # names that no array of a plane has


class HomesLevel(Level):
    """The level of machines whose workers have homes of one plane.

    pool : one rank for each machine
    n_rows : rows that all machines train on
    network : links between machines besides the real ones, where the plane says nothing of links
    """

    def __init__(
        self,
        pool: Pool,
        session: Session,
        n_rows: int,
        network: Network,
    ) -> None:
        assert session.homes is not None
        self.session, self.pool, self.homes = session, pool, session.homes
        self.deliver: Callable[[], None] = lambda: None
        self.is_over = False
        self._are_over = np.zeros(pool.size, bool)  # sites that have ended
        self.verdict = Verdict(session, session.plan, n_rows)
        # by itself a machine meets no criterion; whether all do is decided in the meetings
        session.plan = session.plan._replace(tol=-np.inf, early_stopping=0)
        self.is_looked_at = (
            len(session.arrays["snapshots"]) > 0 or session.rule.track == tracking.CRITERION
        )
        self.machine_of = session.settings.world.site_of
        self.traffic = EdgeTraffic()
        self._comms = [pool.copy_of_comm() for _ in range(4)]
        self._owned = _owned(self.homes, self.machine_of)
        kept = self.homes.plane.kept_owners(self.homes.n_workers)
        self._kept = [
            _rows_of(self.homes.arrays[name], owners, self.machine_of)
            for name, owners in kept.items()
        ]
        ends = self.homes.edges
        where = [(int(self.machine_of[a]), int(self.machine_of[b])) for a, b in ends]
        of_wire = self.traffic, "float64", network, self.homes.links
        kind = BoardsWire if self.homes.plane.uses_boards else Wire
        self.wire = kind(self._comms[0], session.mail.box, where, "mail", *of_wire)
        self.homes.carry_by(self.wire, [k for k, (a, b) in enumerate(where) if a != b])
        seen = [self._owned[name] for name in self.homes.plane.seen]
        self.clocks = Clocks(session)
        of_progress = self.homes, self.clocks, seen, self.wire, self.traffic
        self.progress = Progress(self._comms[1], *of_progress)
        self.beats = Beats(self._comms[2], [k for k in range(pool.size) if k != pool.me])
        self.assembly = Assembly(self._comms[3], self.wait, self.traffic)
        self._from_here = [k for k, (a, _) in enumerate(where) if a == pool.me]
        self._from_elsewhere = [k for k, (a, b) in enumerate(where) if a != b == pool.me]

    def poll(self) -> bool:
        """Do whatever there is to do; whether anything was."""
        self.beats.poll()
        return self.wire.poll() | self.progress.poll()

    def prepare(self) -> None:
        """Load or compile the kernel of decisions."""
        self.verdict.prepare()

    def begin(self, is_heard: bool) -> None:
        """Agree on whether anybody looks at the model on the way."""
        wished = np.array([self.is_looked_at or is_heard])
        self.is_looked_at = bool(self.assembly.gathered(wished).any())

    def rest(self, between: Between, before_all_go_on: GoOn) -> Decision:
        """Meet all others, while the workers rest."""
        decision, _ = self._meet(between, is_last=False)
        if decision.stop == layout.RUNNING:
            before_all_go_on()
        self.progress.meet(self._are_over)
        return decision

    def end(self) -> None:
        """Meet until all have ended; then take what nobody has read."""
        are_all_last = False
        while not are_all_last:
            decision, are_all_last = self._meet(lambda *_: layout.RUNNING, is_last=True)
        if self.saves:
            self.bring_kept()
        self._clear()
        self.progress.finish(self.assembly)
        self.wait(self.beats.have_parted)
        note_end(self.session, decision)
        pool_iterates(self.session, self.pool)
        self.is_over = True

    def close(self) -> None:
        """Give everything back; nobody sends anything more."""
        self.beats.close()
        self.assembly.close()
        self.progress.close()
        self.wire.close()
        give_back(self._comms, self.is_over)

    # -- a meeting

    def _meet(self, between: Between, is_last: bool) -> tuple[Decision, bool]:
        """Come to one model and one decision; and whether all have ended."""
        session, stop = self.session, self.session.word(layout.STOP)
        found = self.assembly.gathered(self._words(is_last, stop))
        epochs, stops = found[:, EPOCHS].astype(int), found[:, STOP].astype(int)
        self._are_over = found[:, IS_LAST] > 0.0
        are_all_last, n_epochs = bool(self._are_over.all()), int(epochs.min())
        self.homes.table[:, layout.T_CLOCK] = found[:, CLOCK].max()  # where all go on from
        if are_all_last:
            self.homes.finish()
        is_new = bool((epochs == n_epochs).all()) and n_epochs > self.verdict.epochs
        w = np.zeros(session.size)
        if are_all_last or self.is_looked_at:
            self._bring()
            model = self.homes.model()  # before anybody may go on, and tell of it
            w[:] = model[0]
            if is_new:
                self._keep_snapshot(n_epochs, *model)
                if self.score is not None:
                    self.verdict.score[:] = self.score()
        if is_new:
            word = between(n_epochs, not found[:, IS_LAST].any())
            stop = stop if word == layout.RUNNING else word
        said = self.assembly.gathered(np.array([stop]))[:, 0].astype(int).tolist()
        reason = next((one for one in (*stops, *said) if one not in ORDINARY), layout.RUNNING)
        if is_new:
            is_finite = bool(found[:, IS_FINITE].all())
            judged = self.verdict.of(n_epochs, found[:, FIRST_SUM:].sum(axis=0), w, is_finite)
            reason = judged if reason == layout.RUNNING else reason
        if are_all_last and reason == layout.RUNNING:
            reason = layout.STOPPED_BY_LIMIT
        decision = Decision(int(reason), n_epochs, self.verdict.loss, self.verdict.columns)
        note_decision(session, decision)
        return decision, are_all_last

    def _words(self, is_last: bool, stop: int) -> np.ndarray:
        session, n_epochs = self.session, self.session.word(layout.EPOCHS)
        homes = (self.homes.vector_of(k) for k in self.homes.here)
        is_finite = all(np.isfinite(home).all() for home in homes)
        sums = session.arrays["sums"][(n_epochs - 1) % 2]
        clock = session.table_here[:, layout.T_CLOCK].max()
        return np.concatenate([[n_epochs, is_last, stop, is_finite, clock], sums])

    def _bring(self) -> None:
        """Have all homes, and all rows of the arrays that are read together, on every machine."""
        homes = self.homes
        assert homes.brought is not None
        homes.brought[list(homes.here)] = [homes.vector_of(k) for k in homes.here]
        self._bring_rows(list(self._owned.values()))

    def bring_kept(self) -> None:
        """Have what a checkpoint needs besides on every machine."""
        if self._kept:
            self._bring_rows(self._kept)

    def _bring_rows(self, brought: Sequence[Owned]) -> None:
        me = self.pool.me
        own = b"".join(array[rows[me]].tobytes() for array, rows in brought)
        counts = [
            sum(array[:1].nbytes * len(rows[k]) for array, rows in brought)
            for k in range(self.pool.size)
        ]
        parts = self.assembly.gathered_bytes(np.frombuffer(own, np.uint8), counts)
        for k, part in enumerate(parts):
            if k == me:
                continue
            at = 0
            for array, rows in brought:
                shape = (len(rows[k]), *array.shape[1:])
                size = array[:1].nbytes * len(rows[k])
                array[rows[k]] = part[at : at + size].view(array.dtype).reshape(shape)
                at += size

    def _keep_snapshot(self, n_epochs: int, w: np.ndarray, intercept: np.ndarray) -> None:
        keep_snapshot(self.session, n_epochs, w, intercept)
        spreads = self.session.arrays["snapshot_spreads"]
        if 0 < n_epochs <= len(spreads):  # one an epoch
            spreads[n_epochs - 1] = self.homes.disagreement()

    # -- the end

    def _clear(self) -> None:
        """Take all mail that nobody has read, and wait until nothing is under way anywhere."""
        if isinstance(self.wire, BoardsWire):  # nobody waits for what is shown
            self.wire.is_over = True
            self.assembly.gathered(np.zeros(1))  # so it is everywhere
            self.wait(lambda: self.wire.is_quiet)
            return
        box = self.session.mail.box
        own = np.zeros(len(self.homes.boxes))
        for k in self._from_here:
            own[k] = mailbox.counter_of(box, k, layout.M_POSTED)
        posted = self.assembly.gathered(own).sum(axis=0)

        def is_taken() -> bool:
            for k in self._from_elsewhere:
                edge = self.homes.boxes[k]
                while edge.has_mail:
                    edge.take()
            return all(self.homes.boxes[k].taken == posted[k] for k in self._from_elsewhere)

        self.wait(is_taken)
        self.wait(lambda: self.wire.is_quiet)
        self.assembly.gathered(np.zeros(1))  # so it is everywhere


def _owned(homes: Homes, machine_of: np.ndarray) -> dict[str, Owned]:
    """By name the arrays that are brought to all, with the rows that each machine writes."""
    assert homes.brought is not None
    of_workers = {HOMES: homes.brought, TABLE: homes.table}
    arrays = {**homes.arrays, **of_workers}
    owners = owners_of(homes.plane, homes.n_workers, homes.arrays)
    owners |= dict.fromkeys(of_workers, np.arange(homes.n_workers))
    return {name: _rows_of(arrays[name], of, machine_of) for name, of in owners.items()}


def _rows_of(array: np.ndarray, owners: np.ndarray, machine_of: np.ndarray) -> Owned:
    machines = range(int(machine_of.max()) + 1)
    return array, [np.flatnonzero(machine_of[owners] == k) for k in machines]
