"""Command-line options that several commands share, and the types of their values.

argparse reports a value of the wrong type, with one sentence and exit code 2.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

LOSSES = {
    "classification": (
        *("hinge", "log_loss", "modified_huber", "squared_hinge", "perceptron"),
        *("squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive"),
    ),
    "regression": (
        *("squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive"),
    ),
}
RATINGS_LOSSES = ("squared_error", "logistic", "bpr")
LEARNING_RATES = ("auto", "constant", "optimal", "invscaling", "adaptive", "pa1", "pa2")
RANKS = "mpi"
RUNTIMES = ("auto", "caller", "threads", "processes", RANKS)
FORMATS = (
    *("libsvm", "csv", "npz", "npy", "parquet", "arrow", "jsonl"),
    *("ldac", "mtx", "uci", "arff"),
)
DATA_HELP = (
    "a file or a pipe (LIBSVM text, CSV, JSON lines, Parquet, Arrow, ARFF, .npz, .npy, or counts "
    "as MatrixMarket, LDA-C or a UCI bag of words; plain, .gz, .bz2 or .xz), - for standard "
    "input, or the name of a data set: zipf, zipf-small, breast_cancer, digits, rcv1, covtype, "
    "20newsgroups, a9a, imdb, ..."
)
FACTORISATION = "factorisation"  # the estimator of ratings instead of rows and labels


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors suggest the probable name."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, **settings})

    def error(self, message: str) -> NoReturn:
        """Print the error, the probable name and a pointer to the help, and exit."""
        from hogshare.cli import console
        from hogshare.system.messages import nearest

        message, mark, name = message.partition(" Did you mean ")  # already added by the type
        meant = f"{mark}{name}"
        if found := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            meant = nearest(found[1], re.findall(r"[^\s',]+", found[2]))
        elif found := re.match(r"unrecognized arguments: (--[\w-]+)", message):
            known = _flags(self)
            of_another = found[1] in known
            meant = " It is for another command." if of_another else nearest(found[1], known)
        console.say(f"{self.prog}: error: {message.removesuffix('.')}")
        if meant:
            console.say(meant.strip())
        command = self.prog if self._subparsers is None else f"{self.prog} COMMAND"
        console.say(f"{command} --help lists every option")
        self.exit(2)


def _flags(parser: argparse.ArgumentParser) -> set[str]:
    """Return all options of a parser and of its commands' parsers."""
    known = set()
    for action in parser._actions:
        known |= set(action.option_strings)
        if isinstance(action.choices, dict):
            for other in action.choices.values():
                known |= _flags(other) if isinstance(other, argparse.ArgumentParser) else set()
    return known


class WrongCommandLine(ValueError):
    """Options contradict each other: exit code 2, as for argparse's own errors."""


Number = TypeVar("Number", int, float)


