"""The arrays that all workers of a run share, in four groups by purpose.

A kernel takes only the groups that it needs. At every call that is not inlined, Numba passes every
array of a tuple as seven words, and each word lengthens the compilation of a first fit.

- `Schedule`: the assignment of blocks, and the epochs' results. Writers: all workers, and the
  monitor on behalf of a dead worker, write word by word, in the order that `epoch_schedule`
  describes. At an epoch's end only the owner of the ENDER word writes (`epoch_criteria`). A worker
  writes its own row of the table. Readers: all workers, the monitor and the caller.
- `Vector`: the model and the arrays for exchanging it. Writers: the owner of a segment's word
  (`copy_exchange`), any worker without order (`hogwild_steps`, `asaga_steps`), or the master alone
  (`master_updates`); the curvatures and rarity were written before the run. Readers: the same
  workers, in the same way, and at an epoch's end the worker that ends it.
- `MemoryArrays`: the memory of rows of SDCA and SAGA. Writers: the worker that has claimed a row's
  block writes the row's entry (`dual_ascent`, `saga_steps`); average and mean are written like the
  vector. After a death the owner of SUMMER writes while all workers pause (`run_membership.pause`).
  Readers: the same workers.
- `MasterMail`: the messages to a master and its sum. Writers: the mailbox is written as
  `edge_slots` describes, all other arrays by the master alone (`master_updates`). Reader: the
  master.

Freeing: no kernel frees an array. The owner of a session (`hogshare.engine.session`) makes and
frees the arrays. The barriers' words are in the table and the control words (`barrier_codes`).
Every quantum gets all groups: an array that its plane or rule does not use is empty.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels.mail.edge_slots import Mailbox


class Schedule(NamedTuple):
    """The assignment of blocks, and the epochs' results.

    control, returned, table, staleness, columns : see `layout`
    order : int64 [2, n_training_rows], the row orders of the present even and odd epoch
    permutation : int64 [n_rows, and the windows of a share], the permutation from which the next
        order is shuffled, and scratch memory for the shuffle of shares
    held_out : uint8 [n_rows], not 0 for rows that are never claimed; or empty
    chances : float64 [n_rows], mean number of visits of each row in an epoch (empty: one visit)
    done : int64 [n_open, n_blocks], 1 + the epoch in which the block was last completed
    remaining : int64 [n_open * WORD], number of blocks still to complete
    sums : float64 [n_open, 3 * n_columns], losses, criteria and squared changes of the epoch so far
    history : float64 [number of recorded epochs], mean loss per epoch
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
    """The model, and the arrays for its exchange.

    w : rows' dtype [n_features * n_columns], the shared vector
    intercept : float64 [n_columns]
    curvature : float32 [n_features], curvatures for the exchange (empty without an exchange)
    intercept_curvature : float64 [1], the intercepts' curvature
    segments : int64 [n_segments * WORD], 1 + the owner of each segment, or 0
    rarity : float32 [n_features], number of rows divided by the number of rows that have the
        feature (empty unless the vector is lock-free or the rule is SAGA)
    """

    w: np.ndarray
    intercept: np.ndarray
    curvature: np.ndarray
    intercept_curvature: np.ndarray
    segments: np.ndarray
    rarity: np.ndarray


class MemoryArrays(NamedTuple):
    """SDCA's and SAGA's memory of rows, and its means.

    dual : rows' dtype [n_rows * (1 + n_columns)], see `dual_ascent` (empty without the dual rule)
    dual_mean : float64 [n_columns], mean of the dual variables, or of SAGA's gradients
    gradients : rows' dtype [n_rows * n_columns], SAGA's table (empty without SAGA)
    average : float64 [n_features * n_columns], the table's average (empty without SAGA)
    units : float64 [2, n_features], to compare gradients: each feature's origin, and 1 over its
        size, or 0 if the feature is not compared (`problems.linear.units`; empty if not needed)
    divisors : float64 [n_features], divisors of the dense columns (empty: columns are not divided)
    """

    dual: np.ndarray
    dual_mean: np.ndarray
    gradients: np.ndarray
    average: np.ndarray
    units: np.ndarray
    divisors: np.ndarray


class MasterMail(NamedTuple):
    """The messages to a master, its sum and its journal; all empty without a master.

    The fields from ``gathered`` to ``gathered_intercepts`` contain the unfinished sum.

    ages : int64 [n_workers, HISTOGRAM], number of each worker's messages by age (`master_updates`)
    box : Mailbox, whose edge k leads from worker k to the master. A message's values are the
        changes of the coordinates at its places, and its dense values are the intercepts' changes.
        A whole message begins with the changes of all coordinates, in the model's dtype.
    gathered : float64 [n_features * n_columns], the changes so far, valid where marked
    gathered_places : int64 [n_features * n_columns], the changed coordinates
    gathered_marks : int64 [n_features * n_columns], 1 + the version in which a coordinate last
        changed
    gathered_intercepts : float64 [n_columns], the intercepts' changes so far
    journal : float64 [n_features * n_columns + n_columns], the values of the next version: first
        the values at `gathered_places`, in the order of these places, or the values at all places
        in the model's dtype; after these the intercepts
    """

    ages: np.ndarray
    box: Mailbox
    gathered: np.ndarray
    gathered_places: np.ndarray
    gathered_marks: np.ndarray
    gathered_intercepts: np.ndarray
    journal: np.ndarray
