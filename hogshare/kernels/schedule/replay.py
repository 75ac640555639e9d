"""Replaying a recorded run, event by event, in one thread.

Writer and reader: the one thread that replays, in place of all workers of the run.
"""

from hogshare.kernels import layout
from hogshare.kernels.exchange.master_updates import address, apply_partial_sum, take_message
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.mail.edge_slots import post
from hogshare.kernels.rules.asaga_steps import asaga_rows
from hogshare.kernels.rules.block_sums import start_block
from hogshare.kernels.rules.hogwild_steps import hogwild_rows
from hogshare.kernels.rules.saga_steps import fade, level_of
from hogshare.kernels.rules.sgd_steps import SAGA
from hogshare.kernels.schedule.block_claims import rows_of
from hogshare.kernels.schedule.epoch_schedule import prepare_order
from hogshare.kernels.schedule.master_quanta import (
    message_of_column,
    message_of_columns,
    message_on_support,
    read_for_block,
)


@kernel
def prepare_epoch(rule, schedule, plan, epoch):
    """Shuffle the rows for an epoch, and set the step sizes that the previous epoch leaves.

    The steps of the previous epoch must be over. The function advances EPOCHS to `epoch` - 1.
    """
    if epoch > 0:
        fade(rule, schedule.columns, epoch - 1)
    schedule.control[layout.EPOCHS] = max(schedule.control[layout.EPOCHS], epoch - 1)
    prepare_order(schedule, plan, epoch, 0)


def compute_again_of(name, copied, single=False):
    """Make the kernel that repeats a block of worker `me` on a master's plane.

    The kernel computes the block at the present version of the model and posts its message.
    """

    def compute_again(rows, rule, plan, schedule, vector, mail, private, me, ticket):
        read_for_block(rows, rule, plan, schedule, vector, mail, private, me, ticket)
        of_block = mail, private, me, ticket
        if not copied:
            message_on_support(rows, rule, plan, schedule, vector, *of_block)
        elif single:
            message_of_column(rows, rule, plan, schedule, vector, *of_block)
        else:
            message_of_columns(rows, rule, plan, schedule, vector, *of_block)
        post(mail.box, me)

    compute_again.__name__ = compute_again.__qualname__ = name
    return kernel(compute_again)


# keyed by Plan.copied, and by whether there is one column
COMPUTE_AGAIN = {
    (1, True): compute_again_of("compute_column_again", True, True),
    (1, False): compute_again_of("compute_columns_again", True),
}
for one in (True, False):
    COMPUTE_AGAIN[0, one] = compute_again_of("compute_again", False)


@kernel
def read_again(rows, rule, plan, schedule, vector, mail, private, me, ticket):
    """Assign worker `me` a block whose step is taken outside of kernels, and read its snapshot."""
    schedule.table[me, layout.T_BLOCK] = ticket
    read_for_block(rows, rule, plan, schedule, vector, mail, private, me, ticket)
    start_block(private.local)


@kernel
def post_again(schedule, mail, me, ticket):
    """Post the message that has been written outside of kernels."""
    address(schedule, mail, me, ticket)
    post(mail.box, me)


@kernel
def take_again(plan, schedule, vector, mail, worker):
    """Take the oldest message of `worker`; with NO_WORKER apply an unfinished sum."""
    if worker == layout.NO_WORKER:
        apply_partial_sum(schedule, vector, mail)
    else:
        take_message(plan, schedule, vector, mail, worker)


@kernel
def write_again(rows, rule, plan, schedule, vector, memory, private, ticket):
    """Take the steps of a block on the one vector; no other worker may run."""
    order, first, end, t = rows_of(ticket, plan, schedule.order, rule.first_t)
    start_block(private.local)
    if rule.method == SAGA:
        level = level_of(rule, plan, schedule.columns, ticket)
        args = schedule, vector, memory, private.local, False, level
        asaga_rows(rows, rule, order, first, end, *args)
    else:
        model = vector.w, vector.intercept, vector.rarity
        args = private, schedule.columns, False
        hogwild_rows(rows, rule, order, first, end, t, *model, *args)
