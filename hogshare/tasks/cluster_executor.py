"""Tasks on a Dask cluster.

::

    caller  -- submit(run, order, block futures) -->  scheduler --> worker, its `Store`
            <-- Outcome, or a `Lacking` ------------

A partition is a future. The cluster computes it from rows that travel with its graph, from a
loader, or from the graph of a dask array. A task prefers the worker that owns its partitions. If
another worker runs the task, that other worker may lack versions of broadcasts that the owner has.
The other worker then answers `Lacking`, and the caller sends the task again with all versions.

A preference must not outlive its worker. If another worker is present when the preferred worker
leaves, the scheduler drops the preference. If no other worker is present, the task waits in the
state "no-worker", and the scheduler gives the task only to the worker that is gone. Therefore the
tasks of a worker that has left the cluster count as lost, and are submitted again as on any
executor. Partitions that prefer the gone worker are made again from their source. Tasks of other
workers that wait for these partitions are sent again.

Writers: the client's thread puts fetched outcomes into one queue; the caller's thread writes
everything else. Readers: the caller's thread. Freeing: `close` cancels pending futures, and
releases the partitions and the stores of the workers. `close` does not close the client, which
belongs to its owner, and does not interrupt a task that runs on a worker.
"""

from __future__ import annotations

import functools
import pickle
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

import numpy as np

from hogshare.runtimes.user_objects import packed
from hogshare.system.clusters import (
    MEMBERS_SECONDS,
    fetch,
    large_graphs,
    this_worker,
    threads_of,
)
from hogshare.system.interrupts import DeferredSignals
from hogshare.tasks.blocks import Block, as_block
from hogshare.tasks.executor import Event, Joined, Lost, Remote
from hogshare.tasks.partitions import Partitions, Recipe
from hogshare.tasks.store import Shelf
from hogshare.tasks.work import Key, Order, Store, Task, TaskOutcome, line_of, work

STORES = "_hogshare_stores"  # attribute of Dask's workers


@dataclass(frozen=True)
class Lacking:
    """An answer in place of an outcome: the worker's store lacks objects that the task needs."""

    number: int
    address: str


@dataclass(frozen=True)
class GraphParts(Partitions):
    """Blocks of rows of dask arrays, which the cluster computes from their graphs."""

    sources: tuple[tuple[Any, ...], ...]  # for each partition: X, and y if there is a y
    bounds: np.ndarray

    def part(self, p: int) -> Block:
        """Compute a partition in the caller's process; tasks do not call this method."""
        recipe = self.recipe(p)
        block: Block = recipe.function(*(source.compute() for source in recipe.args))
        return block

    def recipe(self, p: int) -> Recipe:
        """Return a recipe as `Partitions.recipe` does; its arguments are dask objects."""
        n_rows = int(self.bounds[p + 1] - self.bounds[p])
        return Recipe(functools.partial(_block_of, n_rows), self.sources[p])


Fetched = Future[Any]


@dataclass(frozen=True)
class Sending:
    """A task on the cluster, with the future of its outcome."""

    worker: int
    task: Task
    future: Any
    fetched: Fetched


@dataclass(frozen=True)
class ClusterPartition:
    """A partition on the cluster, with the address of the worker that should make it."""

    future: Any
    address: str | None


