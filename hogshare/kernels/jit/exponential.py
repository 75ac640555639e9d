"""The exponential of what is not positive, as part of whoever calls it.

The log loss waits for one exponential per row and column. The library's takes a call, around which
every register that is in use is stored and loaded again. This one is 25 instructions of its
caller's: 4 % less time for a row of 67 values (`docs/tried/2026-11/speed.md`).
"""

import math

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from hogshare.kernels.jit.decorators import inlined

LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
LOWEST = -708.0  # below it the result would soon be denormal
# Added to a number of up to 2^51 in size, it leaves no room for a fraction: the sum is rounded to a
# whole number, which is then the fraction's last bits, and the difference is that number.
ROUNDER = 1.5 * 2.0**52
FUSED = ("contract",)
WORD, DOUBLE = ir.IntType(64), ir.DoubleType()


@intrinsic
def _nearest_power(typingctx, x):
    """`nearest_power` in two instructions, a multiplication and sum in one, and a difference.

    An instruction without a flag of its own is given those of the kernels (`decorators.FLAGS`), by
    which adding a number and taking it away again is nothing. So each has one.
    """

    def codegen(context, builder, signature, args):
        rounder = ir.Constant(DOUBLE, ROUNDER)
        power = builder.fmul(args[0], ir.Constant(DOUBLE, LOG2_E), flags=FUSED)
        return builder.fsub(builder.fadd(power, rounder, flags=FUSED), rounder, flags=FUSED)

    return types.float64(types.float64), codegen


@intrinsic
def _with_exponent(typingctx, n):
    """The float64 whose exponent is `n`, a whole float64, and whose fraction is 1."""

    def codegen(context, builder, signature, args):
        rounded = builder.fadd(args[0], ir.Constant(DOUBLE, ROUNDER), flags=FUSED)
        bits = builder.bitcast(rounded, WORD)
        return builder.bitcast(builder.shl(builder.add(bits, WORD(1023)), WORD(52)), DOUBLE)

    return types.float64(types.float64), codegen


def nearest_power(x):
    """The whole n, as a float64, for which ``2.0**n`` is nearest to ``exp(x)``; of NaN NaN."""
    return np.rint(x * LOG2_E)


@overload(nearest_power, inline="always")
def _nearest_power_of(x):
    return lambda x: _nearest_power(x)


def power_of_two(n):
    """``2.0**n`` for a whole n from -1022 to 1023, a float64; of NaN some number."""
    return math.ldexp(1.0, int(n)) if n == n else 1.0


@overload(power_of_two, inline="always")
def _power_of_two(n):
    return lambda n: _with_exponent(n)


@inlined
def exp_of_negative(x):
    """``exp(x)`` for x <= 0, to a relative ``5e-16 + 2e-16 |x|``; of NaN NaN.

    ``exp(x) = 2^n exp(r)`` with whole n and |r| at most half of log 2, where twelve terms of the
    series are enough. In fours, so that they do not all wait for each other. Below -708 it is
    exactly 0: a derivative of 3e-308 would make denormal steps, each of which costs the processor
    a hundred cycles, and a curvature of that size is not flat. The choice is of the last factor,
    which is there before the other: the product is still one instruction with the sum that a
    logistic function makes of it, and NaN comes through by that other factor.
    """
    near = LOWEST if x < LOWEST else x
    n = nearest_power(near)
    r = near - n * LN_2
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + (1 / 2 + 1 / 6 * r) * r2
    middle = (1 / 24 + 1 / 120 * r) + (1 / 720 + 1 / 5040 * r) * r2
    high = (1 / 40320 + 1 / 362880 * r) + (1 / 3628800 + 1 / 39916800 * r) * r2
    high += 1 / 479001600 * r4
    power = 0.0 if x < LOWEST else power_of_two(n)
    return ((low + middle * r4) + high * (r4 * r4)) * power
