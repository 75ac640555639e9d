"""Read rows and labels from files, and trust none of them.

Nothing here unpickles, and nothing allocates what a file asks for before it is known that this is
there, and that a file of that size may ask for it (`hogshare.system.memory`). Whatever is wrong
with a file's content is a ValueError that begins with the file's name, and what takes too much
memory a MemoryError; a file that cannot be opened stays the OSError that it is.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy import sparse

from hogshare.io import csvtext, libsvm, npz, sniffing
from hogshare.io.growing import Growing
from hogshare.io.sources import Lines, Source
from hogshare.system import memory
from hogshare.system.callers import users_line
from hogshare.system.interrupts import errstate

# arrays of SciPy's sparse formats, besides data and shape
FORMS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}


@dataclass(frozen=True)
class Wanted:
    """What is said of rows that are to be read.

    Attributes
    ----------
    kind : {"libsvm", "csv", "npz", "npy"} or None
        None goes by the bytes and the name.
    dtype : dtype
        Of the rows.
    n_features : int or None
        Columns of LIBSVM text, which does not say it itself; None takes the largest index.
    zero_based : bool or "auto"
        Where indices of LIBSVM text begin, see `read_libsvm`.
    leave_out : bool
        Leave out values of LIBSVM text that are beyond `n_features`, instead of refusing them.
    header : bool or None
        Whether the first line of CSV has names; None goes by what it looks like.
    delimiter : str or None
        What is between cells of CSV, see `csvtext.Table`.
    choose : callable
        Which columns of CSV are wanted, see `csvtext.Table`.
    finite : bool
        Refuse values that are NaN or infinite.
    compared : bool
        Labels of CSV are only compared with others, and may be missing.
    """

    kind: sniffing.Kind | None = None
    dtype: Any = np.float64
    n_features: int | None = None
    zero_based: libsvm.ZeroBased = "auto"
    leave_out: bool = False
    header: bool | None = None
    delimiter: str | None = None
    choose: csvtext.Choose = lambda names, width: csvtext.Choice(range(width), None)
    finite: bool = False
    compared: bool = False


@dataclass(frozen=True)
class Rows:
    """Rows that were read, and what is known of them.

    Attributes
    ----------
    X : ndarray or csr_array
    y : ndarray or None
    kind : str
        Of the file, as in `Wanted`.
    text : libsvm.Text or None
        What is known of indices, of LIBSVM text.
    table : csvtext.Table or None
        What is known of columns, of CSV.
    """

    X: Any
    y: np.ndarray | None
    kind: sniffing.Kind
    text: libsvm.Text | None = None
    table: csvtext.Table | None = None


def read(source: Source, wanted: Wanted, gathered: libsvm.Gathered | None = None) -> Rows:
    """Read all rows of a source, or of LIBSVM text take those that have been `gathered`.

    Raises
    ------
    ValueError, MemoryError
        As `read_file`.
    """
    kind = wanted.kind or sniffing.kind_of(source)
    refuse_elsewhere(source.name, kind, wanted)
    if kind == "libsvm":
        if gathered is None:
            gathered = libsvm.gather(parts_of(source, wanted))
        text = libsvm.whole(source.name, gathered, wanted.n_features, wanted.zero_based)
        return Rows(_csr(source.name, *text.parts, text.shape), text.y, kind, text=text)
    if kind == "csv":
        table = _table(source, wanted)
        return Rows(*csvtext.read(table), kind, table=table)
    X, y = _arrays(source, kind, wanted.dtype)
    if wanted.finite:
        _check_finite(source.name, X)
    return Rows(X, y, kind)


def parts_of(source: Source, wanted: Wanted, now: bool = False) -> libsvm.Parts:
    """The rows of LIBSVM text, part by part."""
    return libsvm.Parts(
        *(source, wanted.n_features, wanted.dtype, wanted.zero_based),
        *(wanted.leave_out, wanted.finite, now),
    )


def iterate(source: Source, wanted: Wanted) -> Iterator[Rows]:
    """Read rows part by part, those of text as soon as they are there.

    Of LIBSVM text that does not say where its indices begin, and of arrays, there is one part.

    Raises
    ------
    ValueError, MemoryError
        As `read_file`.
    """
    kind = wanted.kind or sniffing.kind_of(source)
    refuse_elsewhere(source.name, kind, wanted)
    some = False
    if kind == "libsvm" and wanted.zero_based != "auto" and wanted.n_features is not None:
        for part in parts_of(source, wanted, now=True):
            text = libsvm.of_part(part, wanted.n_features, bool(wanted.zero_based))
            if not text.shape[0]:
                continue  # comments and blank lines
            some = True
            yield Rows(_csr(source.name, *text.parts, text.shape), text.y, kind, text=text)
    elif kind == "csv":
        table = _table(source, wanted, now=True)
        for rows in table:
            some = True
            yield Rows(rows.X, rows.y, kind, table=table)
    else:
        some = True
        yield read(source, Wanted(**{**vars(wanted), "kind": kind}))
    if not some:
        raise ValueError(
            f"{source.name}: the file {'is empty' if source.is_empty else 'has no rows'}"
        )


def _table(source: Source, wanted: Wanted, now: bool = False) -> csvtext.Table:
    return csvtext.Table(
        source,
        wanted.dtype,
        wanted.choose,
        header=wanted.header,
        delimiter=wanted.delimiter,
        finite=wanted.finite,
        now=now,
        compared=wanted.compared,
    )


def read_file(
    path: str | Path,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: libsvm.ZeroBased = "auto",
    label_column: str | int | None = None,
) -> Any:
    """Read a data file or a pipe: ``.npz``, ``.npy``, LIBSVM text or CSV.

    Which of them it is, and how it is compressed (``.gz``, ``.bz2``, ``.xz``, or not at all), is
    told by its first bytes; of text the name comes before, if it says it (``.svm``, ``.csv``).

    Parameters
    ----------
    path : str or Path
    n_features : int, default=None
        Number of columns of LIBSVM text, which does not say it itself; None takes the largest
        index that occurs.
    dtype : dtype, default=float64
        Of the rows that are returned.
    zero_based : bool or "auto", default="auto"
        Where indices of LIBSVM text begin, see `read_libsvm`.
    label_column : str or int, default=None
        Of CSV, the column that has the labels: its name in the first line, or its place counted
        from 0 (-1 is the last). None: there are no labels.

    Returns
    -------
    X : ndarray or csr_array
    y : ndarray or None
        None where the file has no labels (``.npy``, ``.npz`` without ``y``).

    Raises
    ------
    ValueError
        If the file is truncated, malformed or of no kind that is known; the message names it. If
        `zero_based`, `n_features` or `label_column` is said of another kind of file.
    MemoryError
        If the rows take more memory than there is; the message names the file.
    OSError
        If the file cannot be opened.
    """
    wanted = Wanted(dtype=dtype, n_features=n_features, zero_based=zero_based)
    with Source(path) as source:
        kind = sniffing.kind_of(source)
        if label_column is not None:
            if kind != "csv":
                raise ValueError(f"{path}: label_column is for files of CSV, and this is none")
            choose = csvtext.labels_at(label_column, str(path))
            wanted = Wanted(**{**vars(wanted), "choose": choose})
        rows = read(source, Wanted(**{**vars(wanted), "kind": kind}))
    if rows.text is not None:
        _warn_of_a_guess(path, rows.text)
    return rows.X, rows.y


def read_libsvm(
    path: str | Path,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: libsvm.ZeroBased = "auto",
) -> tuple[Any, np.ndarray]:
    """Read LIBSVM text (``label index:value ...``), plain or compressed.

    Comments (from ``#`` on), blank lines and ``qid`` are passed over; indices need not rise.

    Parameters
    ----------
    path : str or Path
        A file or a pipe, plain or compressed (``.gz``, ``.bz2``, ``.xz``).
    n_features : int, default=None
        Number of columns; None takes the largest index that occurs.
    dtype : dtype, default=float64
    zero_based : bool or "auto", default="auto"
        Whether indices begin at 0 (True) or at 1 (False). The text does not say it. "auto" takes 0
        if an index 0 occurs, and else 1, as scikit-learn's `load_svmlight_file` does. For files
        that belong together, such as rows to train on and rows to test on, say it: one of them may
        have no index 0 by chance.

    Returns
    -------
    X : csr_array
    y : ndarray of float64

    Raises
    ------
    ValueError
        If the file is truncated or malformed, or an index is beyond `n_features`. The message names
        it, and the line.

    Warns
    -----
    UserWarning
        If plain text has no newline at its end, so that it may have been cut off inside a number.
        If 1 is no more than a guess: neither 0 nor 1 occurs as an index (and not `n_features`
        either, which is out of range in a file that begins at 0).
    """
    wanted = Wanted(kind="libsvm", dtype=dtype, n_features=n_features, zero_based=zero_based)
    with Source(path) as source:
        rows = read(source, wanted)
    text = cast(libsvm.Text, rows.text)
    _warn_of_a_guess(path, text)
    return rows.X, text.y


def _warn_of_a_guess(path: str | Path, text: libsvm.Text) -> None:
    if text.guess == libsvm.UNSURE:
        warnings.warn(
            f"{path}: indices were taken to begin at 1, which is a guess, since the smallest is "
            f"{text.first}; zero_based=False or zero_based=True says it",
            stacklevel=users_line(),
        )


def _arrays(source: Source, kind: str, dtype: Any) -> tuple[Any, np.ndarray | None]:
    """Rows and labels of arrays."""
    path = source.name
    if kind == "npz":
        X, y = read_npz(source, dtype)
    else:
        X, y = _numbers(path, read_npy(source), dtype), None
    if X.ndim != 2:
        raise ValueError(f"{path}: the rows must be a matrix, and this array has {X.ndim} axes")
    if y is not None and y.shape != (X.shape[0],):
        raise ValueError(f"{path}: {X.shape[0]} rows but labels of shape {y.shape}")
    return X, y


def _check_finite(path: str, X: Any) -> None:
    values = X.data if sparse.issparse(X) else X
    # a sum is finite where all are, short of an overflow, and costs no array of truth values
    with errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)) or np.isfinite(values).all():
            return
    wrong = np.argwhere(~np.isfinite(values))[0]
    row, column = [part[wrong[0]] for part in X.tocoo().coords] if sparse.issparse(X) else wrong
    raise ValueError(
        f"{path}: the value of row {row + 1}, column {column + 1} is {X[row, column]}, and a model "
        "needs finite ones"
    )


def refuse_elsewhere(name: str, kind: str, wanted: Wanted) -> None:
    """Refuse what is said of rows of another kind.

    Raises
    ------
    NotForThisKind
    """
    libsvm.check_zero_based(wanted.zero_based)
    if kind != "libsvm":
        refuse_zero_based(wanted.zero_based, name)
        if wanted.n_features is not None and not wanted.leave_out:
            raise NotForThisKind(name, "n_features", "LIBSVM text")
    if kind != "csv" and wanted.header is not None:
        raise NotForThisKind(name, "header", "CSV")


class NotForThisKind(ValueError):
    """Something is said of rows that are of another kind."""

    def __init__(self, name: str | Path, parameter: str, kind: str) -> None:
        super().__init__(f"{name}: {parameter} is for files of {kind}, and this is none")
        self.parameter, self.kind = parameter, kind


def refuse_zero_based(zero_based: libsvm.ZeroBased, name: str | Path) -> None:
    """Refuse that where indices begin is said of rows without any.

    Raises
    ------
    NotForThisKind
    """
    libsvm.check_zero_based(zero_based)
    if zero_based != "auto":
        raise NotForThisKind(name, "zero_based", "LIBSVM text")


def read_npy(path: str | Path | Source) -> np.ndarray:
    """Read one array of numbers or words; anything pickled is refused."""
    return npz.read_array(path, "a .npy array")


def read_labels(path: str | Path) -> np.ndarray:
    """Read labels from a file or a pipe: a ``.npy`` array, or text with one label in each line.

    Raises
    ------
    ValueError, MemoryError, OSError
        As `read_file`.
    """
    with Source(path) as source:
        starts = source.head(lambda head, _: head[:8])
        magic = (kind for start, kind in sniffing.MAGIC.items() if starts.startswith(start))
        kind = next(magic, None) or sniffing.kind_by_name(path)
        if kind == "npz":
            raise ValueError(
                f"{source.name}: an archive of arrays, and labels are one array: numpy.save writes "
                "it, or have X and y in one .npz file of rows"
            )
        if kind == "npy":
            return read_npy(source)
        words, numbers = [], Growing(np.float64)
        is_text: bool | None = None
        for lines in source.lines():
            part = _one_a_line(lines)
            if is_text is None:  # the first label says it
                is_text = not sniffing.is_number(part[0])
                cells = part[0].replace(",", " ").replace(";", " ").split()
                if len(cells) > 1 and all(map(sniffing.is_number, cells)):
                    raise ValueError(
                        f"{source.name}, line 1: {len(cells)} numbers, and one label was expected"
                    )
            if is_text:
                words.append(np.array(part, dtype=str))
                continue
            for number, word in enumerate(part, lines.number):
                if not sniffing.is_number(word):
                    raise ValueError(
                        f"{source.name}, line {number}: the label {word!r} is no number, as those "
                        "before are"
                    )
            numbers.add(np.array(part, dtype=str).astype(np.float64))
        if not words and not len(numbers):
            raise ValueError(f"{source.name}: the file is empty")
        return np.concatenate(words) if words else numbers.taken()


def _one_a_line(lines: Lines) -> list[str]:
    """Labels of some lines."""
    try:
        part = [line.strip() for line in lines.text.decode().removesuffix("\n").split("\n")]
    except UnicodeDecodeError as error:
        place = lines.place(error.start)
        raise ValueError(f"{place}: the byte {lines.text[error.start]:#x} is no UTF-8") from None
    if "" in part:
        number = lines.number + part.index("")
        raise ValueError(f"{lines.name}, line {number}: there is no label")
    return part


def read_npz(path: str | Path | Source, dtype: Any = np.float64) -> tuple[Any, np.ndarray | None]:
    """Read rows, and labels if there are any, from a ``.npz`` file or a source that is open.

    Three kinds are known: arrays ``X`` and ``y``; the parts ``data``, ``indices``, ``indptr`` and
    ``shape`` of a CSR matrix, of any integer size, with ``y``; what :func:`scipy.sparse.save_npz`
    writes (without labels).
    """
    if not isinstance(path, Source):
        with Source(path) as source:
            return read_npz(source, dtype)
    source, path = path, path.name
    parts = npz.read_arrays(source, "a .npz archive of arrays", _named)
    y = parts.get("y")
    if "X" in parts:
        return _numbers(path, parts["X"], dtype), y
    form = _form(path, parts["format"]) if "format" in parts else "csr"
    if form == "coo" and "coords" in parts:
        parts |= dict(zip(("row", "col"), parts["coords"], strict=False))
    missing = {*FORMS[form], "data", "shape"} - parts.keys()
    if missing:
        raise ValueError(
            f"{path}: needs an array X, or data, indices, indptr and shape of a CSR matrix; "
            f"it has {', '.join(sorted(parts)) or 'nothing'}"
        )
    if form != "csr":
        return _converted(path, source.whole()[1], form, parts, dtype), y
    data = _numbers(path, parts["data"], dtype)
    return _csr(path, data, parts["indices"], parts["indptr"], parts["shape"]), y


def _named(names: frozenset[str]) -> Iterable[str]:
    """The arrays of an archive that are read: those of a dense matrix, or of a sparse one."""
    if "X" in names:
        return names & {"X", "y"}
    return names & {"data", "shape", "format", "coords", "y", *itertools.chain(*FORMS.values())}


def _form(path: str | Path, word: np.ndarray) -> str:
    """A format that SciPy writes."""
    found = word.item() if word.size == 1 else word.tolist()
    found = found.decode("ascii", "replace") if isinstance(found, bytes) else found
    if not isinstance(found, str) or found not in FORMS:
        raise ValueError(f"{path}: not a sparse matrix of SciPy (its format is {found!r})")
    return found


def _converted(
    path: str, length: int, form: str, parts: dict[str, np.ndarray], dtype: Any
) -> sparse.csr_array:
    """A CSR matrix of another sparse one, once it is known what that takes."""
    try:
        data = _numbers(path, parts["data"], dtype)
        shape = rows, columns = _shape(parts["shape"])
        of_form = [parts[name] for name in FORMS[form]]
        for part in of_form:
            if part.dtype.kind not in "iu":
                raise ValueError("indices are not whole numbers")
        size = 8 if max(rows, columns, data.size) >= 2**31 else 4
        # the conversion and what it goes through; on the way SciPy has lists of all rows, columns
        # and values
        nbytes = 3 * data.size * (2 * size + data.itemsize) + 2 * size * (rows + 1)
        if form in ("csc", "bsr", "dia"):
            nbytes += size * columns
        memory.require_for_file(nbytes, length, f"{path}: a matrix of {rows:,} rows")
        made = getattr(sparse, f"{form}_array")
        if form in ("csc", "bsr"):
            # converting a damaged matrix would read and write anywhere
            _require_increasing(of_form[1])
            loaded = made((data, *of_form), shape=shape)
            loaded.check_format(full_check=True)
        elif form == "coo":
            loaded = made((data, tuple(of_form)), shape=shape)
        else:
            loaded = made((data, of_form[0]), shape=shape)
        return sparse.csr_array(loaded)
    except MemoryError as error:
        raise _out_of_memory(path, error) from error
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        why = str(error).removeprefix(f"{path}: ")
        raise ValueError(f"{path}: not a sparse matrix of SciPy ({why})") from error


def _out_of_memory(path: str | Path, error: MemoryError) -> MemoryError:
    if str(error).startswith(str(path)):
        return error
    return MemoryError(f"{path}: takes more memory than there is")


def _shape(shape: np.ndarray) -> tuple[int, int]:
    if shape.dtype.kind not in "iu" or shape.shape != (2,):
        raise ValueError("its shape is not two whole numbers")
    rows, columns = (int(n) for n in shape)
    if min(rows, columns) < 0:
        raise ValueError("its shape is negative")
    return rows, columns


def _require_increasing(indptr: np.ndarray) -> None:
    """SciPy's own check looks at nothing where the last pointer is 0."""
    if len(indptr) == 0 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("indptr decreases, or does not start at 0")


def _numbers(path: str | Path, array: np.ndarray, dtype: Any) -> np.ndarray:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{path}: the rows must be real numbers, not {array.dtype}")
    if array.dtype != dtype:
        memory.require(array.size * np.dtype(dtype).itemsize, f"{path}: as {np.dtype(dtype)} it")
    return array.astype(dtype, copy=False)


def _csr(path: str | Path, data: Any, indices: Any, indptr: Any, shape: Any) -> sparse.csr_array:
    """Assemble a CSR matrix with the smallest index type that kernels know, and check all of it."""
    try:
        rows, columns = _shape(np.asarray(shape))
        small = max(columns, len(data)) < 2**31
        index = np.int32 if small else np.int64
        for part in (indices, indptr):
            # before the cast, which would wrap a number that does not fit
            if part.dtype.kind not in "iu" or (len(part) and part.max() > np.iinfo(index).max):
                raise ValueError("indices are not whole numbers, or are out of range")
        _require_increasing(indptr)
        X = sparse.csr_array(
            (data, indices.astype(index, copy=False), indptr.astype(index, copy=False)),
            shape=(rows, columns),
        )
        X.check_format(full_check=True)
    except MemoryError as error:
        raise _out_of_memory(path, error) from error
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path}: not a valid CSR matrix ({error})") from error
    return X
