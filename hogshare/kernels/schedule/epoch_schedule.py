"""Blocks are claimed, epochs are counted down, orders are prepared: the schedule in shared words.

Who writes what, and in which order:

- A worker writes its intent ``table[me, T_BLOCK] = ticket`` and then takes the ticket with a
  compare-exchange, so a worker that dies at any instruction leaves its block's number behind.
- Whoever completes a block exchanges ``done``; only the first to do so counts it down in
  ``remaining``. A block that runs twice (its worker was taken for dead) counts once.
- Once ``remaining`` is zero the epoch is ended by the holder of the ENDER word: it reads the loss
  sums (all added before the count-down, which acquires), applies the stop criterion, then advances
  EPOCHS (release). Epochs end in order.
- Orders and sums stand in pairs, by the parity of the epoch: epoch e + 1 is prepared once epoch
  e - 1 has ended, so at most two epochs are ever open.
- Where workers go on by themselves (`EpochPlan.free`) there are sums for more epochs, by the
epoch's
  number, and those of the one that ends are made ready for the next one without. Of orders two are
  enough: a worker is in one epoch, and its share is dealt by the holder of PREPARER, who writes
  T_DEALT last. Who does a block of somebody who is gone two epochs late may find other rows of it.
- At LIMIT epochs nobody claims: workers leave, and the caller looks and raises it. Who goes on by
  itself leaves when everybody has come that far, wherever it is by then. The holder of
  the ENDER word may lower it, to an epoch that nobody has claimed from yet (`epoch_criteria.call`).
- The monitor, and nobody else, puts a dead worker's block into ``returned``.
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

LOCK_FREE = 0  # values of Plan.private: every worker on the one vector
EXCHANGE = 1  # private copies
ALONE = 2  # a single worker on the vector itself
MASTER = 3  # snapshots, and changes by mail to a master

SUM = 0  # values of Plan.fold: messages to a master are changes as they are
WEIGHTED = 1  # each coordinate by how far the block has moved it
MEAN = 2  # all by one over the number of those that begin at about one point

# value of Plan.sleeps on a virtual clock: a block is computed within a moment, so that there is no
# exchange in the middle of it
SIMULATED = 2


class EpochPlan(NamedTuple):
    """Integers of the schedule, constant during a run."""

    block_rows: int
    n_blocks: int
    max_epochs: int
    interval: int  # rows between exchanges; 0: the one vector is written directly
    private: int
    atomic: int
    shuffle: int
    replace: int  # where there are chances: draw each visit by itself
    window: int  # neighbours read together in a shuffled order; 0: none, it is wholly random
    abreast: int  # windows read in turn, see `streams`
    interleaved: int  # 1: each of those begins a row later than the one beside it
    seed: int
    record_every: int  # blocks between snapshots; 0: never
    report_epochs: int  # 1: leave the kernel at the end of an epoch
    early_stopping: int
    regression: int
    patience: int
    tol: float
    ordered: int  # 1: rounds in which workers fold and claim in their order, see `ordered_rounds`
    barrier: int  # its code, see `barrier_codes`; the next five belong to it
    sample: int
    staleness: int
    share: float
    hold: int
    available: int
    gradients: int  # of a master, as the next three: messages summed in an update
    cutoff: int  # largest age, in versions, of a message that is not dropped; -1: none is
    damped: int  # 1: a message counts by one over one plus its age
    inline: int  # 1: the only worker is its own master
    sleeps: int  # 1: workers sleep in every block, see `hogshare.stragglers`; 2: see `SIMULATED`
    parts: int  # in which a worker reads and writes the one vector, apart; 0: row by row, at once
    shares: int  # workers that have rows of their own, see `shares`; 0: blocks are anybody's
    stride: float = 1.0  # rows that are visited in all for a row here: other sites have others
    first: int = 0  # the number of this site's first worker
    everywhere: int = 0  # how many workers with shares all sites have
    split: int = (
        0  # workers that compute a part each of one mini-batch, see `ordered_rounds`; 0: none do
    )
    step_rows: int = (
        0  # of a mini-batch, where one call takes a block's steps, see `network_training`
    )
    free: int = 0  # 1: who has a share goes on into the next epoch without the others
    fold: int = SUM  # of a master, how messages are weighed
    copied: int = 0  # of a master, 1: rows are stepped on a copy of the model with a scale
    grid: int = (
        0  # groups of either kind whose pairs are the blocks, see `grid_quanta`; 0: none are
    )


@inlined
def slot_of(schedule, epoch):
    """Where an epoch's marks, count and sums stand."""
    return epoch % schedule.sums.shape[0]


@helper
def clear_slot(schedule, plan, slot):
    """Make the count and the sums ready for an epoch."""
    schedule.remaining[slot * layout.WORD] = plan.n_blocks
    for c in range(schedule.sums.shape[1]):
        schedule.sums[slot, c] = 0.0


@helper
def open_epoch(schedule, plan, epoch):
    """Let an epoch be claimed from, where workers go on by themselves; its slot is free."""
    clear_slot(schedule, plan, slot_of(schedule, epoch))
    store(schedule.control, layout.READY, epoch + 1)


