"""Products of an image's windows and a matrix, in vector registers, by tiles (see `tiles`).

A window's values are not copied. The rows of the first factor begin at listed places of the image,
in any order, and each row consists of runs of memory at equal distances. A sum is two loops: over
runs (`outer`), and over the values of each run (`inner`).

For a convolution, each row is a window, and the runs are the lines of the window. For the
derivatives with respect to its filters, each row contains one value of every window, and a sum runs
over the lines of windows and over the windows of each line.
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from hogshare.kernels.jit.decorators import JIT_DISABLED, helper
from hogshare.kernels.networks.tiles import FLOATS, TALLEST, VECTOR_BYTES, WIDEST, WORD, VectorCode

# a sum overwrites the output (WRITES), is added to it (ADDS), or begins with `start` (BEGINS)
WRITES, ADDS, BEGINS = 0, 1, 2
NEAR_BYTES = 1 << 20  # bytes of a matrix that stay in the nearest cache while rows stream past
CUTS = 4  # an additional flag: sums below zero become zero, and NaN stays NaN

if JIT_DISABLED:

    def _tile(height, width, how, numbers, a, places, b, start, c):
        """Compute a tile of any height and width with NumPy; see `product`."""
        at, places_at, outer, inner, a_outer, a_inner = numbers[:6]
        b_at, b_outer, b_row, start_at, c_at, c_row = numbers[6:]
        n = width * (VECTOR_BYTES // c.itemsize)
        for i in range(height):
            into = c[c_at + i * c_row : c_at + i * c_row + n]
            if how & BEGINS:
                into[:] = start[start_at : start_at + n]
            elif not how & ADDS:
                into[:] = 0.0
            for o in range(outer):
                for k in range(inner):
                    other = b_at + o * b_outer + k * b_row
                    place = at + places[places_at + i] + o * a_outer + k * a_inner
                    into += a[place] * b[other : other + n]
            if how & CUTS:
                into[into < 0.0] = 0.0

else:

    @intrinsic
    def _tile(typingctx, height, width, how, numbers, a, places, b, start, c):
        """Compute a tile of ``c = a b``; see `product`.

        height : number of rows, at most `TALLEST`
        width : number of vectors, at most `WIDEST`
        numbers : see `product`
        """
        arrays = a, b, start, c
        if a.dtype not in FLOATS or any(one.dtype != a.dtype for one in arrays):
            return None

        def codegen(context, builder, signature, args):
            v = VectorCode(context, builder, signature, args, a.dtype)
            at, places_at, outer, inner, a_outer, a_inner, *others = v.words(3)
            b_at, b_outer, b_row, start_at, c_at, c_row = others
            left, which, above = v.begin(4, at), v.begin(5, places_at), v.begin(6, b_at)
            row, into = v.begin(7, start_at), v.begin(8, c_at)
            how = v.word(2)

            def asks(flag):
                return builder.icmp_signed("!=", builder.and_(how, WORD(flag)), WORD(0))

            adds, begins, cuts = asks(ADDS), asks(BEGINS), asks(CUTS)
            nothing = ir.Constant(v.vector, [0.0] * v.lanes)
            without = ir.Constant(v.vector, [float("-inf")] * v.lanes)
            least = builder.select(cuts, nothing, without)

            def of(n_rows, n_vectors):
                def write():
                    rows = [builder.gep(into, [builder.mul(c_row, WORD(i))]) for i in range(n_rows)]
                    spots = [(base, j) for base in rows for j in range(n_vectors)]
                    lefts = [
                        builder.gep(left, [builder.load(builder.gep(which, [WORD(i)]))])
                        for i in range(n_rows)
                    ]
                    loaded = [v.load(row, j) for j in range(n_vectors)]
                    firsts = [builder.select(begins, one, nothing) for one in loaded] * n_rows
                    begin = builder.block
                    with builder.if_then(adds):
                        known = [v.load(*spot) for spot in spots]
                        later = builder.block
                    totals = []
                    for one, first in zip(known, firsts, strict=True):
                        total = builder.phi(v.vector)
                        total.add_incoming(one, later)
                        total.add_incoming(first, begin)
                        totals.append(total)

                    def run(o, now):
                        away = builder.mul(o, a_outer)
                        begins = [builder.gep(base, [away]) for base in lefts]
                        others = builder.gep(above, [builder.mul(o, b_outer)])

                        def summand(k, now):
                            other = builder.gep(others, [builder.mul(k, b_row)])
                            vectors = [v.load(other, j) for j in range(n_vectors)]
                            away = builder.mul(k, a_inner)
                            values = [v.spread(builder.gep(base, [away])) for base in begins]
                            pairs = [(x, y) for x in values for y in vectors]
                            return [
                                v.add_product(x, y, one)
                                for (x, y), one in zip(pairs, now, strict=True)
                            ]

                        return v.repeat(inner, now, summand)

                    for spot, total in zip(spots, v.repeat(outer, totals, run), strict=True):
                        is_less = builder.fcmp_ordered("<", total, least)
                        total = builder.select(is_less, least, total)
                        builder.store(total, v.at(*spot), align=v.align)

                return write

            cases = {
                i * (WIDEST + 1) + j: of(i, j)
                for i in range(1, TALLEST + 1)
                for j in range(1, WIDEST + 1)
            }
            which_case = builder.add(builder.mul(v.word(0), WORD(WIDEST + 1)), v.word(1))
            v.in_cases(which_case, cases)
            return context.get_dummy_value()

        return types.none(height, width, how, numbers, a, places, b, start, c), codegen


@helper
def product(m, width, how, a, places, b, start, c, numbers):
    """Compute ``c = a b``, m padded rows of `width` values.

    Value j of row i is the sum, over o below `outer` and k below `inner`, of
    ``a[at + places[places_at + i] + o a_outer + k a_inner]`` times
    ``b[b_at + o b_outer + k b_row + j]``.

    how : `WRITES`, `ADDS` or `BEGINS`, plus `CUTS` if sums below zero become zero
    start : contains the padded row with which sums begin, for `BEGINS`. It may also be read without
        `BEGINS`, so `width` values must exist from `start_at` on.
    c : the calling worker's own array; it must not overlap the other arrays, which later tiles read
        again
    numbers : the integers at, places_at, outer, inner, a_outer, a_inner, b_at, b_outer, b_row,
        start_at, c_at and c_row
    """
    at, places_at, outer, inner, a_outer, a_inner = numbers[:6]
    b_at, b_outer, b_row, start_at, c_at, c_row = numbers[6:]
    lanes = VECTOR_BYTES // c.itemsize
    n_vectors = width // lanes
    depth = max(1, NEAR_BYTES // (max(1, inner) * min(n_vectors, WIDEST) * VECTOR_BYTES))
    for low in range(0, max(outer, 1), depth):
        rounds = min(depth, outer - low)
        how_now = how if low == 0 else (how & CUTS) | ADDS
        if low + rounds < outer:
            how_now &= ~CUTS
        j, begin = 0, at + low * a_outer
        while j < n_vectors:
            # widths as equal as possible: a single vector would wait for its own sums
            part = -(-(n_vectors - j) // -(-(n_vectors - j) // WIDEST))
            i, first = 0, j * lanes
            above = b_at + first + low * b_outer
            while i < m:
                height = -(-(m - i) // -(-(m - i) // TALLEST))
                into = c_at + first + i * c_row
                ends = above, b_outer, b_row, start_at + first, into, c_row
                now = begin, places_at + i, rounds, inner, a_outer, a_inner, *ends
                _tile(height, part, how_now, now, a, places, b, start, c)
                i += height
            j += part
