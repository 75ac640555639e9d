"""The gradient of a network of layers, in one call for a mini-batch.

The layers are rows of an integer table, whose columns are listed below. For the n rows of a
mini-batch, a worker's memory contains (1) their inputs, (2) every layer's outputs, (3) two arrays
of derivatives for connected layers, and (4) scratch: padded coefficients and derivatives, and the
values of one image. One of the two arrays contains the derivatives with respect to a layer's
outputs, the other array those with respect to its inputs; from layer to layer they change roles.
Layers that take images come first. One image passes through all these layers before the next image,
so it stays in a cache. Nothing is allocated.

If the next layer pools a convolution's outputs by their largest values, the outputs are not stored.
Activations are increasing functions, so they are applied after the pooling, and their derivatives
are taken at the largest values.

Writers: the calling worker writes its own memory, marks and `out` by plain stores, and `moved` if
it takes a step. The vector `w` is only read. If the vector has no locks, other workers write it at
the same time, and layers may read different versions.
"""

import math
from typing import NamedTuple

import numpy as np

from hogshare.kernels.jit.decorators import helper, kernel
from hogshare.kernels.networks.dense_layers import (
    RELU,
    activate,
    coefs_back,
    dense_forward,
    finish,
    gather_dense,
    inputs_back,
    sparse_backward,
    sparse_forward,
    sum_rows,
    through_activation,
)
from hogshare.kernels.networks.image_layers import (
    convolve,
    fill,
    filters_back,
    flip_filters,
    image_back,
    pool,
    pool_back,
    respond,
    respond_back,
    with_borders,
)
from hogshare.kernels.networks.output_layers import end_row, predict_row
from hogshare.kernels.networks.padded_matrices import pad_rows, unpad_rows
from hogshare.kernels.networks.tiles import padded
from hogshare.kernels.networks.windows import CUTS
from hogshare.kernels.rules.momentum import NONE, descend

KIND, ACTIVATION = 0, 1  # a layer's kind, and the activation of its sums
WEIGHTS, BIASES, END = 2, 3, 4  # starts of weights and of biases in the vector, end of the biases
N_IN, N_OUT = 5, 6  # number of inputs and of outputs of a row
AT = 7  # number of a row's values that are in memory before its outputs
MARKS = 8  # number of a row's marks before the marks of this layer
SHAPE = 9  # height, width, channels, down, across, filters, size, stride, padding
WIDTH = 18  # distance from one row of outputs to the next row
IN_WIDTH = 19  # distance from one row of inputs to the next row
IS_FUSED = 20  # whether the next layer pools a convolution by its largest values
PLACES = 21  # start of a convolution's places: see `hogshare.kernels.networks.image_layers`
FILTERS, SLOPES, FLIPPED = 22, 23, 24  # in scratch: padded filters, derivatives, filters by columns
COLUMNS = 25

DENSE, CONVOLUTION, LARGEST, MEAN, RESPONSE = range(5)
SHAPELESS = 9

# regions of scratch: a 1; a convolution's padded sums; an image with borders; a line of windows;
# three images; two images' derivatives; the padded coefficients of a connected layer. STRIP is the
# number of rows of their derivatives that are computed at once.
ONE, SUMS, BORDERED, LINE, RESPONSES, FIRST, SECOND, COEFS, STRIP = range(9)
SPACE, N_REGIONS = 9, 10  # SPACE: distance from one of the three images to the next


class NetworkLayout(NamedTuple):
    """A network, and the layout of a worker's memory.

    layers : int64 (n_layers, COLUMNS)
    numbers : float64 (n_layers, 3), alpha, beta and k of local responses
    regions : int64 (N_REGIONS,), starts of the regions of scratch
    n_images : number of layers that take images; they are the first layers
    deltas_at : number of a row's values in memory before the derivatives
    space : number of a row's derivatives with respect to one layer's outputs
    scratch_at : number of a row's values in memory before the scratch
    """

    layers: np.ndarray
    numbers: np.ndarray
    regions: np.ndarray
    n_images: int
    deltas_at: int
    space: int
    scratch_at: int


