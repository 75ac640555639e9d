"""ARFF, the tables of Weka and OpenML: attributes with their types, then rows of cells.

Rows are dense (``1,yes``) or sparse (``{0 1,4 yes}``). `hogshare.io.sparse_arff` converts sparse
rows to a matrix. Nothing is dropped silently. A value that its attribute does not declare is an
error. Relational attributes, whose values are tables, and weights of rows are refused.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from hogshare.io import table_parts
from hogshare.io.csv_records import is_number
from hogshare.io.rows import Wanted
from hogshare.io.sources import Lines, Source
from hogshare.io.table_parts import Cells, NotEncoded, Part, is_missing
from hogshare.system.messages import counted

LONGEST = 1 << 26  # largest number of bytes of a header
NUMERIC = ("numeric", "real", "integer")
MISSING = "?"

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{}}'\",%]+)\s*(.*)", re.I)
# a value and its delimiter: a comma, a tab, or the end
_VALUE = re.compile(rf"[ ]*+({_QUOTED}|[^,\t'\"]*+)[ ]*+(,|\t|\Z)")
_DATA = re.compile(rb"^[ \t]*@data\b.*$", re.I | re.M)
_FIRST = re.compile(rb"^[ \t]*([^\s%])", re.M)
_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True)
class Attribute:
    """A column as the header declares it.

    kind : "numeric", "nominal", "string" or "date"
    values : values of a nominal attribute, in the order of its declaration
    known : the valid cells of a nominal attribute
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()
    known: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", frozenset((*self.values, MISSING)))

    @property
    def is_of_numbers(self) -> bool:
        """Whether all values are numbers."""
        return self.kind == "numeric" or (bool(self.values) and all(map(is_number, self.values)))


def is_sparse(source: Source) -> bool:
    """Whether the first row is sparse; nothing of the source is consumed."""

    def settle(head: bytes, done: bool) -> bool | None:
        data = _DATA.search(head)
        if data is not None and (begin := _FIRST.search(head, data.end())):
            return begin[1] == b"{"
        return False if done else None

    found: bool = source.head(settle, LONGEST)
    return found


class ArffTable:
    """The attributes and the rows of an ARFF source (`hogshare.io.rows.Table`).

    The constructor reads the header. `parts` reads the rows, once. With `now`, a part is yielded as
    soon as its lines arrive.

    Raises
    ------
    ValueError
        If the header is malformed, or has an unsupported attribute; the message names the line.
    """

    delimiter = ""
    is_doubtful = False

    def __init__(self, source: Source, wanted: Wanted, now: bool = False) -> None:
        self.name = source.name
        self.attributes, self.rows = _header(source, now)
        self.names: tuple[str, ...] | None = tuple(a.name for a in self.attributes)
        self.width = len(self.attributes)
        self.choice = wanted.choose(self.names, self.width)
        label = self.choice.label
        for k in [*self.choice.columns, *([] if label is None else [label])]:
            if self.attributes[k].kind == "date":
                raise table_parts.dates(f"{self.name}: {self.column(k)}", self.attributes[k].name)
        if label is not None and not wanted.compared:
            values = self.attributes[label].values
            if wrong := next((v for v in values if is_missing(v) and v != MISSING), None):
                raise ValueError(
                    f"{self.name}: {self.column(label)}: the label {wrong!r} would be read as "
                    "missing; give it another name in the file"
                )

    def column(self, place: int) -> str:
        """Describe a column, counted from 0, for messages."""
        return f"column {place + 1} ({self.attributes[place].name!r})"

    def parts(self) -> Iterator[Part]:
        """Iterate over the wanted columns' cells, some lines at a time."""
        columns, label = self.choice
        for lines in self.rows:
            numbers, rows = [], []
            for number, line in texts(lines):
                numbers.append(number)
                rows.append(self._row(number, line))
            if rows:
                each = list(zip(*rows, strict=True))
                place = partial(self._place, numbers)
                cells = [self._cells(list(each[k]), k, place) for k in columns]
                labels = None if label is None else self._cells(list(each[label]), label, place)
                yield Part(cells, labels, place)

    def _place(self, numbers: list[int], row: int) -> str:
        return f"{self.name}, line {numbers[row]}"

    def _row(self, number: int, line: str) -> list[str]:
        place = f"{self.name}, line {number}"
        if line.startswith("{"):
            raise ValueError(f"{place}: a sparse row, and the first one is not")
        if not any(mark in line for mark in "'\"\t"):
            cells = [cell.strip() for cell in line.split(",")]
        else:
            cells = values(place, line)
        if len(cells) == self.width + 1 and cells[-1].startswith("{"):
            raise weighted(place)
        if len(cells) != self.width:
            raise ValueError(
                f"{place}: {counted(len(cells), 'cell')}, separated by commas, for "
                f"{counted(self.width, 'attribute')}"
            )
        return cells

    def _cells(self, cells: list[str], column: int, place: Callable[[int], str]) -> Cells:
        """Return a column's cells as numbers or text, as its attribute declares."""
        attribute = self.attributes[column]
        if attribute.kind == "numeric":
            found = table_parts.plain_numbers(
                ["nan" if cell == MISSING else cell for cell in cells]
            )
            if found is None:
                row = next(k for k, c in enumerate(cells) if c != MISSING and not is_number(c))
                raise self.refused(place(row), column, cells[row])
            return found
        if attribute.kind == "nominal" and not attribute.known.issuperset(cells):
            row = next(k for k, cell in enumerate(cells) if cell not in attribute.known)
            raise self.refused(place(row), column, cells[row])
        return ["" if cell == MISSING else cell for cell in cells]

    def refused(self, place: str, column: int, cell: str) -> NotEncoded:
        """Return the error for a value that its attribute does not declare."""
        shown = repr(cell if len(cell) <= 40 else cell[:40] + "...")
        what = "not a number" if self.attributes[column].kind == "numeric" else "none of its values"
        more = "; ? says that a value is missing" if not cell else ""
        name = self.attributes[column].name
        return NotEncoded(f"{place}, {self.column(column)}: {shown} is {what}{more}", name, "")


