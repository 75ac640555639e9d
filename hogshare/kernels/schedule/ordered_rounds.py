"""Rounds in which workers fold and claim in order: BSP that repeats bit for bit.

A floating-point sum depends on the order of its terms, and the assignment of blocks depends on the
order of claims. In an ordered run a worker folds and claims in its *section*. Sections follow each
other: round 0 of worker 0, of worker 1, ..., round 1 of worker 0, and so on. In a section a worker
(1) folds the block that it has computed, (2) counts the block, (3) ends the epoch if the block was
the epoch's last block, and (4) claims the next block.

When all sections of the round are over, every worker pulls the shared vector and computes its
block. The next round's sections begin when all workers have computed. So in round k worker j of P
workers gets the block k P + j. Every decision (an epoch's end, a step size, a stop) is taken in a
section, while no worker computes. The model depends only on the seed and the number of workers.

With a user's plane there is nothing to fold. Instead the section calls the plane, and goes on when
the plane yields its first `Until` (`hogshare.engine.loop`). The plane's code after that yield runs
when all sections of the round are over, for all workers at the same time, before the next block. So
the plane may wait for data that other workers have written in their sections, or may write after
the sections. If the plane depends only on the seed and the number of workers, the run depends only
on them.

If mini-batches are split (`EpochPlan.split`), the blocks of a round are the parts of one
mini-batch. All workers compute the gradients of their parts at the same vector. The first section
of the round takes one step by the sum of these gradients, outside of kernels. So a run takes the
same steps for any number of workers. Each worker writes its own T_PART until the round's sections
begin. In the first section no worker computes, and the section's worker clears T_PART of all
workers; it sets its own T_PART to STEPPED until its block is folded.

A run in step over sites repeats these rounds, with all of its workers, in the memory of each site.
Each worker computes at one site (T_SITE). Its block's result is sent to the other sites, and the
worker counts as ready at a site once the result has come. Folds, claims, ends of epochs and the
plane's calls are repeated at all sites with the same values. So nothing else is ever sent, and all
sites have the same bits. If a block asks for a stop (T_STOPS), the stop takes effect in the
worker's section, where all sites are at the same point.

Writers: SECTION is the number of the next section. The section's worker writes SECTION at the
section's end (releasing); any worker moves SECTION past a worker that is gone, by a
compare-exchange. Readers: all workers, acquiring, so a section sees all sections before it. The
sections wait for a worker that is starting. They skip a worker that is done or dead, and they skip
a paused worker until the caller raises the limit. The caller raises the limit when all workers
pause, so no worker is skipped by chance. After a death the run goes on, with other bits. If workers
have rows of their own, all workers of a round then claim blocks of their own, or none of them does
(`epoch_schedule.choice_of_round`).
"""

from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import ALL, WAIT, pull, push_in_order, record_push
from hogshare.kernels.jit.atomics import compare_exchange, load, store
from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.mail.edge_slots import all_taken, post
from hogshare.kernels.rules.sgd_steps import GRADIENT
from hogshare.kernels.schedule.epoch_criteria import end_epochs, epoch_is_over
from hogshare.kernels.schedule.epoch_schedule import (
    ALONE,
    EXCHANGE,
    LOCK_FREE,
    MASTER,
    claim,
    complete,
    has_gone,
    news_of,
    stop_now,
    tick,
    workers_left,
)

COMPUTE = -1  # answers of `next_step`, besides those of a quantum
AGAIN = -2
COMPUTED = 1  # T_COMPUTED
POSTED = 2
UNSENT = 3  # over sites: computed, but not yet sent to the other sites
BROUGHT = 4  # over sites: the block's result has been sent, or has come from its site
STEPPED = -1  # T_PART: this worker has taken the mini-batch's step and has yet to fold its block
GO_ON = 0  # T_WISH
PAUSE = 1
LEAVE = 2


@helper
def take_place(schedule, me):
    """Write into its row the first round of a worker that joins, or returns from a pause."""
    state = schedule.table[me]
    n = schedule.table.shape[0]
    section = load(schedule.control, layout.SECTION)
    state[layout.T_ROUND] = (section - me + n - 1) // n
    state[layout.T_COMPUTED] = 0
    state[layout.T_PART] = 0
    state[layout.T_WISH] = GO_ON
    state[layout.T_BLOCK] = layout.NO_BLOCK
    store(state, layout.T_READY, state[layout.T_ROUND])


