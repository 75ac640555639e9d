"""LIBSVM text (``label index:value ...``): rows, labels, and where its indices begin.

scikit-learn parses it, a few megabytes at a time. Here is what that leaves open: indices in any
order, a file that is cut off, which line is wrong, and whether indices begin at 0 or at 1, which
the text does not say.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from hogshare.io import sources
from hogshare.io.growing import Growing
from hogshare.system import memory
from hogshare.system.callers import users_line

ZeroBased = bool | Literal["auto"]

# how sure it is where the indices begin
CERTAIN = "certain"  # it was said, or the indices leave no choice
LIKELY = "likely"  # the smallest index is 1
UNSURE = "unsure"  # it is larger

COLUMN_BYTES = 40  # of memory that a fit takes for each column, about
SPARSE = 100  # columns for each value from which they are looked at

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


class NotLibsvm(ValueError):
    """A line is no LIBSVM text; `is_other`: nor is any word of it as in such text."""

    is_other = False


class IndexZero(ValueError):
    """There is an index 0 where indices were said to begin at 1; `place` names file and line."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place}: index 0, and zero_based=False says that indices begin at 1")
        self.place = place


class IndexBeyond(ValueError):
    """There is an index for which there is no column; `place` names file and line."""

    def __init__(self, place: str, index: int, n_features: int, said: str = "n_features") -> None:
        super().__init__(f"{place}: index {index} is beyond the {n_features:,} columns of {said}")
        self.told = place, index, n_features
        self.place, self.index, self.n_features = self.told


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