def weighted(place: str) -> ValueError:
    """Return the error for a row with a weight."""
    return ValueError(
        f"{place}: a row with its weight in braces; remove the weights, and in Python pass them "
        "to fit as sample_weight"
    )


def texts(lines: Lines) -> Iterator[tuple[int, str]]:
    """Iterate over lines that are neither blank nor comments, each with its number.

    Raises
    ------
    ValueError
        If a line is not text; the message names the line.
    """
    for number, line in enumerate(io.BytesIO(lines.text), lines.number):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{lines.name}, line {number}: the byte {line[error.start]:#x} is not UTF-8; iconv "
                "-f LATIN1 -t UTF-8 FILE makes it of a text in Latin-1"
            ) from None
        if "\0" in text:
            raise ValueError(f"{lines.name}, line {number}: a zero byte, which text cannot contain")
        if text and not text.startswith("%"):
            yield number, text


def values(place: str, text: str) -> list[str]:
    """Split values at commas or tabs, and remove their quotes.

    Raises
    ------
    ValueError
        If a quote is never closed, or is in the middle of a value.
    """
    found, at = [], 0
    while True:
        value = _VALUE.match(text, at)
        if value is None:
            raise ValueError(f"{place}: a quote is not closed, or is in the middle of a value")
        found.append(unquoted(value[1].strip()))
        at = value.end()
        if not value[2]:
            return found


def unquoted(value: str) -> str:
    """Remove the quotes around a value and the escapes within."""
    if value[:1] not in ("'", '"'):
        return value
    return _ESCAPED.sub(_letter, value[1:-1]) if "\\" in value else value[1:-1]


def _letter(found: re.Match[str]) -> str:
    escaped = found[1]
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _LETTERS.get(escaped, escaped)


def _header(source: Source, now: bool) -> tuple[list[Attribute], Iterator[Lines]]:
    """Read the attributes; return them and the lines after ``@data``."""
    blocks = source.lines(now)
    head = next(blocks, None)
    if head is None or not head.text.strip():
        raise ValueError(f"{source.name}: the file is empty")
    while not (end := _DATA.search(head.text)):
        if (more := next(blocks, None)) is None or len(head.text) > LONGEST:
            raise ValueError(f"{source.name}: not ARFF, or cut off: there is no line @data")
        head = head.followed_by(more)
    found: dict[str, Attribute] = {}
    for number, line in texts(head.until(end.start())):
        place = f"{source.name}, line {number}"
        if line.lower().startswith("@relation"):
            continue
        attribute = _attribute(place, line)
        if attribute.name in found:
            raise ValueError(f"{place}: two attributes are called {attribute.name!r}")
        found[attribute.name] = attribute
    if not found:
        raise ValueError(f"{source.name}: there are no attributes before @data")
    return list(found.values()), itertools.chain([head.after(end.end())], blocks)


def _attribute(place: str, line: str) -> Attribute:
    declared = _ATTRIBUTE.fullmatch(line)
    if declared is None:
        shown = line if len(line) <= 60 else line[:60] + "..."
        raise ValueError(f"{place}: not ARFF: {shown!r} is no @attribute NAME TYPE")
    name, kind = unquoted(declared[1]), declared[2].strip()
    word = kind.lower().split(maxsplit=1)[0] if kind else ""
    if word in NUMERIC:
        return Attribute(name, "numeric")
    if word in ("string", "date"):
        return Attribute(name, word)
    if word == "relational":
        raise ValueError(
            f"{place}: the attribute {name!r} is a table itself (relational), and rows have one "
            "value of each"
        )
    if kind.startswith("{") and kind.endswith("}"):
        return Attribute(name, "nominal", tuple(values(place, kind[1:-1].strip())))
    raise ValueError(
        f"{place}: the attribute {name!r} is of the type {kind[:40]!r}, and numeric, real, "
        "integer, string, date or values in braces were expected"
    )
