"""Many blocks in one call: the compiled form of the worker's loop.

A call of a kernel from Python costs microseconds and holds the interpreter's lock; an epoch of a
small data set costs a millisecond. So a worker asks for a *turn*: claim, compute and push up to so
many blocks without Python, watching the stop word at every block. The loop in Python
(`hogshare.engine.loop`) is the same loop with turns as its computing step.

With T_ENTERS in its row, which is written before the run, a worker's first turn enters the run,
and the one that finds nothing left leaves it; otherwise both are calls of their own. A turn that
finds no block yet, or is held by a barrier, looks again for a moment, T_POLLS times in one wait.
Longer waits are not done here.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import (
    ALL,
    TRY,
    WAIT,
    adopt_shared,
    pull,
    push_private,
    record_push,
)
from hogshare.kernels.exchange.master_updates import (
    address,
    help_master,
    read_snapshot,
    take_round,
    write_copy,
    write_message,
)
from hogshare.kernels.jit.atomics import compare_exchange, fetch_add, load, store
from hogshare.kernels.jit.decorators import JIT_DISABLED, helper, inlined, kernel
from hogshare.kernels.jit.host import nanoseconds, yield_core
from hogshare.kernels.mail.edge_slots import all_taken, has_capacity, post
from hogshare.kernels.rules.asaga_steps import asaga_rows
from hogshare.kernels.rules.block_sums import start_block
from hogshare.kernels.rules.coordinate_steps import ALL as ALL_COORDINATES
from hogshare.kernels.rules.coordinate_steps import begin_draws, coordinate_rows
from hogshare.kernels.rules.dual_ascent import dual_rows, fewest_of, mean_of_duals, sum_of_duals
from hogshare.kernels.rules.hogwild_steps import hogwild_rows
from hogshare.kernels.rules.saga_steps import average_table, level_of, saga_rows
from hogshare.kernels.rules.sgd_steps import DUAL, GRADIENT, SAGA, fold_scale, sgd_rows
from hogshare.kernels.schedule.barrier_codes import EVERYBODY, FREE, LAG, enter, may_pass
from hogshare.kernels.schedule.epoch_criteria import end_epochs
from hogshare.kernels.schedule.epoch_schedule import (
    ALONE,
    EXCHANGE,
    LOCK_FREE,
    MASTER,
    SIMULATED,
    claim,
    complete,
    must_leave,
    news_of,
    note_event,
    stop_now,
    tick,
    workers_left,
)
from hogshare.kernels.schedule.grid_quanta import cell_of_factors
from hogshare.kernels.schedule.ordered_rounds import (
    AGAIN,
    COMPUTE,
    COMPUTED,
    POSTED,
    UNSENT,
    next_step,
    take_place,
)
from hogshare.kernels.schedule.shares import rows_before, span_of

# Rows between a worker's first exchanges, and later ones in rows that it has done, up to the
# interval. The step of plain descent falls as rows are done, by all and in earlier runs too, and
# with it what a worker does not know of the others: there it is a worker's share of all those.
FIRST_INTERVAL, GROWTH = 128, 1.0
DESCENT_FIRST, DESCENT_GROWTH = 256, 1.0 / 16.0
UNEXCHANGED = layout.T_UNEXCHANGED
# Times that a turn looks at the words of the run, a nanosecond each, between two times that it
# gives its core up; in plain Python each takes as long as a hundred. Few where somebody is waited
# for at every block, who may have no core: behind a barrier, and with a master.
GLANCES, FEW_GLANCES = (100, 1) if JIT_DISABLED else (10_000, 100)


@inlined
def interval_now(plan, rows_done, first, growth):
    """Rows between exchanges: few at first, when the model moves fast."""
    return min(plan.interval, max(first, np.int64(growth * rows_done)))


@helper
def rows_of(ticket, plan, orders, first_t):
    """A block: its epoch's order, where it begins and ends there, and its first row's time.

    That is how many rows have been visited, with those that other machines have visited meanwhile.
    """
    epoch = ticket // plan.n_blocks
    order = orders[epoch % 2]
    n_rows = order.shape[0]
    cut = plan.n_blocks, plan.block_rows, plan.shares, plan.split
    first, end, before = span_of(ticket % plan.n_blocks, n_rows, *cut)
    return order, first, end, first_t + rows_before(ticket, n_rows, before, plan)


@helper
def pause(rule, plan, schedule, vector, memory, private, me, wanted):
    """Stand still while what a dead worker has left is put in order; called at a turn's start.

    The vector of the dual rule and SAGA's average are sums over the rows' entries, and a worker
    that is killed leaves them off by what it had not folded, or had half folded. The monitor asks
    for a repair by its number. Every worker folds all that it has and writes that number into its
    row; when all have, the monitor opens SUMMER, and whoever takes it sums anew. So nobody is in
    the middle of anything meanwhile, and nothing is outside the shared arrays. The number in SUMMER
    and the second look at REPAIRED make a monitor harmless that opens too late.

    wanted : the last repair that has been asked for

    Returns whether this worker is to sum anew, and then to call `end_pause`.
    """
    control = schedule.control
    state = schedule.table[me]
    if state[layout.T_PAUSED] != wanted:
        # who has just joined, or has rested, has nothing to fold, and others may be summing already
        if plan.private == EXCHANGE and state[layout.T_ROWS] > state[layout.T_ROWS_AT_JOIN]:
            push_private(rule, schedule, vector, memory, private, me, ALL)
        store(state, layout.T_PAUSED, wanted)
    elif compare_exchange(control, layout.SUMMER, -wanted, me + 1) == -wanted:
        if load(control, layout.REPAIRED) != wanted:
            return True
        store(control, layout.SUMMER, 0)
    return False


@helper
def end_pause(control, wanted):
    """Give SUMMER back: the sums are whole."""
    store(control, layout.REPAIRED, wanted)
    store(control, layout.SUMMER, 0)


@helper
def enter_run(rule, plan, schedule, vector, memory, private, me):
    """Count as live and pull for the first time; False: the run was closed first."""
    state = schedule.table[me]
    before = load(state, layout.T_STATE)
    if before != layout.STARTING and before != layout.RESTING:
        return False
    if compare_exchange(state, layout.T_STATE, before, layout.ACTIVE) != before:
        return False
    fetch_add(schedule.control, layout.LIVE, 1)
    state[layout.T_ROWS_AT_JOIN] = state[layout.T_ROWS]
    enter(plan, schedule.table, me)
    take_place(schedule, me)
    if plan.private == EXCHANGE:
        left = workers_left(schedule) if plan.ordered else load(schedule.control, layout.LIVE)
        live = np.int64(left)
        adopt_shared(schedule, vector, memory, private, me, live, rule.stretch)
    return True


@helper
def leave_run(rule, plan, schedule, vector, memory, private, me, state):
    """Push what is left and count as gone; `state` (DONE or RESTING) is the last word written."""
    if plan.private == EXCHANGE:
        push_private(rule, schedule, vector, memory, private, me, ALL)
    elif plan.private == ALONE:
        fold_scale(private, 0, private.local.shape[1])
        for c in range(private.local.shape[1]):
            vector.intercept[c] = private.local[layout.L_INTERCEPT, c]
    fetch_add(schedule.control, layout.LIVE, -1)
    store(schedule.table[me], layout.T_STATE, state)


@kernel
def join(rule, plan, schedule, vector, memory, private, me):
    """Enter the run, apart from a turn; False: the run was closed first."""
    return enter_run(rule, plan, schedule, vector, memory, private, me)


@kernel
def leave(rule, plan, schedule, vector, memory, private, me, state):
    """Leave the run, apart from a turn."""
    leave_run(rule, plan, schedule, vector, memory, private, me, state)


@helper
def may_begin(rule, plan, schedule, vector, memory, private, me):
    """Enter the run, if that is left to the turn; False: it is closed, or over, before that."""
    state = schedule.table[me]
    now = load(state, layout.T_STATE)
    if state[layout.T_ENTERS] == 0 or now == layout.ACTIVE or now == layout.WAITING:
        return True
    outside = now == layout.STARTING or now == layout.RESTING
    if outside and load(schedule.control, layout.STOP) != layout.RUNNING:
        compare_exchange(state, layout.T_STATE, now, layout.DONE)
        return False
    return enter_run(rule, plan, schedule, vector, memory, private, me)


@helper
def parting(rule, plan, schedule, vector, memory, private, me, answer):
    """The answer of a turn's last look; who is done, or rests, leaves if that is left to it."""
    if schedule.table[me, layout.T_ENTERS] != 0:
        if answer == layout.QUANTUM_DONE:
            leave_run(rule, plan, schedule, vector, memory, private, me, layout.DONE)
        elif answer == layout.QUANTUM_PAUSE:
            leave_run(rule, plan, schedule, vector, memory, private, me, layout.RESTING)
    return answer


