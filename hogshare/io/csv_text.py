"""CSV and similar text: one row per line, cells separated by a delimiter, with or without names.

NumPy's parser reads blocks of records. All cells must be numbers, except for text labels and
unwanted columns. A block that NumPy's parser refuses is parsed again by Python's ``csv``, which
also accepts blanks around quotes and lines of blanks; errors then name the line and the column.
Nothing is filled in: missing cells and text are errors. The first row decides whether labels are
numbers or text.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from hogshare.io import csv_records
from hogshare.io.csv_records import BLANKS, is_number
from hogshare.io.growing_arrays import Growing
from hogshare.io.profiles import COMMAS
from hogshare.io.rows import Choose, ColumnChoice, Rows, Wanted
from hogshare.io.sniffing import FEATURE
from hogshare.io.sources import Lines, Source
from hogshare.io.table_parts import MISSING, Cells, NotEncoded, Part
from hogshare.system.interrupts import errstate
from hogshare.system.messages import counted, escaped

SHOWN = 12  # largest number of names in a message
# numbers by decimal mark; the other mark, blanks or apostrophes may separate thousands
_GROUPED = {
    mark: re.compile(
        rf"[-+]?(?=[\d{mark}])(?:\d{{1,3}}(?:[{other}\s'\u2019]\d{{3}})+|\d*)(?:[{mark}]\d+)?"
        r"(?:[eE][-+]?\d+)?"
    )
    for mark, other in ((",", "."), (".", ","))
}
LATER = 1_000  # rows of text from which to infer whether the first line is a row

_NUMERIC = tuple("0123456789.+-\N{MINUS SIGN}$")  # first characters of intended numbers


class NotCSV(ValueError):
    """Lines differ in their number of cells; `is_other` is True if cells resemble LIBSVM text."""

    is_other = False


Block = tuple[np.ndarray, np.ndarray | None]  # rows and labels of some lines


class CsvTable:
    """A source of CSV (`hogshare.io.rows.Table`).

    The constructor parses the first lines. Iteration yields blocks of rows and labels, and `parts`
    yields cells; use only one of the two, once, since the source is read once. With `now`, blocks
    and parts are yielded as soon as their lines arrive.

    Raises
    ------
    ValueError
        If the text is malformed. The message names the text, the line and the column.
    """

    def __init__(self, source: Source, wanted: Wanted, now: bool = False) -> None:
        self.name = source.name
        self.wanted, self.dtype = wanted, np.dtype(wanted.dtype)
        self.delimiter, self._blocks = csv_records.opened(source, wanted.delimiter, now)
        first = next(self._blocks)
        (number, cells), *others = itertools.islice(csv_records.cells(first, self.delimiter), 2)
        self.width = len(cells)
        sample = others[0][1] if others else cells
        # LIBSVM text that was taken for CSV has blanks, or no delimiter at all
        if self.delimiter == BLANKS or self.width == 1:
            self._refuse_features([*cells, *sample])
        if len(sample) != self.width:
            raise NotCSV(
                f"{self.name}: line {number} has {counted(self.width, 'cell')}, and line "
                f"{others[0][0]} has {len(sample)}, with {csv_records.in_words(self.delimiter)} "
                "between them"
            )
        if wanted.decimal is not None:
            sample = [pointed(cell, wanted.decimal) for cell in sample]
        if wanted.header is not None:
            named = wanted.header
        elif any(map(self._is_number, cells)):
            named = _has_names([pointed(cell, wanted.decimal) for cell in cells], sample)
        elif any(map(is_number, sample)):
            named = _has_names(cells, sample)
        else:
            later = itertools.islice(csv_records.cells(first, self.delimiter), 1, LATER)
            named = not _recurs(cells, [row for _, row in later])
        self.is_doubtful = wanted.header is None and named and any(map(is_number, cells))
        self.names = self._named(cells, number) if named else None
        self.choice = wanted.choose(self.names, self.width)
        columns, label = self.choice
        self._kinds = ["f" if k in {*columns, label} else "O" for k in range(self.width)]
        if label is not None:  # the first row decides the kind of labels
            row = sample if named else cells
            # labels to compare are read as text, since no text is refused
            self._kinds[label] = "f" if is_number(row[label]) and not wanted.compared else "O"
        if named:
            _, head = next(csv_records.records(first, self.delimiter))
            first = first.after(first.text.index(head) + len(head))
        self._first = first  # drop the line of names

    def __iter__(self) -> Iterator[Block]:
        for lines in itertools.chain([self._first], self._blocks):
            if lines.text.strip():
                yield self._part(lines)

    def parts(self) -> Iterator[Part]:
        """Iterate over the wanted columns' cells as text, some lines at a time.

        Raises
        ------
        ValueError
            If the text is malformed; cells need not be numbers.
        """
        columns, label = self.choice
        for lines in itertools.chain([self._first], self._blocks):
            if not lines.text.strip():
                continue
            rows = None
            if self.delimiter != BLANKS and lines.text.count(b"\r") == lines.text.count(b"\r\n"):
                rows = csv_records.table(lines, self.delimiter, self.width)
            if rows is None:
                rows = [self._record(number, cells) for number, cells in self._records(lines)]
            each = list(zip(*rows, strict=True))
            cells = [self._cells(each[k], k, lines) for k in columns]
            labels = None if label is None else self._cells(each[label], label, lines)
            yield Part(cells, labels, partial(self._place_of_row, lines))

    def _cells(self, cells: Sequence[str], column: int, lines: Lines) -> list[str]:
        """Return a column's cells, without surrounding blanks, with points as decimal marks."""
        found = list(map(str.strip, cells))
        mark = self.wanted.decimal
        if mark is None:
            return found
        for row, cell in enumerate(found):
            found[row] = pointed(cell, mark)
            other = is_number(cell) and not _GROUPED[mark].fullmatch(cell)
            if other and cell.lower() not in MISSING:
                place = f"{self._place_of_row(lines, row)}, {self.column(column)}"
                raise self._not_encoded(
                    column,
                    "column",
                    f"{place}: {_shown(cell)} is not a number with a decimal {mark!r}",
                )
        return found

    def _is_number(self, cell: str) -> bool:
        return is_number(pointed(cell, self.wanted.decimal))

    def _records(self, lines: Lines) -> Iterator[tuple[int, list[str]]]:
        return csv_records.cells(lines, self.delimiter)

    def _record(self, number: int, cells: list[str]) -> list[str]:
        if len(cells) != self.width:
            raise NotCSV(
                f"{self.name}, line {number}: {counted(len(cells), 'cell')}, and the first line "
                f"has {self.width}"
            )
        return cells

    def _refuse_features(self, cells: list[str]) -> None:
        feature = next((cell for cell in cells if FEATURE.match(cell.encode())), None)
        if feature is not None:
            error = NotCSV(f"{self.name}: {_shown(feature)} is no cell, but LIBSVM's index:value")
            error.is_other = True
            raise error

    def column(self, place: int) -> str:
        """Describe a column, counted from 0, for messages."""
        return f"column {place + 1}" + (f" ({self.names[place]!r})" if self.names else "")

    def _part(self, lines: Lines) -> Block:
        with errstate(over="ignore"):  # a number beyond the range of float32 becomes infinite
            try:
                X, y = self._parsed(lines)
            except ValueError:
                X, y = self._by_cells(lines)
        if y is not None and self.wanted.compared:
            y = to_compare(y.tolist()) if y.dtype.kind == "U" else y
        if self.wanted.finite:
            self._check_finite(X, y, lines)
        return X, y

    def _check_finite(self, X: np.ndarray, y: np.ndarray | None, lines: Lines) -> None:
        if y is not None and y.dtype.kind == "f" and not self.wanted.compared:
            for row in np.flatnonzero(~np.isfinite(y)).tolist():
                place, label = self._place_of_row(lines, row), self.column(self.choice.label or 0)
                raise self._not_encoded(
                    self.choice.label or 0, "", f"{place}, {label}: the label is {y[row]}"
                )
        if not np.isfinite(X).all():
            row, k = (int(i) for i in np.argwhere(~np.isfinite(X))[0])
            place = self._place_of_row(lines, row)
            raise self._not_encoded(
                self.choice.columns[k],
                "missing" if np.isnan(X[row, k]) else "column",
                f"{place}, {self.column(self.choice.columns[k])}: the value is {X[row, k]}, and a "
                "model needs finite ones; fill it in, or leave the row out",
            )

    def _place_of_row(self, lines: Lines, row: int) -> str:
        found = csv_records.records(lines, self.delimiter)
        number, _ = next(itertools.islice(found, row, None))
        return f"{self.name}, line {number}"

    def _parsed(self, lines: Lines) -> Block:
        """Parse rows and labels with NumPy; a ValueError does not name a place."""
        mark = None if self.delimiter == BLANKS else self.delimiter
        settings: dict[str, Any] = {"delimiter": mark, "comments": None}
        if b'"' in lines.text:
            if mark is not None and csv_records.has_quotes_after_blanks(lines.text, mark):
                raise ValueError
            settings["quotechar"] = '"'
        if lines.text.count(b"\r") != lines.text.count(b"\r\n"):
            raise ValueError  # NumPy would end a line at a carriage return
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
            if not self.wanted.compared and any(word.lower() in MISSING for word in words):
                raise ValueError
            y = np.array(words, dtype=str)
        return X, y

    def _by_cells(self, lines: Lines) -> Block:
        """Parse rows and labels cell by cell; errors name line and column."""
        columns, label = self.choice
        rows, labels = [], []
        for number, cells in self._records(lines):
            place = f"{self.name}, line {number}"
            cells = self._record(number, cells)
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
        where, why = f"{place}, {self.column(column)}", "text"
        if cell.lower() in MISSING:
            what, why = "the value is missing; fill it in, or leave the row out", "missing"
        elif COMMAS.fullmatch(cell):
            why = "comma"
            what = (
                f"{_shown(cell)} has a comma; write a point before decimals, and nothing between "
                "thousands"
            )
        elif cell[:1] in _NUMERIC:
            what = f"{_shown(cell)} is not a number such as 0.5, -3 or 1e-4"
        else:
            what = (
                f"{_shown(cell)} is not a number; make numbers of words before (such as a column "
                "of 0 and 1 for each word), or leave the column out"
            )
        raise self._not_encoded(column, why, f"{where}: {what}")

    def _not_encoded(self, column: int, why: str, message: str) -> NotEncoded:
        return NotEncoded(message, self.names[column] if self.names else column + 1, why)

    def _label(self, cell: str, column: int, place: str) -> str:
        where = f"{place}, {self.column(column)}"
        if self.wanted.compared:
            return cell
        if cell.lower() in MISSING:
            raise self._not_encoded(column, "", f"{where}: the label is missing")
        if self._kinds[column] == "f" and not is_number(cell):
            raise ValueError(
                f"{where}: the label {_shown(cell)} is not a number, as the labels before it are"
            )
        return cell

    def _named(self, cells: list[str], number: int) -> tuple[str, ...]:
        seen: set[str] = set()
        for cell in cells:
            if cell in seen and cell:
                raise ValueError(f"{self.name}, line {number}: two columns are called {cell!r}")
            seen.add(cell)
        if cells.count("") > 1:  # a model needs distinct names
            return tuple(cell or f"column {k}" for k, cell in enumerate(cells, 1))
        return tuple(cells)


