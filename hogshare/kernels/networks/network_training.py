"""Many mini-batches of a network of dense layers in one call: forward, backward, step for each.

A worker computes with its slice of the network (`hogshare.kernels.networks.slices`), for all rows
of a mini-batch. Several workers form a *team*: each has some of the units of every hidden layer. At
each later layer the workers of a team exchange their parts of every row's sums, and the derivatives
for each other's units. They *meet* at numbered points: no worker goes on until all have reached the
point. So two workers with one hidden layer meet once per mini-batch, and exchange as many values
per row as there are outputs. For any team a step equals the step of one worker, up to rounding.

Sparse rows are read in place, as places and values; zeros take no time. For the backward pass the
mini-batch is sorted by columns, so each row of coefficients is read and written once. The first
worker sorts for the team, because it has the fewest units. If the rows of a wide first layer are
late (`LazyRows`), each worker sorts for itself, because it must know these rows before it can
begin.

Writers: a worker writes its slice, its memory and its own part of `exchange`. The first worker
writes the sorted values. Other workers read a part, or the sorted values, after the writer has
raised its number in `words` (releasing). At a block's end, when all workers of the team have
reached it, each worker writes its own coefficients and biases to the vector. A part, and the sorted
values, are overwritten two mini-batches later; all workers have met in between.

A process may die while it writes the vector. So workers that are processes take four steps. (1)
Each copies the values that it will overwrite to `before`. (2) They meet, so none writes until all
have copied. (3) Each notes in `words` that it begins to write. (4) They meet when all have written.
A worker that goes on alone first breaks up the team. It waits until each other worker is dead, has
left the block, or has not begun the block (and will not begin it). After that no other worker
writes, and the words of gone workers may be raised. If a worker has begun to write and not all have
finished, the remaining worker restores the vector from `before`
(`hogshare.problems.network_trainer`). The session owns and frees `exchange`, `words`, `before` and
a team's sorted values.

Source of the partition: Shoeybi et al. 2019, Megatron-LM, section 3. Departure: the source cuts
layers in pairs; this file cuts every later layer by its inputs.
"""

import math
from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import fence, prefetch
from hogshare.kernels.jit.atomics import load as load_word
from hogshare.kernels.jit.atomics import store as store_word
from hogshare.kernels.jit.decorators import JIT_DISABLED, helper, kernel
from hogshare.kernels.jit.host import yield_core
from hogshare.kernels.networks.dense_layers import (
    AHEAD,
    LINE,
    finish,
    gather_dense,
    through_activation,
)
from hogshare.kernels.networks.dense_layers import sum_rows as add_up
from hogshare.kernels.networks.output_layers import end_row
from hogshare.kernels.networks.padded_matrices import flip
from hogshare.kernels.networks.slices import (
    ACTIVATION,
    BIASES,
    COEFS,
    DECAY,
    FACTOR,
    FIRST,
    GATHERED,
    OUTPUTS,
    OWN,
    OWN_WIDTH,
    PARTS,
    ROWS,
    SLOPES,
    SQUARES,
    WEIGHT,
    WEIGHTS,
    WIDTH,
    LazyRows,
    count_step,
    is_finite,
    load,
    move,
    refresh,
    save,
    store,
)
from hogshare.kernels.networks.tiles import product, sum_rows
from hogshare.kernels.rules.momentum import ADAM

FAR = 6  # number of rows ahead of the present one at which coefficients are prefetched
HOW_FAR, WRITES, LEFT = 0, 1, 2  # points in a worker's words; LEFT: of the last block that it left
BROKEN = 3  # in the first worker's words: 1 after the team has been broken up
POLLS = 20 if JIT_DISABLED else 2_000  # polls of a word before the core is given up once


class Inputs(NamedTuple):
    """The rows' dense and sparse columns, and the rows' targets and weights.

    dense : float (n_rows * n_dense,), the columns that are mostly nonzero
    data, indices, indptr : CSR rows of the other columns, numbered from 0; empty if there are none
    order : int64 (n_inputs,), number of the input in each column; dense columns come first
    targets, weights : targets and weights of the rows
    """

    dense: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    order: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