@inlined
def is_waited_for(schedule, plan):
    """Whether there will be blocks again without anybody's help but the other workers'."""
    ended = load(schedule.control, layout.EPOCHS)
    return ended < plan.max_epochs and ended < load(schedule.control, layout.LIMIT)


@helper
def poll_again(schedule, plan, me):
    """Whether who waits may look once more in this turn; some microseconds later, if so.

    Between two looks the core is given up, because who is waited for may need it; on a busy machine
    each time takes milliseconds, so that looks are few, and once they are done the turns of this
    wait make none. Whoever has come by what it waited for sets T_POLLED back to 0. Nobody looks
    while all are to stand still for a repair, or where a stop ends the turn.
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
    """Take the next block; look again for a moment, if there is none yet.

    What is waited for are the last blocks of others: an epoch may not begin before the one before
    the last has ended, and a run not end before its last.
    """
    state = schedule.table[me]
    ticket = claim(schedule, plan, me)
    while ticket == layout.NO_BLOCK:
        # who has failed to take a block has written its number: the monitor would wait for it
        store(state, layout.T_BLOCK, layout.NO_BLOCK)
        if not (is_waited_for(schedule, plan) and poll_again(schedule, plan, me)):
            return ticket
        ticket = claim(schedule, plan, me)
    state[layout.T_POLLED] = 0
    return ticket


@kernel
def stop(control, reason):
    """Ask everybody to stop at their next block, from outside of the run; the first reason stands.

    A compare-exchange as in the run's own stops: between a look and a store somebody else may stop.
    """
    stop_now(control, reason)


@helper
def pass_barrier(plan, schedule, vector, memory, private, me):
    """Whether the worker may claim its next block; it has the others' pushes then.

    Looks again for a moment, unless each look is a draw of its own: of many, one is lucky.
    """
    state = schedule.table[me]
    if state[layout.T_PASSED] <= state[layout.T_CLOCK]:  # else what it waits for is not the barrier
        each_draws = plan.barrier == LAG and plan.sample != EVERYBODY and plan.hold == 0
        while not may_pass(plan, schedule.table, schedule.control, me):
            if each_draws or not poll_again(schedule, plan, me):
                return False
        state[layout.T_POLLED] = 0
    if plan.private == EXCHANGE:
        pull(schedule, vector, memory, private, me)
    return True


@helper
def step_or_wait(rows, rule, plan, schedule, vector, memory, mail, private, me):
    """`next_step`; looks again for a moment whether others have had their sections."""
    answer = next_step(rows, rule, plan, schedule, vector, memory, mail, private, me)
    while answer == layout.QUANTUM_WAIT and poll_again(schedule, plan, me):
        answer = next_step(rows, rule, plan, schedule, vector, memory, mail, private, me)
    if answer != layout.QUANTUM_WAIT:
        schedule.table[me, layout.T_POLLED] = 0
    return answer


@helper
def nothing_to_claim(schedule, plan, me):
    """What a turn answers whose worker finds no block."""
    control = schedule.control
    schedule.table[me, layout.T_BLOCK] = layout.NO_BLOCK
    epochs = load(control, layout.EPOCHS)
    if epochs >= plan.max_epochs:
        stop_now(control, layout.STOPPED_BY_LIMIT)
        return layout.QUANTUM_DONE
    return layout.QUANTUM_PAUSE if epochs >= load(control, layout.LIMIT) else layout.QUANTUM_WAIT


@helper
def begin_step(schedule, private, me):
    """Answer that the block in hand is ready for its step, which is taken outside."""
    start_block(private.local)
    schedule.table[me, layout.T_STEP] = 1
    return layout.QUANTUM_STEP


@helper
def rows_in_hand(schedule, plan, me):
    """How many rows the block in hand has."""
    _, first, end, _ = rows_of(schedule.table[me, layout.T_BLOCK], plan, schedule.order, 1.0)
    return end - first


@helper
def wait_for_section(schedule, me):
    """Note that the block in hand is computed, and waits for the worker's section."""
    state = schedule.table[me]
    if state[layout.T_SITE] != layout.ONE_SITE:
        state[layout.T_SITE] = layout.ASKS
        state[layout.T_COMPUTED] = UNSENT
        return
    state[layout.T_COMPUTED] = COMPUTED
    store(state, layout.T_READY, state[layout.T_ROUND])


