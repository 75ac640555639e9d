"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def names(
    package: str, places: Mapping[str, str], within: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make a package's ``__getattr__`` and ``__dir__``.

    Parameters
    ----------
    package : str
        Its full name.
    places : mapping of str to str
        Module, by its name within the package, of each public name. Where both are the same the
        module itself is meant.
    within : str, default=None
        The package within which modules are named, if it is another.
    """

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{within or package}.{places[name]}")
        value = module if places[name] == name else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(getattr(sys.modules[package], "__all__", ()))