def number(
    kind: Callable[[str], Number], accept: Callable[[Number], bool], words: str
) -> Callable[[str], Number]:
    """Make a type for argparse that returns an accepted number.

    words : description of accepted numbers, for the error
    """

    def parse(text: str) -> Number:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not accept(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return parse


positive_int = number(int, lambda n: n >= 1, "a whole number of at least 1")
jobs = number(int, lambda n: n >= 1 or n == -1, "a number of workers, or -1 for every core")
not_negative_int = number(int, lambda n: n >= 0, "a whole number of at least 0")
not_negative = number(float, lambda x: 0.0 <= x < math.inf, "a number of at least 0")
positive = number(float, lambda x: 0.0 < x < math.inf, "a number above 0")
finite = number(float, math.isfinite, "a finite number")
share = number(float, lambda x: 0.0 <= x <= 1.0, "a number from 0 to 1")
_at_most = number(int, lambda n: n >= 1, "auto, error or a whole number of at least 1")
seed = number(int, lambda n: 0 <= n < 2**32, "a whole number from 0 to 4294967295")


# the options that replace the library's parameters in messages
FLAGS = {
    "n_jobs": ("n_jobs",),
    "n_workers": ("n_jobs", "workers"),
    "max_iter": ("epochs",),
    "random_state": ("seed",),
    "n_features": ("n_features",),
    "learning_rate": ("learning_rate",),
    "l1_ratio": ("l1_ratio",),
    "class_weight": ("class_weight",),
    "label_column": ("label_column",),
}
# these names are also English words: they are parameters only if followed by a value
WORDS = ("runtime", "barrier", "loss", "penalty", "alpha", "tol")
_NAMES = re.compile(
    rf"(?<![\w./'\"-])(?:(?P<word>{'|'.join(WORDS)})=|(?P<name>{'|'.join(FLAGS)})(?:=|(?![\w/'\"])"
    r"(?!\.\w)))(?P<value>'[^']*')?"
)

# advice to set parameters that the command has no option for
_OTHERS = re.compile(r" [A-Z][^.]*(?<![\w./'\"-])solver='[^.]*\.")


def words_of(args: argparse.Namespace) -> Callable[[str], str]:
    """Return a function that replaces parameters in a library message by command options."""
    known = vars(args)

    def in_words(text: str) -> str:
        def flag(found: re.Match[str]) -> str:
            options = FLAGS.get(found["name"], (found["word"],))
            dest = next((name for name in options if name in known), None)
            if dest is None and "estimator" in known:  # estimator options are absent unless given
                dest = options[0]
            if dest is None:
                return found[0]
            name, value = flag_of(dest), found["value"]
            if value:
                return f"{name} {value[1:-1]}"
            return f"{name} " if found[0].endswith("=") else name

        return _NAMES.sub(flag, _OTHERS.sub("", text))

    return in_words


def worker_counts(text: str) -> list[int]:
    """Parse comma-separated worker counts, such as ``1,2,4``."""
    return sorted({positive_int(part) for part in text.split(",")})


def layers(text: str) -> tuple[int, ...]:
    """Parse comma-separated units of hidden layers, in order."""
    return tuple(positive_int(part) for part in text.split(","))


def targets(text: str) -> tuple[float, ...]:
    """Parse comma-separated distances from the optimum, such as ``1e-1,1e-2``."""
    return tuple(sorted({positive(part) for part in text.split(",")}, reverse=True))


def names(text: str) -> list[str]:
    """Parse comma-separated names."""
    return [part.strip() for part in text.split(",") if part.strip()]


def categories(text: str) -> str | int:
    """Parse ``auto``, ``error`` or the largest number of different texts of a column."""
    return text if text in ("auto", "error") else _at_most(text)


def or_none(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make a type for argparse: like `parse`, but ``none`` gives None."""
    return lambda text: None if text == "none" else parse(text)


poll = or_none(positive)  # seconds between polls; none: pass as soon as the barrier allows
tolerance = or_none(not_negative)  # none: never stop early
_interval = or_none(number(int, lambda n: n >= 1, "auto, none or a whole number of at least 1"))


def exchange(text: str) -> str | int | None:
    """Parse ``auto``, ``none`` (one vector for all workers) or a number of rows per exchange."""
    return "auto" if text == "auto" else _interval(text)


def pair(
    first: Callable[[str], float], second: Callable[[str], float], what: str
) -> Callable[[str], tuple[float, float]]:
    """Make a type for argparse: two comma-separated numbers."""

    def parse(text: str) -> tuple[float, float]:
        parts = text.split(",")
        if len(parts) != 2:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return first(parts[0]), second(parts[1])

    return parse


link = pair(not_negative, positive, "a latency and a bandwidth, such as 0.001,1e6")
slow_workers = pair(share, positive, "a share and a factor, such as 0.05,4")


def known_name(text: str, known: Iterable[str]) -> str:
    """Return the known spelling of a name, ignoring case."""
    from hogshare.system.messages import listed, nearest

    known = tuple(known)
    found = [name for name in known if name.lower() == text.strip().lower()]
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not {listed(known)}.{nearest(text, known)}")
    return found[0]


def part(name: str) -> Callable[[str], str]:
    """Make a type for argparse: a name for a part of a run, as `hogshare.solve` reads it."""

    def parse(text: str) -> str:
        from hogshare.solvers.choice_names import KNOWN

        return known_name(text, KNOWN[name])

    return parse


def graph(text: str) -> str:
    """Check the name of a graph, such as ``root``, and return it."""
    from hogshare.topology import GRAPHS

    return known_name(text, GRAPHS)


def delimiter(text: str) -> str:
    """Parse the separator of CSV cells: a name or a character."""
    from hogshare.io.csv_records import NAMES

    mark = NAMES.get(text.lower(), "\t" if text == r"\t" else text)
    if mark not in NAMES.values() and (len(mark) != 1 or mark.isalnum() or mark in "+-._\"'\r\n "):
        raise argparse.ArgumentTypeError(
            f"{text!r} is none of {', '.join(NAMES)} and not a single mark"
        )
    return mark


def read_by(module: str) -> Callable[[str], str]:
    """Make a type for argparse: text that a module's `parse` accepts, returned in lower case."""
    return lambda text: checked(importlib.import_module(module).parse, text)


barrier = read_by("hogshare.barriers")  # such as ssp:4
block_time = read_by("hogshare.simulation.block_times")  # such as uniform:0.5,1.5
stragglers = read_by("hogshare.stragglers")  # such as cds:0.6


def checked(parse: Callable[[str], object], text: str) -> str:
    """Return a name that `parse` accepts, in lower case."""
    try:
        parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text.strip().lower()


class HelpFormatter(argparse.HelpFormatter):
    """Fill paragraphs, except indented lines and examples, which users copy."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.split("\n\n")
        return "\n\n".join(
            part
            if "\n  " in part or part.startswith("example:")
            else super(HelpFormatter, self)._fill_text(part, width, indent)
            for part in parts
        )


def add_data_options(parser: Any) -> None:
    """Add the options for the source and the precision of rows and labels."""
    add_file_options(
        parser, "0 if an index 0 occurs, else 1", "the one called label, target, class or y"
    )
    parser.add_argument(
        "--n-features",
        type=positive_int,
        metavar="N",
        help="columns of LIBSVM text or LDA-C; a larger index is an error (default: the largest "
        "index)",
    )
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="labels for rows without them: a .npy array, or text with one label per line; -: "
        "standard input",
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64"),
        default="float64",
        help="precision of rows and model (default: %(default)s)",
    )


def add_table_options(parser: Any) -> None:
    """Add the options for encoding the columns of a table."""
    parser.add_argument(
        "--missing",
        choices=("mean", "indicator", "drop", "error"),
        help="how to treat missing values. mean: fill in the column's mean; indicator: the mean, "
        "and a column of 0 and 1 that marks them; drop: leave out their rows; or error "
        "(default: mean)",
    )
    parser.add_argument(
        "--categories",
        type=categories,
        metavar="auto|error|N",
        help="how to treat text. auto or N: a column of 0 and 1 for each different text, up to "
        "1,000 or N per column; error (default: auto)",
    )
    parser.add_argument(
        "--scale",
        action=argparse.BooleanOptionalAction,
        help="scale columns of numbers to a standard deviation of 1 and, in dense rows, a mean of "
        "0; the model scales rows that it predicts in the same way (default: if --estimator is "
        "auto and columns of small numbers need it)",
    )


def add_file_options(parser: Any, base: str, label: str) -> None:
    """Add the options for finding and reading a file.

    base : description of the default start of indices
    label : description of the default labels' column
    """
    parser.add_argument(
        "--data-home",
        metavar="DIR",
        help="folder of local data sets (default: the environment's HOGSHARE_DATA)",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="of DATA: libsvm, csv, npz, npy, parquet, arrow, jsonl (JSON lines), ldac (LDA-C), "
        "mtx (MatrixMarket), uci (a bag of words), arff (default: by the name and the first bytes)",
    )
    parser.add_argument(
        "--label-column",
        metavar="COLUMN",
        help="of a table: the name of the labels' column, or its number (1: the first, -1: the "
        f"last; default: {label})",
    )
    parser.add_argument(
        "--columns",
        type=names,
        metavar="COLUMN[,...]",
        help="of a table: the columns to use, by name or number, such as age,city or 1,3-7 "
        "(default: all but the labels')",
    )
    parser.add_argument(
        "--drop",
        type=names,
        metavar="COLUMN[,...]",
        help="of a table: columns to leave out, such as an id",
    )
    parser.add_argument(
        "--delimiter",
        type=delimiter,
        metavar="MARK",
        help="separator of CSV cells: comma, semicolon, tab, bar, blanks or a character (default: "
        "the one that gives the first lines equal numbers of cells)",
    )
    parser.add_argument(
        "--decimal",
        choices=("point", "comma"),
        help="decimal separator of CSV; the other one, blanks or apostrophes separate thousands, "
        "as in 1,234.5 or 1.234,5 (default: a point, and no separator of thousands)",
    )
    parser.add_argument(
        "--header",
        choices=("auto", "yes", "no"),
        default="auto",
        help="of CSV: whether the first line has names (default: detected)",
    )
    bases = parser.add_mutually_exclusive_group()
    bases.add_argument(
        "--zero-based",
        dest="zero_based",
        action="store_const",
        const=True,
        default="auto",
        help=f"indices of LIBSVM text begin at 0 (default: {base})",
    )
    bases.add_argument(
        "--one-based",
        dest="zero_based",
        action="store_const",
        const=False,
        default="auto",
        help="indices of LIBSVM text begin at 1",
    )


def workers(args: Any) -> dict[str, Any]:
    """Return the estimator's parameters `n_jobs` and `runtime` from the command line."""
    jobs = args.n_jobs or (1 if args.runtime == "caller" else -1)
    return {"n_jobs": jobs, "runtime": args.runtime}


def add_quiet(parser: Any, more: str = "") -> None:
    """Add -q, and -v if more output is possible."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("-q", "--quiet", action="store_true", help="print only warnings and errors")
    if more:
        group.add_argument("-v", "--verbose", action="store_true", help=f"print progress {more}")


def flag_of(name: str, value: Any = None) -> str:
    """Return the option that sets a name of the parsed command line to a value."""
    if name == "zero_based" and value is False:
        return "--one-based"
    return f"--{name.replace('_', '-')}"


def add_loss_options(parser: Any, default: str | None, default_help: str) -> None:
    """Add loss and penalty, with scikit-learn's names."""
    parser.add_argument(
        "--loss",
        choices=LOSSES["classification"],
        default=default,
        metavar="LOSS",
        help=f"{', '.join(LOSSES['classification'])} (default: {default_help})",
    )
    parser.add_argument(
        "--penalty", choices=("l2", "l1", "elasticnet", "none"), default="l2", help="(default: l2)"
    )
    parser.add_argument(
        "--alpha", type=not_negative, default=1e-4, help="strength of the penalty (default: 1e-4)"
    )
    parser.add_argument(
        "--l1-ratio", type=share, default=0.15, help="share of l1 in elasticnet (default: 0.15)"
    )
