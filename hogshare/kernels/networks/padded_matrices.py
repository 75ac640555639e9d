"""Copies of matrices: with padded rows, without padding, and transposed.

Square blocks are transposed in vector registers. A block has as many vectors as a vector has lanes.
At first each vector is a row of the block. In each pass, pairs of vectors exchange half of their
lanes: half a vector in the first pass, and then pieces that are half as long in each later pass.
After the last pass each vector is a column. All written arrays are the caller's own, so stores are
plain.
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from hogshare.kernels.jit.decorators import JIT_DISABLED, helper
from hogshare.kernels.networks.tiles import FLOATS, LANE, VECTOR_BYTES, WORD, VectorCode

if JIT_DISABLED:

    def _flip_block(a, at, row, out, out_at, out_row):
        """Write a square block of `a` by its columns."""
        n = VECTOR_BYTES // a.itemsize
        for i in range(n):
            for j in range(n):
                out[out_at + j * out_row + i] = a[at + i * row + j]

else:

    @intrinsic
    def _flip_block(typingctx, a, at, row, out, out_at, out_row):
        """Write a square block of `a` by its columns.

        The block has as many rows, and as many columns, as a vector has lanes.
        """
        if a.dtype not in FLOATS or a.dtype != out.dtype:
            return None

        def codegen(context, builder, signature, args):
            v = VectorCode(context, builder, signature, args, a.dtype)
            source, row, into, out_row = (
                v.begin(0, v.word(1)),
                v.word(2),
                v.begin(3, v.word(4)),
                v.word(5),
            )
            n = v.lanes
            rows = [v.load(builder.gep(source, [builder.mul(row, WORD(i))]), 0) for i in range(n)]
            half = n // 2
            while half:
                kind = ir.VectorType(LANE, n)
                low = [k if k & half == 0 else n + k - half for k in range(n)]
                high = [k + half if k & half == 0 else n + k for k in range(n)]
                for i in range(n):
                    if i & half == 0:
                        pair = rows[i], rows[i + half]
                        rows[i] = builder.shuffle_vector(*pair, ir.Constant(kind, low))
                        rows[i + half] = builder.shuffle_vector(*pair, ir.Constant(kind, high))
                half //= 2
            for i in range(n):
                spot = builder.gep(into, [builder.mul(out_row, WORD(i))])
                builder.store(rows[i], v.at(spot, 0), align=v.align)
            return context.get_dummy_value()

        return types.none(a, at, row, out, out_at, out_row), codegen


@helper
def flip(n_rows, n_columns, a, at, row, out, out_at, out_row):
    """Write each column of a matrix as a row of `out`, with zeros at the row's end.

    row : distance from one row of `a` to the next row
    out_row : distance from one row of `out` to the next row, at least `n_rows`
    """
    n = VECTOR_BYTES // a.itemsize
    whole_rows, whole_columns = n_rows // n * n, n_columns // n * n
    for i in range(0, whole_rows, n):
        for j in range(0, whole_columns, n):
            _flip_block(a, at + i * row + j, row, out, out_at + j * out_row + i, out_row)
    for j in range(n_columns):
        first = whole_rows if j < whole_columns else 0
        for i in range(first, n_rows):
            out[out_at + j * out_row + i] = a[at + i * row + j]
        for i in range(n_rows, out_row):
            out[out_at + j * out_row + i] = out.dtype.type(0.0)


@helper
def pad_rows(w, w_at, n_rows, n_columns, memory, at, width):
    """Copy a matrix to rows of `width` values, with zeros at the rows' ends."""
    for i in range(n_rows):
        row = w[w_at + i * n_columns : w_at + (i + 1) * n_columns]
        into = memory[at + i * width : at + (i + 1) * width]
        for j in range(n_columns):
            into[j] = row[j]
        into[n_columns:] = memory.dtype.type(0.0)


@helper
def unpad_rows(memory, at, n_rows, n_columns, width, out, out_at):
    """Copy a matrix from rows of `width` values, without the padding."""
    for i in range(n_rows):
        row = memory[at + i * width : at + i * width + n_columns]
        into = out[out_at + i * n_columns : out_at + (i + 1) * n_columns]
        for j in range(n_columns):
            into[j] = row[j]
