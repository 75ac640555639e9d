"""Old names of public attributes, which work for two minor releases and warn.

`docs/support.md` describes the policy. A class lists its renamed attributes. Each old name reads
and writes the attribute with the new name. If a subclass still defines the old name, its definition
is moved to the new name, with a warning.
"""

from __future__ import annotations

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
                if old in vars(subclass):
                    _warn(subclass, old, new)
                    setattr(subclass, new, vars(subclass)[old])
                    delattr(subclass, old)

        cls.__init_subclass__ = classmethod(__init_subclass__)  # type: ignore[assignment]
        return cls

    return decorate
