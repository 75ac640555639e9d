"""Read rows and labels from files, and trust none of them.

Nothing here unpickles. Whatever is wrong with a file's content is a ValueError that begins with the
file's name; a file that cannot be opened stays the OSError that it is.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from scipy import sparse

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

# what decompressors raise for a file that is cut off or is not theirs
DAMAGE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)


def read_file(path: str | Path, n_features: int | None = None, dtype: Any = np.float64) -> Any:
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

    Returns
    -------
    X : ndarray or csr_array
    y : ndarray or None
        None where the file has no labels (``.npy``, ``.npz`` without ``y``).

    Raises
    ------
    ValueError
        If the file is truncated, malformed or of no kind that is known. The message names it.
    OSError
        If the file cannot be opened.
    """
    path = Path(path)
    if path.suffix == ".npz":
        X, y = read_npz(path, dtype)
    elif path.suffix == ".npy":
        X, y = _numbers(path, read_npy(path), dtype), None
    else:
        return read_libsvm(path, n_features, dtype)
    if X.ndim != 2:
        raise ValueError(f"{path}: the rows must be a matrix, and this array has {X.ndim} axes")
    if y is not None and y.shape != (X.shape[0],):
        raise ValueError(f"{path}: {X.shape[0]} rows but labels of shape {y.shape}")
    return X, y


class _LastByte(io.RawIOBase):
    """A stream that remembers its last byte, so that a cut-off text file is noticed."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.last = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self.stream.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self.last = chunk[-1:] or self.last
        return len(chunk)


def read_libsvm(
    path: str | Path, n_features: int | None = None, dtype: Any = np.float64
) -> tuple[Any, np.ndarray]:
    """Read LIBSVM text (``label index:value ...``), plain or compressed.

    Indices start at one, unless an index zero occurs. A file without a newline at its end is
    refused: text that was cut off inside a number would otherwise pass for whole.

    Parameters
    ----------
    path : str or Path
        Compression goes by the suffix: ``.gz``, ``.bz2``, ``.xz``.
    n_features : int, default=None
        Number of columns; None takes the largest index that occurs.
    dtype : dtype, default=float64

    Returns
    -------
    X : csr_array
    y : ndarray of float64

    Raises
    ------
    ValueError
        If the file is truncated or malformed. The message names it.
    """
    from sklearn.datasets import load_svmlight_file

    path = Path(path)
    with open(path, "rb") as raw:
        opener = OPENERS.get(path.suffix)
        stream = _LastByte(cast(BinaryIO, opener(raw)) if opener else raw)
        try:
            X, y = load_svmlight_file(io.BufferedReader(stream, 1 << 20), dtype=dtype)
        except DAMAGE as error:
            raise ValueError(
                f"{path}: truncated or damaged {path.suffix} file ({error})"
            ) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise ValueError(f"{path}: not a {path.suffix} file ({error})") from error
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{path}: not LIBSVM text, or cut off ({error})") from error
    if not stream.last:
        raise ValueError(f"{path}: the file is empty")
    if stream.last != b"\n":
        raise ValueError(
            f"{path}: the last line has no end, so the file may be cut off; "
            "if it is whole, add a newline at its end"
        )
    rows, columns = X.shape
    if not rows:
        raise ValueError(f"{path}: the file has no rows")
    if n_features is not None and columns > n_features:
        raise ValueError(f"{path}: has {columns} columns where {n_features} were expected")
    return _csr(path, X.data, X.indices, X.indptr, (rows, n_features or columns)), y


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