def read(source: Source, wanted: Wanted) -> Rows:
    """Read all rows, and labels if a column has them.

    Raises
    ------
    ValueError
        If there are no rows, or the text is malformed.
    """
    table = CsvTable(source, wanted)
    values, numbers, words = Growing(table.dtype), Growing(np.float64), []
    part = None
    for part in table:
        X, y = part
        values.add(X)
        if y is not None and y.dtype.kind == "f":
            numbers.add(y)
        elif y is not None:
            words.append(y)
    if part is None:
        raise ValueError(
            f"{table.name}: the file has {'names of columns and ' if table.names else ''}no rows"
        )
    X = values.taken().reshape(-1, len(table.choice.columns))
    if table.choice.label is None:
        return Rows(X, None, table)
    return Rows(X, np.concatenate(words) if words else numbers.taken(), table)


def iterate(source: Source, wanted: Wanted) -> Iterator[Rows]:
    """Yield the rows of `read` in parts, as soon as they arrive; nothing if there are no rows."""
    table = CsvTable(source, wanted, now=True)
    for X, y in table:
        yield Rows(X, y, table)


def labels_at(column: str | int, name: str) -> Choose:
    """Return a function that chooses all columns, with `column` (name or place from 0) as labels.

    Raises
    ------
    ValueError
        The returned function raises it if the column does not exist; the message begins with
        `name`.
    """

    def choose(names: tuple[str, ...] | None, width: int) -> ColumnChoice:
        if isinstance(column, str):
            if names is None or column not in names:
                known = f"; there are {listed(names)}" if names else ": its first line has no names"
                raise ValueError(f"{name}: no column is called {column!r}{known}")
            label = names.index(column)
        elif -width <= column < width:
            label = column % width
        else:
            raise ValueError(f"{name}: there is no column {column}, but {width} in all")
        return ColumnChoice([k for k in range(width) if k != label], label)

    return choose