@helper
def shape_of(layer):
    """Return a layer's geometry, see `hogshare.kernels.networks.image_layers`."""
    s = layer[SHAPE:WIDTH]
    return s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8]


@helper
def gather(rows, data, indices, indptr, n_in, width, memory):
    """Copy the rows of a mini-batch to the start of memory; each row takes `width` values."""
    if indptr.shape[0] == 0:
        gather_dense(rows, data, n_in, width, memory)
        return
    for i in range(rows.shape[0]):
        into = memory[i * width : i * width + n_in]
        into[:] = memory.dtype.type(0.0)
        for place in range(indptr[rows[i]], indptr[rows[i] + 1]):
            into[indices[place]] = data[place]


@helper
def is_read_in_place(layers, indptr):
    """Return whether the first layer reads sparse rows in place."""
    return indptr.shape[0] > 0 and layers[0, KIND] == DENSE


@helper
def prepare_filters(net, w, memory, scratch, goes_back):
    """Write the padded filters into scratch.

    goes_back : whether a backward pass follows, which also needs the filters by columns
    """
    memory[scratch + net.regions[ONE]] = memory.dtype.type(1.0)
    for index in range(net.n_images):
        layer = net.layers[index]
        if layer[KIND] == CONVOLUTION:
            shape = shape_of(layer)
            filters, length = shape[5], shape[6] * shape[6] * shape[2]
            at, width = scratch + layer[FILTERS], padded(filters, memory.itemsize)
            pad_rows(w, layer[WEIGHTS], length + 1, filters, memory, at, width)  # and the biases
            if goes_back and index > 0:
                flip_filters(shape, memory, at, scratch + layer[FLIPPED])


@helper
def convolve_image(net, places, index, memory, at, out_at, scratch):
    """Compute a convolution's sums; apply its activation unless the next layer pools it (IS_FUSED).

    Return the start of the sums. It is `out_at`; if the next layer pools the sums, they are padded
    and in scratch.
    """
    layer, regions = net.layers[index], net.regions
    shape = shape_of(layer)
    bordered = with_borders(shape, memory, at, scratch + regions[BORDERED])
    filters, n_places = shape[5], shape[3] * shape[4]
    width, kind = padded(filters, memory.itemsize), layer[ACTIVATION]
    is_direct = width == filters and not layer[IS_FUSED]
    into = out_at if is_direct else scratch + regions[SUMS]
    ends = places, layer[PLACES], scratch + layer[FILTERS], CUTS if kind == RELU else 0, into
    convolve(shape, memory, bordered, *ends)
    if layer[IS_FUSED]:
        return into
    if not is_direct:
        unpad_rows(memory, into, n_places, filters, width, memory, out_at)
    if kind != RELU:
        activate(memory[out_at : out_at + layer[N_OUT]], kind)
    return out_at


@helper
def image_forward(net, places, n, i, memory, marks, scratch):
    """Compute the outputs of all layers that take images, for the i-th of n images."""
    at, index = i * net.layers[0, IN_WIDTH], 0
    while index < net.n_images:
        layer = net.layers[index]
        shape, kind = shape_of(layer), layer[KIND]
        out_at, place = layer[AT] * n + i * layer[WIDTH], shape[2]
        if kind == CONVOLUTION:
            at = convolve_image(net, places, index, memory, at, out_at, scratch)
        elif kind == RESPONSE:
            spots = scratch + net.regions[RESPONSES], net.regions[SPACE], out_at
            respond(shape, net.numbers[index], memory, at, *spots)
            at = out_at
        else:
            before = net.layers[max(index - 1, 0)]
            is_fused = index > 0 and before[IS_FUSED] == 1
            if is_fused:
                place = padded(shape[2], memory.itemsize)
            marked = marks, layer[MARKS] * n + i * layer[WIDTH]
            pool(shape, kind == LARGEST, memory, at, place, out_at, *marked)
            if is_fused and before[ACTIVATION] != RELU:
                activate(memory[out_at : out_at + layer[N_OUT]], before[ACTIVATION])
            at = out_at
        index += 1


