"""Workers and a barrier on a virtual clock, without a model: who completes how many blocks.

One thread writes and reads everything here. A worker has one event ahead at most: the end of its
block, or its next look at the barrier. `run` takes the earliest, until the time is over.

- Ends of blocks wait in a calendar (Brown 1988): buckets of virtual time, as lists. The bucket
  that is reached goes into a heap, so that an event costs the same with ten workers and a million.
- Looks with a sample come back after a fixed time, so the queue of looks is sorted by itself: a
  ring. Who is in a sample does not matter when it is drawn anew at every look, only how many of it
  are near. Of n others m are near, and k without replacement are all among them with chance
  m / n * (m - 1) / (n - 1) * ... (k factors). One random number is held against the product. m is
  ``at_least[clock - staleness]``, less oneself. The chance is kept for each clock with one that is
  a little larger: it only grows as others come on, and few random numbers fall between the two.
- Without a sample the answer depends on the own clock alone, and who has more of it waits longer.
  So there is a `FRONTIER`, the largest clock that passes. Who is above it waits in a list by clock
  until the frontier comes there: nobody is scanned, and looks that say no are counted, not made.
- Who holds a sample waits in the list of the first worker of it that is too far behind, and is told
  when that one's clock advances. Clocks only grow, so who has been found near is near.

`at_least` stands in for the minimum: v is the least clock when as many workers have got to v as
there are. It is counted up by the ends of blocks; below the least clock it is not kept.

At one moment who leaves or joins comes first, then ends of blocks by worker, then looks in the
order in which they were asked for. What is drawn depends on the worker, its clock and the number of
its look, not on that order.
"""

import math
from typing import NamedTuple

import numpy as np

from hogshare.kernels.barriers import EVERYBODY, FREE, LAG, THROTTLED, within
from hogshare.kernels.blocktimes import block_seconds
from hogshare.kernels.jit import exact_helper, exact_inlined, exact_kernel
from hogshare.kernels.streams import block_state, fraction, next_random

# World.whole and World.real: all that an event needs of a worker, on one cache line
CLOCK = 0
STATE = 1
LINK = 2  # the next worker in the list that it is in, or -1
MARKER = 3  # throttled: the generation in which it came; held sample: members that need no look
DUE = 4  # the time of its event; while it waits in a list, of its next look
ARRIVED_AT = 5  # when it completed its last block
WAITED = 6  # virtual seconds
SLOWNESS = 7
N_FIELDS = 8

# values of STATE
ABSENT = 0  # has not joined
COMPUTING = 1
WAITING = 2
GONE = 3  # has left, or is done

# kinds of events in the calendar, in the order in which they happen at one moment
END = 0
LOOK = 1

# kinds of recorded events
COMPLETED = 0
PASSED = 1
JOINED = 2
LEFT = 3

# why `run` came back
OVER = 0
PAUSED = 1  # the budget of events is used up
SMALL = 2  # the arrays by clock must be longer
FULL = 3  # the record is full

CLOSENESS = 32  # the chances that are kept of a clock are apart by one part in so many, about

# World.words
LIVE = 0  # workers in the barrier's world
LEAST = 1  # their least clock
MOST = 2  # the largest clock that anybody has had
FRONTIER = 3  # without a sample: the largest clock that passes, at most MOST
GENERATION = 4  # releases of the throttled barrier
ARRIVED = 5  # who has come to it since the last
PENDING = 6  # workers in the calendar and the heap
HEAP = 7  # of which in the heap
BUCKET = 8  # the bucket that has been reached, counted from time 0
RING = 9  # where the first look of the ring is
LOOKS = 10  # looks in the ring
UPDATES = 11  # blocks completed
PASSES = 12
CHECKS = 13  # looks at the barrier: at a block's end, and each later one
CONTROL = 14  # workers asked for their clock, summed over looks with a sample
CHANGE = 15  # the next of who joins or leaves
MARK = 16  # the next of the moments at which updates are noted
RECORDED = 17
N_WORDS = 18


