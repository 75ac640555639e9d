"""LIBSVM text (``label index:value ...``): rows, labels, and where its indices begin.

scikit-learn parses it. Here is what that leaves open: compression, a file that is cut off, which
line is wrong, and whether indices begin at 0 or at 1, which the text does not say.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np

from hogshare import memory

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

# what decompressors raise for a file that is cut off or is not theirs
DAMAGE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)

ZeroBased = bool | Literal["auto"]

# how sure it is where the indices begin
CERTAIN = "certain"  # it was said, or the indices leave no choice
LIKELY = "likely"  # the smallest index is 1
UNSURE = "unsure"  # it is larger

COLUMN_BYTES = 40  # of memory that a fit takes for each column, about
SPARSE = 100  # columns for each value from which they are looked at
LOOK_BYTES = 1 << 25  # of text between two looks at the memory that is left

LARGEST_INDEX = 2**31 - 1  # that scikit-learn's parser takes


@dataclass(frozen=True, kw_only=True)
class Text:
    """What a file of LIBSVM text holds.

    Attributes
    ----------
    parts : tuple of ndarray
        Values, columns and row ends of the rows as a CSR matrix. Column 0 is the first, whatever
        its index in the text.
    shape : tuple of int
    y : ndarray of float64 of shape (n_rows,)
    zero_based : bool or None
        Whether indices begin at 0; None if the text has none.
    guess : {"certain", "likely", "unsure"}
        How sure that is.
    first : int or None
        The smallest index of the text.
    left_out : int
        How many values were in columns beyond `n_features`, and were left out.
    """

    parts: tuple[np.ndarray, np.ndarray, np.ndarray]
    shape: tuple[int, int]
    y: np.ndarray
    zero_based: bool | None
    guess: str
    first: int | None
    left_out: int


class IndexZero(ValueError):
    """There is an index 0 where indices were said to begin at 1; `place` names file and line."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place}: index 0, and zero_based=False says that indices begin at 1")
        self.place = place


def guess_base(first: int, last: int, n_features: int | None) -> tuple[bool, str]:
    """Guess from the smallest and the largest index whether indices begin at 0, and how surely.

    An index 0 is there in files that begin at 0 only, and an index as large as the number of
    columns in files that begin at 1 only. All else might be either: no index 0 may mean that
    column 0 is empty. scikit-learn's "auto" then takes 1, and so it is here. The guess is *likely*
    where the smallest index is 1, as in all but the rarest files of that kind: a file that begins
    at 0 looks like that only if its column 0 is empty and column 1 is not. Where neither index
    occurs, nothing in the file speaks for 1, and the guess is *unsure*.
    """
    if first == 0:
        return True, CERTAIN
    if last == n_features:
        return False, CERTAIN
    return False, LIKELY if first == 1 else UNSURE


def check_zero_based(zero_based: Any) -> None:
    """Refuse what is none of True, False and "auto".

    Raises
    ------
    ValueError
    """
    if not (isinstance(zero_based, bool | np.bool_) or zero_based == "auto"):
        raise ValueError(f"zero_based must be True, False or 'auto'; got {zero_based!r}.")


def read(
    path: Path,
    n_features: int | None,
    dtype: Any,
    zero_based: ZeroBased,
    leave_out: bool = False,
) -> Text:
    """Read LIBSVM text, plain or compressed by its suffix.

    Parameters
    ----------
    path : Path
    n_features : int or None
        Number of columns; None takes the largest index that occurs.
    dtype : dtype
        Of the values.
    zero_based : bool or "auto"
        Whether indices begin at 0; "auto" guesses as `guess_base` does.
    leave_out : bool, default=False
        Leave out what is in columns beyond `n_features`, instead of refusing the file.

    Raises
    ------
    IndexZero
        If there is an index 0 where `zero_based` is False.
    ValueError
        If the file is truncated or malformed. The message names it, and the line if it is one's.

    Warns
    -----
    UserWarning
        If the last line of plain text has no end.
    """
    check_zero_based(zero_based)
    said = n_features is not None
    one_based = zero_based != "auto" and not zero_based
    X, y = _parse(path, dtype, one_based)
    rows, columns = X.shape
    if not rows:
        raise ValueError(f"{path}: the file has no rows")
    data, indices, indptr = X.data, X.indices, X.indptr
    first, known, guess, left_out = None, None, CERTAIN, 0
    if len(indices):
        first, known = int(indices.min()) + one_based, not one_based
        if zero_based == "auto":
            known, guess = guess_base(first, columns - 1, n_features)
            if not known:
                indices, columns = indices - 1, columns - 1
    if n_features is None:
        n_features = columns
    elif columns > n_features and not leave_out:
        raise ValueError(f"{path}: has {columns} columns where {n_features} were expected")
    elif columns > n_features:
        kept = indices < n_features
        left_out = len(kept) - int(np.count_nonzero(kept))
        ends = np.concatenate([[0], np.cumsum(kept)])[indptr]
        data, indices, indptr = data[kept], indices[kept], ends
    if not said:
        _check_columns(path, n_features, len(data))
    return Text(
        parts=(data, indices, indptr),
        shape=(rows, n_features),
        y=y,
        zero_based=known,
        guess=guess,
        first=first,
        left_out=left_out,
    )