def listed(names: Sequence[str]) -> str:
    """List names of columns for a message; only the first of many."""
    shown = ", ".join(map(escaped, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown}, ... ({len(names):,} in all)"


def _has_names(first: list[str], second: list[str]) -> bool:
    """Whether the first line has names: it has no number, or a text above a number."""
    said = [cell for cell in first if cell.lower() not in MISSING]
    # an index column may have no name; a gap between other cells is a missing value
    begun = itertools.dropwhile(lambda cell: not cell, first)
    has_gap = any(cell.lower() in MISSING for cell in begun)
    if said and not has_gap and not any(is_number(cell) for cell in said):
        return True
    return any(
        cell.lower() not in MISSING and not is_number(cell) and is_number(below)
        for cell, below in zip(first, second, strict=False)
    )


def pointed(cell: str, mark: str | None) -> str:
    """Write a number with a decimal point and no separators; return other cells unchanged.

    mark : the decimal mark of the cell; if None, every cell is returned unchanged
    """
    if mark is None or not cell or not _GROUPED[mark].fullmatch(cell):
        return cell
    digits, found, decimals = cell.partition(mark)
    return re.sub(r"[.,\s'\u2019]", "", digits) + ("." if found else "") + decimals


def _recurs(first: list[str], later: list[list[str]]) -> bool:
    """Whether a text table's first line is a row: a cell recurs in its column or in the line.

    Names of columns, in contrast, differ from each other and from the columns' contents.
    """
    said = [cell for cell in first if cell.lower() not in MISSING]
    columns = zip(*later, strict=False)
    again = any(cell in column for cell, column in zip(first, columns, strict=False) if cell)
    return again or len(set(said)) < len(said)


def to_compare(cells: Cells) -> np.ndarray:
    """Return labels as numbers if all are numbers, else as text; all are NaN if any is missing."""
    if isinstance(cells, np.ndarray):
        return cells
    if any(cell.lower() in MISSING for cell in cells):
        return np.full(len(cells), np.nan)
    return np.array(cells, dtype=np.float64 if all(map(is_number, cells)) else str)


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:40] + "...")
