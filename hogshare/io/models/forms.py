"""Conversion of values to JSON and arrays, and back, for files without pickle.

JSON's numbers, strings, booleans, nulls and lists are stored unchanged. Any other value becomes a
mapping with one entry, whose key is its kind:

    {"number": [dtype, value]}          a NumPy scalar: number, boolean or string
    {"array": name}                     an array of numbers, booleans or strings
    {"words": name}                     an object array of strings, stored as a NumPy string array
    {"objects": [shape, items]}         another array of objects
    {"column": [n, kinds, parts]}       a list of strings, numbers, dates, tuples and so on, as
                                        arrays (`hogshare.io.models.id_columns`)
    {"tuple": items}
    {"mapping": [[key, value], ...]}
    {"sparse": [class, shape, data, indices, indptr]}
    {"setting": [class, values]}        a barrier or a plane

Arrays are stored separately, each under its name. Reading creates only objects of the classes in
the tables of this file, whose constructors check their arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare import barriers, planes
from hogshare.io.models import id_columns
from hogshare.problems.linear.row_arrays import check_sparse
from hogshare.system import memory

PLAIN = (type(None), bool, int, float, str)
STORED = "biufU"  # kinds of arrays
WORD_BYTES = 80  # bytes of a short Python string and a reference to it
CLASSES = (
    *(barriers.ASP, barriers.BSP, barriers.SSP, barriers.PBSP, barriers.PSSP),
    *(barriers.Fraction, barriers.Throttled, planes.Shared, planes.Master),
)
SETTINGS: dict[str, type[Any]] = {kind.__name__: kind for kind in CLASSES}
MATRICES = {kind.__name__: kind for kind in (sp.csr_array, sp.csr_matrix)}


def write(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return a value as JSON; add its arrays to `arrays`.

    An array gets the name `name`. Arrays within a value get this name with their places appended,
    as in ``name.0``.

    Raises
    ------
    TypeError
        If the value is unsupported or contains an unsupported value; the message completes a
        sentence whose subject is the value.
    """

    def parts(values: Any) -> list[Any]:
        return [write(part, f"{name}.{k}", arrays) for k, part in enumerate(values)]

    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is list:
        return parts(value)
    if kind is tuple:
        return {"tuple": parts(value)}
    if kind is dict:
        return {"mapping": parts(map(list, value.items()))}
    if isinstance(value, np.generic) and value.dtype.kind in STORED:
        return {"number": [value.dtype.str, value.item()]}
    if kind in (np.ndarray, np.memmap):
        return _write_array(np.asarray(value), name, arrays)
    if kind in MATRICES.values():
        stored = [value.data, value.indices, value.indptr]
        return {"sparse": [kind.__name__, [int(n) for n in value.shape], *parts(stored)]}
    if kind in SETTINGS.values():
        values = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return {"setting": [kind.__name__, parts(values)]}
    raise TypeError("is a function" if callable(value) else f"is (or contains) a {kind.__name__}")


def _write_array(array: np.ndarray, name: str, arrays: dict[str, np.ndarray]) -> Any:
    if array.dtype.kind in STORED:
        arrays[name] = array
        return {"array": name}
    if array.dtype != object:
        raise TypeError(f"is an array of {array.dtype}")
    items = array.ravel().tolist()
    if items and all(type(item) is str for item in items):
        words = array.astype(str)
        if (words == array).all():  # NumPy drops zero characters at a string's end
            arrays[name] = words
            return {"words": name}
    if array.ndim == 1:
        return id_columns.write(items, name, arrays)
    parts = [write(item, f"{name}.{k}", arrays) for k, item in enumerate(items)]
    return {"objects": [list(array.shape), parts]}


def names(form: Any) -> Iterator[str]:
    """Iterate over the names of the arrays to which a value as JSON refers."""
    if isinstance(form, list):
        for part in form:
            yield from names(part)
    elif isinstance(form, dict):
        for kind, said in form.items():
            if kind in ("array", "words"):
                yield str(said)
            else:
                yield from names(said)


def read(form: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return the value from its JSON and arrays.

    Raises
    ------
    ValueError, TypeError, KeyError, OverflowError
        If the JSON and the arrays are not the form of a value.
    MemoryError
        If the value needs more memory than is free.
    """
    if isinstance(form, list):
        return [read(part, arrays) for part in form]
    if not isinstance(form, dict):
        return form
    ((kind, said),) = form.items()  # raises unless there is exactly one entry
    match kind:
        case "number":
            return _number(*said)
        case "tuple":
            return tuple(read(list(said), arrays))
        case "mapping":
            return {read(key, arrays): read(value, arrays) for key, value in said}
        case "setting":
            name, values = said
            return SETTINGS[name](*read(list(values), arrays))
    return OF_ARRAYS[kind](said, arrays)


def _number(dtype: Any, value: Any) -> Any:
    if type(value) is str:
        return np.str_(value)
    kind = np.dtype(str(dtype))
    if kind.kind not in "biuf" or type(value) not in (bool, int, float):
        raise ValueError(f"{value!r} is not a number")
    return kind.type(value)


def _array(said: Any, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    if said not in arrays:
        raise ValueError(f"the array {said} is missing")
    array = arrays[said]
    if array.dtype.kind not in STORED:
        raise ValueError(f"the array {said} is one of {array.dtype}")
    return array


def _words(said: Any, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    words = _array(said, arrays)
    if words.dtype.kind != "U":
        raise ValueError(f"the array {said} is not one of strings")
    memory.require(words.size * WORD_BYTES + words.nbytes, f"the array {said}")
    return words.astype(object)


def _objects(said: Any, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    shape, items = [int(n) for n in said[0]], said[1]
    if min(shape, default=0) < 0:
        raise ValueError("a negative shape")
    array = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        array[k] = read(item, arrays)
    return array.reshape(shape)


def _column(said: Any, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    items = id_columns.read(said, arrays)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _sparse(said: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    name, shape, *parts = said
    data, indices, indptr = (read(part, arrays) for part in parts)
    if data.dtype.kind not in "biuf":
        raise ValueError("a matrix of no numbers")
    matrix = MATRICES[name]((data, indices, indptr), shape=tuple(int(n) for n in shape))
    check_sparse(matrix)
    return matrix


OF_ARRAYS: dict[str, Callable[[Any, Mapping[str, np.ndarray]], Any]] = {
    "array": _array,
    "words": _words,
    "objects": _objects,
    "column": _column,
    "sparse": _sparse,
}
