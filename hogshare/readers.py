"""Read rows and labels from files, and trust none of them.

Nothing here unpickles. Whatever is wrong with a file's content is a ValueError that begins with the
file's name; a file that cannot be opened stays the OSError that it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hogshare import libsvm


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
    array = _load(path, "a .npy array", lambda loaded: loaded)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path}: holds several arrays; name it .npz")
    return array


def read_arrays(path: str | Path, what: str) -> dict[str, np.ndarray]:
    """Read all arrays of a ``.npz`` archive; a ValueError says that it is not `what`."""
    arrays: dict[str, np.ndarray] = _load(path, what, _items)
    return arrays


def _items(loaded: Any) -> dict[str, np.ndarray]:
    if isinstance(loaded, np.ndarray):
        raise ValueError("a single array")
    return dict(loaded.items())


def _load(path: str | Path, what: str, take: Callable[[Any], Any]) -> Any:
    """Load a file with NumPy and take from it what is wanted while it is open.

    Damaged bytes lead the readers of zip files and of array headers into errors of a dozen kinds
    (even OSError, for a seek to nowhere), so once the file is open every error is the content's.
    """
    with open(path, "rb") as file:
        try:
            return take(np.load(file, allow_pickle=False))
        except MemoryError as error:
            raise MemoryError(f"{path}: asks for more memory than there is") from error
        except Exception as error:
            raise ValueError(f"{path}: not {what}, or cut off{_why(error)}") from error


def _why(error: Exception) -> str:
    """Why NumPy could not load a file, but not its advice to unpickle it, which nobody should."""
    text = str(error)
    if "pickle" in text:
        text = "it holds objects, and those are never loaded" if "Object" in text else ""
    return f" ({text})" if text else ""


def read_npz(path: str | Path, dtype: Any = np.float64) -> tuple[Any, np.ndarray | None]:
    """Read rows, and labels if there are any, from a ``.npz`` file.

    Three kinds are known: arrays ``X`` and ``y``; the parts ``data``, ``indices``, ``indptr`` and
    ``shape`` of a CSR matrix, of any integer size, with ``y``; what :func:`scipy.sparse.save_npz`
    writes (without labels).
    """
    parts = read_arrays(path, "a .npz archive of arrays")
    y = parts.get("y")
    if "X" in parts:
        return _numbers(path, parts["X"], dtype), y
    if "format" in parts and parts["format"].tobytes().rstrip(b"\0") != b"csr":
        try:
            loaded = sparse.load_npz(path)
            if loaded.format in ("csc", "bsr"):
                # converting a damaged matrix would read and write anywhere
                _require_increasing(loaded.indptr)
                loaded.check_format(full_check=True)
            elif loaded.format == "csr":
                X = _csr(path, loaded.data, loaded.indices, loaded.indptr, loaded.shape)
                return X.astype(dtype), y
            return sparse.csr_array(loaded).astype(dtype), y
        except (ValueError, KeyError, TypeError, NotImplementedError) as error:
            raise ValueError(f"{path}: not a sparse matrix of SciPy ({error})") from error
    missing = {"data", "indices", "indptr", "shape"} - parts.keys()
    if missing:
        raise ValueError(
            f"{path}: needs an array X, or data, indices, indptr and shape of a CSR matrix; "
            f"it has {', '.join(sorted(parts)) or 'nothing'}"
        )
    data = _numbers(path, parts["data"], dtype)
    return _csr(path, data, parts["indices"], parts["indptr"], parts["shape"]), y


def _require_increasing(indptr: np.ndarray) -> None:
    """SciPy's own check looks at nothing where the last pointer is 0."""
    if len(indptr) == 0 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("indptr decreases, or does not start at 0")


def _numbers(path: str | Path, array: np.ndarray, dtype: Any) -> np.ndarray:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{path}: the rows must be real numbers, not {array.dtype}")
    return array.astype(dtype, copy=False)


def _csr(path: str | Path, data: Any, indices: Any, indptr: Any, shape: Any) -> sparse.csr_array:
    """Assemble a CSR matrix with the smallest index type that kernels know, and check all of it."""
    try:
        rows, columns = (int(n) for n in shape)
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
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: not a valid CSR matrix ({error})") from error
    return X