class Setting(NamedTuple):
    """What does not change in a run."""

    barrier: int  # as `hogshare.kernels.barriers` has them
    sample: int
    staleness: int
    share: float
    hold: int
    available: int
    code: int  # of the law of block times, with its numbers
    a: float
    b: float
    seed: int
    barrier_seed: int
    poll: float  # between looks; 0: who waits passes at the moment from which it may
    until: float
    blocks: int  # after which a worker is done; -1: never
    width: float  # virtual seconds of a bucket


class World(NamedTuple):
    """What does."""

    whole: np.ndarray  # int64 [n, N_FIELDS], the fields that are whole numbers
    real: np.ndarray  # float64 [n, N_FIELDS], the others: the same memory
    joined: np.ndarray  # float64 [n]
    present: np.ndarray  # float64 [n], seconds in the world, of those who have left
    trace: np.ndarray  # float64, of the law
    bucket: np.ndarray  # int64 [a power of two], first worker of each bucket's list
    heap_due: np.ndarray  # float64 [n]
    heap_rank: np.ndarray  # int64 [n], kind * n + worker
    ring_due: np.ndarray  # float64 [n], the four of the ring; empty if nobody looks through it
    ring_worker: np.ndarray  # int32 [n]
    ring_clock: np.ndarray  # int32 [n]
    ring_stream: np.ndarray  # uint32 [n]
    members: np.ndarray  # int64 [n], who is in the world; the five of held samples
    place: np.ndarray  # int64 [n], where in `members`
    held: np.ndarray  # int32 [n, sample]
    watcher: np.ndarray  # int64 [n], first of those who wait for that worker, or -1
    swaps: np.ndarray  # int64 [sample + 1], scratch
    at_least: np.ndarray  # int64 [clocks], how many in the world have that clock or more
    first: np.ndarray  # int64 [clocks], who waits with that clock: the list's first and last
    last: np.ndarray  # int64 [clocks]
    leads: np.ndarray  # int64 [clocks], passes with that lead over the least clock
    chance: np.ndarray  # float64 [clocks, 2], that a sample lets that clock pass: from, to
    chance_near: np.ndarray  # int64 [clocks, 3], for so many near, from, to, of so many others
    change_time: np.ndarray  # float64, sorted; who joins or leaves when
    change_worker: np.ndarray  # int64
    change_kind: np.ndarray  # int64
    marks: np.ndarray  # float64, sorted
    marked: np.ndarray  # int64, updates until then
    record_time: np.ndarray  # float64; empty: nothing is recorded
    record_worker: np.ndarray  # int64
    record_kind: np.ndarray  # int64
    words: np.ndarray  # int64 [N_WORDS]


# -- the calendar


@exact_inlined
def bucket_of(time, width):
    """Number of the bucket, counted from time 0; far ones are one."""
    return np.int64(min(time / width, 4e18))


@exact_inlined
def push_heap(w, due, rank):
    """Add an event to those of the bucket that has been reached."""
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
    """Take the earliest event out; its rank."""
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
    """Give worker `k` its next event; none that would come after the end."""
    w.real[k, DUE] = due
    if due > s.until:
        return
    w.words[PENDING] += 1
    number = bucket_of(due, s.width)
    if number <= w.words[BUCKET]:
        push_heap(w, due, kind * w.whole.shape[0] + k)
        return
    slot = number & (w.bucket.shape[0] - 1)
    # the kind is what its state says: an end while it computes, a look while it waits
    w.whole[k, LINK] = w.bucket[slot]
    w.bucket[slot] = k


@exact_inlined
def open_bucket(s, w):
    """Bring the events of the bucket that has been reached into the heap."""
    slot = w.words[BUCKET] & (w.bucket.shape[0] - 1)
    k = w.bucket[slot]
    w.bucket[slot] = -1
    while k >= 0:
        following = w.whole[k, LINK]
        if bucket_of(w.real[k, DUE], s.width) <= w.words[BUCKET]:
            kind = LOOK if w.whole[k, STATE] == WAITING else END
            push_heap(w, w.real[k, DUE], kind * w.whole.shape[0] + k)
        else:  # of a later year
            w.whole[k, LINK] = w.bucket[slot]
            w.bucket[slot] = k
        k = following


