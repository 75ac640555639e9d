"""The part of every quantum before a block: poll, pass the barrier, claim.

A quantum that finds no block yet, or waits at a barrier, polls again for a moment, T_POLLS times in
one wait. Longer waits are the loop's (`hogshare.engine.loop`).

Writers: every worker writes its own row of the table, and the schedule's words through
`epoch_schedule`.
"""

from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import pull
from hogshare.kernels.jit.atomics import load, store
from hogshare.kernels.jit.decorators import JIT_DISABLED, helper, inlined, kernel
from hogshare.kernels.jit.host import nanoseconds, yield_core
from hogshare.kernels.rules.block_sums import start_block
from hogshare.kernels.schedule.barrier_codes import EVERYBODY, FREE, LAG, may_pass
from hogshare.kernels.schedule.epoch_schedule import EXCHANGE, MASTER, claim, must_leave, stop_now
from hogshare.kernels.schedule.ordered_rounds import COMPUTED, UNSENT, next_step
from hogshare.kernels.schedule.shares import rows_before, span_of

# Polls of the run's words, a nanosecond each, before a waiting quantum gives its core up once; in
# plain Python each takes as long as a hundred. Few if every block waits for another worker, which
# may have no core: behind a barrier, and with a master.
GLANCES, FEW_GLANCES = (100, 1) if JIT_DISABLED else (10_000, 100)


@helper
def rows_of(ticket, plan, orders, first_t):
    """Return a block's order, its begin and end in that, and its first row's time.

    The time is the number of rows visited before, including those that other machines have visited
    meanwhile.
    """
    epoch = ticket // plan.n_blocks
    order = orders[epoch % 2]
    n_rows = order.shape[0]
    cut = plan.n_blocks, plan.block_rows, plan.shares, plan.split
    first, end, before = span_of(ticket % plan.n_blocks, n_rows, *cut)
    return order, first, end, first_t + rows_before(ticket, n_rows, before, plan)


@inlined
def is_waited_for(schedule, plan):
    """Whether blocks will come again by the other workers alone, without the caller."""
    ended = load(schedule.control, layout.EPOCHS)
    return ended < plan.max_epochs and ended < load(schedule.control, layout.LIMIT)


@helper
def poll_again(schedule, plan, me):
    """Poll for some microseconds; return whether the waiting worker may retry in this quantum.

    Between two polls the core is given up, because the awaited worker may need it. On a busy
    machine each time takes milliseconds, so the polls of a wait are few, and later quanta of the
    same wait make none. A worker whose wait has ended sets T_POLLED back to 0. No worker polls
    while all must stand still for a repair, or when a stop ends the quantum.
    """
    control = schedule.control
    state = schedule.table[me]
    if state[layout.T_POLLED] >= state[layout.T_POLLS] or must_leave(control, plan.ordered != 0):
        return False
    if load(control, layout.REPAIR_WANTED) != load(control, layout.REPAIRED):
        return False
    began = nanoseconds()
    state[layout.T_POLLED] += 1
    for_others = plan.barrier != FREE or plan.private == MASTER
    glances = FEW_GLANCES if for_others else GLANCES
    ended, ready = load(control, layout.EPOCHS), load(control, layout.READY)
    section, completed = load(control, layout.SECTION), load(control, layout.COMPLETED)
    for _ in range(glances):
        changed = load(control, layout.EPOCHS) != ended or load(control, layout.READY) != ready
        if plan.grid > 0 and load(control, layout.COMPLETED) != completed:
            break  # the cell that is waited for may be done
        if changed or load(control, layout.SECTION) != section:
            break
        if load(control, layout.RETURNED) > 0 or load(control, layout.STOP) != layout.RUNNING:
            break
    yield_core()
    state[layout.T_WAITING] += nanoseconds() - began
    return True


@helper
def claim_or_wait(schedule, plan, me):
    """Take the next block; retry for a moment if there is none yet.

    The wait is for the last blocks of others: epoch e may not begin before epoch e - 2 has ended,
    and a run may not end before its last epoch.
    """
    state = schedule.table[me]
    ticket = claim(schedule, plan, me)
    while ticket == layout.NO_BLOCK:
        # a failed claim has written its block's number, and the monitor would wait for that block
        store(state, layout.T_BLOCK, layout.NO_BLOCK)
        if not (is_waited_for(schedule, plan) and poll_again(schedule, plan, me)):
            return ticket
        ticket = claim(schedule, plan, me)
    state[layout.T_POLLED] = 0
    return ticket


@kernel
def stop(control, reason):
    """Ask all workers to stop at their next block, from outside of the run; the first reason stays.

    A compare-exchange, as in the run's own stops: between a load and a store another may stop it.
    """
    stop_now(control, reason)


@helper
def pass_barrier(plan, schedule, vector, memory, private, me):
    """Whether the worker may claim its next block; it has the others' pushes then.

    It retries for a moment, unless each poll is a draw of its own: one of many would be lucky.
    """
    state = schedule.table[me]
    if state[layout.T_PASSED] <= state[layout.T_CLOCK]:  # otherwise it waits for something else
        each_draws = plan.barrier == LAG and plan.sample != EVERYBODY and plan.reuses == 0
        while not may_pass(plan, schedule.table, schedule.control, me):
            if each_draws or not poll_again(schedule, plan, me):
                return False
        state[layout.T_POLLED] = 0
    if plan.private == EXCHANGE:
        pull(schedule, vector, memory, private, me)
    return True


@helper
def step_or_wait(rows, rule, plan, schedule, vector, memory, mail, private, me):
    """Do `next_step`; poll for a moment whether others have had their sections."""
    answer = next_step(rows, rule, plan, schedule, vector, memory, mail, private, me)
    while answer == layout.QUANTUM_WAIT and poll_again(schedule, plan, me):
        answer = next_step(rows, rule, plan, schedule, vector, memory, mail, private, me)
    if answer != layout.QUANTUM_WAIT:
        schedule.table[me, layout.T_POLLED] = 0
    return answer


@helper
def nothing_to_claim(schedule, plan, me):
    """Return the answer of a quantum that finds no block."""
    control = schedule.control
    schedule.table[me, layout.T_BLOCK] = layout.NO_BLOCK
    epochs = load(control, layout.EPOCHS)
    if epochs >= plan.max_epochs:
        stop_now(control, layout.STOPPED_BY_LIMIT)
        return layout.QUANTUM_DONE
    return layout.QUANTUM_PAUSE if epochs >= load(control, layout.LIMIT) else layout.QUANTUM_WAIT


@helper
def begin_step(schedule, private, me):
    """Answer that the block in hand is ready for its step, which is taken outside of kernels."""
    start_block(private.local)
    schedule.table[me, layout.T_STEP] = 1
    return layout.QUANTUM_STEP


@helper
def rows_in_hand(schedule, plan, me):
    """Return the number of rows of the block in hand."""
    _, first, end, _ = rows_of(schedule.table[me, layout.T_BLOCK], plan, schedule.order, 1.0)
    return end - first


@helper
def wait_for_section(schedule, me):
    """Mark the block in hand as computed; it waits for the worker's section."""
    state = schedule.table[me]
    if state[layout.T_SITE] != layout.ONE_SITE:
        state[layout.T_SITE] = layout.ASKS
        state[layout.T_COMPUTED] = UNSENT
        return
    state[layout.T_COMPUTED] = COMPUTED
    # last, releasing: a section that sees T_READY sees the computed block
    store(state, layout.T_READY, state[layout.T_ROUND])
