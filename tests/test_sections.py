"""Sections of a text: together they have its lines, each once, whoever reads them."""

import contextlib

import numpy as np
import pytest

from hogshare.io import libsvm
from hogshare.io.rows import Wanted
from hogshare.io.sources import Source

TEXT = b"".join(
    b"%d %s\n" % (k % 2, b" ".join(b"%d:%d.5" % (j, k) for j in range(1, k % 7)))
    for k in range(200)
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_bytes(TEXT)
    return path


@contextlib.contextmanager
def section(file, place, of):
    with Source(file) as source:
        source.narrow(place, of)
        yield source


def text_of(file, place, of):
    with section(file, place, of) as source:
        return [(lines.number, lines.text) for lines in source.lines()]


@pytest.mark.parametrize("of", [1, 2, 3, 7, 199, 200, 1000])
def test_sections_are_the_whole(file, of):
    parts = [part for k in range(of) for part in text_of(file, k, of)]
    assert b"".join(text for _, text in parts) == TEXT
    for number, text in parts:
        assert TEXT.splitlines(keepends=True)[number - 1] == text.splitlines(keepends=True)[0]


def test_a_line_longer_than_a_section_is_whole(tmp_path):
    path = tmp_path / "long.svm"
    path.write_bytes(b"1 " + b"1:1 " * 1000 + b"\n0 2:1\n")
    parts = [text for k in range(5) for _, text in text_of(path, k, 5)]
    assert b"".join(parts) == path.read_bytes()
    assert all(part.endswith(b"\n") for part in parts)


@pytest.mark.parametrize("of", [1, 2, 5])
@pytest.mark.parametrize("base", ["auto", False])
def test_rows_of_sections_are_those_of_the_file(file, of, base):
    found, wanted = [], Wanted(zero_based=base)
    for k in range(of):
        with section(file, k, of) as source:
            found.append(libsvm.gather(source, wanted))
    arrays = (np.concatenate([one[part] for one in found]) for part in range(4))
    rows = libsvm.whole("rows", libsvm.Gathered(*arrays, True, None), wanted)
    with Source(file) as source:
        want = libsvm.read(source, wanted)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(rows.X, name), getattr(want.X, name))
    np.testing.assert_array_equal(rows.y, want.y)
    assert (rows.X.shape, rows.zero_based, rows.guess, rows.first) == (
        *(want.X.shape, want.zero_based, want.guess, want.first),
    )


def test_errors_name_the_line_of_the_whole_file(file):
    lines = TEXT.splitlines(keepends=True)
    lines[150] = b"1 x:2\n"
    file.write_bytes(b"".join(lines))
    with (
        section(file, 1, 2) as source,
        pytest.raises(ValueError, match=r"rows\.svm, line 151"),
    ):
        libsvm.gather(source, Wanted())


def test_what_is_compressed_has_no_sections(tmp_path):
    import gzip

    path = tmp_path / "rows.svm.gz"
    path.write_bytes(gzip.compress(TEXT))
    with Source(path) as source, pytest.raises(ValueError, match="only a plain file"):
        source.narrow(0, 2)


def test_a_name_with_a_line_break_is_no_other_file(tmp_path):
    path = tmp_path / "two\nlines.svm"
    path.write_bytes(TEXT)
    assert b"".join(text for k in range(2) for _, text in text_of(path, k, 2)) == TEXT
