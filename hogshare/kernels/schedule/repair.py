"""The monitor's writes on behalf of dead workers: no other code writes another worker's row.

Only the caller's main thread calls these functions; a run's kernels never call them.
"""

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import compare_exchange, fetch_add, load, store
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.schedule.barrier_codes import in_run
from hogshare.kernels.schedule.worker_life import CLOSE, DIE, move


@kernel
def refuse(table_row):
    """Close a run to a worker; return False if the worker has joined, so the caller must wait."""
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
    """Ask all workers to pause until the sums of the memory of rows have been computed anew."""
    fetch_add(control, layout.REPAIR_WANTED, 1)


@kernel
def open_repair(table, control):
    """Let a worker compute the sums anew once all workers in the run have paused.

    See `run_membership.pause`.
    """
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
    """Take SUMMER for the caller while all workers pause; return False if a worker is summing."""
    before = load(control, layout.SUMMER)
    return before <= 0 and compare_exchange(control, layout.SUMMER, before, me) == before


@kernel
def give_sums_back(control):
    """Mark all requested repairs as done, and give SUMMER back."""
    store(control, layout.REPAIRED, load(control, layout.REPAIR_WANTED))
    store(control, layout.SUMMER, 0)


@kernel
def bury(control, table_row):
    """Mark a worker as dead; if it had joined, count one live worker less."""
    state = load(table_row, layout.T_STATE)
    if in_run(state):
        fetch_add(control, layout.LIVE, -1)
    # the dead worker may be one of the READERS for which the master waits; the others ask again
    store(control, layout.READERS, 0)
    move(table_row, DIE)


@kernel
def close_epoch(remaining, slot):
    """Set an epoch's count of remaining blocks to 0; every block must be marked as done.

    A worker that died between the mark and the count-down has left the count too high.
    """
    store(remaining, slot * layout.WORD, 0)


@kernel
def put_back(returned, control, place, block):
    """Offer `block` (or FINISH_EPOCH) to the next claim; return False if the place is taken."""
    place *= layout.WORD
    if compare_exchange(returned, place, layout.NO_BLOCK, block) != layout.NO_BLOCK:
        return False
    fetch_add(control, layout.RETURNED, 1)
    return True
