"""Plain descent on partitions: workers take turns from the master's model, and it folds them.

::

    master -- Pull: model, rows of a partition, step sizes -->  its owner: a compiled call
           <-- Push: the copy, the sum of losses --------------

One turn for each thread of each worker is on its way at one time. Of its partitions a worker goes
on with the one that is least far; nobody is more than an epoch ahead of the slowest partition. A
push is folded by the weights of the exchange (`folding`), which say how much of several workers'
changes may be added. Time, for the schedules of step sizes, is the number of rows that the model
has taken.

Who writes the model: the master, one push after the other, each time into new arrays: what is on
its way stays as it was sent. A turn whose worker dies is done again by another, from the same
model, as Dask does with every task; its push is then folded as one of many proposals, which it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from queue import Empty, Queue
from typing import Any

import numpy as np

from hogshare.kernels import layout, losses, schedules
from hogshare.partitioned.blocks import Meaning, Split
from hogshare.partitioned.calls import Call, Fetched
from hogshare.partitioned.folding import Weighing
from hogshare.partitioned.rows import PartitionedRows, result_of
from hogshare.partitioned.turns import Pull, Push, turn
from hogshare.planes.shared import DESCENT_SPREAD
from hogshare.problems.linear import effective_l1_ratio
from hogshare.problems.model import Model
from hogshare.rules.sgd import SGD
from hogshare.rules.steps import StepSize, optimal_start
from hogshare.system.clusters import MEMBERS_SECONDS

TURN_SECONDS = 0.01  # that handing out and taking in a turn costs; its rows should take as long
MOST_SHARE = 4  # rows per row that all workers have on their way, at least
CURVATURES = 8  # turns that tell how curved their rows are, by a vector of the model's length
FIRST_SHARE = 8  # how many times shorter the first turns are, while the model moves fast
GROWTH = 4  # rows that the model has seen per row that all workers have on their way, at least
UNLIKE = 0.2  # share of a partition's rows that would need another label to be like the others
SPARSE_INTERCEPT = 0.01  # of the features' step, as in scikit-learn
FIFTH, LEAST_ETA = 5.0, 1e-6  # of the schedule 'adaptive', as scikit-learn's
SPARSE_NS, DENSE_NS, ROW_NS = 2.0, 0.5, 20.0  # of a stored value and of a row, about


@dataclass(frozen=True)
class Settings:
    """How to descend.

    exchange : rows of a turn; None: chosen
    average : average the iterates from this many rows on; 0: do not
    most : turns on their way at one time, at most
    split : which rows are held out, by whose score a fit then ends; None: none
    heard : ``heard(epoch, value, model)`` is called after each epoch, counted from 1
    """

    step: StepSize
    epochs: int
    tol: float | None
    patience: int
    shuffle: bool
    seed: int
    average: int = 0
    exchange: int | None = None
    most: int | None = None
    split: Split | None = None
    heard: Callable[[int, float, Model], None] | None = None


@dataclass
class Descended:
    """What a descent has come to.

    absurd : whether the model is finite and useless, as `hogshare.solvers.outcome` has it
    """

    model: Model
    n_epochs: int
    converged: bool
    epoch_losses: np.ndarray
    staleness: np.ndarray
    workers: list[dict[str, Any]]
    turns: int
    turn_rows: int
    seconds: float
    notes: list[str]
    absurd: bool


@dataclass
class Place:
    """How far a partition is: its epoch, and the rows of it that have been handed out."""

    epoch: int = 0
    row: int = 0
    busy: bool = False


@dataclass
class Worker:
    """What is known of a worker, by its address."""

    busy: int = 0
    turns: int = 0
    rows: int = 0
    seconds: float = 0.0
    alone: bool = False  # nobody else has pushed between its last two pulls


@dataclass(frozen=True)
class Sent:
    """A turn on its way, on partitions that are in one epoch."""

    call: Call
    address: str
    partitions: tuple[int, ...]
    epoch: int
    pull: Pull
    version: int


class Criterion:
    """scikit-learn's, class by class: mean loss and penalty have to fall by `tol`, now and then.

    Or the score on held-out rows has to rise: then it goes by minus the score.

    active : ndarray of bool of shape (n_columns,); which classes still learn. What is learnt of
        another one no longer changes.
    """

    def __init__(self, settings: Settings, n_columns: int = 1) -> None:
        self._settings = settings
        self._best = np.full(n_columns, np.inf)
        self._in_vain = np.zeros(n_columns, int)
        self.active = np.ones(n_columns, bool)
        self.step = settings.step

    def is_met(self, values: np.ndarray) -> bool:
        """Whether learning ends after an epoch of these values; `step` may be smaller after it."""
        tol = self._settings.tol
        if tol is None:
            return False
        self._in_vain = np.where(values > self._best - tol, self._in_vain + 1, 0)
        self._best = np.minimum(self._best, values)
        vain = self.active & (self._in_vain >= self._settings.patience)
        if self.step.kind == "adaptive" and self.step.eta0 > LEAST_ETA:
            # the classes go by one step: it falls once none that learns gains by it any more
            if (vain | ~self.active).all():
                self.step = replace(self.step, eta0=self.step.eta0 / FIFTH)
                self._in_vain[:] = 0
            return False
        self.active &= ~vain
        return not self.active.any()


@dataclass
class Average:
    """The mean of all iterates, by turns; `begins` says from how many rows on."""

    begins: int
    rows: int = 0
    coef: Any = 0.0
    intercept: Any = 0.0

    def wants(self, t: float) -> bool:
        """Whether a turn that begins at that time counts."""
        return bool(self.begins) and t >= self.begins

    def add(self, copy: Model, rows: int) -> None:
        """Take the mean of a turn's iterates in."""
        self.rows += rows
        part = rows / self.rows
        self.coef = self.coef + part * (copy.average_coef - self.coef)
        self.intercept = self.intercept + part * (copy.average_intercept - self.intercept)


