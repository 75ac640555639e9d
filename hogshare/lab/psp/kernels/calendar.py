"""The queue of events: a calendar, and a heap for the bucket that has been reached.

The calendar divides virtual time into buckets (Brown 1988). A bucket is a linked list of the
workers whose next event is due in it. Only the events of the reached bucket are in the heap. An
event therefore costs as much with a million workers as with ten.
"""

import numpy as np

from hogshare.kernels.jit.decorators import exact_helper, exact_inlined
from hogshare.lab.psp.kernels.clockwork_state import (
    BUCKET,
    DUE,
    END,
    HEAP,
    LINK,
    PENDING,
    POLL,
    STATE,
    WAITING,
)


@exact_inlined
def bucket_of(time, width):
    """Return the index of the bucket that contains a time; bucket 0 starts at time 0."""
    return np.int64(min(time / width, 4e18))  # far times share a bucket: int64 would overflow


@exact_inlined
def push_heap(w, due, rank):
    """Add an event to the heap of the reached bucket."""
    i = w.words[HEAP]
    w.words[HEAP] += 1
    while i > 0:
        parent = (i - 1) >> 1
        theirs = w.heap_due[parent]
        if theirs < due or (theirs == due and w.heap_rank[parent] < rank):
            break
        w.heap_due[i] = theirs
        w.heap_rank[i] = w.heap_rank[parent]
        i = parent
    w.heap_due[i] = due
    w.heap_rank[i] = rank


@exact_inlined
def pop_heap(w):
    """Remove the earliest event; return its rank."""
    w.words[HEAP] -= 1
    w.words[PENDING] -= 1
    n = w.words[HEAP]
    rank = w.heap_rank[0]
    due = w.heap_due[n]
    moved = w.heap_rank[n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        right = child + 1
        if right < n and (
            w.heap_due[right] < w.heap_due[child]
            or (w.heap_due[right] == w.heap_due[child] and w.heap_rank[right] < w.heap_rank[child])
        ):
            child = right
        if due < w.heap_due[child] or (due == w.heap_due[child] and moved < w.heap_rank[child]):
            break
        w.heap_due[i] = w.heap_due[child]
        w.heap_rank[i] = w.heap_rank[child]
        i = child
    w.heap_due[i] = due
    w.heap_rank[i] = moved
    return rank


@exact_inlined
def schedule(s, w, k, due, kind):
    """Schedule worker `k`'s next event, unless it is due after the end of the run."""
    w.real[k, DUE] = due
    if due > s.until:
        return
    w.words[PENDING] += 1
    number = bucket_of(due, s.width)
    if number <= w.words[BUCKET]:
        push_heap(w, due, kind * w.whole.shape[0] + k)
        return
    slot = number & (w.bucket.shape[0] - 1)  # the number of buckets is a power of two
    # the kind is not stored: it is an end while the worker computes, a poll while it waits
    w.whole[k, LINK] = w.bucket[slot]
    w.bucket[slot] = k


@exact_inlined
def open_bucket(s, w):
    """Move the events of the reached bucket into the heap."""
    slot = w.words[BUCKET] & (w.bucket.shape[0] - 1)
    k = w.bucket[slot]
    w.bucket[slot] = -1
    while k >= 0:
        following = w.whole[k, LINK]  # the worker may be linked again below
        if bucket_of(w.real[k, DUE], s.width) <= w.words[BUCKET]:
            kind = POLL if w.whole[k, STATE] == WAITING else END
            push_heap(w, w.real[k, DUE], kind * w.whole.shape[0] + k)
        else:  # of a later cycle through the buckets
            w.whole[k, LINK] = w.bucket[slot]
            w.bucket[slot] = k
        k = following


@exact_helper
def fill_heap(s, w):
    """Advance to the next bucket with an event, if any, and move its events into the heap."""
    empty = 0
    while w.words[HEAP] == 0 and w.words[PENDING] > 0:
        w.words[BUCKET] += 1
        open_bucket(s, w)
        empty += 1
        if empty > w.bucket.shape[0] and w.words[HEAP] == 0:
            # a whole cycle without an event: jump to the earliest event
            least = np.int64(4e18)
            for slot in range(w.bucket.shape[0]):
                k = w.bucket[slot]
                while k >= 0:
                    least = min(least, bucket_of(w.real[k, DUE], s.width))
                    k = w.whole[k, LINK]
            w.words[BUCKET] = least
            open_bucket(s, w)
