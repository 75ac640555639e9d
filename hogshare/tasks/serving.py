"""A worker process: takes tasks from its socket, keeps what comes with them, answers.

Who writes: the caller sends the next `Order` once it has the outcome of the last one, so that
neither end ever waits for the other to read. Who frees: the worker forgets what an order says, and
all of it when the caller closes the socket; memory that it maps is the caller's.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hogshare.runtimes.fork_helper import Channel
from hogshare.shm.arena import Arena
from hogshare.tasks import wire
from hogshare.tasks.work import Order, Outcome, Store, line_of, work


@dataclass(frozen=True)
class Parcel:
    """A thing on its way: a pickle, and the layout of the shared memory with its large arrays.

    Descriptors come with an order, one for each parcel that has a layout, in their order.
    """

    content: bytes
    layout: dict[str, Any] | None = None
    arena: Arena | None = None  # the caller's

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.content, "layout": self.layout, "arena": None}


def serve(channel: Channel, fds: list[int]) -> None:
    """What a member of the crew runs until the context is closed.

    channel : the crew's, which is not used: a caller that is gone ends this process
    fds : the socket
    """
    store = Store()
    with socket.socket(fileno=os.dup(fds[0])) as sock:
        while True:
            try:
                order, files = wire.receive(sock)
            except (EOFError, OSError):
                return
            outcome = _follow(order, files, store)
            try:
                wire.send(sock, outcome)
            except OSError:
                return
            except BaseException as error:  # its value cannot be pickled
                wire.send(sock, outcome.unsent(error))


def _follow(order: Order, files: list[int], store: Store) -> Outcome:
    left = iter(files)
    try:
        store.take(order, lambda parcel: opened(parcel, left))
    except BaseException as error:
        line = f"what the task needs cannot be read in a worker: {line_of(error)}"
        return Outcome.failed(order.task.number, line)
    finally:
        for file in files:
            os.close(file)
    return work(order.task, store)


def opened(parcel: Parcel, files: Iterator[int]) -> Any:
    """What is in a parcel; its large arrays stay in shared memory, and are read-only."""
    buffers: list[memoryview] = []
    if parcel.layout is not None:
        arena = Arena.attach(next(files), parcel.layout)
        buffers = [arena[name].data.toreadonly() for name in arena.names]
        arena.close()
    return pickle.loads(parcel.content, buffers=buffers)
