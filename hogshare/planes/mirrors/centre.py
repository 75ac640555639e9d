"""One worker's part in its centre: add its change to the mirror, exchange with other centres.

    fold    add the worker's weighted change to the centre's mirror and to each edge's residual; if
            all workers of a centre write one vector directly, add the change of this vector
    take    add other centres' changes to the mirror, and to the residuals of those edges that
            forward the changes
    tick    when all workers of the centre have passed a clock, send along each edge the changes
            that pass the filter, with the clock; changes that exceed an edge's capacity stay in
            its residual
    wait    until the slowest centre is near enough, and the next block reads no blocked parameter

Any worker of the centre does all of this in `hogshare.kernels.exchange.centre_exchange`, while it
has the centre's lock. An edge between two centres thus has one writer and one reader at a time. The
functions of this file wait, call the user's functions, and pass messages to a transport, because
kernels cannot.

Writers: the worker that has the centre's lock writes (1) the centre's rows of `mirror`, `total`,
`staged`, `chosen` and `journal`, and its clock, (2) `residual`, `open`, `announced`, `notified`,
`wanted`, `ease` and `sent` of outgoing edges, and (3) `got`, `blocked` and `heard` of incoming
edges. A worker writes its own rows of `base`, `rounds`, `waits` and `holds`. While it has the lock,
it also writes its row of `outer`. Readers: the writers. Waiting workers also read the clocks.
Freeing: the session's owner frees the arrays.

If the owner of the lock has died, the next worker that wants the lock completes the owner's work
from the journal (`hogshare.kernels.exchange.centre_edges`). As on every plane, a dead worker's
block is lost if the block's change is not in the mirror yet.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hogshare.kernels.exchange import centre_edges, centre_exchange
from hogshare.planes.mirrors.centre_overlay import CentreOverlay
from hogshare.planes.mirrors.significance import Filter
from hogshare.planes.protocol import PlaneError
from hogshare.planes.wait_condition import Until
from hogshare.shm.mailbox import AT_ONCE, HEADER_BYTES, PLACE_BYTES

if TYPE_CHECKING:
    from hogshare.shm.mailbox import RegisterEdge

START_SECONDS = 5.0  # how long the first workers wait for the other workers of their centre
DUE_SLACK = 1e-4  # seconds after its due time at which a message is surely visible
NO_BOUND = 1 << 40  # clock difference that no centre reaches
FOLDS = {
    "sum": centre_edges.SUM,
    "weighted": centre_edges.WEIGHTED,
    "mean": centre_edges.MEAN,
    "momentum": centre_edges.MOMENTUM,
}


class CentreSettings(NamedTuple):
    """A plane's settings for one worker.

    groups : int64 of shape (n_workers,), the centre of each worker, or its part of a centre
    centre_of : the centre of each part
    overlay : the sending and the reading centre of each mailbox, and the edges that forward its
        messages
    fold : `centre_edges.SUM`, `WEIGHTED`, `MEAN` or `MOMENTUM`
    per : number of blocks of a worker in a clock
    filter : the filter that selects the changes to send
    clock_difference : number of clocks by which a centre may be ahead of the slowest one
    delay : seconds for which an edge may lack capacity; after this time, its reader must wait for
        the announced values
    queue : number of messages of an edge that may be under way; the last slot is for announcements
    ends_with : centres whose death ends the run
    """

    groups: np.ndarray
    centre_of: Sequence[int]
    overlay: CentreOverlay
    fold: int
    per: int
    filter: Filter
    clock_difference: float
    delay: float
    queue: int
    ends_with: list[int]


def map_of(settings: CentreSettings, centre: int) -> centre_exchange.Map:
    """Return a centre's map of workers, edges and other centres."""
    groups, overlay = settings.groups, settings.overlay
    n, sizes = int(groups.max()) + 1, np.bincount(groups)
    senders, readers = np.array(overlay.edges, np.int64).reshape(-1, 2).T.copy()
    out = np.flatnonzero(senders == centre)
    passes_on = np.zeros((len(senders), len(out)), np.uint8)
    for edge, ways in enumerate(overlay.passes_on):
        passes_on[edge] = np.isin(out, ways)
    others = [(sizes[c], *overlay.way(c, centre)) for c in range(n) if c != centre]
    into = np.flatnonzero(readers == centre)
    parts = np.asarray(settings.centre_of)
    return centre_exchange.Map(
        groups,
        senders,
        readers,
        out,
        into,
        passes_on,
        np.array(others, np.int64),
        int(np.flatnonzero(groups == centre)[0]),
        (parts[senders] == parts[readers]).astype(np.uint8),
        np.zeros(1),
        not overlay.hubs,
    )


