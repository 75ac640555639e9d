"""Settings of measurements: one declaration gives the option, the value and the default."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Declared(Protocol):
    """A declaration that adds options to a parser, and names those that are settings."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the settings in JSON."""
        ...

    def add_to(self, parser: Any) -> None:
        """Add the options."""
        ...


@dataclass(frozen=True)
class Setting:
    """A single setting; for example ``base_ms``, whose option is ``--base-ms``.

    name : name of the value
    help : meaning of the value; the default, if any, is added unless `help` already has it
    default : the default value
    type : ``type(text)``, converts the text of the command line; None: the value is the text
    choices : all allowed values; None: no restriction
    several : whether the option takes several values; the value is then a list
    metavar : placeholder of a value in the usage; by default GRAPH if ``graphs`` takes several
    is_required : whether the option is required
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
        """Return a tuple with the setting's name."""
        return (self.name,)

    @property
    def flag(self) -> str:
        """Return the name of the option on the command line."""
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
    """Options that commands share; some of them are settings.

    add : ``add(parser)``, adds the options
    names : names of the options that are settings
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
    """Return the settings of a command line, by name."""
    return {name: getattr(args, name) for one in declared for name in one.names}


def defaults_of(declared: Sequence[Declared], what: str, **others: Any) -> dict[str, Any]:
    """Return the default settings, updated by `others`.

    Raises
    ------
    TypeError
        If one of `others` is not a setting of `what`.
    """
    parser = argparse.ArgumentParser()
    add_options(parser, declared)
    found = values_of(parser.parse_args([]), declared)
    if unknown := set(others) - set(found):
        raise TypeError(f"{', '.join(sorted(unknown))}: no setting of {what}")
    return {**found, **others}
