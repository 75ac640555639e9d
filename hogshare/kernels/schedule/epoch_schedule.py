"""The schedule in shared words: claims of blocks, count-downs of epochs, orders of rows.

A *ticket* is the number of a block within the run: epoch * n_blocks + block. `control[TICKET]` is
the next ticket to be claimed.

Writers, and the order of their stores:

- A worker writes its intent ``table[me, T_BLOCK] = ticket`` and then claims the ticket with a
  compare-exchange, so a worker that dies at any instruction leaves its block's number behind.
- A worker that completes a block exchanges the block's entry in ``done``; only the first worker to
  do so counts the block down in ``remaining``. If a worker was taken for dead and its block runs
  twice, the block counts once.
- Once ``remaining`` is zero, the owner of the ENDER word ends the epoch. It reads the loss sums,
  which were all added before the count-down (the count-down acquires). It applies the stop
  criterion and then advances EPOCHS (release). Epochs end in order.
- There are two orders and two sets of sums; even epochs use one, odd epochs the other. Epoch e + 1
  is prepared once epoch e - 1 has ended, so at most two epochs are open at any time.
- If workers do not wait for each other's epochs (`EpochPlan.free`), there are sums for more epochs,
  indexed by the epoch's number. The sums of an ended epoch are cleared for the next epoch that has
  none. Two orders are enough: a worker is in one epoch at a time. The owner of PREPARER deals the
  worker's share, and writes T_DEALT last. If a worker does a block of a worker that has been gone
  for two epochs, the block may contain other rows.
- After LIMIT epochs no worker claims: workers leave, and the caller checks convergence and raises
  LIMIT. With `free`, a worker leaves when all workers have completed LIMIT epochs, even if it is in
  a later epoch itself. The owner of the ENDER word may lower LIMIT to an epoch from which no worker
  has claimed yet (`epoch_criteria.call`).
- Only the monitor puts a dead worker's block into ``returned``.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import (
    add_float,
    compare_exchange,
    exchange,
    fetch_add,
    load,
    store,
)
from hogshare.kernels.jit.decorators import helper, inlined
from hogshare.kernels.rules.block_sums import settle
from hogshare.kernels.schedule.shares import deal, deal_one
from hogshare.kernels.schedule.streams import (
    copy_training_rows,
    draw_rows,
    shuffle,
    shuffle_windows,
)

LOCK_FREE = 0  # values of Plan.private: all workers write the one vector
EXCHANGE = 1  # each worker writes a private copy
ALONE = 2  # a single worker on the vector itself
MASTER = 3  # workers read snapshots and mail changes to a master

ANY, OWN, LEFT = range(3)  # which blocks a worker with a share may claim, see `choice_of_round`

SUM = 0  # values of Plan.fold: messages to a master are changes as they are
WEIGHTED = 1  # each coordinate is weighted by how far the block has moved it
MEAN = 2  # all are divided by the number of messages that start from about the same point

# value of Plan.sleeps on a virtual clock: a block is computed in an instant, without an exchange
# inside it
SIMULATED = 2


class EpochPlan(NamedTuple):
    """Integers of the schedule, constant during a run."""

    block_rows: int
    n_blocks: int
    max_epochs: int
    interval: int  # number of rows between exchanges; 0: the one vector is written directly
    private: int
    atomic: int
    shuffle: int
    replace: int  # with chances: draw each visit independently
    window: int  # number of adjacent rows that are read together; 0: the order is wholly random
    abreast: int  # number of windows read together, one row of each in turn, see `streams`
    interleaved: int  # 1: each of these windows begins a row later than the window before it
    seed: int
    record_every: int  # blocks between snapshots; 0: never
    report_epochs: int  # 1: leave the kernel at the end of an epoch
    early_stopping: int
    regression: int
    patience: int
    tol: float
    ordered: int  # 1: rounds in which workers fold and claim in the order of their numbers
    barrier: int  # its code, see `barrier_codes`; the next five fields belong to it
    sample: int
    staleness: int
    share: float
    reuses: int  # 1: a worker that may not pass draws the same sample again
    available: int
    gradients: int  # number of messages in a master's update; the next three also concern masters
    cutoff: int  # largest age of a message that is not dropped, see `master_updates`; -1: no limit
    damped: int  # 1: a message has the weight 1 / (1 + its age)
    inline: int  # 1: the only worker is its own master
    sleeps: int  # 1: workers sleep in every block, see `hogshare.stragglers`; 2: see `SIMULATED`
    parts: int  # number of parts of the one vector, read and written separately; 0: row by row
    shares: int  # number of workers with own rows, see `shares`; 0: any worker takes any block
    stride: float = 1.0  # rows visited at all sites for each row of this site
    first: int = 0  # number of this site's first worker
    everywhere: int = 0  # number of workers with shares at all sites
    split: int = (
        0  # number of workers that each compute a part of a mini-batch, see `ordered_rounds`; or 0
    )
    step_rows: int = (
        0  # rows of a mini-batch if one call takes a block's steps, see `network_training`
    )
    free: int = 0  # 1: workers with shares go on into the next epoch without the others
    fold: int = SUM  # how messages to a master are weighted
    copied: int = 0  # with a master, 1: rows are stepped on a copy of the model with a scale
    grid: int = (
        0  # number of groups of each kind; a block is a pair of groups, see `grid_quanta`; or 0
    )


@inlined
def slot_of(schedule, epoch):
    """Return the index of an epoch's marks, count and sums."""
    return epoch % schedule.sums.shape[0]


