"""Records of CSV: one line each, or several lines if a quoted cell continues on the next line.

A quote has a meaning only at the beginning of a cell, where it opens a quoted cell. In a quoted
cell, two quotes in a row stand for one. Python's ``csv`` and NumPy's parser have the same rules.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator

from hogshare.io.sources import Lines, Source

COLONS = b"::"  # the delimiter of MovieLens' older files; delimiters of CSV are single characters
DELIMITERS = ("\t", ";", "|", ",")  # tried in this order: a comma may be a decimal mark
BLANKS = " \t"  # any number of blanks and tabs
NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "blanks": BLANKS}

LONGEST = 1 << 20  # most bytes of a record with quotes; a longer one counts as never closed
FIRST = 10  # records from which the delimiter is inferred

_QUOTED = re.compile(rb'"(?:[^"]|"")*"')
_SEP = re.compile(rb'"?sep=([,;|\t])"?\r?\n')
# a line of three or four cells with two colons between them
OF_COLONS = re.compile(rb"\s*[^\s:,;|]+(::[^\s:,;|]+){2}(::[^\s:,;|]*)?[ \t\r]*(\n|\Z)")
_WORD = re.compile(r'"(?:[^"]|"")*"|\S+')


def opened(source: Source, mark: str | None, now: bool = False) -> tuple[str, Iterator[Lines]]:
    """Return the delimiter, and an iterator over the text in blocks of whole records.

    The delimiter is `mark`. If `mark` is None, a first line ``sep=...`` or the first records
    determine the delimiter.

    Raises
    ------
    ValueError
        If there are no records. The iterator raises for the reasons of `whole`.
    """
    blocks = source.lines(now)
    first = next(blocks, None)
    if first is None:
        raise ValueError(f"{source.name}: the file is empty")
    while len(list(filter(bytes.strip, first.text.splitlines()))) < 2:
        if (more := next(blocks, None)) is None:
            break
        first = first.followed_by(more)
    if said := _SEP.match(first.text):  # Excel's first line with the delimiter
        first = first.after(said.end())
        mark = mark or said[1].decode("latin-1")
    if not first.text.strip():
        raise ValueError(f"{source.name}: the file has no rows")
    mark = mark or delimiter_of(first)
    return mark, whole(itertools.chain([first], blocks), mark)


def whole(blocks: Iterator[Lines], marks: str) -> Iterator[Lines]:
    """Yield the text in blocks of whole records; the first block has two records if possible.

    marks : the possible delimiters, one character each

    Raises
    ------
    ValueError
        If a quote is never closed, or the bytes are not text; the message names the line.
    """
    pending: Lines | None = None  # text after the last whole record
    begun = False
    for lines in blocks:
        if (place := lines.text.find(b"\0")) >= 0:
            raise ValueError(f"{lines.place(place)}: a zero byte, which text cannot contain")
        if pending is not None:
            lines = pending.followed_by(lines)
        done = _end_of_records(lines.text, marks)
        if len(lines.text) - done > LONGEST:
            raise _not_closed(lines, done)
        begun = begun or len(list(itertools.islice(records(lines, marks), 2))) == 2
        if not begun:
            pending = lines
            continue
        if done:
            yield lines.until(done)
        pending = lines.after(done) if done < len(lines.text) else None
    if pending is None:
        return
    if (done := _end_of_records(pending.text, marks)) < len(pending.text):
        raise _not_closed(pending, done)
    yield pending


def records(lines: Lines, marks: str) -> Iterator[tuple[int, bytes]]:
    """Iterate over records that are not blank, each with the number of its first line."""
    begin, number = 0, lines.number
    for end in _ends(lines.text, marks):
        record = lines.text[begin:end]
        if record.strip():
            yield number, record
        number += record.count(b"\n")
        begin = end


def cells(lines: Lines, mark: str) -> Iterator[tuple[int, list[str]]]:
    """Iterate over records: the number of a record's first line, and the record's cells.

    Raises
    ------
    ValueError
        If a record is not UTF-8, or cannot be split into cells; the message names the line.
    """
    for number, record in records(lines, mark):
        try:
            yield number, split(record, mark)
        except ValueError as error:
            raise ValueError(f"{lines.name}, line {number}: {error}") from None


def table(lines: Lines, mark: str, width: int) -> list[list[str]] | None:
    """Parse all records at once; return their cells, or None if some record is malformed.

    The delimiter must be one character, and every record must have `width` cells. After None, call
    `cells`, whose errors name the line.
    """
    try:
        text = io.StringIO(lines.text.decode(), newline="")
        found = list(csv.reader(text, delimiter=mark, skipinitialspace=True))
    except (UnicodeDecodeError, csv.Error):
        return None
    # as in `records`, neither an empty line nor a line of tabs alone is a record
    if mark == "\t":
        found = [row for row in found if any(row)]
    else:
        found = [row for row in found if len(row) > 1 or any(row)]
    return found if set(map(len, found)) <= {width} else None


def split(record: bytes, mark: str) -> list[str]:
    """Return a record's cells without surrounding blanks and quotes; errors name no line."""
    try:
        text = record.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"the byte {record[error.start]:#x} is not UTF-8; iconv -f LATIN1 -t UTF-8 FILE makes "
            "it of a text in Latin-1"
        ) from None
    if mark == BLANKS:
        words = [found[0] for found in _WORD.finditer(text)]
        return [w[1:-1].replace('""', '"').strip() if w[0] == w[-1] == '"' else w for w in words]
    try:
        cells = next(csv.reader([text], delimiter=mark, skipinitialspace=True), [])
    except csv.Error as error:
        if "\r" in text:
            raise ValueError("a carriage return in the middle of a line") from None
        raise ValueError(str(error)) from None
    return [cell.strip() for cell in cells]


