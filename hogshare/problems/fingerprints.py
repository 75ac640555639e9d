"""Short digests that distinguish arrays; they are the same on any machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from hogshare.kernels.rows.sums import sum_by_place
from hogshare.system.interrupts import errstate

DIGITS = "by place"  # name of the method; digests of different methods cannot be compared
AT_ONCE = 1 << 26  # 64-bit words that one call reads; Ctrl-C is handled between two calls


def digits(*arrays: np.ndarray) -> str:
    """Return a digest that depends on every bit of the arrays and on the bit's place.

    The memory of the arrays is read once.
    """
    return digits_of((np.shape(array), sum_of(array)) for array in arrays)


def sum_of(array: np.ndarray, first: int = 0) -> int:
    """Return the sum of an array by places, modulo 2**64; the first element has place `first`."""
    array = np.ascontiguousarray(array)
    words = array.reshape(-1).view(f"u{array.itemsize}")
    if words.itemsize < 4:
        words = words.astype(np.uint32)
    total = 0
    with errstate(over="ignore"):  # sums are modulo 2**64, also in plain Python
        for k in range(0, len(words), AT_ONCE):
            total += int(sum_by_place(words[k : k + AT_ONCE], np.uint64(first + k)))
    return total % 2**64


def digits_of(sums: Iterable[tuple[tuple[int, ...], int]]) -> str:
    """Return the digest of arrays from their shapes and sums."""
    digest = hashlib.blake2b(digest_size=8)
    for shape, total in sums:
        digest.update(f"{shape} {total};".encode())
    return digest.hexdigest()
