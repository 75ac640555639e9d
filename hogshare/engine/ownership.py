"""Who writes which rows of a run's arrays, and when the other sites of a run have to see them.

A site is a process with a memory of its own; one machine is one site. The table `OWNED` has every
array of a run (`hogshare.engine.arrays.shapes`). In a run in step
(`hogshare.kernels.schedule.ordered_rounds`) all that workers write in their sections is written on
every site alike, so that only what a block computes has to be brought: `BlockDelivery` is what one
worker's block has come to, as bytes. Both sites have the same numbers before the block, and what is
sent is what differs then, number by number and bit by bit.

Who writes: whoever computes a block, its worker's rows; who brings it to another site, the same
rows there, before the worker counts as ready. Who reads: as `hogshare.kernels.shared_arrays`. Who
frees: nobody; the rows are views of the session's arrays.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.mail.edge_slots import next_slot
from hogshare.kernels.schedule import epoch_schedule
from hogshare.kernels.schedule.shares import span_of


class By(Enum):
    """Who writes an array's rows."""

    NOBODY = "nobody, once the run has begun"
    ALL = "any worker, in an order or by atomic words"
    WORKER = "row k worker k"
    ROW = "a row's numbers whoever has claimed its block"
    EDGE = "an edge's slots the worker that it begins at"


class Seen(Enum):
    """When other sites have to see what is written."""

    AT_ONCE = "at once"
    AT_A_BLOCK = "when the block that has come to it is over"
    AT_PAUSE = "when all rest"
    NEVER = "never"


class Ownership(NamedTuple):
    """An array's owners, and their readers far away."""

    by: By
    seen: Seen


CONSTANT = Ownership(By.NOBODY, Seen.NEVER)
TOGETHER = Ownership(By.ALL, Seen.AT_ONCE)
OF_BLOCKS = Ownership(By.WORKER, Seen.AT_A_BLOCK)
IN_SECTIONS = Ownership(By.WORKER, Seen.AT_PAUSE)  # written where blocks are folded, not computed
OF_ROWS = Ownership(By.ROW, Seen.AT_A_BLOCK)
MAIL = Ownership(By.EDGE, Seen.AT_A_BLOCK)
MADE = Ownership(By.ALL, Seen.AT_PAUSE)  # of what others see sooner
SCRATCH = Ownership(By.WORKER, Seen.NEVER)

OWNED = {
    **dict.fromkeys(
        (
            *("row_data", "row_indices", "row_indptr", "row_y", "row_weight"),
            *("curvature", "intercept_curvature", "rarity", "divisors", "chances", "held_out"),
            *("average_coef", "average_intercept"),
        ),
        CONSTANT,
    ),
    **dict.fromkeys(
        (
            *("w", "intercept", "vectors", "vector_intercepts", "dual_mean", "average"),
            *("segments", "control", "returned", "columns", "done", "remaining", "sums"),
        ),
        TOGETHER,
    ),
    "table": Ownership(By.WORKER, Seen.AT_ONCE),
    **dict.fromkeys(
        ("copy", "received", "lag", "local", "average_copy", "parts", "rule_*"), OF_BLOCKS
    ),
    **dict.fromkeys(("base", "average_base", "pending", "staleness", "quanta"), IN_SECTIONS),
    **dict.fromkeys(("dual", "gradients"), OF_ROWS),
    **dict.fromkeys(("mail_counters", "mail_heads", "mail_places", "mail_values"), MAIL),
    **dict.fromkeys(
        (
            *("order", "permutation", "units", "history", "recording", "ages", "gathered"),
            *("gathered_places", "gathered_marks", "gathered_intercepts", "journal"),
            *("snapshots", "snapshot_intercepts", "snapshot_times", "snapshot_blocks"),
            *("snapshot_spreads", "plane_*"),
        ),
        MADE,
    ),
    # a team is on one site
    **dict.fromkeys(
        ("scratch", "team_words", "team_ends", "team_rows", "team_values"),
        SCRATCH,
    ),
    "team_before": Ownership(By.ALL, Seen.NEVER),
}

# of a worker's row in the table, what computing a block writes
COMPUTED = (
    layout.T_ROWS,
    layout.T_UNEXCHANGED,
    layout.T_PART,
    layout.T_STOPS,
)
# and what each site measures by itself, which is the worker's own on its own site
MEASURED = (
    layout.T_HEARTBEAT,
    layout.T_WAITING,
    layout.T_BUSY,
    layout.T_PLANE_WAITS,
    layout.T_PLANE_WAIT_NS,
    layout.T_PROCESS,
)
WHOLE = -1  # in place of a count: all numbers are sent, without their places
PLACE = np.dtype(np.int32)


def owned(name: str) -> Ownership:
    """What is known of an array by its name.

    Raises KeyError: if the table does not have it.

    Examples
    --------
    >>> from hogshare.engine.ownership import owned
    >>> owned("rule_velocity").by.value, owned("scratch").seen.value
    ('row k worker k', 'never')
    """
    if name in OWNED:
        return OWNED[name]
    prefix, _, rest = name.partition("_")
    return OWNED[f"{prefix}_*" if rest else name]


def as_numbers(row: np.ndarray) -> np.ndarray:
    """A worker's row as whole numbers of the same bits: a view.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare.engine.ownership import as_numbers
    >>> as_numbers(np.array([0.0, -0.0, 1.0], np.float32)).dtype.name
    'uint32'
    """
    flat = row.reshape(-1)
    return flat.view({4: np.uint32, 8: np.uint64}.get(flat.itemsize, np.uint8))


