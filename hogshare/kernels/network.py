"""The gradient of a network of layers, in one call for a mini-batch.

Layers are a table of numbers, whose columns are below. A worker's memory holds, for the n rows in
hand, their inputs, every layer's outputs, derivatives twice (in a layer's outputs and in its
inputs, in turn) and scratch of one image; nothing is allocated.

Who writes: the caller's worker its own memory, marks and `out`. The vector `w` is read; on one
without locks others write it meanwhile, so that the layers may see it at different moments.
"""

import math

import numpy as np

from hogshare.kernels.atomics import prefetch
from hogshare.kernels.dense import (
    activate,
    dense_backward,
    dense_forward,
    sparse_backward,
    sparse_forward,
    sum_rows,
    through_activation,
)
from hogshare.kernels.gemm import gemm
from hogshare.kernels.images import convolve, convolve_back, pool, pool_back, respond, respond_back
from hogshare.kernels.jit import helper, kernel
from hogshare.kernels.momentum import NONE, descend
from hogshare.kernels.outputs import end_row, predict_row

KIND, ACTIVATION = 0, 1  # what a layer does, and what it makes of its sums
WEIGHTS, BIASES, END = 2, 3, 4  # where its numbers lie in the vector, and where they end
N_IN, N_OUT = 5, 6  # of a row
AT = 7  # numbers of a row that lie in memory before its outputs
MARKS = 8  # numbers of a row whose places are marked before its own
SHAPE = 9  # height, width, channels, down, across, filters, size, stride, padding
COLUMNS = 18

DENSE, CONVOLUTION, LARGEST, MEAN, RESPONSE = range(5)
SHAPELESS = 9
AHEAD = 2  # rows asked for before they are copied


@helper
def shape_of(layer):
    """A layer's geometry, as `hogshare.kernels.images` has it."""
    s = layer[SHAPE:COLUMNS]
    return s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8]


