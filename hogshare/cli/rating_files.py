"""Ratings on the command line, for ``--estimator factorisation`` (`hogshare.io.ratings`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hogshare.cli import command_rows, console, options

if TYPE_CHECKING:
    from hogshare.io.ratings import KnownIds, Ratings

ESTIMATOR, CLASS = options.FACTORISATION, "MatrixFactorization"
# options of files that do not apply to ratings, with their defaults
REFUSED = {"labels": None, "label_column": None, "n_features": None, "zero_based": "auto"}


def load(args: Any, data: str, known: KnownIds | None = None) -> Ratings:
    """Read a file of ratings, or of pairs only; `known` are the ids of a fitted model, if any.

    Raises
    ------
    WrongCommandLine, ValueError
        If an option does not apply to ratings, or the file has no valid ratings.
    """
    from hogshare.io import ratings

    for name, default in REFUSED.items():
        if (value := getattr(args, name, default)) != default:
            raise options.WrongCommandLine(
                f"{options.flag_of(name, value)} is not for {ESTIMATOR}: a line of its files is "
                "user, item and rating"
            )
    header = {"auto": None, "yes": True, "no": False}[args.header]
    form = ratings.RatingsFormat(header, args.delimiter, known or ratings.NOBODY)
    with command_rows.opened(args) as source:
        if source is None:
            raise ValueError(f"{data}: no file of that name, and no data set of ratings")
        kind = "csv" if args.format == "csv" else ratings.kind_of(source)
        if args.format not in (None, kind):
            raise options.WrongCommandLine(
                f"--format {args.format} does not fit {data} for {ESTIMATOR}: leave it out, "
                "because the format of ratings is detected from the first bytes"
            )
        return ratings.read(source, form, kind)


def predict(args: Any, estimator: Any) -> Iterator[list[str]]:
    """Yield one list with the predictions of all lines; report the score if there are ratings.

    The estimator's parameter `unknown` becomes "ignore".
    """
    from hogshare.io.ratings import KnownIds

    known = KnownIds(frozenset(estimator.users_.tolist()), frozenset(estimator.items_.tolist()))
    found = load(args, args.data, known)
    estimator.set_params(unknown="ignore")
    predicted = estimator.predict(found.users, found.items)
    yield [f"{value:.9g}" for value in predicted.tolist()]
    strange = [known.count(pair) for pair in zip(found.users, found.items, strict=True)]
    if missing := sum(count < 2 for count in strange):
        first = ", the first line among them (--header yes: it has names)"
        console.say(
            f"{missing:,} of {len(predicted):,} lines have a user or an item that was in no fit"
            f"{'' if strange[0] or args.header != 'auto' else first}: "
            "predicted from the mean and what is known"
        )
    if found.values and len(found.values) > 1 and estimator.loss != "bpr":
        console.say(f"R2: {estimator.score(*found):.6g}, of {len(found.values):,} ratings")
