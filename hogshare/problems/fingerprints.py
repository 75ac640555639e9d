"""A few digits that tell arrays from others, on any machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from hogshare.kernels.rows.sums import sum_by_place
from hogshare.system.interrupts import errstate

DIGITS = "by place"  # how they are made: others cannot be compared with these
AT_ONCE = 1 << 26  # words of one call, between two of which Ctrl-C comes through


def digits(*arrays: np.ndarray) -> str:
    """Digits in which every bit counts, and its place, in a pass over the memory."""
    return digits_of((np.shape(array), sum_of(array)) for array in arrays)


def sum_of(array: np.ndarray, first: int = 0) -> int:
    """What an array adds to the sum of one of which it is the part from a number on."""
    array = np.ascontiguousarray(array)
    words = array.reshape(-1).view(f"u{array.itemsize}")
    if words.itemsize < 4:
        words = words.astype(np.uint32)
    total = 0
    with errstate(over="ignore"):  # sums are modulo 2**64, also where they are plain Python
        for k in range(0, len(words), AT_ONCE):
            total += int(sum_by_place(words[k : k + AT_ONCE], np.uint64(first + k)))
    return total % 2**64


def digits_of(sums: Iterable[tuple[tuple[int, ...], int]]) -> str:
    """The digits of arrays of which one knows the shapes and the sums."""
    digest = hashlib.blake2b(digest_size=8)
    for shape, total in sums:
        digest.update(f"{shape} {total};".encode())
    return digest.hexdigest()