class Centre:
    """Worker `me`'s part in the exchanges of its centre."""

    def __init__(self, home: Any, settings: CentreSettings) -> None:
        self.home, self.s, self.arrays, self.me = home, settings, home.arrays, home.me
        self.number = int(settings.groups[home.me])
        self.members = [
            np.flatnonzero(settings.groups == c) for c in range(int(settings.groups.max()) + 1)
        ]
        self.book = centre_edges.Book(*(self.arrays[name] for name in centre_edges.Book._fields))
        self.map = map_of(settings, self.number)
        self.terms = self._terms()
        self.live = home.live()
        self.weights = home.weights(settings.fold, float(settings.per * home.block_rows))
        limits = np.zeros(1 if self.terms.kind == centre_edges.GIVEN else len(self.terms.hard))
        self.scratch = limits, np.zeros(len(self.map.out), np.int64)
        self.at = np.zeros(centre_exchange.N_AT, np.int64)
        self.has_begun = False

    def _terms(self) -> centre_exchange.CentreTerms:
        s, home = self.s, self.home
        kind, hard, soft, falls = s.filter.numbers()
        adopts = centre_exchange.PYTHON if home.averages else centre_exchange.KERNEL
        return centre_exchange.CentreTerms(
            per=s.per,
            in_epoch=home.share[1],
            difference=int(min(s.clock_difference, NO_BOUND)),
            delay=float(s.delay),
            queue=s.queue,
            kind=kind,
            hard=hard,
            soft=soft,
            falls=falls,
            single=home.value_bytes == 4,
            header=HEADER_BYTES,
            place_bytes=PLACE_BYTES,
            at_once=all(box.transport is AT_ONCE for box in home.boxes),
            adopts=centre_exchange.NOT if home.is_direct else adopts,
        )

    # -- after a block

    def after_block(self) -> Generator[Until, bool, None]:
        """Fold, exchange, wait, and continue from the mirror."""
        if not self.has_begun:
            # wait for the other workers to start: blocks completed before that belong to no clock,
            # and all of their changes would be sent at once
            yield Until(self._all_have_started, START_SECONDS)
            self.has_begun = True
        self.at[centre_exchange.A_PHASE], self.at[centre_exchange.A_WHY] = (
            centre_exchange.FOLD,
            centre_exchange.GO_ON,
        )
        while (answer := self._go()) != centre_exchange.GO_ON:
            if answer <= centre_exchange.FOR_CAPACITY:
                yield from self._wait(answer)
                continue
            try:
                self._do(answer)
            except BaseException:
                centre_exchange.release(self.book, self.me, self.number)
                raise

    def _go(self) -> int:
        """Continue as far as kernels can; return the task that they cannot do."""
        if self.s.ends_with:
            self._end_with_a_centre()
        home = self.home
        where = self.book, self.map, self.terms, home.box, home.progress, self.live, self.weights
        more = self.scratch, self.at, self.me, home.opened, home.now(), home.spin_ns
        return int(centre_exchange.go(*where, *more))

    def _do(self, answer: int) -> None:
        """Do one task that kernels cannot do; the caller has taken the centre's lock."""
        home, at = self.home, self.at
        if answer == centre_exchange.ADOPT:
            home.adopt(self.book.mirror[self.number], self.book.base[self.me])
            return
        if answer == centre_exchange.READS:
            at[centre_exchange.A_WHY] = (
                centre_exchange.FOR_VALUES if self._reads_announced() else centre_exchange.GO_ON
            )
            return
        edge = int(self.map.out[at[centre_exchange.A_OUT]])
        if answer == centre_exchange.HAND_OVER:
            self._box(edge).send()
            return
        book, c = self.book, self.number
        t = max(1, int(book.before[c] + book.clock[c]))
        book.chosen[c] = self.s.filter.mask(
            book.residual[edge], book.mirror[c], t, float(book.ease[edge])
        )

    def _reads_announced(self) -> bool:
        """Whether the worker's next block reads an announced value that has not come yet."""
        reads, book = self.home.reads, self.book
        if reads is None:
            return True
        return any(book.n_blocked[e] and book.blocked[e, reads].any() for e in self.map.into)

    def _end_with_a_centre(self) -> None:
        """Raise PlaneError if all workers of a centre in `ends_with` have died."""
        dead = self.home.table.dead
        for c in self.s.ends_with:
            if dead[self.members[c]].all():
                name = self.s.centre_of[c]
                raise PlaneError(
                    f"Centre {name} has died, which ends the run: Mirrors(when_lost='end') is set, "
                    "or the centre is a hub between others (graph='all' has no hubs). Use resume= "
                    "to continue from the run's last checkpoint."
                )

    def _all_have_started(self) -> bool:
        """Whether every worker of the centre has started or is gone."""
        table, mates = self.home.table, self.members[self.number]
        return bool((table.in_run | table.gone)[mates].all())

    def has_news(self) -> bool:
        """Whether another pass of the kernels may make progress."""
        home = self.home
        where = self.book, self.map, self.terms, home.box, home.progress
        return bool(centre_exchange.has_news(*where, self.me, self.at, home.opened))

    def _wait(self, why: int) -> Generator[Until, bool, None]:
        began = self.home.now()
        while not (yield Until(self.has_news, self._next_due())):
            pass  # an emulated link has delivered, or another worker has taken what it delivered
        self.arrays["waits"][self.me, why] += self.home.now() - began
        self.arrays["holds"][self.me, why] += 1

    def _next_due(self) -> float | None:
        """Return the seconds until an emulated link's next delivery, or None without messages."""
        due = [left for e in self.map.into if (left := self._box(e).due_in) is not None]
        return min(due) + DUE_SLACK if due else None

    def _box(self, edge: int) -> RegisterEdge:
        box: RegisterEdge = self.home.boxes[edge]
        return box
