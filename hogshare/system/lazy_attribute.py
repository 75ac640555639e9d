"""An attribute that is computed at its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """A `functools.cached_property` without a lock, as in Python 3.12 and later.

    While Python 3.11 computes the value, it takes a lock that all instances of the class share. Two
    fits would wait for each other, and a forked child would wait for a thread that it does not
    have. With this class, two threads that read the attribute at the same time compute it twice.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> once[T] | T:
        if instance is None:
            return self
        # not called again: the instance's own attribute takes precedence over its class's
        value = instance.__dict__[self.name] = self.function(instance)
        return value
