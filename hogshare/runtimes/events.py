"""Events that Ctrl-C leaves whole, and one that can be waited for beside sockets.

Who writes: any thread sets it, after it has changed what it tells about. Who reads: the one thread
that waits; it clears it and then looks, so that no news is lost. Who frees: the descriptor goes
with the object, which a thread that may still set it holds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from multiprocessing.connection import wait

from hogshare.shm.descriptor import Descriptor


class News:
    """As `threading.Event`, with a descriptor that is readable while it is set (Linux)."""

    def __init__(self) -> None:
        if not hasattr(os, "eventfd"):
            raise OSError(
                errno.ENOTSUP,
                "This system is not Linux, on which workers in processes depend; use "
                'runtime="threads"',
            )
        self._file = Descriptor(os.eventfd, 0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._fd = self._file.number

    def set(self) -> None:
        """Wake whoever waits, now or next."""
        os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        """Take note: from here on `wait` waits for what comes next. Look afterwards, not before."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set, or that long; return whether it is."""
        return bool(wait([self._fd], seconds))

    def fileno(self) -> int:
        """Return the descriptor, to wait for it beside others."""
        return self._fd


class Bell:
    """As `threading.Event`, whose lock stays taken where Ctrl-C comes just after it was.

    Who sets it would wait for ever. Here the lock is what is told: it is free while the bell has
    been rung and nobody has taken note. Not `queue.SimpleQueue`: where a thread is held up within a
    wait of half a millisecond, that waits on without an end, as of CPython 3.11.
    """

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()

    def set(self) -> None:
        """Wake whoever waits, now or next."""
        with contextlib.suppress(RuntimeError):  # it has been rung already
            self._silence.release()

    def clear(self) -> None:
        """Take note: from here on `wait` waits for what comes next. Look afterwards, not before."""
        self._silence.acquire(blocking=False)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set, or that long; return whether it was. Whoever waits takes note."""
        return self._silence.acquire(timeout=-1 if seconds is None else max(0.0, seconds))
