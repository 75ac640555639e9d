"""Layers of a network that see neighbours: convolution, pooling, local response normalisation.

An image is a row of values, stored line by line, within a line place by place, and within a place
channel by channel. So each line of a window is one stretch of memory, and a convolution's output
is an image of the same kind. Images are processed one by one. All arrays are parts of the same
memory: each begins at its own index, and memory for one more vector follows it. Filters, and the
derivatives with respect to filters, are padded to whole vectors, and the row of biases follows
them. All written arrays are the calling worker's own, so stores are plain.

Source: Jia et al. 2014, Caffe. In Caffe pooling windows may cross the border; they are cut at the
border.
"""

import math

import numpy as np

from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.networks import windows
from hogshare.kernels.networks.padded_matrices import flip
from hogshare.kernels.networks.pools import largest, spread_largest, spread_total, total
from hogshare.kernels.networks.tiles import VECTOR_BYTES, padded

USUAL_BETA = 0.75  # for this beta a power needs only two square roots


@helper
def bounds(o, stride, padding, size, length):
    """Return the first place and the end of window `o` in a line of `length` places."""
    first = o * stride - padding
    return max(first, 0), min(first + size, length)


@helper
def fill(memory, at, count, value):
    """Write `value` to `count` places from `at` on."""
    memory[at : at + count] = memory.dtype.type(value)


@helper
def copy(memory, at, count, into_at):
    """Copy `count` values within memory."""
    source, into = memory[at : at + count], memory[into_at : into_at + count]
    for j in range(count):
        into[j] = source[j]


@helper
def flip_filters(shape, memory, filters_at, out_at):
    """Write filters by columns: one row for each line of a window and each filter."""
    _, _, channels, _, _, filters, size, _, _ = shape
    line = size * channels
    width, out_width = padded(filters, memory.itemsize), padded(line, memory.itemsize)
    for part in range(size):
        ends = filters_at + part * line * width, width, memory, out_at + part * filters * out_width
        flip(line, filters, memory, *ends, out_width)


@helper
def with_borders(shape, memory, at, into_at):
    """Return the start of the image with its borders of zeros.

    Without a border this is `at`; with a border the image is copied to `into_at`.
    """
    height, width, channels, _, _, _, _, _, padding = shape
    if padding == 0:
        return at
    border, line = padding * channels, width * channels
    whole = line + 2 * border
    fill(memory, into_at, padding * whole + border, 0.0)
    first = into_at + padding * whole + border
    for y in range(height):
        copy(memory, at + y * line, line, first + y * whole)
        fill(memory, first + y * whole + line, 2 * border, 0.0)
    fill(memory, first + height * whole - border, padding * whole, 0.0)
    return into_at


@helper
def convolve(shape, memory, at, places, places_at, filters_at, cuts, out_at):
    """Multiply one image's windows by the filters, and add biases, in padded rows.

    shape : see `hogshare.kernels.networks.network_gradient`
    at : start of the image with its borders
    places, places_at : array and index from which the starts of the windows are listed
    filters_at : start of the padded filters and of the biases
    cuts : `hogshare.kernels.networks.windows.CUTS` for a relu, otherwise 0
    out_at : index from which the products are written
    """
    _, wide, channels, down, across, filters, size, _, padding = shape
    width = padded(filters, memory.itemsize)
    line, whole = size * channels, (wide + 2 * padding) * channels
    sums = at, places_at, size, line, whole, 1
    ends = filters_at, line * width, width, filters_at + size * line * width, out_at, width
    how = windows.BEGINS | cuts
    numbers = (*sums, *ends)
    windows.product(down * across, width, how, memory, places, memory, memory, memory, numbers)


