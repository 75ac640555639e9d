"""A lock in shared memory that outlives its holder: who finds that one dead takes it over.

A word holds 0, or the number of its holder and 1. It is taken by a compare-exchange, given back by
a releasing store. Who waits for it asks again; nothing waits here. What a dead holder has left half
done is for who takes over to bring to its end.

Who writes: whoever takes it, and its holder. Who reads: all.
"""

from hogshare.kernels.jit.atomics import compare_exchange, load, store
from hogshare.kernels.jit.decorators import kernel


@kernel
def take(words, place, me):
    """Take a lock that is free; whether it was."""
    return compare_exchange(words, place, 0, me + 1) == 0


@kernel
def take_over(words, place, dead, me):
    """Take a lock from a holder that is dead; whether it still was the holder."""
    return compare_exchange(words, place, dead + 1, me + 1) == dead + 1


@kernel
def holder(words, place):
    """Who has it; -1: nobody."""
    return load(words, place) - 1


@kernel
def note(words, place, value):
    """Write down what the holder does, after all that was written before."""
    store(words, place, value)


@kernel
def give_back(words, place):
    """Let others have it, with all that was written before."""
    store(words, place, 0)
