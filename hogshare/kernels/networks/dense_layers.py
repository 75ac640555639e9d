"""Fully connected layers of a network, and the activations behind a layer.

A layer reads its inputs in a worker's memory from index `at` on, one row of the mini-batch after
another, and writes its outputs to a later part of the same memory. In the backward pass it reads
the derivatives of the loss with respect to its outputs (`delta`). It sums the derivatives with
respect to its coefficients, and writes the derivatives with respect to its inputs. Rows are padded
to whole vectors in this memory, but not in the vector of coefficients. All written arrays are the
calling worker's own, so stores are plain.

Loops run over slices: the compiler knows that their indices are not negative, and vectorises the
loops.
"""

import math

import numpy as np

from hogshare.kernels.jit.atomics import prefetch
from hogshare.kernels.jit.decorators import helper, inlined
from hogshare.kernels.jit.exponential import exp_of_negative
from hogshare.kernels.networks.padded_matrices import flip, pad_rows, unpad_rows
from hogshare.kernels.networks.tiles import padded, product

AHEAD = 2  # rows prefetched before they are copied
LINE = 64  # bytes
IDENTITY, RELU, TANH, LOGISTIC = range(4)
ACTIVATIONS = {"identity": IDENTITY, "relu": RELU, "tanh": TANH, "logistic": LOGISTIC}


@helper
def ask_for_dense(rows, i, data, n_in):
    """Prefetch the dense row ``rows[i]``, if there is one."""
    if i < rows.shape[0]:
        for j in range(0, n_in, LINE // data.itemsize):
            prefetch(data, rows[i] * n_in + j)


@helper
def gather_dense(rows, data, n_in, width, memory):
    """Copy dense rows of `n_in` values to the start of memory; each row takes `width` values."""
    # shuffled rows are far from each other, so each row is prefetched while others are copied
    for i in range(AHEAD):
        ask_for_dense(rows, i, data, n_in)
    for i in range(rows.shape[0]):
        ask_for_dense(rows, i + AHEAD, data, n_in)
        source = data[rows[i] * n_in : rows[i] * n_in + n_in]
        into = memory[i * width : i * width + n_in]
        for j in range(n_in):
            into[j] = source[j]


@inlined
def logistic(z):
    """Return ``1 / (1 + exp(-z))`` in float64."""
    e = exp_of_negative(-abs(z))
    return (1.0 if z >= 0.0 else e) / (1.0 + e)


@inlined
def tanh(z):
    """Return the hyperbolic tangent in float64, with an absolute error of 2e-16."""
    e = exp_of_negative(-2.0 * abs(z))
    return math.copysign((1.0 - e) / (1.0 + e), z)


@helper
def activate(z, kind):
    """Apply an activation in place; NaN stays NaN, which shows that a network has diverged."""
    zero = z.dtype.type(0.0)
    if kind == RELU:
        for j in range(z.shape[0]):
            z[j] = zero if z[j] < zero else z[j]
    elif kind == TANH:
        for j in range(z.shape[0]):
            z[j] = tanh(np.float64(z[j]))
    elif kind == LOGISTIC:
        for j in range(z.shape[0]):
            z[j] = logistic(np.float64(z[j]))


@helper
def finish(memory, at, n, width, bias, kind):
    """Add the biases to n rows of sums, in place, and apply the activation.

    Each row takes `width` values of memory, from index `at` on.
    """
    k = bias.shape[0]
    zero = memory.dtype.type(0.0)
    for i in range(n):
        row = memory[at + i * width : at + i * width + k]
        if kind == RELU:
            for j in range(k):
                value = row[j] + bias[j]
                row[j] = zero if value < zero else value
        else:
            for j in range(k):
                row[j] += bias[j]
            activate(row, kind)


@helper
def through_activation(a, delta, kind):
    """Multiply `delta`, in place, by the derivative of an activation.

    a : the activation's outputs
    delta : derivatives with respect to the outputs; overwritten with derivatives with respect to
        the inputs
    """
    zero, one = a.dtype.type(0.0), a.dtype.type(1.0)
    if kind == RELU:
        for j in range(a.shape[0]):
            slope = delta[j]
            delta[j] = slope if a[j] > zero else zero
    elif kind == TANH:
        for j in range(a.shape[0]):
            delta[j] *= one - a[j] * a[j]
    elif kind == LOGISTIC:
        for j in range(a.shape[0]):
            delta[j] *= a[j] * (one - a[j])


@helper
def sum_rows(memory, at, n, width, out):
    """Overwrite `out` with the sum of n rows; each row takes `width` values of memory."""
    k = out.shape[0]
    out[:] = out.dtype.type(0.0)
    for i in range(n):
        row = memory[at + i * width : at + i * width + k]
        for j in range(k):
            out[j] += row[j]


@helper
def sparse_forward(rows, data, indices, indptr, w, w_at, memory, at, k, width):
    """Overwrite rows of k sums with the product of CSR rows and coefficients.

    Each row of sums takes `width` values of memory, from index `at` on.
    """
    for i in range(rows.shape[0]):
        sums = memory[at + i * width : at + i * width + k]
        sums[:] = memory.dtype.type(0.0)
        for place in range(indptr[rows[i]], indptr[rows[i] + 1]):
            value, first = data[place], w_at + np.int64(indices[place]) * k
            coefs = w[first : first + k]
            for j in range(k):
                sums[j] += value * coefs[j]


@helper
def sparse_backward(rows, data, indices, indptr, memory, delta_at, width, out, k):
    """Overwrite `out` with the derivatives with respect to the coefficients, of k columns."""
    out[:] = out.dtype.type(0.0)
    for i in range(rows.shape[0]):
        slopes = memory[delta_at + i * width : delta_at + i * width + k]
        for place in range(indptr[rows[i]], indptr[rows[i] + 1]):
            value, first = data[place], np.int64(indices[place]) * k
            sums = out[first : first + k]
            for j in range(k):
                sums[j] += value * slopes[j]


@helper
def dense_forward(sizes, memory, at, row, w, w_at, scratch_at, out_at, width):
    """Compute ``z = x W``.

    sizes : number of rows, of inputs and of outputs
    row : distance from one row of x to the next row
    width : distance from one row of z to the next row
    scratch_at : index in memory from which the padded coefficients are written
    """
    n, n_in, n_out = sizes
    pad_rows(w, w_at, n_in, n_out, memory, scratch_at, width)
    factors = memory, at, row, 1, memory, scratch_at, width
    product(n, n_in, width, *factors, memory, out_at, width, 0)


@helper
def coefs_back(sizes, memory, at, row, delta_at, width, scratch_at, strip, out, w_at):
    """Compute ``x' delta``, the derivatives with respect to the coefficients.

    They are computed in strips of `strip` rows, and written into `out` from index `w_at` on.
    """
    n, n_in, n_out = sizes
    for low in range(0, n_in, strip):
        count = min(strip, n_in - low)
        factors = memory, at + low, 1, row, memory, delta_at, width
        product(count, n, width, *factors, memory, scratch_at, width, 0)
        unpad_rows(memory, scratch_at, count, n_out, width, out, w_at + low * n_out)


@helper
def inputs_back(sizes, memory, delta_at, width, w, w_at, scratch_at, out_at, row):
    """Compute ``delta W'``, the derivatives with respect to the inputs."""
    n, n_in, n_out = sizes
    columns = padded(n_in, memory.itemsize)
    flip(n_in, n_out, w, w_at, n_out, memory, scratch_at, columns)
    factors = memory, delta_at, width, 1, memory, scratch_at, columns
    product(n, n_out, columns, *factors, memory, out_at, row, 0)
