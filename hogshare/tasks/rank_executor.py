"""Tasks on the ranks of an MPI job: rank 0 submits them, the other ranks run them.

::

    rank 0  -- Order: task, parcels, blocks, values -->  another rank, its `Store`
            <-- Outcome -------------------------------

All ranks must make the same context. Making the context begins a collective call
(`hogshare.runtimes.mpi.calls`), which lasts until rank 0 closes the context. A partition is sent to
a rank once, as a recipe: a function and arguments that make the partition. If a rank dies, the job
ends, as MPI requires.

Writers: rank 0 sends orders and the other ranks send outcomes. Each rank sends in the thread that
made the context. Readers: the receivers. A rank has one task at a time. Freeing: a rank drops the
objects that an order lists; it drops all objects when the call ends.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from hogshare.runtimes.mpi.calls import Call
from hogshare.runtimes.mpi.runtime import MPI
from hogshare.runtimes.user_objects import packed, pickled
from hogshare.system import missed_calls
from hogshare.system.interrupts import DeferredSignals
from hogshare.tasks.blocks import Block
from hogshare.tasks.executor import Event, Remote, unreadable
from hogshare.tasks.partitions import Recipe
from hogshare.tasks.store import Shelf
from hogshare.tasks.work import (
    Key,
    Order,
    Store,
    Task,
    TaskOutcome,
    line_of,
    may_be_a_signal_s,
    work,
)

ORDER, OUTCOME, OVER = "order", "outcome", "over"
PART = "part"  # the kind of a partition's key


class Job:
    """The ranks of a context; rank 0 leads them, and every rank must make this object.

    Raises ValueError if there is only one rank, RankMissing if a rank does not make the context
    within the time limit, and RanksDiffer if ranks have different versions of a package.
    """

    def __init__(self, runtime: MPI) -> None:
        call = runtime.hold("AsyncContext")
        if call is None:
            raise ValueError(
                "workers='mpi' takes at least two ranks, one to hand out tasks and the others to "
                "run them, and there is one: start several, as mpiexec -n 4 python -m mpi4py "
                "script.py does."
            )
        self.call: Call = call

    @property
    def leads(self) -> bool:
        """Whether this rank submits the tasks."""
        return self.call.talk.rank == 0

    def serve(self) -> None:
        """Run tasks until the leading rank has closed its context.

        All other ranks must call this method. If the leading rank has raised an exception, this
        method raises the same exception.
        """
        # imported late: this import scans all loaded libraries, for a millisecond or two
        from threadpoolctl import threadpool_limits

        store = Store()
        with self.call as call, threadpool_limits(limits=1):
            while True:
                letter = call.take(0, ORDER, OVER)
                assert letter is not None
                if letter.kind == OVER:
                    return
                _answer(call, follow(letter.content, store))

    def spread(self, thing: Any = None) -> Any:
        """Return the leading rank's object; all ranks must call this once the context is closed."""
        with self.call as call:
            return call.spread(OUTCOME, thing)


class RankExecutor(Remote):
    """The executor of the leading rank.

    n_workers : number of ranks that run tasks, or None for all ranks except this one

    Raises ValueError if fewer than `n_workers` ranks can run tasks.
    """

    name = "mpi"
    workers: Sequence[int] = ()

    def __init__(self, shelf: Shelf, job: Job, n_workers: int | None) -> None:
        n_others = job.call.talk.size - 1
        if n_workers is not None and n_workers > n_others:
            with job.call:  # the serving ranks also raise the error
                raise ValueError(
                    f"n_workers is {n_workers}, but only {n_others} of the {n_others + 1} ranks "
                    "can run tasks, because rank 0 hands them out. Start at least "
                    f"{n_workers + 1} ranks, or lower n_workers."
                )
        super().__init__(shelf)
        self._call = job.call
        self._busy: dict[int, int] = {}  # by worker, the number of its task
        self.workers = range(n_others if n_workers is None else n_workers)
        self._is_open = True
        for worker in self.workers:
            self._sent.begin(worker)

    def submit(self, worker: int, task: Task) -> None:
        needs = task.needs - {task.data} | {(PART, task.data, p) for p in task.sizes}
        self._pack(needs)
        with DeferredSignals():
            order = self._order(worker, task, self._sent.missing(worker, needs))
            self._call.post(worker + 1, ORDER, order)
            self._busy[worker] = task.number

    def _parcel(self, key: Key) -> bytes:
        if key[0] != PART:
            return packed("function", self._shelf.things[key], remedy=self.remedy)
        _, data, p = key
        recipe = self._shelf.things[data].recipe(p)
        return packed("loader", recipe, remedy=self.remedy)

    def poll(self, seconds: float | None) -> list[Event]:
        if not self._busy:
            return []
        with DeferredSignals() as deferred:

            def come() -> list[Event] | None:
                deferred.deliver()
                return self._come() or None

            found = self._call.talk.wait_for(come, seconds)
        return found or []

    def _come(self) -> list[Event]:
        self._call.raise_failures()
        found: list[Event] = []
        for worker in sorted(self._busy):
            letter = self._call.heard(worker + 1, OUTCOME)
            if letter is not None:
                number = self._busy.pop(worker)
                try:
                    outcome = pickle.loads(letter.content)
                except Exception as error:
                    outcome = unreadable(number, error)
                found.append(self._back(worker, outcome))
        return found

    def fail(self, error: BaseException) -> None:
        """Make the other ranks raise the error that has ended the context."""
        if self._is_open:
            self._is_open = False
            missed_calls.taken()  # other ranks make no calls in the with block
            self._call.fail(error)

    def close(self) -> None:
        """End the call on all ranks; do not interrupt a task that a rank is running."""
        if self._is_open:
            self._is_open = False
            missed_calls.taken()
            self._call.post_all(OVER)
        self._parcels.clear()


def follow(order: Order, store: Store) -> TaskOutcome:
    """Run a task on a serving rank, with the objects of the order and of the store."""
    task = order.task
    try:
        store.take(order, _made)
    except BaseException as error:
        if may_be_a_signal_s(error):
            raise
        return TaskOutcome.failed(task.number, line_of(error))
    store.things[task.data] = None  # its partitions come as blocks
    blocks: dict[int, Block] = {p: store.things[PART, task.data, p] for p in task.sizes}
    return work(task, store, blocks)


def _made(content: bytes) -> Any:
    thing = pickle.loads(content)
    return thing() if isinstance(thing, Recipe) else thing


def _answer(call: Call, outcome: TaskOutcome) -> None:
    try:
        content = pickled(outcome)
    except Exception as error:
        content = pickled(outcome.unsent(error))
    # as bytes: a letter that cannot be unpickled would be lost
    call.post(0, OUTCOME, content)
