"""An attribute that is computed when somebody first asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """As `functools.cached_property` is from Python 3.12 on: without a lock.

    Python 3.11 holds one while the value is computed, of all instances of the class together: two
    fits would wait for each other, and a forked child for a thread that it does not have. With this
    two threads that ask at the same time compute it twice.
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
        # not called again: what an instance has itself comes before what its class has
        value = instance.__dict__[self.name] = self.function(instance)
        return value
