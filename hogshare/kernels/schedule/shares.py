"""Shares: rows that belong to a worker, on planes whose workers train on their own.

The training rows are dealt to the workers one after another, in every epoch the same ones to each.
In an epoch's order a worker's rows are together, one share after the other, shuffled within the
share. Every share is cut into equally many blocks, whose numbers of rows differ by one at most, and
block b of an epoch is block ``b // shares`` of worker ``b % shares``. So all workers have equally
many blocks in an epoch, and a worker's sequence of rows depends on the seed alone.

With `EpochPlan.free` a share is dealt when its first block of an epoch is claimed, with the same
rows in the same order.

Writers: T_SHARE is the number of a share's blocks that have been claimed; its worker writes it by a
compare-exchange, and when that is gone, workers that do its remaining blocks
(`epoch_schedule.claim_own`). The order is written by the worker that prepares it, like any order.
"""

from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.schedule.streams import block_state, shuffle_part


@helper
def begin_of(share, n_rows, shares):
    """Return the place in an epoch's order at which a share begins: the first have a row more."""
    return share * (n_rows // shares) + min(share, n_rows % shares)


@helper
def span_of(block, n_rows, n_blocks, block_rows, shares, split):
    """Return a block's begin and end in its epoch's order, and the rows before it in time.

    block : of the epoch, from 0
    shares : 0 if any worker takes any block
    split : parts that `block_rows` are cut into, each a block of the same time; 0: a block is all
    """
    if split > 0:
        begin, part = block // split * block_rows, block % split
        size = min(n_rows, begin + block_rows) - begin
        return begin + part * size // split, begin + (part + 1) * size // split, begin
    if shares == 0:
        first = block * block_rows
        return first, min(n_rows, first + block_rows), first
    share, place, per_share = block % shares, block // shares, n_blocks // shares
    begin = begin_of(share, n_rows, shares)
    size = begin_of(share + 1, n_rows, shares) - begin
    first, end = begin + place * size // per_share, begin + (place + 1) * size // per_share
    return first, end, block * n_rows // n_blocks


@helper
def rows_before(ticket, n_rows, before, plan):
    """Return the number of rows visited before a block, in time, on all machines.

    ticket : of the run, by this machine's count
    n_rows : of an epoch on this machine
    before : rows of the block's epoch that this machine visits before it
    plan : `hogshare.kernels.schedule.epoch_schedule.EpochPlan`
    """
    epoch, block = ticket // plan.n_blocks, ticket % plan.n_blocks
    if plan.everywhere <= plan.shares:
        return (float(epoch) * n_rows + before) * plan.stride
    # shares have equal lengths on all machines; n_all is the number of rows on all of them
    n_all, per_share = int(n_rows * plan.stride + 0.5), plan.n_blocks // plan.shares
    among_all = block // plan.shares * plan.everywhere + plan.first + block % plan.shares
    return float(epoch * n_all + among_all * n_all // (plan.everywhere * per_share))


@helper
def deal(scratch, held_out, order, shares, first, shuffled, window, seed, epoch):
    """Write an epoch's order: each share's rows together.

    scratch : int64, at least as long as a share's rows plus its windows
    held_out : uint8 [n_rows] or empty, rows that are in no share
    order : int64 [n_training_rows], written
    first : number of the first share; shares are shuffled by their numbers
    shuffled : 0: rows within a share are in their own order
    window : neighbours of a share that are read together; 0: none
    """
    count = 0
    n_rows = held_out.shape[0] if held_out.shape[0] > 0 else order.shape[0]
    for row in range(n_rows):
        if held_out.shape[0] == 0 or held_out[row] == 0:
            order[begin_of(count % shares, order.shape[0], shares) + count // shares] = row
            count += 1
    if shuffled == 0:
        return
    for share in range(shares):
        shuffle_share(scratch, order, shares, share, first, window, seed, epoch)


@helper
def deal_one(scratch, held_out, order, shares, share, first, shuffled, window, seed, epoch):
    """Write one share's rows of an epoch's order, as `deal` does."""
    place = begin_of(share, order.shape[0], shares)
    if held_out.shape[0] == 0:
        for row in range(share, order.shape[0], shares):
            order[place] = row
            place += 1
    else:
        count = 0
        for row in range(held_out.shape[0]):
            if held_out[row] == 0:
                if count % shares == share:
                    order[place] = row
                    place += 1
                count += 1
    if shuffled != 0:
        shuffle_share(scratch, order, shares, share, first, window, seed, epoch)


@helper
def shuffle_share(scratch, order, shares, share, first, window, seed, epoch):
    """Shuffle one share's rows, which are in their own order."""
    begin = begin_of(share, order.shape[0], shares)
    end = begin_of(share + 1, order.shape[0], shares)
    state = block_state(seed, epoch, first + share)
    if window > 1:
        state = shuffle_far(scratch, order, begin, end, window, state)
        for near in range(begin, end, window):
            state = shuffle_part(order, near, min(end, near + window), state)
    else:
        shuffle_part(order, begin, end, state)


@helper
def shuffle_far(scratch, order, begin, end, window, state):
    """Bring the windows of a share into a random order; returns the generator's state.

    scratch : at least as long as a share's rows plus its windows
    """
    size = end - begin
    n_windows = (size + window - 1) // window
    for k in range(size):
        scratch[k] = order[begin + k]
    for k in range(n_windows):
        scratch[size + k] = k
    state = shuffle_part(scratch, size, size + n_windows, state)
    to = begin
    for k in range(n_windows):
        first = scratch[size + k] * window
        for i in range(first, min(size, first + window)):
            order[to] = scratch[i]
            to += 1
    return state