def quantum_of(name, method, lock_free, ordered=False, single=False, outside=False, cells=False):
    """Make the kernel of a quantum by one rule, on the shared vector itself or on a private one.

    All are constants of the kernel. Numba leaves out a branch on a constant before it looks at
    types, so that a fit compiles its own rule's rows and no other's.

    Parameters
    ----------
    name : str
        What the kernel is called in the cache folder, in profiles and in tracebacks.
    method : int
        As `sgd_steps.RuleNumbers.method`.
    lock_free : bool
        Whether all workers write the one vector.
    ordered : bool
        Whether workers fold and claim in their order, see `ordered_rounds`.
    single : bool
        Whether the model has one column; see `sgd_rows`.
    outside : bool
        Whether steps are taken between two calls, see `gradient_quanta`.
    cells : bool
        Whether a block is a cell of a factorisation, see `grid_quanta`; `rows` are its `Cells`
        then.
    """

    def take_quantum(rows, rule, plan, schedule, vector, memory, mail, private, me, n_blocks):
        """Claim and compute up to `n_blocks` blocks; returns one of the ``TURN_`` answers."""
        control = schedule.control
        table = schedule.table
        # a block's push comes before its clock wherever somebody looks at clocks
        must_push = not ordered and (plan.barrier != FREE or plan.sleeps != 0)
        if not ordered and not may_begin(rule, plan, schedule, vector, memory, private, me):
            return layout.QUANTUM_CLOSED
        while n_blocks > 0 or (outside and table[me, layout.T_STEP] != 0):
            if outside and table[me, layout.T_STEP] != 0:
                table[me, layout.T_STEP] = 0
                ticket = table[me, layout.T_BLOCK]
                n_rows = rows_in_hand(schedule, plan, me)
                table[me, UNEXCHANGED] += n_rows
            else:
                if not outside:
                    n_blocks -= 1
                if must_leave(control, ordered):
                    side = schedule, vector, memory, private, me
                    return parting(rule, plan, *side, layout.QUANTUM_DONE)
                wanted = load(control, layout.REPAIR_WANTED)
                if method != GRADIENT and wanted != load(control, layout.REPAIRED):
                    if pause(rule, plan, schedule, vector, memory, private, me, wanted):
                        mean = memory.dual_mean
                        n = rule.dual_rows
                        if method == DUAL:
                            sum_of_duals(rows, memory.dual, rule.dual_scale, vector.w)
                            mean_of_duals(memory.dual, n, mean)
                        else:
                            average_table(rows, memory.gradients, 1.0 / n, memory.average, mean)
                        end_pause(control, wanted)
                    return layout.QUANTUM_WAIT
                slept = plan.sleeps != 0 and table[me, layout.T_SLEEPS] != 0
                if ordered:
                    side = schedule, vector, memory, mail, private, me
                    answer = step_or_wait(rows, rule, plan, *side)
                    if answer == AGAIN:
                        continue
                    if answer != COMPUTE:
                        return answer
                    ticket = table[me, layout.T_BLOCK]
                elif slept:
                    ticket = table[me, layout.T_BLOCK]
                else:
                    side = schedule, vector, memory, private, me
                    if plan.barrier != FREE and not pass_barrier(plan, *side):
                        return layout.QUANTUM_WAIT
                    ticket = claim_or_wait(schedule, plan, me)
                if ticket == layout.NO_BLOCK:
                    answer = nothing_to_claim(schedule, plan, me)
                    return parting(rule, plan, schedule, vector, memory, private, me, answer)
                if table[me, layout.T_STATE] != layout.ACTIVE:
                    store(table[me], layout.T_STATE, layout.ACTIVE)
                if lock_free and not slept:
                    table[me, layout.T_VERSION] = load(control, layout.VERSION)
                if plan.sleeps != 0 and ticket != layout.FINISH_EPOCH:
                    table[me, layout.T_SLEEPS] = 0 if slept else 1
                    if not slept:
                        return layout.QUANTUM_SLEEP
                if outside and ticket != layout.FINISH_EPOCH:
                    return begin_step(schedule, private, me)
                n_rows = 0
            if cells:  # a branch of its own, which Numba leaves out, or all others
                if ticket != layout.FINISH_EPOCH:
                    n_rows = cell_of_factors(rows, rule, plan, schedule, vector, private, ticket)
            elif not outside and ticket != layout.FINISH_EPOCH:
                order, first, end, t = rows_of(ticket, plan, schedule.order, rule.first_t)
                n_rows = end - first
                level = level_of(rule, plan, schedule.columns, ticket)
                start_block(private.local)
                columns = schedule.columns
                alone = plan.private == ALONE
                if lock_free:
                    atomic = plan.atomic != 0
                    if method == SAGA:
                        args = schedule, vector, memory, private.local, atomic, level
                        asaga_rows(rows, rule, order, first, end, *args)
                    else:
                        model = vector.w, vector.intercept, vector.rarity
                        args = private, columns, atomic
                        if rule.coordinate == ALL_COORDINATES:
                            hogwild_rows(rows, rule, order, first, end, t, *model, *args)
                        else:
                            epoch, block = ticket // plan.n_blocks, ticket % plan.n_blocks
                            n_columns = private.local.shape[1]
                            begin_draws(rule, plan.seed, epoch, block, n_columns, private.scratch)
                            coordinate_rows(rows, rule, order, first, end, t, *model, *args)
                else:
                    i = first
                    while i < end:
                        if method == GRADIENT:
                            rows_done = t / table.shape[0]
                            interval = interval_now(plan, rows_done, DESCENT_FIRST, DESCENT_GROWTH)
                        else:
                            rows_done = np.float64(table[me, layout.T_ROWS] + i - first)
                            interval = interval_now(plan, rows_done, FIRST_INTERVAL, GROWTH)
                        whole = alone or ordered or plan.sleeps == SIMULATED
                        capacity = end - i if whole else interval - table[me, UNEXCHANGED]
                        until = min(end, i + max(capacity, 1))
                        if method == DUAL:
                            fewest = fewest_of(rule, plan, ticket)
                            args = memory.dual, private, columns, alone, fewest
                            dual_rows(rows, rule, order, i, until, *args)
                        elif method == SAGA:
                            args = schedule, vector, memory, private, alone, level, single
                            saga_rows(rows, rule, order, i, until, *args)
                        else:
                            sgd_rows(rows, rule, order, i, until, t, private, columns, single)
                        table[me, UNEXCHANGED] += until - i
                        t += (until - i) * rule.stride
                        i = until
                        if not whole and table[me, UNEXCHANGED] >= interval:
                            push_private(rule, schedule, vector, memory, private, me, TRY)
            last, completed = True, 0
            if ticket != layout.FINISH_EPOCH:
                if (lock_free and not ordered) or plan.private == ALONE:
                    record_push(schedule, me)
                    note_event(schedule, me, ticket, 0, 0)
                elif must_push and table[me, UNEXCHANGED] > 0:
                    # before its clock
                    push_private(rule, schedule, vector, memory, private, me, WAIT)
                elif outside and not ordered and table[me, UNEXCHANGED] >= plan.interval:
                    push_private(rule, schedule, vector, memory, private, me, TRY)
                table[me, layout.T_ROWS] += n_rows
                if ordered:
                    wait_for_section(schedule, me)
                    continue
                last, completed = complete(schedule, plan, ticket, private.local)
                tick(plan, table[me], me)
            if last:
                looked_at = plan.early_stopping or plan.report_epochs
                if not lock_free and plan.private == EXCHANGE and looked_at:
                    push_private(rule, schedule, vector, memory, private, me, TRY)
                if cells:
                    end_epochs(rows.rows, rule, plan, schedule, vector, memory, private, me)
                else:
                    end_epochs(rows, rule, plan, schedule, vector, memory, private, me)
            news = news_of(plan, last, completed)
            if news != layout.QUANTUM_OVER:
                return news
            if outside and plan.sleeps != 0 and ticket != layout.FINISH_EPOCH:
                return layout.QUANTUM_OVER
        return layout.QUANTUM_OVER

    take_quantum.__name__ = take_quantum.__qualname__ = name
    return kernel(take_quantum)