class TeamNetwork(NamedTuple):
    """A network, in the layout of one worker of a team.

    layers : int64 (n_layers, N_COLUMNS), see `hogshare.kernels.networks.slices`
    n_dense : number of the inputs' columns that are read densely
    strip : number of rows of coefficients whose derivatives are computed at once; `slopes` has as
        many rows
    loss : code of the loss, see `hogshare.kernels.networks.output_layers`
    alpha : strength of the penalty
    rule : kind of a step, one of `hogshare.kernels.rules.momentum`
    spare : scratch place in a slice for one row of the first layer
    """

    layers: np.ndarray
    n_dense: int
    strip: int
    loss: int
    alpha: float
    rule: int
    spare: int


class Values(NamedTuple):
    """The values of a mini-batch's sparse rows, by columns.

    A team has two copies, for mini-batches of even and of odd numbers.

    ends : int64 (2 or 1, n_sparse), end of each column's values; if columns are late, zeros between
        two mini-batches
    rows : uint32 (2 or 1, most), the mini-batch's row of each value
    values : float (2 or 1, most), the values
    """

    ends: np.ndarray
    rows: np.ndarray
    values: np.ndarray


class TrainingMemory(NamedTuple):
    """A worker's memory for its computations.

    numbers : inputs, outputs and derivatives of a mini-batch's rows
    slopes : derivatives with respect to a strip of coefficients
    flipped : a layer's coefficients, transposed
    nothing : zeros
    late : `hogshare.kernels.networks.slices.LazyRows`, by sparse columns
    touched : int64, the columns in which a mini-batch has values, if columns are late; otherwise
        empty
    sorted : `Values` of the mini-batch; the workers of a team share it
    """

    numbers: np.ndarray
    slopes: np.ndarray
    flipped: np.ndarray
    nothing: np.ndarray
    late: LazyRows
    touched: np.ndarray
    sorted: Values


class Team(NamedTuple):
    """The workers that compute mini-batches together.

    me : this worker's number in the team
    size : number of workers of the team
    saves : 1 if values of the vector are copied before they are overwritten, otherwise 0
    words : int64 (size * layout.WORD,), for each worker the point that it has reached, and the
        first point of the block that it writes to the vector
    exchange : float (size * stride,), the exchanged values: for each worker a part for mini-batches
        of even numbers, and a part for mini-batches of odd numbers
    part : number of values of a part
    stride : distance from one worker's parts to the next worker's parts
    table, control : the run's progress table and control words
    """

    me: int
    size: int
    saves: int
    words: np.ndarray
    exchange: np.ndarray
    part: int
    stride: int
    table: np.ndarray
    control: np.ndarray


@helper
def meet(team, number, may_leave):
    """Reach a point, and wait until all workers of the team have reached it.

    Return False if another worker will not come.

    number : number of the point in the run
    may_leave : whether other workers may stay away because the run is stopped
    """
    store_word(team.words, team.me * layout.WORD, number)
    if may_leave:
        # either this worker sees BROKEN, or `break_up` sees that this worker has begun
        fence()
    for k in range(team.size):
        polls = 0
        while load_word(team.words, k * layout.WORD) < number:
            polls += 1
            if polls % POLLS == 0:
                if load_word(team.words, BROKEN) != 0:
                    return False
                state = load_word(team.table[k], layout.T_STATE)
                if state == layout.DEAD or state == layout.DONE:
                    return False
                if may_leave and load_word(team.control, layout.STOP) != layout.RUNNING:
                    return False
                yield_core()
    # polled again: a worker that goes on alone raises the words of all workers
    return load_word(team.words, BROKEN) == 0