@helper
def clear_slot(schedule, plan, slot):
    """Reset the count of remaining blocks and the sums for an epoch."""
    schedule.remaining[slot * layout.WORD] = plan.n_blocks
    for c in range(schedule.sums.shape[1]):
        schedule.sums[slot, c] = 0.0


@helper
def open_epoch(schedule, plan, epoch):
    """Open an epoch for claims, with `EpochPlan.free`; its slot must be free."""
    clear_slot(schedule, plan, slot_of(schedule, epoch))  # before READY, which publishes it
    store(schedule.control, layout.READY, epoch + 1)


@helper
def prepare_share(schedule, plan, owner, epoch, me):
    """Deal the rows of `owner` for `epoch` if PREPARER is free; return whether they are dealt."""
    control, of_owner = schedule.control, schedule.table[owner]
    if load(of_owner, layout.T_DEALT) <= epoch:
        if compare_exchange(control, layout.PREPARER, 0, me + 1) != 0:
            return False
        if load(of_owner, layout.T_DEALT) <= epoch:
            scratch, held_out = schedule.permutation, schedule.held_out
            which = plan.shares, owner - plan.first, plan.first, plan.shuffle, plan.window
            deal_one(scratch, held_out, schedule.order[epoch % 2], *which, plan.seed, epoch)
            # last, releasing: a worker that sees T_DEALT sees the rows
            store(of_owner, layout.T_DEALT, epoch + 1)
        store(control, layout.PREPARER, 0)
    return True


@helper
def prepare_order(schedule, plan, epoch, me):
    """Write the row order of `epoch` if PREPARER is free and epoch - 2 has ended."""
    control = schedule.control
    if compare_exchange(control, layout.PREPARER, 0, me + 1) != 0:
        return
    # again, under the word: another worker may have prepared it in between
    if load(control, layout.READY) == epoch and load(control, layout.EPOCHS) >= epoch - 1:
        order = schedule.order[epoch % 2]
        if plan.grid > 0:
            pass  # a cell's rows are stored together: no order is read
        elif plan.shares > 0:
            scratch, held_out = schedule.permutation, schedule.held_out
            of_shares = plan.shares, plan.first, plan.shuffle, plan.window
            deal(scratch, held_out, order, *of_shares, plan.seed, epoch)
        elif schedule.chances.shape[0] > 0:
            draw_rows(schedule.chances, order, plan.replace != 0, plan.seed, epoch)
        elif plan.shuffle and plan.window > 0:
            scratch, held_out, seed = schedule.permutation, schedule.held_out, plan.seed
            shape = plan.window, plan.abreast, plan.interleaved
            shuffle_windows(scratch, held_out, order, *shape, seed, epoch)
        else:
            if plan.shuffle:
                shuffle(schedule.permutation, plan.seed)
            copy_training_rows(schedule.permutation, schedule.held_out, order)
        clear_slot(schedule, plan, epoch % 2)
        store(control, layout.READY, epoch + 1)
    store(control, layout.PREPARER, 0)


