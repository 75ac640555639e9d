"""Steps of a network of dense layers, many mini-batches per call: a worker's slice and memory.

A team is the workers that compute each mini-batch together. Writers: the kernel of a `Trainer`
(`hogshare.kernels.networks.network_training`) writes the worker's own memory, its own elements of
the vector, and in `TeamArrays` its own part of `exchange` and its own row of `words`. If workers
are processes, it also copies its own elements of the vectors to `before`, at the end of a block and
before it overwrites them. The first worker of the team writes `sorted`. A worker that updates rows
late (`are_late`) sorts in its own memory. A worker that goes on alone after another worker is gone
writes all of `words` and `before` (`TeamArrays.break_up`, `save`, `note_through`).

Readers: every worker of the team reads `exchange`, `words` and `sorted`. Only a worker that goes on
alone reads `before`, to undo a block that was written in part (`TeamArrays.put_back`). Freeing: the
session owns the four arrays and frees them. A `Trainer` belongs to one worker, and its own memory
ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.networks import network_gradient, network_training, slices
from hogshare.kernels.networks.network_training import Values
from hogshare.kernels.networks.slices import Vectors
from hogshare.kernels.networks.tiles import TALLEST, VECTOR_BYTES, padded
from hogshare.kernels.rules import momentum
from hogshare.problems.kernel_arrays import frozen, line_zeros
from hogshare.problems.layers import LayerPlan
from hogshare.problems.sparse_columns import SparseColumns

STRIP_BYTES = 1 << 14  # bytes of derivatives that stay in the first-level cache until their step
LATE_BYTES = 1 << 20  # size of a first layer above which untouched rows are updated late
LATE_SHARE = 0.25  # largest share of its rows that a mini-batch touches in that case
# bounds on the number of steps in a block: copying a slice must take a small share of the time of
# the steps, and there must be few calls
LOAD_SHARE, FEWEST_STEPS, MOST_STEPS = 0.03, 8, 1 << 12
CALL_PRODUCTS = 1.6e9  # products in a block: about 20 ms, much more than a call's overhead


@dataclass(frozen=True)
class SliceLayout:
    """The layout of a worker's slice of a network, and the sizes of the worker's memory.

    layers : int64 (n_layers, slices.N_COLUMNS), places and sizes of each layer
    n_own : length of the slice
    spare : place in the slice of one extra row of the first layer
    n_numbers : length of the memory for a mini-batch
    n_part : number of values that each worker of the team exchanges in one mini-batch
    strip : number of rows of coefficients whose derivatives are computed at once
    n_slopes : number of these derivatives
    n_flipped : largest number of transposed coefficients of a layer
    """

    layers: np.ndarray
    n_own: int
    spare: int
    n_numbers: int
    n_part: int
    strip: int
    n_slopes: int
    n_flipped: int


def is_trained(plan: LayerPlan) -> bool:
    """Return whether a network has dense layers only, as a `Trainer` requires."""
    return all(row[network_gradient.KIND] == network_gradient.DENSE for row in plan.rows)


def may_team(plan: LayerPlan, size: int, itemsize: int) -> bool:
    """Return whether each of `size` workers would have some units of every hidden layer."""
    vectors = [row[network_gradient.N_OUT] * itemsize / VECTOR_BYTES for row in plan.rows[:-1]]
    return bool(vectors) and min(vectors) > size - 1


def _spans(n_units: int, size: int, itemsize: int) -> list[tuple[int, int]]:
    """Return the units of each worker in a layer: whole vectors, equal in number up to one."""
    lanes = VECTOR_BYTES // itemsize
    n_vectors = -(-n_units // lanes)
    ends = [min(n_units, k * n_vectors // size * lanes) for k in range(size + 1)]
    return list(pairwise(ends))


def layout_of(
    plan: LayerPlan, me: int, size: int, batch: int, itemsize: int, n_dense: int
) -> SliceLayout:
    """Lay out the slice of worker `me`, and memory for mini-batches of `batch` rows.

    n_dense : number of dense columns of the inputs
    """
    last = len(plan.rows) - 1
    layers = np.zeros((last + 1, slices.N_COLUMNS), np.int64)
    n_own = n_part = n_flipped = 0
    n_numbers = padded(batch * n_dense, itemsize)
    span = 0, plan.rows[0][network_gradient.N_IN]  # span of the layer's inputs
    for index, row in enumerate(plan.rows):
        layer, n_out = layers[index], row[network_gradient.N_OUT]
        taken = span
        span = (0, n_out) if index == last else _spans(n_out, size, itemsize)[me]
        n_units = span[1] - span[0]
        first = span[0] if index == 0 else 0  # the first layer is cut by columns
        n_coefs = n_units if index == 0 else n_out
        width = padded(n_coefs, itemsize)
        layer[slices.ACTIVATION] = row[network_gradient.ACTIVATION]
        layer[slices.ROWS] = taken[1] - taken[0]
        layer[slices.WIDTH], layer[slices.COEFS] = width, n_coefs
        layer[slices.VECTOR_WIDTH] = n_out
        begin = 0 if index == 0 else taken[0]
        layer[slices.VECTOR_WEIGHTS] = row[network_gradient.WEIGHTS] + begin * n_out + first
        layer[slices.VECTOR_BIASES] = row[network_gradient.BIASES] + span[0]
        layer[slices.IS_MINE] = index < last or me == 0
        layer[slices.WEIGHTS] = n_own
        n_own += int(layer[slices.ROWS]) * width
        layer[slices.BIASES] = n_own
        own_width = padded(n_units, itemsize)
        n_own += own_width
        layer[slices.OWN], layer[slices.OWN_WIDTH] = n_units, own_width
        layer[slices.FIRST] = span[0] - first
        layer[slices.OUTPUTS] = n_numbers
        layer[slices.SLOPES] = n_numbers + batch * own_width
        n_numbers += batch * (own_width + width)
        if index > 0:
            layer[slices.PARTS], layer[slices.GATHERED] = n_part, n_part + batch * width
            n_part += 2 * batch * width
            n_flipped = max(n_flipped, n_out * int(layers[index - 1, slices.OWN_WIDTH]))
    widest = int(layers[:, slices.WIDTH].max())
    strip = max(1, STRIP_BYTES // (TALLEST * widest * itemsize)) * TALLEST
    return SliceLayout(layers, n_own, n_own, n_numbers, n_part, strip, strip * widest, n_flipped)


def steps_of_block(plan: LayerPlan, values: float, batch: int) -> int:
    """Return the number of mini-batches in a block, so large that copying slices costs little.

    values : mean number of values that are read of a row
    """
    first, others = plan.rows[0], plan.rows[1:]
    hidden = sum(row[network_gradient.N_IN] * row[network_gradient.N_OUT] for row in others)
    products = batch * (values * first[network_gradient.N_OUT] + hidden)
    # copying a number takes about the time of ten products, a step that changes it about two more
    loads = 10.0 * plan.n_params / (LOAD_SHARE * (3.0 * products + 2.0 * plan.n_params))
    # outside the caches, or for a late row, the step of a number takes the time of ten products
    calls = CALL_PRODUCTS / (products + 10.0 * plan.n_params)
    return int(min(MOST_STEPS, max(FEWEST_STEPS, loads, calls)))


class TeamArrays(NamedTuple):
    """Memory that a team shares; it belongs to the session.

    words : int64 (size, layout.WORD), the point that each worker has reached
    exchange : the vector's type (size, 2 * n_part or more), exchanged sums; zeros at the start
    before : the vector's type (3 or fewer, n_params), copies of the vectors before a block's steps
    sorted : values of mini-batches, with the shapes of `shared_values`
    table, control : the run's progress table and control array
    n_layers : number of layers of the network
    saves : whether workers are processes, because a process may die while it writes
    """

    words: np.ndarray
    exchange: np.ndarray
    before: np.ndarray
    sorted: Values
    table: np.ndarray
    control: np.ndarray
    n_layers: int
    saves: bool = False

    def _last_point(self, block: int, n_steps: int) -> int:
        return _first_point(block, self.n_layers) + _points(self.n_layers, n_steps) - 1

    def break_up(self, me: int, block: int, n_steps: int) -> None:
        """End the team, and wait until no other worker writes the elements of a block."""
        points = _first_point(block, self.n_layers), self._last_point(block, n_steps)
        network_training.break_up(self.words.reshape(-1), self.table, me, *points)

    def is_through(self, block: int, n_steps: int) -> bool:
        """Return whether all workers of the team have written the steps of a block."""
        return bool(
            (self.words[:, network_training.HOW_FAR] >= self._last_point(block, n_steps)).all()
        )

    def put_back(self, block: int, vectors: Sequence[np.ndarray]) -> None:
        """Undo a block that only some workers have written: copy `before` to the vectors."""
        if (self.words[:, network_training.WRITES] == _first_point(block, self.n_layers)).any():
            for vector, before in zip(vectors, self.before, strict=False):
                vector[:] = before

    def save(self, me: int, block: int, vectors: Sequence[np.ndarray]) -> None:
        """Copy the vectors to `before`; call this before worker `me` alone overwrites them."""
        for vector, before in zip(vectors, self.before, strict=False):
            before[:] = vector
        self.words[me, network_training.WRITES] = _first_point(block, self.n_layers)

    def note_through(self, block: int, n_steps: int) -> None:
        """Record in all rows of `words` that one worker alone has written a block's steps."""
        self.words[:, network_training.HOW_FAR] = self._last_point(block, n_steps)


