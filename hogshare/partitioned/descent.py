"""Plain descent on partitions: rounds of quanta from one model, each a task of the cluster.

::

    client -- an epoch's tasks, before the last ones have ended --> scheduler
    worker: fold the last round's pushes, step along own rows, push --> workers of the next round
    client <-- the state at each epoch's end ----------------------

No model passes through the client between two rounds. The scheduler is the one queue: it hands a
task to a worker once what the task needs is there, and again to another one if the worker dies.
Rows are in a quantum of their owner (`owners`), and in which round says `schedule`.

Who writes the state: nobody; a task makes the next one from it (`state`): where there are two
lanes, each for itself, to the same bits; where there are more, one task for all. Who reads: the
tasks of the next round, and the client. Who frees: the client, which lets go of a round once the
next one is submitted, and of an epoch's last one once its state has come. The scheduler remembers
what a task was made from as long as the task is wanted, so the client now and then waits, and
begins a new chain at a state that it has; there the descent goes on, too, after a worker has left.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from hogshare.partitioned.cluster_calls import ClusterCall, Fetched
from hogshare.partitioned.lane_quanta import Pull, Push, steps_along
from hogshare.partitioned.partition_blocks import Meaning, Split, held_out_part
from hogshare.partitioned.partitioned_rows import PartitionedRows, result_of
from hogshare.partitioned.schedule import Lane, Quantum, lanes_of, rounds_of
from hogshare.partitioned.state import (
    CURVATURES,
    Average,
    Criterion,
    DescentState,
    DescentTerms,
    constant,
    folded,
    weighing_of,
)
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.rules.steps import StepSize
from hogshare.system.clusters import MEMBERS_SECONDS

EACH_FOLDS = 2  # lanes, at most, that fold for themselves: one task less in a round, but more bytes
AHEAD = 3  # epochs whose tasks are on the cluster at one time
CHAIN_SECONDS = 2.0  # of tasks that are made from each other, before a new chain begins
WHOLE_BYTES = 2**20  # of a model, at most, that comes to the client after every epoch
MOST_RESTARTS = 10  # since workers have left, without an epoch in between
UNLIKE = 0.2  # share of a partition's rows that would need another label to be like the others
ROUNDS, UNLIKE_ROUNDS = 8, 16  # of an epoch with several lanes, at least
ROUND_SECONDS, TASK_SECONDS = 0.005, 0.001  # that Dask takes for a round, and for each of its tasks
SPARSE_NS, DENSE_NS, ROW_NS = 2.0, 0.5, 20.0  # of a stored value and of a row, about


@dataclass(frozen=True)
class DescentSettings:
    """How to descend.

    exchange : rows of a quantum; None: chosen
    average : average the iterates from this many rows on; 0: do not
    most : quanta on their way at one time, at most
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

    quantum_rows : of the largest quantum
    absurd : whether the model is finite and useless, as `hogshare.solvers.outcome` has it
    """

    model: Model
    n_epochs: int
    converged: bool
    epoch_losses: np.ndarray
    staleness: np.ndarray
    workers: list[dict[str, Any]]
    quantum_rows: int
    seconds: float
    notes: list[str]
    absurd: bool


class Advanced(NamedTuple):
    """What a lane has made of a round: the state that it began at, and its push."""

    state: DescentState
    push: Push


class RoundPlan(NamedTuple):
    """What a lane is to do in a round.

    number : of the lane among those of the round
    is_alone : whether no other lane is in the round
    only_scores : no steps: count what held-out rows score
    """

    quantum: Quantum
    number: int
    is_alone: bool
    seed: int
    shuffle: bool
    split: Split | None
    only_scores: bool = False


def state_of(terms: DescentTerms, *parts: Any) -> DescentState:
    """The state after a round."""
    if isinstance(parts[0], DescentState):
        return parts[0]
    return folded(parts[0].state, terms, [part.push for part in parts])


def advance(
    plan: RoundPlan, terms: DescentTerms, n_parts: int, *args: Any
) -> Advanced | DescentState:
    """On a worker: what a lane makes of a round; who is alone in it folds at once.

    args : what the lanes have come to in the last round, so many, and problems of partitions
    """
    state = state_of(terms, *args[:n_parts])
    push = Push() if state.has_ended else pushed(plan, state, args[n_parts:])
    return folded(state, terms, [push]) if plan.is_alone else Advanced(state, push)


def pushed(plan: RoundPlan, state: DescentState, problems: tuple[RowProblem, ...]) -> Push:
    """Steps along a quantum's rows, or what its held-out rows score."""
    spans = plan.quantum.spans
    if plan.only_scores:
        assert plan.split is not None
        counts = [
            held_out_part(problem, plan.split, p).counts(state.model)
            for problem, (p, _, _) in zip(problems, spans, strict=True)
        ]
        return Push(counts=np.sum(counts, axis=0))
    pull = Pull(
        model=state.model,
        spans=tuple((first, last) for _, first, last in spans),
        step=constant(state.criterion.step),
        shuffle=plan.shuffle,
        average=state.average.wants(state.model.t),
        curvature=not plan.is_alone and state.curvatures + plan.number < CURVATURES,
        seed=plan.seed,
        partitions=tuple(p for p, _, _ in spans),
        split=plan.split,
        address=plan.quantum.address,
    )
    return steps_along(pull, *problems)