@helper
def may_go_on(plan, mail, me):
    """Whether the master has taken so much of a worker's mail that the worker may go on.

    Behind a barrier that is all it has posted: see `count_posted`.
    """
    return has_capacity(mail.box, me) if plan.barrier == FREE else all_taken(mail.box, me)


@helper
def is_answered(plan, schedule, vector, mail, me):
    """`may_go_on`; helps the master, and looks again for a moment."""
    while not may_go_on(plan, mail, me):
        help_master(plan, schedule, vector, mail, me)
        if not may_go_on(plan, mail, me) and not poll_again(schedule, plan, me):
            return False
    schedule.table[me, layout.T_POLLED] = 0
    return True


@helper
def step_or_help(rows, rule, plan, schedule, vector, memory, mail, private, me):
    """`next_step`; helps the master, and looks again for a moment."""
    answer = next_step(rows, rule, plan, schedule, vector, memory, mail, private, me)
    while answer == layout.QUANTUM_WAIT:
        help_master(plan, schedule, vector, mail, me)
        answer = next_step(rows, rule, plan, schedule, vector, memory, mail, private, me)
        if answer == layout.QUANTUM_WAIT and not poll_again(schedule, plan, me):
            return answer
    schedule.table[me, layout.T_POLLED] = 0
    return answer


