"""Sparse matrices as text: a header with the numbers of rows, columns and entries, then entries.

Each line is an entry: row, column and value. Rows and columns are counted from 1. NumPy's parser
reads some lines at a time, so memory is allocated for entries that exist, not for the number that a
header announces. SciPy's `mmread` is not used, since it crashes the process for some damaged files
(SciPy 1.17.1).
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from hogshare.io import matrices
from hogshare.io.csv_records import is_number
from hogshare.io.growing_arrays import Growing
from hogshare.io.rows import Wanted
from hogshare.io.sources import Lines, Source
from hogshare.system.interrupts import errstate

MOST_PLACES = 2**53  # up to this bound a float64 represents every whole number


class Size(NamedTuple):
    """The size of a matrix, from a header."""

    rows: int
    columns: int
    entries: int


class Entries(NamedTuple):
    """Row numbers and column numbers, both from 0, and values, in the order of the text."""

    row: np.ndarray
    column: np.ndarray
    value: np.ndarray


def whole_numbers(line: bytes, count: int, place: str, what: str) -> list[int]:
    """Read `count` whole numbers from a header's line.

    Raises
    ------
    ValueError
        If the line is anything else, or a number is too large; the message says that `what` was
        expected.
    """
    words = line.split()
    if len(words) == count and all(word.isdigit() and len(word) < 20 for word in words):
        found = list(map(int, words))
        if max(found) < MOST_PLACES:
            return found
    shown = line[:60].decode("ascii", "backslashreplace")
    raise ValueError(f"{place}: {what} expected, got {shown!r}")


def read(
    source: Source, blocks: Iterable[Lines], size: Size, *, dtype: Any, valued: bool, whole: bool
) -> Entries:
    """Read all entries after a header.

    dtype : type of the values
    valued : whether entries have values; if not, all values are 1
    whole : whether values must be whole numbers

    Raises
    ------
    ValueError
        If the number of entries differs from the header's, or an entry is malformed or outside the
        matrix; the message names file and line.
    """
    index = np.int32 if max(size.rows, size.columns) < 2**31 else np.int64
    row, column, value = Growing(index), Growing(index), Growing(dtype)
    many = f"{size.entries:,} {'entry' if size.entries == 1 else 'entries'}"
    said = f"{source.name}: its header says {many}"
    for lines in blocks:
        table = numbers(lines, 3 if valued else 2)
        places = table[:, :2]
        inside = (places >= 1) & (places <= [size.rows, size.columns]) & (places == np.rint(places))
        if not inside.all():
            k, axis = (int(n) for n in np.argwhere(~inside)[0])
            what, most = ("row", "column")[axis], size[axis]
            raise ValueError(
                f"{lines.place_of_row(k, bytes.strip)}: {what} {places[k, axis]:.15g} must be a "
                f"whole number from 1 to {most:,}, the size in the header: correct one of them"
            )
        if whole and valued:
            _require_whole(lines, table[:, 2])
        row.add(places[:, 0] - 1)
        column.add(places[:, 1] - 1)
        with errstate(over="ignore"):  # beyond the range of float32 a number becomes infinite
            value.add(table[:, 2] if valued else np.ones(len(table)))
        if len(value) > size.entries:  # checked in every block, before more memory is used
            raise ValueError(f"{said}, but the file has more")
        lines.doubt_end()
    if len(value) < size.entries:
        raise ValueError(f"{said}, but the file has {len(value):,}: it may be cut off")
    return Entries(row.taken(), column.taken(), value.taken())


def numbers(lines: Lines, width: int) -> np.ndarray:
    """Read `width` numbers from each line that is not blank, as float64.

    Raises
    ------
    ValueError
        If a line is anything else; the message names the line.
    """
    if not lines.text.strip():
        return np.empty((0, width))
    try:
        # loadtxt ends a line at a carriage return
        if lines.text.count(b"\r") == lines.text.count(b"\r\n"):
            table = np.loadtxt(io.BytesIO(lines.text), np.float64, comments=None, ndmin=2)
            if table.shape[1] == width:
                return table
    except ValueError:
        pass
    rows = []
    for number, line in enumerate(io.BytesIO(lines.text), lines.number):
        words = line.split()
        if words and not (len(words) == width and all(map(is_number, words))):
            shown = line.strip()[:60].decode("utf-8", "backslashreplace")
            what = "a number was" if width == 1 else f"{width} numbers were"
            raise ValueError(f"{lines.name}, line {number}: {what} expected, got {shown!r}")
        if words:
            rows.append([float(word) for word in words])
    return np.array(rows)


def _require_whole(lines: Lines, values: np.ndarray) -> None:
    wrong = np.flatnonzero(values != np.rint(values))
    if wrong.size:
        k = int(wrong[0])
        raise ValueError(
            f"{lines.place_of_row(k, bytes.strip)}: the value is {values[k]:.15g}, and the header "
            "says that all are whole numbers"
        )


def csr(source: Source, entries: Entries, size: Size, wanted: Wanted) -> Any:
    """Build a CSR matrix; values at the same place are added, and stored zeros stay stored.

    Raises
    ------
    ValueError, MemoryError
        If the rows need more memory than is free, or more than a file of this size can contain.
    """
    parts = {
        "row": entries.row,
        "col": entries.column,
        "data": entries.value,
        "shape": np.array(size[:2], np.int64),
    }
    X = matrices.converted(
        source.name, source.length, "coo", parts, wanted.dtype, "a matrix of such a size"
    )
    if wanted.finite:
        matrices.check_finite(source.name, X)
    return X


def opened(source: Source) -> tuple[Lines, Iterator[Lines]]:
    """Return the first block of a text, and an iterator over the following blocks.

    Raises
    ------
    ValueError
        If the text is empty.
    """
    blocks = source.lines()
    first = next(blocks, None)
    if first is None or not first.text.strip():
        raise ValueError(f"{source.name}: the file is empty")
    return first, blocks


def header(
    first: Lines, blocks: Iterator[Lines], count: int
) -> tuple[list[tuple[str, bytes]], Iterator[Lines]]:
    """Read the first `count` lines that are neither blank nor comments (%).

    Return pairs (place, line), and an iterator over the text after these lines. A place is the
    line's description for messages.

    Raises
    ------
    ValueError
        If there are fewer such lines.
    """
    found: list[tuple[str, bytes]] = []
    for lines in itertools.chain([first], blocks):
        end, number = 0, lines.number
        for line in io.BytesIO(lines.text):
            if len(found) == count:
                break
            if line.strip() and not line.lstrip().startswith(b"%"):
                found.append((f"{lines.name}, line {number}", line.strip()))
            end, number = end + len(line), number + 1
        if len(found) == count:
            return found, itertools.chain([lines.after(end)], blocks)
    raise ValueError(f"{first.name}: the file ends in its header")
