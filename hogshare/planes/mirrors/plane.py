"""Mirrored centres: each has a whole model and sends significant changes to others (Gaia).

For the writers and readers of the arrays, and for the death of a worker, see
`hogshare.planes.mirrors.centre`. The session's owner frees the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hogshare import topology
from hogshare.kernels.exchange import centre_edges, centre_exchange
from hogshare.kernels.schedule import epoch_schedule
from hogshare.links import regions
from hogshare.links.link import Link
from hogshare.planes import intervals
from hogshare.planes.mirrors import significance
from hogshare.planes.mirrors.centre import FOLDS, Centre, CentreSettings
from hogshare.planes.mirrors.centre_overlay import CentreOverlay, overlay_of
from hogshare.planes.mirrors.clock_rows import clock_rows, rows_over, weighted_rows
from hogshare.planes.mirrors.exchanges import KINDS, Exchanges, course_of
from hogshare.planes.mirrors.groups import check as check_centres
from hogshare.planes.mirrors.groups import groups_of
from hogshare.planes.protocol import Plane, Shapes
from hogshare.planes.shared import Shared
from hogshare.shm.spacing import PAIR
from hogshare.system import ranges

LEAST_QUEUE = 2
# the largest queue of "auto": each message is a vector, and a full edge adds up its changes
MOST_QUEUE = 10
CHECKPOINTED = ("mirror", "total", "got", "first", "base", "outer", "clock", "before", "lost")


@dataclass(frozen=True, eq=False)
class Mirrors(Plane):
    """Centres that each have a whole model, and send each other only significant changes.

    Workers belong to centres. The workers of a centre share its model, the *mirror*, in the way
    that `inside` specifies. Centres may be far from each other, and send only changes that pass the
    significance filter. Other changes are applied to the mirror, but stay in a *residual* that is
    not sent until it has grown. A *clock* of a centre ends when each of its workers has visited
    `every` rows; the centre then sends. The `barrier` of `solve` applies to the workers of each
    centre.

    Parameters
    ----------
    centres : int or list of int, default=3
        The number of centres, or a list with the centre of each worker, such as [0, 0, 1, 2]. If it
        is a number, each centre has neighbouring workers. If ranks do not share memory, a centre
        may span several ranks. Each rank then has a part of the centre with a whole mirror. Parts
        of a centre send each other every change, and the first part sends the significant changes
        to other centres.
    inside : Shared, default=Shared()
        How workers of a centre share its mirror. ``Shared()``: each worker has a copy, adds its
        change to the mirror after the rows of a clock, and continues from the sum.
        ``Shared(exchange=100)``: each worker adds its change after 100 rows.
        ``Shared(exchange=None)``: all workers read and write the mirror directly, without locks,
        and with the ``adds`` of `inside`. A run with one centre uses the plane `inside` alone.
    fold : {"weighted", "momentum", "sum", "mean"}, default="weighted"
        How to combine the changes of several workers that begin at about the same vector.
        "weighted": each coordinate's change is weighted by its curvature, step and number of rows
        (docs/exchange.md), with the same weight at its sender and at all readers. Changes are added
        if workers' steps are independent, and averaged if each worker alone reaches the optimum.
        For a problem with a gradient, "weighted" means "momentum" if a clock has several steps. If
        a clock is one step, "weighted" means "sum", or weights from the problem's own `curvature`.
        "momentum": changes are divided by the number P of workers, with Nesterov's momentum of
        ``1 - 1/P``. In the long run, each change counts once. If each worker alone reaches the
        optimum, all workers together reach it in two clocks. If a centre may be ahead of others, or
        receives changes through a hub, "momentum" is the same as "mean". "sum": changes are added,
        as in the paper. With long clocks, the sum overshoots. "mean": changes are divided by the
        number of workers.
    every : "auto" or int, default="auto"
        Number of rows of a worker in a clock, in whole blocks, as in `Replicas`. With
        ``rows="share"``, it is at most the worker's rows of an epoch. "auto"
        (`hogshare.planes.mirrors.clock_rows`): For weighted changes, the exchange of a clock costs
        a tenth of its rows' time, the rows are worth the bytes on the links, and an epoch has at
        least four clocks. For sums, a clock has few enough rows not to overshoot. For gradients, a
        clock is a block; over links, the mini-batches of a clock take four times as long as a
        message is under way, but at most half an epoch. In this last case the gradient is timed, so
        a run's bits depend on the machine.
    significance : {"relative", "absolute"} or callable, default="relative"
        Which changes are sent. "relative": changes with ``abs(residual / value) > threshold``, and
        every change of a value of 0. "absolute": changes with ``abs(residual) > threshold``. A
        function ``(residual, value, t) -> bool array``, in NumPy or compiled by Numba, gets two
        arrays of shape (n_params,), and the number of the clock, counted from 1.
    threshold : float or array of shape (n_params,), default=0.01
        One number, or one for each parameter: coefficients feature by feature, then intercepts. 0:
        every change is sent. Infinity: no change is sent. Infinity needs ``flush=False``, because
        models that centres have learnt separately cannot be added up.
    decay : {"sqrt", None} or callable, default="sqrt"
        "sqrt": the threshold is divided by the square root of clock t. None: the threshold is
        constant. A function: the threshold is multiplied by ``decay(t)``, a finite number of at
        least 0.
    soft : float or None, default=None
        A smaller threshold. The threshold of an edge approaches `soft` in steps while the edge's
        link has capacity at once, and returns to `threshold` while the link has no capacity.
    clock_difference : int or float, default=0
        A centre waits if it is more than this number of clocks ahead of the slowest centre.
        Infinity: no centre waits. Above 0, workers with rows of their own do not wait at an epoch's
        end, and late changes count less. The run then waits less, but makes less progress per
        epoch.
    delay : float, default=0.1
        Seconds for which changes may wait for capacity on an edge. After this time, a short message
        names the changed parameters. A worker of the other centre that reads one of these
        parameters then waits for the parameter's value (the selective barrier).
    queue : "auto" or int, default="auto"
        Number of messages of an edge that may be under way; the last one must be a short message,
        see `delay`. "auto": the clock difference plus 2, at most 10.
    graph : str, array, networkx graph or callable, default="all"
        Which centres send to each other: "all", "star", "hubs" or another connected graph of
        `hogshare.topology`. A hub is a centre that connects others: it adds up the changes that it
        receives, and forwards them. Each change reaches each centre once
        (`hogshare.planes.mirrors.centre_overlay`). Cycles are opened, so one link of a ring is
        unused.
    links : str, path or list of list of Link, default=None
        The links between centres: "lan", "wan", "slowest" or "regions" (`hogshare.links.preset`), a
        JSON file (`hogshare.links.read`), or a list whose entry [i][j] is the link from centre i to
        centre j. Between workers of one machine, links are emulated: a message becomes visible when
        its link would have delivered it. A `Simulator` uses these links instead of its network's
        links. None: mail arrives at once, or when the simulator's network delivers it.
    when_lost : {"go on", "end"}, default="go on"
        How the run continues when all workers of a centre have died. "go on": the run omits the
        centre and its unsent changes; `Report.exchanges` names the centre. "end": the run raises a
        PlaneError that names the centre, and can be resumed from a checkpoint.
    flush : bool, default=True
        Whether the final model contains all residuals, so that all mirrors are equal. False: the
        model is the mean of the mirrors, and the report has the distance of the mirrors from their
        mean.
    rows : {"share", "claimed"}, default="share"
        Whether each worker has its own rows, or workers claim blocks from all rows; see `Replicas`.

    parts : tuple of int, default=None
        The centre of each part. It is set automatically if a centre spans several ranks.

    Notes
    -----
    Source: Hsieh et al. 2017 (Gaia, approximate synchronous parallel), section 4 and theorem 1. As
    in the authors' code, a message has index and value pairs or the dense block, whichever is
    shorter. Departures: (1) Changes are weighted (``fold="sum"`` is the paper's). (2) Each edge has
    its own residuals. A slow link therefore does not delay other edges, and the changes that exceed
    the link's capacity are added up instead of queued. (3) A clock belongs to a centre, and is sent
    with the centre's messages. A message without changes is only a header.

    For each parameter, the sum of the changes sent along an edge and the edge's residual is exactly
    the sum of the weighted changes of the centre's workers and the changes that the centre forwards
    along the edge. A centre has two vectors, plus one vector for each outgoing edge and one for
    each incoming edge. A worker has two vectors, or three with momentum.

    With ``fold="sum"``, one worker in each centre, ``threshold=0`` and ``clock_difference=0``, a
    run has the bits of ``Replicas("all", send="change", fold="sum")`` with the same `every`. A run
    with one centre has the bits of the plane `inside`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import Mirrors, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y, alpha=0.01)
    >>> run = {"n_workers": 6, "runtime": "simulator", "stop": 5, "seed": 0}
    >>> report = solve(problem, plane=Mirrors(3, threshold=0.05), **run)
    >>> report.exchanges.n_centres, bool(report.exchanges.significant_share < 1.0)
    (3, True)
    """

    centres: Any = 3
    inside: Shared = field(default_factory=Shared)
    fold: str = "weighted"
    every: str | int = "auto"
    significance: Any = "relative"
    threshold: Any = 0.01
    decay: Any = "sqrt"
    soft: float | None = None
    clock_difference: float = 0
    delay: float = 0.1
    queue: Any = "auto"
    graph: Any = "all"
    links: Any = None
    when_lost: str = "go on"
    flush: bool = True
    rows: str = "share"
    parts: tuple[int, ...] | None = field(default=None, repr=False)
    checkpointed = CHECKPOINTED
    is_chosen = True
    seen = ("clock",)

    def __post_init__(self) -> None:
        check_centres(self.centres)
        if not isinstance(self.inside, Shared):
            raise TypeError(
                "inside must be Shared(), Shared(exchange=100) or Shared(exchange=None): how "
                f"workers of a centre share its mirror; got {self.inside!r}."
            )
        ranges.store_rows(self, "every")
        if not isinstance(self.fold, str) or self.fold not in FOLDS:
            raise ValueError(f"fold must be one of {list(FOLDS)}; got {self.fold!r}.")
        difference = self.clock_difference
        if not (ranges.is_number(difference) and difference == math.inf):
            if not ranges.is_integer(difference):
                raise ValueError(
                    f"clock_difference must be a whole number of clocks, or math.inf; got "
                    f"{difference!r}."
                )
            ranges.store_whole(0, self, "clock_difference")
        ranges.not_negative(delay=self.delay)
        if not _is_auto(self.queue):
            ranges.store_whole(LEAST_QUEUE, self, "queue")
        ranges.flag(flush=self.flush)
        filtered = self.significance, self.threshold, self.decay, self.soft, self.flush
        significance.check(*filtered)
        if not isinstance(self.when_lost, str) or self.when_lost not in ("go on", "end"):
            raise ValueError(f"when_lost must be 'go on' or 'end'; got {self.when_lost!r}.")
        if self.links is not None:
            object.__setattr__(self, "links", regions.settled(self.links))
        if not isinstance(self.rows, str) or self.rows not in ("share", "claimed"):
            raise ValueError(f"rows must be 'share' or 'claimed'; got {self.rows!r}.")

    @property
    def settled(self) -> Plane:
        """The plane `inside` if there is only one centre, which sends nothing; else this plane."""
        one = self.centres == 1 if ranges.is_integer(self.centres) else max(self.centres) == 0
        return self.inside if one else self

    @property
    def weighs(self) -> bool:
        """Whether changes are weighted by the curvature."""
        return self.fold == "weighted"

    def fitted(self, problem: Any, n_rows: int, n_workers: int) -> Plane:
        """Return the plane with its queue chosen, if `queue` is "auto"."""
        if not _is_auto(self.queue):
            return self
        return replace(self, queue=int(min(MOST_QUEUE, self.clock_difference + 2)))

    def by_steps(self, block_rows: int, step_rows: int) -> Plane:
        """Return the plane with momentum instead of weights, if a clock has several steps."""
        rows = block_rows if self.every == "auto" else max(block_rows, int(self.every))
        is_weighted = self.fold == "weighted" and rows > step_rows
        return replace(self, fold="momentum") if is_weighted else self

    def _clock_rows(self, problem: Any, n_rows: int, n_workers: int) -> int:
        """Return the rows of a clock whose changes are weighted."""
        if self.every != "auto":
            return int(self.every)
        overlay = self._overlay(n_workers)
        senders = [sender for sender, _ in overlay.edges]
        degree = max(map(senders.count, senders))
        links = self.edge_links(n_workers)
        return weighted_rows(problem, n_rows, n_workers, degree, links)

    @property
    def is_by_mail(self) -> bool:
        """True: centres may be far from each other, and communicate only by mail."""
        return True

    @property
    def is_direct(self) -> bool:
        """Whether the workers of a centre read and write its mirror directly."""
        return self.inside.is_lock_free

    def mode(self, n_workers: int) -> int:
        """Code of the plane in a run's plan."""
        return self.inside.mode(n_workers) if self.is_direct else epoch_schedule.ALONE

    def numbers(self) -> dict[str, Any]:
        """Fields of a run's plan."""
        return self.inside.numbers()

    @property
    def shares_rows(self) -> bool:
        """Whether every worker trains on its own rows."""
        return self.rows == "share"

    @property
    def goes_on(self) -> bool:
        """Whether workers wait only for clocks, not at epoch barriers."""
        return self.clock_difference > 0

    @property
    def users(self) -> tuple[Any, ...]:
        """The user's functions, whose code is sent to the ranks with the plane."""
        return tuple(f for f in (self.significance, self.decay, self.graph) if callable(f))

    def groups(self, n_workers: int) -> np.ndarray | None:
        """Return the centre of each worker, or None if there is one centre."""
        found = groups_of(self.centres, n_workers)
        return found if found.any() else None

    def rows_of_block(
        self, problem: Any, n_rows: int, n_workers: int, late_step: float
    ) -> int | None:
        """Return the number of rows between two clocks, or between two exchanges in a centre."""
        if self.inside.exchange not in (None, "auto"):
            return int(self.inside.exchange)
        if self.every != "auto":
            return int(self.every)
        if not problem.has_rows:
            return None
        if self.fold == "sum":
            return clock_rows(problem, late_step, n_rows, n_workers, self._n_centres(n_workers))
        return self._clock_rows(problem, n_rows, n_workers)

    def rows_worth_a_link(self, problem: Any, n_rows: int, n_workers: int) -> int | None:
        """Return the rows of a clock that are worth its time on the links; None for any number."""
        links = self.edge_links(n_workers)
        if self.every != "auto" or not links:
            return None
        return rows_over(problem, n_rows, n_workers, links)

    def over_sites(self, site_of: np.ndarray) -> Plane:
        """Return the plane with a part of a centre at each site of its workers.

        Parts of a centre send each other every change; the first part is the hub to other centres.
        """
        groups = groups_of(self.centres, len(site_of))
        pairs, part_of = np.unique(np.stack([groups, site_of]), axis=1, return_inverse=True)
        centre_of = pairs[0]
        if len(centre_of) == groups.max() + 1:
            return self
        first = np.unique(centre_of, return_index=True)[1]
        graph = centre_of[:, np.newaxis] == centre_of
        graph[np.ix_(first, first)] |= self._graph(len(first))
        np.fill_diagonal(graph, False)
        parts = tuple(centre_of.tolist())
        return replace(self, centres=part_of.reshape(-1).tolist(), graph=graph, parts=parts)

    def check_blocks(self, block_rows: int, own_rows: int) -> None:
        """Refuse blocks that do not divide `every`."""
        intervals.check(self.every, block_rows, own_rows)

    @property
    def least_workers(self) -> int:
        """The least number of workers of a run."""
        return int(self.centres) if ranges.is_integer(self.centres) else len(self.centres)

    # -- centres and edges

    def _n_centres(self, n_workers: int) -> int:
        return int(groups_of(self.centres, n_workers).max()) + 1

    def _centre_of(self, n_workers: int) -> tuple[int, ...]:
        """Return the centre of each part; a part usually is a whole centre."""
        return self.parts or tuple(range(self._n_centres(n_workers)))

    def _graph(self, n_centres: int) -> np.ndarray:
        graphs = topology.graphs_of(self.graph, n_centres)
        if len(graphs) > 1:
            raise ValueError(
                f"Mirrors(graph=) must be one graph; got a list of {len(graphs)}. A list of graphs "
                "is for Replicas."
            )
        return graphs[0]

    def _overlay(self, n_workers: int) -> CentreOverlay:
        return overlay_of(self._graph(self._n_centres(n_workers)))

    def _edges_of_centres(self, n_workers: int) -> list[tuple[int, int]]:
        return self._overlay(n_workers).edges

    def edges(self, n_workers: int) -> list[tuple[int, int]]:
        """Return the edges between centres, as edges between their first workers."""
        first = np.unique(groups_of(self.centres, n_workers), return_index=True)[1]
        return [(int(first[i]), int(first[j])) for i, j in self._edges_of_centres(n_workers)]

    def edge_links(self, n_workers: int) -> list[Link] | None:
        """Return the link of each edge between centres.

        Raises
        ------
        ValueError
            If the links are for another number of centres, or a link never delivers anything.
        """
        if self.links is None:
            return None
        centre_of = self._centre_of(n_workers)
        edges = [(centre_of[i], centre_of[j]) for i, j in self._edges_of_centres(n_workers)]
        matrix = regions.between(self.links, max(centre_of) + 1)
        found = [matrix[i][j] if i != j else Link() for i, j in edges]
        for (i, j), link in zip(edges, found, strict=True):
            if not link.delivers:
                raise ValueError(
                    f"the link from centre {i} to centre {j} never delivers anything; leave the "
                    "edge out of the graph."
                )
        return found

    # -- arrays

    def arrays(self, n_params: int, n_workers: int) -> Shapes:
        """Return the arrays of centres, edges and workers; see `centre`."""
        self._filter().check_size(n_params)
        n, e, word = self._n_centres(n_workers), len(self.edges(n_workers)), PAIR // 8
        degree = max(0, *np.bincount([sender for sender, _ in self._edges_of_centres(n_workers)]))
        return {
            "lock": ((n, word), "int64"),
            "journal": ((n, word), "int64"),
            "mirror": ((n, n_params), "float64"),
            "total": ((n, n_params), "float64"),
            "staged": ((n, centre_edges.OWN_ROWS + degree, centre_edges.CHUNK), "float64"),
            "chosen": ((n, n_params), "uint8"),
            "clock": ((n,), "int64"),
            "before": ((n,), "int64"),
            "small": ((n, 2), "int64"),
            "course": ((n, centre_exchange.SPANS, 4), "int64"),
            "residual": ((e, n_params), "float64"),
            "open": ((e, -(-n_params // centre_edges.PLACES)), "uint8"),
            "got": ((e, n_params), "float64"),
            "got_number": ((e,), "int64"),
            "blocked": ((e, n_params), "uint8"),
            "n_blocked": ((e,), "int64"),
            "announced": ((e, n_params), "uint8"),
            "n_announced": ((e,), "int64"),
            "heard": ((e,), "int64"),
            "notified": ((e,), "int64"),
            "wanted": ((e,), "float64"),
            "ease": ((e,), "float64"),
            "sent": ((e, 3, 2), "int64"),
            "owed": ((e,), "uint8"),
            "base": ((n_workers, n_params), "float64"),
            "outer": ((n_workers, n_params * (self.fold == "momentum")), "float64"),
            "waits": ((n_workers, 4), "float64"),
            "holds": ((n_workers, 4), "int64"),
            "passes": ((n_workers,), "int64"),
            "rounds": ((n_workers,), "int64"),
            "first": ((n_params,), "float64"),
            "over": ((1,), "int64"),
            "lost": ((n,), "uint8"),
        }

    def owners(self, n_workers: int) -> dict[str, np.ndarray]:
        """Return the owner of each row: a worker, or the first worker of a centre or edge end."""
        first = np.unique(groups_of(self.centres, n_workers), return_index=True)[1]
        senders, readers = np.array(self.edges(n_workers)).T
        return {
            **dict.fromkeys(("mirror", "total", "clock", "small", "course"), first),
            **dict.fromkeys(("sent", "owed"), senders),
            "got_number": readers,
            **dict.fromkeys(("waits", "holds", "passes"), np.arange(n_workers)),
        }

    def checkpointed_owners(self, n_workers: int) -> dict[str, np.ndarray]:
        """Return the owners of received sums, workers' bases and centres' earlier clocks."""
        first = np.unique(groups_of(self.centres, n_workers), return_index=True)[1]
        readers = np.array(self.edges(n_workers))[:, 1]
        return {
            "got": readers,
            **dict.fromkeys(("base", "outer"), np.arange(n_workers)),
            "before": first,
        }

    def begin(self, arrays: Mapping[str, np.ndarray], vector: np.ndarray) -> None:
        """Set all mirrors and all workers' bases to the run's first vector."""
        for name in ("first", "mirror", "base"):
            arrays[name][:] = vector

    def adopts(self, me: int, arrays: Mapping[str, np.ndarray]) -> bool:
        """Return False: a late worker begins at its base, and soon has the mirror."""
        return False

    def resume(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Make residuals of changes that were under way, and reset the clocks.

        After that, no centre knows another centre's clock. If a centre had died, all centres begin
        with the survivors' model, and all residuals are 0.
        """
        if arrays["lost"].any():
            self.begin(arrays, self._others_model(arrays))
            for name in ("total", "got", "lost"):
                arrays[name][:] = 0
        overlay = self._overlay(len(arrays["rounds"]))
        arrays["open"][:] = centre_edges.OPEN
        for edge, (sender, _) in enumerate(overlay.edges):
            residual = arrays["total"][sender] - arrays["got"][edge]
            for come, ways in enumerate(overlay.passes_on):
                if edge in ways:
                    residual += arrays["got"][come]
            arrays["residual"][edge] = residual
        if not self.shares_rows:  # with shares, the clocks of workers and centres continue
            arrays["before"][:] += arrays["clock"]
        arrays["clock"][:] = 0

    def bury(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Note which centres have died."""
        alive = np.bincount(groups_of(self.centres, len(dead)), ~dead) > 0
        # if all workers have died, all mirrors still count for the model
        arrays["lost"][:] = ~alive & alive.any()

    def agree(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Give all mirrors the same sum of a dead centre's changes: the mean of the received sums.

        Without this, mirrors and later changes would differ for good. A mirror that workers write
        directly is not moved.
        """
        self.bury(arrays, dead)
        if self.is_direct or not arrays["lost"].any():
            return
        overlay, alive = self._overlay(len(dead)), arrays["lost"] == 0
        for lost in np.flatnonzero(~alive):
            come = [e for e, (a, b) in enumerate(overlay.edges) if a == lost and alive[b]]
            mean = arrays["got"][come].mean(axis=0) if come else 0.0
            for edge in come:
                change = mean - arrays["got"][edge]
                arrays["got"][edge] += change
                arrays["mirror"][overlay.edges[edge][1]] += change
                for way in overlay.passes_on[edge]:
                    arrays["residual"][way] += change
                    arrays["open"][way] = centre_edges.OPEN

    def finish(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Mark the run as over; `model` then includes all residuals."""
        arrays["over"][0] = 1
        arrays["owed"][:] = arrays["residual"].any(axis=1)

    def model(self, homes: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the mean of the mirrors; after the run, with all residuals applied if `flush`.

        If a centre has died, only the changes that it had sent count.
        """
        if arrays["lost"].any():
            return self._others_model(arrays)
        if arrays["over"][0] and self.flush and self._is_owed(arrays):
            return np.asarray(arrays["first"] + arrays["total"].sum(axis=0))
        return np.asarray(arrays["mirror"].mean(axis=0))

    def _others_model(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the mean of the surviving centres' mirrors; after the run, flushed if `flush`.

        Survivors may have received different parts of a dead centre's changes.
        """
        alive = arrays["lost"] == 0
        if not (arrays["over"][0] and self.flush):
            return np.asarray(arrays["mirror"][alive].mean(axis=0))
        found = arrays["first"] + arrays["total"][alive].sum(axis=0)
        for dead in np.flatnonzero(~alive):
            come = [
                arrays["got"][edge]
                for edge, (sender, to) in enumerate(self._edges_of_centres(len(arrays["rounds"])))
                if sender == dead and alive[to]
            ]
            if come:
                found += np.mean(come, axis=0)
        return np.asarray(found)

    def _is_owed(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether some mirror lacks a change of some centre."""
        posted = arrays["sent"][:, :, centre_exchange.MESSAGES].sum(axis=1)
        return bool(arrays["owed"].any() or (arrays["got_number"] != posted).any())

    # -- a worker

    def _filter(self) -> significance.Filter:
        return significance.Filter(self.significance, self.threshold, self.decay, self.soft)

    def after_block(self, home: Any) -> Generator[Any, bool, None]:
        """Exchange with the worker's own centre, and through it with other centres."""
        if home.attached is None:
            home.attached = Centre(home, self._settings(home))
        yield from home.attached.after_block()

    def _settings(self, home: Any) -> CentreSettings:
        overlay = self._overlay(home.n_workers)
        every = range(self._n_centres(home.n_workers))
        ends_with = list(every) if self.when_lost == "end" else overlay.hubs
        return CentreSettings(
            groups=groups_of(self.centres, home.n_workers),
            centre_of=self._centre_of(home.n_workers),
            overlay=overlay,
            fold=FOLDS[self.fold],
            per=intervals.blocks_of(self.every, home.block_rows, home.share[1]),
            filter=self._filter(),
            clock_difference=self.clock_difference,
            delay=self.delay,
            queue=self.queue,
            ends_with=ends_with,
        )

    def remark(self, arrays: Mapping[str, np.ndarray]) -> str | None:
        """Return a warning if a run had no significant change, or None."""
        passed, of = arrays["course"][:, :, : centre_exchange.C_BYTES].sum(axis=(0, 1))
        if not self.flush or passed or not of:
            return None
        return (
            f"No change was significant with threshold={self.threshold!r}, and the final model is "
            "the sum of what each centre has learnt by itself: lower the threshold, or set "
            "flush=False for the mean."
        )

    def kind_of(self, round: int, n_places: int, n_dense: int) -> str:
        """Return a message's kind: it announces values, has values, or has only a clock."""
        if round % centre_exchange.KINDS_OF_ROUND:
            return KINDS[centre_exchange.BARRIER]
        return KINDS[centre_exchange.UPDATE if n_places + n_dense else centre_exchange.CLOCK]

    def account(self, arrays: Mapping[str, np.ndarray], n_workers: int) -> Exchanges:
        """Return the centres' traffic and the workers' waits."""
        mirror = arrays["mirror"][arrays["lost"] == 0]
        away = mirror - mirror.mean(axis=0)
        return Exchanges.of_parts(
            self._centre_of(n_workers),
            groups=groups_of(self.centres, n_workers),
            edges=self._edges_of_centres(n_workers),
            clocks=arrays["clock"],
            sent=arrays["sent"],
            significant=arrays["course"][:, :, : centre_exchange.C_BYTES].sum(axis=1),
            small=arrays["small"],
            lost=arrays["lost"] != 0,
            course=course_of(arrays["course"].sum(axis=0)),
            waits=arrays["waits"].copy(),
            holds=arrays["holds"].copy(),
            passes=arrays["passes"].copy(),
            disagreement=float(np.sqrt(np.square(away).sum() / len(mirror))),
        )


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
