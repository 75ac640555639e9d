"""Ids of whatever kind, and the lines of a matrix that they stand for."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from hogshare.problems.kernel_arrays import require_unmasked

NOBODY = -1  # the line of an id that is not known
SPREAD = 4  # whole numbers that a table may have for each id that is looked up
WORDS = (str, bytes, tuple, frozenset)  # that are ids as a whole, though they have parts
DATES = "mM"  # kinds of arrays of dates and of times between them
UNITS = ("as", "fs", "ps", "ns", "us", "ms", "s")  # each a thousand of the one before
PLAIN = "iubU"  # kinds of arrays whose values are told apart as they are


def is_one(ids: Any) -> bool:
    """Whether it is one id and not several: a word, a number, a tuple."""
    return isinstance(ids, WORDS) or not hasattr(ids, "__iter__") or getattr(ids, "ndim", 1) == 0


def as_array(ids: Any, name: str) -> np.ndarray:
    """Ids as an array of one dimension: of one kind as it is, of several kinds of objects.

    Raises
    ------
    TypeError, ValueError
        If there is an id that nothing can be equal to, or that cannot be told from others, or that
        is masked.
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
                f"{name} must be ids such as words or numbers; at place {k} there is a "
                f"{type(value).__name__}."
            )
        missing = _missing(value)
        if missing is not None:
            raise ValueError(
                f"{name} holds {missing}, which is no id, first at place {k}: leave such ratings "
                "out."
            )
        made[k] = _as_python(value)
    return made


def _as_python(value: Any) -> Any:
    """An id as Python has it, where NumPy and pandas have equal ones that no dict finds by it.

    A moment is one id, whether it came as Python's datetime, as NumPy's datetime64 of any unit or
    as a Timestamp of pandas; so is a span of time. Fractions of a microsecond, and years beyond
    9999, stay datetime64, which equals no datetime.
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
    """A moment or a span as Python's, or in the largest unit that has it."""
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
    """A Timestamp or Timedelta as what it equals; others, such as subclasses of a user's, as is."""
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        # with a zone it equals no datetime64
        return value if getattr(value, "tzinfo", None) else _of_numpy(value.to_numpy())
    for way in ("to_pydatetime", "to_pytimedelta"):
        if hasattr(value, way):
            return getattr(value, way)()
    return value


def _missing(value: Any) -> str | None:
    """The name of what stands for nothing, also within a tuple: NaN, NaT, and pandas' NA.

    The first two equal nothing, so that nobody would be found by them. None is an id.
    """
    if type(value) in (tuple, frozenset):
        return next((name for name in map(_missing, value) if name is not None), None)
    try:
        if value == value:
            return None
    except TypeError:  # NA answers NA, which is neither
        return str(value)
    return "NaN" if isinstance(value, float) else str(value)


def distinct(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ids that there are, and which of them is at each place.

    Whole numbers in their order, by a table where they are close together; words in theirs; others
    as they first come.
    """
    if ids.dtype.kind in "iu" and len(ids):
        low, high = int(ids.min()), int(ids.max())
        if high - low < SPREAD * len(ids):
            # modulo 2^64, in which every difference is right, whatever the type
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
    """Which line stands for which id: `ids` come in the order of the lines, each once."""

    def __init__(self, ids: np.ndarray) -> None:
        self.ids = ids
        self._lines = dict(zip(ids.tolist(), range(len(ids)), strict=True))

    def lines(self, ids: np.ndarray) -> np.ndarray:
        """Line of each id, or `NOBODY`."""
        known, codes = distinct(ids)
        found = [self._lines.get(one, NOBODY) for one in known.tolist()]
        return np.asarray(found, dtype=np.int64)[codes]

    def grown(self, ids: np.ndarray) -> tuple[Vocabulary, np.ndarray]:
        """A vocabulary with the new ones after those that there are, and the line of each id."""
        known, codes = distinct(ids)
        new = [one for one in known.tolist() if one not in self._lines]
        if not new:
            return self, self.lines(ids)
        grown = Vocabulary(as_array([*self.ids.tolist(), *new], "ids"))
        return grown, grown.lines(known)[codes]
