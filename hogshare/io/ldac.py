"""LDA-C, the corpora of Blei's programs: a document a line, ``N term:count ...``.

N is how many pairs there are, and terms begin at 0. But for N, which is no label, it is LIBSVM text
and is parsed as such.
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
    """Documents as rows of counts; raises as `hogshare.io.libsvm.read`, of a wrong N besides."""
    with _in_words():
        return _unlabelled(libsvm.read(source, _counted(wanted)))


def iterate(source: Source, wanted: Wanted) -> Iterator[Rows]:
    """As `read`, part by part as soon as each is there, if it is said how many terms there are."""
    with _in_words():
        yield from map(_unlabelled, libsvm.iterate(source, _counted(wanted)))


def _counted(wanted: Wanted) -> Wanted:
    return replace(wanted, zero_based=True, counted=True)


def _unlabelled(rows: Rows) -> Rows:
    return replace(rows, y=None)


@contextmanager
def _in_words() -> Iterator[None]:
    """Have errors call the format by its name."""
    try:
        yield
    except libsvm.NotLibsvm as error:
        words = str(error).replace("LIBSVM text", "LDA-C", 1).replace("the label", "the count", 1)
        raise ValueError(words) from error
