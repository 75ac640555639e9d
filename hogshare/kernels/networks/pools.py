"""Pooling in vector registers: one window of an image, for as many channels as a vector has lanes.

Whole vectors are written and read, even if an image has fewer channels. Outputs are written in the
order of their places, so the values of the next place overwrite the surplus values. Memory for one
more vector follows each image.

All arrays are the calling worker's own (`network_gradient`), so stores are plain.

A mark is the place in the image of a window's largest value. A NaN at any place counts as the
largest value.
"""

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.kernels.networks.tiles import FLOATS, LANE, VECTOR_BYTES, VectorCode


def lanes_of(array):
    """Return the number of lanes of a vector of the array's dtype."""
    return VECTOR_BYTES // array.itemsize


if JIT_DISABLED:

    def _places(window, n):
        begin, rows, columns, row_step, column_step = window
        for row in range(rows):
            for column in range(columns):
                first = begin + row * row_step + column * column_step
                yield first, first + np.arange(n)

    def largest(window, image, at, out, out_at, marks, marks_at):
        """Write the largest values of a window, and their places, with NumPy."""
        n = lanes_of(image)
        into, found = out[out_at : out_at + n], marks[marks_at : marks_at + n]
        for k, (first, places) in enumerate(_places(window, n)):
            values = image[at + first : at + first + n]
            takes = (values > into) | (values != values) if k else np.ones(n, bool)
            into[takes], found[takes] = values[takes], places[takes]

    def total(window, factor, image, at, out, out_at):
        """Write the sums of a window's values, times a factor, with NumPy."""
        n = lanes_of(image)
        sums = np.zeros(n, image.dtype)
        for first, _ in _places(window, n):
            sums += image[at + first : at + first + n]
        out[out_at : out_at + n] = sums * factor

    def spread_largest(window, count, delta, delta_at, marks, marks_at, image, at):
        """Add derivatives at the marked values, for at most `count` channels, with NumPy."""
        n = lanes_of(image)
        for first, places in _places(window, n):
            takes = (marks[marks_at : marks_at + n] == places) & (np.arange(n) < count)
            image[at + first : at + first + n][takes] += delta[delta_at : delta_at + n][takes]

    def spread_total(window, count, factor, delta, delta_at, image, at):
        """Add derivatives, times a factor, at all values of a window, with NumPy."""
        n = min(count, lanes_of(image))
        for first, _ in _places(window, n):
            image[at + first : at + first + n] += delta[delta_at : delta_at + n] * factor

