"""MatrixMarket (``.mtx``, ``.mm``): sparse matrices as entries, dense ones column by column.

`scipy.io.mmwrite` and gensim's `MmCorpus` write this format; the rows of gensim's matrices are
documents. As in SciPy, entries at the same place are added, stored zeros stay stored, a symmetric
matrix is completed, and entries of a pattern are 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from hogshare.io import entries, matrices
from hogshare.io.entries import Entries, Size
from hogshare.io.growing_arrays import Growing
from hogshare.io.rows import Rows, Wanted
from hogshare.io.sources import Lines, Source
from hogshare.system import memory
from hogshare.system.interrupts import errstate

FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric")


class Banner(NamedTuple):
    """The contents of the first line."""

    is_sparse: bool
    field: str
    symmetry: str


def read(source: Source, wanted: Wanted) -> Rows:
    """Read rows without labels: a CSR matrix, or an array if the matrix is dense.

    Raises
    ------
    ValueError
        If the file is not MatrixMarket, has complex numbers, or is malformed or cut off; the
        message names file and line.
    MemoryError
        If the rows need more memory than is free.
    """
    banner, sizes, blocks = opened(source)
    if not banner.is_sparse:
        return Rows(_dense(source, blocks, (sizes[0], sizes[1]), banner, wanted), None)
    size = Size(*sizes)
    found = stored(source, blocks, size, banner, wanted.dtype)
    return Rows(entries.csr(source, found, size, wanted), None)


def opened(source: Source) -> tuple[Banner, list[int], Iterable[Lines]]:
    """Read the header; return the banner, the sizes, and the blocks of text after the header.

    The sizes are the numbers of rows and columns and, for a sparse matrix, the number of entries.

    Raises
    ------
    ValueError
        If the header is not valid, or the numbers are complex; the message names the file.
    """
    first, blocks = entries.opened(source)
    end = first.text.find(b"\n") + 1 or len(first.text)
    banner = _banner(source.name, first.text[:end])
    found, body = entries.header(first.after(end), blocks, 1)
    place, line = found[0]
    what = f"rows, columns{' and entries' if banner.is_sparse else ''} of the matrix were"
    sizes = entries.whole_numbers(line, 2 + banner.is_sparse, place, what)
    if banner.symmetry != "general" and sizes[0] != sizes[1]:
        raise ValueError(f"{place}: {sizes[0]:,} rows and {sizes[1]:,} columns are not symmetric")
    return banner, sizes, body


def _banner(name: str, line: bytes) -> Banner:
    words = line.decode("ascii", "replace").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError(
            f"{name}: not MatrixMarket, whose first line is such as "
            "%%MatrixMarket matrix coordinate real general"
        )
    form, field, symmetry = words[2:]
    if field == "complex":
        raise ValueError(f"{name}: the matrix is complex, but rows must be real")
    is_known = form in ("coordinate", "array") and field in FIELDS and symmetry in SYMMETRIES
    if not is_known or (form, field) == ("array", "pattern"):
        raise ValueError(
            f"{name}: a matrix of MatrixMarket that is not read: {' '.join(words[2:])}"
        )
    return Banner(form == "coordinate", field, symmetry)


def stored(
    source: Source, blocks: Iterable[Lines], size: Size, banner: Banner, dtype: Any
) -> Entries:
    """Read the stored entries of a sparse matrix; mirror the entries of a symmetric matrix.

    Raises
    ------
    ValueError, MemoryError
        As `read`.
    """
    found = entries.read(
        source,
        blocks,
        size,
        dtype=dtype,
        valued=banner.field != "pattern",
        whole=banner.field in ("integer", "unsigned-integer"),
    )
    if banner.symmetry != "general":
        found = _whole(source.name, found, banner.symmetry)
    return found


def _whole(name: str, found: Entries, symmetry: str) -> Entries:
    """Complete a symmetric matrix; the file has only one triangle of it."""
    row, column, value = found
    above, below = (row < column).any(), (row > column).any()
    if above and below:
        raise ValueError(
            f"{name}: a {symmetry} matrix, and entries above the diagonal as well as below"
        )
    off = row != column
    if symmetry != "symmetric" and value[~off].any():
        raise ValueError(f"{name}: a {symmetry} matrix, and entries on the diagonal")
    memory.require(2 * sum(part.nbytes for part in found), f"{name}: the whole {symmetry} matrix")
    mirrored = value[off] if symmetry == "symmetric" else -value[off]
    return Entries(
        np.concatenate([row, column[off]]),
        np.concatenate([column, row[off]]),
        np.concatenate([value, mirrored]),
    )


def _dense(
    source: Source, blocks: Iterable[Lines], shape: tuple[int, int], banner: Banner, wanted: Wanted
) -> np.ndarray:
    """Read a dense matrix, which the file stores by columns.

    For a symmetric or skew-symmetric matrix, the file has only the lower triangle.
    """
    rows, columns = shape
    triangle = {"symmetric": rows * (rows + 1) // 2, "skew-symmetric": rows * (rows - 1) // 2}
    count = triangle.get(banner.symmetry, rows * columns)
    values = Growing(wanted.dtype)
    for lines in blocks:
        with errstate(over="ignore"):  # beyond the range of float32 a number becomes infinite
            values.add(entries.numbers(lines, 1))
        if len(values) > count:
            break
    if len(values) != count:
        many = "more" if len(values) > count else f"{len(values):,}: it may be cut off"
        raise ValueError(
            f"{source.name}: its header says {count:,} numbers, but the file has {many}"
        )
    memory.require(2 * rows * columns * values.dtype.itemsize, f"{source.name}: the matrix")
    if banner.symmetry == "general":
        X = np.ascontiguousarray(values.taken().reshape(columns, rows).T)
    else:
        X = np.zeros(shape, values.dtype)
        above = np.triu_indices(rows, int(banner.symmetry != "symmetric"))
        X.T[above] = values.taken()
        X[above] = X.T[above] if banner.symmetry == "symmetric" else -X.T[above]
    if wanted.finite:
        matrices.check_finite(source.name, X)
    return X
