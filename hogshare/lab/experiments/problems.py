"""The problem of a bench: a linear problem on rows, or a named one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hogshare.cli import command_rows, options, rating_files
from hogshare.lab.harness.settings import Group

if TYPE_CHECKING:
    from hogshare.lab.studies.named_problems import Family

LINEAR = "linear"
SMALL = "zipf-small"  # the default data of a linear problem
PROBLEM_HELP = (
    "linear: on --data, with --loss and a penalty; network:A-B-...-C, such as "
    "network:400-100-50-20-10: units of inputs, hidden layers and outputs, where 1 output is for "
    "two classes; lenet, cifar10-full: Caffe's two; factorisation; topics. All but linear make "
    "their own rows if --data names none (default: %(default)s)"
)


def problem(text: str) -> str:
    """Return the name of a bench's problem if it is valid, as the type of an option."""
    word = text.strip().lower()
    if word == LINEAR:  # needs no further imports
        return word
    from hogshare.lab.studies import named_problems

    return options.checked(named_problems.family_of, word)


def add_options(parser: Any) -> None:
    """Add the options for the problem and its rows."""
    parser.add_argument(
        "--problem", type=problem, default=LINEAR, metavar="PROBLEM", help=PROBLEM_HELP
    )
    parser.add_argument(
        "--data",
        help=f"{options.DATA_HELP}; for a factorisation a file of user, item and rating; for "
        f"topics counts of words (default: {SMALL}, or synthetic rows)",
    )
    parser.add_argument(
        "--rows",
        type=options.positive_int,
        metavar="N",
        help="number of synthetic rows, if --data names none (default: by the problem)",
    )
    options.add_data_options(parser)


PROBLEM = Group(add_options, ("problem", "data", "dtype"))


def check(args: Any, linear: dict[str, bool]) -> None:
    """Refuse options that do not fit the problem.

    Parameters
    ----------
    args : Namespace
        The options of the command line.
    linear : dict
        The options that are for linear problems only, and whether each is given.

    Raises
    ------
    WrongCommandLine
        If an option does not fit.
    """
    if args.problem == LINEAR:
        args.data = args.data or SMALL
        if args.rows:
            raise options.WrongCommandLine("--rows is for a --problem that makes its own rows")
        return
    for name, is_given in linear.items():
        if is_given:
            raise options.WrongCommandLine(f"{name} is for --problem linear, not {args.problem}")
    if args.data is None and args.labels:
        raise options.WrongCommandLine(f"--labels needs --data: {args.problem} makes both")
    if args.data is not None and args.rows:
        raise options.WrongCommandLine("--rows is for synthetic rows: leave out --rows or --data")


def given(args: Any, family: Family) -> Any:
    """Return the data of ``--data`` for a named problem: rows, ratings, pairs or documents."""
    if args.data is None:
        return None
    if family.reads in ("ratings", "pairs"):
        return rating_files.load(args, args.data)
    if family.reads == "documents":
        return command_rows.load(args, args.data, labelled=False).X
    X, y, *_ = command_rows.load(args, args.data)
    return X, command_rows.need_labels(y, args.data)


def data_of(args: Any) -> tuple[Family, Any]:
    """Return the family of the problem's name, and the data that it checked or made."""
    from hogshare.lab.studies import named_problems

    family = named_problems.family_of(args.problem)
    data = family.data(given(args, family), args.rows or family.makes, args.dtype, args.seed)
    args.data = args.data or f"made, seed {args.seed}"
    return family, data
