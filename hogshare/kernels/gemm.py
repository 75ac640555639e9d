"""Products of matrices inside kernels: BLAS's gemm, without the interpreter's lock.

Numba's own ``np.dot(a, b, out)`` does not compile here: it returns `out`, which wants a count of
references (`hogshare.kernels.jit`). What it calls is called: Numba's door to the BLAS that SciPy
brings, which takes factors for both products and sums, and threads as threadpoolctl says.

Matrices are rows one after another in flat arrays, each from a place on.
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from hogshare.kernels.jit import JIT_DISABLED

KINDS = {types.float32: "s", types.float64: "d"}
CHAR, INT, WORD, POINTER = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
DOOR = ir.FunctionType(
    INT,
    # kind, both transpositions, m, n, k, alpha, a, columns of a, b, columns of b, beta, c, its
    [*[CHAR] * 3, *[WORD] * 3, POINTER, POINTER, WORD, POINTER, WORD, POINTER, POINTER, WORD],
)


def load_blas() -> None:
    """Load SciPy's BLAS, and see that Numba can call it; before a kernel does, and is limited.

    Threads of linear algebra are limited in the libraries that are there
    (`hogshare.runtimes.blas`).

    Raises
    ------
    RuntimeError
        If this Numba was built for integers of another width than this SciPy's.
    """
    from numba.np.linalg import ensure_blas  # which takes a moment

    ensure_blas()


if JIT_DISABLED:

    def gemm(flip_a, flip_b, m, n, k, a, a_at, b, b_at, beta, c, c_at):
        """``c = op(a) op(b) + beta c``, as below."""
        left = a[a_at : a_at + m * k].reshape((k, m) if flip_a else (m, k))
        right = b[b_at : b_at + k * n].reshape((n, k) if flip_b else (k, n))
        into = c[c_at : c_at + m * n].reshape(m, n)
        product = (left.T if flip_a else left) @ (right.T if flip_b else right)
        into[:] = product + beta * into if beta else product

else:

    @intrinsic
    def gemm(typingctx, flip_a, flip_b, m, n, k, a, a_at, b, b_at, beta, c, c_at):
        """``c = op(a) op(b) + beta c``, of m rows and n columns, by sums of k products.

        flip_a, flip_b : integers, whether the matrix is stored transposed
        a, b, c : one-dimensional arrays of one type, float32 or float64; `c` lies apart from both
        beta : 0.0, by which `c` is not read, or what it counts
        """
        arrays = (a, b, c)
        if not all(isinstance(array, types.Array) and array.ndim == 1 for array in arrays):
            return None
        if a.dtype not in KINDS or not a.dtype == b.dtype == c.dtype:
            return None
        kind = ord(KINDS[a.dtype])

        def codegen(context, builder, signature, args):
            def word(place):
                return context.cast(builder, args[place], signature.args[place], types.intp)

            def at(place):
                array_type = signature.args[place]
                array = context.make_array(array_type)(context, builder, args[place])
                found = cgutils.get_item_pointer(
                    context, builder, array_type, array, [word(place + 1)]
                )
                return builder.bitcast(found, POINTER)

            def number(value):
                slot = cgutils.alloca_once_value(builder, value)
                return builder.bitcast(slot, POINTER)

            def flag(place):
                flipped = builder.icmp_signed("!=", word(place), WORD(0))
                return flipped, builder.select(flipped, CHAR(ord("t")), CHAR(ord("n")))

            (a_flipped, a_kind), (b_flipped, b_kind) = flag(0), flag(1)
            m, n, k = map(word, (2, 3, 4))
            one = number(context.get_constant(a.dtype, 1.0))
            beta = number(context.cast(builder, args[9], signature.args[9], a.dtype))
            door = cgutils.get_or_insert_function(builder.module, DOOR, "numba_xxgemm")
            # by columns, as BLAS reads, these rows are the transposed: c' = op(b)' op(a)'
            columns_a = builder.select(a_flipped, m, k)
            columns_b = builder.select(b_flipped, k, n)
            of_b, of_a = (at(7), columns_b), (at(5), columns_a)
            sizes = (CHAR(kind), b_kind, a_kind, n, m, k)
            builder.call(door, (*sizes, one, *of_b, *of_a, beta, at(10), n))
            return context.get_dummy_value()

        signature = types.none(flip_a, flip_b, m, n, k, a, a_at, b, b_at, beta, c, c_at)
        return signature, codegen
