"""A lock in shared memory that outlives its owner: a worker that finds the owner dead takes over.

A word is 0, or 1 plus the number of its owner. It is taken by a compare-exchange and given back by
a releasing store. A worker that waits for it asks again; no function of this file waits. A worker
that takes over finishes the work that the dead owner has left half done.

Writers: a worker that takes it, and its owner. Readers: all.
"""

from hogshare.kernels.jit.atomics import compare_exchange, load, store
from hogshare.kernels.jit.decorators import kernel


@kernel
def take(words, place, me):
    """Take a lock if it is free; whether it was."""
    return compare_exchange(words, place, 0, me + 1) == 0


@kernel
def take_over(words, place, dead, me):
    """Take a lock from a dead owner; whether that still was the owner."""
    return compare_exchange(words, place, dead + 1, me + 1) == dead + 1


@kernel
def owner(words, place):
    """Return the lock's owner; -1: none."""
    return load(words, place) - 1


@kernel
def note(words, place, value):
    """Write the owner's progress, releasing: after all that was written before."""
    store(words, place, value)


@kernel
def give_back(words, place):
    """Give the lock back, releasing: the next owner sees all that was written before."""
    store(words, place, 0)
