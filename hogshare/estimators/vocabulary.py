"""Ids of whatever kind, and the lines of a matrix that they stand for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

NOBODY = -1  # the line of an id that is not known
SPREAD = 4  # whole numbers that a table may have for each id that is looked up
WORDS = (str, bytes, tuple, frozenset)  # that are ids as a whole, though they have parts
DATES = "mM"  # kinds of arrays of dates and of times between them
PLAIN = "iubU"  # kinds of arrays whose values are told apart as they are


def is_one(ids: Any) -> bool:
    """Whether it is one id and not several: a word, a number, a tuple."""
    return isinstance(ids, WORDS) or not hasattr(ids, "__iter__") or getattr(ids, "ndim", 1) == 0


def as_array(ids: Any, name: str) -> np.ndarray:
    """Ids as an array of one dimension: of one kind as it is, of several kinds of objects.

    Raises
    ------
    TypeError, ValueError
        If there is an id that nothing can be equal to, or that cannot be told from others.
    """
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
        if _is_missing(value):
            shown = "NaN" if isinstance(value, float) else value
            raise ValueError(
                f"{name} holds {shown}, which is no id, first at place {k}: leave such ratings out."
            )
        made[k] = _as_python(value)
    return made


def _as_python(value: Any) -> Any:
    """A date of NumPy's as Python's, which it equals and is found by, unless that has none."""
    if not isinstance(value, np.datetime64 | np.timedelta64):
        return value
    found = value.item()
    return value if isinstance(found, int) else found


def _is_missing(value: Any) -> bool:
    """Whether it stands for nothing: NaN and NaT, which equal nothing, and pandas' NA."""
    try:
        return bool(value != value)
    except TypeError:  # NA answers NA, which is neither
        return True


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
