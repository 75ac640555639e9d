"""A model for every worker, averaged over the edges of a sparse graph: stochastic reduce.

For the writers and readers of the arrays see `hogshare.planes.replicas.reducer`. Messages use
`hogshare.kernels.mail.edge_slots` with acknowledgements, and `hogshare.kernels.mail.register`
without them. The session's owner frees the arrays.
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

CHOICES = {
    "sync": ("notify-ack", "bsp", "async"),
    "send": ("model", "change"),
    "fold": ("mean", "sum"),
    "rows": ("share", "claimed"),
}
# rough times for "auto", constant across machines: the same data must give the same rounds
ROW_NS, VALUE_NS, REDUCE_NS, NUMBER_NS = 50.0, 3.0, 200_000.0, 4.0
REDUCE_SHARE = 4.0  # the rows between two reduces take this many times as long as a reduce
FEWEST_REDUCES = 4  # fewest reduces in an epoch


@dataclass(frozen=True, eq=False)
class Replicas(Plane):
    """A model for each worker, averaged with its in-neighbours' models at a fixed interval of rows.

    Every worker trains on its share of the rows, with compiled kernels or with a gradient. After
    each interval of `every` rows, it *reduces*: it posts its model to its out-neighbours in the
    graph, and continues from the weighted average of its own model and the models of its
    in-neighbours. In each round of reduces, a worker sends one message to each out-neighbour,
    regardless of the number of workers (`hogshare.topology`).

    Parameters
    ----------
    graph : str, array, networkx graph, callable or list, default="root"
        The edges between workers: "all", "star", "ring", "root", "random", "exponential",
        "one-peer" or "hypercube"; an array whose entry [i, j] says whether i sends to j; or a
        function of the number of workers. The graphs of a list are used in rotation, one per round.
    every : "auto" or int, default="auto"
        Number of rows of a worker between two reduces, in whole blocks: a multiple of the rule's
        `batch`, or of `block` if `solve` has one. For gradients without `batch` and `block`, a
        number above 64 must be a multiple of 64. Every epoch ends with a reduce. "auto": reduces
        take about a fifth of the time, and there are at least four in an epoch; with gradients, a
        reduce follows every block. The choice depends on the data, never on measured time.
    sync : {"notify-ack", "bsp", "async"}, default="notify-ack"
        "notify-ack": a reduce waits for this round's message of every in-neighbour, and
        acknowledges the message after use. A message is sent when the previous message of the edge
        has been acknowledged. Every reduce uses all messages, and a worker is never more than a
        round ahead of its neighbours. "bsp": all workers wait at a barrier, and then use the
        messages that have come. "async": a worker uses the messages that have come, without
        waiting. With ``rows="share"``, it does not wait at an epoch's end. Without
        acknowledgements, a message may overwrite the previous message. A reduce leaves out messages
        that the worker has already used, and torn messages (the rounds before and after the values
        differ). The remaining weights are rescaled to sum to one.
    queue : int, default=1
        Number of messages of an edge that may be under way, and therefore the number of rounds by
        which a worker may be ahead.
    send : {"model", "change"}, default="model"
        The content of a message: the model, or its change since the last message. The reader
        reconstructs the model from the changes. Only the nonzero values are sent, with their
        places, if this is shorter. "change" needs "notify-ack", because a lost change is never sent
        again.
    fold : {"mean", "sum"}, default="mean"
        "mean": continue from the average. "sum", only for changes: add the steps of the
        in-neighbours to the worker's own steps. A worker's steps then reach only its direct
        neighbours.
    rows : {"share", "claimed"}, default="share"
        "share": each worker has its own rows, which are assigned in rotation. A run with
        "notify-ack" and a seed is then the same bit for bit in threads, in processes and on a
        virtual clock. "claimed": workers claim blocks of all rows, so a slow worker trains on fewer
        rows, and the bits may vary. Behind `BSP` in one process or one machine's processes they do
        not; there an epoch needs at least as many blocks as workers, except with ``sync="async"``.
    weights : {"auto", "uniform", "metropolis", "push-sum"} or array, default="auto"
        The weights of averages; see `hogshare.topology.mixing_weights`. "auto": weights that give
        all workers the same influence, if the graph has such weights.
    final : "mean" or int, default="mean"
        The run's model. "mean": the average over the workers. A number: the model of this worker.
    patience : float or None, default=20.0
        Factor of the time after which a waiting worker leaves out another worker whose message has
        not come. The time is `patience` times the usual time of the waiting worker's rounds, and at
        least a second. (The usual time is their mean plus four standard deviations; waits that have
        met the limit are not part of it.) A worker that is itself waiting is never left out. A
        worker that sends again is included again. None: no limit.

    Notes
    -----
    Source: Kadav and Kruus 2016 (ASAP). Departures: (1) the root graph is the additive one,
    (2) weights are checked, (3) a message has its round both before and after its values, and (4) a
    dead worker is removed from the graph (`topology.without`). `docs/replicas.md` helps to choose a
    graph.

    If weights are doubly stochastic and no worker is left out, reduces do not change the average of
    the workers' models: only steps do. If a worker dies, the survivors train on its rows.

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
        for name, known in CHOICES.items():
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
                f"send='change' needs sync='notify-ack': with sync={self.sync!r} a message may be "
                "lost, and a lost change is never sent again. Use send='model'."
            )
        if self.fold == "sum" and self.send != "change":
            raise ValueError(
                f"fold='sum' adds up workers' changes, and models do not add up: got "
                f"send={self.send!r}; use send='change'."
            )
        if self._is_push_sum and (self.send == "change" or self.sync != "notify-ack"):
            raise ValueError(
                "weights='push-sum' needs send='model' and sync='notify-ack', because it divides "
                f"by the mass of all messages, and none may be lost; got send={self.send!r} and "
                f"sync={self.sync!r}."
            )

    @property
    def _is_push_sum(self) -> bool:
        return isinstance(self.weights, str) and self.weights == "push-sum"

    @property
    def whose(self) -> int | None:  # type: ignore[override]
        """The worker whose home is the model, or None if the model is the mean."""
        return None if self.final == "mean" else int(self.final)

    @property
    def is_by_mail(self) -> bool:
        """True: workers send each other models or changes, and with ``sync="bsp"`` also rounds."""
        return True

    @property
    def uses_registers(self) -> bool:  # type: ignore[override]
        """Whether messages are not acknowledged."""
        return self.sync != "notify-ack"

    moved = ("to",)

    @property
    def seen(self) -> tuple[str, ...]:  # type: ignore[override]
        """Arrays that other workers read at any moment: the posted rounds with ``sync="bsp"``."""
        return ("posted",) if self.sync == "bsp" else ()

    @property
    def shares_rows(self) -> bool:
        """Whether every worker trains on its own rows."""
        return self.rows == "share"

    @property
    def goes_on(self) -> bool:
        """Whether workers never wait for each other, not even at an epoch's end."""
        return self.sync == "async"

    @property
    def waits_for_rounds(self) -> bool:  # type: ignore[override]
        """Whether a worker waits for messages of its round."""
        return not self.goes_on

    @property
    def checkpointed(self) -> tuple[str, ...]:  # type: ignore[override]
        """Arrays that checkpoints store: the masses of push-sum."""
        return ("mass",) if self._is_push_sum else ()

    @property
    def extra(self) -> int:  # type: ignore[override]
        """Number of values of a message besides the vector: 1 with push-sum (its mass), else 0."""
        return int(self._is_push_sum)

    def rows_of_block(
        self, problem: Any, n_rows: int, n_workers: int, late_step: float
    ) -> int | None:
        """Return the number of rows between two reduces."""
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
        """Refuse blocks that do not divide `every`."""
        intervals.check(self.every, block_rows, own_rows)

    # -- the graph

    def _graphs(self, n_workers: int) -> list[np.ndarray]:
        return topology.graphs_of(self.graph, n_workers)

    def weights_of(self, n_workers: int) -> list[np.ndarray]:
        """Return a matrix of weights for each graph of the cycle.

        Raises
        ------
        ValueError
            If the graph has another number of workers or is not connected, or if the weights do not
            sum to one or do not fit the edges.
        """
        graphs = self._graphs(n_workers)
        whole = np.any(graphs, axis=0)
        if not topology.is_connected(whole):
            raise ValueError(
                f"Replicas(graph=) is not connected: its {topology.parts(whole)} parts would never "
                "agree. Add edges between them, or use graph='root'."
            )
        if self.whose is not None and self.whose >= n_workers:
            raise ValueError(
                f"final={self.whose} names no worker of the run: use one of 0 to {n_workers - 1}, "
                "or 'mean'."
            )
        if isinstance(self.weights, str):
            return [topology.mixing_weights(graph, self.weights) for graph in graphs]
        listed = self.weights if isinstance(self.weights, list) else [self.weights]
        given = [np.asarray(one, float) for one in listed]
        if len(given) != len(graphs):
            raise ValueError(
                f"weights= has {len(given)} arrays, but graph= has {len(graphs)} graphs: give one "
                "array for each graph."
            )
        for graph, one in zip(graphs, given, strict=True):
            self._check_weights(graph, one)
        return given

    @staticmethod
    def _check_weights(graph: np.ndarray, weights: np.ndarray) -> None:
        if weights.shape != graph.shape:
            raise ValueError(
                f"weights have the shape {weights.shape}, but the run has {len(graph)} workers: "
                f"use the shape {graph.shape}."
            )
        if not topology.is_row_stochastic(weights):
            worst = int(np.abs(weights.sum(axis=1) - 1.0).argmax())
            raise ValueError(
                "weights must be at least 0, and each row must sum to one; row "
                f"{worst} sums to {weights[worst].sum():.6g}."
            )
        if ((weights > 0.0) & ~(graph.T | np.eye(len(graph), dtype=bool))).any():
            i, j = np.argwhere((weights > 0.0) & ~(graph.T | np.eye(len(graph), dtype=bool)))[0]
            raise ValueError(
                f"weights[{i}, {j}] is {weights[i, j]:g}, but the graph has no edge from worker "
                f"{j} to worker {i}: set it to 0, or add the edge."
            )

    def edges(self, n_workers: int) -> list[tuple[int, int]]:
        """Return the edges of all graphs, sorted by sender."""
        if n_workers == 1:
            return []
        self.weights_of(n_workers)
        pairs = np.argwhere(np.any(self._graphs(n_workers), axis=0))
        return [(int(i), int(j)) for i, j in pairs]

    def reader_of(self, edge: int, to: int, arrays: Mapping[str, np.ndarray]) -> int:
        """Return the current reader of an edge, which a death may change."""
        return int(arrays["to"][edge]) - 1

    # -- arrays

    def arrays(self, n_params: int, n_workers: int) -> Shapes:
        """Return the counts of each worker and edge, and the base of changes."""
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
        """Return the owners: a worker owns its own rows, and the rows of its outgoing edges."""
        if n_workers == 1:
            return {}
        workers = np.arange(n_workers)
        of_workers = ("used", "counts", "waits", "rounds", "reduces", "posted", "suspects", "mass")
        senders = np.array([sender for sender, _ in self.edges(n_workers)])
        return {"sent": senders, **dict.fromkeys(of_workers, workers)}

    def begin(self, arrays: Mapping[str, np.ndarray], vector: np.ndarray) -> None:
        """Write the reader of each edge, and the base of changes."""
        if not arrays:
            return
        arrays["to"][:] = [to + 1 for _, to in self.edges(len(arrays["rounds"]))]
        if self.send == "change":
            arrays["first"][:] = vector

    def adopts(self, me: int, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether a late worker begins at the others' model; it does so only if it was left out."""
        if not arrays:
            return True
        return self.sync != "notify-ack" or bool(arrays["left_out"][me])

    def model(self, homes: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the homes' mean; with push-sum it is weighted by the homes' masses."""
        if self._is_push_sum and arrays:
            masses = arrays["mass"][(arrays["mass"] > 0.0) & (arrays["dead"] == 0)]
            if len(homes) == len(masses):  # otherwise a resumed worker has not begun
                return np.asarray(np.average(homes, axis=0, weights=masses))
        return super().model(homes, arrays)

    def bury(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Note the dead workers, whose mass no longer counts."""
        if arrays:
            arrays["dead"][:] = dead

    # -- a worker

    def enter(self, home: Any) -> None:
        """Create the worker's reducer, with its initial vector."""
        if home.n_workers > 1:
            home.attached = Reducer(home, self._settings(home.n_workers))

    def after_block(self, home: Any) -> Generator[Any, bool, None]:
        """Reduce, if a reduce is due."""
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
            # the survivors' graph of an undirected graph may be directed. Metropolis weights do not
            # exist for directed graphs, so use "auto"
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
        """Return a message's kind: all values, or some values with their places."""
        return KINDS[WHOLE if n_dense else SPARSE]

    def account(self, arrays: Mapping[str, np.ndarray], n_workers: int) -> Reduces | None:
        """Return the report of reduces; None for one worker."""
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
