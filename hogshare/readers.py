"""Read rows and labels from files, and trust none of them.

Nothing here unpickles, and nothing allocates what a file asks for before it is known that this is
there, and that a file of that size may ask for it (`hogshare.memory`). Whatever is wrong with a
file's content is a ValueError that begins with the file's name, and what takes too much memory a
MemoryError; a file that cannot be opened stays the OSError that it is.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hogshare import libsvm, memory, npz

# arrays of SciPy's sparse formats, besides data and shape
FORMS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}


def is_libsvm(path: Path) -> bool:
    """Whether `read_file` takes it for LIBSVM text, which goes by its name."""
    return path.suffix not in (".npz", ".npy")


def read_file(
    path: str | Path,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: libsvm.ZeroBased = "auto",
) -> Any:
    """Read a data file: ``.npz``, ``.npy``, and anything else as LIBSVM text.

    Parameters
    ----------
    path : str or Path
        The file; LIBSVM text may be compressed (``.gz``, ``.bz2``, ``.xz``).
    n_features : int, default=None
        Number of columns of LIBSVM text, which does not say it itself; None takes the largest
        index that occurs.
    dtype : dtype, default=float64
        Of the rows that are returned.
    zero_based : bool or "auto", default="auto"
        Where indices of LIBSVM text begin, see `read_libsvm`.

    Returns
    -------
    X : ndarray or csr_array
    y : ndarray or None
        None where the file has no labels (``.npy``, ``.npz`` without ``y``).

    Raises
    ------
    ValueError
        If the file is truncated, malformed or of no kind that is known; the message names it. If
        `zero_based` is said of another kind of file.
    MemoryError
        If the rows take more memory than there is; the message names the file.
    OSError
        If the file cannot be opened.
    """
    path = Path(path)
    if is_libsvm(path):
        return read_libsvm(path, n_features, dtype, zero_based)
    refuse_zero_based(zero_based, path)
    if path.suffix == ".npz":
        X, y = read_npz(path, dtype)
    else:
        X, y = _numbers(path, read_npy(path), dtype), None
    if X.ndim != 2:
        raise ValueError(f"{path}: the rows must be a matrix, and this array has {X.ndim} axes")
    if y is not None and y.shape != (X.shape[0],):
        raise ValueError(f"{path}: {X.shape[0]} rows but labels of shape {y.shape}")
    return X, y


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
        Compression goes by the suffix: ``.gz``, ``.bz2``, ``.xz``.
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
        If the file is truncated or malformed. The message names it, and the line.

    Warns
    -----
    UserWarning
        If plain text has no newline at its end, so that it may have been cut off inside a number.
        If 1 is no more than a guess: neither 0 nor 1 occurs as an index (and not `n_features`
        either, which is out of range in a file that begins at 0).
    """
    text, X = read_text(path, n_features, dtype, zero_based)
    if text.guess == libsvm.UNSURE:
        warnings.warn(
            f"{path}: indices were taken to begin at 1, which is a guess, since the smallest is "
            f"{text.first}; zero_based=False or zero_based=True says it",
            stacklevel=2,
        )
    return X, text.y


def read_text(
    path: str | Path,
    n_features: int | None,
    dtype: Any,
    zero_based: libsvm.ZeroBased,
    leave_out: bool = False,
) -> tuple[libsvm.Text, sparse.csr_array]:
    """As `libsvm.read`, with the rows as a matrix."""
    text = libsvm.read(Path(path), n_features, dtype, zero_based, leave_out)
    return text, _csr(path, *text.parts, text.shape)


def refuse_zero_based(zero_based: libsvm.ZeroBased, name: str | Path) -> None:
    """Refuse that where indices begin is said of rows without any.

    Raises
    ------
    ValueError
    """
    libsvm.check_zero_based(zero_based)
    if zero_based != "auto":
        raise ValueError(f"{name}: zero_based is for files of LIBSVM text, and this is none")


def read_npy(path: str | Path) -> np.ndarray:
    """Read one array of numbers or words; anything pickled is refused."""
    return npz.read_array(path, "a .npy array")


def read_npz(path: str | Path, dtype: Any = np.float64) -> tuple[Any, np.ndarray | None]:
    """Read rows, and labels if there are any, from a ``.npz`` file.

    Three kinds are known: arrays ``X`` and ``y``; the parts ``data``, ``indices``, ``indptr`` and
    ``shape`` of a CSR matrix, of any integer size, with ``y``; what :func:`scipy.sparse.save_npz`
    writes (without labels).
    """
    parts = npz.read_arrays(path, "a .npz archive of arrays", _named)
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
        return _converted(path, form, parts, dtype), y
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
    path: str | Path, form: str, parts: dict[str, np.ndarray], dtype: Any
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
        memory.require_for_file(
            nbytes, Path(path).stat().st_size, f"{path}: a matrix of {rows:,} rows"
        )
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
            (data, indices.astype(index), indptr.astype(index)), shape=(rows, columns)
        )
        X.check_format(full_check=True)
    except MemoryError as error:
        raise _out_of_memory(path, error) from error
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path}: not a valid CSR matrix ({error})") from error
    return X
