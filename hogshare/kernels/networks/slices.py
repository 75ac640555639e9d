"""A worker's slice of a network's parameters, in its own memory, from a block's start to its end.

The slice of the first layer consists of the columns of some units. The slice of every later layer
consists of the rows of coefficients that multiply the outputs of the worker's units in the layer
before. A single worker's slice is the whole network. A slice is laid out for the products of
`tiles`: rows are whole vectors long, and the values beyond the columns are zero and remain zero.
The rule's state has the same layout.

A mini-batch *touches* a row of the first layer if it has a value in the row's column. If
mini-batches touch few rows of a large first layer, its rows are *late*: a row is loaded when a
mini-batch touches it, and takes the steps that it has missed. In a missed step only the penalty and
the momentum change the row. With linear rules a product of 2 x 2 matrices takes all missed steps at
once. With Adam they are taken one after another, in the nearest cache.

Writers: the worker writes its own slice. At a block's end it writes the slice's parameters to the
vector, and also writes their state; no other worker reads either at that time. The worker owns and
frees its slice.
"""

import math
from typing import NamedTuple

import numpy as np

from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.rules.momentum import ADAM, AHEAD, HEAVY, PLAIN

# columns of the table of layers
ACTIVATION = 0
WEIGHTS, ROWS, WIDTH = 1, 2, 3  # place in the slice of the coefficients, rows, their length
COEFS = 4  # number of a row's columns that are coefficients
BIASES = 5  # place in the slice
VECTOR_WEIGHTS, VECTOR_WIDTH, VECTOR_BIASES = 6, 7, 8  # places in the vector
IS_MINE = 9  # whether this worker writes the biases back
OUTPUTS, OWN, OWN_WIDTH, FIRST = 10, 11, 12, 13  # place in memory; own units: number, padded, first
SLOPES = 14  # place in memory of the derivatives with respect to the sums, in rows of WIDTH
PARTS, GATHERED = 15, 16  # places in a worker's part of `exchange`: of sums, and of derivatives
N_COLUMNS = 17

ETA, SHARE_1, SHARE_2, LEAST, FACTOR, DECAY, WEIGHT, SQUARES = range(8)  # places in `numbers`
N_NUMBERS = 8
UNKNOWN = -1  # a row that the slice does not have yet
# effect of some consecutive steps without a gradient: four coefficients that give a parameter and
# its velocity after the steps from both before the steps, and three coefficients that give the sum
# of the parameter's squares before each step
FROM_W, FROM_V, V_FROM_W, V_FROM_V, OF_WW, OF_WV, OF_VV = range(7)
N_POWERS = 7


class Vectors(NamedTuple):
    """The vector and its rule's state, of a run or of a slice.

    w, first, second : float (n,), the vector and its state; a rule without `first` or `second` has
        `w` in the place of the missing array
    """

    w: np.ndarray
    first: np.ndarray
    second: np.ndarray


class LazyRows(NamedTuple):
    """Rows of the first layer that are loaded, and take steps, when a mini-batch touches them.

    stamps : int64, the step that each row has reached; empty if all rows take every step
    powers : float64 (n_steps + 1, N_POWERS); row k is the effect of the last k steps without a
        gradient
    together : int64 (1,), zero; it is passed as `places` to `move` if adjacent rows take a step as
        one long row
    """

    stamps: np.ndarray
    powers: np.ndarray
    together: np.ndarray


@helper
def move(own, begin, places, first, n_rows, width, slopes, kind, numbers):
    """Take a step of some rows of a slice; return the sum of their squares before the step.

    The steps are the same as in `hogshare.kernels.rules.momentum.make_step`.

    begin : start of row 0 in the slice; row k of the step is row ``places[first + k]`` of the slice
    slopes : float (n_rows * width,), sums of derivatives; times FACTOR they are means
    numbers : float64 (N_NUMBERS,); the penalty adds DECAY times a parameter to its derivative
    """
    number = own.w.dtype.type
    size, old_1, old_2 = number(numbers[ETA]), number(numbers[SHARE_1]), number(numbers[SHARE_2])
    new_1, new_2 = number(1.0 - numbers[SHARE_1]), number(1.0 - numbers[SHARE_2])
    least, factor = number(numbers[LEAST]), number(numbers[FACTOR])
    decay, squares = number(numbers[DECAY]), number(0.0)
    for k in range(n_rows):
        at = begin + places[first + k] * width
        w, gradient = own.w[at : at + width], slopes[k * width : (k + 1) * width]
        once, twice = own.first[at : at + width], own.second[at : at + width]
        if kind == PLAIN:
            for j in range(width):
                x = w[j]
                squares += x * x
                w[j] = x - size * (factor * gradient[j] + decay * x)
        elif kind == HEAVY:
            for j in range(width):
                x = w[j]
                squares += x * x
                velocity = old_1 * once[j] + size * (factor * gradient[j] + decay * x)
                once[j] = velocity
                w[j] = x - velocity
        elif kind == AHEAD:
            for j in range(width):
                x = w[j]
                squares += x * x
                fresh = size * (factor * gradient[j] + decay * x)
                velocity = old_1 * once[j] + fresh
                once[j] = velocity
                w[j] = x - (old_1 * velocity + fresh)
        elif kind == ADAM:
            for j in range(width):
                x = w[j]
                squares += x * x
                slope = factor * gradient[j] + decay * x
                mean = old_1 * once[j] + new_1 * slope
                square = old_2 * twice[j] + new_2 * (slope * slope)
                once[j], twice[j] = mean, square
                w[j] = x - size * mean / (number(math.sqrt(square)) + least)
    return squares


