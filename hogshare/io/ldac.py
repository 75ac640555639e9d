"""LDA-C, the corpora of Blei's programs: one document per line, ``N term:count ...``.

N is the number of pairs, and terms are counted from 0. The text is parsed as LIBSVM text. It
differs from LIBSVM text only in that N is not a label.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from hogshare.io import libsvm
from hogshare.io.rows import Rows, Wanted
from hogshare.io.sources import Source

TAKEN = "its lines begin with the number of their pairs, so it was taken for LDA-C without labels"


def read(source: Source, wanted: Wanted) -> Rows:
    """Read documents as rows of counts; raise as `hogshare.io.libsvm.read`, and for a wrong N."""
    with _in_words():
        return _unlabelled(libsvm.read(source, _counted(wanted)))


def iterate(source: Source, wanted: Wanted) -> Iterator[Rows]:
    """Yield the rows of `read`: in parts, as they arrive, if `wanted.n_features` is set."""
    with _in_words():
        yield from map(_unlabelled, libsvm.iterate(source, _counted(wanted)))


def _counted(wanted: Wanted) -> Wanted:
    return replace(wanted, zero_based=True, counted=True)


def _unlabelled(rows: Rows) -> Rows:
    return replace(rows, y=None)


@contextmanager
def _in_words() -> Iterator[None]:
    """In a with block, replace LIBSVM text by LDA-C in error messages."""
    try:
        yield
    except libsvm.NotLibsvm as error:
        words = str(error).replace("LIBSVM text", "LDA-C", 1).replace("the label", "the count", 1)
        raise ValueError(words) from error
