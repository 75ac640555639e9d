"""Layers of a network that look at neighbours: convolution, pooling, local response normalisation.

An image is a row of numbers: its lines one after another, in a line its places, at a place its
channels. So of a window each line is one run of memory, and what a convolution leaves is an image
of the same kind. Images are taken one by one: a window's numbers are laid out side by side
(`lay_out`), a row for each window, in scratch that stays in a cache, and a product does the rest.

Source: Jia et al. 2014, Caffe; whose pooling windows may reach over the border, where they are cut.
"""

import math

import numpy as np

from hogshare.kernels.gemm import gemm
from hogshare.kernels.jit import helper


@helper
def bounds(o, stride, padding, size, length):
    """First and last-plus-one place of window `o` in a line of `length` places."""
    first = o * stride - padding
    return max(first, 0), min(first + size, length)


@helper
def lay_out(image, height, width, channels, size, stride, padding, across, down, out):
    """Write the numbers of every window side by side, zeros where it is beyond the border.

    image : float [height * width * channels]
    out : float [down * across * size * size * channels]
    """
    line = size * channels
    zero = out.dtype.type(0.0)
    for y in range(down):
        for x in range(across):
            window = (y * across + x) * size * line
            left, right = bounds(x, stride, padding, size, width)
            skipped = (left - (x * stride - padding)) * channels
            count = (right - left) * channels
            for part in range(size):
                into = out[window + part * line : window + part * line + line]
                source = y * stride - padding + part
                if source < 0 or source >= height:
                    into[:] = zero
                    continue
                begin = (source * width + left) * channels
                run = image[begin : begin + count]
                if count < line:
                    into[:] = zero
                into = into[skipped : skipped + count]
                for j in range(count):
                    into[j] = run[j]


@helper
def gather_back(windows, height, width, channels, size, stride, padding, across, down, image):
    """Add every window's numbers to where `lay_out` has them from."""
    line = size * channels
    for y in range(down):
        for x in range(across):
            window = (y * across + x) * size * line
            left, right = bounds(x, stride, padding, size, width)
            skipped = (left - (x * stride - padding)) * channels
            count = (right - left) * channels
            for part in range(size):
                source = y * stride - padding + part
                if source < 0 or source >= height:
                    continue
                first = window + part * line + skipped
                run = windows[first : first + count]
                begin = (source * width + left) * channels
                into = image[begin : begin + count]
                for j in range(count):
                    into[j] += run[j]


@helper
def convolve(shape, memory, at, w, w_at, out_at, scratch_at):
    """One image's windows times the filters: float [down * across * filters].

    shape : see `hogshare.kernels.network`
    """
    height, width, channels, down, across, filters, size, stride, padding = shape
    windows, length = down * across, size * size * channels
    image = memory[at : at + height * width * channels]
    columns = memory[scratch_at : scratch_at + windows * length]
    lay_out(image, height, width, channels, size, stride, padding, across, down, columns)
    gemm(0, 0, windows, filters, length, memory, scratch_at, w, w_at, 0.0, memory, out_at)


@helper
def convolve_back(shape, memory, at, delta_at, w, w_at, kept, out, inward, inward_at, scratch_at):
    """From an image's derivatives in what `convolve` gives to those in filters and image.

    kept : 1.0 to add to the filters' derivatives in `out`, 0.0 to write them
    inward : whether the image's are asked for
    """
    height, width, channels, down, across, filters, size, stride, padding = shape
    windows, length = down * across, size * size * channels
    image = memory[at : at + height * width * channels]
    columns = memory[scratch_at : scratch_at + windows * length]
    lay_out(image, height, width, channels, size, stride, padding, across, down, columns)
    gemm(1, 0, length, filters, windows, memory, scratch_at, memory, delta_at, kept, out, w_at)
    if inward:
        gemm(0, 1, windows, length, filters, memory, delta_at, w, w_at, 0.0, memory, scratch_at)
        into = memory[inward_at : inward_at + height * width * channels]
        into[:] = memory.dtype.type(0.0)
        gather_back(columns, height, width, channels, size, stride, padding, across, down, into)


