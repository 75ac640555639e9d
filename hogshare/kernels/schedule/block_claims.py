"""The part of every quantum before a block: poll, pass the barrier, claim.

A quantum that finds no block yet, or waits at a barrier, polls again for a moment, up to T_POLLS
times in one wait. The loop does longer waits (`hogshare.engine.loop`).

Writers: every worker writes its own row of the table, and the schedule's words by the functions of
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

# Number of polls of the run's words, a nanosecond each, before a waiting quantum gives up its core
# once; in plain Python a poll takes as long as a hundred compiled polls. The number is small if
# every block waits for another worker, which may have no core: behind a barrier, and with a master.
GLANCES, FEW_GLANCES = (100, 1) if JIT_DISABLED else (10_000, 100)


@helper
def rows_of(ticket, plan, orders, first_t):
    """Return a block's row order, the block's begin and end in it, and its first row's time.

    The time is the number of rows visited before, including rows that other machines have visited
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
    """Whether the other workers alone, without the caller, will make blocks available again."""
    ended = load(schedule.control, layout.EPOCHS)
    return ended < plan.max_epochs and ended < load(schedule.control, layout.LIMIT)


@helper
def poll_again(schedule, plan, me):
    """Poll for some microseconds; return whether the waiting worker may retry in this quantum.

    After the polls the core is given up once, because the awaited worker may need it. On a busy
    machine this takes milliseconds, so a wait calls this function a few times only, and later
    quanta of the same wait do not poll. A worker whose wait has ended sets T_POLLED back to 0. No
    worker polls while all workers must stand still for a repair, or when a stop ends the quantum.
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
    """Claim the next block; retry for a moment if there is none yet.

    It waits for the last blocks of other workers: epoch e may not begin before epoch e - 2 has
    ended, and a run may not end before its last epoch.
    """
    state = schedule.table[me]
    ticket = claim(schedule, plan, me)
    while ticket == layout.NO_BLOCK:
        # a failed claim has written its block's number: without this the monitor would wait for
        # that block
        store(state, layout.T_BLOCK, layout.NO_BLOCK)
        if not (is_waited_for(schedule, plan) and poll_again(schedule, plan, me)):
            return ticket
        ticket = claim(schedule, plan, me)
    state[layout.T_POLLED] = 0
    return ticket


@kernel
def stop(control, reason):
    """Stop all workers at their next block, from outside of the run; the first reason stays.

    It uses a compare-exchange, as the run's own stops do: between a load and a store another worker
    might stop the run.
    """
    stop_now(control, reason)


@helper
def pass_barrier(plan, schedule, vector, memory, private, me):
    """Whether the worker may claim its next block; if so, its copy has the others' pushes.

    It retries for a moment, unless each poll draws a new sample: of many draws, one would pass by
    luck.
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
    """Do `next_step`; poll for a moment until others have had their sections."""
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
