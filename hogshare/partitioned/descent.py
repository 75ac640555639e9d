"""Plain descent on partitions, in rounds of quanta.

The quanta of a round start at the same model. Each quantum is a task of a Dask cluster.

::

    client -- an epoch's tasks, before older tasks have ended --> scheduler
    worker: fold the last round's pushes, step along own rows, push --> workers of the next round
    client <-- the state at each epoch's end ----------------------

No model passes through the client between two rounds. The scheduler is the only queue. It gives a
task to a worker once the task's inputs exist, and to another worker if the first worker dies. A
row belongs to a quantum of the worker that owns its partition (`owners`), and `schedule` assigns
the quantum to a round. A lane is a thread that takes a quantum in each round.

Writers: no task changes a state; a task computes the next state from it (`state`). With at most two
lanes each lane computes the next state itself, with the same bits. With more lanes one task
computes the next state for all lanes. Readers: the tasks of the next round, and the client.
Freeing: the client frees a round once the next round is submitted, and an epoch's last round once
its state has arrived. The scheduler stores the inputs of a task as long as the task is wanted. At
intervals the client therefore waits until all tasks are done, and then begins a new chain of tasks
at the last state that it has. The descent also continues at this state after a worker has left.
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

EACH_FOLDS = 2  # most lanes of a round that all fold: one task less per round, but more bytes
AHEAD = 3  # epochs whose tasks are on the cluster at one time
CHAIN_SECONDS = 2.0  # length of a chain of dependent tasks, before a new chain begins
WHOLE_BYTES = 2**20  # largest model that is sent to the client after every epoch
MOST_RESTARTS = 10  # restarts because of lost workers without a completed epoch in between
UNLIKE = 0.2  # share of a partition's rows that would need another label to match all rows
ROUNDS, UNLIKE_ROUNDS = 8, 16  # fewest rounds of an epoch with several lanes
ROUND_SECONDS, TASK_SECONDS = 0.005, 0.001  # Dask's time for a round, and for each of its tasks
SPARSE_NS, DENSE_NS, ROW_NS = 2.0, 0.5, 20.0  # approximate times of a stored value and of a row


@dataclass(frozen=True)
class DescentSettings:
    """Settings of a descent.

    epochs : maximum number of epochs
    tol : smallest improvement of an epoch's value that counts; if None, all epochs are done
    patience : number of epochs without such an improvement after which the descent ends
    exchange : number of rows of a quantum; if None, it is chosen automatically
    average : number of rows after which the iterates are averaged; if 0, they are not averaged
    most : largest number of quanta in progress at one time; None for no limit
    split : chooses the held-out rows, whose score then ends the fit; if None, no row is held out
    heard : ``heard(epoch, value, model)`` is called after each epoch, counted from 1, in the thread
        that called `descend`
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
    """The result of a descent.

    epoch_losses : mean loss of each epoch, over all classes, without the penalty
    staleness : entry k counts the pushes that were folded after k other pushes of their round
    workers : a dict for each worker, as in `Report.workers`
    quantum_rows : number of rows of the largest quantum
    seconds : wall time of the descent
    absurd : whether the model is finite but useless, by `hogshare.solvers.outcome`
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
    """A lane's result of a round: the state at which the lane began, and the lane's push."""

    state: DescentState
    push: Push


class RoundPlan(NamedTuple):
    """A lane's work in a round.

    number : number of the lane in the round
    is_alone : whether no other lane is in the round
    seed : seed of the quantum
    only_scores : whether the lane takes no steps: it scores its held-out rows, or, without a
        split, evaluates the losses of all its rows
    """

    quantum: Quantum
    number: int
    is_alone: bool
    seed: int
    shuffle: bool
    split: Split | None
    only_scores: bool = False


def state_of(terms: DescentTerms, *parts: Any) -> DescentState:
    """Return the state after a round.

    parts : the results of the round's lanes, or the state itself, if it has been computed
    """
    if isinstance(parts[0], DescentState):
        return parts[0]
    return folded(parts[0].state, terms, [part.push for part in parts])


def advance(
    plan: RoundPlan, terms: DescentTerms, n_parts: int, *args: Any
) -> Advanced | DescentState:
    """On a worker, compute a lane's work in a round.

    If the lane is alone in the round, the result is the next state; otherwise it is the lane's
    push, with the state at which the lane began.

    args : the `n_parts` results of the last round, then the problems of the quantum's partitions
    """
    state = state_of(terms, *args[:n_parts])
    push = Push() if state.has_ended else pushed(plan, state, args[n_parts:])
    return folded(state, terms, [push]) if plan.is_alone else Advanced(state, push)


def pushed(plan: RoundPlan, state: DescentState, problems: tuple[RowProblem, ...]) -> Push:
    """Take steps along a quantum's rows, or evaluate or score rows; return the push."""
    spans = plan.quantum.spans
    if plan.only_scores:
        if plan.split is None:
            coef, intercept = state.model.coef, state.model.intercept
            sums = [problem.loss_sums(coef, intercept) for problem in problems]
            return Push(evaluated=np.sum(sums, axis=0))
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
        average=state.average.begins,
        curvature=not plan.is_alone and state.curvatures + plan.number < CURVATURES,
        seed=plan.seed,
        partitions=tuple(p for p, _, _ in spans),
        split=plan.split,
        address=plan.quantum.address,
    )
    return steps_along(pull, *problems)


