"""`AsyncContext`: asynchronous tasks with history, as in ASYNC, on threads, processes and clusters.

Writers and readers: only one thread, the caller's, uses a context. This thread submits tasks and
collects results. Freeing: the context owns its executor and its `Shelf`, which is the store of the
objects that tasks need. `AsyncContext.close` ends the executor and empties the shelf.
"""

from __future__ import annotations

import asyncio
import itertools
import operator
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np

from hogshare.shm.table import ProgressTable
from hogshare.stragglers import check_workers, stragglers_of
from hogshare.system import memory as system
from hogshare.system.ranges import positive, whole
from hogshare.tasks.admission import Gate
from hogshare.tasks.broadcasts import Broadcast, Variable
from hogshare.tasks.dispatch import Data, Dispatch
from hogshare.tasks.executors import executor_of, job_of
from hogshare.tasks.nested_values import bytes_of, frozen_copy
from hogshare.tasks.partitions import LoadedParts, parts_of
from hogshare.tasks.plans import TaskPlan
from hogshare.tasks.results import Result, TaskError, TaskFailure
from hogshare.tasks.row_collection import Collection
from hogshare.tasks.store import Shelf

POLL_SECONDS = 0.0005  # between two polls in ``async for``
SHARE_OF_MEMORY = 0.5  # of free memory that versions may take in total

_numbers = itertools.count()


