"""Quanta on the master's plane: read a snapshot, compute, post a message.

The table in `hogshare.kernels.schedule.quanta` contains the kernels that `master_quantum` makes.
`hogshare.kernels.exchange.master_updates` describes the snapshot, and which workers or processes
take the messages.
"""

from hogshare.kernels import layout
from hogshare.kernels.exchange.master_updates import (
    address,
    help_master,
    read_snapshot,
    take_round,
    write_copy,
    write_message,
)
from hogshare.kernels.jit.decorators import helper, inlined
from hogshare.kernels.mail.edge_slots import all_taken, has_capacity, post
from hogshare.kernels.rules.block_sums import start_block
from hogshare.kernels.rules.hogwild_steps import hogwild_rows
from hogshare.kernels.rules.sgd_steps import sgd_rows
from hogshare.kernels.schedule.barrier_codes import FREE
from hogshare.kernels.schedule.block_claims import (
    begin_step,
    nothing_to_claim,
    pass_barrier,
    poll_again,
    rows_in_hand,
    rows_of,
    wait_for_section,
)
from hogshare.kernels.schedule.epoch_criteria import end_epochs
from hogshare.kernels.schedule.epoch_schedule import claim, complete, must_leave, news_of, tick
from hogshare.kernels.schedule.ordered_rounds import AGAIN, COMPUTE, POSTED, next_step
from hogshare.kernels.schedule.worker_life import WORK, move


@helper
def may_go_on(plan, mail, me):
    """Return whether the master has taken enough of a worker's messages for the worker to go on.

    With a barrier the master must have taken every posted message (see `count_posted`); without
    one, the mailbox must have a free slot.
    """
    return has_capacity(mail.box, me) if plan.barrier == FREE else all_taken(mail.box, me)


@helper
def is_answered(plan, schedule, vector, mail, me):
    """Return `may_go_on`; until it is true, help the master and retry for a moment."""
    while not may_go_on(plan, mail, me):
        help_master(plan, schedule, vector, mail, me)
        if not may_go_on(plan, mail, me) and not poll_again(schedule, plan, me):
            return False
    schedule.table[me, layout.T_POLLED] = 0
    return True


@helper
def step_or_help(rows, rule, plan, schedule, vector, memory, mail, private, me):
    """Call `next_step`; while it answers QUANTUM_WAIT, help the master and call it again."""
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
    """Count the worker's block as done; the master must have taken the block's message.

    With a barrier the clock advances only after the master has taken the push. So if another worker
    passes because of this clock and then reads the model, the model contains the push.
    """
    if state[layout.T_COMPUTED] == POSTED:
        state[layout.T_COMPUTED] = 0
        tick(plan, state, me)


@helper
def read_for_block(rows, rule, plan, schedule, vector, mail, private, me, ticket):
    """Read a snapshot of the master's model for a block's rows; return whether this succeeded."""
    order, first, end, _ = rows_of(ticket, plan, schedule.order, rule.first_t)
    return read_snapshot(rows, order, first, end, plan, schedule, vector, mail, private, me)


@helper
def ready_to_compute(rows, rule, plan, schedule, vector, mail, private, me, ticket):
    """Read the snapshot of the worker's block; return COMPUTE once the block can be computed.

    Return QUANTUM_SLEEP if the worker has to sleep first, and QUANTUM_WAIT if the snapshot could
    not be read. In both cases the block stays claimed, and a later call goes on.
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
    """Make the helper that computes a block at its snapshot and writes its message.

    The helper does not post the message.

    copied : whether steps are taken on a copy of the model with a scale; if False, each row's step
        and penalty change only the row's own coefficients
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

    # Numba names a function's code by its name and by a number that counts within a process. So two
    # cached kernels may have one symbol for two helpers, and a process that loads both kernels
    # would call one helper for both.
    compute_message.__qualname__ = f"compute_message_copied_{copied}_single_{single}"
    return helper(compute_message)


message_on_support = message_of(False)
message_of_column, message_of_columns = message_of(True, True), message_of(True)


def master_quantum(ordered, copied, single, outside):
    """Make the body of a quantum on the master's plane; see `quantum_of` and `message_of`.

    With `outside`, Python code takes a block's step and writes the step into the slot of the
    worker's next message.
    """

    def take_quantum(rows, rule, plan, schedule, vector, memory, mail, private, me, n_blocks):
        """Claim, read, compute and post up to `n_blocks` blocks; return a ``QUANTUM_`` answer."""
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
                    groups = schedule, vector, memory, mail, private, me
                    answer = step_or_help(rows, rule, plan, *groups)
                    if answer == AGAIN:
                        continue
                    if answer == layout.QUANTUM_BRING and state[layout.T_COMPUTED] == 0:
                        # every site has the snapshot from which the block is computed
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
                        return layout.QUANTUM_OVER  # a quantum ends with its block
                ticket = state[layout.T_BLOCK]  # a block may have waited for its snapshot
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
                        move(state, WORK)
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
                # counted, then posted: if the worker dies in between, the block is not repeated
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

    return take_quantum