@helper
def copy_run(source, begin, into, at, count):
    """Copy `count` values."""
    run, out = source[begin : begin + count], into[at : at + count]
    for j in range(count):
        out[j] = run[j]


@helper
def copy_vectors(kind, source, begin, into, at, count):
    """Copy `count` parameters and their state of the rule."""
    copy_run(source.w, begin, into.w, at, count)
    if kind != PLAIN:
        copy_run(source.first, begin, into.first, at, count)
    if kind == ADAM:
        copy_run(source.second, begin, into.second, at, count)


@helper
def copy_rows(layer, count, order, kind, vectors, own, loads):
    """Copy the first `count` rows of a layer's coefficients from the vector into a slice, or back.

    order : row of the vector for each row of the slice; if empty, both have the same order
    loads : whether to copy into the slice; if not, rows are copied into the vector
    """
    for r in range(count):
        row = order[r] if order.shape[0] > 0 else r
        outer = layer[VECTOR_WEIGHTS] + row * layer[VECTOR_WIDTH]
        inner = layer[WEIGHTS] + r * layer[WIDTH]
        if loads:
            copy_vectors(kind, vectors, outer, own, inner, layer[COEFS])
        else:
            copy_vectors(kind, own, inner, vectors, outer, layer[COEFS])


@helper
def save(layers, order, kind, vectors, before):
    """Copy to `before` the values of the vector that a slice will overwrite.

    After a worker's death they are restored from `before`.
    """
    for index in range(layers.shape[0]):
        layer = layers[index]
        for r in range(layer[ROWS]):
            row = order[r] if index == 0 else r
            at = layer[VECTOR_WEIGHTS] + row * layer[VECTOR_WIDTH]
            copy_vectors(kind, vectors, at, before, at, layer[COEFS])
        if layer[IS_MINE]:
            at = layer[VECTOR_BIASES]
            copy_vectors(kind, vectors, at, before, at, layer[OWN])


@helper
def rows_at_once(layers, index, stamps):
    """Return the number of a layer's rows without stamps; they are loaded with the slice."""
    return layers[index, ROWS] - (stamps.shape[0] if index == 0 else 0)


@helper
def load(layers, order, kind, vectors, own, stamps):
    """Fill a slice from the vector, except late rows of the first layer; set stamps to UNKNOWN."""
    stamps[:] = UNKNOWN
    for index in range(layers.shape[0]):
        layer, count = layers[index], rows_at_once(layers, index, stamps)
        copy_rows(layer, count, order if index == 0 else order[:0], kind, vectors, own, True)
        copy_vectors(kind, vectors, layer[VECTOR_BIASES], own, layer[BIASES], layer[OWN])


@helper
def count_step(powers, step, kind, numbers):
    """Extend `powers` by step `step`, for rules whose steps are linear.

    The matrix of the last k + 1 steps is the matrix of this step times the matrix of the k steps
    before it.
    """
    pull = numbers[ETA] * numbers[DECAY]
    momentum = numbers[SHARE_1] if kind != PLAIN else 0.0
    a, b, c, d = 1.0 - pull, -momentum, pull, momentum
    if kind == AHEAD:
        a, b = 1.0 - (1.0 + momentum) * pull, -momentum * momentum
    powers[0, :] = 0.0
    powers[0, FROM_W] = powers[0, V_FROM_V] = 1.0
    for k in range(step, -1, -1):
        before, after = powers[k], powers[k + 1]
        w, v = before[FROM_W], before[FROM_V]
        after[OF_WW] = before[OF_WW] + numbers[WEIGHT] * w * w
        after[OF_WV] = before[OF_WV] + 2.0 * numbers[WEIGHT] * w * v
        after[OF_VV] = before[OF_VV] + numbers[WEIGHT] * v * v
        after[FROM_W], after[FROM_V] = (
            a * w + b * before[V_FROM_W],
            a * v + b * before[V_FROM_V],
        )
        after[V_FROM_W], after[V_FROM_V] = (
            c * w + d * before[V_FROM_W],
            c * v + d * before[V_FROM_V],
        )


