"""Polls of a barrier that draws samples, on a virtual clock.

A worker is *near* another worker if its clock is behind by at most the staleness. Polls with a
sample repeat after a fixed time. Their queue is therefore always sorted, and a ring suffices.

If every poll draws a new sample, only the sample's number of near workers matters. If m of the n
other workers are near, k workers drawn without replacement are all near with probability
m / n * (m - 1) / (n - 1) * ... (k factors). A poll compares one random number with this product. m
is ``at_least[clock - staleness]`` minus the worker itself. For each clock the cache has two
chances: one for m, and one for a slightly larger number. The chance only grows as other workers
advance, and few random numbers fall between the two chances.

A worker with a fixed sample waits for the first worker of its sample that is too far behind. It is
in that worker's list of watchers, and is notified when that worker's clock advances. Clocks only
grow, so a near worker stays near.
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

CLOSENESS = 32  # the two cached chances of a clock differ by about one part in so many


@exact_helper
def chance_of(near, others, wanted):
    """Return the probability that all `wanted` workers of a sample are near.

    near : number of near workers among the `others`
    """
    chance = 1.0
    for i in range(wanted):
        chance *= (near - i) / (others - i)
        if chance <= 0.0:
            return 0.0
    return chance


@exact_helper
def bound_chance(w, clock, near, others, wanted):
    """Cache the chance of a clock for the current number of near workers, and for a few more.

    Until the number of near workers exceeds the larger number, only a random number between the two
    chances needs the product.
    """
    more = min(others, near + near // (CLOSENESS * wanted))
    w.chance_near[clock, 0] = near
    w.chance_near[clock, 1] = more
    w.chance_near[clock, 2] = others
    w.chance[clock, 0] = chance_of(near, others, wanted)
    w.chance[clock, 1] = chance_of(more, others, wanted)


@exact_inlined
def all_near(w, clock, near, others, wanted, point):
    """Whether a worker with `clock` passes: the random number `point` is below the chance."""
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
    """Draw a sample one by one; return whether `share` of it is near, and the random stream."""
    found = 0
    for i in range(wanted):
        stream = next_random(stream)
        if fraction(stream) * (others - i) < near - found:
            found += 1
    return enough(found, wanted, share), stream


@exact_inlined
def redraw(s, w, clock, stream):
    """Poll with a new sample; return whether the worker passes, and the random stream."""
    others = w.words[LIVE] - 1
    wanted = min(s.sample, others)
    near = near_to(s, w, clock)
    if s.share == 1.0:
        stream = next_random(stream)
        return all_near(w, clock, near, others, wanted, fraction(stream)), stream
    return share_near(near, others, wanted, s.share, stream)


@exact_helper
def draw_fixed(s, w, k, stream):
    """Draw worker `k`'s fixed sample by the first steps of a shuffle, and undo these steps.

    Draws continue until the sample has `wanted` workers other than `k`.
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
            w.fixed[k, taken] = chosen
            taken += 1
    while drawn > 0:  # undo in reverse order: `place` stays valid without updates
        drawn -= 1
        other = w.swaps[drawn]
        swapped = w.members[other]
        w.members[other] = w.members[drawn]
        w.members[drawn] = swapped
    w.whole[k, MARKER] = 0
    for i in range(taken, s.sample):
        w.fixed[k, i] = -1


@exact_helper
def first_far(s, w, k):
    """Return the first worker of a fixed sample that is too far behind, or -1.

    Absent workers are skipped.
    """
    clock = w.whole[k, CLOCK]
    i = w.whole[k, MARKER]
    while i < s.sample:
        other = w.fixed[k, i]
        far = other >= 0 and not within(clock, w.whole[other, CLOCK], s.staleness)
        if far and w.whole[other, STATE] != GONE:
            w.whole[k, MARKER] = i  # clocks only grow: all before it stay near
            return np.int64(other)
        i += 1
    return np.int64(-1)


@exact_helper
def watch(s, w, k, other):
    """Add worker `k` to the watchers of `other`, a worker of its fixed sample."""
    w.whole[k, LINK] = w.watcher[other]
    w.watcher[other] = k


@exact_helper
def notify_watchers(s, w, other, time):
    """Release the watchers of `other`, which advanced or left, or let them watch another one."""
    k = w.watcher[other]
    w.watcher[other] = -1  # first: workers may watch the same one again
    while k >= 0:
        following = w.whole[k, LINK]  # before `watch` or `release` change it
        if w.whole[k, STATE] == WAITING:
            lacking = first_far(s, w, k)
            if lacking >= 0:
                watch(s, w, k, lacking)
            else:
                release(s, w, k, time)
        k = following


@exact_helper
def fixed_share_allows(s, w, k):
    """Whether the required share of worker `k`'s fixed sample is near."""
    clock = w.whole[k, CLOCK]
    drawn = 0
    near = 0
    for i in range(s.sample):
        other = w.fixed[k, i]
        if other >= 0 and w.whole[other, STATE] != GONE:
            drawn += 1
            if within(clock, w.whole[other, CLOCK], s.staleness):
                near += 1
    return enough(near, drawn, s.share)


@exact_inlined
def push_ring(s, w, k, clock, due, stream):
    """Append a poll to the ring."""
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
    """Take polls from the ring until one passes, or until the time `stop`.

    Return the worker that passes, or -1, and the time. Failed polls are appended to the ring again.
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
        if some_leave and w.whole[k, STATE] == GONE:  # its poll stays in the ring when it leaves
            continue
        checks += 1
        if s.reuses == 1:
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