def epoch_of(terms: DescentTerms, is_whole: bool, *parts: Any) -> DescentState:
    """On a worker, return the state after an epoch, with its vectors only if `is_whole`."""
    state = state_of(terms, *parts)
    if is_whole:
        return state
    empty = Model(state.model.coef[:, :0], state.model.intercept, state.model.t)
    return replace(state, model=empty, average=Average(0), curvature=0.0)


@dataclass(frozen=True)
class Epoch:
    """An epoch whose tasks are on the cluster.

    news : the call that makes the epoch's state for the client
    fetched : the future of this state
    last : the calls of the epoch's last round, which the cluster stores as long as they exist
    is_whole : whether the state includes its vectors, such as the model
    """

    news: ClusterCall
    fetched: Fetched
    last: list[Any]
    is_whole: bool


@dataclass
class Chain:
    """Tasks that depend on each other and begin at a state that the client has.

    parts : results of the last submitted round, or the state that the chain begins with
    submitted : number of epochs that have been submitted, from the start of the descent
    began : time at which the chain began, from `time.monotonic`
    epochs : epochs whose state has not arrived yet
    """

    parts: list[Any]
    submitted: int
    began: float = field(default_factory=time.monotonic)
    epochs: deque[Epoch] = field(default_factory=deque)

    @property
    def is_long(self) -> bool:
        """Whether a new chain should begin."""
        return time.monotonic() - self.began > CHAIN_SECONDS


