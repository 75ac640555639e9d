"""A worker process: takes tasks from its socket, keeps what comes with them, answers.

Who writes: the caller sends the next `Order` once it has the outcome of the last one, so that
neither end ever waits for the other to read. Who frees: the worker forgets what an order says, and
all of it when the caller closes the socket; memory that it maps is the caller's.
"""

from __future__ import annotations

import os
import socket

from hogshare.runtimes.fork_helper import TaskChannel
from hogshare.tasks import wire
from hogshare.tasks.work import Order, Store, TaskOutcome, line_of, work


def serve(channel: TaskChannel, fds: list[int]) -> None:
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


def _follow(order: Order, files: list[int], store: Store) -> TaskOutcome:
    left = iter(files)
    try:
        store.take(order, lambda parcel: parcel.opened(left))
    except BaseException as error:
        line = f"what the task needs cannot be read in a worker: {line_of(error)}"
        return TaskOutcome.failed(order.task.number, line)
    finally:
        for file in files:
            os.close(file)
    return work(order.task, store)
