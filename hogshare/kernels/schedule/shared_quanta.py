"""Quanta on the shared vector, or on a private copy that is exchanged with it.

The table in `hogshare.kernels.schedule.quanta` contains the kernels that `shared_quantum` makes.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import TRY, WAIT, push_private, record_push
from hogshare.kernels.jit.atomics import load
from hogshare.kernels.jit.decorators import inlined
from hogshare.kernels.rules.asaga_steps import asaga_rows
from hogshare.kernels.rules.block_sums import start_block
from hogshare.kernels.rules.coordinate_steps import ALL as ALL_COORDINATES
from hogshare.kernels.rules.coordinate_steps import begin_draws, coordinate_rows
from hogshare.kernels.rules.dual_ascent import dual_rows, fewest_of, mean_of_duals, sum_of_duals
from hogshare.kernels.rules.hogwild_steps import hogwild_rows
from hogshare.kernels.rules.saga_steps import average_table, level_of, saga_rows
from hogshare.kernels.rules.sgd_steps import DUAL, GRADIENT, SAGA, sgd_rows
from hogshare.kernels.schedule.barrier_codes import FREE
from hogshare.kernels.schedule.block_claims import (
    begin_step,
    claim_or_wait,
    nothing_to_claim,
    pass_barrier,
    rows_in_hand,
    rows_of,
    step_or_wait,
    wait_for_section,
)
from hogshare.kernels.schedule.epoch_criteria import end_epochs
from hogshare.kernels.schedule.epoch_schedule import (
    ALONE,
    EXCHANGE,
    SIMULATED,
    complete,
    must_leave,
    news_of,
    note_event,
    tick,
)
from hogshare.kernels.schedule.grid_quanta import cell_of_factors
from hogshare.kernels.schedule.ordered_rounds import AGAIN, COMPUTE
from hogshare.kernels.schedule.run_membership import end_pause, may_begin, parting, pause
from hogshare.kernels.schedule.worker_life import WORK, move

# Number of rows between a worker's first exchanges, and the growth of this number per row that the
# worker has done; the number grows up to `EpochPlan.interval`. In plain descent the step size falls
# with the number of rows that all workers have done, including earlier runs. The changes that a
# worker misses between two exchanges fall with the step size. So for plain descent the number of
# rows that the worker has done is its share of all these rows.
FIRST_INTERVAL, GROWTH = 128, 1.0
DESCENT_FIRST, DESCENT_GROWTH = 256, 1.0 / 16.0
UNEXCHANGED = layout.T_UNEXCHANGED


@inlined
def interval_now(plan, rows_done, first, growth):
    """Return the number of rows until the next exchange.

    It is small at first, while the model changes fast.
    """
    return min(plan.interval, max(first, np.int64(growth * rows_done)))


def shared_quantum(method, lock_free, ordered, single, outside, cells):
    """Make the body of a quantum of one rule, on the shared vector itself or on a private copy.

    All arguments are constants of the kernel. Numba removes a branch on a constant before it infers
    types, so a fit compiles only the row loops of its own rule.

    Parameters
    ----------
    method : int
        See `sgd_steps.RuleNumbers.method`.
    lock_free : bool
        Whether all workers write the one vector.
    ordered : bool
        Whether workers fold and claim in order, see `ordered_rounds`.
    single : bool
        Whether the model has one column; see `sgd_rows`.
    outside : bool
        Whether steps are taken between two calls, see `quanta`.
    cells : bool
        Whether a block is a cell of a factorisation, see `grid_quanta`. If so, the quantum's
        argument `rows` is of the class `Cells`.
    """

    def take_quantum(rows, rule, plan, schedule, vector, memory, mail, private, me, n_blocks):
        """Claim and compute up to `n_blocks` blocks; return a ``QUANTUM_`` answer."""
        control = schedule.control
        table = schedule.table
        # a block's push must come before its clock if any worker waits for a clock
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
                    groups = schedule, vector, memory, private, me
                    return parting(rule, plan, *groups, layout.QUANTUM_DONE)
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
                    groups = schedule, vector, memory, mail, private, me
                    answer = step_or_wait(rows, rule, plan, *groups)
                    if answer == AGAIN:
                        continue
                    if answer != COMPUTE:
                        return answer
                    ticket = table[me, layout.T_BLOCK]
                elif slept:
                    ticket = table[me, layout.T_BLOCK]
                else:
                    groups = schedule, vector, memory, private, me
                    if plan.barrier != FREE and not pass_barrier(plan, *groups):
                        return layout.QUANTUM_WAIT
                    ticket = claim_or_wait(schedule, plan, me)
                if ticket == layout.NO_BLOCK:
                    answer = nothing_to_claim(schedule, plan, me)
                    return parting(rule, plan, schedule, vector, memory, private, me, answer)
                if table[me, layout.T_STATE] != layout.ACTIVE:
                    move(table[me], WORK)
                if lock_free and not slept:
                    table[me, layout.T_VERSION] = load(control, layout.VERSION)
                if plan.sleeps != 0 and ticket != layout.FINISH_EPOCH:
                    table[me, layout.T_SLEEPS] = 0 if slept else 1
                    if not slept:
                        return layout.QUANTUM_SLEEP
                if outside and ticket != layout.FINISH_EPOCH:
                    return begin_step(schedule, private, me)
                n_rows = 0
            if cells:  # a constant: Numba compiles either this branch or the other branches
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
                    # before `tick`: a worker that passes by the clock must find the push
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
                # if the epoch's end reads the shared vector, the copy's changes are pushed first
                is_evaluated = plan.early_stopping or plan.report_epochs
                if not lock_free and plan.private == EXCHANGE and is_evaluated:
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

    return take_quantum
