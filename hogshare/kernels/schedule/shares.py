"""Shares: rows that belong to a worker, on planes whose workers train on their own.

The rows that are trained on are dealt to the workers by turns, in every epoch the same ones. In an
epoch's order each worker's stand together, one share after the other, shuffled within the share. A
share is cut into as many blocks as every other, of rows that differ by one at most, and block b of
an epoch is block ``b // shares`` of worker ``b % shares``. So all have as many blocks in an epoch,
and which rows a worker visits when hangs on the seed alone.

Where each worker goes on by itself (`EpochPlan.free`) a share is dealt when its first block of an
epoch is claimed, which is the same rows in the same order.

Who writes: T_SHARE, how many of its share's blocks have been claimed, a worker by a
compare-exchange, and when it is gone whoever does what it has left (`epoch_schedule.claim_own`).
The order, who prepares it, as any.
"""

from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.schedule.streams import block_state, shuffle_part


@helper
def begin_of(share, n_rows, shares):
    """Place in an epoch's order at which a share begins: the first ones have a row more."""
    return share * (n_rows // shares) + min(share, n_rows % shares)


@helper
def span_of(block, n_rows, n_blocks, block_rows, shares, split):
    """Where a block begins and ends in its epoch's order, and rows that come before it in time.

    block : of the epoch, from 0
    shares : 0 where blocks are anybody's
    split : parts that `block_rows` are cut into, blocks of one time each; 0: a block is all of them
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
    """Rows that have been visited before a block, in time, on all machines.

    ticket : of the run, as of this machine
    n_rows : of an epoch, here
    before : rows of the block's epoch that are visited here before it
    plan : `hogshare.kernels.schedule.epoch_schedule.EpochPlan`
    """
    epoch, block = ticket // plan.n_blocks, ticket % plan.n_blocks
    if plan.everywhere <= plan.shares:
        return (float(epoch) * n_rows + before) * plan.stride
    # shares are as long on all machines, and the rows as many as there are
    n_all, per_share = int(n_rows * plan.stride + 0.5), plan.n_blocks // plan.shares
    among_all = block // plan.shares * plan.everywhere + plan.first + block % plan.shares
    return float(epoch * n_all + among_all * n_all // (plan.everywhere * per_share))


@helper
def deal(scratch, held_out, order, shares, first, shuffled, window, seed, epoch):
    """Write an epoch's order: each share's rows together.

    scratch : int64, a share's rows and its windows long, at least
    held_out : uint8 [n_rows] or empty, rows that are in no share
    order : int64 [n_training_rows], written
    first : number of the first share, by which they are shuffled
    shuffled : 0: within a share rows are in their own order
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
    """Shuffle one share's rows, which stand in their own order."""
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

    scratch : at least a share's rows and its windows long
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
