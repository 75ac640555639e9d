"""File descriptors that are closed exactly once, despite signals, cycles and the interpreter's end.

A destructor in Python may be interrupted before its first step, and is not called again. A close in
two steps may be interrupted between the steps. Therefore this file closes a descriptor and forgets
its number in one step of the interpreter. No signal is handled within this step. The object's
finalizer is also one step.
"""

from __future__ import annotations

import functools
import operator
import os
import weakref
from collections.abc import Callable

from hogshare.system.interrupts import DeferredSignals

# By descriptor number. The numbers are few, and a new file with a reused number replaces the old
# entry.
_ends: dict[int, weakref.ref[Descriptor]] = {}


class Descriptor:
    """A file descriptor, closed once: by `close`, or with the last reference to this object.

    make : ``make(*args)`` opens the file and returns its number; signals are deferred until this
        object owns the number
    """

    def __init__(self, make: Callable[..., int], *args: object) -> None:
        with DeferredSignals():
            number = make(*args)
            self._number = number
            self._left = iter([number])
            self._closing = map(os.close, self._left)
            # calls next(closing, reference): the second is the default if the file is closed
            _ends[number] = weakref.ref(self, functools.partial(next, self._closing))

    @property
    def number(self) -> int:
        """The descriptor's number; -1 if it is closed."""
        return self._number if operator.length_hint(self._left) else -1

    def close(self) -> None:
        """Close the file, unless it is closed already."""
        next(self._closing, None)
