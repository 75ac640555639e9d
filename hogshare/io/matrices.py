"""Dense and sparse matrices from arrays in files; every index of a sparse matrix is checked."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hogshare.io import npz
from hogshare.io.rows import Rows, Wanted
from hogshare.io.sources import Source
from hogshare.system import memory
from hogshare.system.interrupts import errstate

# arrays of SciPy's sparse formats, in addition to data and shape
FORMS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}


def read(source: Source, wanted: Wanted) -> Rows:
    """Read the rows of a ``.npz`` or a ``.npy`` file, according to `wanted.kind`.

    Raises
    ------
    ValueError, MemoryError
        As `hogshare.io.readers.read_file`.
    """
    path = source.name
    if wanted.kind == "npz":
        X, y = _npz(source, wanted.dtype)
    else:
        X, y = _numbers(path, npz.read_array(source, "a .npy array"), wanted.dtype), None
    if X.ndim != 2:
        raise ValueError(f"{path}: the rows must be a matrix, and this array has {X.ndim} axes")
    if y is not None and y.shape != (X.shape[0],):
        raise ValueError(f"{path}: {X.shape[0]} rows but labels of shape {y.shape}")
    if wanted.finite:
        check_finite(path, X)
    return Rows(X, y)


def read_npz(path: str | Path, dtype: Any = np.float64) -> tuple[Any, np.ndarray | None]:
    """Read rows, and labels if there are any, from a ``.npz`` file.

    Three kinds of content are known: (1) arrays ``X`` and ``y``; (2) the parts ``data``,
    ``indices``, ``indptr`` and ``shape`` of a CSR matrix, with indices of any integer size, and
    ``y``; (3) the content of a file of :func:`scipy.sparse.save_npz`, without labels.
    """
    with Source(path) as source:
        return _npz(source, dtype)


def _npz(source: Source, dtype: Any) -> tuple[Any, np.ndarray | None]:
    path = source.name
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
        return converted(path, source.whole()[1], form, parts, dtype), y
    data = _numbers(path, parts["data"], dtype)
    return csr(path, data, parts["indices"], parts["indptr"], parts["shape"]), y


def csr(path: str, data: Any, indices: Any, indptr: Any, shape: Any) -> sparse.csr_array:
    """Assemble a CSR matrix and check all of it; arrays are copied only to change their type.

    Indices are int32 if they fit, else int64.

    Raises
    ------
    ValueError, MemoryError
        If the arrays are not a valid CSR matrix, or memory does not suffice.
    """
    try:
        rows, columns = _shape(np.asarray(shape))
        small = max(columns, len(data)) < 2**31
        index = np.int32 if small else np.int64
        for part in (indices, indptr):
            # checked before the cast, since the cast would wrap a number that does not fit
            if part.dtype.kind not in "iu" or (len(part) and part.max() > np.iinfo(index).max):
                raise ValueError("indices are not whole numbers, or are out of range")
        _require_increasing(indptr)
        X = sparse.csr_array(
            (data, indices.astype(index, copy=False), indptr.astype(index, copy=False)),
            shape=(rows, columns),
        )
        X.check_format(full_check=True)  # kernels do not check indices
    except MemoryError as error:
        raise _out_of_memory(path, error) from error
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path}: not a valid CSR matrix ({error})") from error
    return X


def check_finite(path: str, X: Any) -> None:
    """Refuse values that are NaN or infinite; the error names row and column of the first one."""
    values = X.data if sparse.issparse(X) else X
    # the sum of finite values is finite unless it overflows; it needs no array of booleans
    with errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)) or np.isfinite(values).all():
            return
    wrong = np.argwhere(~np.isfinite(values))[0]
    row, column = [part[wrong[0]] for part in X.tocoo().coords] if sparse.issparse(X) else wrong
    raise ValueError(
        f"{path}: the value of row {row + 1}, column {column + 1} is {X[row, column]}, and a model "
        "needs finite ones"
    )


def _named(names: frozenset[str]) -> Iterable[str]:
    """Select the arrays of an archive to read: a dense matrix's, or a sparse matrix's."""
    if "X" in names:
        return names & {"X", "y"}
    return names & {"data", "shape", "format", "coords", "y", *itertools.chain(*FORMS.values())}


def _form(path: str, name: np.ndarray) -> str:
    """Return the name of a sparse format; refuse a format that SciPy does not write."""
    found = name.item() if name.size == 1 else name.tolist()
    found = found.decode("ascii", "replace") if isinstance(found, bytes) else found
    if not isinstance(found, str) or found not in FORMS:
        raise ValueError(f"{path}: not a sparse matrix of SciPy (its format is {found!r})")
    return found


def converted(
    path: str,
    length: int,
    form: str,
    parts: dict[str, np.ndarray],
    dtype: Any,
    what: str = "a sparse matrix of SciPy",
) -> sparse.csr_array:
    """Convert the parts of a sparse matrix to a CSR matrix, after a check of the memory.

    length : number of bytes of its file
    what : description of the expected file; messages say that the file is not `what`
    """
    try:
        data = _numbers(path, parts["data"], dtype)
        shape = rows, columns = _shape(parts["shape"])
        of_form = [parts[name] for name in FORMS[form]]
        for part in of_form:
            if part.dtype.kind not in "iu":
                raise ValueError("indices are not whole numbers")
        size = 8 if max(rows, columns, data.size) >= 2**31 else 4
        # the result and intermediate arrays: SciPy's conversion has all rows, columns and values
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
        raise ValueError(f"{path}: not {what} ({why})") from error


def _out_of_memory(path: str, error: MemoryError) -> MemoryError:
    if str(error).startswith(path):
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
    """Refuse a decreasing indptr; SciPy checks nothing if the last entry of indptr is 0."""
    if len(indptr) == 0 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("indptr decreases, or does not start at 0")


def _numbers(path: str, array: np.ndarray, dtype: Any) -> np.ndarray:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{path}: the rows must be real numbers, not {array.dtype}")
    if array.dtype != dtype:
        memory.require(array.size * np.dtype(dtype).itemsize, f"{path}: as {np.dtype(dtype)} it")
    return array.astype(dtype, copy=False)