@helper
def convolve_back(net, places, index, memory, at, delta_at, adds, inward_at, scratch):
    """Do a convolution's backward pass, from the padded derivatives with respect to its sums.

    Write the derivatives with respect to its filters and biases into scratch. Unless the layer is
    the first, write the derivatives with respect to its input from `inward_at` on.
    """
    layer, regions = net.layers[index], net.regions
    shape, spots = shape_of(layer), (places, layer[PLACES])
    bordered = with_borders(shape, memory, at, scratch + regions[BORDERED])
    ends = scratch + regions[ONE], adds, scratch + layer[SLOPES]
    filters_back(shape, memory, bordered, *spots, delta_at, *ends)
    if index > 0:
        line = scratch + regions[LINE]
        image_back(shape, memory, delta_at, *spots, scratch + layer[FLIPPED], line, inward_at)


@helper
def image_back_through(net, places, n, i, memory, marks, delta_at, scratch):
    """Do the backward pass of image i of n through all layers that take images.

    delta_at : start of the derivatives with respect to the outputs of the last of these layers
    """
    regions = net.regions
    inward_at, spare_at = scratch + regions[FIRST], scratch + regions[SECOND]
    sums_at, index = scratch + regions[SUMS], net.n_images - 1
    while index >= 0:
        layer = net.layers[index]
        shape, kind = shape_of(layer), layer[KIND]
        out_at = layer[AT] * n + i * layer[WIDTH]
        at = i * layer[IN_WIDTH]
        if index > 0:
            at += net.layers[index - 1, AT] * n
        if kind == CONVOLUTION:
            filters, n_places = shape[5], shape[3] * shape[4]
            width = padded(filters, memory.itemsize)
            if not layer[IS_FUSED]:
                slopes = memory[delta_at : delta_at + layer[N_OUT]]
                through_activation(
                    memory[out_at : out_at + layer[N_OUT]], slopes, layer[ACTIVATION]
                )
                if width != filters:
                    pad_rows(memory, delta_at, n_places, filters, memory, sums_at, width)
                    delta_at = sums_at
            convolve_back(net, places, index, memory, at, delta_at, i > 0, inward_at, scratch)
        elif index > 0 and net.layers[index - 1, IS_FUSED]:
            slopes = memory[delta_at : delta_at + layer[N_OUT]]
            outputs = memory[out_at : out_at + layer[N_OUT]]
            through_activation(outputs, slopes, net.layers[index - 1, ACTIVATION])
            marked = marks, layer[MARKS] * n + i * layer[WIDTH]
            width = padded(shape[2], memory.itemsize)
            pool_back(shape, True, memory, delta_at, *marked, sums_at, width)
            delta_at = sums_at
            index -= 1
            continue
        elif index > 0 and kind == RESPONSE:
            spots = scratch + regions[RESPONSES], regions[SPACE], inward_at
            respond_back(shape, net.numbers[index], memory, at, delta_at, *spots)
        elif index > 0:
            marked = marks, layer[MARKS] * n + i * layer[WIDTH]
            pool_back(shape, kind == LARGEST, memory, delta_at, *marked, inward_at, shape[2])
        delta_at = inward_at
        inward_at, spare_at = spare_at, inward_at
        index -= 1


