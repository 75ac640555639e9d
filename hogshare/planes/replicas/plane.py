"""A model for every worker, averaged over the edges of a sparse graph: stochastic reduce.

Who writes and reads the arrays: `hogshare.planes.replicas.reducer`. Messages:
`hogshare.kernels.mail.edge_slots` with acknowledgements, `hogshare.kernels.mail.register` without.
Who frees: the session's owner.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare import topology
from hogshare.planes import intervals
from hogshare.planes.protocol import Plane, Shapes
from hogshare.planes.replicas.reducer import Reducer, ReduceSettings
from hogshare.planes.replicas.reduces import (
    KINDS,
    LATE,
    MISSING,
    SPARSE,
    TORN,
    UNSENT,
    WHOLE,
    Reduces,
)
from hogshare.system import ranges

WORDS = {
    "sync": ("notify-ack", "bsp", "async"),
    "send": ("model", "change"),
    "fold": ("mean", "sum"),
    "rows": ("share", "claimed"),
}
# of "auto": rough times, the same on every machine, so that the same data give the same rounds
ROW_NS, VALUE_NS, REDUCE_NS, NUMBER_NS = 50.0, 3.0, 200_000.0, 4.0
REDUCE_SHARE = 4.0  # rows' time between two reduces, in reduces
FEWEST_REDUCES = 4  # in an epoch


@dataclass(frozen=True, eq=False)
class Replicas(Plane):
    """A model of its own for each worker, averaged with its in-neighbours' every so many rows.

    Every worker trains on its share of the rows, by compiled kernels or by a gradient, and after
    each `every` rows *reduces*: it posts its model to its out-neighbours in the graph, and goes on
    from the weighted average of its own and its in-neighbours'. A round costs a worker as many
    messages as its out-degree, however many workers there are (`hogshare.topology`).

    Parameters
    ----------
    graph : str, array, networkx graph, callable or list, default="root"
        Who sends to whom: "all", "star", "ring", "root", "random", "exponential", "one-peer" or
        "hypercube"; an array whose entry [i, j] says whether i sends to j; or a function of the
        number of workers. A list is taken by turns, a graph for each round.
    every : "auto" or int, default="auto"
        Rows of a worker between two reduces, in whole blocks: a multiple of the rule's `batch`, of
        `block` where `solve` is given one, and above 64 of 64 where gradients have neither; at an
        epoch's end there is one in any case. "auto": so many that a reduce takes about a fifth of
        the time, at least four times in an epoch; by a gradient, after every block. By the data,
        never by time.
    sync : {"notify-ack", "bsp", "async"}, default="notify-ack"
        "notify-ack": a reduce waits for this round's message of every in-neighbour, acknowledges
        each when it has used it, and a message is sent when the one before has been acknowledged.
        Every reduce is whole, and a worker is never more than a round ahead of its neighbours.
        "bsp": all meet at a barrier, and take what is there. "async": at once, what is there; with
        rows of its own a worker does not wait at an epoch's end either.
        Without acknowledgements messages are written over each other: one that is torn, by the
        rounds around it, is left out, and so is one that has been used before; the weights of the
        rest are made to sum to one.
    queue : int, default=1
        Messages of an edge that may be on their way: so many rounds a worker may be ahead.
    send : {"model", "change"}, default="model"
        What a message holds: the model, or by how much it has changed since the last one, from
        which the in-neighbour's model is put together again. The numbers that are not zero with
        their places, where that is shorter. Changes need "notify-ack": one that is lost is lost
        for good.
    fold : {"mean", "sum"}, default="mean"
        "mean": go on from the average. "sum", of changes: add the in-neighbours' own steps to one's
        own; workers that are not neighbours never hear of each other.
    rows : {"share", "claimed"}, default="share"
        "share": each worker has rows of its own, dealt by turns. Then a run with "notify-ack" and a
        seed is the same bit for bit in threads, in processes and on a virtual clock. "claimed":
        workers claim blocks of all rows, so that a slow one trains on fewer; no promise of bits.
    weights : {"auto", "uniform", "metropolis", "push-sum"} or array, default="auto"
        What is given to whom; see `hogshare.topology.mixing_weights`. "auto": weights by which
        everybody counts the same, where the graph has any.
    final : "mean" or int, default="mean"
        Which model is the run's: the average over the workers, or that worker's.
    patience : float or None, default=20.0
        A worker whose message does not come within so many times the mean and four standard
        deviations of the rounds of the one that waits, and a second at least, is left out until it
        is heard of again; never one that only waits itself. None: it is waited for.

    Notes
    -----
    Source: Kadav and Kruus 2016 (ASAP). Departures: the root graph is the additive one, weights are
    checked, every message has its round before and after its values, and a worker that dies is
    taken out of the graph (`topology.without`). `docs/replicas.md` says which graph to take.

    The average over the workers moves by their own steps alone, where weights are doubly stochastic
    and nobody is left out. The rows of one that dies are trained on by the others.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import Replicas, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y, alpha=0.01)
    >>> run = {"n_workers": 4, "runtime": "simulator", "stop": 5, "seed": 0}
    >>> report = solve(problem, plane=Replicas("ring", every=32), **run)
    >>> report.consistency.tolist()  # every reduce has used its one in-neighbour's message
    [[0, 25], [0, 25], [0, 25], [0, 25]]
    """

    graph: Any = "root"
    every: str | int = "auto"
    sync: str = "notify-ack"
    queue: int = 1
    send: str = "model"
    fold: str = "mean"
    rows: str = "share"
    weights: Any = "auto"
    final: str | int = "mean"
    patience: float | None = 20.0
    least_patience: ClassVar[float] = 1.0  # seconds

    def __post_init__(self) -> None:
        for name, known in WORDS.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                raise ValueError(f"{name} must be one of {list(known)}; got {value!r}.")
        ranges.store_whole(1, self, "queue")
        ranges.store_rows(self, "every")
        if self.patience is not None:
            ranges.positive(patience=self.patience)
        if not (isinstance(self.final, str) and self.final == "mean"):
            if not ranges.is_integer(self.final):
                raise ValueError(f"final must be 'mean' or a worker's number; got {self.final!r}.")
            ranges.store_whole(0, self, "final")
        if self.send == "change" and self.sync != "notify-ack":
            raise ValueError(
                f"send='change' needs sync='notify-ack': with {self.sync!r} a message may be lost, "
                "and a change that is lost is lost for good. Send the model."
            )
        if self.fold == "sum" and self.send != "change":
            raise ValueError(
                "fold='sum' adds up what workers have changed, and models do not add up: use "
                "send='change'."
            )
        if self._is_push_sum and (self.send == "change" or self.sync != "notify-ack"):
            raise ValueError(
                "weights='push-sum' divides by what has been received in all: that needs models, "
                "send='model', of which none is lost, sync='notify-ack'."
            )

    @property
    def _is_push_sum(self) -> bool:
        return isinstance(self.weights, str) and self.weights == "push-sum"

    @property
    def whose(self) -> int | None:  # type: ignore[override]
        """Whose home is the model."""
        return None if self.final == "mean" else int(self.final)

    @property
    def is_by_mail(self) -> bool:
        """True: models, or changes, and of ``sync="bsp"`` the rounds in which they were sent."""
        return True

    @property
    def uses_registers(self) -> bool:  # type: ignore[override]
        """Whether messages are not acknowledged."""
        return self.sync != "notify-ack"

    moved = ("to",)

    @property
    def seen(self) -> tuple[str, ...]:  # type: ignore[override]
        """Arrays that others read at any moment: the rounds for which ``sync="bsp"`` waits."""
        return ("posted",) if self.sync == "bsp" else ()

    @property
    def shares_rows(self) -> bool:
        """Whether every worker trains on rows of its own."""
        return self.rows == "share"

    @property
    def goes_on(self) -> bool:
        """Whether nobody waits for anybody, at an epoch's end as everywhere."""
        return self.sync == "async"

    @property
    def checkpointed(self) -> tuple[str, ...]:  # type: ignore[override]
        """Arrays that checkpoints keep: push-sum's masses."""
        return ("mass",) if self._is_push_sum else ()

    @property
    def extra(self) -> int:  # type: ignore[override]
        """Numbers of a message besides the vector's: push-sum's mass."""
        return int(self._is_push_sum)

    def rows_of_block(
        self, problem: Any, n_rows: int, n_workers: int, late_step: float
    ) -> int | None:
        """Rows between two reduces."""
        if n_workers == 1:
            return None
        if self.every != "auto":
            return int(self.every)
        if not problem.has_rows:
            return None
        row = ROW_NS + VALUE_NS * problem.nnz / max(1, problem.n_rows) * problem.n_columns
        degree = max(int(topology.out_degrees(one).max()) for one in self._graphs(n_workers))
        numbers = problem.n_features * problem.n_columns * (2 + 2 * degree)
        wanted = REDUCE_SHARE * (REDUCE_NS + NUMBER_NS * numbers) / row
        return max(1, min(int(wanted), n_rows // (n_workers * FEWEST_REDUCES)))

    def check_blocks(self, block_rows: int, own_rows: int) -> None:
        """Refuse blocks of which `every` is no multiple."""
        intervals.check(self.every, block_rows, own_rows)

    # -- the graph

    def _graphs(self, n_workers: int) -> list[np.ndarray]:
        return topology.graphs_of(self.graph, n_workers)

    def weights_of(self, n_workers: int) -> list[np.ndarray]:
        """What each worker gives to whom, for each of the graph's turns.

        Raises
        ------
        ValueError
            If the graph is of another number of workers, or not connected, or the weights do not
            sum to one or are for other edges.
        """
        graphs = self._graphs(n_workers)
        whole = np.any(graphs, axis=0)
        if not topology.is_connected(whole):
            raise ValueError(
                f"the graph is not connected: it has {topology.parts(whole)} parts that do not "
                "hear of each other, and would never agree."
            )
        if self.whose is not None and self.whose >= n_workers:
            raise ValueError(
                f"final={self.whose} names a worker that the run does not have: 0 to "
                f"{n_workers - 1}."
            )
        if isinstance(self.weights, str):
            return [topology.mixing_weights(graph, self.weights) for graph in graphs]
        listed = self.weights if isinstance(self.weights, list) else [self.weights]
        given = [np.asarray(one, float) for one in listed]
        if len(given) != len(graphs):
            raise ValueError(f"there are {len(graphs)} graphs, and weights for {len(given)}.")
        for graph, one in zip(graphs, given, strict=True):
            self._check_weights(graph, one)
        return given

    @staticmethod
    def _check_weights(graph: np.ndarray, weights: np.ndarray) -> None:
        if weights.shape != graph.shape:
            raise ValueError(
                f"weights have the shape {weights.shape}, and the run {len(graph)} workers."
            )
        if not topology.is_row_stochastic(weights):
            worst = int(np.abs(weights.sum(axis=1) - 1.0).argmax())
            raise ValueError(
                "weights must be at least 0, and each worker's sum to one; those of worker "
                f"{worst} sum to {weights[worst].sum():.6g}."
            )
        if ((weights > 0.0) & ~(graph.T | np.eye(len(graph), dtype=bool))).any():
            raise ValueError("weights give something to a worker that the graph has no edge from.")

    def edges(self, n_workers: int) -> list[tuple[int, int]]:
        """Edges of all turns, by sender."""
        if n_workers == 1:
            return []
        self.weights_of(n_workers)
        pairs = np.argwhere(np.any(self._graphs(n_workers), axis=0))
        return [(int(i), int(j)) for i, j in pairs]

    def reader_of(self, edge: int, to: int, arrays: Mapping[str, np.ndarray]) -> int:
        """Who reads an edge by now: after a death it may be another."""
        return int(arrays["to"][edge]) - 1

    # -- arrays

    def arrays(self, n_params: int, n_workers: int) -> Shapes:
        """Counts of each worker and of each edge, and what changes count from."""
        if n_workers == 1:
            return {}
        edges, graphs = self.edges(n_workers), self._graphs(n_workers)
        largest = max(int(topology.in_degrees(graph).max()) for graph in graphs)
        return {
            "to": ((len(edges),), "int64"),
            "sent": ((len(edges), 2, 2), "int64"),
            "used": ((n_workers, largest + 1), "int64"),
            "counts": ((n_workers, 4), "int64"),
            "waits": ((n_workers, 3), "float64"),
            "rounds": ((n_workers,), "int64"),
            "reduces": ((n_workers,), "int64"),
            "posted": ((n_workers,), "int64"),
            "suspects": ((n_workers, n_workers), "int64"),
            "left_out": ((n_workers,), "int64"),
            "mass": ((n_workers,), "float64"),  # 0 until a worker has begun
            "dead": ((n_workers,), "int64"),
            "first": ((n_params if self.send == "change" else 0,), "float64"),
        }

    def owners(self, n_workers: int) -> dict[str, np.ndarray]:
        """A worker's own rows, and those of the edges that it sends along."""
        if n_workers == 1:
            return {}
        workers = np.arange(n_workers)
        of_workers = ("used", "counts", "waits", "rounds", "reduces", "posted", "suspects", "mass")
        senders = np.array([sender for sender, _ in self.edges(n_workers)])
        return {"sent": senders, **dict.fromkeys(of_workers, workers)}

    def begin(self, arrays: Mapping[str, np.ndarray], vector: np.ndarray) -> None:
        """Write down who reads which edge, and what changes count from."""
        if not arrays:
            return
        arrays["to"][:] = [to + 1 for _, to in self.edges(len(arrays["rounds"]))]
        if self.send == "change":
            arrays["first"][:] = vector

    def adopts(self, me: int, arrays: Mapping[str, np.ndarray]) -> bool:
        """A worker that others wait for begins where they did; one that was left out, at theirs."""
        if not arrays:
            return True
        return self.sync != "notify-ack" or bool(arrays["left_out"][me])

    def model(self, homes: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """The mean; by push-sum that of what homes stand for, their masses times them."""
        if self._is_push_sum and arrays:
            masses = arrays["mass"][(arrays["mass"] > 0.0) & (arrays["dead"] == 0)]
            if len(homes) == len(masses):  # else somebody has been resumed, and not begun
                return np.asarray(np.average(homes, axis=0, weights=masses))
        return super().model(homes, arrays)

    def bury(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Note whose mass counts no longer."""
        if arrays:
            arrays["dead"][:] = dead

    # -- a worker

    def enter(self, home: Any) -> None:
        """Note what the worker begins with."""
        if home.n_workers > 1:
            home.attached = Reducer(home, self._settings(home.n_workers))

    def after_block(self, home: Any) -> Generator[Any, bool, None]:
        """Reduce, if that is due."""
        if home.n_workers == 1:
            return
        if self._is_push_sum and home.arrays["mass"][home.me] == 0.0:
            home.arrays["mass"][home.me] = 1.0
        now = home.attached.is_due()
        if now:
            yield from home.attached.reduce(now)

    def _settings(self, n_workers: int) -> ReduceSettings:
        given = self.weights if isinstance(self.weights, str) else None
        return ReduceSettings(
            graphs=self._graphs(n_workers),
            weights=self.weights_of(n_workers),
            # of an undirected graph the survivors' may be directed: Metropolis' are auto's there
            mends="auto" if given is None or given == "metropolis" else given,
            is_push_sum=self._is_push_sum,
            sync=self.sync,
            send=self.send,
            fold=self.fold,
            every=self.every,
            patience=self.patience,
            least_patience=self.least_patience,
            edges=self.edges(n_workers),
        )

    def kind_of(self, round: int, n_places: int, n_dense: int) -> str:
        """Whether a message has all values, or some with their places."""
        return KINDS[WHOLE if n_dense else SPARSE]

    def account(self, arrays: Mapping[str, np.ndarray], n_workers: int) -> Reduces | None:
        """How its reduces went."""
        if n_workers == 1:
            return None
        graphs: Sequence[np.ndarray] = self._graphs(n_workers)
        counts = arrays["counts"]
        edges = [
            (sender, self.reader_of(k, to, arrays))
            for k, (sender, to) in enumerate(self.edges(n_workers))
        ]
        return Reduces(
            consistency=arrays["used"].copy(),
            in_degree=np.max([topology.in_degrees(graph) for graph in graphs], axis=0),
            torn=counts[:, TORN].copy(),
            missing=counts[:, MISSING].copy(),
            late=counts[:, LATE].copy(),
            unsent=counts[:, UNSENT].copy(),
            edges=edges,
            sent=arrays["sent"].copy(),
            waits=arrays["waits"].copy(),
            rounds=arrays["rounds"].copy(),
            left_out=[(int(i), int(k)) for i, k in np.argwhere(arrays["suspects"])],
        )
