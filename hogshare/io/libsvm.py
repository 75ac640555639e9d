"""LIBSVM text (``label index:value ...``): rows, labels, and the base of its indices.

scikit-learn parses the text, a few megabytes at a time. This module adds (1) support for indices in
any order, (2) a check for files that are cut off, (3) the number of a malformed line, and (4) a
decision whether indices begin at 0 or at 1, which the text itself does not say.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from hogshare.io import matrices
from hogshare.io.growing_arrays import Growing
from hogshare.io.rows import CERTAIN, LIKELY, UNSURE, Rows, Wanted
from hogshare.io.sources import Lines, Source
from hogshare.system import memory
from hogshare.system.callers import users_line
from hogshare.system.messages import counted

COLUMN_BYTES = 40  # approximate memory of a fit for each column
SPARSE = 100  # number of columns per value from which the memory of the columns is checked

LARGEST_INDEX = 2**31 - 1  # of scikit-learn's parser


class NotLibsvm(ValueError):
    """A line is not LIBSVM text; `is_other` is True if the line has no colon."""

    is_other = False


class IndexZero(ValueError):
    """There is an index 0 although zero_based is False; `place` names file and line."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place}: index 0, and zero_based=False says that indices begin at 1")
        self.place = place


class IndexBeyond(ValueError):
    """An index is beyond the columns; `parts` are the arguments that construct the error again."""

    def __init__(self, place: str, index: int, n_features: int) -> None:
        super().__init__(
            f"{place}: index {index} is beyond the {n_features:,} columns of n_features"
        )
        self.parts = place, index, n_features


def guess_base(first: int, last: int, n_features: int | None) -> tuple[bool, str]:
    """Guess from the smallest and the largest index whether indices begin at 0, and how surely.

    An index 0 occurs only if indices begin at 0. An index equal to the number of columns occurs
    only if indices begin at 1. If neither index occurs, both bases are possible, since column 0 may
    be empty; the function chooses 1, like scikit-learn's "auto". The choice is *likely* if the
    smallest index is 1, as in nearly all files whose indices begin at 1. (If indices begin at 0,
    the smallest index is 1 only if column 0 is empty and column 1 is not.) If neither 0 nor 1
    occurs, nothing in the file supports 1, and the choice is *unsure*.
    """
    if first == 0:
        return True, CERTAIN
    if last == n_features:
        return False, CERTAIN
    return False, LIKELY if first == 1 else UNSURE


def read(source: Source, wanted: Wanted) -> Rows:
    """Read LIBSVM text as a whole.

    Raises
    ------
    IndexZero
        If there is an index 0 and `wanted.zero_based` is False.
    IndexBeyond
        If there is an index beyond `wanted.n_features`.
    ValueError
        If the text is truncated or malformed. The message names the text and, if possible, the
        line.

    Warns
    -----
    UserWarning
        If the last line of plain text has no end.
    """
    return whole(source.name, gather(source, wanted), wanted)


def iterate(source: Source, wanted: Wanted) -> Iterator[Rows]:
    """Yield the rows of `read`.

    If `zero_based` and `n_features` are set, rows are yielded in parts, as soon as they arrive;
    otherwise all rows are one part.
    """
    n_features = wanted.n_features
    if wanted.zero_based == "auto" or n_features is None:
        yield read(source, wanted)
        return
    for part in _parts(source, wanted, now=True):
        X = part.X
        if X.shape[0]:  # a part may be comments and blank lines alone
            first = int(X.indices.min()) + wanted.is_one_based if len(X.indices) else None
            columns = X.data, X.indices, X.indptr
            base = bool(wanted.zero_based), CERTAIN, first
            yield _rows(source.name, columns, n_features, part.y, base)


class Gathered(NamedTuple):
    """Rows of a text, or of one of its sections, before the base of the indices is decided.

    data : values of all rows, concatenated
    columns : columns of these values, which are the text's indices, less 1 if `zero_based` is False
    lengths : number of values of each row
    y : labels, float64
    some : whether there was any text
    beyond : the error for an index equal to `n_features`, which is too large if an index 0 occurs;
        None if there is no such index
    """

    data: np.ndarray
    columns: np.ndarray
    lengths: np.ndarray
    y: np.ndarray
    some: bool
    beyond: IndexBeyond | None


