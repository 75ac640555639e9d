"""The home of one worker: its own vector, on planes that manage workers' vectors themselves.

Writers: the worker writes its own vector and its own local fields. For mail see
`hogshare.shm.mailbox`. Readers: the worker, and the caller at any moment for a snapshot. Freeing:
the session's owner.

The plane's code is called after a block. To wait, this code yields a condition (`Until`). The
worker's driver resumes the code once the condition is met.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from types import GeneratorType
from typing import Any

import numpy as np

from hogshare.engine.workspace import Workspace
from hogshare.kernels import layout
from hogshare.kernels.exchange import centre_edges
from hogshare.kernels.exchange.copy_exchange import decay_of
from hogshare.kernels.rules import penalties
from hogshare.kernels.schedule import worker_life
from hogshare.kernels.schedule.outside_steps import subtract
from hogshare.kernels.schedule.shares import span_of
from hogshare.planes.protocol import PlaneError
from hogshare.planes.wait_condition import Until
from hogshare.shm.mailbox import NO_PLACES, Message, RegisterEdge
from hogshare.shm.table import ProgressTable

SPIN_NS = 300_000  # before a wait is reported: that takes the interpreter, which others need
MOST_WISHES = 100_000  # most conditions that a plane may yield after one block


class WorkerHome:
    """The home of one worker, in the form that its plane uses.

    homes : the homes of the run (`hogshare.engine.homes.Homes`)
    me : the worker's number
    """

    def __init__(self, session: Workspace, homes: Any, me: int) -> None:
        self.me, self._share = me, me - session.local_workers.start
        self.n_workers = homes.n_workers
        self.arrays: Mapping[str, np.ndarray] = homes.arrays
        self.boxes = homes.boxes  # all edges, in the order of the plane's `edges`
        self.box = session.mail.box  # the slots of the edges
        self._session, self._homes = session, homes
        self._private = session.private(me)
        self._own = session.vector_of(me)  # the group's vector, if its workers have no copies
        self.is_direct = self._own is not session.vector
        self._row = session.schedule.table[me]
        self._has_intercept = bool(session.rule.fit_intercept)
        self.attached: Any = None  # the plane's own object for this worker
        self.wish: Until | None = None  # the condition that the plane waits for
        self._steps: Generator[Any, Any, None] | None = None  # the plane's code after this block
        self._n_wishes = 0

    @property
    def blocks(self) -> int:
        """Number of blocks that this worker has completed."""
        return int(self._row[layout.T_BLOCKS])

    @property
    def clock(self) -> int:
        """Number of blocks for barriers; a late worker begins at the minimum of the others."""
        return int(self._row[layout.T_CLOCK])

    @property
    def is_ordered(self) -> bool:
        """Whether workers call their planes and claim in rounds; see `ordered_rounds`."""
        return bool(self._session.plan.ordered)

    @property
    def share(self) -> tuple[int, int]:
        """Return how many of its own blocks this worker has claimed, and how many an epoch has.

        After a block, all claimed blocks are done. Both numbers are 0 if workers have no rows of
        their own.
        """
        plan = self._session.plan
        if not plan.shares:
            return 0, 0
        return int(self._row[layout.T_SHARE]), plan.n_blocks // plan.shares

    @property
    def goes_on(self) -> bool:
        """Whether the worker's next block is its own and may begin without waiting for others."""
        plan = self._session.plan
        done, in_epoch = self.share
        opened = min(plan.max_epochs, self._session.word(layout.READY))
        return bool(plan.free) and done < in_epoch * opened

    @property
    def reads(self) -> np.ndarray | None:
        """Return the places of the vector that the next block reads, or None for all or unknown.

        The places are known for a linear problem with sparse rows, if the rows are the worker's own
        and the order of the next block's epoch is ready.
        """
        session, plan = self._session, self._session.plan
        done, in_epoch = self.share
        if not in_epoch or session.outside is not None or session.settings.width:
            return None
        epoch, place = divmod(done, in_epoch)
        if place == 0 or session.row_memory.has_average:
            return None
        block = place * plan.shares + self._share
        order = session.schedule.order[epoch % 2]
        first, end, _ = span_of(block, len(order), plan.n_blocks, plan.block_rows, plan.shares, 0)
        rows, n_columns = session.rows, session.settings.n_columns
        spans = [rows.indices[rows.indptr[row] : rows.indptr[row + 1]] for row in order[first:end]]
        features = np.unique(np.concatenate(spans)).astype(np.int64)
        places = (features[:, np.newaxis] * n_columns + np.arange(n_columns)).reshape(-1)
        if not self._has_intercept:
            return places
        return np.concatenate((places, len(self._private.w) + np.arange(n_columns)))

    @property
    def block_rows(self) -> int:
        """Number of rows of a block."""
        return int(self._session.plan.block_rows)

    @property
    def value_bytes(self) -> int:
        """Number of bytes of one number of the vector."""
        return int(self._private.w.dtype.itemsize)

    def now(self) -> float:
        """Return the seconds of the run's clock; with a `Simulator` the clock is virtual."""
        return float(self._session.clock() * 1e-9)

    def waits(self, worker: int) -> bool:
        """Whether the plane makes worker `worker` wait at present."""
        return bool(self._homes.table[worker, layout.T_PLANE_WAIT])

    @property
    def table(self) -> ProgressTable:
        """The progress of all workers."""
        return ProgressTable(self._homes.table)

    def read(self) -> np.ndarray:
        """Return a copy of the current vector; a group's other workers may write it meanwhile."""
        if self.is_direct:
            parts = (self._own.w, self._own.intercept) if self._has_intercept else (self._own.w,)
            return np.concatenate(parts)
        private, n_columns = self._private, self._session.settings.n_columns
        scale, w = private.local[layout.L_SCALE], private.w
        if (scale != 1.0).any():
            w = (w.reshape(-1, n_columns) * scale).reshape(-1)
        parts = (w, private.local[layout.L_INTERCEPT]) if self._has_intercept else (w,)
        return np.concatenate(parts)

    def write(self, vector: np.ndarray) -> None:
        """Copy `vector` into the home; the worker goes on from these values.

        The sum of the iterates so far does not change (`hogshare.kernels.rules.sgd_steps`).
        """
        private, n_columns = self._private, self._session.settings.n_columns
        m, local = len(private.w), private.local
        size = m + n_columns * self._has_intercept
        if np.shape(vector) != (size,):
            raise ValueError(f"a home's vector has the shape ({size},); got {np.shape(vector)}")
        if self.is_direct:
            self._own.w[:] = vector[:m]
            self._own.intercept[:] = vector[m:] if self._has_intercept else 0.0
            return
        # the sum of iterates is the lag plus `late` times the vector: settle it before the vector
        # is replaced
        late = local[layout.L_AVERAGE_SCALE]
        if private.lag.size and late.any():
            private.lag[:] += (private.w.reshape(-1, n_columns) * late).reshape(-1)
            late[:] = 0.0
        private.w[:] = vector[:m]
        local[layout.L_SCALE] = 1.0
        if self._has_intercept:
            local[layout.L_INTERCEPT] = vector[m:]

    def add(self, values: np.ndarray, places: np.ndarray | None = None) -> None:
        """Add values to the vector while the other workers of the group read and write it.

        Adds are atomic: no change is lost.

        values : float64 array of shape (n,)
        places : int64 array of shape (n,), or None for the first n places
        """
        own, m = self._own, len(self._own.w)
        if places is None:
            parts = (own.w, NO_PLACES, values[:m]), (own.intercept, NO_PLACES, values[m:])
        else:
            of_w = places < m
            parts = (
                (own.w, places[of_w], values[of_w]),
                (own.intercept, places[~of_w] - m, values[~of_w]),
            )
        for vector, where, change in parts:
            if len(change):
                subtract(vector, where, -change)

    # -- arguments of the kernels that do a plane's work on whole vectors
    # (`kernels.exchange.centre_edges`)

    def live(self) -> centre_edges.Live:
        """Return the vector that blocks change, in its current form (views)."""
        local, columns = self._private.local, self._session.settings.n_columns
        if self.is_direct:
            tail, scales = self._own.intercept, np.ones(columns)
        else:
            tail, scales = local[layout.L_INTERCEPT], local[layout.L_SCALE]
        w = self._own.w if self.is_direct else self._private.w
        return centre_edges.Live(
            w, tail if self._has_intercept else tail[:0], scales, self.is_direct
        )

    def weights(self, fold: int, rows: float) -> centre_edges.Weights:
        """Return the weights by which a change from `rows` rows is multiplied.

        fold : one of `edges.SUM`, `WEIGHTED`, `MEAN` and `MOMENTUM`
        """
        vector, rule = self._session.vector, self._session.rule
        clips = rule.penalty in (penalties.L1, penalties.ELASTICNET)
        etas, decay = self._private.local[layout.L_ETA], float(decay_of(rule))
        of_intercepts = vector.intercept_curvature
        return centre_edges.Weights(fold, vector.curvature, of_intercepts, etas, rows, decay, clips)

    @property
    def links(self) -> list[Any] | None:
        """Return the emulated links of the plane's edges, or None if no links are emulated."""
        return self._homes.links

    @property
    def averages(self) -> bool:
        """Whether the run sums iterates; replacing the vector must not change this sum."""
        return self._private.lag.size > 0

    def adopt(self, mirror: np.ndarray, base: np.ndarray) -> None:
        """Replace the vector by `mirror`, and write it into `base` in this home's precision."""
        self.write(mirror)
        base[:] = self.read()

    @property
    def progress(self) -> np.ndarray:
        """The progress table that kernels read: int64 of shape (n_workers, N_TABLE)."""
        return self._homes.table

    @property
    def opened(self) -> int:
        """Number of epochs that the worker may begin alone; 0 if workers begin epochs together."""
        plan = self._session.plan
        return min(plan.max_epochs, self._session.word(layout.READY)) if plan.free else 0

    @property
    def spin_ns(self) -> int:
        """Return the nanoseconds that a kernel waits for other workers before it reports this."""
        return SPIN_NS if self._session.n_polls else 0

    def post(
        self, to: int, values: np.ndarray, places: np.ndarray | None = None, round: int = 0
    ) -> bool:
        """Send a message to another home; return False if the edge has no free slot.

        Raises ValueError if the plane has no such edge, or if the message's size does not fit.
        """
        size = len(self._private.w) + self._private.local.shape[1] * self._has_intercept
        size += self._homes.plane.extra
        n, m = np.shape(values), None if places is None else np.shape(places)
        if len(n) != 1 or n[0] > size or m not in (None, n):
            raise ValueError(
                f"values must be one-dimensional with at most {size} entries, and places must be "
                f"None or as long as values; got values of shape {n} and places of shape {m}"
            )
        return self._edge(self.me, to).post(values, places, round)

    def mail(self, sender: int) -> Message | None:
        """Return the oldest message from home `sender` that has arrived and is not yet taken.

        The message is a view of its slot, valid until `take`. Returns None if there is no such
        message.
        """
        return self._edge(sender, self.me).poll()

    def take(self, sender: int) -> None:
        """Acknowledge the oldest message from home `sender`."""
        self._edge(sender, self.me).take()

    def _edge(self, sender: int, to: int) -> RegisterEdge:
        try:
            return self._homes.edges[sender, to]
        except KeyError:
            raise ValueError(
                f"there is no edge from {sender} to {to}: {type(self._homes.plane).__name__}.edges "
                "has to name it"
            ) from None

    def join(self) -> None:
        """Join the run; a late worker starts from the others' model, if its plane adopts it."""
        table = self._homes.table
        late = not self._row[layout.T_BLOCKS] and table[:, layout.T_BLOCKS].any()
        if late and self._homes.plane.adopts(self.me, self.arrays):
            w, intercept = self._homes.model()
            self.write(np.concatenate((w, intercept)) if self._has_intercept else w)
        try:
            self._homes.plane.enter(self)
        except Exception as error:
            raise self._homes.error("enter", error) from error

    # -- the plane's code after a block, from one condition to the next --------------------------

    def after_block(self) -> None:
        """Run the plane's code after a block, up to its first condition (an `Until`).

        Raises PlaneError if the code raises, or returns a value.
        """
        self._n_wishes = 0
        answer = self._called(self._homes.plane.after_block, self)
        if isinstance(answer, GeneratorType):
            self._steps = answer
            self.go_on(None)
        elif answer is not None:
            raise self._wrong(f"returned {_short(answer)}", "return nothing, or yield Until(...)")

    def go_on(self, came: bool | None) -> None:
        """Run the plane's code from its current condition up to the next one.

        came : whether the condition was met before its limit; None if the code has not begun
        """
        assert self._steps is not None
        self.wish = None
        try:
            wish = self._called(self._steps.send, came, ends=StopIteration)
        except StopIteration:
            self._steps = None
            return
        if not isinstance(wish, Until):
            raise self._wrong(f"yielded {_short(wish)}", "yield Until(...)")
        self._n_wishes += 1
        if self._n_wishes > MOST_WISHES:
            raise PlaneError(
                f"The plane {self._homes.name} has yielded {MOST_WISHES:,} times after one block: "
                "its after_block has to come to an end, so that the worker takes its next block."
            )
        self.wish = wish

    def is_met(self) -> bool:
        """Whether the condition that the plane has yielded is met.

        Raises PlaneError if the plane's code raises, or answers anything but a bool.
        """
        assert self.wish is not None
        answer = self._called(self.wish.holds)
        if type(answer).__name__ not in ("bool", "bool_"):  # NumPy's
            raise self._wrong(
                f"yielded Until(...) with a condition that returned {_short(answer)}",
                "return True (go on) or False (wait)",
            )
        return bool(answer)

    def close(self) -> None:
        """End the plane's code if it waits at a condition, because the run is broken off."""
        steps, self._steps, self.wish = self._steps, None, None
        if steps is not None:
            self._called(steps.close)

    def mail_is_under_way(self) -> bool:
        """Whether a message is on its way; all workers may wait for it."""
        return self._homes.mail_is_under_way()

    def stuck(self, waited_ns: int) -> PlaneError:
        """Return the error to raise if all workers wait for conditions that cannot become true."""
        return PlaneError(
            f"The plane {self._homes.name} has let worker {self.me} wait for "
            f"{waited_ns * 1e-9:.0f} seconds in which all others waited too, so that nothing it "
            "waits for can happen. The plane must not wait for workers that are done, dead or "
            "paused (home.table.gone); to wait for anything else use Until(..., seconds=...). "
            f"Last moves: {worker_life.stories(self._session.schedule.table)}."
        )

    def _called(
        self, function: Callable[..., Any], *args: Any, ends: type[Exception] | None = None
    ) -> Any:
        """Call the plane's code; `ends` is the exception that marks a generator's normal end."""
        try:
            return self._homes.call(function, *args)
        except Exception as error:
            if ends is not None and isinstance(error, ends):
                raise
            raise self._homes.error("after_block", error) from error

    def _wrong(self, what: str, has_to: str) -> PlaneError:
        return PlaneError(
            f"The plane {self._homes.name} {what} in after_block; it has to {has_to}."
        )


def _short(answer: Any) -> str:
    shape = getattr(answer, "shape", None)
    kind = type(answer).__name__
    return f"{kind} of shape {shape}" if isinstance(shape, tuple) else f"{answer!r:.60} ({kind})"
