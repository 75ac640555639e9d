"""Looks at a barrier that draws samples, on a virtual clock.

Looks with a sample come back after a fixed time, so the queue of looks is sorted by itself: a ring.
Who is in a sample does not matter when it is drawn anew at every look, only how many of it are
near. Of n others m are near, and k without replacement are all among them with chance
m / n * (m - 1) / (n - 1) * ... (k factors). One random number is held against the product. m is
``at_least[clock - staleness]``, less oneself. The chance is kept for each clock with one that is a
little larger: it only grows as others come on, and few random numbers fall between the two.

Who holds a sample waits in the list of the first worker of it that is too far behind, and is told
when that one's clock advances. Clocks only grow, so who has been found near is near.
"""

import numpy as np

from hogshare.kernels.jit.decorators import exact_helper, exact_inlined
from hogshare.kernels.schedule.barrier_codes import enough, within
from hogshare.kernels.schedule.streams import fraction, next_random
from hogshare.lab.psp.kernels.barrier_passes import near_to, release, size_of_sample
from hogshare.lab.psp.kernels.clockwork_state import (
    CHECKS,
    CLOCK,
    CONTROL,
    GONE,
    LINK,
    LIVE,
    MARKER,
    POLLS,
    RING,
    STATE,
    WAITING,
)

CLOSENESS = 32  # the chances that are kept of a clock are apart by one part in so many, about


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
    return enough(found, wanted, share), stream


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
def draw_fixed(s, w, k, stream):
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
def notify_watchers(s, w, other, time):
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
def fixed_share_allows(s, w, k):
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
    return enough(near, drawn, s.share)


@exact_inlined
def push_ring(s, w, k, clock, due, stream):
    """Ask for a look after all that were asked for."""
    if due > s.until:
        return
    n = w.ring_due.shape[0]
    i = w.words[RING] + w.words[POLLS]
    if i >= n:
        i -= n
    w.ring_due[i] = due
    w.ring_worker[i] = k
    w.ring_clock[i] = clock
    w.ring_stream[i] = stream
    w.words[POLLS] += 1


@exact_inlined
def poll_ring(s, w, stop):
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
    while w.words[POLLS] > 0 and w.ring_due[i] < stop:
        k = np.int64(w.ring_worker[i])
        time = w.ring_due[i]
        clock = np.int64(w.ring_clock[i])
        stream = w.ring_stream[i]
        i = i + 1 if i + 1 < n else 0
        w.words[RING] = i
        w.words[POLLS] -= 1
        if some_leave and w.whole[k, STATE] == GONE:
            continue
        checks += 1
        if s.hold == 1:
            asked += size_of_sample(s, w, k)
            allowed = fixed_share_allows(s, w, k)
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
