"""Products of matrices in vector registers: dense products by tiles, and sums of selected rows.

A BLAS is tuned for large matrices and for processors that it knows. For a mini-batch's matrices,
with fifty rows and a hundred columns, on a machine with longer registers, a BLAS takes two to three
times as long (`bench/products.py`). A *tile* is a few rows by a few vectors of the product. The
tile stays in registers during its sums, while the factors are read once.

Matrices are parts of flat arrays: each has a start, and a distance from row to row. Rows of the
second factor and of the product are *padded* (`padded`): they are whole vectors long, with zeros
beyond the matrix's columns.

The code is written in LLVM's vectors, because the compiler does not vectorise a loop over so many
accumulators. On a processor with shorter registers, several registers contain one vector.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core import config, types
from numba.extending import intrinsic

from hogshare.kernels.jit.decorators import JIT_DISABLED, helper


def _register_bytes() -> int:
    features = config.CPU_FEATURES or llvmlite.binding.get_host_cpu_features().flatten()
    return 64 if "+avx512f" in features else 32 if "+avx2" in features else 16


VECTOR_BYTES = _register_bytes()
# largest number of vectors of a tile's row, and largest number of a tile's rows: the accumulators,
# a row of the other factor and one value must fit into the 32 registers, or 16 with AVX2
WIDEST = 2 if VECTOR_BYTES == 32 else 4
TALLEST = 6
HEIGHTS = (TALLEST, 2, 1)
MOST_SUMMED = 8  # largest number of vectors of a row that `_sum_rows` adds to
DEPTH = 384  # number of products of a sum before a tile is stored; this part of a factor fits in L2
FLOATS = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}
WORD, LANE = ir.IntType(64), ir.IntType(32)
LOOSE = ("contract", "nsz")  # a product and its sum are rounded once, if the processor can do it


@helper
def padded(n: int, itemsize: int) -> int:
    """Return the length of a row of n columns that is padded to whole vectors."""
    lanes = VECTOR_BYTES // itemsize
    return -(-n // lanes) * lanes


class VectorCode:
    """Builder of an intrinsic's vector code.

    kind : type of the values in a vector
    """

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any, kind: Any) -> None:
        self.context, self.builder, self.signature, self.args = context, builder, signature, args
        self.kind = kind
        self.align = kind.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.align
        self.vector = ir.VectorType(FLOATS[kind], self.lanes)

    def word(self, place: int) -> Any:
        """Return the argument at a place as a 64-bit integer."""
        given = self.args[place], self.signature.args[place]
        return self.context.cast(self.builder, *given, types.intp)

    def words(self, place: int) -> list[Any]:
        """Return the elements of the tuple argument at a place as 64-bit integers."""
        kinds = enumerate(self.signature.args[place])
        each = [(self.builder.extract_value(self.args[place], k), kind) for k, kind in kinds]
        return [self.context.cast(self.builder, *one, types.intp) for one in each]

    def begin(self, place: int, first: Any) -> Any:
        """Return the address of value `first` of the array argument at a place."""
        array = self.context.make_array(self.signature.args[place])
        data = array(self.context, self.builder, self.args[place]).data
        return self.builder.gep(data, [first])

    def at(self, base: Any, k: int) -> Any:
        """Return the address of the k-th vector after `base`."""
        place = self.builder.gep(base, [WORD(k * self.lanes)])
        return self.builder.bitcast(place, self.vector.as_pointer())

    def load(self, base: Any, k: int) -> Any:
        """Load the k-th vector after `base`."""
        return self.builder.load(self.at(base, k), align=self.align)

    def spread(self, place: Any) -> Any:
        """Load one value into all lanes of a vector."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, self.builder.load(place), LANE(0))
        everywhere = ir.Constant(ir.VectorType(LANE, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, nothing, everywhere)

    def add_product(self, a: Any, b: Any, total: Any) -> Any:
        """Return ``total + a b``."""
        return self.builder.fadd(self.builder.fmul(a, b, flags=LOOSE), total, flags=LOOSE)

    def sum_up(self, count: Any, totals: list[Any], summand: Callable[[Any], Any]) -> list[Any]:
        """Run a loop of `count` rounds that adds to vectors: ``summand(k)(totals)``."""
        return self.repeat(count, totals, lambda k, now: summand(k)(now))

    def repeat(
        self, count: Any, totals: list[Any], body_of: Callable[[Any, list[Any]], list[Any]]
    ) -> list[Any]:
        """Run a loop of `count` rounds; each round computes its vectors from the previous ones."""
        builder = self.builder
        before = builder.block
        head, body, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        k = builder.phi(WORD)
        k.add_incoming(WORD(0), before)
        running = []
        for total in totals:
            running.append(builder.phi(total.type))
            running[-1].add_incoming(total, before)
        builder.cbranch(builder.icmp_signed("<", k, count), body, after)
        builder.position_at_end(body)
        made = body_of(k, running)
        for now, later in zip(running, made, strict=True):
            # not `body`: an inner loop ends in another block
            now.add_incoming(later, builder.block)
        k.add_incoming(builder.add(k, WORD(1)), builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return running

    def in_cases(self, which: Any, cases: dict[int, Callable[[], None]]) -> None:
        """Run one of several pieces of code, chosen by a number; run none if it has no case."""
        builder = self.builder
        after = builder.append_basic_block("done")
        choice = builder.switch(which, after)
        for number, write in cases.items():
            block = builder.append_basic_block(f"case{number}")
            choice.add_case(WORD(number), block)
            builder.position_at_end(block)
            write()
            builder.branch(after)
        builder.position_at_end(after)


if JIT_DISABLED:

    def _tile(height, width, depth, a, at, row, step, b, b_at, b_row, c, c_at, c_row, adds):
        """Compute a tile of any height and width with NumPy."""
        n = width * (VECTOR_BYTES // c.itemsize)
        for i in range(height):
            into = c[c_at + i * c_row : c_at + i * c_row + n]
            if not adds:
                into[:] = 0.0
            for k in range(depth):
                other = b[b_at + k * b_row : b_at + k * b_row + n]
                into += a[at + i * row + k * step] * other

    def _sum_rows(width, count, numbers, at, places, places_at, m, m_at, m_row, out, out_at):
        """Add a sum of rows of any width to a row with NumPy."""
        n = width * (VECTOR_BYTES // out.itemsize)
        into = out[out_at : out_at + n]
        for k in range(count):
            first = m_at + int(places[places_at + k]) * m_row
            into += numbers[at + k] * m[first : first + n]

else:

    @intrinsic
    def _tile(
        typingctx, height, width, depth, a, at, row, step, b, b_at, b_row, c, c_at, c_row, adds
    ):
        """Compute a tile of ``c = a b``, or of ``c += a b`` if `adds` is not 0.

        height : number of rows, one of `HEIGHTS`
        width : number of vectors, at most `WIDEST`
        depth : number of products of a sum
        at, row, step : start of `a`, distance from row to row, and distance from column to column
        """
        if a.dtype not in FLOATS or not a.dtype == b.dtype == c.dtype:
            return None

        def codegen(context, builder, signature, args):
            v = VectorCode(context, builder, signature, args, a.dtype)
            depth, row, step = v.word(2), v.word(5), v.word(6)
            left, above = v.begin(3, v.word(4)), v.begin(7, v.word(8))
            b_row, into, c_row = v.word(9), v.begin(10, v.word(11)), v.word(12)
            accumulates = builder.icmp_signed("!=", v.word(13), WORD(0))
            nothing = ir.Constant(v.vector, [0.0] * v.lanes)

            def of(n_rows, n_vectors):
                def write():
                    rows = [builder.gep(into, [builder.mul(c_row, WORD(i))]) for i in range(n_rows)]
                    lefts = [builder.gep(left, [builder.mul(row, WORD(i))]) for i in range(n_rows)]
                    places = [(base, j) for base in rows for j in range(n_vectors)]
                    begin = builder.block
                    with builder.if_then(accumulates):
                        known = [v.load(*place) for place in places]
                        loaded = builder.block
                    totals = []
                    for one in known:
                        total = builder.phi(v.vector)
                        total.add_incoming(one, loaded)
                        total.add_incoming(nothing, begin)
                        totals.append(total)

                    def summand(k):
                        other = builder.gep(above, [builder.mul(k, b_row)])
                        vectors = [v.load(other, j) for j in range(n_vectors)]
                        away = builder.mul(k, step)
                        numbers = [v.spread(builder.gep(base, [away])) for base in lefts]
                        pairs = [(x, y) for x in numbers for y in vectors]
                        return lambda now: [
                            v.add_product(x, y, one) for (x, y), one in zip(pairs, now, strict=True)
                        ]

                    for place, total in zip(places, v.sum_up(depth, totals, summand), strict=True):
                        builder.store(total, v.at(*place), align=v.align)

                return write

            cases = {i * (WIDEST + 1) + j: of(i, j) for i in HEIGHTS for j in range(1, WIDEST + 1)}
            which = builder.add(builder.mul(v.word(0), WORD(WIDEST + 1)), v.word(1))
            v.in_cases(which, cases)
            return context.get_dummy_value()

        kinds = height, width, depth, a, at, row, step, b, b_at, b_row, c, c_at, c_row, adds
        return types.none(*kinds), codegen

    @intrinsic
    def _sum_rows(
        typingctx, width, count, numbers, at, places, places_at, m, m_at, m_row, out, out_at
    ):
        """Add ``sum over k of numbers[k] times row places[k] of m`` to `out`.

        width : number of vectors of a row, at most `MOST_SUMMED`
        places : unsigned integers
        """
        if m.dtype not in FLOATS or not m.dtype == numbers.dtype == out.dtype:
            return None

        def codegen(context, builder, signature, args):
            v = VectorCode(context, builder, signature, args, m.dtype)
            count, m_row = v.word(1), v.word(8)
            values, which = v.begin(2, v.word(3)), v.begin(4, v.word(5))
            first, into = v.begin(6, v.word(7)), v.begin(9, v.word(10))

            def of(n_vectors):
                def write():
                    def summand(k):
                        place = builder.load(builder.gep(which, [k]))
                        if places.dtype.bitwidth < WORD.width:
                            place = builder.zext(place, WORD)
                        row = builder.gep(first, [builder.mul(place, m_row)])
                        x = v.spread(builder.gep(values, [k]))
                        return lambda now: [
                            v.add_product(x, v.load(row, j), one) for j, one in enumerate(now)
                        ]

                    totals = [v.load(into, j) for j in range(n_vectors)]
                    for j, total in enumerate(v.sum_up(count, totals, summand)):
                        builder.store(total, v.at(into, j), align=v.align)

                return write

            v.in_cases(v.word(0), {j: of(j) for j in range(1, MOST_SUMMED + 1)})
            return context.get_dummy_value()

        kinds = width, count, numbers, at, places, places_at, m, m_at, m_row, out, out_at
        return types.none(*kinds), codegen


@helper
def sum_rows(count, numbers, at, places, places_at, m, m_at, m_row, width, out, out_at):
    """Add ``sum over k of numbers[k] times row places[k] of m`` to a padded row of `out`.

    count : number of rows that are added
    width : number of values of the row, a multiple of a vector's number of lanes
    """
    lanes = VECTOR_BYTES // out.itemsize
    left, done = width // lanes, 0
    while left > 0:
        part = min(left, MOST_SUMMED)
        first = m_at + done
        _sum_rows(part, count, numbers, at, places, places_at, m, first, m_row, out, out_at + done)
        left -= part
        done += part * lanes


@helper
def product(m, k, width, a, at, row, step, b, b_at, b_row, c, c_at, c_row, adds):
    """Compute ``c = a b``, m padded rows of `width` values, by sums of k products.

    at, row, step : start of `a`, distance from row to row, and distance from column to column; for
        a transposed matrix the two distances are exchanged
    adds : 1 for ``c += a b``, otherwise 0
    """
    lanes = VECTOR_BYTES // c.itemsize
    n_vectors = width // lanes
    for low in range(0, max(k, 1), DEPTH):
        depth = min(DEPTH, k - low)
        adds_now = adds if low == 0 else 1
        j = 0
        while j < n_vectors:
            # five vectors are split into three and two: a single vector would wait for its own sums
            part = min(WIDEST, n_vectors - j)
            if n_vectors - j == WIDEST + 1:
                part = (WIDEST + 2) // 2
            i = 0
            while i < m:
                height = TALLEST if m - i >= TALLEST else 2 if m - i >= 2 else 1
                begin, above = at + i * row + low * step, b_at + low * b_row + j * lanes
                into = c_at + i * c_row + j * lanes
                _tile(
                    height, part, depth, a, begin, row, step, b, above, b_row, c, into, c_row,
                    adds_now,
                )  # fmt: skip
                i += height
            j += part
