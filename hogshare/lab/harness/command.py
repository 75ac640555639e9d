"""A measurement of the command line: it takes options and returns a dictionary of plain data."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hogshare.cli import command_rows, console, options, outputs, rank_command
from hogshare.lab.harness import settings

Result = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Command(abc.ABC):
    """A part of ``hogshare bench`` or ``hogshare simulate``.

    name : name of the measurement on the command line
    help : line of the measurement in the list of measurements
    description, examples : texts above and below the options
    settings : declarations of the options
    is_drawn : whether the measurement has a figure
    check : ``check(args)``, refuses options that do not fit together, before data are read
    """

    name: str
    help: str
    description: str
    examples: str
    settings: Sequence[settings.Declared]
    check: Callable[[Any], None] | None = None
    is_drawn: bool = True

    def add_to(self, kinds: Any) -> None:
        """Add the measurement and its options to the command."""
        parser = kinds.add_parser(
            self.name,
            help=self.help,
            description=self.description,
            epilog=self.examples,
            formatter_class=options.HelpFormatter,
        )
        settings.add_options(parser, self.settings)
        outputs.add_options(parser, self.is_drawn)
        parser.set_defaults(run=self.run, assigned={})

    def defaults(self, **others: Any) -> dict[str, Any]:
        """Return the default settings, updated by `others`."""
        return settings.defaults_of(self.settings, self.name, **others)

    def run(self, args: Any) -> int:
        """Measure, print, and write the requested files; run on MPI ranks if they are the runtime.

        Returns
        -------
        int
            The exit code.
        """
        if getattr(args, "runtime", "") == options.RANKS:
            return rank_command.run(args, self.run_locally)
        return self.run_locally(args)

    def run_locally(self, args: Any) -> int:
        """Run as `run`, but in this process only; return the exit code."""
        if self.check is not None:
            self.check(args)
        check_files(args)
        outputs.store(args, self.result(args), self.show, self.draw)
        return 0

    @abc.abstractmethod
    def result(self, args: Any) -> Result:
        """Measure with the options of a command line."""

    @abc.abstractmethod
    def show(self, result: Result) -> None:
        """Print the table, and below it its description."""

    def draw(self, result: Result, path: str) -> None:
        """Draw the result and write the figure to a file."""
        raise NotImplementedError


def check_files(args: Any) -> None:
    """Refuse output files that cannot be written, or that are also input files."""
    outputs.check(args)
    if hasattr(args, "data"):
        read = command_rows.files_read(args, "--data", **{"--labels": args.labels})
        outputs.check_distinct({**read, "--json": args.json, "--plot": args.plot})


def warn(warnings: Sequence[str]) -> None:
    """Print warnings."""
    for warning in warnings:
        console.say(f"hogshare: warning: {warning}")
