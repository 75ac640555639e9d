"""Atomic words and prefetch for the CPU, as LLVM instructions.

Numba has no CPU atomics. A plain ``while flag[0] == 0`` compiles to one load and an endless loop, a
plain ``counter[0] += 1`` loses counts, and nothing orders two plain stores. Every word by which two
workers agree on something is accessed by the functions of this file:

- ``load`` (acquire) and ``store`` (release) transfer a word, and everything that the storing
  worker had written before the word;
- ``fetch_add``, ``exchange`` and ``compare_exchange`` (acquire and release) return the old value;
- ``add_float`` and ``swap_float`` are relaxed: they lose no update, and they order no other
  accesses (for the model's coordinates and the entries of a row's memory);
- ``fence`` orders all accesses before it and all accesses after it;
- ``prefetch`` and ``prefetch_to_write`` are hints and read nothing.

Arrays must be aligned. With the JIT off each function has a plain stand-in, which is correct for
one thread only; this mode exists to debug kernels and to measure coverage.
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from hogshare.kernels.jit.decorators import JIT_DISABLED


def _pointer(context, builder, signature, args):
    """Return the address of ``array[index]`` for a one-dimensional array; no wraparound."""
    array_type = signature.args[0]
    array = context.make_array(array_type)(context, builder, args[0])
    index = context.cast(builder, args[1], signature.args[1], types.intp)
    return cgutils.get_item_pointer(context, builder, array_type, array, [index])


def _is_word_array(array):
    return isinstance(array, types.Array) and array.ndim == 1 and array.aligned


if JIT_DISABLED:

    def load(array, index):
        return array[index]

    def store(array, index, value):
        array[index] = value

    def fetch_add(array, index, value):
        old = array[index]
        array[index] = old + value
        return old

    def exchange(array, index, value):
        old = array[index]
        array[index] = value
        return old

    def compare_exchange(array, index, expected, value):
        old = array[index]
        if old == expected:
            array[index] = value
        return old

    def add_float(array, index, value):
        array[index] += value

    swap_float = exchange

    def prefetch(array, index):
        pass

    prefetch_to_write = prefetch

    def fence():
        pass

else:

    @intrinsic
    def load(typingctx, array, index):
        """Return ``array[index]`` by an acquiring load (64-bit integers)."""
        if not _is_word_array(array):
            return None

        def codegen(context, builder, signature, args):
            pointer = _pointer(context, builder, signature, args)
            value_type = context.get_data_type(signature.return_type)
            # acquire: no later access of this thread moves before the load
            return builder.load_atomic(pointer, "acquire", 8, typ=value_type)

        return array.dtype(array, index), codegen

    @intrinsic
    def store(typingctx, array, index, value):
        """Do ``array[index] = value`` by a releasing store (64-bit integers)."""
        if not _is_word_array(array):
            return None

        def codegen(context, builder, signature, args):
            pointer = _pointer(context, builder, signature, args)
            word = context.cast(builder, args[2], signature.args[2], signature.args[0].dtype)
            # release: no earlier access of this thread moves after the store
            builder.store_atomic(word, pointer, "release", 8)
            return context.get_dummy_value()

        return types.none(array, index, value), codegen

    def _read_modify_write(operation, ordering):
        @intrinsic
        def rmw(typingctx, array, index, value):
            if not _is_word_array(array):
                return None

            def codegen(context, builder, signature, args):
                pointer = _pointer(context, builder, signature, args)
                word = context.cast(builder, args[2], signature.args[2], signature.args[0].dtype)
                return builder.atomic_rmw(operation, pointer, word, ordering)

            return array.dtype(array, index, value), codegen

        return rmw

    fetch_add = _read_modify_write("add", "acq_rel")
    exchange = _read_modify_write("xchg", "acq_rel")
    # monotonic (relaxed): the operation is whole, but it orders nothing around it
    add_float = _read_modify_write("fadd", "monotonic")
    swap_float = _read_modify_write("xchg", "monotonic")

    @intrinsic
    def compare_exchange(typingctx, array, index, expected, value):
        """Store `value` if the word equals `expected`; return its old value."""
        if not _is_word_array(array):
            return None

        def codegen(context, builder, signature, args):
            pointer = _pointer(context, builder, signature, args)
            dtype = signature.args[0].dtype
            old = context.cast(builder, args[2], signature.args[2], dtype)
            new = context.cast(builder, args[3], signature.args[3], dtype)
            # memory orderings of a success, and of a failure, which stores nothing
            pair = builder.cmpxchg(pointer, old, new, "acq_rel", "acquire")
            return builder.extract_value(pair, 0)

        return array.dtype(array, index, expected, value), codegen

    @intrinsic
    def fence(typingctx):
        """Prevent loads and stores from moving across the fence, in either direction."""

        def codegen(context, builder, signature, args):
            builder.fence("seq_cst")
            return context.get_dummy_value()

        return types.none(), codegen

    def _prefetch(to_write):
        @intrinsic
        def prefetch(typingctx, array, index):
            """Prefetch the cache line of ``array[index]``; any index is allowed."""
            if not isinstance(array, types.Array):
                return None

            def codegen(context, builder, signature, args):
                pointer = _pointer(context, builder, signature, args)
                i32 = ir.IntType(32)
                byte_pointer = ir.IntType(8).as_pointer()
                function_type = ir.FunctionType(ir.VoidType(), [byte_pointer, i32, i32, i32])
                function = cgutils.get_or_insert_function(
                    builder.module, function_type, "llvm.prefetch.p0"
                )
                # for a read or a write, into every cache level, as data
                arguments = [builder.bitcast(pointer, byte_pointer), i32(to_write), i32(3), i32(1)]
                builder.call(function, arguments)
                return context.get_dummy_value()

            return types.none(array, index), codegen

        return prefetch

    prefetch = _prefetch(0)
    prefetch_to_write = _prefetch(1)
