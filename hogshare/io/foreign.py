"""Files that are no rows, by their first bytes: what they are, and what to do about it.

Models and data of other programs are among them, which would else be refused as strange text, or
read as rows that they are not.
"""

from __future__ import annotations

import codecs
import re

from hogshare.io.csv_records import OF_COLONS
from hogshare.io.sources import MAGIC as PACKED

CSV_FROM = "write CSV with the program that made it"
PICKLE = "a pickle, never loaded: use numpy.savez"
JOBLIB = f"as joblib writes {PICKLE}"
A_MODEL = "and no rows; name a file of data"
XGBOOST = f"a model of XGBoost {A_MODEL}"
LIGHTGBM = f"a model of LightGBM {A_MODEL}"
# what is no text
BINARY: dict[bytes, str] = {
    b"FEA1": "a Feather file of the first version: write it with a later one",
    b"\x89HDF": f"an HDF5 file: {CSV_FROM}, or read it in Python",
    b"\xd0\xcf\x11\xe0": f"a file of Excel or Office: {CSV_FROM}",
    b"%PDF": f"a PDF file: {CSV_FROM}",
    b"SQLite format 3": f"an SQLite data base: {CSV_FROM}",
    **dict.fromkeys((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"), PICKLE),
    **dict.fromkeys((b"x\x01", b"x^", b"x\x9c", b"x\xda"), f"compressed by zlib, {JOBLIB}"),
    b"]\0\0": f"compressed by LZMA without a name of its own, {JOBLIB}",
    b"\x04\x22\x4d\x18": "compressed by LZ4, which is not read here; unpack it",
    **dict.fromkeys(PACKED, "compressed twice; unpack it once"),
    b"7z\xbc\xaf": "a 7z archive; unpack it",
    b"\x01\xab\xff\xff": "a binary DMatrix of XGBoost: write the rows and labels that it was made "
    "of with numpy.savez(FILE, X=X, y=y)",
    b"______LightGBM_Binary_File_Token": "a binary data set of LightGBM, whose columns are bins: "
    "name the file that it was made of",
    b"{L\0\0\0\0\0\0\0": XGBOOST,
    # the version's length comes before it, of 9.9.0 and of 9.11.9
    **dict.fromkeys((b"\6\0\0\0009.", b"\7\0\0\0009."), f"a model of Vowpal Wabbit {A_MODEL}"),
    **dict.fromkeys(
        (b"\6\0\0\0\0\0\0\0009.", b"\7\0\0\0\0\0\0\0009."),
        "a cache of Vowpal Wabbit, which itself alone reads: write LIBSVM text or CSV of the rows",
    ),
    b"MATLAB 5.0 MAT-file": "a MAT-file of Matlab: scipy.io.loadmat reads it, and numpy.savez "
    "writes what is read here",
    **dict.fromkeys(
        (b"X\n\0\0", b"RDX2\n", b"RDX3\n"), "data of R: write CSV with write.csv, without row.names"
    ),
}
# what is text, in small letters
TEXTS: dict[bytes, str] = {
    **dict.fromkeys(
        (b"<!doctype html", b"<html"), "a web page and no data, as a download that failed leaves it"
    ),
    rb"<\?xml": f"XML: {CSV_FROM}",
    OF_COLONS.pattern: "ratings with two colons between cells, and no rows: "
    "hogshare.datasets.read_ratings reads them, and hogshare fit --estimator factorisation",
    rb"\(?[dl]p0\n|c[\w.]+\n\w+\np0\n": PICKLE,
    b"version https://git-lfs": "a pointer of Git LFS and not the data: git lfs pull fetches them",
    rb'\{\s*["}]|\[\s*[\[{]': "JSON, of which lines are read that have an object each: jq -c '.[]' "
    "FILE makes them of a list",
}
# models that are text; those that are JSON are an object in one line, as JSON lines have it
MODELS: dict[bytes, str] = {
    rb'\{"learner":\s*\{': XGBOOST,
    rb"booster\[\d+\]:": XGBOOST,
    rb"tree\r?\nversion=v\d": LIGHTGBM,
    rb'\{"name": "tree", "version": "v\d': LIGHTGBM,
}
VOWPAL = (
    "text of Vowpal Wabbit (label | feature:value ...): write LIBSVM text or CSV of the rows that "
    "it was made of; --format csv, if bars are between cells"
)

# of which nothing is tried twice, however many digits there are
_NUMBER = rb"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"
# a label, a weight and a base, a tag, which touches the first bar, and the first name
_VOWPAL = re.compile(rb"(?:%b(?:[ \t]+%b){0,2}[ \t]+)?(?:'[^\s|]*)?\|" % (_NUMBER, _NUMBER))
_FEATURE = re.compile(rb"[^\s|:]+:%b\Z" % _NUMBER)
_BETWEEN_CELLS = re.compile(rb"\S\||\|(?![^\s|\d.+-])")  # a bar behind a cell, or before no name


def named(head: bytes) -> str:
    """What a file is besides rows, by its first bytes; empty if that is not known."""
    start = _text(head)
    if start is None:
        return next((what for mark, what in BINARY.items() if head.startswith(mark)), "")
    return _first(TEXTS, start)


def model(head: bytes) -> str:
    """Which model it is whose file is text, by its first bytes; empty if it is none."""
    start = _text(head)
    return "" if start is None else _first(MODELS, start)


def is_vowpal(head: bytes) -> bool:
    """Whether the whole lines are text of Vowpal Wabbit, and none that has bars between cells.

    Behind bars there are words with blanks between them, of which one has a number at least; or
    every bar touches a name behind it, and nothing before it.
    """
    *lines, _ = head.split(b"\n") if b"\n" in head else (head, b"")
    lines = list(filter(bytes.strip, lines))
    valued, named = False, bool(lines)
    for line in lines:
        if not (start := _VOWPAL.match(line)):
            return False
        _, *spaces = line.split(b"|")
        valued = valued or any(_FEATURE.match(word) for space in spaces for word in space.split())
        # the first bar may touch a tag
        named = named and not _BETWEEN_CELLS.search(line.rstrip(), start.end() - 1)
    return valued or named


def _text(head: bytes) -> bytes | None:
    """The beginning of a text in small letters; None if it is none."""
    try:
        head[:512].decode()
        is_text = b"\0" not in head
    except UnicodeDecodeError as error:
        is_text = error.start > 500  # in the middle of a letter
    return head.removeprefix(codecs.BOM_UTF8).lstrip().lower() if is_text else None


def _first(known: dict[bytes, str], start: bytes) -> str:
    return next((what for mark, what in known.items() if re.match(mark, start)), "")