@exact_helper
def fill_heap(s, w):
    """Go on to the next bucket that has an event, if there is any."""
    empty = 0
    while w.words[HEAP] == 0 and w.words[PENDING] > 0:
        w.words[BUCKET] += 1
        open_bucket(s, w)
        empty += 1
        if empty > w.bucket.shape[0] and w.words[HEAP] == 0:
            # a year without an event: straight to the first one
            least = np.int64(4e18)
            for slot in range(w.bucket.shape[0]):
                k = w.bucket[slot]
                while k >= 0:
                    least = min(least, bucket_of(w.real[k, DUE], s.width))
                    k = w.whole[k, LINK]
            w.words[BUCKET] = least
            open_bucket(s, w)


# -- who is where


@exact_inlined
def near_to(s, w, clock):
    """How many others are within the bound of a worker with that clock."""
    wanted = clock - s.staleness
    if wanted <= w.words[LEAST]:
        return w.words[LIVE] - 1
    return w.at_least[wanted] - 1


@exact_inlined
def frontier_allows(s, w, clock):
    """The lag rule over everybody."""
    if s.share == 1.0:
        return within(clock, w.words[LEAST], s.staleness)
    return near_to(s, w, clock) >= s.share * (w.words[LIVE] - 1)


@exact_inlined
def raise_least(w):
    """Let the least clock be what the counts say."""
    while w.words[LEAST] < w.words[MOST] and w.at_least[w.words[LEAST] + 1] == w.words[LIVE]:
        w.words[LEAST] += 1


@exact_inlined
def note(w, time, worker, kind):
    """Record an event, if that was asked for."""
    if w.record_time.shape[0] > 0:
        i = w.words[RECORDED]
        w.record_time[i] = time
        w.record_worker[i] = worker
        w.record_kind[i] = kind
        w.words[RECORDED] += 1


@exact_inlined
def go(s, w, k, time):
    """Start a worker's next block."""
    clock = w.whole[k, CLOCK]
    w.whole[k, STATE] = COMPUTING
    law = block_seconds(s.code, s.a, s.b, w.trace, s.seed, k, clock)
    schedule(s, w, k, time + w.real[k, SLOWNESS] * law, END)


@exact_inlined
def let_pass(s, w, k, time):
    """Count a pass, and start the next block."""
    w.real[k, WAITED] += time - w.real[k, ARRIVED_AT]
    w.words[PASSES] += 1
    w.leads[w.whole[k, CLOCK] - w.words[LEAST]] += 1
    note(w, time, k, PASSED)
    go(s, w, k, time)


# -- waiting without a sample


@exact_inlined
def wait_in_list(w, k, level):
    """Append a worker to the list of a clock (of a throttled barrier: the one list there is)."""
    w.whole[k, LINK] = -1
    if w.first[level] < 0:
        w.first[level] = k
    else:
        w.whole[w.last[level], LINK] = k
    w.last[level] = k


@exact_helper
def size_of_held(s, w, k):
    """How many were in the sample that worker `k` holds when it was drawn."""
    size = s.sample
    while size > 0 and w.held[k, size - 1] < 0:
        size -= 1
    return size


@exact_helper
def count_looks(s, w, k, time):
    """Count the looks before that moment, which said no, of a worker that has waited in a list."""
    if s.poll > 0.0:
        due = w.real[k, DUE]
        looks = 0
        while due < time:  # added up one by one, as they would be made
            due += s.poll
            looks += 1
        w.real[k, DUE] = due
        w.words[CHECKS] += looks
        if looks > 0 and w.watcher.shape[0] > 0:
            w.words[CONTROL] += looks * size_of_held(s, w, k)


@exact_helper
def release(s, w, k, time):
    """Let a worker go that has waited: at once, or when its next look is due."""
    if s.poll == 0.0:
        let_pass(s, w, k, time)
    else:
        count_looks(s, w, k, time)
        schedule(s, w, k, w.real[k, DUE], LOOK)


