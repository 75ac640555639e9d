"""Events that Ctrl-C cannot break. A thread can wait for a `News` together with sockets.

Writers: any thread sets the event, after it has changed the state that the event announces.
Reader: the one thread that waits; it clears the event and then reads the state, and so misses no
change. Freeing: the descriptor is closed with the object. Every thread that may still set the event
has a reference to the object.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from multiprocessing.connection import wait

from hogshare.shm.descriptor import Descriptor


class News:
    """A `threading.Event` with a descriptor that is readable while it is set (Linux)."""

    def __init__(self) -> None:
        if not hasattr(os, "eventfd"):
            raise OSError(
                errno.ENOTSUP,
                "Worker processes need Linux (os.eventfd), which this system is not; use "
                'runtime="threads"',
            )
        self._file = Descriptor(os.eventfd, 0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._fd = self._file.number

    def set(self) -> None:
        """Set the event: wake the thread that waits now, or the next thread that waits."""
        os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        """Clear the event: `wait` waits for the next `set`. Read the state after this call."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the event is set, for at most `seconds`; return whether it is set."""
        return bool(wait([self._fd], seconds))

    def fileno(self) -> int:
        """Return the descriptor, to wait for it together with others."""
        return self._fd


class Bell:
    """An event like `threading.Event`, but one that still works after a Ctrl-C at any moment.

    If Ctrl-C comes just after the lock of a `threading.Event` was taken, this lock stays taken, and
    the next `set` waits for ever. The lock of a bell is the bell's state: free after `set`, taken
    after `clear`.
    """

    # Not queue.SimpleQueue: if a thread waits with a limit of half a millisecond, and is delayed
    # during this wait, the wait never ends (CPython 3.11).

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()

    def set(self) -> None:
        """Set the event: wake the thread that waits now, or the next thread that waits."""
        with contextlib.suppress(RuntimeError):  # it is set already
            self._silence.release()

    def clear(self) -> None:
        """Clear the event: `wait` waits for the next `set`. Read the state after this call."""
        self._silence.acquire(blocking=False)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the event is set, for at most `seconds`; return whether it was; clear it."""
        return self._silence.acquire(timeout=-1 if seconds is None else max(0.0, seconds))
