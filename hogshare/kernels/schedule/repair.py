"""The monitor's writes for a worker that died: the only writes into a worker's row by another.

Only the caller's main thread calls them, never a run's kernels.
"""

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import compare_exchange, fetch_add, load, store
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.schedule.barrier_codes import in_run
from hogshare.kernels.schedule.worker_life import CLOSE, DIE, move


@kernel
def refuse(table_row):
    """Close a run to a worker that has not joined. False: it has joined, and must be waited for."""
    return load(table_row, layout.T_STATE) == layout.STARTING and move(table_row, CLOSE)


@kernel
def release_words(segments, control, dead):
    """Free the segments and the schedule's words that worker `dead` had taken."""
    for k in range(segments.shape[0] // layout.WORD):
        compare_exchange(segments, k * layout.WORD, dead + 1, 0)
    compare_exchange(control, layout.PREPARER, dead + 1, 0)
    compare_exchange(control, layout.ENDER, dead + 1, 0)
    compare_exchange(control, layout.SUMMER, dead + 1, 0)


@kernel
def ask_for_repair(control):
    """Ask all workers to pause until the memory of rows has been summed anew."""
    fetch_add(control, layout.REPAIR_WANTED, 1)


@kernel
def open_repair(table, control):
    """Let a worker sum anew if all that are in the run have paused; see `run_membership.pause`."""
    wanted = load(control, layout.REPAIR_WANTED)
    if load(control, layout.REPAIRED) == wanted:
        return
    for k in range(table.shape[0]):
        state = load(table[k], layout.T_STATE)
        if in_run(state) and load(table[k], layout.T_PAUSED) != wanted:
            return
    before = load(control, layout.SUMMER)
    if before <= 0:
        compare_exchange(control, layout.SUMMER, before, -wanted)


@kernel
def take_sums(control, me):
    """Take SUMMER for the caller while all workers pause. False: a worker is summing."""
    before = load(control, layout.SUMMER)
    return before <= 0 and compare_exchange(control, layout.SUMMER, before, me) == before


@kernel
def give_sums_back(control):
    """Give SUMMER back, with all repairs that have been asked for marked as done."""
    store(control, layout.REPAIRED, load(control, layout.REPAIR_WANTED))
    store(control, layout.SUMMER, 0)


@kernel
def bury(control, table_row):
    """Mark a worker as dead; it no longer counts as live if it had joined."""
    state = load(table_row, layout.T_STATE)
    if in_run(state):
        fetch_add(control, layout.LIVE, -1)
    # it may have died as one of the READERS that the master waits for; the others ask again
    store(control, layout.READERS, 0)
    move(table_row, DIE)


@kernel
def close_epoch(remaining, slot):
    """Do the count-down that a worker owed when it died: every block is marked as done."""
    store(remaining, slot * layout.WORD, 0)


@kernel
def put_back(returned, control, place, block):
    """Offer `block` (or FINISH_EPOCH) to the next claim. False: the place is still taken."""
    place *= layout.WORD
    if compare_exchange(returned, place, layout.NO_BLOCK, block) != layout.NO_BLOCK:
        return False
    fetch_add(control, layout.RETURNED, 1)
    return True