@exact_helper
def wake_list(s, w, level, time):
    """Release all of a list."""
    k = w.first[level]
    w.first[level] = -1
    while k >= 0:
        following = w.whole[k, LINK]
        if w.whole[k, STATE] == WAITING:
            release(s, w, k, time)
        k = following


@exact_helper
def move_frontier(s, w, time):
    """After a change of clocks or of the world: who may pass now."""
    # it falls only when somebody has joined or left
    while w.words[FRONTIER] >= 0 and not frontier_allows(s, w, w.words[FRONTIER]):
        w.words[FRONTIER] -= 1
    while w.words[FRONTIER] < w.words[MOST] and frontier_allows(s, w, w.words[FRONTIER] + 1):
        w.words[FRONTIER] += 1
        wake_list(s, w, w.words[FRONTIER], time)


@exact_helper
def enough_arrived(s, w):
    """The throttled release's condition."""
    return w.words[ARRIVED] >= min(s.available, w.words[LIVE])


@exact_helper
def throttle_allows(s, w, k, time):
    """Whether worker `k` was released, or releases all that wait with this look."""
    if w.whole[k, MARKER] == w.words[GENERATION]:
        if not enough_arrived(s, w):
            return False
        w.words[GENERATION] += 1
        w.words[ARRIVED] = 0
        w.whole[k, STATE] = COMPUTING  # it passes by itself
        wake_list(s, w, 0, time)
    return True


# -- samples


@exact_helper
def chance_of(near, others, wanted):
    """Chance that all of a sample are near, `near` being so many of the `others`."""
    chance = 1.0
    for i in range(wanted):
        chance *= (near - i) / (others - i)
        if chance <= 0.0:
            return 0.0
    return chance