@helper
def go_forward(net, places, w, rows, data, indices, indptr, memory, marks, goes_back):
    """Compute every layer's outputs and the last layer's sums; return the start of these sums.

    goes_back : whether a backward pass follows
    """
    layers, n, at = net.layers, rows.shape[0], 0
    scratch = net.scratch_at * n
    sparse = is_read_in_place(layers, indptr)
    if not sparse:
        gather(rows, data, indices, indptr, layers[0, N_IN], layers[0, IN_WIDTH], memory)
    if places is not None:
        prepare_filters(net, w, memory, scratch, goes_back)
        for i in range(n):
            image_forward(net, places, n, i, memory, marks, scratch)
        at = layers[net.n_images - 1, AT] * n
    for index in range(net.n_images, layers.shape[0]):
        layer = layers[index]
        out_at, n_out, width = layer[AT] * n, layer[N_OUT], layer[WIDTH]
        if sparse and index == 0:
            ends = w, layer[WEIGHTS], memory, out_at, n_out, width
            sparse_forward(rows, data, indices, indptr, *ends)
        else:
            sizes, spot = (n, layer[N_IN], n_out), scratch + net.regions[COEFS]
            ends = w, layer[WEIGHTS], spot, out_at, width
            dense_forward(sizes, memory, at, layer[IN_WIDTH], *ends)
        biases = w[layer[BIASES] : layer[END]]
        finish(memory, out_at, n, width, biases, layer[ACTIVATION])
        at = out_at
    return at


@helper
def go_back(net, places, w, rows, data, indices, indptr, memory, marks, out, delta_at):
    """Do the backward pass: write the derivatives of all coefficients and biases into `out`.

    delta_at : start of the derivatives with respect to the last layer's sums
    """
    layers, n, space = net.layers, rows.shape[0], net.space * rows.shape[0]
    scratch, inward_at = net.scratch_at * n, delta_at + space
    spot, strip = scratch + net.regions[COEFS], net.regions[STRIP]
    sparse = is_read_in_place(layers, indptr)
    for index in range(layers.shape[0] - 1, net.n_images - 1, -1):
        layer = layers[index]
        n_out, out_at, width = layer[N_OUT], layer[AT] * n, layer[WIDTH]
        at = layers[index - 1, AT] * n if index else 0
        slopes = memory[delta_at : delta_at + n * width]
        through_activation(memory[out_at : out_at + n * width], slopes, layer[ACTIVATION])
        sum_rows(memory, delta_at, n, width, out[layer[BIASES] : layer[END]])
        sizes = n, layer[N_IN], n_out
        if sparse and index == 0:
            sums = out[layer[WEIGHTS] : layer[BIASES]]
            sparse_backward(rows, data, indices, indptr, memory, delta_at, width, sums, n_out)
        else:
            ends = spot, strip, out, layer[WEIGHTS]
            coefs_back(sizes, memory, at, layer[IN_WIDTH], delta_at, width, *ends)
        if index:
            inputs_back(
                sizes, memory, delta_at, width, w, layer[WEIGHTS], spot, inward_at, layer[IN_WIDTH]
            )
        delta_at, inward_at = inward_at, delta_at
    if places is not None:
        row = layers[net.n_images - 1, WIDTH]
        for i in range(n):
            image_back_through(net, places, n, i, memory, marks, delta_at + i * row, scratch)
        store_filters(net, n, memory, scratch, out)


@helper
def store_filters(net, n, memory, scratch, out):
    """Write the derivatives of filters and biases, summed over the n images, into `out`."""
    for index in range(net.n_images):
        layer = net.layers[index]
        if layer[KIND] == CONVOLUTION:
            shape = shape_of(layer)
            filters, length = shape[5], shape[6] * shape[6] * shape[2]
            width, at = padded(filters, memory.itemsize), scratch + layer[SLOPES]
            if n == 0:
                fill(memory, at, (length + 1) * width, 0.0)
            unpad_rows(memory, at, length + 1, filters, width, out, layer[WEIGHTS])


