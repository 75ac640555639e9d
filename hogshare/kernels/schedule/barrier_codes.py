"""Barriers, which decide when a worker may go on, as integer codes; they read the progress table.

Writers: every worker writes its own row (T_PASSED, T_ARRIVED, T_STREAM, T_LAG); a worker that finds
enough workers available writes GENERATION, by a compare-exchange. Readers: all workers.

Order: a worker stores its push before its clock (a releasing store), and other workers load the
clock acquiring. So if a worker passes because of a clock and then pulls, its copy has that push.
With a master the push is over when the master has taken the message, and the worker counts the
block after that. No function of this file waits: each returns its answer, and the runtime calls it
again.

The lag rule covers BSP, SSP, pBSP, pSSP and the fraction rule: a worker with clock c passes if the
wanted share of the inspected workers has a clock of at least c - staleness. The inspected workers
are all other workers, or a sample drawn without replacement from the other workers (Wang et al.
2017, section 6.1). Only workers that have joined and not left count: a worker that is starting,
paused, done or dead delays no other worker.

Throttled release (Soori et al. 2019) releases all waiting workers as soon as enough of them wait:
the generation advances, and every worker that arrived in an earlier generation passes.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import compare_exchange, load, store
from hogshare.kernels.jit.decorators import helper, inlined, kernel
from hogshare.kernels.schedule.epoch_schedule import waits_for_epochs
from hogshare.kernels.schedule.streams import fraction, next_random

FREE = 0  # values of Plan.barrier
LAG = 1
THROTTLED = 2
ASKED = 3  # a user's function: the worker's loop asks it and writes T_PASSED
EVERYBODY = -1  # Plan.sample
ROUNDING = 1e-9  # of a share


@inlined
def in_run(state):
    """Return whether a worker in this state has joined and not left."""
    return state == layout.ACTIVE or state == layout.WAITING


@inlined
def within(clock, least, staleness):
    """Return whether a worker at clock `least` no longer delays one at `clock`, by the lag rule."""
    return clock - least <= staleness


@inlined
def enough(near, of, share):
    """Return whether `near` is at least the wanted share of `of` workers, up to rounding."""
    # 7 of 25 are 0.28, whose product with 25 is above 7 in floating point
    return near >= (share - ROUNDING) * of


@inlined
def sees(table, me, k):
    """Return whether `k` is another worker in the run that the barrier of `me` inspects."""
    is_near = table[k, layout.T_GROUP] == table[me, layout.T_GROUP]
    return k != me and is_near and in_run(load(table[k], layout.T_STATE))


@helper
def least_clock(table, me):
    """Return the least clock of the other workers in the run; -1 if there are none."""
    least = -1
    for k in range(table.shape[0]):
        if sees(table, me, k):
            clock = load(table[k], layout.T_CLOCK)
            if least < 0 or clock < least:
                least = clock
    return least


@helper
def others_in_run(table, me):
    """Count the other workers that have joined and not left."""
    count = 0
    for k in range(table.shape[0]):
        if sees(table, me, k):
            count += 1
    return count


@helper
def lag_allows(table, me, clock, staleness, sample, share, stream):
    """Draw a sample of the other workers and apply the lag rule to it.

    Return (1) whether enough of the sampled workers are within the bound, (2) the lead, and (3) the
    generator's next state. The lead is `clock` minus the least clock of all other workers, sampled
    or not; it is 0 if no other worker has a lower clock.

    The scan draws each worker with the chance (workers still wanted) / (workers still to scan).
    This makes every sample of the wanted size equally likely.
    """
    least = clock  # in the same scan as the draw: a second one might see a worker that joined since
    # an upper bound: a worker counts if it is in the run when the loop comes to it
    left = table.shape[0] if sample == EVERYBODY else others_in_run(table, me)
    wanted = left if sample == EVERYBODY else min(sample, left)
    drawn = 0
    near = 0
    for k in range(table.shape[0]):
        if not sees(table, me, k):
            continue
        theirs = load(table[k], layout.T_CLOCK)
        least = min(least, theirs)
        take = drawn < wanted
        if take and wanted - drawn < left:
            stream = next_random(stream)
            take = fraction(stream) * left < wanted - drawn
        left -= 1
        if take:
            drawn += 1
            if within(clock, theirs, staleness):
                near += 1
    return enough(near, drawn, share), clock - least, stream


@helper
def throttle_allows(plan, table, control, me):
    """Return whether the throttled barrier releases worker `me`.

    The barrier releases `me` if enough workers wait, or if enough workers have waited since `me`
    arrived. The function writes T_ARRIVED of `me`, and advances GENERATION if enough workers wait.
    """
    state = table[me]
    generation = load(control, layout.GENERATION)
    arrived = state[layout.T_ARRIVED]
    if arrived == 0:
        arrived = generation + 1
        store(state, layout.T_ARRIVED, arrived)
    if arrived == generation + 1:
        waiting = 0
        live = 0
        for k in range(table.shape[0]):
            # A worker that waits at a plane does not arrive at the barrier: it may itself wait for
            # a worker that has arrived. A worker that has done its share of the open epochs does
            # not arrive either.
            stays_away = load(table[k], layout.T_PLANE_WAIT) != 0
            stays_away = stays_away or (k != me and waits_for_epochs(table, control, plan, k))
            if in_run(load(table[k], layout.T_STATE)) and not stays_away:
                live += 1
                if load(table[k], layout.T_ARRIVED) == arrived:
                    waiting += 1
        if waiting < min(plan.available, live):
            return False
        # the first worker advances the generation; the others' compare-exchange fails
        compare_exchange(control, layout.GENERATION, generation, generation + 1)
    store(state, layout.T_ARRIVED, 0)
    return True


@helper
def may_pass(plan, table, control, me):
    """Return whether worker `me` may start its next block.

    If so, the function writes T_PASSED and T_LAG of `me`.
    """
    state = table[me]
    clock = state[layout.T_CLOCK]
    if state[layout.T_PASSED] > clock:
        return True  # the worker has passed already, and has found nothing to claim since
    if plan.barrier == ASKED:
        return False
    if plan.barrier == LAG:
        before = np.uint32(state[layout.T_STREAM])
        allowed, lead, after = lag_allows(
            table, me, clock, plan.staleness, plan.sample, plan.share, before
        )
        if allowed or plan.reuses == 0:
            state[layout.T_STREAM] = after  # otherwise the next poll draws the same sample
    else:
        allowed = throttle_allows(plan, table, control, me)
        lead = 0
        if allowed:
            least = least_clock(table, me)
            lead = clock - least if least >= 0 else 0
    if allowed:
        state[layout.T_LAG] = max(state[layout.T_LAG], lead)
        state[layout.T_PASSED] = clock + 1
    return allowed


@kernel
def poll(plan, table, control, me):
    """Call `may_pass` outside of a quantum, for a simulation's queue."""
    return may_pass(plan, table, control, me)


@kernel
def move_on(control, generation):
    """Raise GENERATION to at least `generation`, a number released at another site."""
    while True:
        now = load(control, layout.GENERATION)
        if now >= generation:
            return
        if compare_exchange(control, layout.GENERATION, now, generation) == now:
            return


@helper
def enter(plan, table, me):
    """Set the clock of a worker that joins, and let its first block pass without a barrier.

    The worker joins at the least clock of the other workers. If each worker has rows of its own, it
    has to do as many blocks as the others, so it joins at its own clock.
    """
    state = table[me]
    least = least_clock(table, me) if plan.shares == 0 else state[layout.T_SHARE]
    clock = max(state[layout.T_CLOCK], least)
    state[layout.T_PASSED] = clock + 1
    store(state, layout.T_CLOCK, clock)
    store(state, layout.T_ARRIVED, 0)
