"""Output of the command: data on standard output, messages and progress on standard error.

Only this file imports rich, and only for output to a terminal. Without rich, and in pipes and
files, all output is plain text without colour.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TextIO

from hogshare.io import tables
from hogshare.system.messages import escaped

SECONDS_BETWEEN_LINES = 5.0
OUTPUT = "standard output"  # used as a file name in errors
_quiet = False  # written by `main`, before a command begins


def is_debugged() -> bool:
    """Whether ``HOGSHARE_DEBUG`` asks for tracebacks."""
    return os.environ.get("HOGSHARE_DEBUG", "0") not in ("", "0")


def say(message: str) -> None:
    """Print a message for the user on standard error, as one line even with odd file names.

    A message that cannot be written is dropped: a missing reader must not end the work.
    """
    if sys.stderr is not None:  # `print` would use standard output instead
        with contextlib.suppress(OSError, ValueError):
            print(escaped(message), file=sys.stderr, flush=True)


def be_quiet(quiet: bool) -> None:
    """Switch notes and progress off, or on again."""
    global _quiet
    _quiet = quiet


def note(message: str) -> None:
    """Print an optional message as `say` does; nothing with --quiet."""
    if not _quiet:
        say(message)


def out(text: str) -> None:
    """Print data on standard output."""
    put(f"{text}\n")


def put(text: str) -> None:
    """Write data on standard output, at once.

    Raises
    ------
    OSError
        If writing fails; the error names standard output.
    BrokenPipeError
        If the reader of standard output is gone.
    """
    check_output()
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, OUTPUT) from error


def check_output() -> None:
    """Raise an error, before the work, if data must be printed and standard output is closed."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed; >/dev/null drops what would be printed", OUTPUT)


def fill_streams() -> None:
    """Open closed standard streams on the null device, or later files would get their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def show_table(header: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print a table on standard output, as plain text unless it is a terminal."""
    rows = [list(row) for row in rows]
    if not _fancy(sys.stdout):
        out((f"{title}\n" if title else "") + tables.text_table(header, rows))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for i, name in enumerate(header):
        words = any(isinstance(row[i], str) for row in rows)
        table.add_column(name, justify="left" if words else "right")
    for row in rows:
        table.add_row(*(tables.cell(value) for value in row))
    Console(file=sys.stdout).print(table)


def show_data(
    as_json: bool, data: object, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Print data as JSON, or as a table of these rows."""
    if as_json:
        out(json.dumps(data, indent=2))
    else:
        show_table(header, rows)


class ProgressMeter(Protocol):
    """A receiver of progress: one call per completed piece of work."""

    def advance(self, what: str = "") -> None:
        """Count a completed piece, and name the next one."""


@contextlib.contextmanager
def progress(total: int, what: str) -> Iterator[ProgressMeter]:
    """Show the progress of long work on standard error.

    On a terminal, with rich installed, progress is a bar; otherwise it is a line every few seconds.
    """
    if _quiet or not _fancy(sys.stderr):
        yield _Lines(total, what)
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(file=sys.stderr), transient=True) as bars:
        yield _Bar(bars, bars.add_task(what, total=total), what)


class _Bar:
    def __init__(self, bars: Any, task: Any, what: str) -> None:
        self.bars, self.task, self.what = bars, task, what

    def advance(self, what: str = "") -> None:
        self.bars.update(self.task, advance=1, description=f"{self.what} {what}".rstrip())


class _Lines:
    def __init__(self, total: int, what: str) -> None:
        self.total, self.what = total, what
        self.done = 0
        self.last = time.monotonic()

    def advance(self, what: str = "") -> None:
        self.done += 1
        if time.monotonic() - self.last >= SECONDS_BETWEEN_LINES:
            note(f"{self.what}: {self.done} of {self.total} {what}".rstrip())
            self.last = time.monotonic()


def _fancy(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty() and importlib.util.find_spec("rich") is not None
