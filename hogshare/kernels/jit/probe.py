"""Loops that measure the machine: each does one thing that a fit does many times.

The caller measures the time (`hogshare.runtimes.machine_probe`). A loop returns a number that
depends on the data that it reads; otherwise the compiler would remove the loop.
"""

import numpy as np

from hogshare.kernels.jit.atomics import load, store
from hogshare.kernels.jit.decorators import kernel


@kernel
def overwrite(values, value):
    """Write `value` into every place of `values`."""
    for k in range(values.shape[0]):
        values[k] = value


@kernel
def sparse_rows(w, columns, values, width, step):
    """Do ``w += step (x . w) x`` for each row x of `width` nonzeros; return the last ``x . w``.

    columns, values : [n_rows * width], row after row; columns are unsigned
    """
    margin = 0.0
    step = w.dtype.type(step)
    for begin in range(0, columns.shape[0] - width + 1, width):
        own, x = columns[begin : begin + width], values[begin : begin + width]
        margin = 0.0
        for k in range(width):
            margin += np.float64(w[own[k]] * x[k])
        size = step * w.dtype.type(margin)
        for k in range(width):
            w[own[k]] += size * x[k]
    return margin


@kernel
def dense_rows(w, data, step):
    """Do ``w += step (x . w) x`` for each row x of `data`; return the last ``x . w``.

    data : [n_rows, w.size]
    """
    margin = 0.0
    for r in range(data.shape[0]):
        x = data[r]
        margin = 0.0
        for j in range(w.shape[0]):
            margin += np.float64(w[j] * x[j])
        size = w.dtype.type(step * margin)
        for j in range(w.shape[0]):
            w[j] += size * x[j]
    return margin


@kernel
def chase(chain, position, steps):
    """Do ``position = chain[position]`` `steps` times; return the last position.

    Each load needs the result of the load before it.
    """
    for _ in range(steps):
        position = chain[position]
    return position


@kernel
def hand_over(word, first, stride, rounds):
    """Wait until the word is `first`, add 1, and repeat with `first` larger by `stride`.

    Two threads, with `first` 0 and 1 and a stride of 2, pass the word's cache line back and forth.
    """
    for i in range(rounds):
        mine = first + i * stride
        while load(word, 0) != mine:
            pass
        store(word, 0, mine + 1)