@inlined
def count_posted(plan, state, me):
    """Count the worker's block, whose message the master has taken; it has none in hand then.

    Behind a barrier a push is over when the master has taken it, and the clock comes after: so who
    passes on account of that clock, and reads then, has what has come of the message.
    """
    if state[layout.T_COMPUTED] == POSTED:
        state[layout.T_COMPUTED] = 0
        tick(plan, state, me)


@helper
def read_for_block(rows, rule, plan, schedule, vector, mail, private, me, ticket):
    """Read a snapshot of the master's for a block's rows; False if that does not come about."""
    order, first, end, _ = rows_of(ticket, plan, schedule.order, rule.first_t)
    return read_snapshot(rows, order, first, end, plan, schedule, vector, mail, private, me)


@helper
def ready_to_compute(rows, rule, plan, schedule, vector, mail, private, me, ticket):
    """COMPUTE if the block in hand has its snapshot, and has been slept for; or what comes first.

    A block whose snapshot cannot be read stays in hand.
    """
    state = schedule.table[me]
    if plan.sleeps != 0 and state[layout.T_SLEEPS] != 0:
        state[layout.T_SLEEPS] = 0
        return COMPUTE
    if not read_for_block(rows, rule, plan, schedule, vector, mail, private, me, ticket):
        return layout.QUANTUM_WAIT
    if plan.sleeps != 0:
        state[layout.T_SLEEPS] = 1
        return layout.QUANTUM_SLEEP
    return COMPUTE


