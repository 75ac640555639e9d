"""Shares: each worker has rows of its own, on planes whose workers train separate models.

The training rows are dealt to the workers one after another, and every worker gets the same rows in
every epoch. An epoch's order contains one share after the other, each shuffled within itself. Every
share is cut into the same number of blocks, whose numbers of rows differ by at most one. Block b of
an epoch is block ``b // shares`` of worker ``b % shares``. So all workers have the same number of
blocks in an epoch, and a worker's sequence of rows depends on the seed alone.

With `EpochPlan.free` a share is dealt when its first block of an epoch is claimed; its rows and
their order are the same.

Writers: T_SHARE is the number of a share's blocks that have been claimed. The share's worker writes
T_SHARE by a compare-exchange; after that worker is gone, the workers that do its remaining blocks
write it (`epoch_schedule.claim_own`). The worker that prepares an order, which has taken PREPARER,
writes the order and the scratch memory of its shuffle (`Schedule.permutation`).
"""

from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.schedule.streams import block_state, shuffle_part


@helper
def begin_of(share, n_rows, shares):
    """Return the start of a share in an epoch's order.

    If `shares` does not divide `n_rows`, the first shares have one row more than the others.
    """
    return share * (n_rows // shares) + min(share, n_rows % shares)


@helper
def span_of(block, n_rows, n_blocks, block_rows, shares, split):
    """Return a block's start and end in its epoch's order, and the number of rows visited before.

    block : number of the block in the epoch, from 0
    n_rows : number of rows of the epoch
    n_blocks : number of blocks of the epoch
    block_rows : number of rows of a block, or with `split` of a mini-batch
    shares : number of shares; if 0, any worker takes any block
    split : number of blocks into which a mini-batch is cut; if 0, mini-batches are not cut. For all
        blocks of the same mini-batch the number of rows visited before is the same.
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
    """Return the number of rows that all machines visit before a block.

    ticket : the block's ticket, counted on this machine
    n_rows : number of rows of an epoch on this machine
    before : number of rows of the block's epoch that this machine visits before the block
    plan : `hogshare.kernels.schedule.epoch_schedule.EpochPlan`
    """
    epoch, block = ticket // plan.n_blocks, ticket % plan.n_blocks
    if plan.everywhere <= plan.shares:
        return (float(epoch) * n_rows + before) * plan.stride
    # shares are equally long on all machines; n_all is the number of rows on all machines
    n_all, per_share = int(n_rows * plan.stride + 0.5), plan.n_blocks // plan.shares
    among_all = block // plan.shares * plan.everywhere + plan.first + block % plan.shares
    return float(epoch * n_all + among_all * n_all // (plan.everywhere * per_share))


@helper
def deal(scratch, held_out, order, shares, first, shuffled, window, seed, epoch):
    """Write an epoch's order: the rows of the first share, then the rows of the next share, ...

    scratch : int64, at least as long as a share's rows plus its windows; overwritten
    held_out : uint8 [n_rows], not 0 for rows that are in no share; or empty
    order : int64 [n_training_rows], overwritten
    first : number of the first share; a share's number determines its shuffle
    shuffled : if 0, the rows of a share stay in ascending order
    window : number of a share's adjacent rows that are read together; if 0, single rows are
        shuffled
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
    """Write the rows of one share into an epoch's order; the result is the same as with `deal`."""
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
    """Shuffle the rows of one share in place; before the call they are in ascending order."""
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
    """Bring the windows of a share into a random order; return the generator's state.

    scratch : int64, at least as long as a share's rows plus its windows; overwritten
    order : int64, its entries from `begin` to `end` are overwritten
    window : number of rows of a window
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
