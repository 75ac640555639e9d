"""When a worker may go on: barriers as integer codes over the progress table.

Who writes: every worker its own row (T_PASSED, T_ARRIVED, T_STREAM, T_LAG); GENERATION whoever
finds enough workers available, by a compare-exchange. Who reads: all. Order: a worker's push comes
before its clock (a releasing store) and a clock is loaded acquiring, so who passes on account of a
clock and pulls then has that push. With a master the push is over when the master has taken the
message, for which its worker waits before it counts the block (`turns.count_posted`). Nothing here
waits: a predicate says yes or no, and the runtime asks again.

The lag rule covers BSP, SSP, pBSP, pSSP and the fraction rule: a worker with clock c passes if, of
the workers looked at, the wanted share has a clock of at least c - staleness. Those looked at are
all others, or a sample of them drawn without replacement (Wang et al. 2017, section 6.1). Only
workers that have joined and not left count: who starts, rests, is done or dead holds nobody.

Throttled release (Soori et al. 2019) lets all go who wait, as soon as enough do: the generation
moves on, and whoever arrived in an earlier one passes.
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
ASKED = 3  # a function of the user's: the worker's loop asks it and writes T_PASSED
EVERYBODY = -1  # Plan.sample
ROUNDING = 1e-9  # of a share


@inlined
def in_run(state):
    """Whether a worker that stands so has joined and not left."""
    return state == layout.ACTIVE or state == layout.WAITING


@inlined
def within(clock, least, staleness):
    """The lag rule for one pair: whether `least` holds a worker of that clock back no longer."""
    return clock - least <= staleness


@inlined
def enough(near, of, share):
    """Whether so many near ones are that share, to rounding: 7 of 25 are 0.28, whose product with
    25 is above 7 in floating point.
    """
    return near >= (share - ROUNDING) * of


@inlined
def sees(table, me, k):
    """Whether another worker is one of those that the barrier looks at, and in the run."""
    is_near = table[k, layout.T_GROUP] == table[me, layout.T_GROUP]
    return k != me and is_near and in_run(load(table[k], layout.T_STATE))


@helper
def least_clock(table, me):
    """Least clock of the others in the run; -1 if there are none."""
    least = -1
    for k in range(table.shape[0]):
        if sees(table, me, k):
            clock = load(table[k], layout.T_CLOCK)
            if least < 0 or clock < least:
                least = clock
    return least


@helper
def others_in_run(table, me):
    """How many other workers have joined and not left."""
    count = 0
    for k in range(table.shape[0]):
        if sees(table, me, k):
            count += 1
    return count


@helper
def lag_allows(table, me, clock, staleness, sample, share, stream):
    """Whether enough of the sampled workers are within the bound; also the lead and the stream.

    Each of the others that are left is taken with the chance (still wanted) / (still left), which
    makes every set of that size as likely as any other. The lead is on the last of all others, as
    this look saw them: by a second look somebody may have joined who holds nobody back yet.
    """
    least = clock
    # as many as there are: everybody is taken who is in the run when the loop comes to them
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
    """Whether enough workers wait, or did since this one arrived."""
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
            # whom a plane holds comes to no barrier, and may wait for one who has; nor does who has
            # done its share of the epochs that are open
            held = load(table[k], layout.T_PLANE_WAIT) != 0
            held = held or (k != me and waits_for_epochs(table, control, plan, k))
            if in_run(load(table[k], layout.T_STATE)) and not held:
                live += 1
                if load(table[k], layout.T_ARRIVED) == arrived:
                    waiting += 1
        if waiting < min(plan.available, live):
            return False
        # whoever is first moves it on; the others find it moved
        compare_exchange(control, layout.GENERATION, generation, generation + 1)
    store(state, layout.T_ARRIVED, 0)
    return True


@helper
def may_pass(plan, table, control, me):
    """Whether worker `me` may start the block after the last one it completed."""
    state = table[me]
    clock = state[layout.T_CLOCK]
    if state[layout.T_PASSED] > clock:
        return True  # it did pass, and has found nothing to claim since
    if plan.barrier == ASKED:
        return False
    if plan.barrier == LAG:
        before = np.uint32(state[layout.T_STREAM])
        allowed, lead, after = lag_allows(
            table, me, clock, plan.staleness, plan.sample, plan.share, before
        )
        if allowed or plan.hold == 0:
            state[layout.T_STREAM] = after  # else the same sample is drawn again
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
    """`may_pass` for who is asked about from outside of a turn: a simulation's queue."""
    return may_pass(plan, table, control, me)


@kernel
def move_on(control, generation):
    """Take a generation that was released at another site, if it is not known here."""
    while True:
        now = load(control, layout.GENERATION)
        if now >= generation:
            return
        if compare_exchange(control, layout.GENERATION, now, generation) == now:
            return


@helper
def enter(plan, table, me):
    """Join the barrier's world at the others' least clock; the first block is free.

    Who has rows of its own has to do as many blocks as the others, and joins where it is itself.
    """
    state = table[me]
    least = least_clock(table, me) if plan.shares == 0 else state[layout.T_SHARE]
    clock = max(state[layout.T_CLOCK], least)
    state[layout.T_PASSED] = clock + 1
    store(state, layout.T_CLOCK, clock)
    store(state, layout.T_ARRIVED, 0)
