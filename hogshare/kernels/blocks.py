"""Turns whose blocks' steps are taken outside: by a gradient of the user's, between two calls.

As `hogshare.kernels.turns` in all but that. A turn claims a block, and pulls for it, and answers
TURN_STEP. Who has called takes the step where the plane wants it (`hogshare.engine.outside`) and
calls again: that turn pushes and counts the block, and claims the next. So a block is one call of a
kernel and one of the gradient.

Who writes: T_STEP, the worker alone, 1 from the claim of a block to its end. All else as `turns`.
"""

from hogshare.kernels import layout
from hogshare.kernels.apart import read_part, write_part
from hogshare.kernels.atomics import add_float, load, store
from hogshare.kernels.barriers import FREE, may_pass
from hogshare.kernels.endings import end_epochs
from hogshare.kernels.epochs import (
    ALONE,
    EXCHANGE,
    LOCK_FREE,
    MASTER,
    claim,
    complete,
    must_leave,
    news_of,
    note_event,
    tick,
)
from hogshare.kernels.exchange import TRY, WAIT, push_private, record_push
from hogshare.kernels.jit import helper, kernel
from hogshare.kernels.mailbox import post
from hogshare.kernels.master import address, take_round
from hogshare.kernels.rounds import AGAIN, COMPUTE, COMPUTED, POSTED
from hogshare.kernels.tracking import start_block
from hogshare.kernels.turns import (
    claim_or_wait,
    count_posted,
    is_answered,
    may_begin,
    nothing_to_claim,
    parting,
    pass_barrier,
    ready_to_compute,
    rows_of,
    step_or_wait,
)


@kernel
def subtract(w, places, step):
    """Subtract a step from the one vector by atomic adds, of which none is lost.

    places : int64, of `step` and of `w`; empty: all
    """
    kind = w.dtype.type
    if places.shape[0] == 0:
        for j in range(w.shape[0]):
            if step[j] != 0.0:
                add_float(w, j, kind(-step[j]))
    else:
        for k in range(places.shape[0]):
            add_float(w, places[k], kind(-step[k]))


@helper
def begin_step(schedule, private, me):
    """Answer that the block in hand is ready for its step."""
    start_block(private.local)
    schedule.table[me, layout.T_STEP] = 1
    return layout.TURN_STEP


@helper
def rows_in_hand(schedule, plan, me):
    """How many rows the block in hand has."""
    _, first, end, _ = rows_of(schedule.table[me, layout.T_BLOCK], plan, schedule.order, 1.0)
    return end - first


@helper
def wait_for_section(schedule, me):
    """Note that the block in hand is computed, and waits for the worker's section."""
    schedule.table[me, layout.T_COMPUTED] = COMPUTED
    store(schedule.table[me], layout.T_READY, schedule.table[me, layout.T_ROUND])