class BlockDelivery:
    """What a worker's block has come to, on its way from its site to the others.

    session : of one of the sites; each of them has all workers
    me : the worker
    """

    def __init__(self, session: Session, me: int) -> None:
        self.session, self.me = session, me
        arrays, plan = session.arrays, session.plan
        self.row = session.schedule.table[me]
        is_mailed = plan.private == epoch_schedule.MASTER
        self.words = list(COMPUTED)
        if plan.private == epoch_schedule.LOCK_FREE:
            self.words.append(layout.T_VERSION)
        self.rows = [
            as_numbers(arrays[name][me : me + 1])
            for name in sorted(arrays)
            if owned(name) == OF_BLOCKS
            and arrays[name].size
            and len(arrays[name]) == session.settings.n_workers
            # every site reads the master's snapshot, and of what becomes of it the message tells
            and not (is_mailed and name == "copy")
            # of a mini-batch that is split there is one state, and whoever steps has all parts
            and not (plan.split and name.startswith("rule_"))
        ]
        n_rows = len(session.rows.y)
        self.remembered = [
            arrays[name].reshape(n_rows, -1) for name in ("dual", "gradients") if arrays[name].size
        ]
        self.box = session.mail.box if is_mailed else None
        self._before: list[np.ndarray] = []

    def begin(self) -> None:
        """Note the numbers that all sites have before the block."""
        self._before = self._before or [np.empty_like(row) for row in self.rows]
        for before, row in zip(self._before, self.rows, strict=True):
            before[:] = row

    def pack(self) -> list[np.ndarray]:
        """What the block has changed since: arrays one after the other."""
        found = [self.row[[layout.T_BLOCK, *self.words]]]
        for before, row in zip(self._before, self.rows, strict=True):
            places = np.flatnonzero(before != row)
            if len(places) * (PLACE.itemsize + row.itemsize) < row.nbytes:
                found += [np.array([len(places)]), places.astype(PLACE), row[places]]
            else:
                found += [np.array([WHOLE]), row.copy()]
        if self.remembered:
            rows = self._rows_in_hand()
            found += [entries[rows] for entries in self.remembered]
        if self.box is not None:
            slot, capacity = next_slot(self.box, self.me), self.box.places.shape[2]
            head = self.box.heads[self.me, slot]
            values = self.box.values[self.me, slot]
            count = int(head[layout.H_COUNT])
            found += [head.copy(), self.box.places[self.me, slot, :count].copy()]
            found += [values[:count].copy(), values[capacity:].copy()]
        return found

    def unpack(self, content: np.ndarray) -> None:
        """Have the same here.

        content : what was packed, as bytes end to end

        Raises RuntimeError if it is another block than the worker has here.
        """
        parts = PackedArrays(content)
        ticket, *words = parts.take(np.int64, 1 + len(self.words)).tolist()
        if ticket != self.row[layout.T_BLOCK]:
            raise RuntimeError(
                f"Worker {self.me} has computed block {ticket} on its rank, and has block "
                f"{self.row[layout.T_BLOCK]} on another: the ranks are not in step. Code of your "
                "own (a plane, a rule, a callback) has to do the same on all ranks; if there is "
                "none this is an error of hogshare: please report it with the call."
            )
        self.row[self.words] = words
        for row in self.rows:
            count = int(parts.take(np.int64, 1)[0])
            if count == WHOLE:
                row[:] = parts.take(row.dtype, len(row))
            else:
                places = parts.take(PLACE, count)
                row[places] = parts.take(row.dtype, count)
        if self.remembered:
            rows = self._rows_in_hand()
            for entries in self.remembered:
                shape = (len(rows), entries.shape[1])
                entries[rows] = parts.take(entries.dtype, shape[0] * shape[1]).reshape(shape)
        if self.box is not None:
            slot, capacity = next_slot(self.box, self.me), self.box.places.shape[2]
            head = self.box.heads[self.me, slot]
            values = self.box.values[self.me, slot]
            head[:] = parts.take(np.int64, len(head))
            count = int(head[layout.H_COUNT])
            self.box.places[self.me, slot, :count] = parts.take(np.int64, count)
            values[:count] = parts.take(np.float64, count)
            values[capacity:] = parts.take(np.float64, len(values) - capacity)

    def _rows_in_hand(self) -> np.ndarray:
        plan, ticket = self.session.plan, int(self.row[layout.T_BLOCK])
        order = self.session.schedule.order[ticket // plan.n_blocks % 2]
        cut = plan.n_blocks, plan.block_rows, plan.shares, plan.split
        first, end, _ = span_of(ticket % plan.n_blocks, len(order), *cut)
        return order[first:end]


class PackedArrays:
    """Arrays that stand end to end in bytes, as they are taken out."""

    def __init__(self, content: np.ndarray) -> None:
        self._content, self._at = content, 0

    def take(self, kind: np.dtype | type, count: int) -> np.ndarray:
        """The next `count` numbers; a copy, for bytes may stand anywhere."""
        dtype = np.dtype(kind)
        begin, self._at = self._at, self._at + count * dtype.itemsize
        return np.frombuffer(self._content[begin : self._at].tobytes(), dtype)
