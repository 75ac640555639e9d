"""Quanta on the grid: a block is a cell of the data, whose parameters no other worker writes.

A row reads and writes parameters of two kinds, for instance the factors of a user and of an item.
The users are cut into groups, and the items are cut into as many groups. A cell contains the rows
of one group of users and one group of items. Cells are numbered along diagonals, so adjacent cells
of a diagonal have no group in common. Workers claim cells in the order of their numbers. A worker
waits until the earlier cells that share a group with its cell are done
(`epoch_schedule.cell_is_free`). So every parameter takes its steps in the order of the cells, for
any worker and any timing, and the model has the same bits as with one worker.

Writers: worker `me` writes the parameters of its current cell, and the cell's place in its epoch's
sums; everything else is written as in `hogshare.kernels.schedule.epoch_schedule`. Readers: workers
with later cells of the same parameters. At the end of a cell the writer exchanges the cell's mark
in `done`; a reader reads this mark first and the parameters after it. If a worker has died, the
next claim gets the dead worker's cell before any other cell.

Sources: DSGD (Gemulla, Nijkamp, Haas and Sismanis 2011), whose strata are the diagonals, with a
barrier after each stratum; FPSGD (Zhuang, Chin, Juan and Lin 2013), which has no barrier and draws
cells at random.
"""

from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.ratings import factors
from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rules import step_schedules
from hogshare.kernels.rules.block_sums import start_block
from hogshare.kernels.schedule.epoch_schedule import slot_of, stop_now
from hogshare.kernels.schedule.streams import block_state


class Cells(NamedTuple):
    """The arrays that a quantum reads.

    rows : empty rows of a linear problem, which the common signature of quanta needs
    data : the problem's own arrays, with rows stored cell by cell
    ends : int64 (n_cells,), end of each cell's rows in the stored order
    """

    rows: RowArrays
    data: Any
    ends: np.ndarray


@helper
def cell_of_factors(cells, rule, plan, schedule, vector, private, ticket):
    """Take a step for each rating of a cell; return the number of ratings.

    The factors in `vector.w` are written, and the cell's loss in its epoch's sums.
    """
    epoch, cell = ticket // plan.n_blocks, ticket % plan.n_blocks
    first, end = 0 if cell == 0 else cells.ends[cell - 1], cells.ends[cell]
    start_block(private.local)
    if rule.schedule == step_schedules.ADAPTIVE:
        eta = schedule.columns[layout.C_ETA, 0]
    else:
        t = rule.first_t + np.float64(epoch * cells.ends[plan.n_blocks - 1] + first)
        eta = step_schedules.step_size(rule.schedule, rule.eta0, rule.power_t, 0.0, 0.0, t)
    private.local[layout.L_ETA, 0] = eta
    middle = first
    if plan.shuffle != 0 and end > first:
        middle += np.int64(block_state(plan.seed, epoch, cell)) % (end - first)
    loss = factors.advance_between(vector.w, cells.data, middle, end, eta)
    loss += factors.advance_between(vector.w, cells.data, first, middle, eta)
    if not np.isfinite(loss):
        stop_now(schedule.control, layout.STOPPED_BY_DIVERGENCE)
    # in the cell's own place: a sum in the order in which the cells end would depend on timing
    schedule.sums[slot_of(schedule, epoch), 3 * private.local.shape[1] + cell] = loss
    return end - first