def in_words(mark: str) -> str:
    """Return the delimiter's name, for messages."""
    name = next((name for name, known in NAMES.items() if known == mark), None)
    return repr(mark) if name is None else name if mark == BLANKS else f"{name}s"


def has_quotes_after_blanks(text: bytes, mark: str) -> bool:
    """Whether a quote may open a cell after blanks, which NumPy does not recognize."""
    return b' "' in text or (mark != "\t" and b'\t"' in text)


def delimiter_of(lines: Lines) -> str:
    """Infer the delimiter from the first records, which must all have the same number of cells."""
    begun = itertools.islice(records(lines, "".join(DELIMITERS)), FIRST)
    # if a stray quote counts as an open one, no record ends: use lines instead
    found = [record for _, record in begun] or lines.text.splitlines()[:FIRST]
    bare = [_QUOTED.sub(b'""', record).strip(b"\r\n") for record in found]
    counts = {mark: [record.count(mark.encode()) for record in bare] for mark in DELIMITERS}
    for mark, each in counts.items():
        if each[0] and len(set(each)) == 1:
            return mark
    words = {len(record.split()) for record in bare}
    if len(words) == 1 and words != {1}:
        return BLANKS
    return next((mark for mark, each in counts.items() if all(each)), ",")


def is_of_colons(head: bytes, done: bool) -> bool | None:
    """Whether the first line is three or four cells separated by `::`, as in MovieLens.

    Return None if `head` ends within the first line and more bytes may come (`done` is False).
    """
    return OF_COLONS.match(head) is not None if done or b"\n" in head else None


def has_colons(record: bytes, cells: list[str]) -> bool:
    """Whether `::` is the delimiter of a record; with another delimiter it may be part of an id."""
    parts = record.split(COLONS)
    if len(parts) < 2:
        return False
    return len(cells) < 2 or COLONS.decode() in cells or (len(parts) > 2 and is_number(parts[2]))


def is_number(cell: bytes | str) -> bool:
    """Whether a cell is a number, without the underscores that Python also accepts."""
    if (b"_" if isinstance(cell, bytes) else "_") in cell:  # type: ignore[operator]
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _ends(text: bytes, marks: str) -> Iterator[int]:
    """Iterate over the ends of records; the last one is the text's end unless a quote is open."""
    one_a_line, inside = _is_one_a_line(text, marks), False
    begin = 0
    while begin < len(text):
        end = text.find(b"\n", begin) + 1 or len(text)
        if not one_a_line and (inside or b'"' in text[begin:end]):
            inside = _is_open(text[begin:end].decode("latin-1"), marks, inside)
        if not inside:
            yield end
        begin = end


def _end_of_records(text: bytes, marks: str) -> int:
    if _is_one_a_line(text, marks):
        return len(text)
    return max(_ends(text, marks), default=0)


def _is_one_a_line(text: bytes, marks: str) -> bool:
    """Whether counts of quotes show that every quote is closed in its line.

    Doubled quotes do not count. The first, third, fifth quote and so on must each begin a cell, and
    no line may end between such a quote and the next quote.
    """
    if b'"' not in text:
        return True
    parts = text.replace(b'""', b"").split(b'"')
    if len(parts) % 2 == 0 or b"\n" in b"".join(parts[1::2]):
        return False
    outside = b"\n" + b'"'.join(parts[::2])
    begun = (outside.count(mark.encode() + b'"') for mark in ("\n", *marks))
    return sum(begun) == len(parts) // 2


def _is_open(line: str, marks: str, inside: bool) -> bool:
    """Whether a line ends inside quotes; `inside` says whether it begins inside quotes."""
    place = 0
    while True:
        if not inside:
            while line[place] in " \t" and place + 1 < len(line):
                place += 1
            inside = line[place] == '"'
            place += inside
        if inside:
            place = line.find('"', place)
            while place >= 0 and line.startswith('""', place):
                place = line.find('"', place + 2)
            if place < 0:
                return True
            inside = False
        # on to the next cell
        places = [k for k in (line.find(mark, place) for mark in marks) if k >= 0]
        place = min(places, default=len(line)) + 1
        if place >= len(line):
            return False


def _not_closed(lines: Lines, position: int) -> ValueError:
    return ValueError(f'{lines.place(position)}: a quote (") opens a cell and nothing closes it')
