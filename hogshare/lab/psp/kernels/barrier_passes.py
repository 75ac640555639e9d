"""Who may pass a barrier on a virtual clock where no sample is drawn, and who waits for that.

The answer depends on the own clock alone, and who has more of it waits longer. So there is a
`FRONTIER`, the largest clock that passes. Who is above it waits in a list by clock until the
frontier comes there: nobody is scanned, and looks that say no are counted, not made.

`at_least` stands in for the minimum: v is the least clock when as many workers have got to v as
there are. It is counted up by the ends of blocks; below the least clock it is not kept.
"""

from hogshare.kernels.jit.decorators import exact_helper, exact_inlined
from hogshare.kernels.schedule.barrier_codes import enough, within
from hogshare.kernels.schedule.block_time_draws import block_seconds
from hogshare.lab.psp.kernels.calendar import schedule
from hogshare.lab.psp.kernels.clockwork_state import (
    ARRIVED,
    ARRIVED_AT,
    CHECKS,
    CLOCK,
    COMPUTING,
    CONTROL,
    DUE,
    END,
    FRONTIER,
    GENERATION,
    LEAST,
    LINK,
    LIVE,
    MARKER,
    MOST,
    PASSED,
    PASSES,
    POLL,
    RECORDED,
    SLOWNESS,
    STATE,
    WAITED,
    WAITING,
)


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
    return enough(near_to(s, w, clock), w.words[LIVE] - 1, s.share)


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
def size_of_sample(s, w, k):
    """How many were in the sample that worker `k` holds when it was drawn."""
    size = s.sample
    while size > 0 and w.held[k, size - 1] < 0:
        size -= 1
    return size


@exact_helper
def count_polls(s, w, k, time):
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
            w.words[CONTROL] += looks * size_of_sample(s, w, k)


@exact_helper
def release(s, w, k, time):
    """Let a worker go that has waited: at once, or when its next look is due."""
    if s.poll == 0.0:
        let_pass(s, w, k, time)
    else:
        count_polls(s, w, k, time)
        schedule(s, w, k, w.real[k, DUE], POLL)


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