@helper
def prepare_share(schedule, plan, owner, epoch, me):
    """Deal a worker's rows of its next epoch, if nobody is dealing; whether they are there."""
    control, of_owner = schedule.control, schedule.table[owner]
    if load(of_owner, layout.T_DEALT) <= epoch:
        if compare_exchange(control, layout.PREPARER, 0, me + 1) != 0:
            return False
        if load(of_owner, layout.T_DEALT) <= epoch:
            scratch, held_out = schedule.permutation, schedule.held_out
            which = plan.shares, owner - plan.first, plan.first, plan.shuffle, plan.window
            deal_one(scratch, held_out, schedule.order[epoch % 2], *which, plan.seed, epoch)
            store(of_owner, layout.T_DEALT, epoch + 1)
        store(control, layout.PREPARER, 0)
    return True


@helper
def prepare_order(schedule, plan, epoch, me):
    """Shuffle the order of `epoch` if nobody else does and its place is free."""
    control = schedule.control
    if compare_exchange(control, layout.PREPARER, 0, me + 1) != 0:
        return
    if load(control, layout.READY) == epoch and load(control, layout.EPOCHS) >= epoch - 1:
        order = schedule.order[epoch % 2]
        if plan.grid > 0:
            pass  # a cell's rows stand together: nobody reads an order
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
    """Take a block that the monitor has put back; NO_BLOCK if there is none."""
    returned = schedule.returned
    for k in range(returned.shape[0] // layout.WORD):
        block = load(returned, k * layout.WORD)
        if block != layout.NO_BLOCK:
            if block >= 0:
                schedule.table[me, layout.T_BLOCK] = block
            if compare_exchange(returned, k * layout.WORD, block, layout.NO_BLOCK) == block:
                fetch_add(schedule.control, layout.RETURNED, -1)
                return block
    return layout.NO_BLOCK


@helper
def is_open(schedule, plan, epoch, is_late, me):
    """Whether blocks of an epoch may be claimed; sees to it that orders are ready in time.

    is_late : whether the middle of the epoch is past
    """
    control = schedule.control
    if epoch >= load(control, layout.LIMIT):
        return False
    ready = load(control, layout.READY)
    wanted = min(epoch + 1 if is_late else epoch, plan.max_epochs - 1)
    if ready <= wanted and load(control, layout.EPOCHS) >= ready - 1:
        # from the middle of an epoch on, somebody prepares the next one's order
        prepare_order(schedule, plan, ready, me)
        ready = load(control, layout.READY)
    # a block of this epoch may only start once the one before the last has ended: see above
    return ready > epoch


@helper
def must_wait(table, control, epoch):
    """Whether who goes on by itself may not begin a block of an epoch.

    All rest now, or it is as far ahead as there are sums. Nor is a run one worker's alone: while
    somebody is still starting no more than two epochs are open, as on other planes.
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
    """Take the next block of a worker's share; its own, or of one that is gone.

    One's own needs no more than the order of stores: the ticket first, as ever.
    """
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
        state[layout.T_BLOCK] = ticket
        if compare_exchange(of_owner, layout.T_SHARE, number, number + 1) == number:
            return ticket


@helper
def waits_for_epochs(table, control, plan, me):
    """Whether a worker's next block is of an epoch that begins when others have done theirs."""
    if plan.shares == 0:
        return False
    epoch = table[me, layout.T_SHARE] // (plan.n_blocks // plan.shares)
    if plan.free != 0:
        return epoch >= plan.max_epochs or must_wait(table, control, epoch)
    if epoch >= min(plan.max_epochs, load(control, layout.LIMIT)):
        return True
    ready = load(control, layout.READY)
    return epoch >= ready and load(control, layout.EPOCHS) < ready - 1


@helper
def claim_own(schedule, plan, me):
    """Take the next block of the worker's own rows, or else one that somebody has left behind.

    Who goes on by itself does first what is further behind than its own.
    """
    if plan.free != 0:
        ticket = claim_left(schedule, plan, me, schedule.table[me, layout.T_SHARE])
        if ticket != layout.NO_BLOCK:
            return ticket
    ticket = claim_of_share(schedule, plan, me, me)
    if ticket != layout.NO_BLOCK:
        return ticket
    return claim_left(schedule, plan, me, plan.n_blocks * plan.max_epochs)


@helper
def claim_left(schedule, plan, me, before):
    """Take a block of somebody who is gone, and whose share has come less far than `before`."""
    for owner in range(plan.first, plan.first + plan.shares):
        of_owner = schedule.table[owner]
        state = load(of_owner, layout.T_STATE)
        is_gone = owner != me and (state == layout.DONE or state == layout.DEAD)
        if is_gone and load(of_owner, layout.T_SHARE) < before:
            ticket = claim_of_share(schedule, plan, me, owner)
            if ticket != layout.NO_BLOCK:
                return ticket
    return layout.NO_BLOCK


@helper
def cell_is_free(schedule, plan, epoch, cell):
    """Whether all that has been claimed of a cell's numbers is done: see `grid_quanta`.

    Cells follow each other along diagonals: cell ``d * grid + g`` is of group g of the first kind
    and group ``(g + d) % grid`` of the second. So each group's cell before it is on the diagonal
    before, and whoever has come to that has waited for those before.
    """
    control = schedule.control
    if load(control, layout.EPOCHS) < epoch:
        return False  # stop criteria and step sizes are settled between two epochs
    if load(control, layout.STOP) != layout.RUNNING:
        return False  # which an epoch's end writes before EPOCHS
    if cell < plan.grid:
        return True
    done = schedule.done[slot_of(schedule, epoch)]
    before = cell - plan.grid
    group = cell % plan.grid
    neighbour = before + 1 if group + 1 < plan.grid else before + 1 - plan.grid
    return load(done, before) == epoch + 1 and load(done, neighbour) == epoch + 1


@helper
def claim(schedule, plan, me):
    """Take the next block.

    Returns its ticket (epoch * n_blocks + block), or FINISH_EPOCH, or NO_BLOCK when there is
    nothing to claim now (or ever: `control[STOP]` and `control[EPOCHS]` tell).
    """
    control = schedule.control
    if load(control, layout.RETURNED) > 0:
        block = take_returned(schedule, me)
        if block != layout.NO_BLOCK:
            return block
    if plan.shares > 0:
        return claim_own(schedule, plan, me)
    while True:
        ticket = load(control, layout.TICKET)
        epoch = ticket // plan.n_blocks
        is_late = 2 * (ticket % plan.n_blocks) >= plan.n_blocks - 1
        if not is_open(schedule, plan, epoch, is_late, me):
            return layout.NO_BLOCK
        # tickets are in order, so that who is waited for has its cell in hand and waits for none
        if plan.grid > 0 and not cell_is_free(schedule, plan, epoch, ticket % plan.n_blocks):
            return layout.NO_BLOCK
        schedule.table[me, layout.T_BLOCK] = ticket
        if compare_exchange(control, layout.TICKET, ticket, ticket + 1) == ticket:
            return ticket


@inlined
def stop_now(control, reason):
    """Ask everybody to stop; the first reason stands."""
    compare_exchange(control, layout.STOP, layout.RUNNING, reason)


@helper
def apply_criterion(columns, plan, adaptive, criterion, score, epoch):
    """scikit-learn's stop rule, column by column; returns True when no column learns any more.

    criterion : float64[n_columns], mean of losses and penalties, or nothing when scores are given
    score : float64[n_columns], validation scores (used when early stopping)
    """
    alive = False
    for c in range(columns.shape[1]):
        if columns[layout.C_ACTIVE, c] == 0.0:
            continue
        columns[layout.C_EPOCHS, c] = epoch + 1
        # both are made "smaller is better", so that one rule serves
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
    """Write down what has just been done to the model, if the run is recorded.

    Who comes first takes the place; on one vector without locks, blocks are written as they end.
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
    """Workers that have not died. Not those in the run: at its end they leave out of order."""
    count = 0
    for k in range(schedule.table.shape[0]):
        if load(schedule.table[k], layout.T_STATE) != layout.DEAD:
            count += 1
    return count


@inlined
def must_leave(control, ordered):
    """Whether a turn ends here; in an ordered run stops count in sections, but for the caller's."""
    stopped = load(control, layout.STOP)
    return stopped != layout.RUNNING and (not ordered or stopped == layout.STOPPED_BY_CALLER)


@inlined
def tick(plan, state, me):
    """Count the block in hand of the worker of this row, which has none then: the clock last.

    Where rows are shared out the clock counts blocks of one's own share: by those of the dead a
    worker would be ahead of others who have as much left to do, and wait for them, who wait for it.
    """
    is_own = plan.shares == 0 or state[layout.T_BLOCK] % plan.shares == me - plan.first
    state[layout.T_BLOCK] = layout.NO_BLOCK
    state[layout.T_BLOCKS] += 1
    if is_own:
        store(state, layout.T_CLOCK, state[layout.T_CLOCK] + 1)


@inlined
def news_of(plan, last, completed):
    """What the caller wants to hear of a block: QUANTUM_RECORD, QUANTUM_EPOCH, or nothing
    (QUANTUM_OVER).

    last : whether it was its epoch's
    completed : blocks completed by all, 0 where it counts for nothing
    """
    if plan.record_every > 0 and completed % plan.record_every == 0 and completed > 0:
        return layout.QUANTUM_RECORD
    return layout.QUANTUM_EPOCH if last and plan.report_epochs else layout.QUANTUM_OVER


@helper
def complete(schedule, plan, ticket, local):
    """Count a block as completed and add its sums.

    Returns whether it was its epoch's last, and the number of blocks completed so far (0 for a
    block that somebody else had completed already).
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
    return fetch_add(schedule.remaining, slot * layout.WORD, -1) == 1, completed