@dataclass(frozen=True)
class Part:
    """Rows of some lines of text, with columns by what was said of the indices.

    Attributes
    ----------
    data, indices, indptr : ndarray
        Of a CSR matrix.
    y : ndarray of float64
    lines : Lines
        Where they stand.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    y: np.ndarray
    lines: sources.Lines


class Parts:
    """The rows of a text, part by part.

    Parameters
    ----------
    source : Source
    n_features : int or None
        Number of columns; None if nobody has said it.
    dtype : dtype
        Of the values.
    zero_based : bool or "auto"
        Whether indices begin at 0. With "auto", columns of the parts are the indices of the text.
    leave_out : bool, default=False
        Let indices be beyond `n_features`.
    finite : bool, default=False
        Refuse values that are NaN or infinite.
    now : bool, default=False
        Hand out rows as soon as they are there.
    """

    def __init__(
        self,
        source: sources.Source,
        n_features: int | None,
        dtype: Any,
        zero_based: ZeroBased,
        leave_out: bool = False,
        finite: bool = False,
        now: bool = False,
    ) -> None:
        check_zero_based(zero_based)
        self.source = source
        self.dtype = dtype
        self.zero_based = zero_based
        self.one_based = zero_based != "auto" and not zero_based
        self.limit = None if leave_out else n_features
        self.finite = finite
        self.now = now
        self.beyond: IndexBeyond | None = None  # an index that is too large if any is 0

    def __iter__(self) -> Iterator[Part]:
        for lines in self.source.lines(self.now):
            if b"_" in lines.text:
                _refuse_underscores(lines)
            X, y = _parse(lines, self.dtype, self.one_based, is_in_order=False)
            part = Part(X.data, X.indices, X.indptr, y, lines)
            if self.limit is not None:
                self._check_indices(part)
            if self.finite:
                _check_finite(part)
            if lines.is_cut:
                # a decompressor knows the end of its file
                warnings.warn(
                    f"{lines.name}: the last line has no end; if the file was cut off, its last "
                    "number may have been, too",
                    stacklevel=users_line(),
                )
            yield part

    def _check_indices(self, part: Part) -> None:
        """Refuse an index for which there is no column."""
        limit = cast(int, self.limit)
        most = int(part.indices.max()) if len(part.indices) else -1
        if most < limit:
            return
        doubtful = self.zero_based == "auto" and most == limit
        if doubtful and self.beyond:
            return
        place = part.lines.place_of_row(_row_of(part, int(part.indices.argmax())), _words)
        self.beyond = IndexBeyond(place, most + self.one_based, limit)
        if not doubtful:
            raise self.beyond


def read(
    source: sources.Source,
    n_features: int | None,
    dtype: Any,
    zero_based: ZeroBased,
    leave_out: bool = False,
    finite: bool = False,
) -> Text:
    """Read LIBSVM text as a whole.

    Parameters
    ----------
    source : Source
    n_features : int or None
        Number of columns; None takes the largest index that occurs.
    dtype : dtype
        Of the values.
    zero_based : bool or "auto"
        Whether indices begin at 0; "auto" guesses as `guess_base` does.
    leave_out : bool, default=False
        Leave out what is in columns beyond `n_features`, instead of refusing the file.
    finite : bool, default=False
        Refuse values that are NaN or infinite.

    Raises
    ------
    IndexZero
        If there is an index 0 where `zero_based` is False.
    IndexBeyond
        If there is an index beyond `n_features`.
    ValueError
        If the text is truncated or malformed. The message names it, and the line if it is one's.

    Warns
    -----
    UserWarning
        If the last line of plain text has no end.
    """
    parts = Parts(source, n_features, dtype, zero_based, leave_out, finite)
    return whole(source.name, gather(parts), n_features, zero_based)


class Gathered(NamedTuple):
    """Rows of a text whose columns are not settled: of a text with parts, those of one.

    data, columns : of all rows, one after the other; columns are the text's indices, less 1 where
        it was said that they begin at 1
    lengths : of the rows
    y : float64
    some : whether there was any text
    beyond : what is wrong with an index, if any index is 0
    """

    data: np.ndarray
    columns: np.ndarray
    lengths: np.ndarray
    y: np.ndarray
    some: bool
    beyond: IndexBeyond | None


def gather(parts: Parts) -> Gathered:
    """All rows of a text, or of a section of one.

    Raises
    ------
    IndexZero, IndexBeyond, ValueError
        As `read`.
    """
    data, y, lengths = Growing(parts.dtype), Growing(np.float64), Growing(np.int64)
    indices = Growing(np.int32)
    part = None
    for part in parts:
        if part.indices.dtype != indices.dtype:
            indices = _of_dtype(indices, part.indices.dtype)
        lengths.add(np.diff(part.indptr).astype(np.int64))
        for grown, more in ((data, part.data), (indices, part.indices), (y, part.y)):
            grown.add(more)
    taken = data.taken(), indices.taken(), lengths.taken(), y.taken()
    return Gathered(*taken, part is not None, parts.beyond)


def whole(name: str, rows: Gathered, n_features: int | None, zero_based: ZeroBased) -> Text:
    """A text, of all its rows: where indices begin, and how many columns there are.

    Raises
    ------
    IndexBeyond, ValueError
        As `read`.
    """
    if not rows.some:
        raise ValueError(f"{name}: the file is empty")
    if not len(rows.lengths):
        raise ValueError(f"{name}: the file has no rows")
    columns = rows.columns
    one_based = zero_based != "auto" and not zero_based
    first, known, guess = None, None, CERTAIN
    if len(columns):
        first, known = int(columns.min()) + one_based, not one_based
        if zero_based == "auto":
            known, guess = guess_base(first, int(columns.max()), n_features)
            if known and rows.beyond:
                raise rows.beyond
            if not known:
                columns = columns - 1
    if n_features is None:
        n_features = int(columns.max()) + 1 if len(columns) else 1
        _check_columns(name, n_features, len(columns))
    indptr = np.concatenate([[0], np.cumsum(rows.lengths)])
    return _text((rows.data, columns, indptr), n_features, rows.y, known, guess, first)


def of_part(part: Part, n_features: int, zero_based: bool) -> Text:
    """What some lines hold, of which it is said where indices begin; the rest is left out."""
    first = int(part.indices.min()) + (not zero_based) if len(part.indices) else None
    rows = (part.data, part.indices, part.indptr)
    return _text(rows, n_features, part.y, zero_based, CERTAIN, first)


def _text(
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    n_features: int,
    y: np.ndarray,
    zero_based: bool | None,
    guess: str,
    first: int | None,
) -> Text:
    """Put together a text, without what is in columns beyond."""
    data, indices, indptr = parts
    left_out = 0
    if len(indices) and indices.max() >= n_features:
        kept = indices < n_features
        left_out = len(kept) - int(np.count_nonzero(kept))
        ends = np.concatenate([[0], np.cumsum(kept)])[indptr]
        data, indices, indptr = data[kept], indices[kept], ends
    return Text(
        parts=(data, indices, indptr),
        shape=(len(indptr) - 1, n_features),
        y=y,
        zero_based=zero_based,
        guess=guess,
        first=first,
        left_out=left_out,
    )


def _of_dtype(grown: Growing, dtype: Any) -> Growing:
    """The same numbers as a wider type."""
    wider = Growing(dtype)
    wider.add(grown.taken())
    return wider


def _check_columns(name: str, n_features: int, n_values: int) -> None:
    """Warn of, or refuse, columns that are many for the values: an index may be a slip."""
    nbytes = COLUMN_BYTES * n_features
    if nbytes < memory.PLENTY or n_features < SPARSE * n_values:
        return
    what = (
        f"{name}: {n_values:,} values in {n_features:,} columns, by the largest index. n_features "
        "says how many columns there are. A model of so many"
    )
    memory.require(nbytes, what)
    warnings.warn(f"{what} takes some {memory.amount(nbytes)} of memory", stacklevel=users_line())


def _parse(
    lines: sources.Lines, dtype: Any, one_based: bool, is_in_order: bool
) -> tuple[Any, np.ndarray]:
    """Rows with the indices of the text, less one where it is `one_based`, and labels.

    The parser wants indices that rise in each line. Lines in which they do not are rare, and
    parsed once more when they have been put in order, so that all others cost nothing.
    """
    from sklearn.datasets import load_svmlight_file

    text = _in_order(lines.text) if is_in_order else lines.text
    stream = io.BytesIO(text)
    try:
        X, y = load_svmlight_file(stream, dtype=dtype, zero_based=not one_based)
        return X, y
    except MemoryError as error:
        raise MemoryError(f"{lines.name}: takes more memory than there is") from error
    except (ValueError, OverflowError) as error:
        parsed = sources.Lines(text, lines.number, lines.name, lines.packed)
        begin, line = parsed.before(stream.tell())
        place, why = parsed.place(begin), fault(line)
        if why is None and one_based and 0 in _indices(line):
            raise IndexZero(place) from error
        if why is not None or is_in_order:
            cut = "" if line.endswith(b"\n") else "; the line has no end: the file may be cut off"
            refused = NotLibsvm(f"{place}: not LIBSVM text: {why or error}{cut}")
            refused.is_other = b":" not in line
            raise refused from error
    return _parse(lines, dtype, one_based, is_in_order=True)


def _in_order(text: bytes) -> bytes:
    """The same lines with indices that rise."""
    ordered = []
    for line in io.BytesIO(text):
        words = _words(line)
        features = 2 if _has_qid(words) else 1
        try:
            rising = sorted(words[features:], key=_index)
        except ValueError:
            ordered.append(line)  # the parser will refuse it
            continue
        end = b"\n" if line.endswith(b"\n") else b""
        ordered.append(b" ".join([*words[:features], *rising]) + end)
    return b"".join(ordered)


def _refuse_underscores(lines: sources.Lines) -> None:
    """Refuse numbers that Python reads and nobody else: an underscore that is in no comment."""
    text, place = lines.text, lines.text.find(b"_")
    while place >= 0:
        begin = text.rfind(b"\n", 0, place) + 1
        end = text.find(b"\n", place)
        line = text[begin : end if end >= 0 else len(text)]
        word = next((word for word in _words(line) if b"_" in word), None)
        if word is not None:
            raise ValueError(
                f"{lines.place(begin)}: not LIBSVM text: {_shown(word)} has an underscore"
            )
        place = text.find(b"_", end) if end >= 0 else -1


def _check_finite(part: Part) -> None:
    if np.isfinite(part.data).all():
        return
    k = int(np.flatnonzero(~np.isfinite(part.data))[0])
    place = part.lines.place_of_row(_row_of(part, k), _words)
    raise ValueError(f"{place}: a value is {part.data[k]}, and a model needs finite ones")


def _row_of(part: Part, k: int) -> int:
    """The row of a value."""
    return int(np.searchsorted(part.indptr, k, side="right")) - 1


def fault(line: bytes) -> str | None:
    """What is wrong with a line of LIBSVM text; None if nothing is.

    An index 0 and indices that do not rise are legal.
    """
    words = _words(line)
    if not words:
        return None
    if (
        len(words) > 1
        and b"," in words[0]
        and all(_is(float, part) for part in words[0].split(b","))
    ):
        return f"{_shown(words[0])} are several labels, and one is fitted"
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
