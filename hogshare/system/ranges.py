"""Checks that refuse numbers out of range; the message names the argument and its value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

from hogshare.system.messages import own

LARGEST = 1 << 60  # largest whole number: kernels multiply and add numbers in 64 bits
LONGEST = 1e6  # largest duration in seconds: clocks count nanoseconds in 64 bits


def _check(accepts: Callable[[float], bool], what: str) -> Callable[..., None]:
    """Make a check that named values are numbers that `accepts` accepts."""

    def check(**values: float) -> None:
        for name, value in values.items():
            if not is_number(value) or not accepts(float(value)):
                raise ValueError(f"{own(name)} must be {what}; got {value!r}.")

    check.__doc__ = f"Raise ValueError unless every value is {what}."
    return check


positive = _check(lambda value: 0.0 < value < math.inf, "a positive finite number")
not_negative = _check(lambda value: 0.0 <= value < math.inf, "a finite number, at least 0")
at_least_one = _check(lambda value: 1.0 <= value < math.inf, "a finite number, at least 1")
share = _check(lambda value: 0.0 <= value <= 1.0, "a share, between 0 and 1")
finite = _check(math.isfinite, "a finite number")


def whole(least: int = 0, /, **values: int) -> None:
    """Raise ValueError unless every value is a whole number, of any type, of at least `least`."""
    for name, value in values.items():
        _check_whole(name, value, least, is_number(value) and isinstance(value, Integral))


def count(least: int, **values: int) -> None:
    """Raise ValueError unless every value is an int of at least `least`.

    Other integer types are refused, since JSON cannot write them.
    """
    for name, value in values.items():
        is_other = is_integer(value) and not is_count(value) and int(value) >= least
        meant = f", which is no int of Python's: write {int(value)}" if is_other else ""
        _check_whole(name, value, least, is_count(value), meant)


def _check_whole(name: str, value: Any, least: int, fits: bool, meant: str = "") -> None:
    if not fits or value < least:
        raise ValueError(
            f"{own(name)} must be a whole number, at least {least}; got {value!r}{meant}."
        )
    if value > LARGEST:
        raise ValueError(f"{own(name)} must be at most {LARGEST}; got {value!r}.")


def store_rows(thing: object, name: str) -> None:
    """Convert an object's attribute to int, unless it is the string "auto".

    The attribute is replaced, even if the object is frozen.

    Raises
    ------
    ValueError
        If the attribute is not a number of rows, at least 1.
    """
    value = getattr(thing, name)
    if isinstance(value, str) and value == "auto":
        return
    if not is_integer(value):
        raise ValueError(f"{own(name)} must be 'auto' or a number of rows; got {value!r}.")
    store_whole(1, thing, name)


def store_whole(least: int, thing: object, *names: str) -> None:
    """Convert an object's attributes, whole numbers of any type, to int.

    The attributes are replaced, even if the object is frozen.

    Raises
    ------
    ValueError
        As `whole`.
    """
    whole(least, **{name: getattr(thing, name) for name in names})
    for name in names:
        object.__setattr__(thing, name, int(getattr(thing, name)))


def seconds(**values: float) -> None:
    """Raise ValueError unless every value is between 0 and `LONGEST` seconds."""
    not_negative(**values)
    for name, value in values.items():
        if value > LONGEST:
            raise ValueError(f"{own(name)} must be at most {LONGEST:g} seconds; got {value!r}.")


def numbers(**values: Any) -> tuple[float, ...]:
    """Return the only argument as floats; raise ValueError unless it is a sequence of numbers."""
    found = several(**values)
    if not all(map(is_number, found)):
        ((name, value),) = values.items()
        raise ValueError(f"{own(name)} must be a sequence of numbers; got {value!r}.")
    return tuple(map(float, found))


def several(**values: Any) -> tuple[Any, ...]:
    """Return the only argument as a tuple; raise ValueError unless it is a sequence, no string."""
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
    """In a with block, raise errors about a value as ValueError that begins with its meaning."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{what}: {error}") from error


def is_worker(value: object, n_workers: int) -> bool:
    """Return whether `value`, of any integer type, is a worker's number in a run of `n_workers`."""
    return is_integer(value) and 0 <= int(value) < n_workers  # type: ignore[call-overload]


def of_run(whose: str, workers: Iterable[object], n_workers: int) -> None:
    """Raise ValueError unless all of `workers` are numbers of workers of the run."""
    for worker in workers:
        if not is_worker(worker, n_workers):
            raise ValueError(
                f"{whose} names worker {worker!r}, and the run's {n_workers} workers are 0 to "
                f"{n_workers - 1}."
            )


def is_integer(value: object) -> bool:
    """Return whether this is a whole number, of any integer type, but not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    """Return whether this is an int, but not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether this is a real number, of any type, that fits a float, but not a bool."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True
