"""Bags of words of the UCI repository (``docword`` files), with lines ``document word count``.

The first three lines are the numbers of documents, words and entries; documents and words are
counted from 1. The vocabulary is in another file, which is not read.
"""

from __future__ import annotations

import numpy as np

from hogshare.io import entries
from hogshare.io.rows import Rows, Wanted
from hogshare.io.sources import Source

SIZES = ("documents", "words", "entries")


def read(source: Source, wanted: Wanted) -> Rows:
    """Read a CSR matrix of counts, with a row for each document, and no labels.

    Raises
    ------
    ValueError
        If the file is malformed or cut off, or has a count below 0; the message names file and
        line.
    MemoryError
        If the rows need more memory than is free.
    """
    head, blocks = entries.header(*entries.opened(source), len(SIZES))
    numbers = [
        entries.whole_numbers(line, 1, place, f"the number of {what} was")[0]
        for what, (place, line) in zip(SIZES, head, strict=True)
    ]
    size = entries.Size(*numbers)
    found = entries.read(source, blocks, size, dtype=wanted.dtype, valued=True, whole=True)
    if (found.value < 0).any():
        k = int(np.argmax(found.value < 0))
        raise ValueError(f"{source.name}: entry {k + 1:,} is a count of {found.value[k]:g}")
    return Rows(entries.csr(source, found, size, wanted), None)
