"""The part of every quantum before a block: poll, pass the barrier, claim.

If a quantum finds no block yet, or waits at a barrier, it polls again for a moment, up to T_POLLS
times in one wait. For a longer wait it returns to the loop (`hogshare.engine.loop`). A worker's
*block in hand* is the block that the worker has claimed and not yet completed (T_BLOCK).

Writers: every worker writes its own row of the table, and calls the functions of `epoch_schedule`,
which write the schedule's words.
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

# Number of polls of the run's words, a nanosecond each, before a waiting quantum gives up its core
# once; in plain Python a poll takes as long as a hundred compiled polls. With a barrier or a master
# every block waits for another worker, which may have no core, so the number is small.
GLANCES, FEW_GLANCES = (100, 1) if JIT_DISABLED else (10_000, 100)


@helper
def rows_of(ticket, plan, orders, first_t):
    """Return the row order of a block, the block's start and end in the order, and a row count.

    The count is `first_t` plus the number of rows that all machines visit before the block's first
    row. The row order is a view of `orders`.
    """
    epoch = ticket // plan.n_blocks
    order = orders[epoch % 2]
    n_rows = order.shape[0]
    cut = plan.n_blocks, plan.block_rows, plan.shares, plan.split
    first, end, before = span_of(ticket % plan.n_blocks, n_rows, *cut)
    return order, first, end, first_t + rows_before(ticket, n_rows, before, plan)


@inlined
def is_waited_for(schedule, plan):
    """Return whether other workers will make blocks available without any call by the caller."""
    ended = load(schedule.control, layout.EPOCHS)
    return ended < plan.max_epochs and ended < load(schedule.control, layout.LIMIT)


@helper
def poll_again(schedule, plan, me):
    """Poll for some microseconds; return whether the waiting worker may retry in this quantum.

    After the polls the worker gives up its core once, because the awaited worker may need it. On a
    busy machine this takes milliseconds. So one wait calls this function at most T_POLLS times,
    and later quanta of the same wait do not poll. T_POLLED counts these calls; the worker sets it
    back to 0 when its wait has ended. No worker polls while all workers must pause for a repair, or
    when a stop ends the quantum.
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
            break  # the awaited cell may be done
        if changed or load(control, layout.SECTION) != section:
            break
        if load(control, layout.RETURNED) > 0 or load(control, layout.STOP) != layout.RUNNING:
            break
    yield_core()
    state[layout.T_WAITING] += nanoseconds() - began
    return True


@helper
def claim_or_wait(schedule, plan, me):
    """Claim the next block; retry for a moment if there is none yet. Return its ticket or NO_BLOCK.

    There may be no block while other workers compute their last blocks: epoch e may not begin
    before epoch e - 2 has ended, and a run may not end before its last epoch has ended.
    """
    state = schedule.table[me]
    ticket = claim(schedule, plan, me)
    while ticket == layout.NO_BLOCK:
        # a failed claim has written its block's number; without this store the monitor would wait
        # for that block
        store(state, layout.T_BLOCK, layout.NO_BLOCK)
        if not (is_waited_for(schedule, plan) and poll_again(schedule, plan, me)):
            return ticket
        ticket = claim(schedule, plan, me)
    state[layout.T_POLLED] = 0
    return ticket


@kernel
def stop(control, reason):
    """Stop all workers at their next block, from outside of the run; the first reason stays.

    A compare-exchange writes the reason, because another worker might stop the run between a load
    and a store.
    """
    stop_now(control, reason)


@helper
def pass_barrier(plan, schedule, vector, memory, private, me):
    """Return whether the worker may claim its next block; if so, pull into its private copy.

    The function retries for a moment. It does not retry if each poll draws a new sample, because
    one of many samples would pass by chance.
    """
    state = schedule.table[me]
    # if T_PASSED is above the clock, the worker has passed already and waits for something else
    if state[layout.T_PASSED] <= state[layout.T_CLOCK]:
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
    """Call `next_step`; while it answers QUANTUM_WAIT, poll for a moment and call it again."""
    answer = next_step(rows, rule, plan, schedule, vector, memory, mail, private, me)
    while answer == layout.QUANTUM_WAIT and poll_again(schedule, plan, me):
        answer = next_step(rows, rule, plan, schedule, vector, memory, mail, private, me)
    if answer != layout.QUANTUM_WAIT:
        schedule.table[me, layout.T_POLLED] = 0
    return answer


@helper
def nothing_to_claim(schedule, plan, me):
    """Return the answer of a quantum that finds no block; stop the run after its last epoch."""
    control = schedule.control
    schedule.table[me, layout.T_BLOCK] = layout.NO_BLOCK
    epochs = load(control, layout.EPOCHS)
    if epochs >= plan.max_epochs:
        stop_now(control, layout.STOPPED_BY_LIMIT)
        return layout.QUANTUM_DONE
    return layout.QUANTUM_PAUSE if epochs >= load(control, layout.LIMIT) else layout.QUANTUM_WAIT


@helper
def begin_step(schedule, private, me):
    """Return QUANTUM_STEP: the block in hand is ready for its step outside of kernels."""
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
