"""Refuse numbers that a formula or a setting has no meaning for: by name, with what was given."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

from hogshare.system.words import own

LARGEST = 1 << 60  # whole number: kernels multiply and add what they are given, in 64 bits
LONGEST = 1e6  # seconds of one thing, of a clock that counts nanoseconds in 64 bits


def positive(**values: float) -> None:
    """Raise ValueError unless every value is a finite number above zero."""
    for name, value in values.items():
        if not is_number(value) or not 0.0 < float(value) < math.inf:
            raise ValueError(f"{own(name)} must be a positive finite number; got {value!r}.")


def not_negative(**values: float) -> None:
    """Raise ValueError unless every value is a finite number of at least zero."""
    for name, value in values.items():
        if not is_number(value) or not 0.0 <= float(value) < math.inf:
            raise ValueError(f"{own(name)} must be a finite number, at least 0; got {value!r}.")


def at_least_one(**values: float) -> None:
    """Raise ValueError unless every value is a finite number of at least one."""
    for name, value in values.items():
        if not is_number(value) or not 1.0 <= float(value) < math.inf:
            raise ValueError(f"{own(name)} must be a finite number, at least 1; got {value!r}.")


def share(**values: float) -> None:
    """Raise ValueError unless every value is a number between zero and one."""
    for name, value in values.items():
        if not is_number(value) or not 0.0 <= float(value) <= 1.0:
            raise ValueError(f"{own(name)} must be a share, between 0 and 1; got {value!r}.")


def whole(least: int = 0, /, **values: int) -> None:
    """Raise ValueError unless every value is a whole number, of whatever type, from `least` on."""
    for name, value in values.items():
        if not is_number(value) or not _is_whole(value) or value < least:
            raise ValueError(
                f"{own(name)} must be a whole number, at least {least}; got {value!r}."
            )
        if value > LARGEST:
            raise ValueError(f"{own(name)} must be at most {LARGEST}; got {value!r}.")


def keep_rows(thing: object, name: str) -> None:
    """Make an attribute an int, of a frozen object too, unless it is the word "auto".

    Raises
    ------
    ValueError
        If it is no number of rows, from 1 on.
    """
    value = getattr(thing, name)
    if isinstance(value, str) and value == "auto":
        return
    if not is_integer(value):
        raise ValueError(f"{own(name)} must be 'auto' or a number of rows; got {value!r}.")
    keep_whole(1, thing, name)


def keep_whole(least: int, thing: object, *names: str) -> None:
    """Make attributes ints, of frozen objects too, if they are whole numbers of whatever type.

    Raises
    ------
    ValueError
        As `whole`.
    """
    whole(least, **{name: getattr(thing, name) for name in names})
    for name in names:
        object.__setattr__(thing, name, int(getattr(thing, name)))


def count(least: int, **values: int) -> None:
    """Raise ValueError unless every value is an int, which JSON can write, of at least `least`."""
    for name, value in values.items():
        if not is_count(value) or value < least:
            meant = ""
            if is_integer(value) and int(value) >= least:
                meant = f", which is no int of Python's: write {int(value)}"
            raise ValueError(
                f"{own(name)} must be a whole number, at least {least}; got {value!r}{meant}."
            )
        if value > LARGEST:
            raise ValueError(f"{own(name)} must be at most {LARGEST}; got {value!r}.")


def finite(**values: float) -> None:
    """Raise ValueError unless every value is a finite number."""
    for name, value in values.items():
        if not is_number(value) or not math.isfinite(float(value)):
            raise ValueError(f"{own(name)} must be a finite number; got {value!r}.")


def seconds(**values: float) -> None:
    """Raise ValueError unless every value is at least zero, and no longer than clocks count."""
    not_negative(**values)
    for name, value in values.items():
        if value > LONGEST:
            raise ValueError(f"{own(name)} must be at most {LONGEST:g} seconds; got {value!r}.")


def numbers(**values: Any) -> tuple[float, ...]:
    """The one value as a tuple of floats; raise ValueError unless it is a sequence of numbers."""
    kept = several(**values)
    if not all(map(is_number, kept)):
        ((name, value),) = values.items()
        raise ValueError(f"{own(name)} must be a sequence of numbers; got {value!r}.")
    return tuple(map(float, kept))


def several(**values: Any) -> tuple[Any, ...]:
    """The one value as a tuple; raise ValueError unless it is a sequence, and no text."""
    ((name, value),) = values.items()
    try:
        if not isinstance(value, str | bytes | dict):
            return tuple(value)
    except TypeError:
        pass
    raise ValueError(f"{own(name)} must be a sequence; got {value!r}.")


def flag(**values: bool) -> None:
    """Raise ValueError unless every value is true or false."""
    for name, value in values.items():
        if type(value).__name__ not in ("bool", "bool_"):
            raise ValueError(f"{own(name)} must be True or False; got {value!r}.")


@contextmanager
def meaning(what: str) -> Iterator[None]:
    """Have errors of what is no number, or too large for one, begin with what is meant."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{what}: {error}") from error


def is_worker(value: object, n_workers: int) -> bool:
    """Whether this is the number of one of so many workers, of whatever integer type."""
    return is_integer(value) and 0 <= int(value) < n_workers  # type: ignore[call-overload]


def is_integer(value: object) -> bool:
    """Whether this is a whole number, of whatever integer type, and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    """Whether this is an int, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral)


def is_number(value: Any) -> bool:
    """Whether this is a real number, of whatever type, as large as a float may be, and no bool."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True
