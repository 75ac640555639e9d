"""A pass over rows that threads share: whoever is there takes the next part until none is left.

Who writes: all threads, by atomic adds to two words. NEXT is the number of the next part; whoever
has drawn it does the part, writes what it found to the part's own place, and adds one to DONE. Who
reads: the thread that called, when DONE has come to the number of parts; DONE carries what was
found. It waits for parts and not for threads: one that comes too late draws nothing, and touches
nothing but these words. Who frees: nobody needs to; a thread holds the arrays that it may touch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels.jit.atomics import fetch_add, load
from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.jit.host import yield_core

NEXT, DONE = 0, 8  # on cache lines of their own
# as `map`: what calls a function for each of some parts, one after the other or side by side
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

GLANCES = 1000  # a nanosecond each, between two times that the core is given up


class Helpers(NamedTuple):
    """Threads that take part in a pass besides the calling one.

    call : ``call(function)`` lets each of them call ``function(k)``, with k from 1 to `count`, and
        comes back at once
    """

    count: int
    call: Callable[[Callable[[int], None]], None]


NOBODY = Helpers(0, lambda function: None)


def new_words() -> np.ndarray:
    """The words of a pass."""
    return np.zeros(16, np.int64)


@helper
def draw(words):
    """Number of a part for this thread; as many as there are, or more, if none is left."""
    return fetch_add(words, NEXT, 1)


@helper
def end_part(words):
    """Say that a part is done whose number this thread has drawn."""
    fetch_add(words, DONE, 1)


@helper
def wait_for_parts(words, n_parts):
    """Come back when all parts are done, which others do that have drawn them already."""
    glances = 0
    while load(words, DONE) < n_parts:
        glances += 1
        if glances == GLANCES:  # who is waited for may need the core
            yield_core()
            glances = 0
