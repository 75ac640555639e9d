"""CSV and its like: one row a line, cells with a delimiter between, names in the first line or not.

NumPy's parser reads blocks of lines, all of whose cells are numbers, except those of labels that
are words and of columns that nobody wants. What it refuses is read once more by Python's, which
knows the line and the column, and which also takes what NumPy's does not (blanks around quotes,
lines of blanks). Nothing is filled in: a cell that is missing is an error, and so is a word.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hogshare import sources
from hogshare.growing import Growing
from hogshare.interrupts import errstate
from hogshare.sniffing import DELIMITERS, is_number

MISSING = frozenset({"", "na", "n/a", "null", "none", "?"})  # in small letters
SHOWN = 12  # names that an error lists


class Choice(NamedTuple):
    """Which columns are wanted, counted from 0: the rows' and, if there is one, the labels'."""

    columns: Sequence[int]
    label: int | None


Choose = Callable[[tuple[str, ...] | None, int], Choice]


@dataclass(frozen=True)
class Part:
    """Rows of some lines."""

    X: np.ndarray
    y: np.ndarray | None
    lines: sources.Lines


class Table:
    """A text of rows, whose first lines are looked at when it is made.

    Parameters
    ----------
    source : Source
    dtype : dtype
        Of the rows.
    choose : callable
        Given the names of all columns, or None if the text has none, and their number, returns the
        `Choice` of those that are wanted.
    header : bool or None, default=None
        Whether the first line has names; None goes by what it looks like.
    finite : bool, default=False
        Refuse values that are NaN or infinite.
    now : bool, default=False
        Hand out rows as soon as they are there.

    Attributes
    ----------
    delimiter : str or None
        None: blanks.
    names : tuple of str or None
    width : int
        Number of columns.
    choice : Choice

    Raises
    ------
    ValueError
        If the text is malformed. The message names it, and the line and the column.
    """

    def __init__(
        self,
        source: sources.Source,
        dtype: Any,
        choose: Choose,
        header: bool | None = None,
        finite: bool = False,
        now: bool = False,
    ) -> None:
        self.name = source.name
        self.dtype = np.dtype(dtype)
        self.finite = finite
        self._blocks = source.lines(now, least=2)
        first = next(self._blocks, None)
        if first is None:
            raise ValueError(f"{self.name}: the file is empty")
        lines = [(n, x) for n, x in enumerate(first.text.splitlines(), first.number) if x.strip()]
        if not lines:
            raise ValueError(f"{self.name}: the file has no rows")
        self.delimiter = _delimiter([line for _, line in lines[:2]])
        cells = [self._split(line) for _, line in lines[:2]]
        self.width = len(cells[0])
        named = _has_names(cells) if header is None else header
        self.names = self._named(cells[0], lines[0][0]) if named else None
        self.choice = choose(self.names, self.width)
        self._kinds = ["f"] * self.width
        wanted = {*self.choice.columns, self.choice.label}
        for column in range(self.width):
            if column not in wanted:
                self._kinds[column] = "O"
        label, sample = self.choice.label, cells[1 if named and len(cells) > 1 else 0]
        if label is not None and label < len(sample) and not is_number(sample[label]):
            self._kinds[label] = "O"
        self._rest = _without(first, lines[0][0]) if named else first
        self._begun = False

    def __iter__(self) -> Iterator[Part]:
        if self._rest.text.strip():
            yield self._part(self._rest)
            self._begun = True
        for lines in self._blocks:
            if lines.text.strip():
                yield self._part(lines)
                self._begun = True

    def column(self, place: int) -> str:
        """Name a column, counted from 0, in words."""
        return f"column {place + 1}" + (f" ({self.names[place]!r})" if self.names else "")

    def _part(self, lines: sources.Lines) -> Part:
        with errstate(over="ignore"):  # a number beyond the range of float32 becomes infinite
            try:
                X, y = self._parsed(lines)
            except ValueError:
                X, y = self._by_cells(lines)
        if self.finite and not np.isfinite(X).all():
            row, k = (int(i) for i in np.argwhere(~np.isfinite(X))[0])
            place = lines.place_of_row(row, bytes.strip)
            raise ValueError(
                f"{place}, {self.column(self.choice.columns[k])}: the value is {X[row, k]}, and a "
                "model needs finite ones; fill it in, or leave the row out"
            )
        return Part(X, y, lines)

    def _parsed(self, lines: sources.Lines) -> tuple[np.ndarray, np.ndarray | None]:
        """Rows and labels, or a ValueError that names no place."""
        settings: dict[str, Any] = {"delimiter": self.delimiter, "comments": None}
        if b'"' in lines.text:
            settings["quotechar"] = '"'
        columns, label = self.choice
        if "O" not in self._kinds:
            table = np.loadtxt(io.BytesIO(lines.text), np.float64, ndmin=2, **settings)
            if table.shape[1] != self.width:
                raise ValueError
            X = table if label is None and len(columns) == self.width else table[:, columns]
            y = None if label is None else np.ascontiguousarray(table[:, label])
            return np.ascontiguousarray(X, self.dtype), y
        kinds = [(str(k), np.float64 if c == "f" else object) for k, c in enumerate(self._kinds)]
        rows = np.loadtxt(
            io.BytesIO(lines.text), np.dtype(kinds), ndmin=1, encoding="utf-8", **settings
        )
        X = np.empty((len(rows), len(columns)), self.dtype)
        for k, column in enumerate(columns):
            X[:, k] = rows[str(column)]
        if label is None:
            return X, None
        y = rows[str(label)]
        if self._kinds[label] == "O":
            words = [word.strip() for word in y.tolist()]
            if any(word.lower() in MISSING for word in words):
                raise ValueError
            y = np.array(words, dtype=str)
        return X, y

    def _by_cells(self, lines: sources.Lines) -> tuple[np.ndarray, np.ndarray | None]:
        """The same cell by cell; an error names line and column."""
        columns, label = self.choice
        rows, labels = [], []
        for number, line in enumerate(lines.text.splitlines(), lines.number):
            if not line.strip():
                continue
            cells, place = self._split(line), f"{self.name}, line {number}"
            if len(cells) != self.width:
                raise ValueError(
                    f"{place}: {len(cells)} cell{'s' * (len(cells) != 1)}, and the first line has "
                    f"{self.width}"
                )
            rows.append([self._number(cells, k, place) for k in columns])
            if label is not None:
                labels.append(self._label(cells[label], label, place))
        X = np.array(rows, self.dtype).reshape(len(rows), len(columns))
        if label is None:
            return X, None
        if self._kinds[label] == "O":
            return X, np.array(labels, dtype=str)
        words = [k for k, word in enumerate(labels) if not is_number(word)]
        if not words:
            return X, np.array(labels, dtype=str).astype(np.float64)
        if self._begun:
            place = lines.place_of_row(words[0], bytes.strip)
            raise ValueError(
                f"{place}, {self.column(label)}: the label {labels[words[0]]!r} is no number, as "
                "those before are"
            )
        self._kinds[label] = "O"
        return X, np.array(labels, dtype=str)

    def _number(self, cells: list[str], column: int, place: str) -> float:
        cell = cells[column]
        if is_number(cell):
            return float(cell)
        where = f"{place}, {self.column(column)}"
        if cell.lower() in MISSING:
            raise ValueError(f"{where}: the value is missing; fill it in, or leave the row out")
        if self.delimiter != "," and is_number(cell.replace(",", ".", 1)):
            raise ValueError(f"{where}: {_shown(cell)} has a decimal comma; write a point")
        raise ValueError(
            f"{where}: {_shown(cell)} is no number; turn words into numbers before (such as a "
            "column of 0 and 1 for each word), or leave the column out"
        )

    def _label(self, cell: str, column: int, place: str) -> str:
        if cell.lower() in MISSING:
            raise ValueError(f"{place}, {self.column(column)}: the label is missing")
        return cell

    def _split(self, line: bytes) -> list[str]:
        text = line.decode("utf-8", "replace").strip("\r\n")
        if self.delimiter is None:
            return text.split()
        strict = {"delimiter": self.delimiter, "skipinitialspace": True}
        return [cell.strip() for cell in next(csv.reader([text], **strict), [])]  # type: ignore[arg-type]

    def _named(self, cells: list[str], number: int) -> tuple[str, ...]:
        seen: set[str] = set()
        for cell in cells:
            if cell in seen and cell:
                raise ValueError(f"{self.name}, line {number}: two columns are called {cell!r}")
            seen.add(cell)
        return tuple(cells)


def read(table: Table) -> tuple[np.ndarray, np.ndarray | None]:
    """All rows and, if there are any, labels.

    Raises
    ------
    ValueError
        If there are no rows, or the text is malformed.
    """
    cells, numbers, words = Growing(table.dtype), Growing(np.float64), []
    part = None
    for part in table:
        cells.add(part.X)
        if part.y is not None and part.y.dtype.kind == "f":
            numbers.add(part.y)
        elif part.y is not None:
            words.append(part.y)
    if part is None:
        raise ValueError(
            f"{table.name}: the file has {'names of columns and ' if table.names else ''}no rows"
        )
    X = cells.taken().reshape(-1, len(table.choice.columns))
    if table.choice.label is None:
        return X, None
    return X, np.concatenate(words) if words else numbers.taken()


def labels_at(column: str | int, name: str) -> Choose:
    """Choose all columns, one of them for the labels: by its name, or by its place from 0.

    Raises
    ------
    ValueError
        When the columns are known and it is not among them; the message begins with `name`.
    """

    def choose(names: tuple[str, ...] | None, width: int) -> Choice:
        if isinstance(column, str):
            if names is None or column not in names:
                known = f"; there are {listed(names)}" if names else ": its first line has no names"
                raise ValueError(f"{name}: no column is called {column!r}{known}")
            label = names.index(column)
        elif -width <= column < width:
            label = column % width
        else:
            raise ValueError(f"{name}: there is no column {column}, but {width} in all")
        return Choice([k for k in range(width) if k != label], label)

    return choose


def listed(names: Sequence[str]) -> str:
    """Names of columns in words, the first ones of many."""
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown}, ... ({len(names):,} in all)"


def _delimiter(lines: list[bytes]) -> str | None:
    for mark in DELIMITERS:
        if all(mark in line.strip(b"\r\n") for line in lines):
            return mark.decode()
    blanks = {len(line.split()) for line in lines}
    return None if len(blanks) == 1 and blanks != {1} else ","


def _has_names(cells: list[list[str]]) -> bool:
    """Whether the first line has names: no cell is a number, or one is above a number and none."""
    first, second = cells[0], cells[1] if len(cells) > 1 else []
    said = [cell for cell in first if cell.lower() not in MISSING]
    if said and not any(is_number(cell) for cell in said):
        return True
    return any(
        cell.lower() not in MISSING and not is_number(cell) and is_number(below)
        for cell, below in zip(first, second, strict=False)
    )


def _without(lines: sources.Lines, number: int) -> sources.Lines:
    """The lines after one of them."""
    end = 0
    for _ in range(number - lines.number + 1):
        end = lines.text.find(b"\n", end) + 1 or len(lines.text)
    return sources.Lines(lines.text[end:], number + 1, lines.name, lines.packed)


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:40] + "...")
