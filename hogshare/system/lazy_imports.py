"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def names(
    package: str, modules: Mapping[str, str], within: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make a package's ``__getattr__``, ``__dir__`` and ``__all__``.

    Parameters
    ----------
    package : str
        Its full name.
    modules : mapping of str to str
        Public names, separated by blanks, by the module within the package that defines them. A
        name equal to the module's name means the module itself.
    within : str, default=None
        The package that contains the modules, if it is another.
    """
    places = {name: module for module, those in modules.items() for name in those.split()}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{within or package}.{places[name]}")
        value = module if places[name] == name else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    public = sorted(places)
    return get, public.copy, public
