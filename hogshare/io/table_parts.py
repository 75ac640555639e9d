"""Parts of a table by columns: the input of encoders, for all kinds of files.

The cells of a column are an array of numbers, with NaN for missing cells, or a list of text as
written. A column of text counts as numbers if every cell is a number, a boolean or missing.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from datetime import date, time, timedelta
from typing import Any, NamedTuple, TypeAlias

import numpy as np

# texts that programs write for a missing value, in lower case
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "<na>", "#n/a", "nat"})
TRUTHS = {"true": "1", "false": "0"}

Cells: TypeAlias = np.ndarray | list[str]


class NotEncoded(ValueError):
    """A column cannot be encoded.

    column : name of the column, or its number from 1
    why : name of the remedy; empty if there is none

    The remedies are ``missing`` (fill in the values), ``text`` (make categories of texts), ``many``
    (allow more categories), ``comma`` (read numbers with a comma) and ``column`` (leave the column
    out).
    """

    def __init__(self, message: str, column: str | int, why: str = "column") -> None:
        super().__init__(message)
        self.column, self.why = column, why


class Part(NamedTuple):
    """Some rows of a table.

    columns : cells of each of the rows' columns
    labels : cells of the labels' column, or None
    place : names a row of the part, counted from 0, for messages
    """

    columns: Sequence[Cells]
    labels: Cells | None
    place: Callable[[int], str]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0] if self.columns else self.labels or ())

    def chosen(self, rows: np.ndarray) -> Part:
        """Return a part with the rows at the places `rows`."""
        columns = [_taken(cells, rows) for cells in self.columns]
        labels = None if self.labels is None else _taken(self.labels, rows)
        return Part(columns, labels, lambda row: self.place(int(rows[row])))


def _taken(cells: Cells, rows: np.ndarray) -> Cells:
    if isinstance(cells, np.ndarray):
        taken: np.ndarray = cells[rows]
        return taken
    return [cells[row] for row in rows.tolist()]


def is_missing(cell: str) -> bool:
    """Whether a cell of text stands for a missing value."""
    return cell.lower() in MISSING


def missing(cells: Cells) -> np.ndarray:
    """Return a boolean mask of missing cells."""
    if isinstance(cells, np.ndarray):
        return np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), bool)
    lacking = {cell for cell in set(cells) if is_missing(cell)}
    if not lacking:
        return np.zeros(len(cells), bool)
    return np.fromiter(map(lacking.__contains__, cells), bool, len(cells))


def plain_numbers(cells: Cells) -> np.ndarray | None:
    """Return cells as float64 if all are written as numbers or NaN; else None."""
    if isinstance(cells, np.ndarray):
        return cells.astype(np.float64, copy=False)
    if "_" in "".join(cells):  # only Python accepts underscores between digits
        return None
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None


def as_numbers(cells: Cells) -> np.ndarray | None:
    """Return cells as float64 if all are numbers, booleans or missing (NaN); else None."""
    found = plain_numbers(cells)
    if found is not None or isinstance(cells, np.ndarray) or "_" in "".join(cells):
        return found
    small = map(str.lower, cells)
    spelt = ["nan" if cell in MISSING else TRUTHS.get(cell, cell) for cell in small]
    try:
        return np.fromiter(map(float, spelt), np.float64, len(cells))
    except ValueError:
        return None


def as_text(cells: Cells) -> list[str]:
    """Return cells as text: numbers in their shortest form, NaN as empty text."""
    return [spelt(cell) for cell in cells.tolist()] if isinstance(cells, np.ndarray) else cells


def spelt(number: Any) -> str:
    """Write a number as in a file: whole numbers without a point, NaN as empty text."""
    if number != number:
        return ""
    return repr(int(number)) if abs(number) < 2**53 and number == int(number) else repr(number)


def cells_of(values: Any, called: str, column: str | int) -> Cells:
    """Return the cells of an array of any kind; `called` names the column in errors.

    Raises
    ------
    NotEncoded
        If the values are dates, or anything else that is neither numbers nor text.
    """
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "O":
        return [_cell(value, called, column) for value in array.tolist()]
    if array.dtype.kind == "U":
        return [value.strip() for value in array.tolist()]
    if array.dtype.kind in "mM":
        raise dates(called, column)
    raise _other(called, column, f"values of {array.dtype}")


def dates(called: str, column: str | int, such_as: str = "") -> NotEncoded:
    """Return the error for a column of dates or times."""
    example = f" (such as {such_as})" if such_as else ""
    return NotEncoded(
        f"{called} has dates or times{example}, which cannot be encoded: replace them by numbers, "
        "such as the days since the first one, the month or the hour",
        column,
    )


def _cell(value: Any, called: str, column: str | int) -> str:
    if isinstance(value, str):
        return value.strip()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas' own types
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, numbers.Real):
        return spelt(value)
    if isinstance(value, date | time | timedelta | np.datetime64 | np.timedelta64):
        raise dates(called, column, repr(str(value)))
    if hasattr(value, "as_tuple"):  # a Decimal, which is not a numbers.Real
        return spelt(float(value))
    raise _other(called, column, f"a value of the type {type(value).__name__}")


def _other(called: str, column: str | int, what: str) -> NotEncoded:
    return NotEncoded(f"{called} has {what}, and numbers and text are fitted", column)
