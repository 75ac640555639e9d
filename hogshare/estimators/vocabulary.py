"""Vocabularies: ids of any hashable type, and the row ("line") of a matrix that each id names."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from hogshare.problems.kernel_arrays import require_unmasked

NOBODY = -1  # stands for the line of an unknown id
SPREAD = 4  # largest size of a table of whole numbers, relative to the number of ids
WORDS = (str, bytes, tuple, frozenset)  # iterable types whose values are single ids
DATES = "mM"  # kinds of arrays of dates and time spans
UNITS = ("as", "fs", "ps", "ns", "us", "ms", "s")  # units, each a thousand times the previous one
PLAIN = "iubU"  # kinds of arrays whose values compare without conversion


def is_one(ids: Any) -> bool:
    """Whether this is one id and not several: a string, a number, a tuple."""
    return isinstance(ids, WORDS) or not hasattr(ids, "__iter__") or getattr(ids, "ndim", 1) == 0


def as_array(ids: Any, name: str) -> np.ndarray:
    """Convert ids to an array of one dimension; ids of several types become an object array.

    An array of numbers or strings is returned itself, not as a copy.

    name : name of the argument, for messages

    Raises
    ------
    TypeError, ValueError
        If an id is not hashable, is masked, or is a missing value, which equals nothing.
    """
    require_unmasked(name, ids)
    if hasattr(ids, "__array__"):
        array = np.asarray(ids)
        if array.ndim != 1:
            raise ValueError(f"{name} must have one dimension; got shape {array.shape}.")
        if array.dtype.kind in PLAIN:
            return array
        values = list(array) if array.dtype.kind in DATES else array.tolist()
    else:
        values = list(ids)
    kinds = {type(value) for value in values}
    if kinds and (kinds <= {int} or kinds <= {str}):
        plain = np.array(values)
        if plain.dtype.kind in PLAIN and (kinds == {int} or plain.tolist() == values):
            return plain
    made = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):
        if not isinstance(value, Hashable):
            raise TypeError(
                f"{name} must be ids such as strings or numbers; at place {k} there is a "
                f"{type(value).__name__}."
            )
        missing = _missing(value)
        if missing is not None:
            raise ValueError(
                f"{name} contains {missing}, which is not an id, first at place {k}: leave such "
                "ratings out."
            )
        made[k] = _as_python(value)
    return made


def _as_python(value: Any) -> Any:
    """Convert an id to Python's type, since equal ids of NumPy and pandas may hash differently.

    A moment is the same id in each of its types: Python's datetime, NumPy's datetime64 of any unit,
    and pandas' Timestamp. A time span is also the same id in each of its types. Moments with
    fractions of a microsecond, or in years beyond 9999, remain datetime64, which equals no
    datetime.
    """
    kind = type(value)
    if kind in (tuple, frozenset):
        return kind(map(_as_python, value))
    if isinstance(value, np.str_ | np.bytes_):
        return value.item()
    if isinstance(value, datetime | timedelta) and kind not in (datetime, timedelta):
        return _of_pandas(value)
    return _of_numpy(value) if isinstance(value, np.datetime64 | np.timedelta64) else value


def _of_numpy(value: Any) -> Any:
    """Convert a NumPy moment or time span to Python's type, or else to the largest exact unit."""
    found = value.item()
    if not isinstance(found, int):
        return found
    kind, (unit, step) = type(value), np.datetime_data(value)
    if unit not in UNITS:
        return value
    count, place = found * step, UNITS.index(unit)
    while place + 1 < len(UNITS) and count % 1000 == 0:
        count, place = count // 1000, place + 1
    coarser = kind(count, UNITS[place])
    found = coarser.item()
    return coarser if isinstance(found, int) else found


def _of_pandas(value: Any) -> Any:
    """Convert pandas' Timestamp or Timedelta to an equal value of Python's or NumPy's type.

    A subclass of datetime or timedelta that is not pandas' is returned unchanged.
    """
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        # a moment with a time zone equals no datetime64
        return value if getattr(value, "tzinfo", None) else _of_numpy(value.to_numpy())
    for way in ("to_pydatetime", "to_pytimedelta"):
        if hasattr(value, way):
            return getattr(value, way)()
    return value


def _missing(value: Any) -> str | None:
    """Return the name of a missing value, NaN, NaT or pandas' NA, also if it is within a tuple.

    NaN and NaT equal nothing, so a vocabulary could not find them again. None is an id. Returns
    None if no value is missing.
    """
    if type(value) in (tuple, frozenset):
        return next((name for name in map(_missing, value) if name is not None), None)
    try:
        if value == value:  # false for NaN and NaT
            return None
    except TypeError:  # NA == NA is NA, which is neither true nor false
        return str(value)
    return "NaN" if isinstance(value, float) else str(value)


def distinct(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct ids, and for each place in `ids` the index of its id among them.

    Distinct whole numbers and strings are sorted; whole numbers that are close together are sorted
    by a table. Other ids are in the order of their first occurrence.
    """
    if ids.dtype.kind in "iu" and len(ids):
        low, high = int(ids.min()), int(ids.max())
        if high - low < SPREAD * len(ids):
            # modulo 2^64, every difference is right for all integer types
            first = np.uint64(low % (1 << 64))
            places = (ids.astype(np.uint64) - first).astype(np.int64)
            present = np.zeros(high - low + 1, bool)
            present[places] = True
            lines = np.cumsum(present) - 1
            found = np.flatnonzero(present).astype(np.uint64) + first
            return found.astype(ids.dtype), lines[places]
    if ids.dtype != object:
        return np.unique(ids, return_inverse=True)
    seen: dict[Any, int] = {}
    codes = np.fromiter((seen.setdefault(one, len(seen)) for one in ids), np.int64, len(ids))
    made = np.empty(len(seen), dtype=object)
    made[:] = list(seen)
    return made, codes


class Vocabulary:
    """The line of each id.

    ids : the distinct ids, in the order of their lines
    """

    def __init__(self, ids: np.ndarray) -> None:
        self.ids = ids
        self._lines = dict(zip(ids.tolist(), range(len(ids)), strict=True))

    def lines(self, ids: np.ndarray) -> np.ndarray:
        """Return the line of each id, or `NOBODY`."""
        known, codes = distinct(ids)
        found = [self._lines.get(one, NOBODY) for one in known.tolist()]
        return np.asarray(found, dtype=np.int64)[codes]

    def grown(self, ids: np.ndarray) -> tuple[Vocabulary, np.ndarray]:
        """Return a vocabulary with new ids appended to the present ids, and the line of each id.

        This vocabulary does not change; it is returned itself if no id is new.
        """
        known, codes = distinct(ids)
        new = [one for one in known.tolist() if one not in self._lines]
        if not new:
            return self, self.lines(ids)
        grown = Vocabulary(as_array([*self.ids.tolist(), *new], "ids"))
        return grown, grown.lines(known)[codes]