def _check_columns(path: Path, n_features: int, n_values: int) -> None:
    """Warn of, or refuse, columns that are many for the values: an index may be a slip."""
    nbytes = COLUMN_BYTES * n_features
    if nbytes < memory.PLENTY or n_features < SPARSE * n_values:
        return
    what = (
        f"{path}: {n_values:,} values in {n_features:,} columns, by the largest index. n_features "
        "says how many columns there are. A model of so many"
    )
    memory.require(nbytes, what)
    warnings.warn(f"{what} takes some {memory.amount(nbytes)} of memory", stacklevel=4)


def _parse(path: Path, dtype: Any, one_based: bool) -> tuple[Any, np.ndarray]:
    """Rows with the indices of the text, less one where it is `one_based`, and labels.

    The parser wants indices that rise in each line. Files in which they do not are rare, and read
    once more with their lines put in order, so that all others cost nothing.
    """
    try:
        return _parse_lines(path, dtype, one_based, io.BufferedReader)
    except _NotInOrder:
        if not path.is_file():
            raise ValueError(
                f"{path}: indices do not rise in each line; store it, for a pipe is read once only"
            ) from None
        return _parse_lines(path, dtype, one_based, _InOrder)


def _parse_lines(
    path: Path, dtype: Any, one_based: bool, kind: type[io.BufferedReader]
) -> tuple[Any, np.ndarray]:
    from sklearn.datasets import load_svmlight_file

    with open(path, "rb") as raw:
        opener = OPENERS.get(path.suffix)
        size = os.fstat(raw.fileno()).st_size if path.is_file() else None
        text = _Text(cast(BinaryIO, opener(raw)) if opener else raw, str(path), size)
        lines = kind(text, 1 << 20)
        try:
            X, y = load_svmlight_file(lines, dtype=dtype, zero_based=not one_based)
        except _Refused as refused:
            raise ValueError(str(refused)) from None
        except MemoryError as error:
            if str(error).startswith(str(path)):
                raise
            raise MemoryError(f"{path}: takes more memory than there is") from error
        except DAMAGE as error:
            raise ValueError(
                f"{path}: truncated or damaged {path.suffix} file ({error})"
            ) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise ValueError(f"{path}: not a {path.suffix} file ({error})") from error
        except (ValueError, OverflowError) as error:
            number, line = text.line_before(lines.tell())
            place, why = f"{path}, line {number}", fault(line)
            if why is None and one_based and 0 in _indices(line):
                raise IndexZero(place) from error
            if why is None and kind is not _InOrder:
                raise _NotInOrder from error
            cut = "" if line.endswith(b"\n") else "; the line has no end: the file may be cut off"
            raise ValueError(f"{place}: not LIBSVM text: {why or error}{cut}") from error
    if not text.last:
        raise ValueError(f"{path}: the file is empty")
    if text.last != b"\n" and not opener:
        # a decompressor knows the end of its file
        warnings.warn(
            f"{path}: the last line has no end; if the file was cut off, its last number may have "
            "been, too",
            stacklevel=2,
        )
    return X, y


class _NotInOrder(Exception):
    """A line has nothing wrong but the order of its indices."""


class _Refused(Exception):
    """What the parser would take, and should not; the sentence names file and line."""


class _InOrder(io.BufferedReader):
    """Lines whose indices rise."""

    def __next__(self) -> bytes:
        line = super().__next__()
        words = _words(line)
        features = 2 if _has_qid(words) else 1
        try:
            ordered = sorted(words[features:], key=_index)
        except ValueError:
            return line  # the parser will refuse it
        return b" ".join([*words[:features], *ordered]) + b"\n"


