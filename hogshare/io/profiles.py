"""Profiles of columns, learnt part by part: numbers or categories, and their statistics.

A profile describes one column. It stores only counts, sums and different texts, so a file of any
length takes one pass and little memory. It refuses contents that would be a poor column of a model:
dates, ids, free text, and numbers in an unsupported notation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from hogshare.io.csv_records import is_number
from hogshare.io.table_parts import (
    TRUTHS,
    Cells,
    NotEncoded,
    as_numbers,
    dates,
    is_missing,
    plain_numbers,
)
from hogshare.io.table_parts import missing as where_missing
from hogshare.system.interrupts import errstate

MOST = 1_000  # default of the largest number of categories of a column
FEW = 50  # number of categories up to which a column is never taken for an id or free text
CODES = 20  # up to this number, different whole numbers in a column of text are categories
MOSTLY = 0.8  # from this share of numbers on, other text counts as a typing error

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s*[ap]m)?"
_ZONE = r"(?:\s*(?:z|utc|gmt|[-+]\d{2}:?\d{2}))?"
_DAY = (
    r"\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d{2})|"
    rf"\d{{1,2}}[- ]{_MONTH}[- ,]+\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}}"
)
_DATE = re.compile(rf"(?:(?:{_DAY})(?:(?:t|\s+){_CLOCK}{_ZONE})?|{_CLOCK}{_ZONE})", re.IGNORECASE)
COMMAS = re.compile(r"[-+]?[\d.]*,[\d.,]*(?:[eE][-+]?\d+)?")
_UNIT = re.compile(r"[-+]?[$£€¥]?\s*[-+]?[\d.,]*\d[\d.,]*\s*(?:%|[^\W\d_]{1,3}|[$£€¥])?")
_ID = re.compile(r"|id|.*[_ .-]id|id[_ .-].*|.*[a-z]I[dD]|index|row|unnamed.*", re.IGNORECASE)

Place = Callable[[int], str]


class Profile:
    """The description of a column, from the rows so far.

    called : the column's name in messages
    column : name of the column, or its number from 1
    most : largest number of categories
    """

    def __init__(self, called: str, column: str | int, most: int = MOST) -> None:
        self.called, self.column, self.most = called, column, most
        self.rows = 0
        self.has_truths = False  # among numbers
        self.first_missing = self.first_text = ""  # places
        self.text = ""  # the first cell that is not a number
        # number of occurrences of each cell; None for numbers with many values
        self.counts: Counter[str] | None = Counter()
        self._numbers = self._missing = 0
        self._mean = self._squares = 0.0  # sum of squared deviations from the mean
        self._rises, self._last = True, -np.inf

    def add(self, cells: Cells, place: Place) -> None:
        """Learn from some further rows.

        Raises
        ------
        NotEncoded
            If these rows show that the column cannot be encoded.
        """
        self.rows += len(cells)
        values = None if self.text else plain_numbers(cells)
        if values is None and not self.text:
            values = as_numbers(cells)
            self.has_truths |= values is not None and any(c.lower() in TRUTHS for c in cells)
        if values is not None:
            self._add_numbers(values, place)
        if isinstance(cells, list):
            self._add_text(cells, place, values is not None)

    def _add_numbers(self, values: np.ndarray, place: Place) -> None:
        is_missing = np.isnan(values)
        if is_missing.any():
            self.first_missing = self.first_missing or place(int(is_missing.argmax()))
            self._missing += int(np.count_nonzero(is_missing))
            values = values[~is_missing]
        if np.isinf(values).any():
            row = int(np.flatnonzero(~is_missing)[np.isinf(values).argmax()])
            raise NotEncoded(
                f"{place(row)}, {self.called}: the value is {values[np.isinf(values)][0]}, and a "
                "model needs finite ones; fill it in, or leave the row out",
                self.column,
            )
        if not len(values):
            return
        with errstate(over="ignore", invalid="ignore"):  # may overflow for numbers near the largest
            mean, before = float(values.mean()), self._numbers
            self._numbers += len(values)
            # means and squares of two parts are merged (Chan, Golub and LeVeque 1983)
            self._squares += float(((values - mean) ** 2).sum())
            self._squares += (mean - self._mean) ** 2 * before * len(values) / self._numbers
            self._mean += (mean - self._mean) * len(values) / self._numbers
        self._rises &= values[0] > self._last and rise(values)
        self._last = float(values[-1])

    def _add_text(self, cells: list[str], place: Place, are_numbers: bool) -> None:
        if self.counts is not None:
            self.counts.update(cells)
        if are_numbers:
            if self.counts is not None and len(self.counts) > self.most:
                self.counts = None
            return
        if not self.text:
            row = next(k for k, cell in enumerate(cells) if as_numbers([cell]) is None)
            self.text, self.first_text = cells[row], place(row)
            self._check_text()
        if not self.first_missing and (where := where_missing(cells)).any():
            self.first_missing = place(int(where.argmax()))
        self._check_number_of_categories()

    @property
    def is_text(self) -> bool:
        """Whether any cell is not a number."""
        return bool(self.text)

    @property
    def missing(self) -> int:
        """Number of missing cells."""
        if self.counts is None or not self.text:
            return self._missing
        return sum(n for cell, n in self.counts.items() if is_missing(cell))

    @property
    def mean(self) -> float:
        """Mean of the numbers."""
        return self._mean

    @property
    def deviation(self) -> float:
        """Standard deviation with missing numbers replaced by the mean."""
        return float(np.sqrt(self._squares / max(1, self.rows)))

    @property
    def is_empty(self) -> bool:
        """Whether all cells are missing."""
        return not self.text and not self._numbers

    @property
    def is_like_an_id(self) -> bool:
        """Whether the column is named like an id, and its numbers rise from row to row."""
        name = self.column if isinstance(self.column, str) else None
        return name is not None and self._numbers > FEW and self._rises and is_named_id(name)

    def categories(self) -> list[str]:
        """Return the different texts, sorted.

        Raises
        ------
        NotEncoded
            If the cells as a whole are not categories.
        """
        self._check_text()
        self._check_slips()
        self._check_number_of_categories()
        found = [cell for cell in self.counts or () if not is_missing(cell)]
        if len(found) > FEW and len(found) > self.rows / 2:
            raise NotEncoded(
                f"{self.called} has {len(found):,} different texts in {self.rows:,} rows (such as "
                f"{self.text!r}), as ids and free text have: no model learns from them",
                self.column,
            )
        return sorted(found)

    def _texts(self) -> Iterable[str]:
        return (cell for cell in self.counts or (self.text,) if as_numbers([cell]) is None)

    def _check_text(self) -> None:
        """Refuse dates, and numbers with commas."""
        texts = list(self._texts())
        if sum(bool(_DATE.fullmatch(cell)) for cell in texts) > len(texts) / 2:
            raise dates(f"{self.first_text}, {self.called}", self.column, repr(self.text))
        if all(map(COMMAS.fullmatch, texts)):
            raise NotEncoded(
                f"{self.first_text}, {self.called}: {self.text!r} has a comma; write a point "
                "before decimals, and nothing between thousands",
                self.column,
                "comma",
            )

    def _check_slips(self) -> None:
        """Refuse numbers with a few texts among them, and numbers with units."""
        counts = self.counts or Counter()
        known = {cell: n for cell, n in counts.items() if not is_missing(cell)}
        plain = [cell for cell in known if is_number(cell)]
        share = sum(known[cell] for cell in plain) / max(1, sum(known.values()))
        are_codes = len(plain) <= CODES and all(float(cell).is_integer() for cell in plain)
        if share >= MOSTLY and not are_codes:
            raise self._slip(f"as {share:.1%} of the column's values are")
        if len(known) > CODES and all(map(_UNIT.fullmatch, known)):
            raise self._slip("but one with a unit")

    def _slip(self, why: str) -> NotEncoded:
        return NotEncoded(
            f"{self.first_text}, {self.called}: {_shown(self.text)} is not a number such as 0.5, "
            f"-3 or 1e-4, {why}; correct the column",
            self.column,
        )

    def _check_number_of_categories(self) -> None:
        if self.counts is None:
            raise self._slip(f"as more than {self.most:,} different values before are")
        if len(self.counts) <= self.most:
            return
        self._check_slips()
        raise NotEncoded(
            f"{self.called} has more than {self.most:,} different texts (such as "
            f"{_shown(self.text)}), too many to be categories",
            self.column,
            "many",
        )


def rise(values: np.ndarray) -> bool:
    """Whether numbers are whole and strictly increasing."""
    return bool((np.diff(values) > 0).all() and (values == np.rint(values)).all())


def is_named_id(name: str) -> bool:
    """Whether a column has the name of an id, or of row numbers."""
    return bool(_ID.fullmatch(name))


def shown(found: Counter[str], most: int = 3) -> str:
    """List the most frequent texts, for messages."""
    texts = [_shown(text) for text, _ in found.most_common(most)]
    return ", ".join([*texts, *["..."] * (len(found) > most)])


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:40] + "...")
