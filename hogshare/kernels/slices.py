"""A worker's slice of a network's numbers, in memory of its own, from a block's begin to its end.

Of the first layer that is some of the units' columns, of every later one the rows that those
units feed; one worker has all of them. A slice is laid out for the tiles: rows are whole vectors
long, and what is beyond the columns is zero and stays it. The rule's state lies alike.

Where a mini-batch touches few rows of a large first layer, a row is loaded when a mini-batch
touches it, and takes the steps then that it has missed, by the penalty and the momentum alone: the
same operations in the same order as if it had taken each in its time.

Who writes: the worker its own slice; of the vector and the state, at a block's end, the numbers of
its slice, when nobody reads them. Who frees: the worker.
"""

import math
from typing import NamedTuple

import numpy as np

from hogshare.kernels.jit import helper
from hogshare.kernels.momentum import ADAM, AHEAD, HEAVY, PLAIN

# columns of the table of layers
ACTIVATION = 0
WEIGHTS, ROWS, WIDTH = 1, 2, 3  # place of the coefficients in the slice, rows, and their length
COEFS = 4  # columns of a row that are coefficients
BIASES = 5  # place in the slice
VECTOR_WEIGHTS, VECTOR_WIDTH, VECTOR_BIASES = 6, 7, 8  # of the first of them in the vector
IS_MINE = 9  # whether this worker writes the biases back
OUTPUTS, OWN, OWN_WIDTH, FIRST = 10, 11, 12, 13  # in memory; own units, padded, and the first
SLOPES = 14  # derivatives in the sums, in memory, rows of WIDTH
PARTS, GATHERED = 15, 16  # in a worker's part of what is exchanged: sums, and derivatives
N_COLUMNS = 17

ETA, SHARE_1, SHARE_2, LEAST, FACTOR, DECAY, SQUARES = range(7)  # of a step's numbers
N_NUMBERS = 7
UNKNOWN = -1  # a row that the slice does not have yet


class Vectors(NamedTuple):
    """The vector and its rule's state, as a run has them, or a slice of both.

    w, first, second : float (n,); without a state the last two are the first again
    """

    w: np.ndarray
    first: np.ndarray
    second: np.ndarray


@helper
def move(w, slopes, first, second, kind, numbers):
    """Take a step of some numbers; returns the sum of their squares, as they were.

    slopes : sums of the rows' derivatives, which FACTOR makes a mean
    numbers : float64 (N_NUMBERS,); DECAY is the penalty's share of a number in its derivative
    The steps are those of `hogshare.kernels.momentum.make_step`.
    """
    number = w.dtype.type
    size, old_1, old_2 = number(numbers[ETA]), number(numbers[SHARE_1]), number(numbers[SHARE_2])
    new_1, new_2 = number(1.0 - numbers[SHARE_1]), number(1.0 - numbers[SHARE_2])
    least, factor = number(numbers[LEAST]), number(numbers[FACTOR])
    decay, squares = number(numbers[DECAY]), number(0.0)
    if kind == PLAIN:
        for j in range(w.shape[0]):
            x = w[j]
            squares += x * x
            w[j] = x - size * (factor * slopes[j] + decay * x)
    elif kind == HEAVY:
        for j in range(w.shape[0]):
            x = w[j]
            squares += x * x
            velocity = old_1 * first[j] + size * (factor * slopes[j] + decay * x)
            first[j] = velocity
            w[j] = x - velocity
    elif kind == AHEAD:
        for j in range(w.shape[0]):
            x = w[j]
            squares += x * x
            fresh = size * (factor * slopes[j] + decay * x)
            velocity = old_1 * first[j] + fresh
            first[j] = velocity
            w[j] = x - (old_1 * velocity + fresh)
    elif kind == ADAM:
        for j in range(w.shape[0]):
            x = w[j]
            squares += x * x
            slope = factor * slopes[j] + decay * x
            mean = old_1 * first[j] + new_1 * slope
            square = old_2 * second[j] + new_2 * (slope * slope)
            first[j], second[j] = mean, square
            w[j] = x - size * mean / (number(math.sqrt(square)) + least)
    return squares