@helper
def is_gone(schedule, worker):
    """Return whether a worker's section may be skipped."""
    control, row = schedule.control, schedule.table[worker]
    if load(row, layout.T_STATE) == layout.RESTING:
        return load(control, layout.EPOCHS) >= load(control, layout.LIMIT)
    return has_gone(row)


@helper
def has_come(schedule, section):
    """Return whether all sections before `section` are over; skip sections of gone workers."""
    control = schedule.control
    n = schedule.table.shape[0]
    while True:
        now = load(control, layout.SECTION)
        if now >= section:
            return True
        if not is_gone(schedule, now % n):
            return False
        # fails if another worker has skipped the section, or its own worker has ended it after all
        compare_exchange(control, layout.SECTION, now, now + 1)


@helper
def all_are_ready(schedule, round_):
    """Return whether all blocks that are folded in this round have been computed."""
    for k in range(schedule.table.shape[0]):
        if load(schedule.table[k], layout.T_READY) < round_ and not is_gone(schedule, k):
            return False
    return True


@helper
def end_section(schedule, me):
    """End the worker's section, so the section of the next worker begins."""
    state = schedule.table[me]
    section = state[layout.T_ROUND] * schedule.table.shape[0] + me
    state[layout.T_ROUND] += 1
    if state[layout.T_BLOCK] < 0:
        store(state, layout.T_READY, state[layout.T_ROUND])
    # last, releasing: the next section sees all stores of this section
    store(schedule.control, layout.SECTION, section + 1)


@helper
def fold_block(rows, rule, plan, schedule, vector, memory, mail, private, me):
    """Fold the worker's block into the shared vector, or post it to the master, and count it.

    Return QUANTUM_OVER if the section goes on now. Otherwise return the reason to leave the quantum
    first; the section goes on at the next call. The reasons are QUANTUM_GATHER (the step of a split
    mini-batch), QUANTUM_WAIT (for the master), QUANTUM_RECORD and QUANTUM_EPOCH.
    """
    state = schedule.table[me]
    if state[layout.T_PART] > 0:
        return layout.QUANTUM_GATHER
    has_step = plan.split == 0 or state[layout.T_PART] == STEPPED
    if plan.private == MASTER:
        if state[layout.T_COMPUTED] == COMPUTED:
            # counted before the post, as in runs without rounds
            _, completed = complete(schedule, plan, state[layout.T_BLOCK], private.local)
            state[layout.T_COUNTED] = completed
            if has_step:
                post(mail.box, me)
            state[layout.T_COMPUTED] = POSTED
        if not all_taken(mail.box, me):
            return layout.QUANTUM_WAIT
        last, completed = epoch_is_over(schedule, plan), state[layout.T_COUNTED]
    else:
        if plan.private == EXCHANGE:
            push_in_order(rule, schedule, vector, memory, private, me, WAIT, workers_left(schedule))
        elif plan.private == LOCK_FREE and has_step:
            record_push(schedule, me)
        last, completed = complete(schedule, plan, state[layout.T_BLOCK], private.local)
    state[layout.T_COMPUTED] = 0
    state[layout.T_PART] = 0
    tick(plan, state, me)
    if last:
        end_epochs(rows, rule, plan, schedule, vector, memory, private, me)
    return news_of(plan, last, completed)


@helper
def is_safe(schedule, plan):
    """Return whether no other worker's block of this round can share a row with the next block.

    A row's entry in the memory of rows is written during the computation. Blocks of the same epoch
    have no row in common. Blocks of two epochs may have rows in common, so an epoch begins in a new
    round.
    """
    control = schedule.control
    if plan.shares > 0:
        return True  # each worker has rows of its own
    epoch = load(control, layout.TICKET) // plan.n_blocks
    return epoch <= load(control, layout.EPOCHS) or load(control, layout.RETURNED) > 0


@helper
def claim_block(rows, rule, plan, schedule, vector, memory, private, me):
    """Claim the next block; if there is none, decide whether the worker leaves or pauses.

    The decision is written into T_WISH of `me`.
    """
    control = schedule.control
    state = schedule.table[me]
    if load(control, layout.STOP) != layout.RUNNING:
        state[layout.T_WISH] = LEAVE
        return
    ticket = layout.FINISH_EPOCH
    while ticket == layout.FINISH_EPOCH:
        ticket = layout.NO_BLOCK
        if rule.method == GRADIENT or is_safe(schedule, plan):
            ticket = claim(schedule, plan, me)
        if ticket == layout.FINISH_EPOCH:
            # and claim again: in a round without a block, the others' planes would wait for mail
            end_epochs(rows, rule, plan, schedule, vector, memory, private, me)
    if ticket < 0:
        state[layout.T_BLOCK] = layout.NO_BLOCK
        epochs = load(control, layout.EPOCHS)
        if epochs >= plan.max_epochs:
            stop_now(control, layout.STOPPED_BY_LIMIT)
            state[layout.T_WISH] = LEAVE
        elif epochs >= load(control, layout.LIMIT):
            state[layout.T_WISH] = PAUSE


