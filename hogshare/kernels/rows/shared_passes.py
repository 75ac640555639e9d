"""A pass over rows that threads share: each thread takes the next part until no part is left.

Writers: all threads, by atomic adds to two words. NEXT is the number of the next part. The thread
that draws this number processes the part, writes its findings to the part's own place, and adds one
to DONE. Reader: the calling thread, after DONE has reached the number of parts; the acquiring load
of DONE makes the findings visible. The calling thread waits for parts, not for threads: a thread
that comes too late draws no part, and reads and writes only these two words. Freeing: nothing to
do, because each thread has references to its arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels.jit.atomics import fetch_add, load
from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.jit.host import yield_core

NEXT, DONE = 0, 8  # on cache lines of their own
# like `map`: calls a function for each of some parts, one after the other or in parallel
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

GLANCES = 1000  # number of polls, of a nanosecond each, before the core is given up once


class Helpers(NamedTuple):
    """Threads that take part in a pass besides the calling thread.

    count : number of these threads
    call : ``call(function)`` starts ``function(k)`` in thread k, for k from 1 to `count`, and
        returns at once
    """

    count: int
    call: Callable[[Callable[[int], None]], None]


NOBODY = Helpers(0, lambda function: None)


def new_words() -> np.ndarray:
    """Return new words NEXT and DONE for a pass."""
    return np.zeros(16, np.int64)


@helper
def draw(words):
    """Return the number of this thread's next part; if not below the number of parts, none is left.

    Each call adds one to NEXT.
    """
    return fetch_add(words, NEXT, 1)


@helper
def end_part(words):
    """Count a part as done, after its findings were written."""
    fetch_add(words, DONE, 1)


@helper
def wait_for_parts(words, n_parts):
    """Wait until all parts are done; other threads have drawn the parts that are not done yet."""
    glances = 0
    while load(words, DONE) < n_parts:
        glances += 1
        if glances == GLANCES:  # the awaited thread may need the core
            yield_core()
            glances = 0
