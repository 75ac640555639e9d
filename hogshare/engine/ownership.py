"""Ownership of a run's arrays: which workers write which rows, and when other sites see them.

A site is a process with its own memory; one machine is one site. The table `OWNED` lists every
array of a run (`hogshare.engine.arrays.shapes`). In a run in step
(`hogshare.kernels.schedule.ordered_rounds`), every site repeats the writes of the workers'
sections. Therefore only the results of blocks have to be sent. A `BlockDelivery` has the result of
one worker's block as bytes. Before the block, the arrays of all sites have the same values. The
delivery contains the values whose bits the block has changed.

Writers: the worker that computes a block writes its own rows. At another site, the delivery writes
the same rows before the worker counts as ready. Readers: see `hogshare.kernels.shared_arrays`.
Nothing is freed, because the rows are views of the session's arrays.
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
    """The writers of an array's rows."""

    NOBODY = "no writer, once the run has begun"
    ALL = "any worker, in an order or by atomic words"
    WORKER = "row k worker k"
    ROW = "a row's numbers: the worker that has claimed its block"
    EDGE = "an edge's slots: the worker that it begins at"


class Seen(Enum):
    """The time by which other sites must see a write."""

    AT_ONCE = "at once"
    AT_A_BLOCK = "when the block that wrote it is over"
    AT_PAUSE = "when all workers are paused"
    NEVER = "never"


class Ownership(NamedTuple):
    """An array's writers, and when its remote readers must see the writes."""

    by: By
    seen: Seen


CONSTANT = Ownership(By.NOBODY, Seen.NEVER)
TOGETHER = Ownership(By.ALL, Seen.AT_ONCE)
OF_BLOCKS = Ownership(By.WORKER, Seen.AT_A_BLOCK)
IN_SECTIONS = Ownership(By.WORKER, Seen.AT_PAUSE)  # written when blocks are folded, not computed
OF_ROWS = Ownership(By.ROW, Seen.AT_A_BLOCK)
MAIL = Ownership(By.EDGE, Seen.AT_A_BLOCK)
MADE = Ownership(By.ALL, Seen.AT_PAUSE)  # computed from arrays that other sites see sooner
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

# the words of a worker's table row that the computation of a block writes
COMPUTED = (
    layout.T_ROWS,
    layout.T_UNEXCHANGED,
    layout.T_PART,
    layout.T_STOPS,
)
# the words that each site measures itself; at a worker's own site, the worker measures them
MEASURED = (
    layout.T_HEARTBEAT,
    layout.T_WAITING,
    layout.T_BUSY,
    layout.T_PLANE_WAITS,
    layout.T_PLANE_WAIT_NS,
    layout.T_PROCESS,
)
WHOLE = -1  # sent in place of a count: all numbers follow, without their places
PLACE = np.dtype(np.int32)


def owned(name: str) -> Ownership:
    """Return the ownership of the array `name`.

    Raises KeyError if the table `OWNED` does not have the array.

    Examples
    --------
    >>> from hogshare.engine.ownership import owned
    >>> owned("rule_velocity").by.value, owned("scratch").seen.value
    ('row k worker k', 'never')
    """
    if name in OWNED:
        return OWNED[name]
    prefix, _, suffix = name.partition("_")
    return OWNED[f"{prefix}_*" if suffix else name]


def as_numbers(row: np.ndarray) -> np.ndarray:
    """View a worker's row as unsigned integers with the same bits.

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
    """The result of a worker's block, on its way from the worker's site to the other sites.

    session : the session of this site; each site's session has all workers
    me : the number of the worker
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
            # every site reads the master's snapshot, and the message contains the copy's change
            and not (is_mailed and name == "copy")
            # a split mini-batch has one state, and the worker that takes the step has all parts
            and not (plan.split and name.startswith("rule_"))
        ]
        n_rows = len(session.rows.y)
        self.remembered = [
            arrays[name].reshape(n_rows, -1) for name in ("dual", "gradients") if arrays[name].size
        ]
        self.box = session.mail.box if is_mailed else None
        self._before: list[np.ndarray] = []

    def begin(self) -> None:
        """Copy the values that all sites have before the block."""
        self._before = self._before or [np.empty_like(row) for row in self.rows]
        for before, row in zip(self._before, self.rows, strict=True):
            before[:] = row

    def pack(self) -> list[np.ndarray]:
        """Return the block's changes since `begin`: arrays in the order in which they are sent."""
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
        """Write a block's changes into this site's arrays.

        content : the arrays of `pack` as bytes, one after another

        Raises RuntimeError if the worker has claimed another block at this site.
        """
        parts = PackedArrays(content)
        ticket, *words = parts.take(np.int64, 1 + len(self.words)).tolist()
        if ticket != self.row[layout.T_BLOCK]:
            raise RuntimeError(
                f"Worker {self.me} has computed block {ticket} on its rank, and has block "
                f"{self.row[layout.T_BLOCK]} on another: the ranks are not in step. Code of your "
                "own (a plane, a rule, a callback) has to do the same on all ranks; without any, "
                "this is an error of hogshare: please report it with the call."
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
    """Reader of arrays that are stored end to end as bytes."""

    def __init__(self, content: np.ndarray) -> None:
        self._content, self._at = content, 0

    def take(self, kind: np.dtype | type, count: int) -> np.ndarray:
        """Return a copy of the next `count` values; a view might not be aligned."""
        dtype = np.dtype(kind)
        begin, self._at = self._at, self._at + count * dtype.itemsize
        return np.frombuffer(self._content[begin : self._at].tobytes(), dtype)