@helper
def move_part(own, at, count, slopes, slopes_at, kind, numbers):
    """`move` for numbers of a slice that stand together."""
    return move(
        own.w[at : at + count],
        slopes[slopes_at : slopes_at + count],
        own.first[at : at + count],
        own.second[at : at + count],
        kind,
        numbers,
    )


@helper
def copy_run(source, begin, into, at, count):
    """Copy some numbers."""
    run, out = source[begin : begin + count], into[at : at + count]
    for j in range(count):
        out[j] = run[j]


@helper
def copy_vectors(kind, source, begin, into, at, count):
    """Copy some numbers and what the rule keeps of them."""
    copy_run(source.w, begin, into.w, at, count)
    if kind != PLAIN:
        copy_run(source.first, begin, into.first, at, count)
    if kind == ADAM:
        copy_run(source.second, begin, into.second, at, count)


@helper
def copy_rows(layer, count, order, kind, vectors, own, loads):
    """Copy the first rows of a layer's coefficients from the vector into a slice, or back.

    order : which row of the vector each is, of the first layer; empty: the rows have their order
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
def rows_at_once(layers, index, stamps):
    """How many of a layer's rows are loaded and stored with the slice: all but those by stamps."""
    return layers[index, ROWS] - (stamps.shape[0] if index == 0 else 0)


@helper
def load(layers, order, kind, vectors, own, stamps):
    """Fill a slice from the vector, but for rows of the first layer that have stamps."""
    stamps[:] = UNKNOWN
    for index in range(layers.shape[0]):
        layer, count = layers[index], rows_at_once(layers, index, stamps)
        copy_rows(layer, count, order if index == 0 else order[:0], kind, vectors, own, True)
        copy_vectors(kind, vectors, layer[VECTOR_BIASES], own, layer[BIASES], layer[OWN])


@helper
def take_missed(row, width, kind, own, nothing, numbers, since, until):
    """Let a row of the first layer take the steps that it has missed."""
    for k in range(since, until):
        numbers[k, SQUARES] += move_part(own, row, width, nothing, 0, kind, numbers[k])


@helper
def place_of(layer, order, stamps, column):
    """Where a row with a stamp stands, in the vector and in the slice."""
    row = layer[ROWS] - stamps.shape[0] + column
    return (
        layer[VECTOR_WEIGHTS] + order[row] * layer[VECTOR_WIDTH],
        layer[WEIGHTS] + row * layer[WIDTH],
    )


@helper
def refresh(layer, order, column, kind, vectors, own, stamps, nothing, numbers, step):
    """Have a row of the first layer as it is before a step: load it, and take what it missed."""
    outer, row = place_of(layer, order, stamps, column)
    since = stamps[column]
    if since == UNKNOWN:
        copy_vectors(kind, vectors, outer, own, row, layer[COEFS])
        since = 0
    take_missed(row, layer[WIDTH], kind, own, nothing, numbers, since, step)
    stamps[column] = step


@helper
def is_finite(layers, own, stamps):
    """Whether all numbers of a slice are numbers."""
    zero = own.w.dtype.type(0.0)
    total = zero
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
def store(layers, order, kind, vectors, own, stamps, spare, nothing, numbers):
    """Write a slice into the vector; rows that no mini-batch has touched take their steps there.

    spare : place of the slice where such a row may stand for a moment
    """
    n_steps, first = numbers.shape[0], layers[0]
    for index in range(layers.shape[0]):
        layer, count = layers[index], rows_at_once(layers, index, stamps)
        copy_rows(layer, count, order if index == 0 else order[:0], kind, vectors, own, False)
        if layer[IS_MINE]:
            copy_vectors(kind, own, layer[BIASES], vectors, layer[VECTOR_BIASES], layer[OWN])
    # without a velocity and a penalty such a row stays as it is
    moves = kind != PLAIN or numbers[0, DECAY] != 0.0
    for column in range(stamps.shape[0]):
        since = stamps[column]
        outer, inner = place_of(first, order, stamps, column)
        if since == UNKNOWN:
            if not moves:
                continue
            inner, since = spare, 0
            copy_vectors(kind, vectors, outer, own, inner, first[COEFS])
        take_missed(inner, first[WIDTH], kind, own, nothing, numbers, since, n_steps)
        copy_vectors(kind, own, inner, vectors, outer, first[COEFS])
