"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def names(
    package: str, modules: Mapping[str, str], within: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's ``__getattr__``, ``__dir__`` and ``__all__``.

    ``__getattr__`` stores each imported name in the package.

    Parameters
    ----------
    package : str
        Full name of the package.
    modules : mapping of str to str
        For each module of the package, the public names that it defines, separated by blanks. A
        name equal to the module's name means the module itself.
    within : str, default=None
        The package that contains the modules; None for `package`.
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
