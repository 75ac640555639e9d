"""Send objects over a socket; neither end copies the bytes of their arrays.

A message is a header, the lengths of its buffers, a pickle (protocol 5), and the buffers, which are
the bytes of the arrays. Unpickling a message is safe: both ends are processes of the same user,
started by the caller, and no other process can connect to an unnamed socket pair. Freeing: the
receiver owns the descriptors of a message and must close them.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from hogshare.runtimes.user_objects import pickled


class Unreadable(Exception):
    """A whole message has come, and unpickling it has raised the error that is the cause."""


HEADER = struct.Struct("=QII")  # bytes of the pickle, number of buffers, number of descriptors
MAX_FDS = 250
MAX_PARTS = 512  # buffers in one call, below the system's limit


def send(sock: socket.socket, thing: Any, fds: Sequence[int] = ()) -> None:
    """Send an object and file descriptors; wait until the socket has accepted the whole message.

    Raises OSError if the other end is gone.
    """
    found: list[pickle.PickleBuffer] = []
    content = pickled(thing, found)
    buffers = [buffer.raw() for buffer in found]
    lengths = struct.pack(f"={len(buffers)}Q", *(buffer.nbytes for buffer in buffers))
    head = HEADER.pack(len(content), len(buffers), len(fds)) + lengths
    parts = [memoryview(head), memoryview(content), *(b for b in buffers if b.nbytes)]
    given = list(fds)
    while parts:
        if given:  # descriptors travel with the first bytes, where `receive` expects them
            sent, given = socket.send_fds(sock, parts[:1], given), []
        else:
            sent = sock.sendmsg(parts[:MAX_PARTS])
        while parts and sent >= parts[0].nbytes:
            sent -= parts.pop(0).nbytes
        if sent:
            parts[0] = parts[0][sent:]


def receive(sock: socket.socket) -> tuple[Any, list[int]]:
    """Return the next object and its descriptors.

    Raises EOFError if the other end is closed, and Unreadable if unpickling the object raises.
    """
    # never read past the header with recv_fds: the buffers are received into their own memory
    head, fds = bytearray(), list[int]()
    while len(head) < HEADER.size:
        data, more, _, _ = socket.recv_fds(
            sock, HEADER.size - len(head), MAX_FDS, socket.MSG_CMSG_CLOEXEC
        )
        if not data:
            raise EOFError
        head += data
        fds += more
    n_bytes, n_buffers, _ = HEADER.unpack(head)
    lengths = struct.unpack(f"={n_buffers}Q", _exactly(sock, 8 * n_buffers))
    content = _exactly(sock, n_bytes)
    buffers = [_exactly(sock, length) for length in lengths]
    try:
        return pickle.loads(content, buffers=buffers), fds
    except Exception as error:
        raise Unreadable from error


def _exactly(sock: socket.socket, n_bytes: int) -> memoryview:
    taken = np.empty(n_bytes, np.uint8).data  # not zeroed, unlike a bytearray
    left = taken
    while len(left):
        count = sock.recv_into(left)
        if not count:
            raise EOFError
        left = left[count:]
    return taken