@kernel
def break_up(words, table, me, point, last):
    """End the team, and wait until no other worker computes a block or writes its results.

    point : the block's first point
    last : the block's last point, at which all workers have written their results
    """
    store_word(words, BROKEN, 1)
    fence()  # before the others' words are read, see `meet`
    for k in range(words.shape[0] // layout.WORD):
        while k != me:
            at, left = load_word(words, k * layout.WORD), load_word(words, k * layout.WORD + LEFT)
            if at < point or at >= last or left >= point:
                break
            state = load_word(table[k], layout.T_STATE)
            if state == layout.DEAD or state == layout.DONE:
                break
            yield_core()


@helper
def ask_for_sparse(rows, i, inputs):
    """Prefetch the sparse part of a row."""
    if i >= rows.shape[0]:
        return
    data, indices = inputs.data, inputs.indices
    begin, end = inputs.indptr[rows[i]], inputs.indptr[rows[i] + 1]
    for place in range(begin, end, LINE // data.itemsize):
        prefetch(data, place)
    for place in range(begin, end, LINE // indices.itemsize):
        prefetch(indices, place)


@helper
def ask_for_row(layer, column, own, stamps):
    """Prefetch a row of the first layer, and its velocity."""
    at = layer[WEIGHTS] + (layer[ROWS] - stamps.shape[0] + column) * layer[WIDTH]
    for j in range(0, layer[WIDTH], LINE // own.w.itemsize):
        prefetch(own.w, at + j)
        prefetch(own.first, at + j)


@helper
def count_by_columns(rows, inputs, touched, ends):
    """Count a mini-batch's values by columns; return the number of columns to process.

    touched : int64, overwritten with the columns that have values, if columns are late; if empty,
        all columns are processed
    ends : int64 (n_sparse,), overwritten with the number of values of each column
    """
    indices, n_touched = inputs.indices, 0
    if touched.shape[0] == 0:
        ends[:] = 0
    for i in range(rows.shape[0]):
        ask_for_sparse(rows, i + AHEAD, inputs)
        begin, end = inputs.indptr[rows[i]], inputs.indptr[rows[i] + 1]
        if touched.shape[0] == 0:
            for place in range(begin, end):
                ends[indices[place]] += 1
            continue
        for place in range(begin, end):
            column = np.int64(indices[place])
            touched[n_touched] = column  # if the column is not new, the next one overwrites it
            n_touched += ends[column] == 0
            ends[column] += 1
    return n_touched if touched.shape[0] > 0 else ends.shape[0]


@helper
def sort_by_columns(rows, inputs, touched, ends, who, values):
    """Sort a mini-batch's values by columns; return the number of columns to process."""
    n_columns, end = count_by_columns(rows, inputs, touched, ends), 0
    for k in range(n_columns):
        column = touched[k] if touched.shape[0] > 0 else k
        count = ends[column]
        ends[column] = end
        end += count
    for i in range(rows.shape[0]):
        for place in range(inputs.indptr[rows[i]], inputs.indptr[rows[i] + 1]):
            column = np.int64(inputs.indices[place])
            k = ends[column]
            ends[column] = k + 1
            who[k] = i
            values[k] = inputs.data[place]
    return n_columns


@helper
def part_of(team, worker, parity):
    """Return the start of a worker's part of `exchange`, for mini-batches of this parity."""
    return worker * team.stride + parity * team.part


@helper
def finish_layer(layer, own, numbers, n):
    """Add the biases to the sums of this worker's units, and apply the activation."""
    biases = own.w[layer[BIASES] : layer[BIASES] + layer[OWN]]
    finish(numbers, layer[OUTPUTS], n, layer[OWN_WIDTH], biases, layer[ACTIVATION])


@helper
def go_forward(net, own, memory, team, inputs, rows, step, point):
    """Compute each layer's outputs, and the last layer's sums; return False if a worker is lost.

    point : number of the first point at which the team meets in this mini-batch
    """
    layers, numbers, n = net.layers, memory.numbers, rows.shape[0]
    last = layers.shape[0] - 1
    layer = layers[0]
    width, out = layer[WIDTH], layer[OUTPUTS]
    n_dense = net.n_dense
    factors = numbers, 0, n_dense, 1, own.w, layer[WEIGHTS], width
    product(n, n_dense, width, *factors, numbers, out, width, 0)
    if inputs.indptr.shape[0] > 0:
        first = layer[WEIGHTS] + n_dense * width
        for i in range(n):
            begin, end = inputs.indptr[rows[i]], inputs.indptr[rows[i] + 1]
            values = end - begin, inputs.data, begin, inputs.indices, begin
            sum_rows(*values, own.w, first, width, width, numbers, out + i * width)
    finish_layer(layer, own, numbers, n)
    for index in range(1, last + 1):
        before, layer = layers[index - 1], layers[index]
        width, out = layer[WIDTH], layer[OUTPUTS]
        left = numbers, before[OUTPUTS], before[OWN_WIDTH], 1
        right = own.w, layer[WEIGHTS], width
        if team.size == 1:
            product(n, layer[ROWS], width, *left, *right, numbers, out, width, 0)
        else:
            at = part_of(team, team.me, step % 2) + layer[PARTS]
            product(n, layer[ROWS], width, *left, *right, team.exchange, at, width, 0)
            if not meet(team, point + index - 1, False):
                return False
            add_parts(team, step % 2, layer, n, numbers)
        finish_layer(layer, own, numbers, n)
    return True


@helper
def add_parts(team, parity, layer, n, numbers):
    """Overwrite the sums of this worker's units with all workers' parts, added in worker order."""
    width, count = layer[WIDTH], layer[OWN]
    for i in range(n):
        begin = layer[OUTPUTS] + i * layer[OWN_WIDTH]
        into = numbers[begin : begin + count]
        into[:] = numbers.dtype.type(0.0)
        for k in range(team.size):
            at = part_of(team, k, parity) + layer[PARTS] + i * width + layer[FIRST]
            part = team.exchange[at : at + count]
            for j in range(count):
                into[j] += part[j]


@helper
def exchange_slopes(team, parity, layer, n, numbers, point):
    """Gather the derivatives with respect to all sums of a hidden layer, from all workers.

    Each worker has computed the derivatives for its own units. In its part of `exchange` the
    derivatives for the other units are always zeros, so the parts are added up. Return False if a
    worker is lost.
    """
    width, count, first = layer[WIDTH], layer[OWN], layer[FIRST]
    begin = part_of(team, team.me, parity) + layer[GATHERED]
    for i in range(n):
        at = i * width + first
        own = numbers[layer[SLOPES] + at : layer[SLOPES] + at + count]
        into = team.exchange[begin + at : begin + at + count]
        for j in range(count):
            into[j] = own[j]
    if not meet(team, point, False):
        return False
    out = numbers[layer[SLOPES] : layer[SLOPES] + n * width]
    out[:] = numbers.dtype.type(0.0)
    for k in range(team.size):
        at = part_of(team, k, parity) + layer[GATHERED]
        part = team.exchange[at : at + n * width]
        for j in range(n * width):
            out[j] += part[j]
    return True


@helper
def move_biases(layer, own, memory, n, kind, numbers):
    """Take a step of this worker's biases."""
    count = layer[OWN]
    sums = memory.slopes[:count]
    add_up(memory.numbers, layer[SLOPES] + layer[FIRST], n, layer[WIDTH], sums)
    decay, numbers[DECAY] = numbers[DECAY], 0.0
    move(own, layer[BIASES], memory.late.together, 0, 1, count, sums, kind, numbers)
    numbers[DECAY] = decay


@helper
def move_dense(net, layer, own, memory, n, count, left, left_width, numbers):
    """Take a step of the first `count` rows of a layer's coefficients, strip by strip.

    own : the worker's slice, which only this worker writes: coefficients, and the rule's state
    n : number of rows of the mini-batch, whose derivatives are in ``memory.numbers``
    numbers : the numbers of the step, see `slices`, not ``memory.numbers``; SQUARES is increased
    left : start in memory of the inputs of these rows
    left_width : length of the inputs' rows
    """
    width, slopes = layer[WIDTH], memory.slopes
    for low in range(0, count, net.strip):
        n_strip = min(net.strip, count - low)
        factors = memory.numbers, left + low, 1, left_width, memory.numbers, layer[SLOPES], width
        product(n_strip, n, width, *factors, slopes, 0, width, 0)
        at = layer[WEIGHTS] + low * width
        together = memory.late.together, 0, 1, n_strip * width
        numbers[SQUARES] += move(own, at, *together, slopes, net.rule, numbers)


@helper
def move_sparse(net, layer, own, memory, n_columns, numbers, step):
    """Take a step of the first layer's rows for sparse columns, in the order of sorted values.

    n_columns : number of columns in which the mini-batch has values, if columns are late; otherwise
        number of all columns
    """
    width, slopes, stamps, touched = layer[WIDTH], memory.slopes, memory.late.stamps, memory.touched
    by_columns, is_late = memory.sorted, stamps.shape[0] > 0
    copy, at = step % by_columns.ends.shape[0], 0
    ends, who, values = by_columns.ends[copy], by_columns.rows[copy], by_columns.values[copy]
    begin = layer[WEIGHTS] + net.n_dense * width
    for low in range(0, n_columns, net.strip):
        n_strip = min(net.strip, n_columns - low)
        slopes[: n_strip * width] = slopes.dtype.type(0.0)
        for k in range(n_strip):
            column = touched[low + k] if is_late else low + k
            end = ends[column]
            if end > at:
                rows = memory.numbers, layer[SLOPES], width, width
                sum_rows(end - at, values, at, who, at, *rows, slopes, k * width)
                at = end
            if is_late:
                ends[column] = 0
                stamps[column] = step + 1
        if is_late:
            squares = move(own, begin, touched, low, n_strip, width, slopes, net.rule, numbers)
        else:
            together = memory.late.together, 0, 1, n_strip * width
            squares = move(own, begin + low * width, *together, slopes, net.rule, numbers)
        numbers[SQUARES] += squares


@helper
def through_own_units(layer, numbers, n):
    """Multiply the derivatives for this worker's units, in place, by the activation's derivative.

    Before the call they are derivatives with respect to outputs, after it with respect to sums.
    """
    count = layer[OWN]
    for i in range(n):
        outputs = layer[OUTPUTS] + i * layer[OWN_WIDTH]
        slopes = layer[SLOPES] + i * layer[WIDTH] + layer[FIRST]
        a, delta = numbers[outputs : outputs + count], numbers[slopes : slopes + count]
        through_activation(a, delta, layer[ACTIVATION])


@helper
def go_back(net, own, memory, team, n, n_columns, numbers, step, point):
    """Do the backward pass, and take a step of all layers; return False if a worker is lost.

    It starts from the derivatives with respect to the last layer's sums.

    n_columns : see `move_sparse`
    """
    layers = net.layers
    for index in range(layers.shape[0] - 1, 0, -1):
        before, layer = layers[index - 1], layers[index]
        width, into, into_width = layer[WIDTH], before[SLOPES], before[WIDTH]
        n_sums = layer[COEFS]
        coefs = own.w, layer[WEIGHTS], width
        flip(layer[ROWS], n_sums, *coefs, memory.flipped, 0, before[OWN_WIDTH])
        left = memory.numbers, layer[SLOPES], width, 1
        right = memory.flipped, 0, before[OWN_WIDTH]
        first = into + before[FIRST]
        product(n, n_sums, before[OWN_WIDTH], *left, *right, memory.numbers, first, into_width, 0)
        through_own_units(before, memory.numbers, n)
        if team.size > 1 and index > 1:
            if not exchange_slopes(team, step % 2, before, n, memory.numbers, point):
                return False
            point += 1
        left = layer[ROWS], before[OUTPUTS], before[OWN_WIDTH]
        move_dense(net, layer, own, memory, n, *left, numbers)
        move_biases(layer, own, memory, n, net.rule, numbers)
    layer = layers[0]
    move_dense(net, layer, own, memory, n, net.n_dense, 0, net.n_dense, numbers)
    move_sparse(net, layer, own, memory, n_columns, numbers, step)
    move_biases(layer, own, memory, n, net.rule, numbers)
    return True


@helper
def end_rows(net, memory, inputs, rows):
    """Write the derivatives with respect to the last layer's sums; return the sum of losses."""
    layer = net.layers[net.layers.shape[0] - 1]
    total, n_targets, count = 0.0, inputs.targets.shape[1], layer[OWN]
    for i in range(rows.shape[0]):
        row = rows[i]
        weight = np.float64(inputs.weights[row]) if inputs.weights.shape[0] else 1.0
        at, slopes = layer[OUTPUTS] + i * layer[OWN_WIDTH], layer[SLOPES] + i * layer[WIDTH]
        z, delta = memory.numbers[at : at + count], memory.numbers[slopes : slopes + count]
        total += end_row(z, inputs.targets[row, :n_targets], net.loss, weight, delta)
    return total


@helper
def weigh(net, inputs, order, batch, numbers):
    """Set the factors of each mini-batch in `numbers`.

    FACTOR, the factor of its sums, is one over the sum of its rows' weights; without weights, one
    over the number of its rows. WEIGHT, the factor of its loss, scales the mean weight of its rows
    to one. If all rows weigh zero, FACTOR is 0 and WEIGHT is 1.
    """
    for step in range(numbers.shape[0]):
        first, end = step * batch, min(order.shape[0], (step + 1) * batch)
        weight = np.float64(end - first)
        if inputs.weights.shape[0]:
            weight = 0.0
            for i in range(first, end):
                weight += np.float64(inputs.weights[order[i]])
        share = 1.0 / weight if weight > 0.0 else 0.0
        numbers[step, FACTOR], numbers[step, DECAY] = share, net.alpha * share
        numbers[step, WEIGHT] = share * (end - first) if share > 0.0 else 1.0
        numbers[step, SQUARES] = 0.0


@helper
def one_step(net, own, vectors, memory, team, inputs, rows, numbers, step, point):
    """Take a mini-batch's step.

    Return the sum of its rows' losses, and whether no worker is lost. If the sum is not finite, no
    step is taken.
    """
    by_columns, is_late = memory.sorted, memory.late.stamps.shape[0] > 0
    copy, n_columns = step % by_columns.ends.shape[0], by_columns.ends.shape[1]
    gather_dense(rows, inputs.dense, net.n_dense, net.n_dense, memory.numbers)
    if inputs.indptr.shape[0] > 0 and (team.me == 0 or is_late):
        into = by_columns.ends[copy], by_columns.rows[copy], by_columns.values[copy]
        n_columns = sort_by_columns(rows, inputs, memory.touched, *into)
    if is_late:
        if net.rule != ADAM and step > 0:
            count_step(memory.late.powers, step - 1, net.rule, numbers[step - 1])
        late = memory.late, memory.nothing, numbers, step
        for k in range(n_columns):
            if k + FAR < n_columns:
                ask_for_row(net.layers[0], memory.touched[k + FAR], own, memory.late.stamps)
            of_row = inputs.order, memory.touched[k], net.rule
            refresh(net.layers[0], *of_row, vectors, own, *late)
    if not go_forward(net, own, memory, team, inputs, rows, step, point):
        return 0.0, False
    total = end_rows(net, memory, inputs, rows)
    if not math.isfinite(total):
        return total, True
    of_batch = rows.shape[0], n_columns, numbers[step], step
    all_arrived = go_back(net, own, memory, team, *of_batch, point + net.layers.shape[0] - 1)
    return total, all_arrived


@helper
def take_steps(net, vectors, before, own, memory, team, inputs, order, batch, numbers, point):
    """Do the work of `train`, except that the worker does not leave the team at the end."""
    n_steps, n_points = numbers.shape[0], 2 * net.layers.shape[0]
    if team.size > 1 and not meet(team, point, True):
        return 0.0, False
    load(net.layers, inputs.order, net.rule, vectors, own, memory.late.stamps)
    weigh(net, inputs, order, batch, numbers)
    total = 0.0
    for step in range(n_steps):
        rows = order[step * batch : min(order.shape[0], (step + 1) * batch)]
        at = point + 1 + step * n_points
        of_step = inputs, rows, numbers, step, at
        loss, all_arrived = one_step(net, own, vectors, memory, team, *of_step)
        if not all_arrived:
            return 0.0, False
        if not math.isfinite(loss):
            return loss, True
        if team.me == 0:
            total += loss * numbers[step, WEIGHT]
    is_whole = is_finite(net.layers, own, memory.late.stamps)
    at = point + 1 + n_steps * n_points
    if team.size > 1 and not meet(team, at, False):
        return 0.0, False
    if team.saves:
        save(net.layers, inputs.order, net.rule, vectors, before)
        if not meet(team, at + 1, False):
            return 0.0, False
        store_word(team.words, team.me * layout.WORD + WRITES, point)
    late = memory.late, net.spare, memory.nothing, numbers
    if memory.late.stamps.shape[0] > 0 and net.rule != ADAM:
        count_step(memory.late.powers, n_steps - 1, net.rule, numbers[n_steps - 1])
    if is_whole:
        store(net.layers, inputs.order, net.rule, vectors, own, *late)
    if team.saves and not meet(team, at + 2, False):
        return 0.0, False
    if not is_whole:
        return math.nan, True
    for step in range(n_steps):
        total += 0.5 * net.alpha * numbers[step, SQUARES] * numbers[step, WEIGHT]
    return total, True


@kernel
def train(net, vectors, before, own, memory, team, inputs, order, batch, numbers, point):
    """Take the steps of a block's mini-batches; return their loss, and whether it is valid.

    The returned loss is the worker's share of the team's loss: the penalty of its own coefficients,
    and for the first worker also the rows' losses. If a worker of the team is lost, the loss is not
    valid. If the losses or the coefficients are not finite, the loss is not finite. In both cases
    nothing is written to `vectors`.

    vectors : `Vectors` of the run
    before : `Vectors` of the same length, for copies
    own : `Vectors` of this worker's slice
    order : int64, the rows of the mini-batches
    batch : number of rows of a mini-batch; the last mini-batch may have fewer
    numbers : float64 (n_steps, N_NUMBERS), the factors of each step, see `slices`; the rule's four
        are read, the others are written
    point : number of the first point at which the team meets; each mini-batch has twice as many
        points as there are layers, and three points follow at the end
    """
    of_block = inputs, order, batch, numbers, point
    total, is_so = take_steps(net, vectors, before, own, memory, team, *of_block)
    # after all writes: `break_up` does not wait for a worker that has left the block
    store_word(team.words, team.me * layout.WORD + LEFT, point)
    return total, is_so