def block_turn_of(name, lock_free, ordered=False):
    """Make the kernel of a turn on the shared vector; see `turns.turn_of`."""

    def take_turn(rows, rule, plan, schedule, vector, memory, mail, private, me, n_blocks):
        """End the block in hand, and begin another if `n_blocks` is not 0."""
        control = schedule.control
        state = schedule.table[me]
        must_push = not ordered and (plan.barrier != FREE or plan.sleeps != 0)
        if state[layout.T_STEP] != 0:
            state[layout.T_STEP] = 0
            n_rows = rows_in_hand(schedule, plan, me)
            state[layout.T_ROWS] += n_rows
            state[layout.T_UNEXCHANGED] += n_rows
            if ordered:
                if plan.private == ALONE:
                    record_push(schedule, me)
                wait_for_section(schedule, me)
            else:
                ticket = state[layout.T_BLOCK]
                if lock_free or plan.private == ALONE:
                    record_push(schedule, me)
                    note_event(schedule, me, ticket, 0)
                elif must_push:
                    push_private(rule, schedule, vector, memory, private, me, WAIT)
                elif state[layout.T_UNEXCHANGED] >= plan.interval:
                    push_private(rule, schedule, vector, memory, private, me, TRY)
                last, completed = complete(schedule, plan, ticket, private.local)
                tick(plan, state, me)
                if last:
                    if not lock_free and plan.private == EXCHANGE and plan.report_epochs:
                        push_private(rule, schedule, vector, memory, private, me, TRY)
                    end_epochs(rows, rule, plan, schedule, vector, memory, private, me)
                news = news_of(plan, last, completed)
                if news != layout.TURN_OVER or plan.sleeps != 0:
                    return news
        elif not ordered and not may_begin(rule, plan, schedule, vector, memory, private, me):
            return layout.TURN_CLOSED
        while n_blocks > 0:
            if must_leave(control, ordered):
                return parting(rule, plan, schedule, vector, memory, private, me, layout.TURN_DONE)
            slept = plan.sleeps != 0 and state[layout.T_SLEEPS] != 0
            ticket = state[layout.T_BLOCK]  # which may have been slept for
            if ordered:
                answer = step_or_wait(rows, rule, plan, schedule, vector, memory, mail, private, me)
                if answer == AGAIN:
                    continue
                if answer != COMPUTE:
                    return answer
            elif not slept:
                side = schedule, vector, memory, private, me
                if plan.barrier != FREE and not pass_barrier(plan, *side):
                    return layout.TURN_WAIT
                ticket = claim_or_wait(schedule, plan, me)
                if ticket == layout.NO_BLOCK:
                    answer = nothing_to_claim(schedule, plan, me)
                    return parting(rule, plan, schedule, vector, memory, private, me, answer)
            if state[layout.T_STATE] != layout.ACTIVE:
                store(state, layout.T_STATE, layout.ACTIVE)
            if ticket == layout.FINISH_EPOCH:
                end_epochs(rows, rule, plan, schedule, vector, memory, private, me)
                n_blocks -= 1
                continue
            if lock_free and not slept:
                state[layout.T_VERSION] = load(control, layout.VERSION)
            if plan.sleeps != 0:
                state[layout.T_SLEEPS] = 0 if slept else 1
                if not slept:
                    return layout.TURN_SLEEP
            return begin_step(schedule, private, me)
        return layout.TURN_OVER

    take_turn.__name__ = take_turn.__qualname__ = name
    return kernel(take_turn)


def master_block_turn_of(name, ordered):
    """Make the kernel of a turn on the master's plane; see `turns.master_turn_of`.

    The step is the worker's next message, which who takes it writes into the slot.
    """

    def take_turn(rows, rule, plan, schedule, vector, memory, mail, private, me, n_blocks):
        """Post the block in hand, and begin another if `n_blocks` is not 0."""
        control = schedule.control
        state = schedule.table[me]
        if state[layout.T_STEP] != 0:
            state[layout.T_STEP] = 0
            ticket = state[layout.T_BLOCK]
            state[layout.T_ROWS] += rows_in_hand(schedule, plan, me)
            address(schedule, mail, me, ticket)
            if ordered:
                wait_for_section(schedule, me)
            else:
                # first counted, then posted: if it dies in between, the block is not done again
                last, completed = complete(schedule, plan, ticket, private.local)
                post(mail.box, me)
                if plan.inline != 0:
                    take_round(plan, schedule, vector, mail)
                if plan.barrier == FREE:
                    tick(plan, state, me)
                else:
                    state[layout.T_COMPUTED] = POSTED
                if last:
                    end_epochs(rows, rule, plan, schedule, vector, memory, private, me)
                news = news_of(plan, last, completed)
                if news != layout.TURN_OVER:
                    return news
        while n_blocks > 0:
            if must_leave(control, ordered):
                count_posted(plan, state, me)
                return layout.TURN_DONE
            if plan.inline != 0:
                take_round(plan, schedule, vector, mail)
            if ordered:
                answer = step_or_wait(rows, rule, plan, schedule, vector, memory, mail, private, me)
                if answer == AGAIN:
                    continue
                if answer != COMPUTE:
                    return answer
            else:
                if state[layout.T_COMPUTED] == POSTED:
                    if not is_answered(plan, schedule, mail, me):
                        return layout.TURN_WAIT
                    count_posted(plan, state, me)
                    if plan.sleeps != 0:
                        return layout.TURN_OVER  # with its block
                ticket = state[layout.T_BLOCK]  # which may have waited for a snapshot
                if ticket == layout.NO_BLOCK:
                    if plan.barrier == FREE:
                        if not is_answered(plan, schedule, mail, me):
                            return layout.TURN_WAIT
                    elif not pass_barrier(plan, schedule, vector, memory, private, me):
                        return layout.TURN_WAIT
                    ticket = claim(schedule, plan, me)
                    if ticket == layout.NO_BLOCK:
                        return nothing_to_claim(schedule, plan, me)
                if state[layout.T_STATE] != layout.ACTIVE:
                    store(state, layout.T_STATE, layout.ACTIVE)
                if ticket == layout.FINISH_EPOCH:
                    end_epochs(rows, rule, plan, schedule, vector, memory, private, me)
                    n_blocks -= 1
                    continue
            ticket = state[layout.T_BLOCK]
            answer = ready_to_compute(rows, rule, plan, schedule, vector, private, me, ticket)
            if answer != COMPUTE:
                return answer
            return begin_step(schedule, private, me)
        return layout.TURN_OVER

    take_turn.__name__ = take_turn.__qualname__ = name
    return kernel(take_turn)


