"""The one door to `dask` and `distributed`: collections, the client that is there, this worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from math import isnan
from typing import Any

import numpy as np

from hogshare.system import extras

MEMBERS_SECONDS = 0.25  # between two questions who is there
LOOP_PASSES = 3  # until what was asked of a loop has been done, and what that asks
NO_LIBRARY = (
    "X is a Dask collection, and dask.distributed, which would fit it where it is, cannot be "
    "imported: {how}. What fits in this machine's memory may be handed over as X.compute()."
)
NO_CLIENT = (
    "X is a Dask collection, and no client of a cluster is there. Make one before fit: from "
    "dask.distributed import Client; client = Client(). What fits in this machine's memory may be "
    "handed over as X.compute()."
)


def is_collection(thing: Any) -> bool:
    """Whether something is a Dask array, data frame or series; asked without Dask."""
    return hasattr(thing, "__dask_graph__") and hasattr(thing, "to_delayed")


def local_client() -> Any:
    """The client that Dask itself would use.

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
    """Workers that are there, by address, with their threads.

    Not by ``client.scheduler_info``, whose answer the client's own refresh, which asks for none of
    the workers, may overwrite before it is read.
    """
    return {address: int(count) for address, count in client.nthreads().items()}


def memory_of(client: Any) -> dict[str, int]:
    """Bytes that each worker may have, by address; 0 where nobody limits it."""
    limits = client.run(_memory_limit, on_error="ignore")
    return {address: int(limit or 0) for address, limit in limits.items()}


def _memory_limit(dask_worker: Any) -> Any:
    return dask_worker.memory_manager.memory_limit


def this_worker() -> Any:
    """The worker that runs the task."""
    from distributed import get_worker

    return get_worker()


def delayed(function: Callable[..., Any], *args: Any) -> Any:
    """A call that the cluster makes when it is asked to."""
    from dask.delayed import delayed as call

    return call(function, pure=False)(*args)


def row_blocks(name: str, thing: Any) -> list[Any]:
    """The blocks of rows of a collection, as delayed things; each has all columns.

    Raises
    ------
    TypeError
        If it is no array, data frame or series.
    """
    if not is_collection(thing):
        raise TypeError(
            f"{name} must be a Dask collection as X is, or an array beside a Dask array whose "
            f"chunks are known; got {type(thing).__name__}."
        )
    if hasattr(thing, "numblocks") and getattr(thing, "ndim", 1) == 2 and thing.numblocks[1] > 1:
        thing = thing.rechunk({1: -1})
    # an array's tasks under their own names: what is fused here for X alone, and there for X[:5] or
    # for y, has one name for unlike tasks, and loads each chunk once for X and once for y
    found = thing.to_delayed(optimize_graph=not hasattr(thing, "numblocks"))
    return list(found.ravel() if hasattr(found, "ravel") else found)


def pieces(X: Any, **others: Any) -> dict[str, list[Any]]:
    """The blocks of X, and of what has one entry per row of it, cut where X is cut.

    Raises ValueError or TypeError if they are not cut alike.
    """
    found = {"X": row_blocks("X", X)}
    found |= {name: row_blocks(name, cut_alike(name, one, X)) for name, one in others.items()}
    if len(set(map(len, found.values()))) > 1:
        counts = " and ".join(str(len(part)) for part in found.values())
        raise ValueError(f"X, y and weights are in {counts} partitions: cut them alike.")
    return found


def cut_alike(name: str, thing: Any, X: Any) -> Any:
    """Something with one entry per row of X, cut where X is cut, as far as that can be told here.

    Raises
    ------
    TypeError, ValueError
        If it is an array in memory and the chunks of X are not known; if lengths differ.
    """
    chunks: tuple[float, ...] = X.chunks[0] if hasattr(X, "chunks") else ()
    known = bool(chunks) and not any(map(isnan, chunks))
    if not is_collection(thing):
        if not known or not hasattr(thing, "__len__"):
            return thing  # which `row_blocks` refuses
        from dask import array

        thing = array.from_array(np.asarray(thing), chunks=-1)  # type: ignore[no-untyped-call]
    if not known or not hasattr(thing, "chunks") or any(map(isnan, thing.chunks[0])):
        return thing  # by partitions; each tells its length on its worker
    if sum(thing.chunks[0]) != sum(chunks):
        raise ValueError(
            f"X has {sum(chunks)} rows, and {name} {sum(thing.chunks[0])}: they need as many."
        )
    return thing if thing.chunks[0] == chunks else thing.rechunk({0: chunks})


def rows_of(parts: list[Any], X: Any, like: np.ndarray) -> Any:
    """A Dask array of what each block of a collection's rows comes to, one below the other.

    parts : delayed arrays, with a row for each row of the blocks of X
    like : without rows, of their shape and dtype
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
    """Begin to fetch what a future of the cluster comes to, and return what will have it.

    Nobody waits, unlike in ``future.result()``, which waits for ever where the outcome is lost with
    its worker and nobody can compute it again. It is not to be cancelled: fetches of several
    futures travel together, and all would be.
    """

    async def fetched() -> Any:
        (found,) = await client.gather([future], asynchronous=True)
        return found

    return asyncio.run_coroutine_threadsafe(fetched(), client.loop.asyncio_loop)


def settle_releases() -> None:
    """Have releases of futures told before whatever is submitted next, if there is a client.

    A release goes twice through the client's loop and a graph once, which can so overtake it. The
    scheduler then finds tasks of a collection as another graph has fused them, and gives up the new
    graph, or the worker that has the task (https://github.com/dask/dask/issues/9888).
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
    """Without the warning that arrays travel with the graph: that is how they outlive workers."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        yield