class _Text(io.RawIOBase):
    """A stream of text that can say which line was read last, at no cost while it is read.

    It counts the newlines of a chunk when it is asked for the next one. It ends what would take
    more memory than there is, and numbers that Python reads and nobody else: ``1_000``.

    Parameters
    ----------
    stream : binary stream
    name : str, default=""
        What errors call it.
    size : int or None, default=None
        Bytes of the file, before they are decompressed; None if that is not known.
    """

    def __init__(self, stream: BinaryIO, name: str = "", size: int | None = None) -> None:
        self.stream = stream
        self.name = name
        self.size = size
        self.at_first = memory.free()
        self.next_look = LOOK_BYTES
        self.chunk = b""
        self.offset = 0  # bytes before the chunk
        self.newlines = 0  # before the chunk
        self.open_line: list[bytes] = []  # what the line in which the chunk begins has before it
        self.last = b""  # byte

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        """Bytes that were read; by it the buffer around this stream knows where it is."""
        return self.offset + len(self.chunk)

    def readinto(self, buffer: Any) -> int:
        self._put_behind()
        if self.offset >= self.next_look:
            self._look_at_memory()
        self.chunk = self.stream.read(len(buffer))
        if b"_" in self.chunk:
            self._refuse_underscores()
        buffer[: len(self.chunk)] = self.chunk
        self.last = self.chunk[-1:] or self.last
        return len(self.chunk)

    def _look_at_memory(self) -> None:
        """End what would not fit when it is done, or is more than a file of its size can mean."""
        self.next_look = self.offset + LOOK_BYTES
        if self.size is not None and self.offset > max(memory.PLENTY, memory.FOLD * self.size):
            raise _Refused(
                f"{self.name}: {memory.amount(self.size)} that are more than "
                f"{memory.amount(self.offset)} of text: made to fill the memory"
            )
        left = memory.free()
        if left is None or self.at_first is None:
            return
        # in the end there are half as many bytes again, where columns are copied
        if left < (self.at_first - left) // 2:
            raise MemoryError(
                f"{self.name}: the rows do not fit into memory, of which "
                f"{memory.amount(self.at_first)} was free"
            )

    def _refuse_underscores(self) -> None:
        """Refuse an underscore that is in no comment."""
        chunk, place = self.chunk, self.chunk.find(b"_")
        while place >= 0:
            begin = chunk.rfind(b"\n", 0, place) + 1
            before = chunk[begin:place]
            if not begin:
                before = b"".join([*self.open_line, before])
            if b"#" not in before:
                number = self.newlines + chunk.count(b"\n", 0, place) + 1
                word = (before.split(b" ")[-1] + chunk[place : place + 40]).split()[0]
                raise _Refused(
                    f"{self.name}, line {number}: not LIBSVM text: {_shown(word)} has an underscore"
                )
            end = chunk.find(b"\n", place)
            place = chunk.find(b"_", end) if end >= 0 else -1

    def _put_behind(self) -> None:
        begin = self.chunk.rfind(b"\n") + 1
        self.open_line = [*([] if begin else self.open_line), self.chunk[begin:]]
        self.offset += len(self.chunk)
        self.newlines += self.chunk.count(b"\n")

    def line_before(self, position: int) -> tuple[int, bytes]:
        """The number of the line that ends at a position in the latest chunk, and the line."""
        read = self.chunk[: position - self.offset]
        before = read.removesuffix(b"\n")
        begin = before.rfind(b"\n") + 1
        line = read[begin:] if begin else b"".join([*self.open_line, read])
        return self.newlines + before.count(b"\n") + 1, line


def fault(line: bytes) -> str | None:
    """What is wrong with a line of LIBSVM text; None if nothing is.

    An index 0 and indices that do not rise are legal.
    """
    words = _words(line)
    if not words:
        return None
    if not _is(float, words[0]):
        return f"the label {_shown(words[0])} is no number"
    if _has_qid(words) and b":" not in words.pop(1):
        return "qid has no number"
    seen = set()
    for feature in words[1:]:
        index, colon, value = feature.partition(b":")
        if not colon:
            return f"{_shown(feature)} is not index:value"
        if not _is(int, index):
            return f"the index of {_shown(feature)} is no whole number"
        if not 0 <= int(index) <= LARGEST_INDEX:
            return f"the index of {_shown(feature)} is not between 0 and {LARGEST_INDEX}"
        if int(index) in seen:
            return f"index {int(index)} occurs twice"
        if not _is(float, value):
            return f"the value of {_shown(feature)} is no number"
        seen.add(int(index))
    return None


def _words(line: bytes) -> list[bytes]:
    return line.partition(b"#")[0].split()


def _has_qid(words: list[bytes]) -> bool:
    return len(words) > 1 and words[1].startswith(b"qid")


def _indices(line: bytes) -> list[int]:
    """Indices of a line without a fault."""
    words = _words(line)
    return [_index(word) for word in words[2 if _has_qid(words) else 1 :]]


def _index(feature: bytes) -> int:
    return int(feature.partition(b":")[0])


def _is(kind: Callable[[bytes], Any], word: bytes) -> bool:
    try:
        kind(word)
    except ValueError:
        return False
    return True


def _shown(word: bytes) -> str:
    return repr(word if len(word) <= 40 else word[:40] + b"...")[1:]
