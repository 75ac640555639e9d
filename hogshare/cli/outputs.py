"""Outputs of a command besides the table: JSON and a plot.

Call `check` before the work, which may take an hour: a file that cannot be written must be refused
at the start.
"""

from __future__ import annotations

import itertools
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

from hogshare.cli import console, options
from hogshare.io import tables
from hogshare.system import files

PRINT = "-"  # the file name for standard output


def add_options(parser: Any, is_drawn: bool = True) -> None:
    """Add the options; for a command without a plot, only ``--json``."""
    parser.add_argument("--json", metavar="FILE", help="write everything measured; -: print it")
    if is_drawn:
        parser.add_argument("--plot", metavar="FILE", help="draw it (needs matplotlib)")
    else:
        parser.set_defaults(plot=None)


def check(args: Any) -> None:
    """Refuse files that cannot be written, and plots that cannot be drawn.

    Raises
    ------
    ImportError
        If a plot is requested and matplotlib is not installed.
    OSError, WrongCommandLine
        If a file cannot be written, or matplotlib does not support the plot's format.
    """
    check_file(args.json)
    if not args.plot:
        return
    from hogshare import figures

    check_distinct({"--json": args.json, "--plot": str(figures.file_of(args.plot))})

    known, path = figures.formats(), figures.file_of(args.plot)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in known:
        raise options.WrongCommandLine(
            f"--plot {args.plot}: .{kind} is not supported; choose from .{', .'.join(known)}"
        )
    files.check(path)


def check_all(read: dict[str, str | None], written: dict[str, str | None], *printed: str) -> None:
    """Refuse, before the work, a file that a command would both read and write.

    read, written : file names by their options
    printed : the options of `written` for which ``-`` means standard output
    """
    check_distinct({**read, **written})
    check_no_print(written, *printed)
    for path in written.values():
        check_file(path)


def check_file(path: str | None) -> None:
    """Refuse a file that cannot be written; None and - are not files."""
    if path is not None and path != PRINT:
        files.check(path)


def check_no_print(named: dict[str, str | None], *printed: str) -> None:
    """Refuse ``-`` for outputs that are not text, and two outputs on standard output.

    named : file names by their options
    printed : the options for which ``-`` means standard output
    """
    for flag, path in named.items():
        if path == PRINT and flag not in printed:
            raise options.WrongCommandLine(
                f"{flag} - is not standard output; use {flag} ./- for a file of that name, or "
                f"{flag} /dev/stdout"
            )
    found = [flag for flag, path in named.items() if path == PRINT or is_printed(path)]
    if len(found) > 1:
        raise options.WrongCommandLine(f"{' and '.join(found)} would both go to standard output")


def is_printed(path: str | None) -> bool:
    """Whether standard output is redirected to this file; devices do not count."""
    if path is None or path == PRINT or sys.__stdout__ is None:
        return False
    try:
        status, own = os.stat(path), os.fstat(sys.__stdout__.fileno())
    except (OSError, ValueError):
        return False
    return os.path.samestat(status, own) and not stat.S_ISCHR(own.st_mode)


def check_distinct(named: dict[str, str | None]) -> None:
    """Refuse two options for one file, because the later output would overwrite the earlier."""
    given = [(flag, path) for flag, path in named.items() if path not in (None, PRINT)]
    for (flag, path), (other, second) in itertools.combinations(given, 2):
        if files.overwrite_each_other(str(path), str(second)):
            raise options.WrongCommandLine(f"{flag} and {other} name one file; they need two")


def write_json(path: str | None, data: Any) -> None:
    """Write data as JSON to a file, or print it; do nothing for None."""
    if path is None:
        return
    write_text(path, json.dumps(data, indent=2, allow_nan=False))


def write_text(path: str, text: str) -> None:
    """Write text to a file, or print it."""
    if path == PRINT:
        console.out(text)
    else:
        files.replace(Path(path), f"{text.rstrip()}\n".encode())


def show_fit(args: Any, facts: list[tuple[str, str]]) -> None:
    """Print the facts of a fit; on standard error if its model or JSON is on standard output."""
    table = ("what", "value"), [*facts, ("model", args.model)]
    if is_printed(args.model) or is_printed(args.json):
        for line in tables.text_table(*table).splitlines():
            console.say(line)  # this text must not mix with the model on standard output
    elif sys.stdout is not None:
        console.show_table(*table)


def store(args: Any, result: dict[str, Any], show: Any, draw: Any) -> None:
    """Print a result as a table or as JSON, and write the requested files."""
    if args.json != PRINT:
        show(result)
    write_json(args.json, result)
    if args.plot:
        draw(result, args.plot)