@helper
def filters_back(shape, memory, at, places, places_at, delta_at, one_at, adds, out_at):
    """Compute the derivatives with respect to filters and biases, for one image.

    They are computed from the derivatives with respect to the image's sums, padded, and written
    from `out_at` on.

    at : start of the image with its borders
    places, places_at : array and index from which the starts of the windows are listed, and then
        the offsets of a window's values
    delta_at : start of the derivatives with respect to the sums
    one_at : index of a value that is 1
    adds : whether the derivatives are added to other images' derivatives
    """
    _, wide, channels, down, across, filters, size, stride, padding = shape
    width = padded(filters, memory.itemsize)
    whole, length = (wide + 2 * padding) * channels, size * size * channels
    how = windows.ADDS if adds else windows.WRITES
    own = places_at + down * across
    ends = delta_at, across * width, width, 0, out_at, width
    numbers = (at, own, down, across, stride * whole, stride * channels, *ends)
    windows.product(length, width, how, memory, places, memory, memory, memory, numbers)
    ends = delta_at, across * width, width, 0, out_at + length * width, width
    of_ones = (one_at, places_at, down, across, 0, 0, *ends)
    windows.product(1, width, how, memory, places, memory, memory, memory, of_ones)


@helper
def image_back(shape, memory, delta_at, places, places_at, flipped_at, line_at, out_at):
    """Compute the derivatives with respect to an image, line by line.

    They are computed from the derivatives with respect to the image's sums. For each line of the
    image, one product multiplies the derivatives of all windows that contain the line by the
    matching lines of the filters. Overlapping results are then added up along the line.

    places, places_at : see `filters_back`; after the offsets, the windows of a line are listed
    flipped_at : start of the filters by columns (`flip_filters`)
    line_at : start of scratch for a line's windows, and for a line with borders
    out_at : index from which the image's derivatives are written
    """
    height, wide, channels, down, across, filters, size, stride, padding = shape
    width = padded(filters, memory.itemsize)
    line = padded(size * channels, memory.itemsize)
    own = places_at + down * across + size * size * channels
    sums_at, border = line_at + across * line, padding * channels
    for y in range(height):
        first = max(0, -(-(y + padding - size + 1) // stride))
        count = min(down - 1, (y + padding) // stride) - first + 1
        into = out_at + y * wide * channels
        at = sums_at if padding else into
        fill(memory, at, (wide + 2 * padding) * channels, 0.0)
        if count > 0:
            part = y + padding - first * stride
            begin = flipped_at + part * filters * line
            ends = begin, -stride * filters * line, line, 0, line_at, line
            row = across * width
            numbers = (delta_at + first * row, own, count, filters, row, 1, *ends)
            windows.product(across, line, 0, memory, places, memory, memory, memory, numbers)
            for x in range(across):
                run = memory[line_at + x * line : line_at + (x + 1) * line]
                place = at + x * stride * channels
                sums = memory[place : place + line]
                for j in range(line):
                    sums[j] += run[j]
        if padding:
            copy(memory, at + border, wide * channels, into)


@helper
def pool(shape, takes_largest, memory, at, place, out_at, marks, marks_at):
    """Compute the largest or the mean value of each window, channel by channel.

    takes_largest : whether to compute the largest value; if not, the mean
    place : distance from one place of the image to the next place
    marks, marks_at : int32 array, and the index from which the place in the image of each largest
        value is written; unused for means
    """
    height, wide, channels, down, across, _, size, stride, padding = shape
    lanes = VECTOR_BYTES // memory.itemsize
    for y in range(down):
        top, bottom = bounds(y, stride, padding, size, height)
        for x in range(across):
            left, right = bounds(x, stride, padding, size, wide)
            first, spot = (top * wide + left) * place, (y * across + x) * channels
            rows, columns = bottom - top, right - left
            share = 1.0 / (rows * columns)
            for c in range(0, channels, lanes):
                window = first + c, rows, columns, wide * place, place
                if takes_largest:
                    marked = marks, marks_at + spot + c
                    largest(window, memory, at, memory, out_at + spot + c, *marked)
                else:
                    total(window, share, memory, at, memory, out_at + spot + c)


@helper
def pool_back(shape, takes_largest, memory, delta_at, marks, marks_at, at, place):
    """Overwrite an image with the derivatives with respect to the input of `pool`."""
    height, wide, channels, down, across, _, size, stride, padding = shape
    lanes = VECTOR_BYTES // memory.itemsize
    fill(memory, at, height * wide * place, 0.0)
    for y in range(down):
        top, bottom = bounds(y, stride, padding, size, height)
        for x in range(across):
            left, right = bounds(x, stride, padding, size, wide)
            first, spot = (top * wide + left) * place, (y * across + x) * channels
            rows, columns = bottom - top, right - left
            share = 1.0 / (rows * columns)
            for c in range(0, channels, lanes):
                window, slopes = (
                    (first + c, rows, columns, wide * place, place),
                    delta_at + spot + c,
                )
                if takes_largest:
                    marked = marks, marks_at + spot + c
                    spread_largest(window, channels - c, memory, slopes, *marked, memory, at)
                else:
                    spread_total(window, channels - c, share, memory, slopes, memory, at)


@helper
def add_windows(shape, factor, memory, at, out_at):
    """Overwrite the image at `out_at` with sums of the image at `at`, times `factor`.

    A sum runs over the window around a place.
    """
    height, wide, channels, _, _, _, size, _, _ = shape
    half, lanes = size // 2, VECTOR_BYTES // memory.itemsize
    for y in range(height):
        top, bottom = bounds(y, 1, half, size, height)
        for x in range(wide):
            left, right = bounds(x, 1, half, size, wide)
            first, spot = (top * wide + left) * channels, (y * wide + x) * channels
            for c in range(0, channels, lanes):
                window = first + c, bottom - top, right - left, wide * channels, channels
                total(window, factor, memory, at, memory, out_at + spot + c)


@helper
def divisors(shape, numbers, memory, at, scratch_at, out_at):
    """Compute ``k + alpha / size^2 * s`` for each value of an image.

    s is the sum of the squares in the window around the value's place, in the same channel.
    """
    n = shape[0] * shape[1] * shape[2]
    image, squares = memory[at : at + n], memory[scratch_at : scratch_at + n]
    for j in range(n):
        squares[j] = image[j] * image[j]
    size = shape[6]
    add_windows(shape, numbers[0] / (size * size), memory, scratch_at, out_at)
    out, least = memory[out_at : out_at + n], memory.dtype.type(numbers[2])
    for j in range(n):
        out[j] += least


@helper
def lower(values, beta, out):
    """Overwrite `out` with ``values^-beta``."""
    one = values.dtype.type(1.0)
    if beta == USUAL_BETA:
        for j in range(values.shape[0]):
            root = math.sqrt(values[j])
            out[j] = one / (root * math.sqrt(root))
    else:
        for j in range(values.shape[0]):
            out[j] = math.exp(-beta * math.log(np.float64(values[j])))


@helper
def respond(shape, numbers, memory, at, scratch_at, space, out_at):
    """Compute ``x divisor^-beta``: local response normalisation within each channel.

    numbers : float64 [3], alpha, beta and k
    scratch_at : start of scratch for three images
    space : distance from one of these images to the next image
    """
    n = shape[0] * shape[1] * shape[2]
    divisors(shape, numbers, memory, at, scratch_at, scratch_at + space)
    powers = memory[scratch_at : scratch_at + n]
    lower(memory[scratch_at + space : scratch_at + space + n], numbers[1], powers)
    image, out = memory[at : at + n], memory[out_at : out_at + n]
    for j in range(n):
        out[j] = image[j] * powers[j]


@helper
def respond_back(shape, numbers, memory, at, delta_at, scratch_at, space, out_at):
    """Overwrite an image with the derivatives with respect to the input of `respond`.

    The derivative at place p is ``delta_p d_p^-beta - 2 alpha beta / size^2 x_p sum_q delta_q x_q
    d_q^(-beta - 1)``, where q runs over the places whose windows contain p.
    """
    n, size = shape[0] * shape[1] * shape[2], shape[6]
    divisors(shape, numbers, memory, at, scratch_at, scratch_at + space)
    image, delta = memory[at : at + n], memory[delta_at : delta_at + n]
    ratios, found = (
        memory[scratch_at : scratch_at + n],
        memory[scratch_at + space : scratch_at + space + n],
    )
    powers = memory[scratch_at + 2 * space : scratch_at + 2 * space + n]
    lower(found, numbers[1], powers)
    for j in range(n):
        power = delta[j] * powers[j]
        ratios[j] = power * image[j] / found[j]
        powers[j] = power
    share = 2.0 * numbers[0] * numbers[1] / (size * size)
    add_windows(shape, share, memory, scratch_at, out_at)
    out = memory[out_at : out_at + n]
    for j in range(n):
        out[j] = powers[j] - image[j] * out[j]
