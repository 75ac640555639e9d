"""Simulate workers and a barrier on a virtual clock, without a model, and count completed blocks.

One thread reads and writes all arrays. A worker has at most one future event: the end of its block
or its next poll of the barrier. `run` processes the events, earliest first, until the time is over.
`calendar` orders events. `barrier_passes` decides passes without samples, `samples` decides passes
with samples.

Events at the same moment are processed in order: workers that leave or join, then ends of blocks by
worker, then polls in the order of their requests. Random draws depend on the worker, its clock and
the number of its poll, not on the order of events.

In all functions `s` is the `ClockworkSettings`, and `w` is the `ClockworkState`, which they change.
"""

import math

import numpy as np

from hogshare.kernels.jit.decorators import exact_helper, exact_inlined, exact_kernel
from hogshare.kernels.schedule.barrier_codes import EVERYBODY, FREE, LAG, THROTTLED
from hogshare.kernels.schedule.streams import block_state
from hogshare.lab.psp.kernels.barrier_passes import (
    count_polls,
    enough_arrived,
    frontier_allows,
    go,
    let_pass,
    move_frontier,
    note,
    raise_least,
    size_of_sample,
    throttle_allows,
    wait_in_list,
    wake_list,
)
from hogshare.lab.psp.kernels.calendar import fill_heap, pop_heap
from hogshare.lab.psp.kernels.clockwork_state import (
    ARRIVED,
    ARRIVED_AT,
    CHANGE,
    CHECKS,
    CLOCK,
    COMPLETED,
    COMPUTING,
    CONTROL,
    DUE,
    FRONTIER,
    GENERATION,
    GONE,
    HEAP,
    JOINED,
    LEAST,
    LEFT,
    LIVE,
    MARK,
    MARKER,
    MOST,
    POLLS,
    RECORDED,
    RING,
    STATE,
    UPDATES,
    WAITED,
    WAITING,
)
from hogshare.lab.psp.kernels.samples import (
    draw_fixed,
    first_far,
    fixed_share_allows,
    notify_watchers,
    poll_ring,
    push_ring,
    redraw,
    watch,
)

# why `run` returned
OVER = 0
PAUSED = 1  # the budget of events is used up
SMALL = 2  # the caller must lengthen the arrays by clock
FULL = 3  # the caller must empty the record


@exact_helper
def leave(s, w, k, time, kind):
    """Remove worker `k` from the barrier's world."""
    if w.whole[k, STATE] == WAITING:
        w.real[k, WAITED] += time - w.real[k, ARRIVED_AT]
        if w.ring_due.shape[0] == 0:
            count_polls(s, w, k, time)
        if s.barrier == THROTTLED and w.whole[k, MARKER] == w.words[GENERATION]:
            w.words[ARRIVED] -= 1
    w.whole[k, STATE] = GONE
    w.present[k] = time - w.joined[k]
    w.words[LIVE] -= 1
    # only above LEAST: `at_least` may be stale up to it
    for clock in range(w.words[LEAST] + 1, w.whole[k, CLOCK] + 1):
        w.at_least[clock] -= 1
    if w.members.shape[0] > 0:
        # the last member takes the place of the one that leaves
        last = w.members[w.words[LIVE]]
        w.members[w.place[k]] = last
        w.place[last] = w.place[k]
    if kind == LEFT:
        note(w, time, k, LEFT)
    if w.words[LIVE] == 0:
        return
    raise_least(w)
    if w.watcher.shape[0] > 0:
        notify_watchers(s, w, k, time)
    if s.barrier == LAG and s.sample == EVERYBODY:
        move_frontier(s, w, time)
    elif s.barrier == THROTTLED and w.words[ARRIVED] > 0 and enough_arrived(s, w):
        if s.poll == 0.0:
            w.words[GENERATION] += 1
            w.words[ARRIVED] = 0
        wake_list(s, w, 0, time)  # with polls, the first worker to poll releases the others


