"""Sparse matrices as text: a header says rows, columns and entries, then comes an entry a line.

An entry is row, column and value; places begin at 1. NumPy's parser reads them some lines at a
time, so that nothing is allocated for what a header says before it is there. SciPy's `mmread` is
not asked: some damaged files end the process in it (1.17.1).
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

MOST_PLACES = 2**53  # whole numbers up to which a float has all


class Size(NamedTuple):
    """What a header says of a matrix."""

    rows: int
    columns: int
    entries: int


class Entries(NamedTuple):
    """Places from 0, and values, in the order of the text."""

    row: np.ndarray
    column: np.ndarray
    value: np.ndarray


def whole_numbers(line: bytes, count: int, place: str, what: str) -> list[int]:
    """So many numbers of a header's line.

    Raises
    ------
    ValueError
        If there are others, or one is too large; `what` they are.
    """
    words = line.split()
    if len(words) == count and all(word.isdigit() and len(word) < 20 for word in words):
        found = list(map(int, words))
        if max(found) < MOST_PLACES:
            return found
    shown = line[:60].decode("ascii", "backslashreplace")
    raise ValueError(f"{place}: {what} expected, and there is {shown!r}")


def read(
    source: Source, blocks: Iterable[Lines], size: Size, *, dtype: Any, valued: bool, whole: bool
) -> Entries:
    """Read all entries behind a header.

    dtype : of the values
    valued : whether entries have values; they are else 1
    whole : whether values are whole numbers

    Raises
    ------
    ValueError
        If they are not as many as the header says, or one is malformed or out of the matrix; it
        names file and line.
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
            raise ValueError(
                f"{lines.place_of_row(k, bytes.strip)}: {'column' if axis else 'row'} "
                f"{places[k, axis]:.15g}, and there are {size[axis]:,}, from 1 on"
            )
        if whole and valued:
            _require_whole(lines, table[:, 2])
        row.add(places[:, 0] - 1)
        column.add(places[:, 1] - 1)
        with errstate(over="ignore"):  # beyond the range of float32 a number becomes infinite
            value.add(table[:, 2] if valued else np.ones(len(table)))
        if len(value) > size.entries:
            raise ValueError(f"{said}, and there are more")
        lines.doubt_end()
    if len(value) < size.entries:
        raise ValueError(f"{said}, and there are {len(value):,}: the file may be cut off")
    return Entries(row.taken(), column.taken(), value.taken())


def numbers(lines: Lines, width: int) -> np.ndarray:
    """So many numbers of each line that is not blank, as float64.

    Raises
    ------
    ValueError
        If a line has others; it names the line.
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
            raise ValueError(
                f"{lines.name}, line {number}: {what} expected, and there is {shown!r}"
            )
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
    """A CSR matrix, in which several values of one place are added, and zeros stay.

    Raises
    ------
    ValueError, MemoryError
        If its rows take more memory than there is, or a file of this size may ask for.
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
    """The first block of a text, and those after it.

    Raises
    ------
    ValueError
        If there is none.
    """
    blocks = source.lines()
    first = next(blocks, None)
    if first is None or not first.text.strip():
        raise ValueError(f"{source.name}: the file is empty")
    return first, blocks


def header(
    first: Lines, blocks: Iterator[Lines], count: int
) -> tuple[list[tuple[str, bytes]], Iterator[Lines]]:
    """So many lines that are neither blank nor comments (%), each with its place; and the rest.

    Raises
    ------
    ValueError
        If there are fewer.
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
