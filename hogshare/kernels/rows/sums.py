"""Sums as fast as memory is, and one that says more."""

import numpy as np

from hogshare.kernels.jit.decorators import kernel

STEP = np.uint64(0x9E3779B97F4A7C15)
MIX, REMIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@kernel
def total(values):
    """Sum of a vector, read in order. In its own precision: float64 sums would be the limit."""
    result = values.dtype.type(0.0)
    for k in range(values.shape[0]):
        result += values[k]
    return result


@kernel
def squares(values):
    """Sum of the squares of a vector, in float64: NaN or infinite if one is, rarely otherwise."""
    result = 0.0
    for k in range(values.shape[0]):
        value = np.float64(values[k])
        result += value * value
    return result


@kernel
def sum_by_place(words, first):
    """Sum, modulo 2**64, of words that are mixed with their places, `first` and so on.

    It changes with every single word, because one word's share is a bijection of it, and with
    words' order, because the place is mixed in before. Parts add up to the whole.

    words : uint32 or uint64
        Of numbers that have the same value the sum is the same.
    first : uint64

    Source: the mixing is that of SplitMix64 (Steele, Lea and Flood 2014), whose stream of numbers
    comes from words that are all zero. 34 ms for a GB of float64 and 62 for float32, which the
    machine reads in 30; CRC-32 takes 240, BLAKE2 1,100.
    """
    result = np.uint64(0)
    state = first * STEP
    for k in range(words.shape[0]):
        state += STEP
        word = state + np.uint64(words[k])
        word = (word ^ (word >> np.uint64(30))) * MIX
        word = (word ^ (word >> np.uint64(27))) * REMIX
        result += word ^ (word >> np.uint64(31))
    return result