@exact_helper
def bound_chance(w, clock, near, others, wanted):
    """Keep the chance of a clock as it is now, and as it will be with a few more near.

    While no more are near, a random number that is not between the two needs no product.
    """
    more = min(others, near + near // (CLOSENESS * wanted))
    w.chance_near[clock, 0] = near
    w.chance_near[clock, 1] = more
    w.chance_near[clock, 2] = others
    w.chance[clock, 0] = chance_of(near, others, wanted)
    w.chance[clock, 1] = chance_of(more, others, wanted)


@exact_inlined
def all_near(w, clock, near, others, wanted, point):
    """Whether a random number lets that clock pass: whether it is below the chance."""
    if near == others:
        return True
    if (
        near < w.chance_near[clock, 0]
        or near > w.chance_near[clock, 1]
        or others != w.chance_near[clock, 2]
    ):
        bound_chance(w, clock, near, others, wanted)
    if point >= w.chance[clock, 1]:
        return False
    return point < w.chance[clock, 0] or point < chance_of(near, others, wanted)


@exact_helper
def share_near(near, others, wanted, share, stream):
    """Whether that share of a sample is near, drawn one by one; and the stream."""
    found = 0
    for i in range(wanted):
        stream = next_random(stream)
        if fraction(stream) * (others - i) < near - found:
            found += 1
    return found >= share * wanted, stream


@exact_inlined
def redraw(s, w, clock, stream):
    """Look at a fresh sample."""
    others = w.words[LIVE] - 1
    wanted = min(s.sample, others)
    near = near_to(s, w, clock)
    if s.share == 1.0:
        stream = next_random(stream)
        return all_near(w, clock, near, others, wanted, fraction(stream)), stream
    return share_near(near, others, wanted, s.share, stream)


@exact_helper
def draw_held(s, w, k, stream):
    """Draw the sample that worker `k` keeps: a shuffle's first few, which is then undone.

    One more than wanted is drawn from all, and the worker itself left out.
    """
    live = w.words[LIVE]
    wanted = min(s.sample, live - 1)
    taken = 0
    drawn = 0
    while taken < wanted:
        stream = next_random(stream)
        other = drawn + np.int64(fraction(stream) * (live - drawn))
        w.swaps[drawn] = other
        chosen = w.members[other]
        w.members[other] = w.members[drawn]
        w.members[drawn] = chosen
        drawn += 1
        if chosen != k:
            w.held[k, taken] = chosen
            taken += 1
    while drawn > 0:
        drawn -= 1
        other = w.swaps[drawn]
        swapped = w.members[other]
        w.members[other] = w.members[drawn]
        w.members[drawn] = swapped
    w.whole[k, MARKER] = 0
    for i in range(taken, s.sample):
        w.held[k, i] = -1


@exact_helper
def first_far(s, w, k):
    """The first of a held sample that is too far behind, or -1; who has left is out of it."""
    clock = w.whole[k, CLOCK]
    i = w.whole[k, MARKER]
    while i < s.sample:
        other = w.held[k, i]
        far = other >= 0 and not within(clock, w.whole[other, CLOCK], s.staleness)
        if far and w.whole[other, STATE] != GONE:
            w.whole[k, MARKER] = i  # clocks only grow: those before it stay near
            return np.int64(other)
        i += 1
    return np.int64(-1)


@exact_helper
def watch(s, w, k, other):
    """Wait for a worker of the held sample."""
    w.whole[k, LINK] = w.watcher[other]
    w.watcher[other] = k


@exact_helper
def tell_watchers(s, w, other, time):
    """A clock has advanced, or its worker has left: whom else do those who waited for it lack?"""
    k = w.watcher[other]
    w.watcher[other] = -1
    while k >= 0:
        following = w.whole[k, LINK]
        if w.whole[k, STATE] == WAITING:
            lacking = first_far(s, w, k)
            if lacking >= 0:
                watch(s, w, k, lacking)
            else:
                release(s, w, k, time)
        k = following


@exact_helper
def held_share_allows(s, w, k):
    """Whether a share of the sample that is held is near."""
    clock = w.whole[k, CLOCK]
    drawn = 0
    near = 0
    for i in range(s.sample):
        other = w.held[k, i]
        if other >= 0 and w.whole[other, STATE] != GONE:
            drawn += 1
            if within(clock, w.whole[other, CLOCK], s.staleness):
                near += 1
    return near >= s.share * drawn


@exact_inlined
def push_ring(s, w, k, clock, due, stream):
    """Ask for a look after all that were asked for."""
    if due > s.until:
        return
    n = w.ring_due.shape[0]
    i = w.words[RING] + w.words[LOOKS]
    if i >= n:
        i -= n
    w.ring_due[i] = due
    w.ring_worker[i] = k
    w.ring_clock[i] = clock
    w.ring_stream[i] = stream
    w.words[LOOKS] += 1


@exact_inlined
def look_around(s, w, stop):
    """Take looks from the ring, all before `stop`, until one passes: whose, or -1, and when.

    The others are asked for again, behind the last.
    """
    n = w.ring_due.shape[0]
    some_leave = w.change_time.shape[0] > 0
    wanted = min(s.sample, w.words[LIVE] - 1)
    i = w.words[RING]
    checks = 0
    asked = 0
    passed = np.int64(-1)
    time = w.ring_due[i]
    while w.words[LOOKS] > 0 and w.ring_due[i] < stop:
        k = np.int64(w.ring_worker[i])
        time = w.ring_due[i]
        clock = np.int64(w.ring_clock[i])
        stream = w.ring_stream[i]
        i = i + 1 if i + 1 < n else 0
        w.words[RING] = i
        w.words[LOOKS] -= 1
        if some_leave and w.whole[k, STATE] == GONE:
            continue
        checks += 1
        if s.hold == 1:
            asked += size_of_held(s, w, k)
            allowed = held_share_allows(s, w, k)
        else:
            asked += wanted
            allowed, stream = redraw(s, w, clock, stream)
        if allowed:
            passed = k
            break
        push_ring(s, w, k, clock, time + s.poll, stream)
    w.words[CHECKS] += checks
    w.words[CONTROL] += asked
    return passed, time


# -- events


@exact_helper
def leave(s, w, k, time, kind):
    """Take a worker out of the barrier's world."""
    if w.whole[k, STATE] == WAITING:
        w.real[k, WAITED] += time - w.real[k, ARRIVED_AT]
        if w.ring_due.shape[0] == 0:
            count_looks(s, w, k, time)
        if s.barrier == THROTTLED and w.whole[k, MARKER] == w.words[GENERATION]:
            w.words[ARRIVED] -= 1
    w.whole[k, STATE] = GONE
    w.present[k] = time - w.joined[k]
    w.words[LIVE] -= 1
    for clock in range(w.words[LEAST] + 1, w.whole[k, CLOCK] + 1):
        w.at_least[clock] -= 1
    if w.members.shape[0] > 0:
        last = w.members[w.words[LIVE]]
        w.members[w.place[k]] = last
        w.place[last] = w.place[k]
    if kind == LEFT:
        note(w, time, k, LEFT)
    if w.words[LIVE] == 0:
        return
    raise_least(w)
    if w.watcher.shape[0] > 0:
        tell_watchers(s, w, k, time)
    if s.barrier == LAG and s.sample == EVERYBODY:
        move_frontier(s, w, time)
    elif s.barrier == THROTTLED and w.words[ARRIVED] > 0 and enough_arrived(s, w):
        if s.poll == 0.0:
            w.words[GENERATION] += 1
            w.words[ARRIVED] = 0
        wake_list(s, w, 0, time)  # with looks: whoever looks first releases


@exact_helper
def join(s, w, k, time):
    """Bring a worker in at the others' least clock; the first block is free."""
    if w.words[LIVE] == 0:
        for clock in range(w.words[MOST] + 1):
            w.at_least[clock] = 0
        w.words[LEAST] = 0
        w.words[MOST] = 0
        w.words[FRONTIER] = 0
    w.whole[k, CLOCK] = w.words[LEAST]
    w.joined[k] = time
    if w.members.shape[0] > 0:
        w.members[w.words[LIVE]] = k
        w.place[k] = w.words[LIVE]
    w.words[LIVE] += 1
    note(w, time, k, JOINED)
    if s.barrier == LAG and s.sample == EVERYBODY:
        move_frontier(s, w, time)
    go(s, w, k, time)


@exact_inlined
def complete(s, w, k, time):
    """End a worker's block: its clock, who may pass on account of it, and whether it does."""
    clock = w.whole[k, CLOCK] + 1
    w.whole[k, CLOCK] = clock
    w.real[k, ARRIVED_AT] = time
    w.words[UPDATES] += 1
    w.words[MOST] = max(w.words[MOST], clock)
    w.at_least[clock] += 1
    note(w, time, k, COMPLETED)
    if clock == s.blocks:
        leave(s, w, k, time, COMPLETED)
        return False
    raise_least(w)
    # calls that have nothing to do are not made: handing over the world takes longer than the rest
    if s.barrier == LAG and s.sample == EVERYBODY:
        ahead = w.words[FRONTIER] + 1
        if ahead <= w.words[MOST] and frontier_allows(s, w, ahead):
            move_frontier(s, w, time)
    if w.watcher.shape[0] > 0 and w.watcher[k] >= 0:
        tell_watchers(s, w, k, time)
    w.words[CHECKS] += 1
    if s.barrier == FREE:
        return True
    w.whole[k, STATE] = WAITING
    if s.barrier == THROTTLED:
        w.whole[k, MARKER] = w.words[GENERATION]
        w.words[ARRIVED] += 1
        allowed = throttle_allows(s, w, k, time)
        level = 0
    elif s.sample == EVERYBODY:
        allowed = clock <= w.words[FRONTIER]
        level = clock
    else:
        level = -1
        w.words[CONTROL] += min(s.sample, w.words[LIVE] - 1)
        stream = block_state(s.barrier_seed, k, clock)
        lacking = np.int64(-1)
        if s.hold == 0:
            allowed, stream = redraw(s, w, clock, stream)
        else:
            draw_held(s, w, k, stream)
            if s.share == 1.0:
                lacking = first_far(s, w, k)
                allowed = lacking < 0
            else:
                allowed = held_share_allows(s, w, k)
        if lacking >= 0:
            w.real[k, DUE] = time + s.poll
            watch(s, w, k, lacking)
        elif not allowed:
            push_ring(s, w, k, clock, time + s.poll, stream)
    if level >= 0 and not allowed:
        w.real[k, DUE] = time + s.poll
        wait_in_list(w, k, level)
    return allowed


@exact_inlined
def look(s, w, k, time):
    """Look again, without a sample: the frontier may have fallen since it was woken."""
    w.words[CHECKS] += 1
    throttled = s.barrier == THROTTLED
    if throttled:
        allowed = throttle_allows(s, w, k, time)
    elif w.watcher.shape[0] > 0:
        w.words[CONTROL] += size_of_held(s, w, k)
        allowed = True
    else:
        allowed = w.whole[k, CLOCK] <= w.words[FRONTIER]
    if not allowed:
        w.real[k, DUE] = time + s.poll
        wait_in_list(w, k, 0 if throttled else w.whole[k, CLOCK])
    return allowed


@exact_inlined
def mark(w, time):
    """Note the updates at the moments that have passed before `time`."""
    while w.words[MARK] < w.marks.shape[0] and w.marks[w.words[MARK]] < time:
        w.marked[w.words[MARK]] = w.words[UPDATES]
        w.words[MARK] += 1


@exact_kernel
def start(s, w):
    """Let those who are there from the beginning begin; `state` says COMPUTING of them."""
    for k in range(w.whole.shape[0]):
        if w.whole[k, STATE] == COMPUTING:
            if w.members.shape[0] > 0:
                w.members[w.words[LIVE]] = k
                w.place[k] = w.words[LIVE]
            w.words[LIVE] += 1
            go(s, w, k, 0.0)


@exact_kernel
def run(s, w, budget):
    """Take events, the earliest first, until the time is over; why it came back, and when.

    budget : how many events to take before the caller is asked
    """
    now = 0.0
    for _ in range(budget):
        if w.words[MOST] + 2 >= w.at_least.shape[0]:
            return SMALL, now
        # a completion wakes as many as wait, and each is an event
        if 0 < w.record_time.shape[0] < w.words[RECORDED] + w.whole.shape[0] + 2:
            return FULL, now
        if w.words[HEAP] == 0:
            fill_heap(s, w)
        ahead = w.heap_due[0] if w.words[HEAP] > 0 else math.inf
        change = math.inf
        if w.words[CHANGE] < w.change_time.shape[0]:
            change = w.change_time[w.words[CHANGE]]
        first_look = w.ring_due[w.words[RING]] if w.words[LOOKS] > 0 else math.inf
        now = min(change, ahead, first_look)
        if now > s.until or now == math.inf:
            mark(w, math.inf)
            return OVER, now
        mark(w, now)
        passed = np.int64(-1)
        if change == now:
            k = w.change_worker[w.words[CHANGE]]
            kind = w.change_kind[w.words[CHANGE]]
            w.words[CHANGE] += 1
            if kind == JOINED:
                join(s, w, k, now)
            elif w.whole[k, STATE] != GONE:
                leave(s, w, k, now, LEFT)
        elif ahead == now:
            rank = pop_heap(w)
            n = w.whole.shape[0]
            k = rank if rank < n else rank - n
            if w.whole[k, STATE] == COMPUTING:
                if complete(s, w, k, now):
                    passed = k
            elif w.whole[k, STATE] == WAITING and look(s, w, k, now):
                passed = k
        else:
            # looks that say no change nothing
            passed, now = look_around(s, w, min(change, ahead))
        if passed >= 0:
            let_pass(s, w, passed, now)
    return PAUSED, now


@exact_kernel
def finish(s, w, time):
    """Count what is going on at the end: who waits has waited and looked until then."""
    for k in range(w.whole.shape[0]):
        if w.whole[k, STATE] == COMPUTING or w.whole[k, STATE] == WAITING:
            w.present[k] = time - w.joined[k]
        if w.whole[k, STATE] == WAITING:
            w.real[k, WAITED] += time - w.real[k, ARRIVED_AT]
            if w.ring_due.shape[0] == 0:
                count_looks(s, w, k, math.nextafter(time, math.inf))  # also one at the end
