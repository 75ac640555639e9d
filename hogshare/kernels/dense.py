"""Layers of a network that connect everything with everything, and what stands behind a layer.

A layer takes what lies from `at` on in a worker's memory, a row of the mini-batch after another,
and leaves its outputs further behind in the same memory. Going back it takes the loss's derivatives
in its outputs (`delta`), adds up those in its coefficients, and leaves those in its inputs.

Loops are over slices, whose places the compiler knows not to be negative: it makes vector
instructions of them.
"""

import math

import numpy as np

from hogshare.kernels.exponential import exp_of_negative
from hogshare.kernels.gemm import gemm
from hogshare.kernels.jit import helper, inlined

IDENTITY, RELU, TANH, LOGISTIC = range(4)
ACTIVATIONS = {"identity": IDENTITY, "relu": RELU, "tanh": TANH, "logistic": LOGISTIC}


@inlined
def logistic(z):
    """``1 / (1 + exp(-z))`` in float64."""
    e = exp_of_negative(-abs(z))
    return (1.0 if z >= 0.0 else e) / (1.0 + e)


@inlined
def tanh(z):
    """The hyperbolic tangent in float64, to 2e-16 of one."""
    e = exp_of_negative(-2.0 * abs(z))
    return math.copysign((1.0 - e) / (1.0 + e), z)


@helper
def activate(z, bias, n, kind):
    """Add the biases to n rows of sums, and apply the activation, in place.

    z : float [n * len(bias)]
    NaN stays NaN: a network that has left the range shows it.
    """
    k = bias.shape[0]
    zero = z.dtype.type(0.0)
    for i in range(n):
        row = z[i * k : i * k + k]
        if kind == RELU:
            for j in range(k):
                value = row[j] + bias[j]
                row[j] = zero if value < zero else value
        else:
            for j in range(k):
                row[j] += bias[j]
            if kind == TANH:
                for j in range(k):
                    row[j] = tanh(np.float64(row[j]))
            elif kind == LOGISTIC:
                for j in range(k):
                    row[j] = logistic(np.float64(row[j]))


@helper
def through_activation(a, delta, kind):
    """From derivatives in what an activation gives, `a`, to those in what it takes, in place."""
    zero, one = a.dtype.type(0.0), a.dtype.type(1.0)
    if kind == RELU:
        for j in range(a.shape[0]):
            delta[j] = delta[j] if a[j] > zero else zero
    elif kind == TANH:
        for j in range(a.shape[0]):
            delta[j] *= one - a[j] * a[j]
    elif kind == LOGISTIC:
        for j in range(a.shape[0]):
            delta[j] *= a[j] * (one - a[j])


@helper
def sum_rows(values, n, out):
    """Overwrite `out` with the sum of n rows."""
    k = out.shape[0]
    out[:] = out.dtype.type(0.0)
    for i in range(n):
        row = values[i * k : i * k + k]
        for j in range(k):
            out[j] += row[j]


@helper
def sparse_forward(rows, data, indices, indptr, w, z, k):
    """Overwrite `z` with the products of CSR rows and coefficients of k columns."""
    for i in range(rows.shape[0]):
        sums = z[i * k : i * k + k]
        sums[:] = z.dtype.type(0.0)
        for place in range(indptr[rows[i]], indptr[rows[i] + 1]):
            value, first = data[place], np.int64(indices[place]) * k
            coefs = w[first : first + k]
            for j in range(k):
                sums[j] += value * coefs[j]


@helper
def sparse_backward(rows, data, indices, indptr, delta, out, k):
    """Overwrite `out` with the derivatives in the coefficients, of k columns."""
    out[:] = out.dtype.type(0.0)
    for i in range(rows.shape[0]):
        slopes = delta[i * k : i * k + k]
        for place in range(indptr[rows[i]], indptr[rows[i] + 1]):
            value, first = data[place], np.int64(indices[place]) * k
            sums = out[first : first + k]
            for j in range(k):
                sums[j] += value * slopes[j]


@helper
def dense_forward(n, n_in, n_out, memory, at, w, w_at, out_at):
    """``z = x W``, of n rows."""
    gemm(0, 0, n, n_out, n_in, memory, at, w, w_at, 0.0, memory, out_at)


@helper
def dense_backward(n, n_in, n_out, memory, at, delta_at, out, w_at):
    """``x' delta``: the derivatives in the coefficients."""
    gemm(1, 0, n_in, n_out, n, memory, at, memory, delta_at, 0.0, out, w_at)
