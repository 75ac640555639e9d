"""CSV and its like: one row a line, cells with a delimiter between, names in the first line or not.

NumPy's parser reads blocks of records, all of whose cells are numbers, except those of labels that
are words and of columns that nobody wants. What it refuses is read once more by Python's, which
knows the line and the column, and which also takes what NumPy's does not (blanks around quotes,
lines of blanks). Nothing is filled in: a cell that is missing is an error, and so is a word. The
first row says whether labels are numbers or words.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hogshare.io import csvrecords, sources
from hogshare.io.csvrecords import BLANKS
from hogshare.io.growing import Growing
from hogshare.io.sniffing import FEATURE, is_number
from hogshare.system.interrupts import errstate
from hogshare.system.words import counted, escaped

MISSING = frozenset({"", "na", "n/a", "null", "none", "?"})  # in small letters
SHOWN = 12  # names that an error lists


_COMMAS = re.compile(r"[-+]?[\d.]*,[\d.,]*(?:[eE][-+]?\d+)?")
_NUMERIC = tuple("0123456789.+-\N{MINUS SIGN}$")  # begins what is meant for a number


class NotCSV(ValueError):
    """Lines do not have as many cells as the first; `is_other`: cells are those of LIBSVM text."""

    is_other = False


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
    delimiter : str or None, default=None
        The character between cells, `csvrecords.BLANKS` for blanks; None goes by the first lines.
    finite : bool, default=False
        Refuse values that are NaN or infinite.
    now : bool, default=False
        Hand out rows as soon as they are there.
    compared : bool, default=False
        Labels are only compared with others: those of a part that lacks some are NaN, and no error.

    Attributes
    ----------
    delimiter : str
    is_doubtful : bool
        Whether the first line was taken for names although a cell of it is a number.
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
        delimiter: str | None = None,
        finite: bool = False,
        now: bool = False,
        compared: bool = False,
    ) -> None:
        self.name = source.name
        self.dtype = np.dtype(dtype)
        self.finite = finite
        self.compared = compared
        blocks = source.lines(now)
        first = next(blocks, None)
        if first is None:
            raise ValueError(f"{self.name}: the file is empty")
        while len(list(filter(bytes.strip, first.text.splitlines()))) < 2:
            if (more := next(blocks, None)) is None:
                break
            first = sources.Lines(first.text + more.text, first.number, self.name, first.packed)
        if not first.text.strip():
            raise ValueError(f"{self.name}: the file has no rows")
        first, said = csvrecords.without_sep(first)
        self.delimiter = delimiter or said or csvrecords.delimiter_of(first)
        self._blocks = csvrecords.whole(itertools.chain([first], blocks), self.delimiter, least=2)
        first = next(self._blocks)
        (number, head), *others = itertools.islice(csvrecords.records(first, self.delimiter), 2)
        cells = [self._cells(record, line) for line, record in ((number, head), *others)]
        self.width = len(cells[0])
        if self.delimiter == BLANKS or self.width == 1:
            self._refuse_features([*cells[0], *cells[-1]])
        if others and len(cells[1]) != self.width:
            here = counted(len(cells[0]), "cell")
            raise NotCSV(
                f"{self.name}: line {number} has {here}, and line {others[0][0]} has "
                f"{len(cells[1])}, with {csvrecords.told(self.delimiter)} between them"
            )
        named = _has_names(cells) if header is None else header
        self.is_doubtful = bool(header is None and named and any(map(is_number, cells[0])))
        self.names = self._named(cells[0], number) if named else None
        self.choice = choose(self.names, self.width)
        self._kinds = ["f"] * self.width
        wanted = {*self.choice.columns, self.choice.label}
        for column in range(self.width):
            if column not in wanted:
                self._kinds[column] = "O"
        label, sample = self.choice.label, cells[1 if named and len(cells) > 1 else 0]
        if label is not None and (compared or not is_number(sample[label])):
            self._kinds[label] = "O"
        end = first.text.index(head) + len(head)
        self._rest = csvrecords.after(first, end) if named else first

    def __iter__(self) -> Iterator[Part]:
        for lines in itertools.chain([self._rest], self._blocks):
            if lines.text.strip():
                yield self._part(lines)

    def _refuse_features(self, cells: list[str]) -> None:
        feature = next((cell for cell in cells if FEATURE.match(cell.encode())), None)
        if feature is not None:
            error = NotCSV(f"{self.name}: {_shown(feature)} is no cell, but LIBSVM's index:value")
            error.is_other = True
            raise error

    def column(self, place: int) -> str:
        """Name a column, counted from 0, in words."""
        return f"column {place + 1}" + (f" ({self.names[place]!r})" if self.names else "")

    def _part(self, lines: sources.Lines) -> Part:
        with errstate(over="ignore"):  # a number beyond the range of float32 becomes infinite
            try:
                X, y = self._parsed(lines)
            except ValueError:
                X, y = self._by_cells(lines)
        if y is not None and self.compared:
            y = _to_compare(y)
        if self.finite:
            self._check_finite(X, y, lines)
        return Part(X, y, lines)

    def _check_finite(self, X: np.ndarray, y: np.ndarray | None, lines: sources.Lines) -> None:
        label = self.choice.label
        if not self.compared and y is not None and y.dtype.kind == "f" and not np.isfinite(y).all():
            row = int(np.flatnonzero(~np.isfinite(y))[0])
            place = self._place_of_row(lines, row)
            raise ValueError(f"{place}, {self.column(int(label or 0))}: the label is {y[row]}")
        if not np.isfinite(X).all():
            row, k = (int(i) for i in np.argwhere(~np.isfinite(X))[0])
            place = self._place_of_row(lines, row)
            raise ValueError(
                f"{place}, {self.column(self.choice.columns[k])}: the value is {X[row, k]}, and a "
                "model needs finite ones; fill it in, or leave the row out"
            )

    def _place_of_row(self, lines: sources.Lines, row: int) -> str:
        found = csvrecords.records(lines, self.delimiter)
        number, _ = next(itertools.islice(found, row, None))
        return f"{self.name}, line {number}"

    def _parsed(self, lines: sources.Lines) -> tuple[np.ndarray, np.ndarray | None]:
        """Rows and labels, or a ValueError that names no place."""
        mark = None if self.delimiter == BLANKS else self.delimiter
        settings: dict[str, Any] = {"delimiter": mark, "comments": None}
        if b'"' in lines.text:
            if mark is not None and csvrecords.has_quotes_after_blanks(lines.text, mark):
                raise ValueError
            settings["quotechar"] = '"'
        if lines.text.count(b"\r") != lines.text.count(b"\r\n"):
            raise ValueError  # NumPy would end a line there
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
            if not self.compared and any(word.lower() in MISSING for word in words):
                raise ValueError
            y = np.array(words, dtype=str)
        return X, y

    def _by_cells(self, lines: sources.Lines) -> tuple[np.ndarray, np.ndarray | None]:
        """The same cell by cell; an error names line and column."""
        columns, label = self.choice
        rows, labels = [], []
        for number, record in csvrecords.records(lines, self.delimiter):
            cells, place = self._cells(record, number), f"{self.name}, line {number}"
            if len(cells) != self.width:
                raise NotCSV(
                    f"{place}: {counted(len(cells), 'cell')}, and the first line has {self.width}"
                )
            rows.append([self._number(cells, k, place) for k in columns])
            if label is not None:
                labels.append(self._label(cells[label], label, place))
        X = np.array(rows, self.dtype).reshape(len(rows), len(columns))
        if label is None:
            return X, None
        if self._kinds[label] == "O":
            return X, np.array(labels, dtype=str)
        return X, np.array(labels, dtype=str).astype(np.float64)

    def _number(self, cells: list[str], column: int, place: str) -> float:
        cell = cells[column]
        if is_number(cell):
            return float(cell)
        where = f"{place}, {self.column(column)}"
        if cell.lower() in MISSING:
            raise ValueError(f"{where}: the value is missing; fill it in, or leave the row out")
        if _COMMAS.fullmatch(cell):
            raise ValueError(
                f"{where}: {_shown(cell)} has a comma; write a point before decimals, and nothing "
                "between thousands"
            )
        if cell[:1] in _NUMERIC:
            raise ValueError(f"{where}: {_shown(cell)} is no number such as 0.5, -3 or 1e-4")
        raise ValueError(
            f"{where}: {_shown(cell)} is no number; turn words into numbers before (such as a "
            "column of 0 and 1 for each word), or leave the column out"
        )

    def _label(self, cell: str, column: int, place: str) -> str:
        where = f"{place}, {self.column(column)}"
        if self.compared:
            return cell
        if cell.lower() in MISSING:
            raise ValueError(f"{where}: the label is missing")
        if self._kinds[column] == "f" and not is_number(cell):
            raise ValueError(f"{where}: the label {_shown(cell)} is no number, as those before are")
        return cell

    def _cells(self, record: bytes, number: int) -> list[str]:
        try:
            return csvrecords.split(record, self.delimiter)
        except ValueError as error:
            raise ValueError(f"{self.name}, line {number}: {error}") from None

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
    shown = ", ".join(map(escaped, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown}, ... ({len(names):,} in all)"


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


def _to_compare(words: np.ndarray) -> np.ndarray:
    """Labels as numbers, if they are; NaN if some are missing."""
    each = words.tolist()
    if any(word.lower() in MISSING for word in each):
        return np.full(len(each), np.nan)
    return words.astype(np.float64) if all(map(is_number, each)) else words


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:40] + "...")