def epoch_of(terms: DescentTerms, is_whole: bool, *parts: Any) -> DescentState:
    """The state after an epoch, for the client; without its vectors unless they are asked for."""
    state = state_of(terms, *parts)
    if is_whole:
        return state
    empty = Model(state.model.coef[:, :0], state.model.intercept, state.model.t)
    return replace(state, model=empty, average=Average(0), curvature=0.0)


@dataclass(frozen=True)
class Epoch:
    """An epoch whose tasks are on the cluster.

    news, fetched : its state, for the client, and what will have it there
    last : its last round, which the cluster keeps as long as these are kept
    is_whole : whether the news has the model
    """

    news: ClusterCall
    fetched: Fetched
    last: list[Any]
    is_whole: bool


@dataclass
class Chain:
    """Tasks that are made from each other, from a state that the client has.

    parts : what the next round begins at
    epochs : whose news has not come yet
    """

    parts: list[Any]
    submitted: int
    began: float = field(default_factory=time.monotonic)
    epochs: deque[Epoch] = field(default_factory=deque)

    @property
    def is_long(self) -> bool:
        """Whether a new one should begin."""
        return time.monotonic() - self.began > CHAIN_SECONDS


class PartitionedDescent:
    """Submits rounds, and takes news of epochs.

    rows : whose problems have been stated
    """

    def __init__(
        self, rows: PartitionedRows, meaning: Meaning, settings: DescentSettings, start: Model
    ) -> None:
        self._rows, self._settings = rows, settings
        scores = None if settings.split is None else rows.scores(settings.split)
        weighing = weighing_of(meaning, rows.facts[0].is_sparse)
        self._terms = DescentTerms(meaning, rows.n_rows, weighing, scores)
        criterion = Criterion.of(
            settings.step, settings.tol, settings.patience, len(start.intercept)
        )
        self._state = DescentState(
            start, criterion, Average(settings.average)
        )  # the last whole one
        self._always_whole = settings.heard is not None or start.coef.nbytes <= WHOLE_BYTES
        self._mean_losses: list[float] = []
        self._is_mixed = rows.unlikeness() > UNLIKE
        self._largest = self._restarts = 0
        self._known = rows.workers_present()
        self._gone: set[str] = set()

    def run(self) -> Descended:
        """Go on until the criterion is met or all epochs are done."""
        began = time.perf_counter()
        chain = self._new_chain()
        try:
            while self._state.n_epochs < self._settings.epochs and not self._state.has_ended:
                self._submit_epochs(chain)
                if self._is_alive(chain) and chain.epochs:
                    continue
                self._cancel(chain)
                chain = self._new_chain()
        finally:
            self._cancel(chain)
        state = self._state
        model, average = state.model, state.average
        if average.rows:
            model = replace(
                model,
                average_coef=average.coef.astype(model.coef.dtype),
                average_intercept=average.intercept.astype(model.coef.dtype),
            )
        return Descended(
            model=model,
            n_epochs=state.n_epochs,
            converged=state.has_ended,
            epoch_losses=np.array(self._mean_losses),
            staleness=np.array(state.staleness or (0,), np.int64),
            workers=self._table(),
            quantum_rows=self._largest,
            seconds=time.perf_counter() - began,
            notes=self._notes(),
            absurd=any(state.absurd.values()),
        )

    def _new_chain(self) -> Chain:
        del self._mean_losses[self._state.n_epochs :]
        return Chain([self._state], self._state.n_epochs)

    def _submit_epochs(self, chain: Chain) -> None:
        """Have the tasks of some epochs on the cluster."""
        while chain.submitted < self._settings.epochs and len(chain.epochs) < AHEAD:
            if chain.epochs and chain.is_long:
                return  # it runs dry
            chain.epochs.append(self._submit_epoch(chain))
            chain.submitted += 1

    def _submit_epoch(self, chain: Chain) -> Epoch:
        rows, settings, number = self._rows, self._settings, chain.submitted
        draws = np.random.default_rng([settings.seed, number])
        count = len(rows.facts)
        order = draws.permutation(count) if settings.shuffle else np.arange(count)
        threads = rows.workers_present()
        most = min(sum(threads.values()), settings.most or sys.maxsize)
        if settings.exchange is None and not self._is_mixed:
            most = lanes_that_pay(epoch_seconds(rows), most, len(threads))
        lanes = lanes_of(rows.owners.partitions(order), threads, most)
        keep = chain.parts  # by the epoch before: who waits for its news may want them
        for quanta in rounds_of(lanes, rows.sizes, self._rounds(lanes), self._is_mixed):
            self._submit_round(chain, quanta, draws, keep)
        if settings.split is not None:
            mine = rows.owners.partitions()
            (quanta,) = rounds_of(lanes_of(mine, {}, len(mine)), rows.sizes, 1, False)
            self._submit_round(chain, quanta, draws, keep, only_scores=True)
        is_whole = self._always_whole or number + 1 == settings.epochs
        news = rows.submit(epoch_of, self._terms, is_whole, *chain.parts, partition=0)
        return Epoch(news, news.fetch(), chain.parts, is_whole)

    def _submit_round(
        self,
        chain: Chain,
        quanta: list[Quantum],
        draws: np.random.Generator,
        keep: list[Any],
        *,
        only_scores: bool = False,
    ) -> None:
        """Submit a round, and let go of the one before unless it is to be kept.

        The cluster then has it until this one is done, and no longer.
        """
        rows, settings = self._rows, self._settings
        done = [] if chain.parts is keep else chain.parts
        if len(chain.parts) > EACH_FOLDS:
            chain.parts = [rows.submit(state_of, self._terms, *chain.parts, partition=0)]
            done = done + chain.parts
        parts = []
        for number, quantum in enumerate(quanta):
            seed = int(draws.integers(np.iinfo(np.int32).max))
            plan = RoundPlan(
                quantum,
                number,
                len(quanta) == 1,
                seed,
                settings.shuffle,
                settings.split,
                only_scores,
            )
            self._largest = max(self._largest, 0 if only_scores else quantum.n_rows)
            problems = [rows.problems[p] for p, _, _ in quantum.spans]
            given = (plan, self._terms, len(chain.parts), *chain.parts, *problems)
            parts.append(rows.submit(advance, *given, partition=quantum.spans[0][0]))
        chain.parts = parts
        for call in done:
            call.release()

    def _rounds(self, lanes: list[Lane]) -> int:
        """Rounds in which a lane goes over what it has of a worker."""
        longest = max(map(len, lanes))
        if self._settings.exchange is not None:
            shared = len(lanes) * longest * self._settings.exchange
            return max(1, round(self._rows.n_rows / shared))
        if self._is_mixed:
            return UNLIKE_ROUNDS  # a long quantum makes the model forget other labels
        return -(-ROUNDS // longest) if len(lanes) > 1 else 1

    def _is_alive(self, chain: Chain) -> bool:
        """Wait for the news of an epoch; False if a worker has left, and the chain with it.

        Raises ValueError, TypeError or MemoryError as a task has; RuntimeError if the cluster has
        given one up, or has no workers any more.
        """
        epoch = chain.epochs[0]
        while not wait([epoch.fetched], MEMBERS_SECONDS).done:
            if self._has_lost():
                return False
        try:
            state: DescentState = result_of(epoch.fetched)
            is_last = len(chain.epochs) == 1
            is_needed = not epoch.is_whole and (state.has_ended or is_last)
            if is_needed:
                whole = self._rows.submit(epoch_of, self._terms, True, *epoch.last, partition=0)
                (state,) = self._rows.results([whole])
        except RuntimeError:
            if self._has_lost(anew=True):
                return False
            raise
        self._release(chain.epochs.popleft())
        self._take(state, epoch.is_whole or is_needed)
        return True

    def _has_lost(self, *, anew: bool = False) -> bool:
        """Whether a worker has left; `anew` as of `PartitionedRows.workers_present`.

        Raises RuntimeError if that has been so too often.
        """
        there = self._rows.workers_present(anew=anew)
        left = set(self._known) - set(there)
        self._known = there
        self._gone = (self._gone | left) - set(there)
        self._restarts += bool(left)
        if self._restarts > MOST_RESTARTS:
            raise RuntimeError(
                f"workers left {self._restarts} times before an epoch of {self._rows.n_rows} rows "
                "was done: see their logs."
            )
        return bool(left)

    def _take(self, state: DescentState, is_whole: bool) -> None:
        """Note an epoch, and tell of it."""
        self._restarts = 0
        if is_whole:
            self._state = state
        self._mean_losses.append(float(np.mean(state.mean_losses)))
        if self._settings.heard is not None:
            self._settings.heard(state.n_epochs, float(state.value.sum()), state.model)

    def _cancel(self, chain: Chain) -> None:
        """Have nobody work on a chain any more.

        By letting go of it: `Client.cancel` of tasks that are made from each other fails in the
        scheduler where some have ended.
        """
        while chain.epochs:
            self._release(chain.epochs.pop())

    def _release(self, epoch: Epoch) -> None:
        """Let go of what the cluster has of an epoch, now and not when garbage is collected.

        Tasks that are still wanted would have it keep the collections' tasks after the fit.
        """
        for call in [epoch.news, *epoch.last]:
            call.release()

    def _table(self) -> list[dict[str, Any]]:
        there = self._rows.workers_present()
        return [
            {
                "worker": number,
                "address": address,
                "state": "idle" if address in there else "gone",
                "blocks": tally.quanta,
                "rows": tally.rows,
                "pushes": tally.quanta,
                "mean_block_seconds": tally.seconds / max(1, tally.quanta),
            }
            for number, (address, tally) in enumerate(self._state.tallies.items())
        ]

    def _notes(self) -> list[str]:
        quanta = sum(tally.quanta for tally in self._state.tallies.values())
        partitions = len(self._rows.facts)
        noted = [f"{partitions} partitions in {quanta} quanta; no rows came to the client"]
        if self._gone:
            gone = ", ".join(sorted(self._gone))
            noted.append(f"workers that left on the way, whose quanta others did: {gone}")
        return noted


def epoch_seconds(rows: PartitionedRows) -> float:
    """About how long an epoch takes one thread, whatever the workers' machines are.

    By constants, and not by the clock: who does what should be the same in every fit.
    """
    values = sum(fact.nnz for fact in rows.facts)
    ns = rows.n_rows * ROW_NS + values * (SPARSE_NS if rows.facts[0].is_sparse else DENSE_NS)
    return ns * 1e-9


def lanes_that_pay(seconds: float, most: int, n_workers: int) -> int:
    """How many lanes make an epoch shortest.

    One lane goes from worker to worker, and is as good as one machine: nothing is folded. Several
    share the rows, and have to meet in every round.

    seconds : of an epoch by one thread
    """

    def epoch(lanes: int) -> float:
        if lanes == 1:
            return n_workers * (ROUND_SECONDS + TASK_SECONDS) + seconds
        return ROUNDS * (ROUND_SECONDS + lanes * TASK_SECONDS) + seconds / lanes

    return min(range(1, max(1, most) + 1), key=epoch)


def descend(
    rows: PartitionedRows, meaning: Meaning, settings: DescentSettings, start: Model
) -> Descended:
    """Minimise on partitions by plain descent.

    Raises ValueError if the model leaves the range of floats; RuntimeError if the cluster has given
    up a task, or has no workers any more.
    """
    rows.state(meaning)
    return PartitionedDescent(rows, meaning, settings, start).run()
