"""Docstrings with shared parts, which are written once and inserted into each docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)

HEADING = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)
ENTRY = re.compile(r"^\S.*(?:\n(?: .*)?)*", re.MULTILINE)  # with the lines that are indented
ORDER = ("", "Parameters", "Attributes", "Returns", "Raises", "Warns", "See Also", "Notes")


def complete(thing: type | Callable[..., Any], shared: Iterable[str | None]) -> None:
    """Complete a docstring: take each missing part from the first shared docstring that has it.

    The result is stored in ``thing.__doc__``. Parameters are in the order of the signature, shared
    attributes come after the docstring's own attributes, and shared notes are appended. With -OO
    there are no docstrings, and this function does nothing.
    """
    if thing.__doc__ is None:
        return
    documented = [_sections(text or "") for text in (thing.__doc__, *shared)]
    sections = documented[0]
    parameters, attributes = (_entries(documented, name) for name in ("Parameters", "Attributes"))
    names = inspect.signature(thing).parameters
    sections["Parameters"] = _joined(parameters[name] for name in names if name in parameters)
    sections["Attributes"] = _joined(attributes.values())
    for other in documented[1:]:
        for name in ("Returns", "Raises"):
            sections[name] = sections[name] or other[name]
        if other["Notes"] not in sections["Notes"]:
            sections["Notes"] += other["Notes"]
    parts = (f"{name}\n{'-' * len(name)}\n{text}\n" for name, text in sections.items() if text)
    thing.__doc__ = "".join(parts).strip() + "\n"


def with_properties(kind: Kind) -> Kind:
    """Add a class's properties to its documented attributes, each with its own docstring."""
    entries = ["Attributes", "----------"]
    for name, value in vars(kind).items():
        if isinstance(value, property) and value.__doc__:
            kinds = getattr(value.fget, "__annotations__", {}).get("return", "")
            entries.append(f"{name} : {kinds.replace(' | ', ' or ')}" if kinds else name)
            entries += [
                f"    {line}".rstrip() for line in inspect.cleandoc(value.__doc__).split("\n")
            ]
    complete(kind, ["\n".join(entries)])
    return kind


def _sections(docstring: str) -> dict[str, str]:
    """Return the text under each heading; the key "" has the text before the first heading."""
    summary, *parts = HEADING.split(inspect.cleandoc(docstring))
    found = {"": summary, **dict(zip(parts[::2], parts[1::2], strict=True))}
    return dict.fromkeys(ORDER, "") | {name: text.strip() + "\n" for name, text in found.items()}


def _entries(documented: list[dict[str, str]], section: str) -> dict[str, str]:
    """Return each name's entry, from the first docstring that has it; names may share an entry."""
    found: dict[str, str] = {}
    for sections in documented:
        for entry in ENTRY.findall(sections[section]):
            names = re.split(r" : |\n", entry, maxsplit=1)[0].replace("*", "").split(", ")
            found |= {name: entry.rstrip() + "\n" for name in names if name not in found}
    return found


def _joined(entries: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(entries))
