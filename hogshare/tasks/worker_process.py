"""A worker process: receives tasks over its socket, caches their objects, sends outcomes.

Writers: the caller sends an `Order` only after it has received the outcome of the previous order.
So neither end waits with a message while the other end also sends. Readers: the receiver of each
message. Freeing: the worker drops the objects that an order lists, and drops all objects when the
caller closes the socket. The memory that the worker maps belongs to the caller.
"""

from __future__ import annotations

import os
import socket

from hogshare.runtimes.fork_helper import TaskChannel
from hogshare.tasks import wire
from hogshare.tasks.work import Order, Store, TaskOutcome, line_of, work


def serve(channel: TaskChannel, fds: list[int]) -> None:
    """Run tasks in a member of the crew until the context is closed.

    channel : the crew's channel, not used: if the caller is gone, this process ends without it
    fds : list with the descriptor of the socket to the caller
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
            except BaseException as error:  # the outcome's value cannot be pickled
                wire.send(sock, outcome.unsent(error))


def _follow(order: Order, files: list[int], store: Store) -> TaskOutcome:
    left = iter(files)
    try:
        store.take(order, lambda parcel: parcel.opened(left))
    except BaseException as error:
        line = f"a function or rows of the task cannot be read in a worker: {line_of(error)}"
        return TaskOutcome.failed(order.task.number, line)
    finally:
        for file in files:
            os.close(file)
    return work(order.task, store)
