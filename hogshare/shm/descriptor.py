"""A file's number that is closed once, whatever happens: a signal, a cycle, the interpreter's end.

A destructor written in Python may be interrupted before it does anything, and is not called again;
closing in two steps may be interrupted between them. Here forgetting the number and closing it are
one step of the interpreter, in which no signal is handled, and so is what the object's end calls.
"""

from __future__ import annotations

import functools
import operator
import os
import weakref
from collections.abc import Callable

from hogshare.system.interrupts import DeferredSignals

# By number, of which there are few; one that is used again takes the place of one that is gone.
_ends: dict[int, weakref.ref[Descriptor]] = {}


class Descriptor:
    """A file's number, which is closed once: when somebody says so, or nobody has this any more.

    make : ``make(*args)`` opens it, and returns the number: no signal comes before that has an
        owner
    """

    def __init__(self, make: Callable[..., int], *args: object) -> None:
        with DeferredSignals():
            number = make(*args)
            self._number = number
            self._left = iter([number])
            self._closing = map(os.close, self._left)
            # next(closing, the reference): the second is what it answers if all is done
            _ends[number] = weakref.ref(self, functools.partial(next, self._closing))

    @property
    def number(self) -> int:
        """-1 if it is closed."""
        return self._number if operator.length_hint(self._left) else -1

    def close(self) -> None:
        """Close it, if it is not."""
        next(self._closing, None)
