"""Pass or wait at a barrier without samples, on a virtual clock.

Without samples, whether a worker passes depends only on its own clock: if a clock passes, every
smaller clock passes. `FRONTIER` is the largest clock that passes. A worker with a larger clock
waits in the list of its clock until the frontier reaches that clock. Workers are never scanned.
Polls that would fail are counted but not made.

``at_least[v]`` is the number of live workers whose clock is v or more. It replaces a search for the
least clock, which is the largest v that all live workers have reached. The end of a block increases
one entry. Entries below the least clock are out of date.
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
    """Return the number of workers within the staleness of another worker, which has `clock`."""
    wanted = clock - s.staleness
    if wanted <= w.words[LEAST]:  # all are near, and `at_least` may be stale
        return w.words[LIVE] - 1
    return w.at_least[wanted] - 1


@exact_inlined
def frontier_allows(s, w, clock):
    """Whether a worker with `clock` passes by the lag rule over all workers."""
    if s.share == 1.0:
        return within(clock, w.words[LEAST], s.staleness)
    return enough(near_to(s, w, clock), w.words[LIVE] - 1, s.share)


@exact_inlined
def raise_least(w):
    """Raise the least clock to the largest clock that all live workers have reached."""
    while w.words[LEAST] < w.words[MOST] and w.at_least[w.words[LEAST] + 1] == w.words[LIVE]:
        w.words[LEAST] += 1


@exact_inlined
def note(w, time, worker, kind):
    """Record an event, if recording was requested."""
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
    w.real[k, WAITED] += time - w.real[k, ARRIVED_AT]  # 0 if it passes at its arrival
    w.words[PASSES] += 1
    w.leads[w.whole[k, CLOCK] - w.words[LEAST]] += 1
    note(w, time, k, PASSED)
    go(s, w, k, time)


@exact_inlined
def wait_in_list(w, k, level):
    """Append worker `k` to the waiting list of clock `level` (throttled: there is only list 0)."""
    w.whole[k, LINK] = -1
    if w.first[level] < 0:
        w.first[level] = k
    else:
        w.whole[w.last[level], LINK] = k
    w.last[level] = k


@exact_helper
def size_of_sample(s, w, k):
    """Return the size that worker `k`'s fixed sample had when it was drawn."""
    size = s.sample
    while size > 0 and w.fixed[k, size - 1] < 0:
        size -= 1
    return size


@exact_helper
def count_polls(s, w, k, time):
    """Count the polls that worker `k` would have failed before `time`, while it waited in a list.

    Its `DUE` becomes the time of its next poll.
    """
    if s.poll > 0.0:
        due = w.real[k, DUE]
        polls = 0
        while due < time:  # added one by one: the same rounding as if the polls were made
            due += s.poll
            polls += 1
        w.real[k, DUE] = due
        w.words[CHECKS] += polls
        if polls > 0 and w.watcher.shape[0] > 0:
            w.words[CONTROL] += polls * size_of_sample(s, w, k)


@exact_helper
def release(s, w, k, time):
    """Release the waiting worker `k`: now if there are no polls, else at its next poll."""
    if s.poll == 0.0:
        let_pass(s, w, k, time)
    else:
        count_polls(s, w, k, time)
        schedule(s, w, k, w.real[k, DUE], POLL)


@exact_helper
def wake_list(s, w, level, time):
    """Release all workers in the waiting list of clock `level`, and empty the list."""
    k = w.first[level]
    w.first[level] = -1
    while k >= 0:
        following = w.whole[k, LINK]  # before `release`, which links it elsewhere
        if w.whole[k, STATE] == WAITING:
            release(s, w, k, time)
        k = following


@exact_helper
def move_frontier(s, w, time):
    """Move the frontier after a change of clocks or workers, and release workers that may pass."""
    # the frontier falls only after a worker has joined or left
    while w.words[FRONTIER] >= 0 and not frontier_allows(s, w, w.words[FRONTIER]):
        w.words[FRONTIER] -= 1
    while w.words[FRONTIER] < w.words[MOST] and frontier_allows(s, w, w.words[FRONTIER] + 1):
        w.words[FRONTIER] += 1
        wake_list(s, w, w.words[FRONTIER], time)


@exact_helper
def enough_arrived(s, w):
    """Whether enough workers have arrived for a throttled release."""
    return w.words[ARRIVED] >= min(s.available, w.words[LIVE])


@exact_helper
def throttle_allows(s, w, k, time):
    """Whether worker `k` passes: it was released, or its poll releases all waiting workers."""
    if w.whole[k, MARKER] == w.words[GENERATION]:
        if not enough_arrived(s, w):
            return False
        w.words[GENERATION] += 1
        w.words[ARRIVED] = 0
        w.whole[k, STATE] = COMPUTING  # it passes by this poll: `wake_list` must skip it
        wake_list(s, w, 0, time)
    return True
