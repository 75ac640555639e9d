"""Where a command's results go besides the table: JSON and a plot.

`check` is called before the work, so that nobody measures for an hour what cannot be written.
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

PRINT = "-"  # the name that means standard output


def add_options(parser: Any, is_drawn: bool = True) -> None:
    """Add the options; without a picture ``--json`` alone."""
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
        If a plot is asked for and matplotlib is not installed.
    OSError, WrongCommandLine
        If a file cannot be written, or matplotlib does not write that kind of plot.
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
            f"--plot {args.plot}: nothing draws .{kind}; choose from .{', .'.join(known)}"
        )
    files.check(path)


def check_all(read: dict[str, str | None], written: dict[str, str | None], *printed: str) -> None:
    """Refuse files that a command would read and write, before it does.

    `read` and `written` are files by how the command line calls them; `printed` are those of the
    second that - prints.
    """
    check_distinct({**read, **written})
    check_no_print(written, *printed)
    for path in written.values():
        check_file(path)


def check_file(path: str | None) -> None:
    """Refuse a file that cannot be written; None and - are none."""
    if path is not None and path != PRINT:
        files.check(path)


def check_no_print(named: dict[str, str | None], *printed: str) -> None:
    """Refuse to print what is no text, and two things on one output; as `check_all`."""
    for flag, path in named.items():
        if path == PRINT and flag not in printed:
            raise options.WrongCommandLine(
                f"{flag} - would be a file of that name; {flag} ./- writes it, and {flag} "
                "/dev/stdout to standard output"
            )
    found = [flag for flag, path in named.items() if path == PRINT or is_printed(path)]
    if len(found) > 1:
        raise options.WrongCommandLine(f"{' and '.join(found)} would both go to standard output")


def is_printed(path: str | None) -> bool:
    """Whether a file is what standard output goes to; devices take what comes."""
    if path is None or path == PRINT or sys.__stdout__ is None:
        return False
    try:
        status, own = os.stat(path), os.fstat(sys.__stdout__.fileno())
    except (OSError, ValueError):
        return False
    return os.path.samestat(status, own) and not stat.S_ISCHR(own.st_mode)


def check_distinct(named: dict[str, str | None]) -> None:
    """Refuse that two files are one, of which the later would overwrite the earlier."""
    given = [(flag, path) for flag, path in named.items() if path not in (None, PRINT)]
    for (flag, path), (other, second) in itertools.combinations(given, 2):
        if files.overwrite_each_other(str(path), str(second)):
            raise options.WrongCommandLine(f"{flag} and {other} name one file; they need two")


def write_json(path: str | None, told: Any) -> None:
    """Write JSON to a file, or print it, if that is asked for."""
    if path is None:
        return
    write_text(path, json.dumps(told, indent=2, allow_nan=False))


def write_text(path: str, text: str) -> None:
    """Write text to a file, or print it."""
    if path == PRINT:
        console.out(text)
    else:
        files.replace(Path(path), f"{text.rstrip()}\n".encode())


def show_fit(args: Any, facts: list[tuple[str, str]]) -> None:
    """Print what has come of a fit, whose model is in its file, where anybody reads it."""
    table = ("what", "value"), [*facts, ("model", args.model)]
    if is_printed(args.model) or is_printed(args.json):
        for line in tables.text_table(*table).splitlines():
            console.say(line)  # the other would be spoilt
    elif sys.stdout is not None:
        console.show_table(*table)


def store(args: Any, result: dict[str, Any], show: Any, draw: Any) -> None:
    """Print a result, as a table or as JSON, and write the files that were asked for."""
    if args.json != PRINT:
        show(result)
    write_json(args.json, result)
    if args.plot:
        draw(result, args.plot)