def _points(n_layers: int, n_steps: int) -> int:
    """Return the number of synchronisations in a block: 1 at first, those of steps, 3 at last."""
    return 4 + 2 * n_layers * n_steps


def _first_point(block: int, n_layers: int) -> int:
    return 1 + block * _points(n_layers, MOST_STEPS)


class Trainer:
    """A worker's steps on a network; a call takes the steps of a block.

    plan : plan of dense layers
    inputs : the problem's rows, read in place
    targets, weights, loss, alpha : the problem's attributes; the arrays are read in place
    batch : number of rows in a mini-batch; a block's last mini-batch may have fewer
    me : number of the worker in the team
    size : number of workers of the team
    shared : memory of the team, or None if there is one worker
    """

    def __init__(
        self,
        plan: LayerPlan,
        inputs: SparseColumns,
        targets: np.ndarray,
        weights: np.ndarray,
        loss: int,
        alpha: float,
        batch: int,
        me: int = 0,
        size: int = 1,
        shared: TeamArrays | None = None,
    ) -> None:
        self._batch = batch
        kind, n_dense = inputs.dense.dtype, inputs.n_dense
        found = layout_of(plan, me, size, batch, kind.itemsize, n_dense)
        width = int(found.layers[0, slices.WIDTH])
        is_late = are_late(inputs, width, batch)
        n_late = inputs.n_sparse if is_late else 0
        of_net = n_dense, found.strip, loss, alpha, momentum.NONE, found.spare
        self._net = network_training.TeamNetwork(found.layers, *of_net)
        self._n_own = found.spare + width
        self._own = [line_zeros(self._n_own, kind)]
        self._memory = network_training.TrainingMemory(
            line_zeros(found.n_numbers, kind),
            line_zeros(found.n_slopes, kind),
            line_zeros(found.n_flipped, kind),
            line_zeros(width, kind),
            _late(n_late),
            np.zeros(inputs.most_values(batch) + 1 if is_late else 0, np.int64),
            _own_values(inputs, batch) if shared is None or is_late else shared.sorted,
        )
        if shared is None:
            nothing, empty = np.zeros((1, layout.N_TABLE), np.int64), np.zeros((1, 0), kind)
            of_run = self._memory.sorted, nothing, nothing[0], 1
            shared = TeamArrays(nothing[:, : layout.WORD], empty, empty, *of_run)
        words, exchange, self._before, _, table, control, _, saves = shared
        places = words.reshape(-1), exchange.reshape(-1), found.n_part, exchange.shape[1]
        self._team = network_training.Team(me, size, int(saves), *places, table, control)
        # without the last fields, `counts` and `n_dense`: `_net` has `n_dense`
        self._inputs = network_training.Inputs(*inputs[:-2], targets, weights)

    def __call__(
        self, w: np.ndarray, rows: np.ndarray, descents: tuple[Any, ...], block: int
    ) -> float | None:
        """Take the steps of a block; return this worker's share of the summed losses, or None.

        w : shape (n_params,), overwritten; each worker of a team writes its own elements
        rows : int64, rows of the mini-batches in the order of the steps
        descents : arguments of the steps, from `Rule.descents`; their arrays are overwritten
        block : number of the block in the run, the same for the whole team

        All workers of the team must call this with the same rows. Returns None if a worker of the
        team is gone, and NaN if values have overflowed. In both cases this worker has not written
        `w` and the arrays of `descents`. There is one exception: if workers are processes and one
        is gone at the end of a block, other workers may have written; `TeamArrays.put_back` undoes
        this.
        """
        kind, first, second, steps = descents
        numbers = np.zeros((len(steps), slices.N_NUMBERS))
        numbers[:, : slices.FACTOR] = steps
        n_vectors = {momentum.PLAIN: 1, momentum.ADAM: 3}.get(kind, 2)
        while len(self._own) < n_vectors:
            self._own.append(line_zeros(self._n_own, w.dtype))
        own = self._own[:n_vectors]
        own += own[:1] * (3 - n_vectors)
        given = [w if array is None else array for array in (first, second)]
        late = self._memory.late
        if len(late.stamps) and len(late.powers) <= len(steps):
            late = late._replace(powers=_powers(len(steps)))
            self._memory = self._memory._replace(late=late)
        before = [self._before[min(k, len(self._before) - 1)] for k in range(3)]
        loss, is_whole = network_training.train(
            self._net._replace(rule=kind),
            Vectors(w, *given),
            Vectors(*before),
            Vectors(*own),
            self._memory,
            self._team,
            self._inputs,
            frozen(rows) if rows.flags.writeable else rows,
            self._batch,
            numbers,
            _first_point(block, len(self._net.layers)),
        )
        return float(loss) if is_whole else None