def gather(source: Source, wanted: Wanted) -> Gathered:
    """Collect all rows of a text, or of a section of a text; raise as `read`."""
    data, y, lengths = Growing(wanted.dtype), Growing(np.float64), Growing(np.int64)
    columns = Growing(np.int32)
    part = None
    for part in _parts(source, wanted):
        X = part.X
        if X.indices.dtype != columns.dtype:
            columns = _widened(columns, X.indices.dtype)
        lengths.add(np.diff(X.indptr).astype(np.int64))
        for grown, more in ((data, X.data), (columns, X.indices), (y, part.y)):
            grown.add(more)
    arrays = data.taken(), columns.taken(), lengths.taken(), y.taken()
    return Gathered(*arrays, part is not None, part.beyond if part else None)


def _widened(grown: Growing, dtype: Any) -> Growing:
    wider = Growing(dtype)
    wider.add(grown.taken())
    return wider


def whole(name: str, gathered: Gathered, wanted: Wanted) -> Rows:
    """Return the rows of a whole text, with the base of its indices and the number of columns.

    Raises
    ------
    IndexBeyond, ValueError
        As `read`.
    """
    if not gathered.some:
        raise ValueError(f"{name}: the file is empty")
    if not len(gathered.lengths):
        raise ValueError(f"{name}: the file has no rows")
    columns, n_features = gathered.columns, wanted.n_features
    first, zero_based, guess = None, None, CERTAIN
    if len(columns):
        first = int(columns.min()) + wanted.is_one_based
        zero_based = not wanted.is_one_based
        if wanted.zero_based == "auto":
            zero_based, guess = guess_base(first, int(columns.max()), n_features)
            if zero_based and gathered.beyond:
                raise gathered.beyond
            if not zero_based:
                columns = columns - 1
    if n_features is None:
        n_features = int(columns.max()) + 1 if len(columns) else 1
        _check_columns(name, n_features, len(columns))
    indptr = np.concatenate([[0], np.cumsum(gathered.lengths)])
    base = zero_based, guess, first
    return _rows(name, (gathered.data, columns, indptr), n_features, gathered.y, base)


def _rows(
    name: str,
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    n_features: int,
    y: np.ndarray,
    base: tuple[bool | None, str, int | None],
) -> Rows:
    """Return rows without values in columns from `n_features` on.

    parts : values, columns and row ends of a CSR matrix
    base : whether indices begin at 0, how certain this is, and the smallest index
    """
    data, columns, indptr = parts
    left_out = 0
    if len(columns) and columns.max() >= n_features:
        inside = columns < n_features
        left_out = len(inside) - int(np.count_nonzero(inside))
        indptr = np.concatenate([[0], np.cumsum(inside)])[indptr]
        data, columns = data[inside], columns[inside]
    X = matrices.csr(name, data, columns, indptr, (len(indptr) - 1, n_features))
    return Rows(X, y, None, *base, left_out)


def _check_columns(name: str, n_features: int, n_values: int) -> None:
    """Warn about very many columns for few values, since an index may be a typing error.

    Raise MemoryError if the columns need more memory than is free.
    """
    nbytes = COLUMN_BYTES * n_features
    if nbytes < memory.PLENTY or n_features < SPARSE * n_values:
        return
    what = (
        f"{name}: {n_values:,} values in {n_features:,} columns, by the largest index. Set "
        "n_features if the number of columns is smaller. A model of so many"
    )
    memory.require(nbytes, what)
    warnings.warn(f"{what} takes some {memory.amount(nbytes)} of memory", stacklevel=users_line())


# -- lines


class _Part(NamedTuple):
    """Rows of some lines; `beyond` is the error to raise if an index 0 occurs, or None."""

    X: Any
    y: np.ndarray
    lines: Lines
    beyond: IndexBeyond | None = None

    def place_of(self, value: int) -> str:
        """Name the line of a value."""
        # side="right", since empty rows have the same end as the row before them
        row = int(np.searchsorted(self.X.indptr, value, side="right")) - 1
        return self.lines.place_of_row(row, _words)


