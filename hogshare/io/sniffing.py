"""What kind of rows a file or a pipe holds, told by its first bytes and by its name.

Bytes come before names where they leave no doubt (arrays of NumPy), since a pipe has no name. Text
is what its name says; where that says nothing, it is what its first lines look like.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from hogshare.io.csvrecords import DELIMITERS
from hogshare.io.rows import Kind
from hogshare.io.sources import MAGIC as PACKED
from hogshare.io.sources import OPENERS, Source

MAGIC: dict[bytes, Kind] = {
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
}
CSV_FROM = "write CSV with the program that made it"
# what is no text, by its first bytes, and what to do about it
BINARY: dict[bytes, str] = {
    b"FEA1": "a Feather file of the first version: write it with a later one",
    b"\x89HDF": f"an HDF5 file: {CSV_FROM}, or read it in Python",
    b"\xd0\xcf\x11\xe0": f"a file of Excel or Office: {CSV_FROM}",
    b"%PDF": f"a PDF file: {CSV_FROM}",
    b"SQLite format 3": f"an SQLite data base: {CSV_FROM}",
    **dict.fromkeys((b"\x80\x04", b"\x80\x05"), "a pickle, never loaded: use numpy.savez"),
    b"\x04\x22\x4d\x18": "compressed by LZ4, which is not read here; unpack it",
    **dict.fromkeys(PACKED, "compressed twice; unpack it once"),
    b"7z\xbc\xaf": "a 7z archive; unpack it",
}
# and what is text, but not of rows: patterns of small letters
TEXTS: dict[bytes, str] = {
    b"@relation": "an ARFF file: write CSV with Weka, or leave out its lines up to @data",
    **dict.fromkeys(
        (b"<!doctype html", b"<html"), "a web page and no data, as a download that failed leaves it"
    ),
    b"version https://git-lfs": "a pointer of Git LFS and not the data: git lfs pull fetches them",
    rb'\{\s*["}]|\[\s*[\[{]': "JSON, of which lines are read that have an object each: jq -c '.[]' "
    "FILE makes them of a list",
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
    ".svmlight": "libsvm",
}

OBJECT = re.compile(rb'\s*\{\s*(\}|"[^\n]*\})\s*(\n|\Z)')  # alone in a line
FEATURE = re.compile(rb"(\d+|qid):[-+.\w]+$")


def kind_by_name(path: str | Path) -> Kind | None:
    """The kind that a name promises; None if it promises nothing."""
    path = Path(path)
    if path.suffix in OPENERS:
        path = path.with_suffix("")
    return SUFFIXES.get(path.suffix.lower())


def kind_of(source: Source) -> Kind:
    """The kind of rows that a source has, of which nothing is used up.

    Raises
    ------
    ValueError
        If it is none that is known.
    """
    named = kind_by_name(source.name)

    def settle(head: bytes, done: bool) -> Kind | None:
        arrays = _arrays(head)
        if named == "jsonl" or (not arrays and _has_objects(head, done)):
            return "jsonl"
        if not arrays and (other := _other(head)):
            raise ValueError(f"{source.name}: {other}")
        if arrays or named:
            return arrays or named
        if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ValueError(
                f"{source.name}: neither text nor a file of arrays (.npz, .npy) that is known here"
            )
        return kind_of_text(head, done)

    found: Kind = source.head(settle)
    return found


def arrays_of(source: Source) -> Kind | None:
    """The kind of a file of arrays, of which nothing is used up; None if it is anything else."""
    head: bytes = source.head(lambda head, _: head[:8])
    return _arrays(head)


def _arrays(head: bytes) -> Kind | None:
    return next((kind for start, kind in MAGIC.items() if head.startswith(start)), None)


def _has_objects(head: bytes, done: bool) -> bool:
    """Whether the first line is an object of JSON."""
    found = OBJECT.match(head.removeprefix(codecs.BOM_UTF8))
    return found is not None and (found[2] == b"\n" or done)


def _other(head: bytes) -> str:
    """What it is besides rows, by its first bytes; empty if that is not known."""
    try:
        head[:512].decode()
        is_text = b"\0" not in head
    except UnicodeDecodeError as error:
        is_text = error.start > 500  # in the middle of a letter
    start = head.removeprefix(codecs.BOM_UTF8).lstrip().lower() if is_text else head
    if is_text:
        return next((what for mark, what in TEXTS.items() if re.match(mark, start)), "")
    return next((what for mark, what in BINARY.items() if start.startswith(mark)), "")


def kind_of_text(head: bytes, done: bool) -> Kind | None:
    """What first lines look like; None if they leave it open and more may come."""
    lines = head.splitlines(keepends=True)
    if not done and lines and not lines[-1].endswith((b"\n", b"\r")):
        lines.pop()
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


def is_number(cell: bytes | str) -> bool:
    """Whether a cell is a number, as everybody writes it."""
    if (b"_" if isinstance(cell, bytes) else "_") in cell:  # type: ignore[operator]
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True
