"""The only module that imports `dask` and `distributed`: collections, client, and worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from math import isnan
from typing import Any

import numpy as np

from hogshare.system import extras

MEMBERS_SECONDS = 0.25  # between two queries for the cluster's workers
LOOP_PASSES = 3  # passes of the client's loop until a request, and the requests it causes, are done
NO_LIBRARY = (
    "X is a Dask collection, which is fitted on its cluster, and dask.distributed cannot be "
    "imported: {how}. If X fits in this machine's memory, pass X.compute() instead."
)
NO_CLIENT = (
    "X is a Dask collection, and this process has no client of a cluster. Make one before fit: "
    "from dask.distributed import Client; client = Client(). If X fits in this machine's memory, "
    "pass X.compute() instead."
)


def is_collection(thing: Any) -> bool:
    """Return whether something is a Dask array, data frame or series, without importing Dask."""
    return hasattr(thing, "__dask_graph__") and hasattr(thing, "to_delayed")


def local_client() -> Any:
    """Return the client that Dask itself would use.

    Raises
    ------
    ImportError
        If `distributed` is not installed.
    ValueError
        If there is no client, or if its cluster has no workers.
    """
    try:
        from distributed import get_client
    except ImportError as error:
        how = extras.command_for("distributed")
        raise ImportError(NO_LIBRARY.format(how=how)) from error
    try:
        client = get_client()
    except ValueError as error:
        raise ValueError(NO_CLIENT) from error
    if not threads_of(client):
        raise ValueError(
            "the client's cluster has no workers: wait for them with client.wait_for_workers(1)."
        )
    return client


def threads_of(client: Any) -> dict[str, int]:
    """Return the number of threads of each present worker, by address."""
    # Not with ``client.scheduler_info``: the client's own refresh, which requests no workers, may
    # overwrite this result before it is read.
    return {address: int(count) for address, count in client.nthreads().items()}


def memory_of(client: Any) -> dict[str, int]:
    """Return the memory limit of each worker in bytes, by address; 0 without a limit."""
    limits = client.run(_memory_limit, on_error="ignore")
    return {address: int(limit or 0) for address, limit in limits.items()}


def _memory_limit(dask_worker: Any) -> Any:
    return dask_worker.memory_manager.memory_limit


def this_worker() -> Any:
    """Return the worker that runs the current task."""
    from distributed import get_worker

    return get_worker()


def delayed(function: Callable[..., Any], *args: Any) -> Any:
    """Return a delayed call for the cluster."""
    from dask.delayed import delayed as call

    return call(function, pure=False)(*args)


def row_blocks(name: str, thing: Any) -> list[Any]:
    """Return the blocks of rows of a collection as delayed objects; each has all columns.

    Raises
    ------
    TypeError
        If `thing` is not an array, a data frame or a series.
    """
    if not is_collection(thing):
        raise TypeError(
            f"{name} must be a Dask collection as X is, or, if X is a Dask array with known "
            f"chunks, an array; got {type(thing).__name__}."
        )
    if hasattr(thing, "numblocks") and getattr(thing, "ndim", 1) == 2 and thing.numblocks[1] > 1:
        thing = thing.rechunk({1: -1})
    # Do not let Dask fuse an array's tasks. It may fuse them in different ways for X alone and for
    # X[:5] or y, and would give the different tasks the same name. Each chunk would then be loaded
    # once for X and once for y.
    found = thing.to_delayed(optimize_graph=not hasattr(thing, "numblocks"))
    return list(found.ravel() if hasattr(found, "ravel") else found)


def pieces(X: Any, **others: Any) -> dict[str, list[Any]]:
    """Return the blocks of X and of other collections, which must be cut at the same rows.

    others : collections with one entry per row of X

    Raises
    ------
    ValueError, TypeError
        If the numbers of blocks differ, or for the reasons of `row_blocks` and `cut_alike`.
    """
    found = {"X": row_blocks("X", X)}
    found |= {name: row_blocks(name, cut_alike(name, one, X)) for name, one in others.items()}
    if len(set(map(len, found.values()))) > 1:
        counts = " and ".join(str(len(part)) for part in found.values())
        raise ValueError(
            f"X, y and weights have {counts} partitions: cut them at the same rows, e.g. by "
            "repartition or rechunk."
        )
    return found


def cut_alike(name: str, thing: Any, X: Any) -> Any:
    """Cut `thing` at the rows at which X is cut, if the chunks of both are known.

    If they are not known, return `thing` unchanged.

    thing : a collection, or an array in memory, with one entry for each row of X

    Raises
    ------
    ValueError
        If the numbers of rows are known and differ.
    """
    chunks: tuple[float, ...] = X.chunks[0] if hasattr(X, "chunks") else ()
    known = bool(chunks) and not any(map(isnan, chunks))
    if not is_collection(thing):
        if not known or not hasattr(thing, "__len__"):
            return thing  # `row_blocks` refuses it
        from dask import array

        thing = array.from_array(np.asarray(thing), chunks=-1)  # type: ignore[no-untyped-call]
    if not known or not hasattr(thing, "chunks") or any(map(isnan, thing.chunks[0])):
        return thing  # cut into partitions, whose lengths the workers check
    if sum(thing.chunks[0]) != sum(chunks):
        raise ValueError(
            f"X has {sum(chunks)} rows and {name} has {sum(thing.chunks[0])}: the numbers must be "
            "equal."
        )
    return thing if thing.chunks[0] == chunks else thing.rechunk({0: chunks})


def rows_of(parts: list[Any], X: Any, like: np.ndarray) -> Any:
    """Return a Dask array that concatenates the results for the row blocks of a collection.

    parts : delayed arrays, one for each block of X, with one row for each row of the block
    like : an array without rows, with the other dimensions and the dtype of `parts`
    """
    from dask import array

    from_part: Any = array.from_delayed
    together: Any = array.concatenate
    heights = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(parts)
    arrays = [
        from_part(part, (height, *like.shape[1:]), like.dtype, like)
        for part, height in zip(parts, heights, strict=True)
    ]
    return together(arrays, allow_unknown_chunksizes=True)


def fetch(client: Any, future: Any) -> Future[Any]:
    """Begin to fetch the result of a cluster's future, and return a local future of it.

    The function does not wait. (``future.result()`` waits for ever if the result is lost with its
    worker and cannot be computed again.) Do not cancel the local future: several futures are
    fetched together, and all of their fetches would be cancelled.
    """

    async def fetched() -> Any:
        (found,) = await client.gather([future], asynchronous=True)
        return found

    return asyncio.run_coroutine_threadsafe(fetched(), client.loop.asyncio_loop)


def settle_releases() -> None:
    """If there is a client, wait until its scheduler has received all releases of futures.

    Call this before a submission. A release passes through the client's loop twice and a graph
    once, so a graph can overtake a release. The scheduler then still has a collection's tasks in
    the form in which an earlier graph fused them. It gives up the new graph, or the worker that has
    the task (https://github.com/dask/dask/issues/9888).
    """

    async def settled() -> None:
        for _ in range(LOOP_PASSES):
            await asyncio.sleep(0)

    try:
        from distributed import get_client

        client: Any = get_client()
    except (ImportError, ValueError):
        return
    if client.status == "running" and not client.asynchronous:
        client.sync(settled)


@contextmanager
def large_graphs() -> Iterator[None]:
    """Silence Dask's warning about arrays in a graph; they must be in it to outlive workers."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        yield