def are_late(inputs: SparseColumns, width: int, batch: int) -> bool:
    """Return whether untouched rows of a wide first layer are updated late, not in every step.

    Late updates save time if a mini-batch touches few rows of the layer.

    width : length of a row of the layer in this worker's slice
    """
    if len(inputs.indptr) < 2:
        return False
    is_wide = inputs.n_sparse * width * inputs.dense.itemsize > LATE_BYTES
    touched = inputs.touched(len(inputs.indptr) - 1, batch)
    return is_wide and touched < LATE_SHARE * inputs.n_sparse


def values_of(
    inputs: SparseColumns, batch: int, copies: int
) -> dict[str, tuple[tuple[int, int], str]]:
    """Return the shapes and dtypes of `Values`, for mini-batches of `batch` rows."""
    most = inputs.most_values(batch)
    return {
        "ends": ((copies, inputs.n_sparse), "int64"),
        "rows": ((copies, most), "uint32"),
        "values": ((copies, most), inputs.dense.dtype.name),
    }


def _own_values(inputs: SparseColumns, batch: int) -> Values:
    return Values(*(np.zeros(*made) for made in values_of(inputs, batch, 1).values()))


def shared_values(
    plan: LayerPlan, inputs: SparseColumns, batch: int, size: int
) -> dict[str, tuple[tuple[int, int], str]]:
    """Return shapes as `values_of` does, for a team; 0 copies if the first worker sorts alone."""
    first = layout_of(plan, 0, size, batch, inputs.dense.itemsize, inputs.n_dense).layers[0]
    late = are_late(inputs, int(first[slices.WIDTH]), batch)
    return values_of(inputs, batch, 0 if late else 2)


def _late(n_columns: int) -> slices.LazyRows:
    return slices.LazyRows(np.zeros(n_columns, np.int64), _powers(0), np.zeros(1, np.int64))


def _powers(n_steps: int) -> np.ndarray:
    return np.zeros((n_steps + 1, slices.N_POWERS))
