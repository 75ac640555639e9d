"""Old names of public attributes, which work for two minor releases and warn.

`docs/support.md` describes the policy. A class lists its renamed attributes. Each old name reads
and writes the attribute with the new name. If a subclass still defines the old name, its definition
is moved to the new name, with a warning. In a moved definition ``super()`` has the old name, too.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)
LAST = "0.3"  # the release in which the old names of 0.1 are removed


class _OldName:
    """An attribute under its old name."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:  # listings of a class's members read this: do not warn
            return getattr(owner, self.new)
        _warn(owner, self.old, self.new)
        defining = _defining(instance, self.new)
        if defining is None:
            return getattr(instance, self.new)
        # a moved definition has asked `super()` for the old name
        return getattr(super(defining, instance), self.new)

    def __set__(self, instance: Any, value: Any) -> None:
        _warn(type(instance), self.old, self.new)
        # not setattr: a frozen dataclass with a field of the old name initializes it in this way
        object.__setattr__(instance, self.new, value)


class _Running(threading.local):
    """The moved definitions that a thread is in the middle of: (instance, new name, class)."""

    def __init__(self) -> None:
        self.definitions: list[tuple[Any, str, type]] = []


_running = _Running()


def _defining(instance: Any, new: str) -> type | None:
    """Return the class whose moved definition runs for an instance; None if none does."""
    for one, name, cls in reversed(_running.definitions):
        if one is instance and name == new:
            return cls
    return None


def _moved(definition: Any, subclass: type, new: str) -> Any:
    """Return a definition of an old name, to stand under the new name."""

    def entering(function: Any) -> Any:
        @functools.wraps(function)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            _running.definitions.append((self, new, subclass))
            try:
                return function(self, *args, **kwargs)
            finally:
                _running.definitions.pop()

        return call

    if isinstance(definition, property) and definition.fget is not None:
        return definition.getter(entering(definition.fget))
    return entering(definition) if inspect.isfunction(definition) else definition


def _warn(owner: type, old: str, new: str) -> None:
    warnings.warn(
        f"{owner.__name__}.{old} is deprecated and will be removed in {LAST}: use "
        f"{owner.__name__}.{new}.",
        FutureWarning,
        stacklevel=3,
    )


def renamed(**names: str) -> Callable[[Class], Class]:
    """Return a class decorator for attributes and methods that have new names.

    names : the new name of each old name

    Examples
    --------
    >>> import warnings
    >>> from hogshare.system.deprecations import renamed
    >>> @renamed(colour="color")
    ... class Pen:
    ...     color = "black"
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Pen().colour, str(caught[0].message)
    ('black', 'Pen.colour is deprecated and will be removed in 0.3: use Pen.color.')
    """

    def decorate(cls: Class) -> Class:
        for old, new in names.items():
            setattr(cls, old, _OldName(old, new))
        above = cls.__dict__.get("__init_subclass__")

        def __init_subclass__(subclass: Any, /, **settings: Any) -> None:
            if above is not None:
                above.__func__(subclass, **settings)
            else:
                over: Any = super
                over(cls, subclass).__init_subclass__(**settings)
            for old, new in names.items():
                for base in subclass.__mro__:
                    if base is not subclass and issubclass(base, cls):
                        break  # its definition has been moved; a class behind it defines nothing
                    if old in vars(base):
                        _warn(subclass, old, new)
                        setattr(subclass, new, _moved(vars(base)[old], subclass, new))
                        if base is subclass:
                            delattr(subclass, old)
                        else:  # a mixin: shadow its definition
                            setattr(subclass, old, _OldName(old, new))
                        break

        cls.__init_subclass__ = classmethod(__init_subclass__)  # type: ignore[assignment]
        return cls

    return decorate
