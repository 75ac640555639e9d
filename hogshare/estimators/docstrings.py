"""Docstrings of estimators: what a class does not describe is described by what it is made of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

HEADING = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)
ENTRY = re.compile(r"^\S.*(?:\n(?: .*)?)*", re.MULTILINE)  # with the lines that are indented
ORDER = (
    "",
    "Parameters",
    "Attributes",
    "See Also",
    "Notes",
)  # as numpydoc has them; "" comes first


def complete(kind: type) -> None:
    """Describe all parameters and attributes of an estimator in its own docstring.

    Those that it leaves out are taken from the next class of its bases that has them: parameters in
    the order of the signature, attributes after its own. Its notes go on with those of its mixins.
    """
    if kind.__doc__ is None or "__init__" not in vars(kind):  # with -OO nobody has one
        return
    ours = [base for base in kind.__mro__ if base.__module__.startswith("hogshare.")]
    documented = [_sections(base.__doc__ or "") for base in ours]
    mixins = [found for base, found in zip(ours, documented, strict=True) if not _is_whole(base)]
    sections = documented[0]
    parameters, attributes = (_entries(documented, name) for name in ("Parameters", "Attributes"))
    names = inspect.signature(kind).parameters
    sections["Parameters"] = _joined(parameters[name] for name in names if name in parameters)
    sections["Attributes"] = _joined(attributes.values())
    sections["Notes"] = "".join(found["Notes"] for found in (sections, *mixins))
    parts = (f"{name}\n{'-' * len(name)}\n{text}\n" for name, text in sections.items() if text)
    kind.__doc__ = "".join(parts).removeprefix("\n\n")


def _is_whole(kind: type) -> bool:
    """Whether it is an estimator, which has all that its mixins have, and not one of these."""
    return "__init__" in vars(kind)


def _sections(docstring: str) -> dict[str, str]:
    """The text under each heading, with one line's end."""
    summary, *parts = HEADING.split(inspect.cleandoc(docstring))
    found = {"": summary, **dict(zip(parts[::2], parts[1::2], strict=True))}
    return dict.fromkeys(ORDER, "") | {name: text.strip() + "\n" for name, text in found.items()}


def _entries(documented: list[dict[str, str]], section: str) -> dict[str, str]:
    """What is said of each name, by the first that has it; one entry may be of several names."""
    found: dict[str, str] = {}
    for sections in documented:
        for entry in ENTRY.findall(sections[section]):
            names = re.split(r" : |\n", entry, maxsplit=1)[0].split(", ")
            found |= {name: entry.rstrip() + "\n" for name in names if name not in found}
    return found


def _joined(entries: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(entries))
