"""A lock in shared memory that outlives its owner: another worker may take it from a dead owner.

A lock is a word: 0, or 1 plus the number of its owner. It is taken by a compare-exchange and given
back by a releasing store. No function of this file waits: a worker that waits for a lock calls
`take` again. A worker that takes a lock over finishes the work that the dead owner has left half
done.

Writers: a worker that takes the lock, and the lock's owner. Readers: all workers. The memory's
owner frees the memory.
"""

from hogshare.kernels.jit.atomics import compare_exchange, load, store
from hogshare.kernels.jit.decorators import kernel


@kernel
def take(words, place, me):
    """Take a lock if it is free; return whether it was free."""
    return compare_exchange(words, place, 0, me + 1) == 0


@kernel
def take_over(words, place, dead, me):
    """Take a lock from a dead owner; return whether `dead` still was the owner."""
    return compare_exchange(words, place, dead + 1, me + 1) == dead + 1


@kernel
def owner(words, place):
    """Return the lock's owner, or -1 if it is free."""
    return load(words, place) - 1


@kernel
def note(words, place, value):
    """Write the owner's progress (releasing), so it becomes visible after all earlier stores."""
    store(words, place, value)


@kernel
def give_back(words, place):
    """Give the lock back (releasing): the next owner sees all earlier stores."""
    store(words, place, 0)