@helper
def count_brought(plan, schedule, me):
    """Mark the worker as ready for its section: every site has its block's result now."""
    state = schedule.table[me]
    if plan.private == ALONE and state[layout.T_SITE] == layout.REMOTE:
        record_push(schedule, me)  # the site that computed it has counted the push already
    state[layout.T_COMPUTED] = COMPUTED
    store(state, layout.T_READY, state[layout.T_ROUND])


@helper
def next_step(rows, rule, plan, schedule, vector, memory, mail, private, me):
    """Return a worker's next action: COMPUTE the block in hand, AGAIN, or a ``QUANTUM_`` answer.

    With a user's plane the quantum ends after every block (QUANTUM_OVER or another answer), so the
    loop can call the plane.

    The stop word is read only at points where all workers of a round see the same value: in a
    section, and after all sections of a round. A worker that leaves or pauses has one more section,
    in which it folds the remaining changes of its copy.
    """
    control = schedule.control
    state = schedule.table[me]
    n = schedule.table.shape[0]
    if state[layout.T_COMPUTED] == UNSENT:
        return layout.QUANTUM_BRING
    if state[layout.T_COMPUTED] == BROUGHT:
        count_brought(plan, schedule, me)
    pending = state[layout.T_PENDING]
    if pending != 0 and pending <= state[layout.T_ROUND]:
        all_over = has_come(schedule, state[layout.T_ROUND] * n)
        return layout.QUANTUM_HOME if all_over else layout.QUANTUM_WAIT
    if state[layout.T_BLOCK] >= 0 and state[layout.T_COMPUTED] == 0:
        if not has_come(schedule, state[layout.T_ROUND] * n):
            return layout.QUANTUM_WAIT
        stopped = load(control, layout.STOP)
        # A caller's stop over sites may come after some workers have pulled. The others pull too,
        # or the sites' bits would differ.
        is_pulled = stopped == layout.RUNNING or stopped == layout.STOPPED_IN_STEP
        if plan.private == EXCHANGE and is_pulled:
            # not with a master: its snapshot is read when the rows are known
            pull(schedule, vector, memory, private, me)
        if stopped == layout.RUNNING:
            site = state[layout.T_SITE]
            return (
                COMPUTE
                if site == layout.ONE_SITE or site == layout.BEGINS
                else layout.QUANTUM_BRING
            )
        state[layout.T_BLOCK] = layout.NO_BLOCK
        state[layout.T_WISH] = LEAVE
        store(state, layout.T_READY, state[layout.T_ROUND])
    wish = state[layout.T_WISH]
    if wish != GO_ON and plan.private == ALONE:  # no copy to fold, and others may wait for its end
        state[layout.T_WISH] = GO_ON
        return layout.QUANTUM_DONE if wish == LEAVE else layout.QUANTUM_PAUSE
    mine = has_come(schedule, state[layout.T_ROUND] * n + me)
    if not mine or not all_are_ready(schedule, state[layout.T_ROUND]):
        return layout.QUANTUM_WAIT
    if state[layout.T_STOPS] != 0:
        stop_now(control, state[layout.T_STOPS])
        state[layout.T_STOPS] = 0
    if state[layout.T_COMPUTED] != 0:
        answer = fold_block(rows, rule, plan, schedule, vector, memory, mail, private, me)
        if answer != layout.QUANTUM_OVER or plan.private == ALONE:
            return answer
    if wish == GO_ON:
        claim_block(rows, rule, plan, schedule, vector, memory, private, me)
        end_section(schedule, me)
        return AGAIN
    if plan.private == EXCHANGE and state[layout.T_ROWS] > state[layout.T_ROWS_AT_JOIN]:
        push_in_order(rule, schedule, vector, memory, private, me, ALL, workers_left(schedule))
    state[layout.T_WISH] = GO_ON
    end_section(schedule, me)
    return layout.QUANTUM_DONE if wish == LEAVE else layout.QUANTUM_PAUSE