@helper
def take_linear(w, v, kind, power):
    """Take several steps without a gradient at once, in place.

    Return the sum of the parameters' squares before each of these steps.
    """
    number = w.dtype.type
    a, b = number(power[FROM_W]), number(power[FROM_V])
    c, d = number(power[V_FROM_W]), number(power[V_FROM_V])
    ww, wv, vv = number(0.0), number(0.0), number(0.0)
    if kind == PLAIN:
        for j in range(w.shape[0]):
            ww += w[j] * w[j]
            w[j] *= a
    else:
        for j in range(w.shape[0]):
            x, y = w[j], v[j]
            ww += x * x
            wv += x * y
            vv += y * y
            w[j] = a * x + b * y
            v[j] = c * x + d * y
    return power[OF_WW] * ww + power[OF_WV] * wv + power[OF_VV] * vv


@helper
def take_missed(row, width, kind, own, nothing, late, numbers, since, until):
    """Take the steps that a row of the first layer has missed.

    row : start of the row in the slice
    nothing : zeros
    numbers : float64 (n_steps, N_NUMBERS). The squares of the row before each step are added to
        SQUARES: with Adam to SQUARES of each step, otherwise to SQUARES of the last missed step.
    since, until : the first missed step, and the end of the missed steps
    """
    if kind != ADAM:
        w, v = own.w[row : row + width], own.first[row : row + width]
        added = take_linear(w, v, kind, late.powers[until - since])
        numbers[until - 1, SQUARES] += added / numbers[until - 1, WEIGHT]
        return
    for k in range(since, until):
        squares = move(own, row, late.together, 0, 1, width, nothing, kind, numbers[k])
        numbers[k, SQUARES] += squares


@helper
def place_of(layer, order, stamps, column):
    """Return the places of a late row, in the vector and in the slice."""
    row = layer[ROWS] - stamps.shape[0] + column
    return (
        layer[VECTOR_WEIGHTS] + order[row] * layer[VECTOR_WIDTH],
        layer[WEIGHTS] + row * layer[WIDTH],
    )


@helper
def refresh(layer, order, column, kind, vectors, own, late, nothing, numbers, step):
    """Bring a late row to its state before `step`.

    Load the row if the slice does not contain it yet, and take its missed steps.
    """
    outer, row = place_of(layer, order, late.stamps, column)
    since = late.stamps[column]
    if since == UNKNOWN:
        copy_vectors(kind, vectors, outer, own, row, layer[COEFS])
        since = 0
    if since < step:
        missed = nothing, late, numbers, since, step
        take_missed(row, layer[WIDTH], kind, own, *missed)
    late.stamps[column] = step


@helper
def is_finite(layers, own, stamps):
    """Return whether all loaded coefficients and biases of a slice are finite."""
    zero = own.w.dtype.type(0.0)
    total = zero  # zero times NaN or infinity is NaN: a sum without branches
    for index in range(layers.shape[0]):
        layer, n_loaded = layers[index], rows_at_once(layers, index, stamps)
        for r in range(layer[ROWS]):
            if r >= n_loaded and stamps[r - n_loaded] == UNKNOWN:
                continue
            at = layer[WEIGHTS] + r * layer[WIDTH]
            row = own.w[at : at + layer[WIDTH]]
            for j in range(row.shape[0]):
                total += zero * row[j]
        biases = own.w[layer[BIASES] : layer[BIASES] + layer[OWN]]
        for j in range(biases.shape[0]):
            total += zero * biases[j]
    return total == zero


@helper
def store(layers, order, kind, vectors, own, late, spare, nothing, numbers):
    """Write a slice into the vector; late rows take their missed steps first.

    spare : scratch place in the slice for a row that was never loaded
    """
    n_steps, first, stamps = numbers.shape[0], layers[0], late.stamps
    for index in range(layers.shape[0]):
        layer, count = layers[index], rows_at_once(layers, index, stamps)
        copy_rows(layer, count, order if index == 0 else order[:0], kind, vectors, own, False)
        if layer[IS_MINE]:
            copy_vectors(kind, own, layer[BIASES], vectors, layer[VECTOR_BIASES], layer[OWN])
    # without a velocity and a penalty an untouched row does not change
    moves = kind != PLAIN
    for step in range(n_steps):
        moves = moves or numbers[step, DECAY] != 0.0
    for column in range(stamps.shape[0]):
        since = stamps[column]
        outer, inner = place_of(first, order, stamps, column)
        if since == UNKNOWN:
            if not moves:
                continue
            inner, since = spare, 0
            copy_vectors(kind, vectors, outer, own, inner, first[COEFS])
        if since < n_steps:
            missed = nothing, late, numbers, since, n_steps
            take_missed(inner, first[WIDTH], kind, own, *missed)
        copy_vectors(kind, own, inner, vectors, outer, first[COEFS])
