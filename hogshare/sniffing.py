"""What kind of rows a file or a pipe holds, told by its first bytes and by its name.

Bytes come before names where they leave no doubt (arrays of NumPy), since a pipe has no name. Text
is what its name says; where that says nothing, it is what its first lines look like.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from hogshare.sources import OPENERS, Source

Kind = Literal["libsvm", "csv", "npz", "npy"]

KINDS: tuple[Kind, ...] = ("libsvm", "csv", "npz", "npy")
MAGIC: dict[bytes, Kind] = {b"\x93NUMPY": "npy", b"PK\x03\x04": "npz", b"PK\x05\x06": "npz"}
SUFFIXES: dict[str, Kind] = {
    ".npz": "npz",
    ".npy": "npy",
    ".csv": "csv",
    ".tsv": "csv",
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
}
DELIMITERS = (b"\t", b";", b"|", b",")  # tried in this order: a comma may be that of a decimal

FEATURE = re.compile(rb"(\d+|qid):[-+.\w]+$")


def kind_by_name(path: str | Path) -> Kind | None:
    """The kind that a name promises; None if it promises nothing."""
    path = Path(path)
    if path.suffix in OPENERS:
        path = path.with_suffix("")
    return SUFFIXES.get(path.suffix.lower())


def kind_of(source: Source) -> Kind:
    """The kind of rows that a source holds, of which nothing is used up.

    Raises
    ------
    ValueError
        If it is none that is known.
    """
    named = kind_by_name(source.name)

    def look(head: bytes, done: bool) -> Kind | None:
        magic = next((kind for start, kind in MAGIC.items() if head.startswith(start)), None)
        if magic or named:
            return magic or named
        if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ValueError(
                f"{source.name}: neither text nor a file of arrays (.npz, .npy) that is known here"
            )
        return kind_of_text(head, done)

    found: Kind = source.head(look)
    return found


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
        if any(mark in line.strip() for mark in DELIMITERS):
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
