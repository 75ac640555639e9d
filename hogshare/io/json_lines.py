"""JSON lines: one object per line, whose keys are the names of columns; a key may be absent."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from hogshare.io.rows import Wanted
from hogshare.io.sources import Lines, Source
from hogshare.io.table_parts import NotEncoded, Part


class JsonTable:
    """The columns of JSON lines (`hogshare.io.rows.Table`).

    The columns are the keys in the first block of lines, about a megabyte, and the names in
    `wanted.names`. A key that occurs only later is ignored; `strange` records it with its line.

    Raises
    ------
    ValueError
        If a line is not an object; the message names the line.
    """

    delimiter = ""
    is_doubtful = False

    def __init__(self, source: Source, wanted: Wanted, now: bool = False) -> None:
        self.name = source.name
        self._blocks = source.lines(now)
        first = next(self._blocks, None)
        if first is None or not first.text.strip():
            raise ValueError(f"{self.name}: the file is empty")
        rows = [row for _, row in _objects(first)]
        found = dict.fromkeys(name for row in rows for name in row)
        self.names: tuple[str, ...] | None = tuple(dict.fromkeys([*found, *wanted.names]))
        self.width = len(self.names)
        if not self.width:
            raise ValueError(f"{self.name}: the objects of its lines are empty")
        self.choice = wanted.choose(self.names, self.width)
        self.strange: dict[str, str] = {}
        self._first = first

    def parts(self) -> Iterator[Part]:
        """Iterate over the wanted columns' cells, some lines at a time."""
        columns, label = self.choice
        names = self.names or ()
        known = set(names)
        for lines in itertools.chain([self._first], self._blocks):
            numbered = list(_objects(lines))
            rows = [row for _, row in numbered]
            numbers = [number for number, _ in numbered]
            for number, row in numbered:
                if not row.keys() <= known:
                    for name in row.keys() - known:
                        self.strange.setdefault(name, f"line {number}")
            if rows:
                cells = [self._cells(rows, numbers, names[k]) for k in columns]
                labels = None if label is None else self._cells(rows, numbers, names[label])
                yield Part(cells, labels, partial(self._place, numbers))

    def _place(self, numbers: list[int], row: int) -> str:
        return f"{self.name}, line {numbers[row]}"

    def _cells(self, rows: list[dict[str, Any]], numbers: list[int], name: str) -> list[str]:
        cells = []
        for number, row in zip(numbers, rows, strict=True):
            value = row.get(name)
            if isinstance(value, str):
                cells.append(value.strip())
            elif value is None or isinstance(value, bool):
                cells.append({None: "", True: "True", False: "False"}[value])
            else:
                kind = "a list" if isinstance(value, list) else "an object"
                raise NotEncoded(
                    f"{self.name}, line {number}, column {name!r}: {kind} is not a cell's value; "
                    "write a number or a string",
                    name,
                )
        return cells


def _objects(lines: Lines) -> Iterator[tuple[int, dict[str, Any]]]:
    """Iterate over the objects, each with its line's number; their numbers are text as written."""
    for number, line in enumerate(lines.text.splitlines(), lines.number):
        if not line.strip():
            continue
        try:
            # numbers as text: as floats, whole numbers beyond 2**53 would lose digits
            row = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{lines.name}, line {number}: not an object of JSON ({error})"
            ) from None
        if not isinstance(row, dict):
            raise ValueError(f"{lines.name}, line {number}: JSON, but not an object with names")
        yield number, row