@helper
def scale_and_penalise(layers, w, out, alpha, share):
    """Add the penalty's gradient to `out`, multiply `out` by `share`, and return the penalty.

    The penalty is ``alpha / 2`` times the squares of coefficients, not of biases. The returned
    value is NaN if a value of `out` is NaN or infinite, because zero times each value is added.
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
def end_rows(rows, targets, weights, kind, memory, at, last, deltas_at):
    """Write the derivatives with respect to the last layer's sums, from `deltas_at` on.

    Return the sum of the rows' losses and the sum of their weights. The last layer's sums are
    replaced by predictions.
    """
    n_outputs, row = last[N_OUT], last[WIDTH]
    total, weight_sum, width = 0.0, 0.0, targets.shape[1]
    for i in range(rows.shape[0]):
        weight = np.float64(weights[rows[i]]) if weights.shape[0] else 1.0
        z = memory[at + i * row : at + i * row + n_outputs]
        delta = memory[deltas_at + i * row : deltas_at + i * row + n_outputs]
        total += end_row(z, targets[rows[i], :width], kind, weight, delta)
        weight_sum += weight
    return total, weight_sum


@kernel
def gradient(
    net,
    places,
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
    """Overwrite `out` with the gradient of the rows' losses and the penalty; return their sum.

    If `kind` is not NONE (`hogshare.kernels.rules.momentum`) and the returned value is finite, also
    take a step: subtract the step from `moved`, and overwrite `out` with the step. `moved` is the
    vector, and the worker must be allowed to write it.

    net : see `NetworkLayout`
    places : int64, places of convolutions (`hogshare.kernels.networks.image_layers`). None if no
        layer takes images; the kernel then contains no code for images.
    w, out : float [n_params]
    rows : int64 [n]
    data, indices, indptr : the inputs, see `hogshare.kernels.rows.row_views.RowArrays`
    targets : float [n_rows, n_outputs], for softmax [n_rows, 1]
    weights : float [n_rows], or empty
    mean : if 0.0, `out` is a sum over the rows. Otherwise `out` is multiplied by `mean` over the
        sum of the rows' weights, and the returned value, a sum in any case, is divided by their
        mean weight. `mean` is 1.0, or the rows' share of a mini-batch.
    """
    n = rows.shape[0]
    delta_at = net.deltas_at * n
    inputs = rows, data, indices, indptr, memory, marks
    at = go_forward(net, places, w, *inputs, True)
    last = net.layers[net.layers.shape[0] - 1]
    total, weight = end_rows(rows, targets, weights, loss, memory, at, last, delta_at)
    go_back(net, places, w, *inputs, out, delta_at)
    share = 1.0 if mean == 0.0 else mean / weight if weight > 0.0 else 0.0
    value = total + scale_and_penalise(net.layers, w, out, alpha, share)
    if mean != 0.0 and weights.shape[0] and weight > 0.0:
        value *= n / weight
    if kind != NONE and math.isfinite(value):
        descend(moved, out, first, second, kind, eta, share_1, share_2, epsilon)
    return value


@kernel
def predict(net, places, w, rows, data, indices, indptr, loss, memory, marks, predictions):
    """Overwrite `predictions`, float [n * n_outputs], with the network's outputs for some rows."""
    at = go_forward(net, places, w, rows, data, indices, indptr, memory, marks, False)
    last = net.layers[net.layers.shape[0] - 1]
    k, width = last[N_OUT], last[WIDTH]
    for i in range(rows.shape[0]):
        outputs = memory[at + i * width : at + i * width + k]
        predict_row(outputs, loss)
        for j in range(k):
            predictions[i * k + j] = outputs[j]


@kernel
def loss_of(net, places, w, rows, data, indices, indptr, targets, weights, loss, memory, marks):
    """Return the sum of some rows' losses and the sum of their weights; compute no gradient."""
    at = go_forward(net, places, w, rows, data, indices, indptr, memory, marks, False)
    last, deltas_at = net.layers[net.layers.shape[0] - 1], net.deltas_at * rows.shape[0]
    return end_rows(rows, targets, weights, loss, memory, at, last, deltas_at)
