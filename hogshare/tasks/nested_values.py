"""Values in parts: a broadcast or a result may be a tuple or a dict of arrays and numbers.

The parts may be tuples and dicts again. Arrays are leaves. Lists and other array-likes of a
broadcast become arrays. Functions here never change their arguments.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

NUMBER_BYTES = 8  # bytes of a number in a message
NUMBERS = (int, float, complex, np.generic)
KEYS = (str, int)


def frozen_copy(value: Any, name: str = "value") -> Any:
    """Return a copy whose arrays are read-only.

    name : the part's name in errors

    Raises TypeError if a part is neither an array of numbers nor a number, tuple or dict.
    """
    if type(value) is tuple:
        return tuple(_part(part, f"{name}[{i}]") for i, part in enumerate(value))
    if type(value) is dict:
        for key in value:
            if not isinstance(key, KEYS):
                raise TypeError(f"the keys of {name} must be str or int; got {key!r}.")
        return {key: _part(part, f"{name}[{key!r}]") for key, part in value.items()}
    if isinstance(value, (tuple, Mapping)):
        plain = "tuple" if isinstance(value, tuple) else "dict"
        raise TypeError(
            f"{name} must be an array, or a plain tuple or dict of arrays; got a "
            f"{type(value).__name__}: pass {plain}({name})."
        )
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: pass {name}.filled(...).")
    array = np.array(value)
    if array.dtype == object:
        raise TypeError(
            f"{name} must be an array of numbers, or a tuple or dict of these; got "
            f"{type(value).__name__}."
        )
    array.flags.writeable = False
    return array


def _part(value: Any, name: str) -> Any:
    return value if isinstance(value, NUMBERS) else frozen_copy(value, name)


def mapped(function: Callable[[np.ndarray], Any], value: Any) -> Any:
    """Return a value of new tuples and dicts, with a function's result for each array."""
    if isinstance(value, np.ndarray):
        return function(value)
    if type(value) is tuple:
        return tuple(mapped(function, part) for part in value)
    if type(value) is dict:
        return {key: mapped(function, part) for key, part in value.items()}
    return value


def own(value: Any) -> Any:
    """Return a value with tuples and dicts of its own, and the same arrays."""
    return value if isinstance(value, np.ndarray) else mapped(lambda array: array, value)


def read_only(value: Any) -> Any:
    """Return a value with read-only views of the arrays."""
    return mapped(_read_only, value)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def bytes_of(value: Any) -> int:
    """Return the bytes of a value: the bytes of its arrays, and eight for each other part."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return NUMBER_BYTES
    return sum(map(bytes_of, value))


def add(left: Any, right: Any) -> Any:
    """Add two values: arrays and numbers by ``+``; tuples, lists and dicts part by part.

    NumPy's bools are counted, as by `numpy.sum`. This is the default of
    `hogshare.tasks.Collection.reduce`. (``operator.add`` concatenates tuples.)

    Parameters
    ----------
    left, right : array, number, or tuple, list or dict of such values
        Arrays must have the same shape, tuples and lists the same length, dicts the same keys.

    Returns
    -------
    array, number, tuple, list or dict
        A new value of the type of `left`.

    Raises
    ------
    ValueError
        If the values do not have the same parts.

    Examples
    --------
    >>> from hogshare.tasks import add
    >>> add((1.0, {"rows": 2}), (0.5, {"rows": 3}))
    (1.5, {'rows': 5})
    """
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        found = copy.copy(left)
        for key, part in left.items():  # not `update`, which a Counter has its own of
            found[key] = add(part, right[key])
        return found
    if isinstance(left, (tuple, list)) and type(left) is type(right) and len(left) == len(right):
        parts = [add(*pair) for pair in zip(left, right, strict=True)]
        return type(left)(*parts) if hasattr(left, "_fields") else type(left)(parts)
    check_same(form_of(left), form_of(right), left, right)
    return _counted(left) + _counted(right)


def check_same(form: Any, other: Any, left: Any, right: Any) -> None:
    """Raise ValueError if two values have different forms, see `form_of`."""
    if form != other:
        raise ValueError(
            f"values of {described(left)} and {described(right)} cannot be added: the function "
            "must return the same parts and shapes for all rows"
        )


def _counted(value: Any) -> Any:
    """Return NumPy's bools as int64: their sum is a count, as in `numpy.sum`; ``+`` is `or`."""
    is_bool = isinstance(value, (np.ndarray, np.generic)) and value.dtype == bool
    return value.astype(np.int64) if is_bool else value


NEW_SUMS = (add, operator.add, np.add)  # they never change the values that they add
ADDS = (*NEW_SUMS, operator.iadd)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """Return the shape of an array or number; None for other values, such as lists."""
    return np.shape(value) if isinstance(value, (np.ndarray, *NUMBERS)) else None


def form_of(value: Any) -> Any:
    """Return a key that is equal for two values that `add` can add."""
    if isinstance(value, dict):
        return "dict", frozenset((key, form_of(part)) for key, part in value.items())
    if isinstance(value, (tuple, list)):
        return type(value).__name__, *map(form_of, value)
    return shape_of(value)


def described(value: Any) -> str:
    """Describe the form of a value for an error."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key!r}: {described(part)}" for key, part in value.items())
        return f"{{{inside}}}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(described, value))})"
    shape = shape_of(value)
    return type(value).__name__ if shape is None else f"shape {shape}"