@helper
def take_returned(schedule, me):
    """Claim a block that the monitor has put back; return NO_BLOCK if there is none."""
    returned = schedule.returned
    for k in range(returned.shape[0] // layout.WORD):
        block = load(returned, k * layout.WORD)
        if block != layout.NO_BLOCK:
            if block >= 0:
                # before the exchange: a worker that dies in between leaves the number behind
                schedule.table[me, layout.T_BLOCK] = block
            if compare_exchange(returned, k * layout.WORD, block, layout.NO_BLOCK) == block:
                fetch_add(schedule.control, layout.RETURNED, -1)
                return block
    return layout.NO_BLOCK


@helper
def is_open(schedule, plan, epoch, is_late, me):
    """Return whether blocks of an epoch may be claimed; prepare row orders that are due.

    is_late : whether the middle of the epoch has passed; if so, the next epoch's order is due
    """
    control = schedule.control
    if epoch >= load(control, layout.LIMIT):
        return False
    ready = load(control, layout.READY)
    wanted = min(epoch + 1 if is_late else epoch, plan.max_epochs - 1)
    if ready <= wanted and load(control, layout.EPOCHS) >= ready - 1:
        # from the middle of an epoch on, a worker that claims prepares the next epoch's order
        prepare_order(schedule, plan, ready, me)
        ready = load(control, layout.READY)
    # a block of this epoch may only start once epoch - 2 has ended: see the file's head
    return ready > epoch


@helper
def must_wait(table, control, epoch):
    """Return whether, with `EpochPlan.free`, a worker may not begin a block of an epoch yet.

    The worker has to wait (1) if all workers pause now, (2) if the epoch has no sums yet, or (3) if
    another worker is still starting and the epoch would be the third open epoch. Because of
    condition (3) no worker runs ahead alone.
    """
    ended = load(control, layout.EPOCHS)
    if ended >= load(control, layout.LIMIT) or epoch >= load(control, layout.READY):
        return True
    if epoch > ended + 1:
        for k in range(table.shape[0]):
            if load(table[k], layout.T_STATE) == layout.STARTING and table[k, layout.T_BLOCKS] == 0:
                return True
    return False


@helper
def claim_of_share(schedule, plan, me, owner):
    """Claim for `me` the next block of the share of `owner`, which is `me` or a gone worker."""
    state = schedule.table[me]
    of_owner = schedule.table[owner]
    per_epoch = plan.n_blocks // plan.shares
    while True:
        number = load(of_owner, layout.T_SHARE)
        epoch = number // per_epoch
        place = number % per_epoch
        is_late = 2 * place >= per_epoch - 1
        if epoch >= plan.max_epochs:
            return layout.NO_BLOCK
        if plan.free != 0:
            if must_wait(schedule.table, schedule.control, epoch):
                return layout.NO_BLOCK
            if not prepare_share(schedule, plan, owner, epoch, me):
                return layout.NO_BLOCK
        elif not is_open(schedule, plan, epoch, is_late, me):
            return layout.NO_BLOCK
        ticket = epoch * plan.n_blocks + place * plan.shares + owner - plan.first
        state[layout.T_BLOCK] = ticket  # the intent first, as in `claim`
        if compare_exchange(of_owner, layout.T_SHARE, number, number + 1) == number:
            return ticket


@helper
def waits_for_epochs(table, control, plan, me):
    """Return whether a worker's next block is in an epoch that waits for other workers' blocks."""
    if plan.shares == 0:
        return False
    epoch = table[me, layout.T_SHARE] // (plan.n_blocks // plan.shares)
    if plan.free != 0:
        return epoch >= plan.max_epochs or must_wait(table, control, epoch)
    if epoch >= min(plan.max_epochs, load(control, layout.LIMIT)):
        return True
    ready = load(control, layout.READY)
    return epoch >= ready and load(control, layout.EPOCHS) < ready - 1


@inlined
def has_gone(table_row):
    """Return whether a worker is done or dead."""
    state = load(table_row, layout.T_STATE)
    return state == layout.DONE or state == layout.DEAD


@helper
def choice_of_round(schedule, me):
    """Return which blocks worker `me` may claim in its section of an ordered run with shares: ANY,
    OWN or LEFT.

    The first worker that is not gone decides (ANY), and the others follow: when a round's sections
    begin, all of them have claimed equally many blocks of their shares. Otherwise, after a death,
    one worker might claim a block of its own while another one claims a block that the dead worker
    has left. A plane exchanges the results of own blocks, so the one worker's plane would wait for
    mail of the other one, whose next section waits until the first worker has computed its block.
    """
    mine = load(schedule.table[me], layout.T_SHARE)
    for k in range(me):
        if not has_gone(schedule.table[k]):
            return OWN if load(schedule.table[k], layout.T_SHARE) > mine else LEFT
    return ANY


@helper
def claim_own(schedule, plan, me, choice):
    """Claim the next block of the worker's own rows, or a block left by a worker that is gone.

    With `EpochPlan.free`, a left block comes first if fewer blocks of its share have been claimed
    than of the worker's own share. `choice` (OWN, LEFT or ANY) excludes the other kind of blocks.
    """
    if plan.free != 0:
        ticket = claim_left(schedule, plan, me, schedule.table[me, layout.T_SHARE])
        if ticket != layout.NO_BLOCK:
            return ticket
    ticket = layout.NO_BLOCK
    if choice != LEFT:
        ticket = claim_of_share(schedule, plan, me, me)
    if ticket != layout.NO_BLOCK or choice == OWN:
        return ticket
    return claim_left(schedule, plan, me, plan.n_blocks * plan.max_epochs)


@helper
def claim_left(schedule, plan, me, before):
    """Claim a block of a worker that is gone and has claimed fewer than `before` of its share."""
    for owner in range(plan.first, plan.first + plan.shares):
        of_owner = schedule.table[owner]
        is_left = owner != me and has_gone(of_owner)
        if is_left and load(of_owner, layout.T_SHARE) < before:
            ticket = claim_of_share(schedule, plan, me, owner)
            if ticket != layout.NO_BLOCK:
                return ticket
    return layout.NO_BLOCK


@helper
def cell_is_free(schedule, plan, epoch, cell):
    """Return whether the earlier cells that share a group with a cell are done: see `grid_quanta`.

    Cells are numbered along diagonals: cell ``d * grid + g`` has group g of the first kind and
    group ``(g + d) % grid`` of the second kind. For each of the two groups, the preceding cell with
    this group is on the preceding diagonal. The worker of that cell has waited for the cells before
    that cell, so two marks are enough.
    """
    control = schedule.control
    if load(control, layout.EPOCHS) < epoch:
        return False  # stop criteria and step sizes are settled between two epochs
    if load(control, layout.STOP) != layout.RUNNING:
        return False  # checked after EPOCHS: an epoch's end writes STOP before EPOCHS
    if cell < plan.grid:
        return True
    done = schedule.done[slot_of(schedule, epoch)]
    before = cell - plan.grid
    group = cell % plan.grid
    neighbour = before + 1 if group + 1 < plan.grid else before + 1 - plan.grid
    return load(done, before) == epoch + 1 and load(done, neighbour) == epoch + 1


@helper
def claim(schedule, plan, me):
    """Claim the next block.

    Return its ticket (epoch * n_blocks + block), or FINISH_EPOCH, or NO_BLOCK if there is nothing
    to claim now. After NO_BLOCK, `control[STOP]` and `control[EPOCHS]` say whether there will be
    more blocks. The function writes T_BLOCK of `me`, even if the claim fails.
    """
    control = schedule.control
    in_order = plan.ordered != 0 and plan.shares > 0
    choice = choice_of_round(schedule, me) if in_order else ANY
    if load(control, layout.RETURNED) > 0 and choice != OWN:
        block = take_returned(schedule, me)
        if block != layout.NO_BLOCK:
            return block
    if plan.shares > 0:
        return claim_own(schedule, plan, me, choice)
    while True:
        ticket = load(control, layout.TICKET)
        epoch = ticket // plan.n_blocks
        is_late = 2 * (ticket % plan.n_blocks) >= plan.n_blocks - 1
        if not is_open(schedule, plan, epoch, is_late, me):
            return layout.NO_BLOCK
        # tickets ascend: the awaited worker has claimed its cell already and does not wait
        if plan.grid > 0 and not cell_is_free(schedule, plan, epoch, ticket % plan.n_blocks):
            return layout.NO_BLOCK
        # the intent before the exchange: a worker that dies in between leaves its block's number
        schedule.table[me, layout.T_BLOCK] = ticket
        if compare_exchange(control, layout.TICKET, ticket, ticket + 1) == ticket:
            return ticket


@inlined
def stop_now(control, reason):
    """Ask all workers to stop for a reason; a reason that is already set stays."""
    compare_exchange(control, layout.STOP, layout.RUNNING, reason)


@helper
def apply_criterion(columns, plan, adaptive, criterion, score, epoch):
    """Apply scikit-learn's stop rule to each column; return True if no column learns any more.

    columns : the columns' state (C_ACTIVE, C_BEST, C_PATIENCE, C_ETA, ...), updated in place
    criterion : float64[n_columns], mean of losses and penalties, unused with early stopping
    score : float64[n_columns], validation scores, used with early stopping
    """
    alive = False
    for c in range(columns.shape[1]):
        if columns[layout.C_ACTIVE, c] == 0.0:
            continue
        columns[layout.C_EPOCHS, c] = epoch + 1
        # smaller is better for both, so one rule is enough
        value = -score[c] if plan.early_stopping else criterion[c]
        if plan.tol > -np.inf and value > columns[layout.C_BEST, c] - plan.tol:
            columns[layout.C_PATIENCE, c] += 1.0
        else:
            columns[layout.C_PATIENCE, c] = 0.0
        if value < columns[layout.C_BEST, c]:
            columns[layout.C_BEST, c] = value
        if columns[layout.C_PATIENCE, c] >= plan.patience:
            if adaptive and columns[layout.C_ETA, c] > 1e-6:
                columns[layout.C_ETA, c] /= 5.0
                columns[layout.C_PATIENCE, c] = 0.0
            else:
                columns[layout.C_ACTIVE, c] = 0.0
                continue
        alive = True
    return not alive


@helper
def note_event(schedule, worker, ticket, version, proposals):
    """Record an event that has just changed the model, if the run is recorded.

    Events are stored in the order in which they happen. If workers write one vector without locks,
    a block's event is recorded when the block ends.
    """
    if schedule.recording.shape[0] == 0:
        return
    place = fetch_add(schedule.control, layout.RECORDED, 1)
    if place < schedule.recording.shape[0]:
        schedule.recording[place, layout.E_WORKER] = worker
        schedule.recording[place, layout.E_TICKET] = ticket
        schedule.recording[place, layout.E_VERSION] = version
        schedule.recording[place, layout.E_PROPOSALS] = proposals


@helper
def workers_left(schedule):
    """Count the workers that have not died.

    The workers in the run would be the wrong number: at the run's end they leave in any order.
    """
    count = 0
    for k in range(schedule.table.shape[0]):
        if load(schedule.table[k], layout.T_STATE) != layout.DEAD:
            count += 1
    return count


@inlined
def must_leave(control, ordered):
    """Return whether a stop ends the quantum at once: in an ordered run, only the caller's stop."""
    stopped = load(control, layout.STOP)
    return stopped != layout.RUNNING and (not ordered or stopped == layout.STOPPED_BY_CALLER)


@inlined
def tick(plan, state, me):
    """Count the worker's current block as done, clear T_BLOCK, and advance the clock last.

    With shares the clock counts only blocks of the worker's own share. If the clock also counted
    blocks of a dead worker, it would be ahead of the clocks of workers that have equally many
    blocks left. Then this worker would wait for the others, and the others for this worker.
    """
    is_own = plan.shares == 0 or state[layout.T_BLOCK] % plan.shares == me - plan.first
    state[layout.T_BLOCK] = layout.NO_BLOCK
    state[layout.T_BLOCKS] += 1
    if is_own:
        # releasing: a worker that passes a barrier by this clock sees the block's push
        store(state, layout.T_CLOCK, state[layout.T_CLOCK] + 1)


@inlined
def news_of(plan, last, completed):
    """Return the answer after a completed block: QUANTUM_RECORD, QUANTUM_EPOCH or QUANTUM_OVER.

    last : whether the block was its epoch's last
    completed : number of blocks completed by all workers; 0 if another worker had completed this
        block already
    """
    if plan.record_every > 0 and completed % plan.record_every == 0 and completed > 0:
        return layout.QUANTUM_RECORD
    return layout.QUANTUM_EPOCH if last and plan.report_epochs else layout.QUANTUM_OVER


@helper
def complete(schedule, plan, ticket, local):
    """Count a block as completed, and add its sums to the sums of its epoch.

    Return whether the block was its epoch's last, and the number of blocks completed so far (0 if
    another worker had completed this block already).
    """
    epoch = ticket // plan.n_blocks
    slot = slot_of(schedule, epoch)
    n_columns = local.shape[1]
    done = schedule.done[slot]
    if exchange(done, ticket % plan.n_blocks, epoch + 1) == epoch + 1:
        return False, 0
    sums = schedule.sums[slot]
    for c in range(n_columns):
        settle(local, c)
        add_float(sums, c, local[layout.L_LOSS, c])
        add_float(sums, n_columns + c, local[layout.L_CRITERION, c])
        add_float(sums, 2 * n_columns + c, local[layout.L_CHANGE, c])
    completed = fetch_add(schedule.control, layout.COMPLETED, 1) + 1
    # last: the count-down releases the sums to the worker that ends the epoch
    return fetch_add(schedule.remaining, slot * layout.WORD, -1) == 1, completed