def _parts(source: Source, wanted: Wanted, now: bool = False) -> Iterator[_Part]:
    """Iterate over the rows of a text in parts, with columns as in `Gathered`.

    With `now` parts are yielded as soon as their lines arrive.
    """
    beyond = None
    for lines in source.lines(now):
        if b"_" in lines.text:
            _refuse_underscores(lines)
        X, y = _parse(lines, wanted.dtype, wanted.is_one_based)
        part = _Part(X, y, lines)
        if wanted.counted:
            _check_counts(part)
        beyond = _beyond(part, wanted, beyond)
        if wanted.finite and not np.isfinite(X.data).all():
            k = int(np.flatnonzero(~np.isfinite(X.data))[0])
            raise ValueError(
                f"{part.place_of(k)}: a value is {X.data[k]}, and a model needs finite ones"
            )
        lines.doubt_end()
        yield part._replace(beyond=beyond)


def _check_counts(part: _Part) -> None:
    """Refuse a line whose number of pairs differs from its first number."""
    lengths = np.diff(part.X.indptr)
    if (wrong := np.flatnonzero(lengths != part.y)).size:
        row = int(wrong[0])
        raise ValueError(
            f"{part.lines.place_of_row(row, _words)}: not LDA-C: the line begins with "
            f"{part.y[row]:g}, and has {counted(int(lengths[row]), 'pair')}"
        )


def _beyond(part: _Part, wanted: Wanted, known: IndexBeyond | None) -> IndexBeyond | None:
    """Refuse an index beyond the columns.

    If the base of the indices is unknown, an index equal to `n_features` is too large only if an
    index 0 occurs anywhere in the text. Return the error for the first such index, or None.

    known : the value returned for the part before
    """
    limit = None if wanted.leave_out else wanted.n_features
    indices = part.X.indices
    most = int(indices.max()) if len(indices) else -1
    is_doubtful = wanted.zero_based == "auto" and most == limit
    if limit is None or most < limit or (is_doubtful and known):
        return known
    place = part.place_of(int(indices.argmax()))
    found = IndexBeyond(place, most + wanted.is_one_based, limit)
    if not is_doubtful:
        raise found
    return found


def _parse(
    lines: Lines, dtype: Any, one_based: bool, is_in_order: bool = False
) -> tuple[Any, np.ndarray]:
    """Parse rows and labels; indices are the text's, less one if `one_based`.

    The parser accepts only increasing indices in each line. If it refuses a text, the indices are
    sorted and the text is parsed once more (`is_in_order`). Texts in order take no extra time.
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
        parsed = Lines(text, lines.number, lines.name, lines.packed)
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
    """Sort the indices in each line."""
    ordered = []
    for line in io.BytesIO(text):
        words = _words(line)
        features = 2 if _has_qid(words) else 1
        try:
            rising = sorted(words[features:], key=_index)
        except ValueError:
            ordered.append(line)  # the parser refuses this line later
            continue
        end = b"\n" if line.endswith(b"\n") else b""
        ordered.append(b" ".join([*words[:features], *rising]) + end)
    return b"".join(ordered)


def _refuse_underscores(lines: Lines) -> None:
    """Refuse underscores outside comments, since only Python reads numbers with them."""
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


def fault(line: bytes) -> str | None:
    """Describe what is wrong with a line of LIBSVM text; None if it is valid.

    An index 0 and indices that do not increase are valid.
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
    if _has_weight(words[0]):
        return (
            f"{_shown(words[0])} is a label with its weight (label:weight, as XGBoost has it); "
            "remove the weights, and in Python pass them to fit as sample_weight"
        )
    if not _is(float, words[0]):
        return f"the label {_shown(words[0])} is not a number"
    if _has_qid(words) and b":" not in words.pop(1):
        return "qid has no number"
    seen = set()
    for feature in words[1:]:
        index, colon, value = feature.partition(b":")
        if not colon:
            return f"{_shown(feature)} is not index:value"
        if not _is(int, index):
            return f"the index of {_shown(feature)} is not a whole number"
        if not 0 <= int(index) <= LARGEST_INDEX:
            return f"the index of {_shown(feature)} is not between 0 and {LARGEST_INDEX}"
        if int(index) in seen:
            return f"index {int(index)} occurs twice"
        if not _is(float, value):
            return f"the value of {_shown(feature)} is not a number"
        seen.add(int(index))
    return None


def _words(line: bytes) -> list[bytes]:
    return line.partition(b"#")[0].split()


def _has_qid(words: list[bytes]) -> bool:
    return len(words) > 1 and words[1].startswith(b"qid")


def _has_weight(word: bytes) -> bool:
    label, colon, weight = word.partition(b":")
    return bool(colon) and _is(float, label) and _is(float, weight)


def _indices(line: bytes) -> list[int]:
    """Return the indices of a valid line."""
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
