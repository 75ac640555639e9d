"""ARFF with sparse rows, ``{0 1,4 yes}``: a matrix of its numbers, and labels.

An attribute that a row omits is zero. For a nominal attribute, zero means its **first value**. An
omitted label is therefore the first label, and nominal attributes with text values cannot be
columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from hogshare.io import arff, matrices
from hogshare.io.arff import MISSING, ArffTable, Attribute
from hogshare.io.csv_records import is_number
from hogshare.io.csv_text import to_compare
from hogshare.io.growing_arrays import Growing
from hogshare.io.rows import Rows, Wanted
from hogshare.io.sources import Source
from hogshare.io.table_parts import NotEncoded

_ENTRY = re.compile(r"(\d+)[ \t]+(.+)", re.S)
LEFT_OUT = "sparse rows leave out its first value, {!r}"
DENSE = "make the rows dense with Weka's SparseToNonSparse"


def read(source: Source, wanted: Wanted) -> Rows:
    """Read all rows as a CSR matrix, with labels if a column has them.

    Raises
    ------
    ValueError
        If the text is malformed, a value is missing, or a column is text; the message names the
        line or the column.
    """
    table = ArffTable(source, wanted)
    data, columns, lengths = Growing(wanted.dtype), Growing(np.int32), Growing(np.int64)
    labels: list[np.ndarray] = []
    for X, y in _Matrix(table, wanted):
        for grown, more in ((data, X.data), (columns, X.indices), (lengths, np.diff(X.indptr))):
            grown.add(more)
        labels += [] if y is None else [y]
    if not len(lengths):
        raise ValueError(f"{source.name}: the file has no rows")
    indptr = np.concatenate([[0], np.cumsum(lengths.taken())])
    shape = len(indptr) - 1, len(table.choice.columns)
    X = matrices.csr(source.name, data.taken(), columns.taken(), indptr, shape)
    return Rows(X, np.concatenate(labels) if labels else None, table)


def iterate(source: Source, wanted: Wanted) -> Iterator[Rows]:
    """Yield the rows of `read` in parts, as soon as they arrive."""
    table = ArffTable(source, wanted, now=True)
    for X, y in _Matrix(table, wanted):
        yield Rows(X, y, table)


class _Matrix:
    """The rows of a table as matrices, some lines at a time."""

    def __init__(self, table: ArffTable, wanted: Wanted) -> None:
        self._table, self._wanted = table, wanted
        self._columns = np.full(table.width, -1, np.int32)
        self._columns[list(table.choice.columns)] = np.arange(len(table.choice.columns))
        for k in table.choice.columns:
            self._require_zero(k, table.attributes[k])
        self._label = table.choice.label
        if self._label is not None:
            self._default = self._label_left_out(self._label, table.attributes[self._label])

    def _require_zero(self, column: int, attribute: Attribute) -> None:
        """Refuse a column whose omitted entries are not zero."""
        called = f"{self._table.name}: {self._table.column(column)}"
        if not attribute.is_of_numbers:
            raise NotEncoded(
                f"{called} is text, and sparse rows must be numbers; {DENSE}", attribute.name
            )
        if attribute.values and float(attribute.values[0]):
            what = LEFT_OUT.format(attribute.values[0])
            raise NotEncoded(f"{called}: {what}, which is no zero; {DENSE}", attribute.name)

    def _label_left_out(self, column: int, attribute: Attribute) -> str:
        if attribute.kind == "string":
            raise ValueError(
                f"{self._table.name}: {self._table.column(column)} is a string, which has no first "
                "value for rows that omit it; declare its values in braces"
            )
        return attribute.values[0] if attribute.values else "0"

    def __iter__(self) -> Iterator[tuple[Any, np.ndarray | None]]:
        table, wanted = self._table, self._wanted
        for lines in table.rows:
            data, columns, ends, labels = [], [], [0], []
            for number, line in arff.texts(lines):
                place = f"{table.name}, line {number}"
                label = None
                for k, value in self._entries(place, line).items():
                    if k == self._label:
                        label = self._checked(place, k, value)
                    elif (column := int(self._columns[k])) >= 0:
                        columns.append(column)
                        data.append(self._number(place, k, value))
                ends.append(len(data))
                if self._label is not None:
                    labels.append(self._default if label is None else label)
            if len(ends) > 1:
                parts = np.array(data, wanted.dtype), np.array(columns, np.int32), np.array(ends)
                shape = len(ends) - 1, len(table.choice.columns)
                X = matrices.csr(table.name, *parts, shape)
                X.sort_indices()
                yield X, None if self._label is None else self._labels(labels)

    def _entries(self, place: str, line: str) -> dict[int, str]:
        """Return the values of a row by column."""
        body, brace, behind = line[1:].rpartition("}")
        if not (line.startswith("{") and brace) or behind.strip():
            raise ValueError(f"{place}: not a sparse row, such as {{0 1.5,3 yes}}")
        if re.search(r"\}\s*,\s*\{", body) and not re.search(r"['\"]", body):
            raise arff.weighted(place)
        found: dict[int, str] = {}
        is_plain = "'" not in body and '"' not in body
        for text in body.split(",") if is_plain else _split(place, body):
            entry = _ENTRY.fullmatch(text.strip())
            if entry is None:
                if not body.strip():
                    break
                raise ValueError(f"{place}: {text[:40]!r} is not INDEX VALUE")
            k = int(entry[1]) if len(entry[1]) < 10 else self._table.width
            if k >= self._table.width:
                raise ValueError(
                    f"{place}: index {entry[1][:20]} is not below the number of attributes, "
                    f"{self._table.width:,}"
                )
            if k in found:
                raise ValueError(f"{place}: index {k} occurs twice")
            found[k] = arff.unquoted(entry[2].strip())
        return found

    def _number(self, place: str, column: int, value: str) -> float:
        value = self._checked(place, column, value)
        number = np.nan if value == MISSING else float(value)
        if self._wanted.finite and not np.isfinite(number):
            what = "missing" if value == MISSING else value
            raise ValueError(
                f"{place}, {self._table.column(column)}: the value is {what}, and sparse rows to "
                "fit or to predict need finite ones; fill it in, or leave the row out"
            )
        return number

    def _checked(self, place: str, column: int, value: str) -> str:
        """Return a value; raise an error unless its attribute allows it."""
        attribute = self._table.attributes[column]
        is_right = is_number(value) if attribute.kind == "numeric" else value in attribute.known
        if not is_right and value != MISSING:
            raise self._table.refused(place, column, value)
        if value == MISSING and column == self._label and not self._wanted.compared:
            raise ValueError(
                f"{place}, {self._table.column(column)}: the label is missing; leave the row out"
            )
        return value

    def _labels(self, labels: list[str]) -> np.ndarray:
        """Return labels as numbers if all declared values are numbers, else as text.

        If any label is missing, return NaN for all labels.
        """
        if self._table.attributes[self._label or 0].is_of_numbers or MISSING in labels:
            return to_compare(labels)
        return np.array(labels, str)


def _split(place: str, body: str) -> list[str]:
    """Split entries at commas that are not within quotes."""
    found, begin, quote, at = [], 0, "", 0
    while at < len(body):
        letter = body[at]
        if quote:
            at += letter == "\\"
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == ",":
            found.append(body[begin:at])
            begin = at + 1
        at += 1
    if quote:
        raise ValueError(f"{place}: a quote is not closed")
    return [*found, body[begin:]]
