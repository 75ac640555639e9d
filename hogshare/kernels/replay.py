"""Doing again what a recorded run has done, event by event, in one thread.

Who writes and who reads: the one thread that replays, in the places of all the workers of the run.
"""

from hogshare.kernels import layout
from hogshare.kernels.asaga import asaga_rows
from hogshare.kernels.epochs import prepare_order
from hogshare.kernels.hogwild import hogwild_rows
from hogshare.kernels.jit import kernel
from hogshare.kernels.master import apply_rest, post, take_message
from hogshare.kernels.saga import fade, level_of
from hogshare.kernels.sgd import SAGA
from hogshare.kernels.tracking import start_block
from hogshare.kernels.turns import compute_message, read_for_block, rows_of


@kernel
def prepare_epoch(rule, shared, plan, epoch):
    """Shuffle the rows for an epoch; the one before the last is over.

    And the last one too, as far as the steps go.
    """
    if epoch > 0:
        fade(rule, shared.columns, epoch - 1)
    shared.control[layout.EPOCHS] = max(shared.control[layout.EPOCHS], epoch - 1)
    prepare_order(shared, plan, epoch, 0)


@kernel
def compute_again(rows, rule, plan, shared, private, scratch, me, ticket):
    """Compute a block as worker `me` at the present version, and post the message."""
    read_for_block(rows, rule, plan, shared, private, me, ticket)
    compute_message(rows, rule, plan, shared, private, scratch, me, ticket)
    post(shared, me)


@kernel
def take_again(plan, shared, worker):
    """Take the worker's oldest message, or without a worker apply the rest of a sum."""
    if worker == layout.NO_WORKER:
        apply_rest(shared)
    else:
        take_message(plan, shared, worker)


@kernel
def write_again(rows, rule, plan, shared, private, scratch, ticket):
    """Do a block on the one vector, alone."""
    order, first, end, t = rows_of(ticket, plan, shared.order, rule.first_t)
    start_block(private.local)
    if rule.method == SAGA:
        level = level_of(rule, plan, shared.columns, ticket)
        asaga_rows(rows, rule, order, first, end, shared, private.local, False, level)
    else:
        vector = shared.w, shared.intercept, shared.rarity
        args = private, shared.columns, scratch, False
        hogwild_rows(rows, rule, order, first, end, t, *vector, *args)
