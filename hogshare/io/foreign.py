"""Files that are not rows, recognized by their first bytes, with advice for the message.

They include other programs' models and data. Without these checks such files would be refused as
strange text, or misread as rows.
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
# binary files
BINARY: dict[bytes, str] = {
    b"FEA1": "a Feather file of the first version: write it with a later one",
    b"\x89HDF": f"an HDF5 file: {CSV_FROM}, or read it in Python",
    b"\xd0\xcf\x11\xe0": f"a file of Excel or Office: {CSV_FROM}",
    b"%PDF": f"a PDF file: {CSV_FROM}",
    b"SQLite format 3": f"an SQLite data base: {CSV_FROM}",
    **dict.fromkeys((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"), PICKLE),
    **dict.fromkeys((b"x\x01", b"x^", b"x\x9c", b"x\xda"), f"compressed by zlib, {JOBLIB}"),
    b"]\0\0": f"compressed by LZMA without a name of its own, {JOBLIB}",
    b"\x04\x22\x4d\x18": "compressed by LZ4, which hogshare does not read; unpack it",
    **dict.fromkeys(PACKED, "compressed twice; unpack it once"),
    b"7z\xbc\xaf": "a 7z archive; unpack it",
    b"\x01\xab\xff\xff": "a binary DMatrix of XGBoost: write the rows and labels that it was made "
    "of with numpy.savez(FILE, X=X, y=y)",
    b"______LightGBM_Binary_File_Token": "a binary data set of LightGBM, whose columns are bins: "
    "name the file that it was made of",
    b"{L\0\0\0\0\0\0\0": XGBOOST,
    # the length of the version precedes the version, here of 9.9.0 and of 9.11.9
    **dict.fromkeys((b"\6\0\0\0009.", b"\7\0\0\0009."), f"a model of Vowpal Wabbit {A_MODEL}"),
    **dict.fromkeys(
        (b"\6\0\0\0\0\0\0\0009.", b"\7\0\0\0\0\0\0\0009."),
        "a cache of Vowpal Wabbit, which itself alone reads: write LIBSVM text or CSV of the rows",
    ),
    b"MATLAB 5.0 MAT-file": "a MAT-file of Matlab: read it with scipy.io.loadmat, and write the "
    "rows with numpy.savez",
    **dict.fromkeys(
        (b"X\n\0\0", b"RDX2\n", b"RDX3\n"), "data of R: write CSV with write.csv, without row.names"
    ),
}
# text, in lower case
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
# models that are text; models in JSON are one object in one line, as in JSON lines
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

# possessive quantifiers: no backtracking, however many digits there are
_NUMBER = rb"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"
# label, weight and base; a tag, directly before the first bar; the bar
_VOWPAL = re.compile(rb"(?:%b(?:[ \t]+%b){0,2}[ \t]+)?(?:'[^\s|]*)?\|" % (_NUMBER, _NUMBER))
_FEATURE = re.compile(rb"[^\s|:]+:%b\Z" % _NUMBER)
_BETWEEN_CELLS = re.compile(rb"\S\||\|(?![^\s|\d.+-])")  # a bar after a cell, or not before a name


def named(head: bytes) -> str:
    """Return a description of a file that is not rows, from its first bytes; "" if unknown."""
    start = _text(head)
    if start is None:
        return next((what for mark, what in BINARY.items() if head.startswith(mark)), "")
    return _first(TEXTS, start)


def model(head: bytes) -> str:
    """Return a description of another program's model in text, from its first bytes; else ""."""
    start = _text(head)
    return "" if start is None else _first(MODELS, start)


def is_vowpal(head: bytes) -> bool:
    """Whether all complete lines are Vowpal Wabbit's text, and not cells separated by bars.

    Every line must have the form of Vowpal Wabbit up to its first bar. In addition, the lines
    together must meet one of two conditions: (1) at least one word after a bar is a feature with a
    number (``name:value``); (2) every bar is directly before a name, and only a line's first bar
    directly follows text.
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
    """Return the beginning of a text in lower case; None if the bytes are not text."""
    try:
        head[:512].decode()
        is_text = b"\0" not in head
    except UnicodeDecodeError as error:
        is_text = error.start > 500  # the beginning ends within a character
    return head.removeprefix(codecs.BOM_UTF8).lstrip().lower() if is_text else None


def _first(known: dict[bytes, str], start: bytes) -> str:
    return next((what for mark, what in known.items() if re.match(mark, start)), "")