@helper
def pool(shape, image, largest, out, marks):
    """The largest or the mean of each window's numbers, channel by channel.

    marks : int32 [down * across * channels], where in the image the largest is; of means empty
    """
    height, width, channels, down, across, _, size, stride, padding = shape
    for y in range(down):
        top, bottom = bounds(y, stride, padding, size, height)
        for x in range(across):
            left, right = bounds(x, stride, padding, size, width)
            first = (y * across + x) * channels
            into, places = out[first : first + channels], marks[first : first + channels]
            count = out.dtype.type((bottom - top) * (right - left))
            for row in range(top, bottom):
                for column in range(left, right):
                    begin = (row * width + column) * channels
                    run = image[begin : begin + channels]
                    is_first = row == top and column == left
                    if largest:
                        for c in range(channels):
                            # NaN, wherever it is, becomes the largest
                            if is_first or not run[c] <= into[c]:
                                into[c], places[c] = run[c], begin + c
                    elif is_first:
                        for c in range(channels):
                            into[c] = run[c]
                    else:
                        for c in range(channels):
                            into[c] += run[c]
            if not largest:
                for c in range(channels):
                    into[c] /= count


@helper
def pool_back(shape, delta, largest, marks, image):
    """Overwrite `image` with the derivatives in what `pool` was given."""
    height, width, channels, down, across, _, size, stride, padding = shape
    image[:] = image.dtype.type(0.0)
    if largest:
        for j in range(down * across * channels):
            image[marks[j]] += delta[j]
        return
    for y in range(down):
        top, bottom = bounds(y, stride, padding, size, height)
        for x in range(across):
            left, right = bounds(x, stride, padding, size, width)
            first = (y * across + x) * channels
            slopes = delta[first : first + channels]
            count = image.dtype.type((bottom - top) * (right - left))
            for row in range(top, bottom):
                for column in range(left, right):
                    begin = (row * width + column) * channels
                    into = image[begin : begin + channels]
                    for c in range(channels):
                        into[c] += slopes[c] / count


@helper
def add_windows(shape, values, out):
    """Overwrite `out` with the sums of `values` over the window around each place."""
    height, width, channels, _, _, _, size, _, _ = shape
    half = size // 2
    for y in range(height):
        top, bottom = bounds(y, 1, half, size, height)
        for x in range(width):
            left, right = bounds(x, 1, half, size, width)
            first = (y * width + x) * channels
            into = out[first : first + channels]
            into[:] = out.dtype.type(0.0)
            for row in range(top, bottom):
                for column in range(left, right):
                    begin = (row * width + column) * channels
                    run = values[begin : begin + channels]
                    for c in range(channels):
                        into[c] += run[c]


@helper
def divisors(shape, numbers, image, scratch, out):
    """``k + alpha / size^2 * sum of the squares around``, of every number of an image."""
    for j in range(image.shape[0]):
        scratch[j] = image[j] * image[j]
    add_windows(shape, scratch, out)
    size = shape[6]
    share, least = out.dtype.type(numbers[0] / (size * size)), out.dtype.type(numbers[2])
    for j in range(image.shape[0]):
        out[j] = least + share * out[j]


@helper
def respond(shape, numbers, image, scratch, out):
    """``x divisor^-beta``: local response normalisation within each channel.

    numbers : float64 [3], alpha, beta and k
    scratch : float [2 * len(image)]
    """
    n = image.shape[0]
    found = scratch[n : 2 * n]
    divisors(shape, numbers, image, scratch[:n], found)
    for j in range(n):
        out[j] = image[j] * math.exp(-numbers[1] * math.log(np.float64(found[j])))


@helper
def respond_back(shape, numbers, image, delta, scratch, out):
    """Overwrite `out` with the derivatives in what `respond` was given.

    ``delta_p d_p^-beta - 2 alpha beta / size^2 x_p sum_q delta_q x_q d_q^(-beta - 1)``, over the
    places q around whose windows hold p.
    """
    n = image.shape[0]
    squares, found = scratch[:n], scratch[n : 2 * n]
    divisors(shape, numbers, image, squares, found)
    for j in range(n):
        power = math.exp(-numbers[1] * math.log(np.float64(found[j])))
        squares[j] = delta[j] * image[j] * power / found[j]
        found[j] = delta[j] * power
    add_windows(shape, squares, out)
    size = shape[6]
    share = out.dtype.type(2.0 * numbers[0] * numbers[1] / (size * size))
    for j in range(n):
        out[j] = found[j] - share * image[j] * out[j]