def message_of(copied, single=False):
    """Make what computes a block at its snapshot and writes the message, which is not posted yet.

    copied : whether rows are stepped on a copy with a scale, and not with penalties on their places
    single : whether the model has one column
    """

    def compute_message(rows, rule, plan, schedule, vector, mail, private, me, ticket):
        order, first, end, t = rows_of(ticket, plan, schedule.order, rule.first_t)
        start_block(private.local)
        columns = schedule.columns
        if copied:
            sgd_rows(rows, rule, order, first, end, t, private, columns, single)
            write_copy(rule, end - first, plan, schedule, vector, mail, private, me)
        else:
            model = private.w, private.local[layout.L_INTERCEPT], vector.rarity
            hogwild_rows(rows, rule, order, first, end, t, *model, private, columns, False)
            t += (end - first) * rule.stride
            of_message = plan, schedule, vector, mail, private, me
            write_message(rows, rule, order, first, end, t, *of_message)
        address(schedule, mail, me, ticket)
        schedule.table[me, layout.T_ROWS] += end - first

    return helper(compute_message)


message_on_support = message_of(False)
message_of_column, message_of_columns = message_of(True, True), message_of(True)


def master_quantum_of(name, ordered, copied=False, single=False, outside=False):
    """Make the kernel of a quantum on the master's plane; see `quantum_of` and `message_of`.

    A step that is taken outside is the worker's next message, which who takes it writes into the
    slot.
    """

    def take_quantum(rows, rule, plan, schedule, vector, memory, mail, private, me, n_blocks):
        """Claim, read, compute and post up to `n_blocks` blocks; one of the ``TURN_`` answers."""
        control = schedule.control
        state = schedule.table[me]
        while n_blocks > 0 or (outside and state[layout.T_STEP] != 0):
            if outside and state[layout.T_STEP] != 0:
                state[layout.T_STEP] = 0
                ticket = state[layout.T_BLOCK]
                state[layout.T_ROWS] += rows_in_hand(schedule, plan, me)
                address(schedule, mail, me, ticket)
            else:
                if not outside:
                    n_blocks -= 1
                if must_leave(control, ordered):
                    count_posted(plan, state, me)
                    return layout.QUANTUM_DONE
                if plan.inline != 0:
                    take_round(plan, schedule, vector, mail)
                if ordered:
                    side = schedule, vector, memory, mail, private, me
                    answer = step_or_help(rows, rule, plan, *side)
                    if answer == AGAIN:
                        continue
                    if answer == layout.QUANTUM_BRING and state[layout.T_COMPUTED] == 0:
                        # every site has the snapshot that the block is computed from
                        of_block = mail, private, me, state[layout.T_BLOCK]
                        if not read_for_block(rows, rule, plan, schedule, vector, *of_block):
                            return layout.QUANTUM_WAIT
                    if answer != COMPUTE:
                        return answer
                elif state[layout.T_COMPUTED] == POSTED:
                    if not is_answered(plan, schedule, vector, mail, me):
                        return layout.QUANTUM_WAIT
                    count_posted(plan, state, me)
                    if plan.sleeps != 0:
                        return layout.QUANTUM_OVER  # with its block
                ticket = state[layout.T_BLOCK]  # which may have waited for a snapshot
                if not ordered:
                    if ticket == layout.NO_BLOCK:
                        if plan.barrier == FREE:
                            if not is_answered(plan, schedule, vector, mail, me):
                                return layout.QUANTUM_WAIT
                        elif not pass_barrier(plan, schedule, vector, memory, private, me):
                            return layout.QUANTUM_WAIT
                        ticket = claim(schedule, plan, me)
                        if ticket == layout.NO_BLOCK:
                            return nothing_to_claim(schedule, plan, me)
                    if state[layout.T_STATE] != layout.ACTIVE:
                        store(state, layout.T_STATE, layout.ACTIVE)
                if ticket != layout.FINISH_EPOCH:
                    of_block = mail, private, me, ticket
                    answer = ready_to_compute(rows, rule, plan, schedule, vector, *of_block)
                    if answer != COMPUTE:
                        return answer
                    if outside:
                        return begin_step(schedule, private, me)
                    if not copied:
                        message_on_support(rows, rule, plan, schedule, vector, *of_block)
                    elif single:
                        message_of_column(rows, rule, plan, schedule, vector, *of_block)
                    else:
                        message_of_columns(rows, rule, plan, schedule, vector, *of_block)
            if ordered:
                wait_for_section(schedule, me)
                continue
            last, completed = True, 0
            if ticket != layout.FINISH_EPOCH:
                # first counted, then posted: if it dies in between, the block is not done again
                last, completed = complete(schedule, plan, ticket, private.local)
                post(mail.box, me)
                if plan.inline != 0:
                    take_round(plan, schedule, vector, mail)
                else:
                    help_master(plan, schedule, vector, mail, me)
                if plan.barrier == FREE:
                    tick(plan, state, me)
                else:
                    state[layout.T_COMPUTED] = POSTED
            if last:
                end_epochs(rows, rule, plan, schedule, vector, memory, private, me)
            news = news_of(plan, last, completed)
            if news != layout.QUANTUM_OVER:
                return news
        return layout.QUANTUM_OVER

    take_quantum.__name__ = take_quantum.__qualname__ = name
    return kernel(take_quantum)


