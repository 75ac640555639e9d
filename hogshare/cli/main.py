"""Parse the command line, run one command, and report any error as one sentence.

Exit codes: 0: success; 1: error; 2: wrong command line; 130: stopped by Ctrl-C; 141: the reader of
the output is gone (as for a program ended by SIGPIPE). Data go to standard output, everything else
to standard error. ``HOGSHARE_DEBUG=1`` shows tracebacks.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from hogshare._version import __version__
from hogshare.cli import console, doctor, fit, info, options, predict, warm

DESCRIPTION = "One model on every core."
EXAMPLES = """\
examples:
  hogshare bench speedup --data zipf --workers 1,2,4 --plot speedup.png
  hogshare bench barriers --workers 32 --stragglers pcs --barriers asp bsp throttled:22
  hogshare bench reduce --workers 8 --graphs ring root all
  hogshare fit train.svm.xz --model model.npz --loss log_loss
  hogshare fit train.svm.xz --model model.npz --estimator logistic --C 10
  hogshare predict model.npz test.svm.xz --out labels.txt
  hogshare simulate psp --figure 1a --plot progress.png
  hogshare simulate progress --barrier pbsp:10 --workers 1000000 --blocks 40
  hogshare reproduce all --quick --page claims.md
  hogshare info --json
  hogshare doctor
"""

# expected errors: they are shown as a sentence, without the exception's type
EXPECTED = (ValueError, OSError, MemoryError, ImportError)


class _SayHandler(logging.Handler):
    """Print the library's messages, such as on compiling kernels, on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        console.note(f"hogshare: {record.getMessage()}")

    def __eq__(self, other: object) -> bool:
        # `addHandler` skips equal handlers, so a second call of `main` in a process adds no other
        # one
        return isinstance(other, _SayHandler)

    __hash__ = logging.Handler.__hash__


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command; every command adds its own part."""
    parser = options.Parser(
        prog="hogshare",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"hogshare {__version__}")
    parser.set_defaults(prints=lambda args: True)  # commands that only write files override it
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    from hogshare.lab import experiments as bench
    from hogshare.lab.claims import reproduce
    from hogshare.lab.studies import simulate

    for module in (bench, fit, predict, simulate, reproduce, info, doctor, warm):
        module.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with `argv`, by default the process's arguments; return the exit code."""
    console.fill_streams()
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as leaving:  # --help, --version, or a wrong command line
        return leaving.code if isinstance(leaving.code, int) else 2
    console.be_quiet(getattr(args, "quiet", False))
    in_words = options.words_of(args)

    def say_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        console.say(f"hogshare: warning: {in_words(' '.join(str(message).split()))}")

    logging.getLogger("hogshare").addHandler(_SayHandler())
    logging.getLogger("hogshare").setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = say_warning
            if args.prints(args):
                console.check_output()
            return int(args.run(args))
    except KeyboardInterrupt:
        console.say("hogshare: stopped by Ctrl-C; nothing more was written")
        return 130
    except options.WrongCommandLine as error:
        console.say(f"hogshare: error: {error}")
        return 2
    except BrokenPipeError:
        # the reader of the output is gone: no message can reach it
        _close_output()
        return 128 + signal.SIGPIPE
    except Exception as error:
        if console.is_debugged():
            raise
        if isinstance(error, OSError) and error.filename == console.OUTPUT:
            _close_output()
        console.say(f"hogshare: error: {in_words(sentence(error))}")
        return 1


def _close_output() -> None:
    """Redirect standard output to the null device, so the interpreter's last flush succeeds."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def sentence(error: Exception) -> str:
    """Describe an error on one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename or repr('')}: {error.strerror}"
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, EXPECTED):
        return text
    return f"unexpected {type(error).__name__}: {text} (HOGSHARE_DEBUG=1 shows where)"