else:

    class WindowCode(VectorCode):
        """Builder of the code of an intrinsic whose first argument is a window."""

        def __init__(self, context, builder, signature, args, kind):
            super().__init__(context, builder, signature, args, kind)
            self.first, self.rows, self.columns, *self.steps = self.words(0)
            self.integers = ir.VectorType(LANE, self.lanes)
            self.counting = ir.Constant(self.integers, list(range(self.lanes)))

        def everywhere(self, value, kind):
            """Return a vector with the same value in all lanes."""
            nothing = ir.Constant(kind, ir.Undefined)
            first = self.builder.insert_element(nothing, value, LANE(0))
            order = ir.Constant(self.integers, [0] * self.lanes)
            return self.builder.shuffle_vector(first, nothing, order)

        def factor(self, place):
            """Return a scalar argument in all lanes."""
            kind = self.signature.args[place]
            number = self.context.cast(self.builder, self.args[place], kind, self.kind)
            return self.everywhere(number, self.vector)

        def marked(self, place, at):
            """Return the address of the vector of marks that begins at a place of an argument."""
            return self.builder.bitcast(self.begin(place, at), self.integers.as_pointer())

        def is_channel(self, place):
            """Return the mask of lanes whose index is below an argument."""
            count = self.builder.trunc(self.word(place), LANE)
            return self.builder.icmp_signed(
                "<", self.counting, self.everywhere(count, self.integers)
            )

        def over(self, now, body):
            """Loop over the window: ``body(first, now)`` returns the next vectors, given `now`."""
            builder, (row_step, column_step) = self.builder, self.steps

            def line(row, now):
                begin = builder.add(self.first, builder.mul(row, row_step))

                def place(column, now):
                    return body(builder.add(begin, builder.mul(column, column_step)), now)

                return self.repeat(self.columns, now, place)

            return self.repeat(self.rows, now, line)

        def places(self, first):
            """Return the numbers of the places from `first` on, one per lane."""
            spread = self.everywhere(self.builder.trunc(first, LANE), self.integers)
            return self.builder.add(spread, self.counting)

    def _fits(floats, marks=None):
        alike = all(one.dtype == floats[0].dtype for one in floats)
        return floats[0].dtype in FLOATS and alike and marks in (None, types.int32)

    @intrinsic
    def largest(typingctx, window, image, at, out, out_at, marks, marks_at):
        """Write the largest values of a window, and their places.

        window : first place in the image, number of rows, number of columns, distance of rows,
            distance of columns
        """
        if not _fits((image, out), marks.dtype):
            return None

        def codegen(context, builder, signature, args):
            v = WindowCode(context, builder, signature, args, image.dtype)
            source = v.begin(1, v.word(2))

            def body(first, now):
                best, mark = now
                values = v.load(builder.gep(source, [first]), 0)
                is_larger = builder.fcmp_ordered(">", values, best)
                takes = builder.or_(is_larger, builder.fcmp_unordered("uno", values, values))
                best = builder.select(takes, values, best)
                return [best, builder.select(takes, v.places(first), mark)]

            start = [v.load(builder.gep(source, [v.first]), 0), v.places(v.first)]
            best, mark = v.over(start, body)
            builder.store(best, v.at(v.begin(3, v.word(4)), 0), align=v.align)
            builder.store(mark, v.marked(5, v.word(6)), align=4)
            return context.get_dummy_value()

        return types.none(window, image, at, out, out_at, marks, marks_at), codegen

    @intrinsic
    def total(typingctx, window, factor, image, at, out, out_at):
        """Write the sums of a window's values, times a factor."""
        if not _fits((image, out)):
            return None

        def codegen(context, builder, signature, args):
            v = WindowCode(context, builder, signature, args, image.dtype)
            source = v.begin(2, v.word(3))

            def body(first, now):
                return [builder.fadd(now[0], v.load(builder.gep(source, [first]), 0))]

            (sums,) = v.over([ir.Constant(v.vector, [0.0] * v.lanes)], body)
            scaled = builder.fmul(sums, v.factor(1))
            builder.store(scaled, v.at(v.begin(4, v.word(5)), 0), align=v.align)
            return context.get_dummy_value()

        return types.none(window, factor, image, at, out, out_at), codegen

    @intrinsic
    def spread_largest(typingctx, window, count, delta, delta_at, marks, marks_at, image, at):
        """Add derivatives at the marked values, for at most `count` channels."""
        if not _fits((image, delta), marks.dtype):
            return None

        def codegen(context, builder, signature, args):
            v = WindowCode(context, builder, signature, args, image.dtype)
            slopes, into = v.load(v.begin(2, v.word(3)), 0), v.begin(6, v.word(7))
            mark = builder.load(v.marked(4, v.word(5)), align=4)
            nothing, is_channel = ir.Constant(v.vector, [0.0] * v.lanes), v.is_channel(1)

            def body(first, now):
                spot = v.at(builder.gep(into, [first]), 0)
                takes = builder.icmp_signed("==", mark, v.places(first))
                added = builder.select(builder.and_(takes, is_channel), slopes, nothing)
                new = builder.fadd(builder.load(spot, align=v.align), added)
                builder.store(new, spot, align=v.align)
                return []

            v.over([], body)
            return context.get_dummy_value()

        return types.none(window, count, delta, delta_at, marks, marks_at, image, at), codegen

    @intrinsic
    def spread_total(typingctx, window, count, factor, delta, delta_at, image, at):
        """Add derivatives, times a factor, at all values of a window, for `count` channels."""
        if not _fits((image, delta)):
            return None

        def codegen(context, builder, signature, args):
            v = WindowCode(context, builder, signature, args, image.dtype)
            slopes, into = v.load(v.begin(3, v.word(4)), 0), v.begin(5, v.word(6))
            nothing, is_channel = ir.Constant(v.vector, [0.0] * v.lanes), v.is_channel(1)
            added = builder.select(is_channel, builder.fmul(slopes, v.factor(2)), nothing)

            def body(first, now):
                spot = v.at(builder.gep(into, [first]), 0)
                new = builder.fadd(builder.load(spot, align=v.align), added)
                builder.store(new, spot, align=v.align)
                return []

            v.over([], body)
            return context.get_dummy_value()

        return types.none(window, count, factor, delta, delta_at, image, at), codegen
