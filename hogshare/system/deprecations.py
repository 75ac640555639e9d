"""Old names of public attributes, which work for two minor releases and warn.

`docs/support.md` has the policy. A class lists its renamed attributes; each old name reads and
writes the new one, and a subclass that still defines the old one is taken to mean the new one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)
LAST = "0.3"  # the release in which the names of 0.1 go


class _OldName:
    """An attribute under its old name."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:  # listings of a class's members read this: they are no use of it
            return getattr(owner, self.new)
        _warn(owner, self.old, self.new)
        return getattr(instance, self.new)

    def __set__(self, instance: Any, value: Any) -> None:
        _warn(type(instance), self.old, self.new)
        setattr(instance, self.new, value)


def _warn(owner: type, old: str, new: str) -> None:
    warnings.warn(
        f"{owner.__name__}.{old} is deprecated and will be removed in {LAST}: use "
        f"{owner.__name__}.{new}.",
        FutureWarning,
        stacklevel=3,
    )


def renamed(**names: str) -> Callable[[Class], Class]:
    """Return a class decorator for attributes and methods that have new names.

    names : the new name of each old one

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
                if old in vars(subclass):
                    _warn(subclass, old, new)
                    setattr(subclass, new, vars(subclass)[old])
                    delattr(subclass, old)

        cls.__init_subclass__ = classmethod(__init_subclass__)  # type: ignore[assignment]
        return cls

    return decorate
