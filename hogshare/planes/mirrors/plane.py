"""Mirrored centres: in each a whole model, and between them what matters (Gaia).

Who writes and reads the arrays, in which order, and what becomes of a worker that dies:
`hogshare.planes.mirrors.centre`. Who frees: the session's owner.
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
MOST_QUEUE = (
    10  # of "auto": each message is a vector, and a busy edge adds up what it has no room for
)
CHECKPOINTED = ("mirror", "total", "got", "first", "base", "outer", "clock", "before", "lost")


@dataclass(frozen=True, eq=False)
class Mirrors(Plane):
    """Centres that have a whole model each, and send each other the changes that matter.

    Workers belong to centres. Inside a centre they share its *mirror*, as `inside` says. Between
    centres, which may be far from each other,
    goes what passes the significance filter; the rest stays a *residual*, applied here and not
    sent, until it has grown. `barrier` of `solve` holds among the workers of a centre.

    Parameters
    ----------
    centres : int or list of int, default=3
        How many there are, with neighbouring workers in each, or the centre of each worker, such as
        [0, 0, 1, 2]. Between ranks that share no memory a centre may be at several: a part of it at
        each, with the mirror whole; parts send each other every change, and the first of them what
        matters to other centres.
    inside : Shared, default=Shared()
        How workers of a centre share its mirror. ``Shared()``: each has a copy, adds its change to
        the mirror after a clock's rows, and goes on from there; ``Shared(exchange=100)``: after so
        many rows. ``Shared(exchange=None)``: all read and write it as they go, without locks, and
        ``adds`` is the plane's. With one centre the run is on this plane alone.
    fold : {"weighted", "momentum", "sum", "mean"}, default="weighted"
        What is made of the changes of several workers that begin at about the same vector.
        "weighted": each number's change counts by the curvature, the step and the rows that it is
        of (docs/exchange.md), at its sender as at all readers: added where workers' steps have
        nothing to do with each other, averaged where each alone comes to the optimum. Of a
        problem by a gradient "momentum" where a clock has several steps, and where it is one step
        the sum, or a weight by the problem's own `curvature`. "momentum": divided by the number P
        of workers, with Nesterov's momentum of 1 - 1/P, so that in the long run each change counts
        once, and where each worker alone comes to the optimum two clocks come to it; the mean
        where a centre may be ahead, or hears of others through a hub. "sum": added up, as in the
        paper; where clocks are long that overshoots. "mean": divided by the number of workers.
    every : "auto" or int, default="auto"
        Rows of a worker in a clock, after which its centre sends: whole blocks, as of `Replicas`,
        and of rows of its own no more than an epoch has. "auto"
        (`hogshare.planes.mirrors.clock_rows`): of weighted changes so many that a clock costs a
        tenth of its rows' time, and is worth its bytes on the links, at least four in an epoch; of
        sums so few that they do not overshoot; by a gradient a block, and of mini-batches over
        links so many rows as take four times as long as a message is under way, at most half an
        epoch's: the gradient is tried and timed, so that the bits of a run depend on the machine.
    significance : {"relative", "absolute"} or callable, default="relative"
        Which changes are sent. "relative": ``abs(residual / value) > threshold``, and all of a
        value of 0; "absolute": ``abs(residual) > threshold``; or a function
        ``(residual, value, t) -> bool array`` of arrays of shape (n_params,) and the clock, from 1,
        NumPy's or compiled by Numba.
    threshold : float or array of shape (n_params,), default=0.01
        One for each parameter, coefficients feature by feature and then intercepts, where parts of
        the model have their own. 0: every change is sent; infinity: none is, which takes
        ``flush=False``, since what centres have learnt alone does not add up.
    decay : {"sqrt", None} or callable, default="sqrt"
        The threshold at clock t is divided by its root, stays, or is multiplied by ``decay(t)``, a
        finite number of at least 0.
    soft : float or None, default=None
        A smaller threshold, to which an edge comes down by steps while its link has room at once,
        and from which it goes back to `threshold` while it has not.
    clock_difference : int or float, default=0
        A centre that is more clocks ahead of the slowest waits. Infinity: it never does. Above 0
        nobody waits at an epoch's end, where workers have rows of their own, and changes that are
        late count less: what that saves in waiting it costs in progress.
    delay : float, default=0.1
        Seconds for which changes may wait for room on an edge. Then a short message names them, and
        who reads one of them in the other centre waits for its value (the selective barrier).
    queue : "auto" or int, default="auto"
        Messages of an edge that may be under way, the last of them such a short one. "auto": the
        clock difference and 2, at most 10.
    graph : str, array, networkx graph or callable, default="all"
        Which centres send to each other: "all", "star", "hubs" or any other of `hogshare.topology`
        that is connected. A centre that others hear of each other through, a hub, adds up what
        comes and passes it on, so that each change comes to each centre once
        (`hogshare.planes.mirrors.centre_overlay`); a circle is opened: of a ring one link is not
        used.
    links : str, path or list of list of Link, default=None
        How far centres are from each other: "lan", "wan", "slowest" or "regions"
        (`hogshare.links.preset`), a JSON file (`hogshare.links.read`), or entry [i][j] from centre
        i to centre j. Between workers of one machine they are emulated: what is sent is seen when a
        link would have brought it. A `Simulator` has them in place of its network's. None: mail is
        there at once, or as the simulator's network says.
    when_lost : {"go on", "end"}, default="go on"
        What becomes of the run when all workers of a centre have died. "go on": it is left out,
        with what it had not sent; `Report.exchanges` names it. "end": with a PlaneError that does;
        from a checkpoint the run can be resumed.
    flush : bool, default=True
        Whether the model at the end has all residuals, so that all mirrors are one. False: it is
        the mean of the mirrors, and the report says how far they are apart.
    rows : {"share", "claimed"}, default="share"
        As of `Replicas`: rows of a worker's own, or blocks of all rows.

    parts : tuple of int, default=None
        The centre of each part, set where centres are at several ranks.

    Notes
    -----
    Source: Hsieh et al. 2017 (Gaia, approximate synchronous parallel), section 4 and theorem 1, and
    the authors' code for index and value pairs or the dense block, whichever is shorter.
    Departures: changes are weighted (``fold="sum"`` is the paper's); each edge has residuals of its
    own, so that a slow link holds up nobody else, and what it has no room for is added up instead
    of queued; clocks are of a centre and go with its messages, which are a header where nothing is
    to be sent.

    For each parameter, exactly: what an edge was sent and its residual are weight times the changes
    of the centre's workers, and what it passes on. A centre has two vectors, one for each edge that
    leaves it and one for each that comes; a worker has two, and with momentum three.

    With ``fold="sum"``, a worker in each centre, ``threshold=0`` and ``clock_difference=0`` a run
    has the bits of ``Replicas("all", send="change", fold="sum")`` with the same `every`; with one
    centre those of the plane inside.

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
        """With one centre nothing is sent: the plane inside it."""
        one = self.centres == 1 if ranges.is_integer(self.centres) else max(self.centres) == 0
        return self.inside if one else self

    @property
    def weighs(self) -> bool:
        """Whether changes are weighted by the curvature."""
        return self.fold == "weighted"

    def fitted(self, problem: Any, n_rows: int, n_workers: int) -> Plane:
        """With a queue that is chosen."""
        if not _is_auto(self.queue):
            return self
        return replace(self, queue=int(min(MOST_QUEUE, self.clock_difference + 2)))

    def by_steps(self, block_rows: int, step_rows: int) -> Plane:
        """With momentum in place of weights, if a clock has several steps."""
        rows = block_rows if self.every == "auto" else max(block_rows, int(self.every))
        is_weighted = self.fold == "weighted" and rows > step_rows
        return replace(self, fold="momentum") if is_weighted else self

    def _clock_rows(self, problem: Any, n_rows: int, n_workers: int) -> int:
        """Rows of a clock whose changes are weighted."""
        if self.every != "auto":
            return int(self.every)
        overlay = self._overlay(n_workers)
        senders = [sender for sender, _ in overlay.edges]
        degree = max(map(senders.count, senders))
        links = self.edge_links(n_workers)
        return weighted_rows(problem, n_rows, n_workers, degree, links)

    @property
    def is_by_mail(self) -> bool:
        """Whether centres may be far from each other: what goes between them is mail."""
        return True

    @property
    def is_direct(self) -> bool:
        """Whether the workers of a centre read and write its mirror as they go."""
        return self.inside.is_lock_free

    def mode(self, n_workers: int) -> int:
        """Code of the plane in a run's plan."""
        return self.inside.mode(n_workers) if self.is_direct else epoch_schedule.ALONE

    def numbers(self) -> dict[str, Any]:
        """Fields of a run's plan."""
        return self.inside.numbers()

    @property
    def shares_rows(self) -> bool:
        """Whether every worker trains on rows of its own."""
        return self.rows == "share"

    @property
    def goes_on(self) -> bool:
        """Whether workers wait for clocks only, and not for the ends of epochs."""
        return self.clock_difference > 0

    @property
    def users(self) -> tuple[Any, ...]:
        """What of it is the user's, whose code travels with it."""
        return tuple(f for f in (self.significance, self.decay, self.graph) if callable(f))

    def groups(self, n_workers: int) -> np.ndarray | None:
        """The centre of each worker."""
        found = groups_of(self.centres, n_workers)
        return found if found.any() else None

    def rows_of_block(
        self, problem: Any, n_rows: int, n_workers: int, late_step: float
    ) -> int | None:
        """Rows between two clocks, or between two exchanges in a centre."""
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
        """Rows of a clock that is worth what links take for it."""
        links = self.edge_links(n_workers)
        if self.every != "auto" or not links:
            return None
        return rows_over(problem, n_rows, n_workers, links)

    def over_sites(self, site_of: np.ndarray) -> Plane:
        """With a part of a centre at each site that it has workers at.

        Parts of a centre send each other every change; the first of them is the hub to others.
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
        """Refuse blocks of which `every` is no multiple."""
        intervals.check(self.every, block_rows, own_rows)

    @property
    def least_workers(self) -> int:
        """How many workers a run needs at least."""
        return int(self.centres) if ranges.is_integer(self.centres) else len(self.centres)

    # -- centres and edges

    def _n_centres(self, n_workers: int) -> int:
        return int(groups_of(self.centres, n_workers).max()) + 1

    def _centre_of(self, n_workers: int) -> tuple[int, ...]:
        """The centre of each part; most are whole."""
        return self.parts or tuple(range(self._n_centres(n_workers)))

    def _graph(self, n_centres: int) -> np.ndarray:
        graphs = topology.graphs_of(self.graph, n_centres)
        if len(graphs) > 1:
            raise ValueError("centres have one graph: a list of several is for Replicas.")
        return graphs[0]

    def _overlay(self, n_workers: int) -> CentreOverlay:
        return overlay_of(self._graph(self._n_centres(n_workers)))

    def _edges_of_centres(self, n_workers: int) -> list[tuple[int, int]]:
        return self._overlay(n_workers).edges

    def edges(self, n_workers: int) -> list[tuple[int, int]]:
        """Edges between centres, as ones between the first workers of both."""
        first = np.unique(groups_of(self.centres, n_workers), return_index=True)[1]
        return [(int(first[i]), int(first[j])) for i, j in self._edges_of_centres(n_workers)]

    def edge_links(self, n_workers: int) -> list[Link] | None:
        """The link of each edge between centres.

        Raises
        ------
        ValueError
            If they are of another number of centres, or one never delivers anything.
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
        """Of each centre, of each edge and of each worker; see `centre`."""
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
        """Of a centre, and of an edge's ends, the first worker; of a worker, that one."""
        first = np.unique(groups_of(self.centres, n_workers), return_index=True)[1]
        senders, readers = np.array(self.edges(n_workers)).T
        return {
            **dict.fromkeys(("mirror", "total", "clock", "small", "course"), first),
            **dict.fromkeys(("sent", "owed"), senders),
            "got_number": readers,
            **dict.fromkeys(("waits", "holds", "passes"), np.arange(n_workers)),
        }

    def checkpointed_owners(self, n_workers: int) -> dict[str, np.ndarray]:
        """What readers have got, what workers' changes count from, and centres' clocks before."""
        first = np.unique(groups_of(self.centres, n_workers), return_index=True)[1]
        readers = np.array(self.edges(n_workers))[:, 1]
        return {
            "got": readers,
            **dict.fromkeys(("base", "outer"), np.arange(n_workers)),
            "before": first,
        }

    def begin(self, arrays: Mapping[str, np.ndarray], vector: np.ndarray) -> None:
        """Have all mirrors, and all workers, begin with the run's vector."""
        for name in ("first", "mirror", "base"):
            arrays[name][:] = vector

    def adopts(self, me: int, arrays: Mapping[str, np.ndarray]) -> bool:
        """No: who joins late begins where its changes count from, and soon has the mirror."""
        return False

    def resume(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Have what was under way, and not taken, be residuals again; no clock has been told.

        Where a centre had died all begin with the others' model, which nothing is owed to.
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
        if not self.shares_rows:  # else workers' clocks go on, and centres' with them
            arrays["before"][:] += arrays["clock"]
        arrays["clock"][:] = 0

    def bury(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Note which centres have died."""
        alive = np.bincount(groups_of(self.centres, len(dead)), ~dead) > 0
        arrays["lost"][:] = ~alive & alive.any()  # of all, the model is what they have left

    def agree(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Have all mirrors the same of what a centre that has died had sent: the mean.

        Else they would stay apart by that, and what each learns with them. Where a centre's workers
        write its mirror as they go, nobody moves it.
        """
        self.bury(arrays, dead)
        if self.is_direct or not arrays["lost"].any():
            return
        overlay, there = self._overlay(len(dead)), arrays["lost"] == 0
        for lost in np.flatnonzero(~there):
            come = [e for e, (a, b) in enumerate(overlay.edges) if a == lost and there[b]]
            mean = arrays["got"][come].mean(axis=0) if come else 0.0
            for edge in come:
                change = mean - arrays["got"][edge]
                arrays["got"][edge] += change
                arrays["mirror"][overlay.edges[edge][1]] += change
                for way in overlay.passes_on[edge]:
                    arrays["residual"][way] += change
                    arrays["open"][way] = centre_edges.OPEN

    def finish(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The run is over: residuals are flushed."""
        arrays["over"][0] = 1
        arrays["owed"][:] = arrays["residual"].any(axis=1)

    def model(self, homes: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """The mean of the mirrors; at the end what all are when residuals have come everywhere.

        A centre that has died counts by what it had sent.
        """
        if arrays["lost"].any():
            return self._others_model(arrays)
        if arrays["over"][0] and self.flush and self._is_owed(arrays):
            return np.asarray(arrays["first"] + arrays["total"].sum(axis=0))
        return np.asarray(arrays["mirror"].mean(axis=0))

    def _others_model(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Without centres that have died: the mean of the others' mirrors, flushed at the end.

        What a dead one had sent is in the others' mirrors, in some more than in others.
        """
        there = arrays["lost"] == 0
        if not (arrays["over"][0] and self.flush):
            return np.asarray(arrays["mirror"][there].mean(axis=0))
        found = arrays["first"] + arrays["total"][there].sum(axis=0)
        for dead in np.flatnonzero(~there):
            come = [
                arrays["got"][edge]
                for edge, (sender, to) in enumerate(self._edges_of_centres(len(arrays["rounds"])))
                if sender == dead and there[to]
            ]
            if come:
                found += np.mean(come, axis=0)
        return np.asarray(found)

    def _is_owed(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether a change of some centre is not in every mirror."""
        posted = arrays["sent"][:, :, centre_exchange.MESSAGES].sum(axis=1)
        return bool(arrays["owed"].any() or (arrays["got_number"] != posted).any())

    # -- a worker

    def _filter(self) -> significance.Filter:
        return significance.Filter(self.significance, self.threshold, self.decay, self.soft)

    def after_block(self, home: Any) -> Generator[Any, bool, None]:
        """Exchange with the centre, and by it with the others."""
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
        """What a run has to be warned of, of which nothing was significant."""
        passed, of = arrays["course"][:, :, : centre_exchange.C_BYTES].sum(axis=(0, 1))
        if not self.flush or passed or not of:
            return None
        return (
            "No change was significant, and at the end the model is the sum of what each centre "
            "has learnt by itself: lower the threshold, or take flush=False for the mean."
        )

    def kind_of(self, round: int, n_places: int, n_dense: int) -> str:
        """Whether a message names values to come, or has some, or a clock alone."""
        if round % centre_exchange.KINDS_OF_ROUND:
            return KINDS[centre_exchange.BARRIER]
        return KINDS[centre_exchange.UPDATE if n_places + n_dense else centre_exchange.CLOCK]

    def account(self, arrays: Mapping[str, np.ndarray], n_workers: int) -> Exchanges:
        """What its centres have sent, and for what its workers have waited."""
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