@exact_helper
def join(s, w, k, time):
    """Add worker `k` with the least clock of the others; its first block needs no pass."""
    if w.words[LIVE] == 0:  # an empty world begins again at clock 0
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
    """End worker `k`'s block: advance its clock and release other workers.

    Return whether worker `k` passes.
    """
    clock = w.whole[k, CLOCK] + 1
    w.whole[k, CLOCK] = clock
    w.real[k, ARRIVED_AT] = time
    w.words[UPDATES] += 1
    w.words[MOST] = max(w.words[MOST], clock)
    w.at_least[clock] += 1  # before `raise_least`, which reads it
    note(w, time, k, COMPLETED)
    if clock == s.blocks:
        leave(s, w, k, time, COMPLETED)
        return False
    raise_least(w)
    # calls with nothing to do are skipped: passing the world's arrays costs more than the work
    if s.barrier == LAG and s.sample == EVERYBODY:
        ahead = w.words[FRONTIER] + 1
        if ahead <= w.words[MOST] and frontier_allows(s, w, ahead):
            move_frontier(s, w, time)
    if w.watcher.shape[0] > 0 and w.watcher[k] >= 0:
        notify_watchers(s, w, k, time)
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
        level = -1  # waits in the ring or for a watched worker, not in a list by clock
        w.words[CONTROL] += min(s.sample, w.words[LIVE] - 1)
        stream = block_state(s.barrier_seed, k, clock)
        lacking = np.int64(-1)
        if s.reuses == 0:
            allowed, stream = redraw(s, w, clock, stream)
        else:
            draw_fixed(s, w, k, stream)
            if s.share == 1.0:
                lacking = first_far(s, w, k)
                allowed = lacking < 0
            else:
                allowed = fixed_share_allows(s, w, k)
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
def poll(s, w, k, time):
    """Poll a barrier without a sample again; the frontier may have fallen since the release."""
    w.words[CHECKS] += 1
    throttled = s.barrier == THROTTLED
    if throttled:
        allowed = throttle_allows(s, w, k, time)
    elif w.watcher.shape[0] > 0:
        w.words[CONTROL] += size_of_sample(s, w, k)
        allowed = True
    else:
        allowed = w.whole[k, CLOCK] <= w.words[FRONTIER]
    if not allowed:
        w.real[k, DUE] = time + s.poll
        wait_in_list(w, k, 0 if throttled else w.whole[k, CLOCK])
    return allowed


@exact_inlined
def mark(w, time):
    """Record the number of updates at each mark before `time`."""
    while w.words[MARK] < w.marks.shape[0] and w.marks[w.words[MARK]] < time:
        w.marked[w.words[MARK]] = w.words[UPDATES]
        w.words[MARK] += 1


@exact_kernel
def start(s, w):
    """Start the workers that are present from the start: their `STATE` is already COMPUTING."""
    for k in range(w.whole.shape[0]):
        if w.whole[k, STATE] == COMPUTING:
            if w.members.shape[0] > 0:
                w.members[w.words[LIVE]] = k
                w.place[k] = w.words[LIVE]
            w.words[LIVE] += 1
            go(s, w, k, 0.0)


@exact_kernel
def run(s, w, budget):
    """Process events, earliest first, until the time is over.

    Return the reason for returning, and the virtual time.

    budget : number of events after which to return to the caller
    """
    now = 0.0
    for _ in range(budget):
        if w.words[MOST] + 2 >= w.at_least.shape[0]:
            return SMALL, now
        # one completion may wake all waiting workers, and each records an event
        if 0 < w.record_time.shape[0] < w.words[RECORDED] + w.whole.shape[0] + 2:
            return FULL, now
        if w.words[HEAP] == 0:
            fill_heap(s, w)
        ahead = w.heap_due[0] if w.words[HEAP] > 0 else math.inf
        change = math.inf
        if w.words[CHANGE] < w.change_time.shape[0]:
            change = w.change_time[w.words[CHANGE]]
        first_poll = w.ring_due[w.words[RING]] if w.words[POLLS] > 0 else math.inf
        now = min(change, ahead, first_poll)
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
            # a worker that has left may still have an event: its state is GONE
            elif w.whole[k, STATE] == WAITING and poll(s, w, k, now):
                passed = k
        else:
            # failed polls change no clocks, so all until the next event are taken at once
            passed, now = poll_ring(s, w, min(change, ahead))
        if passed >= 0:
            let_pass(s, w, passed, now)
    return PAUSED, now


@exact_kernel
def finish(s, w, time):
    """End the run at `time`: add up presence, and the last waits and polls of waiting workers."""
    for k in range(w.whole.shape[0]):
        if w.whole[k, STATE] == COMPUTING or w.whole[k, STATE] == WAITING:
            w.present[k] = time - w.joined[k]
        if w.whole[k, STATE] == WAITING:
            w.real[k, WAITED] += time - w.real[k, ARRIVED_AT]
            if w.ring_due.shape[0] == 0:
                count_polls(s, w, k, math.nextafter(time, math.inf))  # includes a poll at `time`
