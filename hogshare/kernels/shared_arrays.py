"""The arrays that all workers of a run share, in four groups by what they are for.

A kernel takes the groups that its work needs: Numba hands over every array of a tuple as seven
words at every call that it does not inline, and each of them lengthens a first fit's compile.

- `Schedule`, who does which block when, and how the epochs went. Who writes: all workers, and the
  monitor for one that died, word by word, in the order that `epoch_schedule` says; at an epoch's
  end the holder of the ENDER word alone (`epoch_criteria`); a worker its own row of the table. Who
  reads: all.
- `Vector`, the model and what exchanging it takes. Who writes: the holder of a segment's word
  (`copy_exchange`), anybody without order (`hogwild_steps`, `asaga_steps`), or the master alone
  (`master_updates`); the curvatures and rarity were written before the run. Who reads: as they
  write, and at an epoch's end its ender.
- `MemoryArrays`, what SDCA and SAGA remember of rows. Who writes: a row's entry, whoever has
claimed its
  block (`dual_ascent`, `saga_steps`); average and mean as the vector; after a death, the holder of
  SUMMER while all stand still (`turns.pause`). Who reads: the same.
- `MasterMail`, what goes to a master. Who writes: the mailbox as `edge_slots` says, the rest the
master
  alone (`master_updates`). Who reads: the master.

Who frees: nobody in a kernel; a session's owner (`hogshare.engine.session`), who made them. The
barriers' words are in the table and the control words (`barrier_codes`). All groups are handed to
every turn: what its plane or rule has no use for is empty.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels.mail.edge_slots import Mailbox


class Schedule(NamedTuple):
    """Who does which block when, and how the epochs went.

    control, returned, table, staleness, columns : see `layout`
    order : int64 [2, n_training_rows], the row order by parity of the epoch
    permutation : int64 [n_rows], what the next order is shuffled from
    held_out : uint8 [n_rows] or empty, rows that are never claimed
    chances : float64 [n_rows], how often an epoch visits each row on average (empty: once)
    done : int64 [n_open, n_blocks], epoch + 1 that completed the block
    remaining : int64 [n_open * WORD], blocks to complete
    sums : float64 [n_open, 3 * n_columns], losses, criteria and squared changes of the epoch so far
    history : float64 [n_epochs kept], mean loss per epoch
    recording : int64 [n_events, N_EVENT], see `replay` (empty: nothing is recorded)
    """

    control: np.ndarray
    returned: np.ndarray
    table: np.ndarray
    staleness: np.ndarray
    columns: np.ndarray
    order: np.ndarray
    permutation: np.ndarray
    held_out: np.ndarray
    chances: np.ndarray
    done: np.ndarray
    remaining: np.ndarray
    sums: np.ndarray
    history: np.ndarray
    recording: np.ndarray


class Vector(NamedTuple):
    """Where the model lives, and how it is exchanged.

    w : rows' dtype [n_features * n_columns], the shared vector
    intercept : float64 [n_columns]
    curvature : float32 [n_features], for the exchange (empty without)
    intercept_curvature : float64 [1]
    segments : int64 [n_segments * WORD], holder + 1 of each segment
    rarity : float32 [n_features], rows per row that has the feature (only lock-free and SAGA)
    """

    w: np.ndarray
    intercept: np.ndarray
    curvature: np.ndarray
    intercept_curvature: np.ndarray
    segments: np.ndarray
    rarity: np.ndarray


class MemoryArrays(NamedTuple):
    """What SDCA and SAGA remember of rows, and what they take from that.

    dual : rows' dtype [n_rows * (1 + n_columns)], see `dual_ascent` (empty without the dual rule)
    dual_mean : float64 [n_columns], mean of the dual variables, or of SAGA's gradients
    gradients : rows' dtype [n_rows * n_columns], SAGA's table (empty without)
    average : float64 [n_features * n_columns], its average (empty without)
    units : float64 [2, n_features], for its comparison: the features' origins, and one over their
        sizes, or 0 where a feature is not compared (`problems.linear.units`; empty without)
    divisors : float64 [n_features], by what dense columns have been divided (empty: by nothing)
    """

    dual: np.ndarray
    dual_mean: np.ndarray
    gradients: np.ndarray
    average: np.ndarray
    units: np.ndarray
    divisors: np.ndarray


class MasterMail(NamedTuple):
    """What goes to a master, and what it makes of that; all empty without one.

    ``gathered`` to ``gathered_intercepts`` are the sum in hand.

    ages : int64 [n_workers, HISTOGRAM], messages by their age, of each worker
    box : Mailbox, of which edge k is from worker k to the master. A message's values are by how
        much it changes the coordinates that are its places, and the dense ones, the intercepts; of
        a whole one the first are values of the model's dtype for all coordinates
    gathered : float64 [n_features * n_columns], the changes so far, where they are marked
    gathered_places : int64 [n_features * n_columns], which coordinates those are
    gathered_marks : int64 [n_features * n_columns], 1 + version at which one was changed last
    gathered_intercepts : float64 [n_columns]
    journal : float64 [n_features * n_columns + n_columns], the values of the next version: of the
        places in their order (in the model's dtype, if those are all), then the intercepts
    """

    ages: np.ndarray
    box: Mailbox
    gathered: np.ndarray
    gathered_places: np.ndarray
    gathered_marks: np.ndarray
    gathered_intercepts: np.ndarray
    journal: np.ndarray