@helper
def ask_for(row, data, indptr, n_in):
    """Have a dense row fetched."""
    if indptr.shape[0] == 0:
        for j in range(0, n_in, 64 // data.itemsize):
            prefetch(data, row * n_in + j)


@helper
def gather(rows, data, indices, indptr, n_in, memory):
    """Lay the rows of a mini-batch one after another at the beginning of memory.

    They are wherever shuffling has them from: the memory's answer for one is awaited while others
    are copied.
    """
    for i in range(min(AHEAD, rows.shape[0])):
        ask_for(rows[i], data, indptr, n_in)
    for i in range(rows.shape[0]):
        if i + AHEAD < rows.shape[0]:
            ask_for(rows[i + AHEAD], data, indptr, n_in)
        into = memory[i * n_in : i * n_in + n_in]
        if indptr.shape[0]:
            into[:] = memory.dtype.type(0.0)
            for place in range(indptr[rows[i]], indptr[rows[i] + 1]):
                into[indices[place]] = data[place]
        else:
            source = data[rows[i] * n_in : rows[i] * n_in + n_in]
            for j in range(n_in):
                into[j] = source[j]


@helper
def is_read_in_place(layers, indptr):
    """Whether the first layer reads sparse rows where they are."""
    return indptr.shape[0] > 0 and layers[0, KIND] == DENSE


@helper
def image_layer_forward(layer, numbers, n, memory, at, w, out_at, marks, scratch_at):
    """A layer that takes images one by one."""
    shape, kind = shape_of(layer), layer[KIND]
    n_in, n_out = layer[N_IN], layer[N_OUT]
    for i in range(n):
        here, there = at + i * n_in, out_at + i * n_out
        image, into = memory[here : here + n_in], memory[there : there + n_out]
        if kind == CONVOLUTION:
            convolve(shape, memory, here, w, layer[WEIGHTS], there, scratch_at)
        elif kind == RESPONSE:
            respond(shape, numbers, image, memory[scratch_at : scratch_at + 2 * n_in], into)
        else:
            first = layer[MARKS] * n + i * n_out
            pool(shape, image, kind == LARGEST, into, marks[first : first + n_out])


@helper
def image_layer_backward(
    layer, numbers, n, memory, at, delta_at, w, out, inward, inward_at, marks, scratch_at
):
    """The way back of a layer that takes images one by one."""
    shape, kind = shape_of(layer), layer[KIND]
    n_in, n_out = layer[N_IN], layer[N_OUT]
    for i in range(n):
        here, slopes_at, there = at + i * n_in, delta_at + i * n_out, inward_at + i * n_in
        if kind == CONVOLUTION:
            kept = 0.0 if i == 0 else 1.0
            ends = w, layer[WEIGHTS], kept, out
            convolve_back(shape, memory, here, slopes_at, *ends, inward, there, scratch_at)
        elif inward:
            slopes, into = memory[slopes_at : slopes_at + n_out], memory[there : there + n_in]
            if kind == RESPONSE:
                image = memory[here : here + n_in]
                scratch = memory[scratch_at : scratch_at + 2 * n_in]
                respond_back(shape, numbers, image, slopes, scratch, into)
            else:
                first = layer[MARKS] * n + i * n_out
                pool_back(shape, slopes, kind == LARGEST, marks[first : first + n_out], into)


@helper
def go_forward(layers, numbers, w, rows, data, indices, indptr, memory, marks, scratch_at):
    """Every layer's outputs; the last one's are sums yet. Returns where those lie."""
    n, at = rows.shape[0], 0
    sparse = is_read_in_place(layers, indptr)
    if not sparse:
        gather(rows, data, indices, indptr, layers[0, N_IN], memory)
    for index in range(layers.shape[0]):
        layer = layers[index]
        out_at, n_out = layer[AT] * n, layer[N_OUT]
        if layer[KIND] != DENSE:
            side = memory, at, w, out_at, marks, scratch_at
            image_layer_forward(layer, numbers[index], n, *side)
        elif sparse and index == 0:
            coefs, sums = w[layer[WEIGHTS] : layer[BIASES]], memory[out_at : out_at + n * n_out]
            sparse_forward(rows, data, indices, indptr, coefs, sums, n_out)
        else:
            dense_forward(n, layer[N_IN], n_out, memory, at, w, layer[WEIGHTS], out_at)
        n_biases = layer[END] - layer[BIASES]
        if n_biases:
            biases, sums = w[layer[BIASES] : layer[END]], memory[out_at : out_at + n * n_out]
            activate(sums, biases, n * n_out // n_biases, layer[ACTIVATION])
        at = out_at
    return at


@helper
def go_back(
    layers, numbers, w, rows, data, indices, indptr, memory, marks, out, deltas, scratch_at
):
    """From the derivatives in the last sums to those in all coefficients and biases.

    deltas : (int, int), where the derivatives lie, and where there is space for as many
    """
    n = rows.shape[0]
    sparse = is_read_in_place(layers, indptr)
    here, there = deltas
    for index in range(layers.shape[0] - 1, -1, -1):
        layer = layers[index]
        n_in, n_out, out_at = layer[N_IN], layer[N_OUT], layer[AT] * n
        at = layers[index - 1, AT] * n if index else 0
        slopes = memory[here : here + n * n_out]
        through_activation(memory[out_at : out_at + n * n_out], slopes, layer[ACTIVATION])
        n_biases = layer[END] - layer[BIASES]
        if n_biases:
            sum_rows(slopes, n * n_out // n_biases, out[layer[BIASES] : layer[END]])
        if layer[KIND] != DENSE:
            side = here, w, out, index > 0, there, marks, scratch_at
            image_layer_backward(layer, numbers[index], n, memory, at, *side)
        elif sparse and index == 0:
            sums = out[layer[WEIGHTS] : layer[BIASES]]
            sparse_backward(rows, data, indices, indptr, slopes, sums, n_out)
        else:
            dense_backward(n, n_in, n_out, memory, at, here, out, layer[WEIGHTS])
            if index:
                begins = here, w, layer[WEIGHTS], 0.0, memory, there
                gemm(0, 1, n, n_in, n_out, memory, *begins)
        here, there = there, here


@helper
def scale_and_penalise(layers, w, out, alpha, share):
    """Add the penalty's gradient, and multiply all by `share`; the penalty, or NaN.

    The penalty is ``alpha / 2`` times the squares of coefficients, not of biases. Zero times each
    number of `out` is added, which is NaN where one is NaN or infinite.
    """
    kind = out.dtype.type
    factor, decay = kind(share), kind(alpha * share)
    zero = kind(0.0)
    total, no_number = 0.0, zero
    for index in range(layers.shape[0]):
        first, biases, end = layers[index, WEIGHTS], layers[index, BIASES], layers[index, END]
        coefs, slopes, squares = w[first:biases], out[first:biases], zero
        if alpha != 0.0:
            for j in range(coefs.shape[0]):
                squares += coefs[j] * coefs[j]
                slope = slopes[j] * factor + decay * coefs[j]
                no_number += zero * slope
                slopes[j] = slope
        else:
            for j in range(coefs.shape[0]):
                slopes[j] *= factor
                no_number += zero * slopes[j]
        total += squares
        slopes = out[biases:end]
        for j in range(slopes.shape[0]):
            slopes[j] *= factor
            no_number += zero * slopes[j]
    return 0.5 * alpha * total + no_number


@helper
def end_rows(rows, targets, weights, kind, memory, at, n_outputs, deltas_at):
    """The rows' losses, and derivatives in the last sums: two sums, of losses and of weights."""
    total, weight_sum, width = 0.0, 0.0, targets.shape[1]
    for i in range(rows.shape[0]):
        weight = np.float64(weights[rows[i]]) if weights.shape[0] else 1.0
        z = memory[at + i * n_outputs : at + (i + 1) * n_outputs]
        delta = memory[deltas_at + i * n_outputs : deltas_at + (i + 1) * n_outputs]
        total += end_row(z, targets[rows[i], :width], kind, weight, delta)
        weight_sum += weight
    return total, weight_sum


@kernel
def gradient(
    layers,
    numbers,
    w,
    rows,
    data,
    indices,
    indptr,
    targets,
    weights,
    loss,
    alpha,
    mean,
    memory,
    marks,
    deltas_at,
    space,
    scratch_at,
    out,
    moved,
    first,
    second,
    kind,
    eta,
    share_1,
    share_2,
    epsilon,
):
    """Overwrite `out` with the gradient of some rows' losses and of the penalty; the value.

    And take a step by it, if `kind` is one of `hogshare.kernels.momentum`, and the value a number:
    `moved` is then the vector, as who may write it has it, and `out` is the step.

    layers : int64 [n_layers, COLUMNS]
    numbers : float64 [n_layers, 3], of local responses
    w, out : float [n_params]
    rows : int64 [n]
    data, indices, indptr : the inputs, as `hogshare.kernels.rows.Rows` has them
    targets : float [n_rows, n_outputs], of a softmax [n_rows, 1]
    weights : float [n_rows], or empty
    mean : 0.0 leaves `out` a sum; else it is divided by the rows' weights and multiplied by this,
        1.0 or what they are of a mini-batch's, and the value divided by their mean; it is a sum in
        any case
    deltas_at, space, scratch_at : numbers of a row before the derivatives, of the derivatives in
        one layer's outputs, and before the scratch
    """
    n = rows.shape[0]
    here, scratch = deltas_at * n, scratch_at * n
    inputs = rows, data, indices, indptr, memory, marks
    at = go_forward(layers, numbers, w, *inputs, scratch)
    n_outputs = layers[layers.shape[0] - 1, N_OUT]
    total, weight = end_rows(rows, targets, weights, loss, memory, at, n_outputs, here)
    go_back(layers, numbers, w, *inputs, out, (here, here + space * n), scratch)
    share = 1.0 if mean == 0.0 else mean / weight if weight > 0.0 else 0.0
    value = total + scale_and_penalise(layers, w, out, alpha, share)
    if mean != 0.0 and weights.shape[0] and weight > 0.0:
        value *= n / weight
    if kind != NONE and math.isfinite(value):
        descend(moved, out, first, second, kind, eta, share_1, share_2, epsilon)
    return value


@kernel
def predict(
    layers, numbers, w, rows, data, indices, indptr, loss, memory, marks, scratch_at, predictions
):
    """Overwrite `predictions` with the network's outputs for some rows, float [n * n_outputs]."""
    n = rows.shape[0]
    inputs = rows, data, indices, indptr, memory, marks
    at = go_forward(layers, numbers, w, *inputs, scratch_at * n)
    k = layers[layers.shape[0] - 1, N_OUT]
    for i in range(n):
        predict_row(memory[at + i * k : at + i * k + k], loss)
    for j in range(n * k):
        predictions[j] = memory[at + j]


@kernel
def loss_of(
    layers,
    numbers,
    w,
    rows,
    data,
    indices,
    indptr,
    targets,
    weights,
    loss,
    memory,
    marks,
    deltas_at,
    scratch_at,
):
    """Sum of some rows' losses, and of their weights, without a way back."""
    n = rows.shape[0]
    inputs = rows, data, indices, indptr, memory, marks
    at = go_forward(layers, numbers, w, *inputs, scratch_at * n)
    k = layers[layers.shape[0] - 1, N_OUT]
    return end_rows(rows, targets, weights, loss, memory, at, k, deltas_at * n)