class ClusterExecutor(Remote):
    """The executor of a `dask.distributed.Client`.

    client : a Dask client, which the executor never closes
    n_workers : largest number of the cluster's workers in use at one time, or None for all of them
    """

    name = "dask"
    may_join = True
    remedy = "a client of threads: Client(processes=False)"

    def __init__(self, shelf: Shelf, client: Any, n_workers: int | None) -> None:
        super().__init__(shelf)
        self._client, self._most = client, n_workers
        self._context = uuid.uuid4().hex  # another driver of the cluster has other stores
        self._addresses: list[str | None] = []  # of each worker; None: the worker is gone
        self._done: Queue[tuple[int, Fetched]] = Queue()
        self._tasks: dict[int, Sending] = {}
        self._blocks: dict[tuple[Key, int], ClusterPartition] = {}
        self._asked = 0.0
        self._members()
        count = len(self.workers)
        if not count or (n_workers is not None and count < n_workers):
            raise ValueError(
                f"the cluster has {count} workers, and n_workers={n_workers} needs "
                f"{n_workers or 'at least one'}: wait for them with client.wait_for_workers()."
            )

    @property
    def workers(self) -> Sequence[int]:
        return [worker for worker, address in enumerate(self._addresses) if address is not None]

    def adopt(self, X: Any, y: Any) -> Partitions | None:
        """Return dask arrays or data frames as partitions, without fetching rows to the caller.

        Raises ValueError if X and y are not chunked at the same rows.
        """
        if not hasattr(X, "dask"):
            return None
        X, y = _as_array(X), None if y is None else _as_array(y)
        if X.ndim > 1:
            X = X.rechunk({1: -1})
        if y is not None and (not hasattr(y, "dask") or y.chunks[0] != X.chunks[0]):
            raise ValueError(
                "X and y must be dask arrays with the same chunks of rows: rechunk one of them."
            )
        blocks = [thing.to_delayed().ravel() for thing in (X, y) if thing is not None]
        bounds = np.concatenate([[0], np.cumsum(X.chunks[0])]).astype(np.int64)
        return GraphParts(tuple(zip(*blocks, strict=True)), bounds)

    def submit(self, worker: int, task: Task) -> None:
        needs = task.needs - {task.data}
        self._pack(needs)
        self._send(worker, task, self._sent.missing(worker, needs))

    def _send(self, worker: int, task: Task, keys: Sequence[Key]) -> None:
        order = self._order(worker, task, keys, self._context)
        blocks = [self._block(task.data, p, worker) for p in task.sizes]
        with large_graphs():
            future = self._client.submit(
                run_order, order, *blocks, pure=False, **self._preference(worker)
            )
        number, done = task.number, self._done
        fetched = fetch(self._client, future)
        self._tasks[number] = Sending(worker, task, future, fetched)
        fetched.add_done_callback(lambda fetched: done.put((number, fetched)))

    def _preference(self, worker: int) -> dict[str, Any]:
        """Return arguments that make a task prefer a worker; no arguments if the worker is gone."""
        address = self._addresses[worker]
        if address is None:
            return {}
        return {"workers": [address], "allow_other_workers": True}

    def _block(self, data: Key, p: int, worker: int) -> Any:
        if (data, p) not in self._blocks:
            parts, place = self._shelf.things[data], self._preference(worker)
            recipe: Recipe = parts.recipe(p)
            with large_graphs():
                if isinstance(parts, GraphParts):  # never put a preference on the user's keys
                    given = self._client.compute(list(recipe.args), sync=False)
                    future = self._client.submit(recipe.function, *given, pure=False, **place)
                else:
                    content = packed("loader", recipe, remedy=self.remedy)
                    future = self._client.submit(_made, content, pure=False, **place)
            self._blocks[data, p] = ClusterPartition(future, self._addresses[worker])
        return self._blocks[data, p].future

    def poll(self, seconds: float | None) -> list[Event]:
        deadline = None if seconds is None else time.monotonic() + seconds
        with DeferredSignals() as deferred:
            while True:
                events: list[Event] = self._members()
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                wait = bool(self._tasks and not events and left != 0.0)
                while self._tasks:
                    try:
                        longest = min(MEMBERS_SECONDS, MEMBERS_SECONDS if left is None else left)
                        number, fetched = self._done.get(wait, longest if wait else None)
                    except Empty:
                        break
                    wait = False
                    events += self._taken(number, fetched)
                if events or not self._tasks or left == 0.0:
                    return events
                deferred.deliver()

    def _taken(self, number: int, fetched: Fetched) -> list[Event]:
        """Return the event of a fetched outcome, or no event if the task has been sent again."""
        # a task may be sent again while the outcome of its first submission is in transit
        if number not in self._tasks or self._tasks[number].fetched is not fetched:
            return []
        try:
            outcome = fetched.result()
        except Exception as error:  # the scheduler has given the task up, or a loader raised
            outcome = TaskOutcome.failed(number, line_of(error))
        if isinstance(outcome, Lacking):
            self._send_anew(number)
            return []
        return [self._back(self._tasks.pop(number).worker, outcome)]

    def _send_anew(self, number: int) -> None:
        worker, task = self._tasks[number].worker, self._tasks[number].task
        needs = sorted(task.needs - {task.data}, key=str)
        self._pack(needs)
        self._send(worker, task, needs)

    def _members(self) -> list[Event]:
        """Return events for workers that came or left; ask the cluster each `MEMBERS_SECONDS`."""
        if time.monotonic() - self._asked < MEMBERS_SECONDS:
            return []
        present = list(threads_of(self._client))
        self._asked = time.monotonic()
        events: list[Event] = []
        for worker, address in enumerate(self._addresses):
            if address is not None and address not in present:
                events.append(self._left(worker, address))
        self._remake({address for address in self._addresses if address is not None})
        for address in present:
            if address in self._addresses:
                continue
            free = next((w for w, known in enumerate(self._addresses) if known is None), None)
            if free is None:
                if self._most is not None and len(self._addresses) >= self._most:
                    continue
                free = len(self._addresses)
                self._addresses.append(None)
            self._addresses[free] = address
            self._sent.begin(free)
            events.append(Joined(free))
        return events

    def _left(self, worker: int, address: str) -> Lost:
        """Remove a worker, and cancel the tasks that preferred it."""
        self._addresses[worker] = None
        self._sent.end(worker)
        numbers = tuple(n for n, sending in self._tasks.items() if sending.worker == worker)
        self._client.cancel([self._tasks.pop(number).future for number in numbers])
        return Lost(worker, f"at {address} has left the cluster", numbers)

    def _remake(self, present: set[str]) -> None:
        """Drop partitions that prefer a gone worker; send again the tasks that wait for them."""
        gone = [place for place, made in self._blocks.items() if made.address not in present]
        old = [self._blocks.pop(place).future for place in gone]
        for number, sending in list(self._tasks.items()):
            if any((sending.task.data, p) in gone for p in sending.task.sizes):
                old.append(sending.future)
                self._send_anew(number)
        if old:
            self._client.cancel(old)

    def close(self) -> None:
        futures = [sending.future for sending in self._tasks.values()]
        self._tasks.clear()
        try:
            self._client.cancel([*futures, *(made.future for made in self._blocks.values())])
            self._client.run(forget_context, self._context, on_error="ignore")
        except Exception:
            pass  # if the cluster is gone, its memory is free
        finally:
            self._blocks.clear()
            self._parcels.clear()


