"""The exponential of a number that is not positive, inlined into its callers.

The log loss waits for one exponential per row and column. The C library's exponential is a call:
every register in use is stored before the call and loaded again after it. The exponential of this
file is 25 inlined instructions. With it a row of 67 values takes 4 % less time
(`docs/tried/2026-11/speed.md`).
"""

import math

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from hogshare.kernels.jit.decorators import inlined

LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
LOWEST = -708.0  # just below this number the result is denormal
# If ROUNDER is added to a number of at most 2^51 in absolute value, the sum has no bits for a
# fraction. So the number is rounded to a whole number, which the last bits of the sum's mantissa
# contain. If ROUNDER is subtracted from the sum, the result is this whole number.
ROUNDER = 1.5 * 2.0**52
FUSED = ("contract",)
WORD, DOUBLE = ir.IntType(64), ir.DoubleType()


@intrinsic
def _nearest_power(typingctx, x):
    """Compute `nearest_power` in two instructions: a fused multiply-add and a difference."""

    def codegen(context, builder, signature, args):
        # Each instruction has a flag of its own. An instruction without a flag would get the
        # kernels' flags (`decorators.FLAGS`), and the compiler would remove the addition and the
        # subtraction of ROUNDER.
        rounder = ir.Constant(DOUBLE, ROUNDER)
        power = builder.fmul(args[0], ir.Constant(DOUBLE, LOG2_E), flags=FUSED)
        return builder.fsub(builder.fadd(power, rounder, flags=FUSED), rounder, flags=FUSED)

    return types.float64(types.float64), codegen


@intrinsic
def _with_exponent(typingctx, n):
    """Return the float64 whose exponent is `n`, a whole float64, and whose mantissa is 1."""

    def codegen(context, builder, signature, args):
        rounded = builder.fadd(args[0], ir.Constant(DOUBLE, ROUNDER), flags=FUSED)
        bits = builder.bitcast(rounded, WORD)
        return builder.bitcast(builder.shl(builder.add(bits, WORD(1023)), WORD(52)), DOUBLE)

    return types.float64(types.float64), codegen


def nearest_power(x):
    """Return the whole n, as float64, with ``2.0**n`` nearest to ``exp(x)``; NaN for NaN."""
    return np.rint(x * LOG2_E)


@overload(nearest_power, inline="always")
def _nearest_power_of(x):
    return lambda x: _nearest_power(x)


def power_of_two(n):
    """Return ``2.0**n`` for a whole float64 n from -1022 to 1023; for NaN, return any number."""
    return math.ldexp(1.0, int(n)) if n == n else 1.0


@overload(power_of_two, inline="always")
def _power_of_two(n):
    return lambda n: _with_exponent(n)


@inlined
def exp_of_negative(x):
    """Return ``exp(x)`` for x <= 0, with a relative error of ``5e-16 + 2e-16 |x|``; NaN for NaN.

    ``exp(x) = 2^n exp(r)`` with whole n and |r| at most half of log 2, so twelve terms of the
    series are enough. Below -708 the result is exactly 0, for two reasons. A derivative of 3e-308
    would make denormal steps, and each such step takes the processor a hundred cycles. A curvature
    of 3e-308 would not count as zero.
    """
    near = LOWEST if x < LOWEST else x
    n = nearest_power(near)
    r = near - n * LN_2
    r2 = r * r
    r4 = r2 * r2
    # terms in groups of four; the groups do not wait for each other
    low = (1.0 + r) + (1 / 2 + 1 / 6 * r) * r2
    middle = (1 / 24 + 1 / 120 * r) + (1 / 720 + 1 / 5040 * r) * r2
    high = (1 / 40320 + 1 / 362880 * r) + (1 / 3628800 + 1 / 39916800 * r) * r2
    high += 1 / 479001600 * r4
    # The zero is chosen in this factor, which is ready before the other factor. So the product
    # still fuses with the sum of a logistic function, and NaN passes through the other factor.
    power = 0.0 if x < LOWEST else power_of_two(n)
    return ((low + middle * r4) + high * (r4 * r4)) * power
