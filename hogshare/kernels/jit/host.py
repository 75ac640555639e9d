"""Calls of the system from kernels: the time, and giving up the core to another thread."""

import time

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from hogshare.kernels.jit.decorators import JIT_DISABLED, helper

# symbols of the C library, which every process has: compiling a kernel searches for none
sched_yield = types.ExternalFunction("sched_yield", types.int32())
usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
MICROSECONDS = 10  # requested length of a brief sleep; the timer's delay makes it some seventy

if JIT_DISABLED:
    nanoseconds = time.monotonic_ns

    def yield_core():
        """Let another thread run."""
        time.sleep(0)

    def sleep_briefly():
        """Give the core to another thread until a timer of MICROSECONDS fires."""
        time.sleep(1e-6 * MICROSECONDS)

else:

    @helper
    def yield_core():
        """Give the core to a thread that waits for it; return at once if no thread waits."""
        sched_yield()

    @helper
    def sleep_briefly():
        """Give the core to another thread until a timer of MICROSECONDS fires."""
        usleep(MICROSECONDS)

    @intrinsic
    def nanoseconds(typingctx):
        """Return nanoseconds since a fixed moment, by the C library; a call takes some 30 ns."""

        def codegen(context, builder, signature, args):
            i32, i64 = ir.IntType(32), ir.IntType(64)
            timespec_type = ir.ArrayType(i64, 2)  # timespec, where a long has 64 bits
            place = cgutils.alloca_once(builder, timespec_type)
            kind = ir.FunctionType(i32, [i32, place.type])
            function = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
            builder.call(function, [i32(time.CLOCK_MONOTONIC), place])
            now = builder.load(place, typ=timespec_type)
            seconds = builder.mul(builder.extract_value(now, 0), i64(1_000_000_000))
            return builder.add(seconds, builder.extract_value(now, 1))

        return types.int64(), codegen