# By Rule.method, Plan.private, Plan.ordered, and whether there is one column. Ordered turns are
# kernels of their own: few runs need them, and they would double what a first fit compiles. So are
# those for one column where that pays; the dual turn was no quicker for it.
QUANTA = {}


def tabulate(turn, method, plane, ordered, *single):
    """Enter a kernel in `QUANTA`, for one column, for several, or, if nothing is said, for both."""
    for one in single or (True, False):
        QUANTA[method, plane, ordered, one] = turn


for name, method in (("sgd", GRADIENT), ("saga", SAGA)):
    one = quantum_of(f"{name}_turn", method, False, single=True)
    several = quantum_of(f"{name}_columns_turn", method, False)
    for plane in (EXCHANGE, ALONE):
        tabulate(one, method, plane, 0, True)
        tabulate(several, method, plane, 0, False)
both = quantum_of("dual_turn", DUAL, False)
for plane in (EXCHANGE, ALONE):
    tabulate(both, DUAL, plane, 0)
for name, method in (("sgd", GRADIENT), ("dual", DUAL), ("saga", SAGA)):
    in_rounds = quantum_of(f"{name}_round", method, False, ordered=True)
    for plane in (EXCHANGE, ALONE):
        tabulate(in_rounds, method, plane, 1)
tabulate(quantum_of("hogwild_turn", GRADIENT, True), GRADIENT, LOCK_FREE, 0)
tabulate(quantum_of("asaga_turn", SAGA, True), SAGA, LOCK_FREE, 0)
tabulate(master_quantum_of("master_turn", False), GRADIENT, MASTER, 0)
tabulate(master_quantum_of("master_round", True), GRADIENT, MASTER, 1)
# of those whose rows are stepped on a copy: by Plan.ordered, and whether there is one column
COPIED_QUANTA = {
    (0, True): master_quantum_of("copied_turn", False, copied=True, single=True),
    (0, False): master_quantum_of("copied_columns_turn", False, copied=True),
    (1, True): master_quantum_of("copied_round", True, copied=True, single=True),
    (1, False): master_quantum_of("copied_columns_round", True, copied=True),
}
# what a problem whose rows stand in cells names as its own, see `CompiledPass`
factors_quantum = quantum_of("factors_turn", GRADIENT, True, cells=True)