class AsyncContext:
    """Submit tasks to workers, and collect the results one by one in the order of their arrival.

    Source: Soori, Mishchenko, Mokhtari, Mehri Dehnavi and Gurbuzbalaban, "ASYNC: a cloud engine
    with asynchrony and history for distributed machine learning", IPDPS 2020 (arXiv:1907.08526),
    ``AsyncContext`` and Table I. The documentation of each method names the method's counterpart in
    the paper, and says where the method departs from it.

    Parameters
    ----------
    workers : {"processes", "threads", "mpi"}, Simulator, MPI or dask.distributed.Client, \
            default="processes"
        The executor of the tasks. Processes suit functions that do not release the GIL. Threads
        copy nothing. A `hogshare.Simulator` runs real tasks on a virtual clock. A Dask client runs
        tasks on the machines of its cluster. In an MPI job, rank 0 submits tasks, and the other
        ranks run them, see the notes.
    n_workers : int, optional
        Number of workers. The default is one for each usable core; all workers, on a cluster; all
        ranks except rank 0, in an MPI job.
    seed : int, default=0
        Seed for the rows that tasks draw.
    cutoff : int, optional
        Largest staleness of a result that counts; results with a larger staleness are dropped. The
        authors' code calls this number ``taw``.
    retries : int, default=3
        How often a task is run again if its worker dies in it. If a worker also dies in the last
        retry, collecting the result raises a `TaskError`.
    stragglers : Stragglers or str, optional
        Distribution of the times that workers sleep in their tasks, see `hogshare.stragglers`.
    memory : int, optional
        Bytes that all versions of broadcasts may take together; by default half of the free memory.

    Notes
    -----
    With ``workers="mpi"`` every rank must make the context and enter it:
    ``with AsyncContext("mpi") as ac:``. Rank 0 enters the ``with`` block at once. On the other
    ranks, entering the block runs the tasks of rank 0 until rank 0 leaves its block. Then the other
    ranks enter the block, and `leads` is False for them. So put the work of rank 0 below
    ``if ac.leads:``. If rank 0 raises an exception in the block, the other ranks raise the same
    exception. Rank 0 provides the rows and the functions; with ``loaders=``, each rank reads the
    rows that it needs.

    Examples
    --------
    >>> from operator import add
    >>> import numpy as np
    >>> from hogshare import AsyncContext
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 3))
    >>> y = X @ [1.0, 2.0, 3.0]
    >>> def gradient(rows, w):
    ...     X, y = rows
    ...     return X.T @ (X @ w - y)
    >>> w = np.zeros(3)
    >>> with AsyncContext("threads", n_workers=2) as ac:
    ...     points = ac.parallelize(X, y, partitions=4)
    ...     for k in range(200):
    ...         w_br = ac.broadcast(w)
    ...         asked = points.sample(0.2).map(gradient, w_br).reduce(add)
    ...         while ac.has_next():
    ...             result = ac.collect()
    ...             w = w - 0.2 * result.value / result.n_samples
    >>> w.round(2).tolist()
    [1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        workers: Any = "processes",
        n_workers: int | None = None,
        *,
        seed: int = 0,
        cutoff: int | None = None,
        retries: int = 3,
        stragglers: Any = None,
        memory: int | None = None,
    ) -> None:
        self._job = job_of(workers)
        with nullcontext() if self._job is None else self._job.call:  # ranks refuse what one does
            whole(seed=seed, retries=retries)
            if cutoff is not None:
                whole(cutoff=cutoff)
            if memory is None:
                free = system.free()
                memory = None if free is None else int(SHARE_OF_MEMORY * free)
            else:
                positive(memory=memory)
            law = stragglers_of(stragglers)
        self.number, self.seed = next(_numbers), int(seed)
        self._memory, self._closed = memory, False
        self._shelf = Shelf()
        self._dispatched: Dispatch | None = None
        if not self.leads:
            self.n_workers = 0
            return
        executor, count = executor_of(self._job or workers, n_workers, self._shelf)
        try:
            check_workers(law, count)
            self._dispatched = Dispatch(
                executor, self._shelf, count, self.number, self.seed, int(retries), cutoff, law
            )
        except BaseException as error:
            executor.fail(error)
            executor.close()
            raise
        self.n_workers = count
        self._began = executor.now()
        self._variables: dict[str, Variable] = {}
        self._n_data = 0

    # --- collections ---------------------------------------------------------------------------

    def parallelize(
        self, X: Any = None, y: Any = None, *, partitions: int | None = None, loaders: Any = None
    ) -> Collection:
        """Split rows into partitions, each of which belongs to one worker.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, ...), dask array, or problem
            The rows. The row blocks of a dask array become partitions. If X is one of this
            package's problems, the rows are the row numbers of this problem.
        y : array-like of shape (n_rows, ...), optional
        partitions : int, optional
            Number of partitions, at least one for each present worker; by default the number of
            workers, including those that come later.
        loaders : sequence of callable, optional
            Functions that read the rows, one for each partition, in place of `X`, `y` and
            `partitions`. ``loader()`` returns X or ``(X, y)``. The worker that has the partition
            calls its loader. If that worker dies, another worker calls the loader again. Partitions
            without rows are in no task.

        Returns
        -------
        Collection

        Raises
        ------
        ValueError, TypeError
            If the rows do not fit the partitions, or the partitions do not fit the workers.
        TaskError
            If a loader raises.
        """
        self._check_open()
        executor = self._dispatch.executor
        parts = None if partitions is not None else executor.adopt(X, y)
        if parts is None:
            known, present = len(self._dispatch.progress), len(executor.workers)
            parts = parts_of(X, y, loaders, partitions, known, present)
        data = Data(self._n_data, parts, X if hasattr(X, "objective_at") else None)
        self._n_data += 1
        self._shelf.put(data.key, parts)
        if isinstance(parts, LoadedParts):
            data = Data(data.number, replace(parts, bounds=self._counted(data)))
        if not data.n_rows:
            raise ValueError("X, or what loaders= return, has 0 rows: pass at least one row.")
        return Collection(self._dispatch, data, Gate(None, self.seed))

    def _counted(self, data: Data) -> np.ndarray:
        """Make the workers load their partitions, and return the bounds of all partitions."""
        if self._dispatch.flights or self._dispatch.ready:
            raise RuntimeError(
                "parallelize(loaders=) needs a context without tasks or results: "
                "call collect_all() first."
            )
        plan, sizes = TaskPlan(None, op=operator.or_, counts=True), dict[int, int]()
        while len(sizes) < data.n_parts:
            self._dispatch.give(plan, data, Gate(), [], None)
            try:
                counted = self.collect_all()
            except TaskError:
                self._dispatch.ready.clear()  # the others of the failed collection
                raise
            for result in counted:
                sizes |= result.value
        lengths = [sizes[p] for p in range(data.n_parts)]
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    # --- broadcasts ----------------------------------------------------------------------------

    def broadcast(self, value: Any, name: str = "value") -> Broadcast:
        """Make a version of a variable, which each worker that needs it receives once.

        This method is the paper's ``ASYNCbroadcast``. Only the new version is sent.

        Parameters
        ----------
        value : array-like, or tuple or dict
            The value. The parts of a tuple or dict are arrays, numbers, and tuples or dicts again.
            The call copies the arrays, so the caller may change its own arrays afterwards.
        name : str, default="value"
            Name of the variable. All values that are broadcast under the same name are its
            versions.

        Returns
        -------
        Broadcast

        Raises
        ------
        TypeError
            If a part is neither an array of numbers, nor a number, tuple or dict.
        MemoryError
            If all versions together need more than `memory`.
        """
        self._check_open()
        # a copy, read-only: tasks in threads read it while the caller goes on
        frozen = frozen_copy(value)
        n_bytes = bytes_of(frozen) + sum(variable.nbytes for variable in self._variables.values())
        if self._memory is not None and n_bytes > self._memory:
            raise MemoryError(
                f"versions of broadcasts would take {n_bytes / 2**20:,.4g} MiB, more than the "
                f"memory={self._memory / 2**20:,.4g} MiB that are allowed: {self.versions_alive} "
                "are alive, each as long as some row was last used with it. Draw larger samples, "
                "store a number for each row in place of versions (a linear model's derivatives), "
                "or pass a larger memory=."
            )
        if name not in self._variables:
            number = len(self._variables)
            variable = Variable(number, name, self._shelf)
            self._dispatch.variables[number] = variable  # first: an interrupt may come in between
            self._variables[name] = variable
        return Broadcast(self._variables[name], frozen, self.number)

    @property
    def versions_alive(self) -> int:
        """Number of versions of broadcasts that a user, a task or a row refers to."""
        return sum(variable.alive for variable in self._variables.values())

    # --- results -------------------------------------------------------------------------------

    def has_next(self, timeout: float | None = None) -> bool:
        """Return whether a result is ready; wait only while no worker is available.

        This method is the paper's ``AC.hasNext``. The call handles all events that have come: it
        queues results, changes `stat`, and submits lost tasks again. If no task is under way, the
        call does not wait.

        Parameters
        ----------
        timeout : float, optional
            Limit of the wait in seconds.

        Raises
        ------
        TimeoutError
            If no task has come back within `timeout`.
        """
        self._check_open()
        dispatch = self._dispatch

        def is_known() -> bool:
            return bool(dispatch.ready or dispatch.progress.available)

        dispatch.wait_until(is_known, timeout)
        return bool(dispatch.ready)

    def collect(self, timeout: float | None = None) -> Result:
        """Return the first result that has come; if there is none, wait for one.

        This method is the paper's ``ASYNCcollect``. Its result also has the attributes that the
        paper's ``ASYNCcollectAll`` returns.

        Parameters
        ----------
        timeout : float, optional
            Limit of the wait in seconds.

        Returns
        -------
        Result

        Raises
        ------
        TaskError
            If the task has raised an exception, or is lost and will not be run again.
        TimeoutError
            If no result comes within `timeout`.
        RuntimeError
            If there is no result, and no task is under way.
        """
        self._check_open()
        if not self._dispatch.wait_until(lambda: bool(self._dispatch.ready), timeout):
            dropped = self._dispatch.dropped
            late = f" ({dropped} were dropped, older than cutoff)" if dropped else ""
            raise RuntimeError(
                f"there is nothing to collect: no task is under way, and no result is left{late}; "
                "submit tasks with reduce() first."
            )
        return _value_of(self._dispatch.ready.popleft())

    def collect_all(self, timeout: float | None = None) -> list[Result]:
        """Wait for all tasks that are under way, and return all results: a synchronous round.

        The paper's ``ASYNCcollectAll`` returns one result with its attributes. This method departs
        from the paper: it returns all results, each of which has its attributes.

        Raises
        ------
        TaskError, TimeoutError
            As in `collect`. The other results can still be collected.
        """
        self._check_open()
        dispatch = self._dispatch
        dispatch.wait_until(lambda: not dispatch.flights, timeout)
        failure = next((one for one in dispatch.ready if isinstance(one, TaskFailure)), None)
        if failure is not None:
            dispatch.ready.remove(failure)
            raise failure.error
        found = [_value_of(one) for one in dispatch.ready]
        dispatch.ready.clear()
        return found

    def __iter__(self) -> Iterator[Result]:
        """Yield results in the order of their arrival, until no task is under way."""
        self._check_open()
        while self._dispatch.wait_until(lambda: bool(self._dispatch.ready), None):
            yield self.collect()

    async def __aiter__(self) -> AsyncIterator[Result]:
        """Yield results as `__iter__` does; other coroutines run during the waits."""
        dispatch = self._dispatch
        while dispatch.flights or dispatch.ready:
            self._check_open()
            dispatch.wait(0.0 if dispatch.executor.passes_time else None)
            if dispatch.ready:
                yield self.collect()
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(POLL_SECONDS)

    # --- state ---------------------------------------------------------------------------------

    @property
    def stat(self) -> ProgressTable:
        """The progress table: the paper's STAT, with the same columns as in any run.

        In these columns a block is a task. While a worker runs a task, its `staleness` is the
        number of results of other workers that were accepted since this task was submitted. An
        available worker has staleness 0. So a barrier can enforce a bound on ``max_staleness``.
        """
        return self._dispatch.progress.table

    @property
    def seconds(self) -> float:
        """Seconds since the context began; virtual seconds with a simulator."""
        return self._dispatch.executor.now() - self._began

    @property
    def accepted(self) -> int:
        """Number of results that have come back and were not dropped."""
        return self._dispatch.accepted

    @property
    def dropped(self) -> int:
        """Number of results that were dropped because their staleness exceeded the cut-off."""
        return self._dispatch.dropped

    @property
    def repeated(self) -> int:
        """Number of times that a task was submitted again because its worker was gone."""
        return self._dispatch.repeated

    @property
    def executor(self) -> Any:
        """The executor of the tasks."""
        return self._dispatch.executor

    @property
    def leads(self) -> bool:
        """Whether this process submits tasks: False only on MPI ranks that run them."""
        return self._job is None or self._job.leads

    @property
    def _dispatch(self) -> Dispatch:
        if self._dispatched is None:
            raise RuntimeError(
                "this rank only runs the tasks that rank 0 hands out: in the block of "
                "`with AsyncContext('mpi') as ac:` check `if ac.leads:` first."
            )
        return self._dispatched

    # --- end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End all workers, even in the middle of a task, and free all memory."""
        if not self._closed:
            self._closed = True
            try:
                if self._dispatched is not None:
                    self._dispatched.close()
            finally:
                self._shelf.clear()

    def _check_open(self) -> None:
        if self._dispatched is not None:
            self._dispatched.check_open()

    def __enter__(self) -> AsyncContext:
        self._check_open()
        if self._job is not None and not self._job.leads and not self._closed:
            self._closed = True
            self._job.serve()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self._dispatched is not None and not self._closed:
            self._dispatched.executor.fail(error)
        self.close()

    def __repr__(self) -> str:
        if self._dispatched is None:
            return "<AsyncContext on mpi: runs tasks of rank 0>"
        how = "closed" if self._closed else self._dispatch.describe()
        return f"<AsyncContext on {self._dispatch.executor.name}: {how}>"


def _value_of(result: Result | TaskFailure) -> Result:
    if isinstance(result, TaskFailure):
        raise result.error
    return result
