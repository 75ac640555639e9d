"""Settings of what is measured: one declaration makes an option, a value and a default."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Declared(Protocol):
    """What adds options to a parser, and names those that are settings."""

    @property
    def names(self) -> tuple[str, ...]:
        """Settings, as JSON has them."""
        ...

    def add_to(self, parser: Any) -> None:
        """Add the options."""
        ...


@dataclass(frozen=True)
class Setting:
    """A setting of its own: ``base_ms`` is the option ``--base-ms``.

    name : of the value
    help : what it means; the default is added where it has one and `help` does not say it
    default : the value if nobody says otherwise
    type : ``type(text)`` makes the value; None: it is text
    choices : all that it may be
    several : whether it takes several, and is a list
    metavar : what stands for a value in the usage; of several ``graphs`` it is GRAPH
    is_required : whether the command does not go without
    """

    name: str
    help: str
    default: Any = None
    type: Callable[[str], Any] | None = None
    choices: Sequence[str] | None = None
    several: bool = False
    metavar: str | None = None
    is_required: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Itself."""
        return (self.name,)

    @property
    def flag(self) -> str:
        """The option."""
        return f"--{self.name.replace('_', '-')}"

    def add_to(self, parser: Any) -> None:
        """Add the option."""
        parser.add_argument(
            self.flag,
            type=self.type,
            choices=self.choices,
            default=self.default,
            nargs="+" if self.several else None,
            metavar=self.metavar or (self.name.upper().removesuffix("S") if self.several else None),
            required=self.is_required,
            help=self._help(),
        )

    def _help(self) -> str:
        if self.default is None or "(default" in self.help:
            return self.help
        value = "%(default)g" if isinstance(self.default, float) else "%(default)s"
        if self.several:
            value = " ".join(map(str, self.default))
        return f"{self.help} (default: {value})".lstrip()


@dataclass(frozen=True)
class Group:
    """Options that commands share, of which some are settings.

    add : ``add(parser)``
    names : those that are settings
    """

    add: Callable[[Any], None]
    names: tuple[str, ...] = ()

    def add_to(self, parser: Any) -> None:
        """Add the options."""
        self.add(parser)


def add_options(parser: Any, declared: Iterable[Declared]) -> None:
    """Add all options to a parser."""
    for one in declared:
        one.add_to(parser)


def values_of(args: Any, declared: Iterable[Declared]) -> dict[str, Any]:
    """The settings by their names, from what a command line says."""
    return {name: getattr(args, name) for one in declared for name in one.names}


def defaults_of(declared: Sequence[Declared], what: str, **others: Any) -> dict[str, Any]:
    """The settings if a command line says nothing, but for `others`.

    Raises
    ------
    TypeError
        If one of the others is no setting of `what`.
    """
    parser = argparse.ArgumentParser()
    add_options(parser, declared)
    found = values_of(parser.parse_args([]), declared)
    if unknown := set(others) - set(found):
        raise TypeError(f"{', '.join(sorted(unknown))}: no setting of {what}")
    return {**found, **others}
