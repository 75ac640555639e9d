"""Numbers of a table: read off each run, taken over rounds, and shown; each is declared once.

A value of None says that a run has none, as of the seconds to a target that it does not reach. It
counts as infinite.
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
    """Return the median where None is infinite, and None for infinity."""
    middle = statistics.median(math.inf if value is None else value for value in values)
    return middle if math.isfinite(middle) else None


def most(values: Sequence[Any]) -> Any:
    """Return the largest; None counts as nothing."""
    return max(values, key=lambda value: value or 0)


def ratio(above: float | None, below: float | None, factor: float = 1.0) -> float | None:
    """Return factor * above / below, or None where there is none."""
    return None if above is None or not below else factor * above / below


class MeasuredRun(dict[str, Any]):
    """What is known of a run, with its trace up to a target.

    Parameters
    ----------
    facts : dict
        As JSON has it.
    target : float
        The objective to come down to.
    """

    def __init__(self, facts: dict[str, Any], target: float) -> None:
        super().__init__(facts)
        self.target = target

    @once
    def trace(self) -> Trace:
        """The trace; what was not finite is NaN again."""
        import numpy as np

        from hogshare.report import Trace

        # a float array of None is one of NaN
        return Trace(**{k: np.array(v, dtype=np.float64) for k, v in self["trace"].items()})

    def first(self, what: str) -> float | None:
        """When the target is reached, in "seconds", "epochs" or "blocks"; None: it is not."""
        return self.trace.first(self.target, what)


@dataclass(frozen=True)
class TableNumber:
    """A number of a table, of each contestant.

    key : its name in JSON
    of : ``of(run)``, the value of a run; None: that of the run's own key
    over : what is made of the values of all rounds
    header : of its column; numbers with one header share a column, and those without have none
    form : a format, or ``form(value)``, of a cell
    """

    key: str
    of: Callable[[MeasuredRun], Any] | None = None
    over: Callable[[list[Any]], Any] = median
    header: str = ""
    form: str | Callable[[Any], Any] | None = None

    def found(self, runs: Sequence[MeasuredRun], rows: Sequence[Row], result: Row) -> Row:
        """What the last of the rows gets, which has its earlier numbers."""
        values = [run[self.key] if self.of is None else self.of(run) for run in runs]
        return {self.key: self.over(values)}

    def cell(self, row: Row) -> Any:
        """What the column shows."""
        value = row[self.key]
        if value is None or self.form is None:
            return value
        return format(value, self.form) if isinstance(self.form, str) else self.form(value)


@dataclass(frozen=True)
class Spread(TableNumber):
    """The median, which has the number's key, with the keys ``fastest`` and ``slowest``."""

    def found(self, runs: Sequence[MeasuredRun], rows: Sequence[Row], result: Row) -> Row:
        """All three; the slowest is None if one run has none."""
        assert self.of is not None
        values = [self.of(run) for run in runs]
        known = [value for value in values if value is not None]
        return {
            self.key: median(values),
            "fastest": min(known, default=None),
            "slowest": max(known) if len(known) == len(values) else None,
        }

    def cell(self, row: Row) -> Any:
        """The median, and in parentheses the others."""
        if row[self.key] is None:
            return None
        return f"{cell(row[self.key])} ({cell(row['fastest'])} to {cell(row['slowest'])})"


@dataclass(frozen=True)
class Compared(TableNumber):
    """A number of a row by what it has already, by the rows before it, or by the settings.

    by : ``by(row, rows, result)``, where `row` is the last of `rows`
    """

    by: Callable[[Row, Sequence[Row], Row], Any] = lambda row, rows, result: None

    def found(self, runs: Sequence[MeasuredRun], rows: Sequence[Row], result: Row) -> Row:
        """The number."""
        return {self.key: self.by(rows[-1], rows, result)}


def first_of(axis: str, row: Row, rows: Sequence[Row]) -> Row:
    """Return the first row that has the same part of a contestant."""
    return next(one for one in rows if one[axis] == row[axis])


def columns_of(
    numbers: Sequence[TableNumber], rows: Sequence[Row]
) -> tuple[list[str], list[list[Any]]]:
    """Headers, and of each row the cells below them."""
    headers = list(dict.fromkeys(number.header for number in numbers if number.header))
    shown = [[number for number in numbers if number.header == header] for header in headers]
    return headers, [[_joined([n.cell(row) for n in column]) for column in shown] for row in rows]


def _joined(cells: list[Any]) -> Any:
    return cells[0] if len(cells) == 1 else ", ".join(map(cell, cells))


def over_seeds(values: Sequence[float]) -> Row:
    """Median, low and high; None stands for infinity, and for all where a value is NaN.

    ``unknown`` says whether one is NaN, as a ratio of two runs is that both miss their target.
    """
    unknown = any(map(math.isnan, values))
    found = {"median": statistics.median(values), "low": min(values), "high": max(values)}
    finite = {k: v if math.isfinite(v) and not unknown else None for k, v in found.items()}
    return {**finite, "unknown": unknown}