def run_order(order: Order, *blocks: Block) -> TaskOutcome | Lacking:
    """Run a task on a Dask worker, with the objects of the order and of the worker's store."""
    executing = this_worker()
    stores: dict[str, Store] = executing.__dict__.setdefault(STORES, {})
    store = stores.setdefault(order.context, Store())
    store.take(order)
    task = order.task
    store.things[task.data] = None  # its partitions come as blocks
    if store.lacks(task):
        return Lacking(task.number, executing.address)
    return work(task, store, dict(zip(task.sizes, blocks, strict=True)))


def forget_context(context: str, dask_worker: Any = None) -> None:
    """Drop a context's store on a Dask worker."""
    dask_worker.__dict__.get(STORES, {}).pop(context, None)


def _made(content: bytes) -> Block:
    recipe: Recipe = pickle.loads(content)
    try:
        return recipe()
    except (KeyboardInterrupt, SystemExit) as raised:  # these would end the worker
        raise RuntimeError(f"a loader raised {line_of(raised)}") from raised


def _block_of(n_rows: int, X: Any, y: Any = None) -> Block:
    block = as_block("a block of the dask array", X if y is None else (X, y))
    if block.n_rows != n_rows:
        raise ValueError(
            f"a block of the dask array has {block.n_rows} rows, and its chunks say {n_rows}: call "
            "X.compute_chunk_sizes() first"
        )
    return block


def _as_array(collection: Any) -> Any:
    if hasattr(collection, "to_dask_array"):
        return collection.to_dask_array(lengths=True)
    if hasattr(collection, "chunks") and any(map(np.isnan, collection.chunks[0])):
        return collection.compute_chunk_sizes()
    return collection
