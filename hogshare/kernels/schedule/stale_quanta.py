"""Quanta on a virtual clock: blocks read the one vector in parts, compute, and write it in parts.

On the lock-free vector a worker reads and writes row by row while it computes, and other workers
write between its rows. On a virtual clock a quantum takes no time, so no worker could write between
another worker's rows. So a block is divided. The worker reads the vector in `plan.parts` parts,
with a sleep after each part. It computes the block on that copy. Then it adds the block's change
to the vector in the same number of parts, again with a sleep between two parts. Other workers write
between its reads, so its copy may be a vector that has never existed: the inconsistent read of
AsySG-incon (Lian et al. 2015, equation 12).

Writers: every worker writes the vector, one part per quantum; quanta of the same simulation do not
overlap. T_SLEEPS counts a block's sleeps so far. It is ``parts`` when the worker computes the
block, and ``2 parts - 1`` when the worker writes the last part.
"""

from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import record_push
from hogshare.kernels.jit.atomics import load
from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.rules.block_sums import start_block
from hogshare.kernels.rules.coordinate_steps import ALL, begin_draws, coordinate_rows
from hogshare.kernels.rules.hogwild_steps import hogwild_rows
from hogshare.kernels.schedule.barrier_codes import FREE, may_pass
from hogshare.kernels.schedule.block_claims import (
    begin_step,
    nothing_to_claim,
    rows_in_hand,
    rows_of,
)
from hogshare.kernels.schedule.epoch_criteria import end_epochs
from hogshare.kernels.schedule.epoch_schedule import (
    claim,
    complete,
    must_leave,
    news_of,
    note_event,
    tick,
)
from hogshare.kernels.schedule.worker_life import WORK, move


@helper
def read_part(vector, private, part, parts):
    """Copy one part of the vector into the private copy; the first part includes the intercepts."""
    size = vector.w.shape[0]
    for j in range(size * part // parts, size * (part + 1) // parts):
        private.w[j] = vector.w[j]
        private.base[j] = vector.w[j]
    if part == 0:
        for c in range(vector.intercept.shape[0]):
            private.local[layout.L_INTERCEPT, c] = vector.intercept[c]
            private.local[layout.L_INTERCEPT_BASE, c] = vector.intercept[c]


@helper
def moved(now, base, mine):
    """Return `now` plus the change from `base` to `mine`."""
    # exactly `mine` if no other worker has written, so a run of one worker is sequential
    return mine if now == base else now + (mine - base)


@helper
def write_part(vector, private, part, parts):
    """Add the changes of one part of the private copy to the vector."""
    size = vector.w.shape[0]
    kind = vector.w.dtype.type
    for j in range(size * part // parts, size * (part + 1) // parts):
        if private.w[j] != private.base[j]:
            vector.w[j] = kind(moved(vector.w[j], private.base[j], private.w[j]))
    if part == 0:
        local = private.local
        for c in range(vector.intercept.shape[0]):
            base, mine = local[layout.L_INTERCEPT_BASE, c], local[layout.L_INTERCEPT, c]
            vector.intercept[c] = moved(vector.intercept[c], base, mine)


@helper
def compute_on_copy(rows, rule, plan, schedule, vector, private, ticket):
    """Take a block's steps on the private copy."""
    order, first, end, t = rows_of(ticket, plan, schedule.order, rule.first_t)
    start_block(private.local)
    model = private.w, private.local[layout.L_INTERCEPT], vector.rarity
    args = private, schedule.columns, False
    if rule.coordinate == ALL:
        hogwild_rows(rows, rule, order, first, end, t, *model, *args)
    else:
        epoch, block = ticket // plan.n_blocks, ticket % plan.n_blocks
        begin_draws(rule, plan.seed, epoch, block, private.local.shape[1], private.scratch)
        coordinate_rows(rows, rule, order, first, end, t, *model, *args)


def stale_quantum(outside):
    """Make the body of a quantum that advances blocks by one part.

    outside : whether steps are taken between two calls, see `quanta`. If so, a step is taken on the
        private copy after its last part has been read, and a quantum handles one block: the block
        that the worker has begun, or a new block.
    """

    def take_quantum(rows, rule, plan, schedule, vector, memory, mail, private, me, n_blocks):
        """Advance up to `n_blocks` blocks by one part; return a ``QUANTUM_`` answer."""
        control = schedule.control
        state = schedule.table[me]
        for _ in range(1 if outside else n_blocks):
            if must_leave(control, False):
                return layout.QUANTUM_DONE
            sleeps = state[layout.T_SLEEPS]
            ticket = state[layout.T_BLOCK]
            if sleeps == 0:
                if plan.barrier != FREE and not may_pass(plan, schedule.table, control, me):
                    return layout.QUANTUM_WAIT
                ticket = claim(schedule, plan, me)
                if ticket == layout.NO_BLOCK:
                    return nothing_to_claim(schedule, plan, me)
                if state[layout.T_STATE] != layout.ACTIVE:
                    move(state, WORK)
                state[layout.T_VERSION] = load(control, layout.VERSION)
            last, completed = True, 0
            if ticket != layout.FINISH_EPOCH:
                if sleeps < plan.parts:
                    read_part(vector, private, sleeps, plan.parts)
                    state[layout.T_SLEEPS] = sleeps + 1
                    return layout.QUANTUM_SLEEP
                if outside:
                    if sleeps == plan.parts and state[layout.T_STEP] == 0:
                        return begin_step(schedule, private, me)
                    state[layout.T_STEP] = 0
                elif sleeps == plan.parts:
                    compute_on_copy(rows, rule, plan, schedule, vector, private, ticket)
                write_part(vector, private, sleeps - plan.parts, plan.parts)
                if sleeps + 1 < 2 * plan.parts:
                    state[layout.T_SLEEPS] = sleeps + 1
                    return layout.QUANTUM_SLEEP
                state[layout.T_SLEEPS] = 0
                record_push(schedule, me)
                note_event(schedule, me, ticket, 0, 0)
                state[layout.T_ROWS] += rows_in_hand(schedule, plan, me)
                last, completed = complete(schedule, plan, ticket, private.local)
                tick(plan, state, me)
            if last:
                end_epochs(rows, rule, plan, schedule, vector, memory, private, me)
            news = news_of(plan, last, completed)
            if news != layout.QUANTUM_OVER:
                return news
        return layout.QUANTUM_OVER

    return take_quantum
