"""Numbers of a table: each declares its value in a run, its summary over rounds, and its format.

The value None means that a run has no such value. For example, a run has no seconds to a target
that it does not reach. In summaries None counts as infinite.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hogshare.io.tables import cell
from hogshare.system.lazy_attribute import once

if TYPE_CHECKING:
    from hogshare.report import Trace

Row = dict[str, Any]


def median(values: Sequence[float | None]) -> float | None:
    """Return the median; None represents infinity in the values and in the result."""
    middle = statistics.median(math.inf if value is None else value for value in values)
    return middle if math.isfinite(middle) else None


def most(values: Sequence[Any]) -> Any:
    """Return the largest of the values that are not None."""
    return max(values, key=lambda value: value or 0)


def ratio(above: float | None, below: float | None, factor: float = 1.0) -> float | None:
    """Return factor * above / below, or None if it is undefined."""
    return None if above is None or not below else factor * above / below


class MeasuredRun(dict[str, Any]):
    """The facts of a run, with its trace up to a target.

    Parameters
    ----------
    facts : dict
        The facts for JSON.
    target : float
        Objective to reach.
    """

    def __init__(self, facts: dict[str, Any], target: float) -> None:
        super().__init__(facts)
        self.target = target

    @once
    def trace(self) -> Trace:
        """The trace; values that JSON stores as None are NaN again."""
        import numpy as np

        from hogshare.report import Trace

        # None becomes NaN in a float array
        return Trace(**{k: np.array(v, dtype=np.float64) for k, v in self["trace"].items()})

    def first(self, what: str) -> float | None:
        """Return the "seconds", "epochs" or "blocks" until the target is reached; None if never."""
        return self.trace.first(self.target, what)


@dataclass(frozen=True)
class TableNumber:
    """A number of a table, for each contestant.

    key : name of the number in JSON
    of : ``of(run)``, the value of a run; None: the run's value of `key`
    over : ``over(values)``, the summary of the values of all rounds
    header : header of the column; numbers with the same header share a column. None: no column
    form : format specification of a cell, or ``form(value)``
    """

    key: str
    of: Callable[[MeasuredRun], Any] | None = None
    over: Callable[[list[Any]], Any] = median
    header: str = ""
    form: str | Callable[[Any], Any] | None = None

    def found(self, runs: Sequence[MeasuredRun], rows: Sequence[Row], result: Row) -> Row:
        """Return the number's keys for the last of `rows`, which has the earlier numbers."""
        values = [run[self.key] if self.of is None else self.of(run) for run in runs]
        return {self.key: self.over(values)}

    def cell(self, row: Row) -> Any:
        """Return the number's text for a cell."""
        value = row[self.key]
        if value is None or self.form is None:
            return value
        return format(value, self.form) if isinstance(self.form, str) else self.form(value)


@dataclass(frozen=True)
class Spread(TableNumber):
    """A median with its range: the number's key, and the keys ``fastest`` and ``slowest``."""

    def found(self, runs: Sequence[MeasuredRun], rows: Sequence[Row], result: Row) -> Row:
        """Return median, fastest and slowest; the slowest is None if any run has no value."""
        assert self.of is not None
        values = [self.of(run) for run in runs]
        known = [value for value in values if value is not None]
        return {
            self.key: median(values),
            "fastest": min(known, default=None),
            "slowest": max(known) if len(known) == len(values) else None,
        }

    def cell(self, row: Row) -> Any:
        """Format the median, with fastest and slowest in parentheses."""
        if row[self.key] is None:
            return None
        return f"{cell(row[self.key])} ({cell(row['fastest'])} to {cell(row['slowest'])})"


@dataclass(frozen=True)
class Compared(TableNumber):
    """A number computed from earlier numbers of its row, from earlier rows, or from the settings.

    by : ``by(row, rows, result)``, the number; `row` is the last of `rows`
    """

    by: Callable[[Row, Sequence[Row], Row], Any] = lambda row, rows, result: None

    def found(self, runs: Sequence[MeasuredRun], rows: Sequence[Row], result: Row) -> Row:
        """Return a dictionary with the number under its key."""
        return {self.key: self.by(rows[-1], rows, result)}


def first_of(axis: str, row: Row, rows: Sequence[Row]) -> Row:
    """Return the first row that has the same value of an axis as `row`."""
    return next(one for one in rows if one[axis] == row[axis])


def columns_of(
    numbers: Sequence[TableNumber], rows: Sequence[Row]
) -> tuple[list[str], list[list[Any]]]:
    """Return the headers, and the cells of each row."""
    headers = list(dict.fromkeys(number.header for number in numbers if number.header))
    shown = [[number for number in numbers if number.header == header] for header in headers]
    return headers, [[_joined([n.cell(row) for n in column]) for column in shown] for row in rows]


def _joined(cells: list[Any]) -> Any:
    return cells[0] if len(cells) == 1 else ", ".join(map(cell, cells))


def over_seeds(values: Sequence[float]) -> Row:
    """Return median, low and high of a number over seeds, and whether it is ``unknown``.

    None represents infinity. ``unknown`` is True if a value is NaN, as the ratio of two runs that
    both miss their target is; median, low and high are then None.
    """
    unknown = any(map(math.isnan, values))
    found = {"median": statistics.median(values), "low": min(values), "high": max(values)}
    finite = {k: v if math.isfinite(v) and not unknown else None for k, v in found.items()}
    return {**finite, "unknown": unknown}