@kernel
def apart_block_turn(rows, rule, plan, schedule, vector, memory, mail, private, me, n_blocks):
    """Take the block in hand a moment further, or begin one; see `hogshare.kernels.apart`.

    The step is taken on the copy, when its last part has been read.
    """
    control = schedule.control
    state = schedule.table[me]
    if must_leave(control, False):
        return layout.TURN_DONE
    sleeps = state[layout.T_SLEEPS]
    if sleeps == 0:
        if plan.barrier != FREE and not may_pass(plan, schedule.table, control, me):
            return layout.TURN_WAIT
        ticket = claim(schedule, plan, me)
        if ticket == layout.NO_BLOCK:
            return nothing_to_claim(schedule, plan, me)
        if state[layout.T_STATE] != layout.ACTIVE:
            store(state, layout.T_STATE, layout.ACTIVE)
        if ticket == layout.FINISH_EPOCH:
            end_epochs(rows, rule, plan, schedule, vector, memory, private, me)
            return layout.TURN_OVER
        state[layout.T_VERSION] = load(control, layout.VERSION)
    if sleeps < plan.parts:
        read_part(vector, private, sleeps, plan.parts)
        state[layout.T_SLEEPS] = sleeps + 1
        return layout.TURN_SLEEP
    if sleeps == plan.parts and state[layout.T_STEP] == 0:
        return begin_step(schedule, private, me)
    state[layout.T_STEP] = 0
    write_part(vector, private, sleeps - plan.parts, plan.parts)
    if sleeps + 1 < 2 * plan.parts:
        state[layout.T_SLEEPS] = sleeps + 1
        return layout.TURN_SLEEP
    state[layout.T_SLEEPS] = 0
    ticket = state[layout.T_BLOCK]
    record_push(schedule, me)
    note_event(schedule, me, ticket, 0)
    state[layout.T_ROWS] += rows_in_hand(schedule, plan, me)
    last, completed = complete(schedule, plan, ticket, private.local)
    tick(plan, state, me)
    if last:
        end_epochs(rows, rule, plan, schedule, vector, memory, private, me)
    return news_of(plan, last, completed)


# By Plan.private and Plan.ordered.
_private = block_turn_of("block_turn", False)
_round = block_turn_of("block_round", False, ordered=True)
BLOCK_TURNS = {
    (EXCHANGE, 0): _private,
    (ALONE, 0): _private,
    (EXCHANGE, 1): _round,
    (ALONE, 1): _round,
    (LOCK_FREE, 0): block_turn_of("block_lock_free_turn", True),
    (LOCK_FREE, 1): block_turn_of("block_lock_free_round", True, ordered=True),
    (MASTER, 0): master_block_turn_of("block_master_turn", False),
    (MASTER, 1): master_block_turn_of("block_master_round", True),
}