class PartitionedDescent:
    """A descent on a cluster: submits rounds, and receives the state after each epoch.

    rows : the rows, for which `PartitionedRows.state` has been called
    start : the model at which the descent begins
    """

    def __init__(
        self, rows: PartitionedRows, meaning: Meaning, settings: DescentSettings, start: Model
    ) -> None:
        self._rows, self._settings = rows, settings
        scores = None if settings.split is None else rows.scores(settings.split)
        weighing = weighing_of(meaning, rows.facts[0].is_sparse)
        self._is_mixed = rows.unlikeness() > UNLIKE
        evaluates = self._is_mixed and scores is None and settings.tol is not None
        self._terms = DescentTerms(meaning, rows.n_rows, weighing, scores, evaluates)
        criterion = Criterion.of(
            settings.step, settings.tol, settings.patience, len(start.intercept)
        )
        # the last state with its vectors, at which a new chain begins
        self._state = DescentState(start, criterion, Average(settings.average))
        self._always_whole = settings.heard is not None or start.coef.nbytes <= WHOLE_BYTES
        self._mean_losses: list[float] = []
        self._largest = self._restarts = 0
        self._known = rows.workers_present()
        self._gone: set[str] = set()

    def run(self) -> Descended:
        """Run epochs until the criterion is met or all epochs are done; return the result."""
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
        # the epochs after the last state with vectors are done again
        del self._mean_losses[self._state.n_epochs :]
        return Chain([self._state], self._state.n_epochs)

    def _submit_epochs(self, chain: Chain) -> None:
        """Submit epochs until `AHEAD` epochs are on the cluster, or the chain is long."""
        while chain.submitted < self._settings.epochs and len(chain.epochs) < AHEAD:
            if chain.epochs and chain.is_long:
                return  # submit no more: the chain ends with the submitted epochs
            chain.epochs.append(self._submit_epoch(chain))
            chain.submitted += 1

    def _submit_epoch(self, chain: Chain) -> Epoch:
        rows, settings, number = self._rows, self._settings, chain.submitted
        # seeded by the epoch's number: an epoch that is submitted again has the same order
        draws = np.random.default_rng([settings.seed, number])
        count = len(rows.facts)
        order = draws.permutation(count) if settings.shuffle else np.arange(count)
        threads = rows.workers_present()
        most = min(sum(threads.values()), settings.most or sys.maxsize)
        if settings.exchange is None and not self._is_mixed:
            most = lanes_that_pay(epoch_seconds(rows), most, len(threads))
        lanes = lanes_of(rows.owners.partitions(order), threads, most)
        # the last round of the previous epoch, whose vectors `_is_alive` may request
        retained = chain.parts
        for quanta in rounds_of(lanes, rows.sizes, self._rounds(lanes), self._is_mixed):
            self._submit_round(chain, quanta, draws, retained)
        if settings.split is not None or self._terms.evaluates:
            mine = rows.owners.partitions()
            (quanta,) = rounds_of(lanes_of(mine, {}, len(mine)), rows.sizes, 1, False)
            self._submit_round(chain, quanta, draws, retained, only_scores=True)
        is_whole = self._always_whole or number + 1 == settings.epochs
        news = rows.submit(epoch_of, self._terms, is_whole, *chain.parts, partition=0)
        return Epoch(news, news.fetch(), chain.parts, is_whole)

    def _submit_round(
        self,
        chain: Chain,
        quanta: list[Quantum],
        draws: np.random.Generator,
        retained: list[Any],
        *,
        only_scores: bool = False,
    ) -> None:
        """Submit a round, and release the previous round unless it is `retained`.

        The cluster stores a released round only until the new round is done.

        quanta : the quantum of each lane in the round
        draws : generator of the seeds of the quanta
        retained : the calls of a round that is not to be released
        only_scores : whether the round only scores held-out rows, without steps
        """
        rows, settings = self._rows, self._settings
        done = [] if chain.parts is retained else chain.parts
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
        """Return the number of rounds in which a lane covers its rows of a worker."""
        longest = max(map(len, lanes))
        if self._settings.exchange is not None:
            shared = len(lanes) * longest * self._settings.exchange
            return max(1, round(self._rows.n_rows / shared))
        if self._is_mixed:
            return UNLIKE_ROUNDS  # in a long quantum the model forgets other partitions' labels
        return -(-ROUNDS // longest) if len(lanes) > 1 else 1

    def _is_alive(self, chain: Chain) -> bool:
        """Wait for the state after the chain's next epoch, and record the epoch.

        Returns False if a worker has been lost; the chain must then be given up.

        Raises the ValueError, TypeError or MemoryError of a task; RuntimeError if the cluster has
        given up a task, or has no workers left.
        """
        epoch = chain.epochs[0]
        # with a timeout, because a task that prefers a lost worker may never end
        while not wait([epoch.fetched], MEMBERS_SECONDS).done:
            if self._has_lost():
                return False
        try:
            state: DescentState = result_of(epoch.fetched)
            is_last = len(chain.epochs) == 1
            is_needed = not epoch.is_whole and (state.has_ended or is_last)
            # the chain ends at this state, whose vectors the result or a new chain needs
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
        """Return whether a worker has left since the last call.

        anew : as in `PartitionedRows.workers_present`

        Raises RuntimeError if workers have left more than `MOST_RESTARTS` times.
        """
        present = self._rows.workers_present(anew=anew)
        left = set(self._known) - set(present)
        self._known = present
        self._gone = (self._gone | left) - set(present)
        self._restarts += bool(left)
        if self._restarts > MOST_RESTARTS:
            raise RuntimeError(
                f"workers left {self._restarts} times before an epoch of {self._rows.n_rows} rows "
                "was done: see the workers' logs."
            )
        return bool(left)

    def _take(self, state: DescentState, is_whole: bool) -> None:
        """Record the state after an epoch, and report it to `heard`."""
        self._restarts = 0
        if is_whole:
            self._state = state
        self._mean_losses.append(float(np.mean(state.mean_losses)))
        if self._settings.heard is not None:
            self._settings.heard(state.n_epochs, float(state.value.sum()), state.model)

    def _cancel(self, chain: Chain) -> None:
        """Stop all work on a chain by releasing its epochs.

        `Client.cancel` is not used: if tasks depend on each other and some tasks have ended, it
        fails in the scheduler.
        """
        while chain.epochs:
            self._release(chain.epochs.pop())

    def _release(self, epoch: Epoch) -> None:
        """Release an epoch's data on the cluster now, not at the next garbage collection.

        As long as any task is wanted, the cluster also stores the tasks of the collections, even
        after the fit.
        """
        for call in [epoch.news, *epoch.last]:
            call.release()

    def _table(self) -> list[dict[str, Any]]:
        present = self._rows.workers_present()
        return [
            {
                "worker": number,
                "address": address,
                "state": "idle" if address in present else "gone",
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
            noted.append(f"workers that left during the fit, whose quanta others did: {gone}")
        return noted


def epoch_seconds(rows: PartitionedRows) -> float:
    """Return an estimate of the seconds of an epoch in one thread.

    The estimate uses constants, not measurements of the workers' machines, so that every fit
    assigns the same work to the same worker.
    """
    values = sum(fact.nnz for fact in rows.facts)
    ns = rows.n_rows * ROW_NS + values * (SPARSE_NS if rows.facts[0].is_sparse else DENSE_NS)
    return ns * 1e-9


def lanes_that_pay(seconds: float, most: int, n_workers: int) -> int:
    """Return the number of lanes with which an epoch takes the shortest time.

    A single lane goes from worker to worker. It learns as much from an epoch as a single machine,
    because nothing is folded. Several lanes share the rows, and must wait for each other in every
    round.

    seconds : seconds of an epoch in one thread
    most : largest number of lanes
    """

    def epoch(lanes: int) -> float:
        if lanes == 1:
            return n_workers * (ROUND_SECONDS + TASK_SECONDS) + seconds
        return ROUNDS * (ROUND_SECONDS + lanes * TASK_SECONDS) + seconds / lanes

    return min(range(1, max(1, most) + 1), key=epoch)


def descend(
    rows: PartitionedRows, meaning: Meaning, settings: DescentSettings, start: Model
) -> Descended:
    """Minimise a problem on partitions by plain descent, and return the result.

    meaning : the problem without its rows
    start : the model at which the descent begins, which is not changed

    Raises ValueError if the model leaves the range of floats; RuntimeError if the cluster has given
    up a task, or has no workers left.
    """
    rows.state(meaning)
    return PartitionedDescent(rows, meaning, settings, start).run()