@dataclass
class Epochs:
    """Rows and losses of the epochs that are open, and how many have ended."""

    n_rows: int
    ended: int = 0
    rows: dict[int, int] = field(default_factory=dict)
    trained: dict[int, int] = field(default_factory=dict)
    sums: dict[int, np.ndarray] = field(default_factory=dict)
    losses: list[np.ndarray] = field(default_factory=list)

    def add(self, epoch: int, rows: int, loss: np.ndarray, trained: int) -> bool:
        """Count a turn, which has trained on some of its rows; whether the next epoch has ended."""
        self.trained[epoch] = self.trained.get(epoch, 0) + trained
        self.rows[epoch] = self.rows.get(epoch, 0) + rows
        self.sums[epoch] = self.sums.get(epoch, 0.0) + loss
        if self.rows.get(self.ended) != self.n_rows:
            return False
        del self.rows[self.ended]
        trained = max(1, self.trained.pop(self.ended))
        self.losses.append(self.sums.pop(self.ended) / trained)
        self.ended += 1
        return True


class Master:
    """Hands out turns and folds what they bring.

    rows : whose problems have been stated
    """

    def __init__(
        self, rows: PartitionedRows, meaning: Meaning, settings: Settings, start: Model
    ) -> None:
        self._rows, self._meaning, self._settings = rows, meaning, settings
        self.model = start
        self._first_t = start.t
        self._weighing = weighing(rows, meaning)
        self._curvatures: list[np.ndarray] = []  # that partitions have told, of a few of them
        self._asked = 0
        self._places = [Place() for _ in rows.facts]
        self._orders: dict[int, np.ndarray] = {}
        self._draws = np.random.default_rng(settings.seed)
        self._sent: dict[int, Sent] = {}
        self._back: Queue[tuple[int, Fetched]] = Queue()  # written by Dask's thread
        self._workers: dict[str, Worker] = {}
        self._staleness = np.zeros(layout.HISTOGRAM, np.int64)
        self._criterion = Criterion(settings, len(start.intercept))
        self._average = Average(settings.average)
        self._epochs = Epochs(rows.n_rows)
        self._version = self._number = 0
        self._worth = max(1, int(TURN_SECONDS * 1e9 / row_nanoseconds(rows)))
        self._unlike = rows.unlikeness() > UNLIKE
        self._absurd: dict[int, bool] = {}  # by partition, as its last turn has found
        self._score = None if settings.split is None else rows.held_out(settings.split)

    def run(self) -> Descended:
        """Go on until the criterion is met or all epochs are done."""
        began = time.perf_counter()
        converged = False
        try:
            while self._epochs.ended < self._settings.epochs and not converged:
                self._hand_out()
                for number, fetched in self._come_back():
                    if number not in self._sent or self._sent[number].call.fetched is not fetched:
                        continue  # it has been made again since
                    push = result_of(fetched)
                    sent = self._sent.pop(number)
                    self._rows.taken(sent.call)
                    converged = self._take_in(sent, push) or converged
        finally:
            self._rows.cancel([sent.call for sent in self._sent.values()])
        return Descended(
            model=self._whole_model(),
            n_epochs=self._epochs.ended,
            converged=converged,
            epoch_losses=np.array([np.mean(losses) for losses in self._epochs.losses]),
            staleness=self._staleness[: max(1, 1 + self._staleness.nonzero()[0].max(initial=0))],
            workers=self._table(),
            turns=self._number,
            turn_rows=self._turn_rows(),
            seconds=time.perf_counter() - began,
            notes=self._notes(),
            absurd=any(self._absurd.values()),
        )

    def _hand_out(self) -> None:
        """Give every thread that is idle a turn on one of its worker's partitions."""
        most = self._settings.most
        for address, threads in self._rows.there().items():
            worker = self._workers.setdefault(address, Worker())
            while worker.busy < threads and (most is None or len(self._sent) < most):
                waiting = self._waiting(address)
                if not waiting:
                    break
                self._send(address, waiting[: -(-len(waiting) // (threads - worker.busy))])

    def _waiting(self, address: str) -> list[int]:
        """A worker's partitions that may go on and are in one epoch, the least far first."""
        last = min(self._epochs.ended + 1, self._settings.epochs - 1)
        ready = [
            (place.epoch, place.row / self._rows.sizes[p], int(self._order(place.epoch)[p]), p)
            for p, place in enumerate(self._places)
            if self._rows.owners.of[p] == address and not place.busy and place.epoch <= last
        ]
        ready.sort()
        return [p for epoch, _, _, p in ready if epoch == ready[0][0]]

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            self._orders.pop(epoch - 3, None)
            count = len(self._places)
            self._orders[epoch] = (
                self._draws.permutation(count) if self._settings.shuffle else np.arange(count)
            )
        return self._orders[epoch]

    def _turn_rows(self) -> int:
        """Rows of a turn now: as many as take as long as its overhead, fewer at first.

        All workers together have no more than a quarter of the rows on their way, an eighth where
        that is long enough; of partitions with unlike labels, of which a long turn makes the model
        forget the others, always.
        """
        if self._settings.exchange is not None:
            return self._settings.exchange
        workers = max(1, sum(self._rows.there().values()))
        worth = max(1, min(self._worth, self._rows.n_rows // (MOST_SHARE * workers)))
        spread = self._rows.n_rows // (DESCENT_SPREAD * workers)
        most = min(worth, spread) if self._unlike else max(worth, spread)
        seen = int(self.model.t - self._first_t) // (GROWTH * workers)
        return max(1, min(most, max(worth // FIRST_SHARE, seen)))

    def _send(self, address: str, waiting: list[int]) -> None:
        """Have a worker take a turn on the first of its partitions, or on several small ones."""
        wanted, rows = self._turn_rows(), 0
        partitions: list[int] = []
        spans: list[tuple[int, int]] = []
        for p in waiting:
            place, size = self._places[p], int(self._rows.sizes[p])
            # what is left is cut evenly, so that no turn is a handful of rows
            count = max(1, round((size - place.row) / wanted))
            last = place.row - (place.row - size) // count
            if partitions and rows + last - place.row > min(wanted, self._worth):
                break  # more than a turn's worth would be more in memory than need be
            partitions.append(p)
            spans.append((place.row, last))
            rows += last - place.row
            place.busy, place.row = True, last
        pull = Pull(
            model=self.model,
            spans=tuple(spans),
            step=constant(self._criterion.step),
            shuffle=self._settings.shuffle,
            average=self._average.wants(self.model.t),
            curvature=self._asked < CURVATURES,
            seed=int(self._draws.integers(np.iinfo(np.int32).max)),
            numbers=tuple(partitions),
            split=self._settings.split,
        )
        self._asked += pull.curvature
        number, self._number = self._number, self._number + 1
        problems = [self._rows.problems[p] for p in partitions]
        call = self._rows.submit(turn, pull, *problems, partition=partitions[0])
        epoch = self._places[partitions[0]].epoch
        self._sent[number] = Sent(call, address, tuple(partitions), epoch, pull, self._version)
        self._workers[address].busy += 1
        # fetched by a thread of Dask's: the master folds in the meantime
        self._rows.fetch(call, lambda _, fetched: self._back.put((number, fetched)))

    def _come_back(self) -> list[tuple[int, Fetched]]:
        """Turns that are over, by number; waits for the first of them, not for long."""
        try:
            found = [self._back.get(timeout=MEMBERS_SECONDS)]
        except Empty:
            return []
        while not self._back.empty():
            found.append(self._back.get())
        return found

    def _take_in(self, sent: Sent, push: Push) -> bool:
        """Fold what a turn has brought; whether the criterion is met."""
        pull = sent.pull
        worker = self._workers[sent.address]
        behind = self._version - sent.version
        live = sum(other.busy for other in self._workers.values())
        proposals = 1 if behind == 0 and worker.alone else max(1 + behind, live)
        self._fold(push, pull, proposals)
        self._version += 1
        self._staleness[min(behind, layout.HISTOGRAM - 1)] += 1
        worker.alone = behind == 0
        worker.busy -= 1
        worker.turns += 1
        worker.rows += pull.n_rows
        worker.seconds += push.seconds
        met = False
        told = zip(sent.partitions, pull.spans, push.losses, push.trained, strict=True)
        for p, (first, last), loss, trained in told:
            place = self._places[p]
            place.busy = False
            if last == self._rows.sizes[p]:
                place.epoch, place.row = place.epoch + 1, 0
            self._absurd[p] = push.absurd
            if self._epochs.add(sent.epoch, last - first, loss, trained):
                met = self._end_epoch() or met
        return met

    def _end_epoch(self) -> bool:
        """Tell of an epoch, and whether the criterion is met."""
        values = self._epochs.losses[-1] + self._penalties()
        if self._settings.heard is not None:
            self._settings.heard(self._epochs.ended, float(values.sum()), self.model)
        if self._score is not None:
            values = -self._score(self.model)
        return self._criterion.is_met(values)

    def _fold(self, push: Push, pull: Pull, proposals: int) -> None:
        if push.curvature is not None:
            self._curvatures.append(push.curvature)
            known = np.mean(self._curvatures, axis=0)
            self._weighing = replace(self._weighing, curvature=known)
        if not (rows := sum(push.trained)):
            return
        eta = eta_at(self._criterion.step, self._meaning, pull.model.t + 0.5 * rows)
        model = self._weighing.fold(self.model, pull.model, push.model, eta, rows, proposals)
        if not (learns := self._criterion.active).all():
            coef = np.where(learns[:, np.newaxis], model.coef, self.model.coef)
            model = replace(
                model,
                coef=coef,
                intercept=np.where(learns, model.intercept, self.model.intercept),
            )
        if not model.is_finite():
            raise ValueError(
                "Floating-point under-/overflow occurred: the model has left the range of floats. "
                f"Scale the input (StandardScaler); {SGD().remedy(self._settings.step)} might help "
                "too."
            )
        self.model = replace(model, t=self.model.t + rows)
        if pull.average:
            self._average.add(push.model, rows)

    def _penalties(self) -> np.ndarray:
        """Of each class."""
        coef = self.model.coef.astype(np.float64)
        squares, absolutes = 0.5 * np.square(coef).sum(axis=1), np.abs(coef).sum(axis=1)
        return np.asarray(self._weighing.l2 * squares + self._weighing.l1 * absolutes)

    def _whole_model(self) -> Model:
        if not self._average.rows:
            return self.model
        dtype = self.model.coef.dtype
        return replace(
            self.model,
            average_coef=self._average.coef.astype(dtype),
            average_intercept=self._average.intercept.astype(dtype),
        )

    def _table(self) -> list[dict[str, Any]]:
        there = self._rows.there()
        return [
            {
                "worker": number,
                "address": address,
                "state": "idle" if address in there else "gone",
                "blocks": worker.turns,
                "rows": worker.rows,
                "pushes": worker.turns,
                "mean_block_seconds": worker.seconds / max(1, worker.turns),
            }
            for number, (address, worker) in enumerate(self._workers.items())
        ]

    def _notes(self) -> list[str]:
        there = self._rows.there()
        gone = [address for address in self._workers if address not in there]
        count = len(self._places)
        noted = [f"{count} partitions in {self._number} turns; no rows came to the master"]
        if gone:
            noted.append(f"workers that left on the way, whose turns others did: {', '.join(gone)}")
        return noted


def descend(rows: PartitionedRows, meaning: Meaning, settings: Settings, start: Model) -> Descended:
    """Minimise on partitions by plain descent.

    Raises ValueError if the model leaves the range of floats; RuntimeError if the cluster has given
    up a task, or has no workers any more.
    """
    rows.state(meaning)
    return Master(rows, meaning, settings, start).run()


def weighing(rows: PartitionedRows, meaning: Meaning) -> Weighing:
    """What the exchange's weights of a problem go by; curvatures come with the first pushes."""
    ratio = effective_l1_ratio(meaning.penalty, meaning.l1_ratio)
    alpha = 0.0 if meaning.penalty is None else meaning.alpha
    decay = SPARSE_INTERCEPT if rows.facts[0].is_sparse else 1.0
    bound = float(losses.CURVATURE[losses.CODES[meaning.loss]])
    flat = np.zeros(rows.n_features)
    return Weighing(flat, bound * decay, alpha * ratio, alpha * (1.0 - ratio))


def eta_at(step: StepSize, meaning: Meaning, t: float) -> float:
    """The step size at a time."""
    alpha = meaning.alpha
    init = 0.0
    if step.kind == "optimal":
        init = optimal_start(meaning.loss, meaning.epsilon, alpha)
    code = schedules.CODES[step.kind]
    return float(schedules.step_size(code, step.eta0, step.power_t, alpha, init, t))


def constant(step: StepSize) -> StepSize:
    """What a turn steps by: between two epochs an adaptive step does not change."""
    return replace(step, kind="constant") if step.kind == "adaptive" else step


def row_nanoseconds(rows: PartitionedRows) -> float:
    """About how long a row takes a worker, whatever its machine is."""
    values = sum(fact.nnz for fact in rows.facts) / rows.n_rows
    return ROW_NS + values * (SPARSE_NS if rows.facts[0].is_sparse else DENSE_NS)
