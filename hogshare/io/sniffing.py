"""The kind of rows in a file or a pipe, inferred from its first bytes and its name.

Unambiguous bytes, such as those of NumPy's arrays, take precedence over the name, since a pipe has
no name. The kind of a text follows from its name or, if the name implies no kind, from its first
lines.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from hogshare.io import foreign
from hogshare.io.csv_records import DELIMITERS, is_number
from hogshare.io.rows import Kind
from hogshare.io.sources import BEGINNING, OPENERS, Source

MAGIC: dict[bytes, Kind] = {
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
}
# the beginnings of text formats
HEADS: dict[Kind, re.Pattern[bytes]] = {
    "mtx": re.compile(rb"%%matrixmarket\s", re.I),
    "arff": re.compile(rb"(?:\s*%.*\n)*\s*@relation\b", re.I),
}
SUFFIXES: dict[str, Kind] = {
    ".npz": "npz",
    ".npy": "npy",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".ldac": "ldac",
    ".lda-c": "ldac",
    ".mtx": "mtx",
    ".mm": "mtx",
    ".arff": "arff",
    ".svmlight": "libsvm",
}

OBJECT = re.compile(rb'\s*\{\s*(\}|"[^\n]*\})[ \t\r]*(\n|\Z)')  # a line that is one object
FEATURE = re.compile(rb"(\d+|qid):[-+.\w]+$")
COUNTED = re.compile(rb"(\d{1,9})((?:[ \t]+\d+:\d+)*)\s*")  # a line of LDA-C
ENTRY = re.compile(rb"\s*\d+[ \t]+\d+[ \t]+\d+\s*")  # of a bag of words


def kind_by_name(path: str | Path) -> Kind | None:
    """Return the kind that a name implies; None if it implies none."""
    path = Path(path)
    if path.suffix in OPENERS:
        path = path.with_suffix("")
    return SUFFIXES.get(path.suffix.lower())


def kind_of(source: Source, counts: bool = True) -> Kind:
    """Return the kind of rows in a source, without consuming any of it.

    counts : whether text may be LDA-C if its name implies no kind. To recognize LDA-C, this
        function may wait for the second line of a pipe; for LIBSVM text the first line suffices.

    Raises
    ------
    ValueError
        If the kind is unknown.
    """
    named = kind_by_name(source.name)

    def settle(head: bytes, done: bool) -> Kind | None:
        arrays = _arrays(head)
        if not arrays and (what := foreign.model(head)):
            raise ValueError(f"{source.name}: {what}")
        if named == "jsonl" or (not arrays and _has_objects(head, done)):
            return "jsonl"
        if not done and head.lstrip().startswith(b"{") and b"\n" not in head.strip():
            return None  # an object may continue
        if not arrays and (what := foreign.named(head)):
            raise ValueError(f"{source.name}: {what}")
        if arrays or named:
            return arrays or named
        if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ValueError(f"{source.name}: neither text nor a known file of arrays (.npz, .npy)")
        if Path(source.name).suffix.lower() == ".vw" or foreign.is_vowpal(head):
            raise ValueError(f"{source.name}: {foreign.VOWPAL}")
        return kind_of_text(head, done, counts)

    found: Kind = source.head(settle)
    return found


def arrays_of(source: Source) -> Kind | None:
    """Return the kind of a file of arrays, without consuming any of it; None for other files."""
    head: bytes = source.head(lambda head, _: head[:8])
    return _arrays(head)


def _arrays(head: bytes) -> Kind | None:
    """Return the kind if the first bytes are unambiguous."""
    binary = next((kind for start, kind in MAGIC.items() if head.startswith(start)), None)
    text = head.removeprefix(codecs.BOM_UTF8)
    return binary or next((kind for kind, begin in HEADS.items() if begin.match(text)), None)


def _has_objects(head: bytes, done: bool) -> bool:
    """Whether the first line is an object of JSON."""
    found = OBJECT.match(head.removeprefix(codecs.BOM_UTF8))
    return found is not None and (found[2] == b"\n" or done)


def kind_of_text(head: bytes, done: bool, counts: bool = True) -> Kind | None:
    """Infer the kind of a text from its first lines; None if more lines are needed and may come.

    counts : as in `kind_of`
    """
    lines = head.removeprefix(codecs.BOM_UTF8).splitlines(keepends=True)
    # the beginning of a large file may end within a line; this line is dropped
    is_part = not done or (len(head) >= BEGINNING and len(lines) > 1)
    if is_part and lines and not lines[-1].endswith((b"\n", b"\r")):
        lines.pop()
    if _is_bag_of_words(lines):
        return "uci"
    if counts and (counted := _counts_pairs(lines, done)) is not False:
        return "ldac" if counted else None
    for line in lines:
        words = line.partition(b"#")[0].split()
        if not words:
            continue
        if any(FEATURE.match(word) for word in words[1:]):
            return "libsvm"
        if any(mark.encode() in line.strip() for mark in DELIMITERS):
            return "csv"
        if len(words) > 1:
            return "csv" if all(is_number(word) for word in words) else "libsvm"
    return "libsvm" if done else None


def _is_bag_of_words(lines: list[bytes]) -> bool:
    """Whether three lines have one number each and the next has three, as in docword files."""
    sizes, entries = lines[:3], lines[3:4]
    return all(line.strip().isdigit() for line in sizes) and any(map(ENTRY.fullmatch, entries))


def _counts_pairs(lines: list[bytes], done: bool) -> bool | None:
    """Whether the first number of each line is the number of its pairs, as in LDA-C.

    If this number is the same in all lines, it may equal the number of pairs by chance. The result
    is then None if more lines may come, and False at the end of the text.
    """
    counts = set()
    for line in filter(bytes.strip, lines):
        found = COUNTED.fullmatch(line)
        if found is None or int(found[1]) != found[2].count(b":"):
            return False
        counts.add(found[1])
    if len(counts) > 1:
        return True
    return False if done or not counts else None
