"""Ratings on the command line: lines of user, item and rating, for ``--estimator factorisation``.

Ids are the words that are written, so that 7 and 07 are two; what stands for a missing one is
refused. Cells beyond the third (a time, as a rule) are left out.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hogshare.cli import console, options, rows

ESTIMATOR, CLASS = options.FACTORISATION, "MatrixFactorization"
MISSING = {"", "nan", "NaN", "NaT", "<NA>"}  # what programs write for an id that is missing
# options of files that have no meaning here, and what they are if nobody names them
REFUSED = {"labels": None, "label_column": None, "n_features": None, "zero_based": "auto"}


# of a column of ids
THINGS = "user|item|customer|product|movie|book|song|track|artist"
NAME = re.compile(rf"(?i:([a-z]+[_ .-])?id|({THINGS})s?([_ .-]?(id|name))?)|[a-z]+I[dD]")

# of the columns of a first line, and which of the three they must be; a time is none of them
PLACES = {
    "user": (re.compile(r"(?i)(user|customer|reviewer)s?([_ .-]?(id|name))?"), 0),
    "rating": (re.compile(r"(?i)ratings?|[a-z]+[_ .-]ratings?|stars|score"), 2),
    "time": (re.compile(r"(?i)time([_ .-]?stamp)?|date"), 3),
}

COLONS = b"::"  # between cells of MovieLens' older files, where CSV has a single character
MARK = "\x1f"  # a character that separates, and is in no text, in their stead

Line = tuple[str, list[str]]  # its place, and its cells


class Ratings(NamedTuple):
    """Lines of a file; without values where they are pairs alone."""

    users: list[str]
    items: list[str]
    values: list[float] | None


class Known(NamedTuple):
    """Ids of a model."""

    users: frozenset[str]
    items: frozenset[str]

    def count(self, cells: Sequence[str]) -> int:
        """How many of a line's two ids it has."""
        return (cells[0] in self.users) + (cells[1] in self.items)


NOBODY = Known(frozenset(), frozenset())


def load(args: Any, data: str, known: Known | None = None) -> Ratings:
    """Read a file of text, with ratings or of pairs alone, for a model with ids that are `known`.

    Raises
    ------
    WrongCommandLine, ValueError
    """
    for name, default in REFUSED.items():
        if (value := getattr(args, name, default)) != default:
            raise options.WrongCommandLine(
                f"{options.flag_of(name, value)} is not for {ESTIMATOR}: a line of its files is "
                "user, item and rating"
            )
    if args.format not in (None, "csv"):
        raise options.WrongCommandLine(
            f"--format {args.format} is not for {ESTIMATOR}: a line of its files is user, item and "
            "rating, as in CSV"
        )
    users: list[str] = []
    items: list[str] = []
    values: list[float] = []
    rated = None
    for place, cells in _without_names(args, _cells(args), known or NOBODY):
        if len(cells) < 2:
            raise ValueError(
                f"{place}: user and item were expected, with a rating or without, and there are "
                f"{len(cells)} cells"
            )
        for name, word in zip(("user", "item"), cells, strict=False):
            if word.strip() in MISSING:
                raise ValueError(
                    f"{place}: the {name} is {word!r}, which is no id: give it one, or leave the "
                    "line out"
                )
        users.append(cells[0])
        items.append(cells[1])
        if rated is None:
            rated = len(cells) > 2
        if rated != (len(cells) > 2):
            what = ("no rating", "others have one") if rated else ("a rating", "others have none")
            raise ValueError(f"{place}: there is {what[0]}, and {what[1]}")
        if rated:
            values.append(_number(cells[2], place))
    if not users:
        raise ValueError(f"{data}: there are no ratings")
    return Ratings(users, items, values or None)


def _cells(args: Any) -> Iterator[Line]:
    """Each record's place and cells."""
    from hogshare.io import csvrecords

    with rows.opened(args) as source:
        if source is None:
            raise ValueError(f"{args.data}: no file of that name, and no data set of ratings")
        mark, blocks = csvrecords.opened(source, args.delimiter)
        colons = None if args.delimiter is None else False
        for lines in blocks:
            if colons is None:
                *_, (_, second) = itertools.islice(csvrecords.records(lines, mark), 2)
                colons = _has_colons(second, csvrecords.split(second, mark))
            if colons:
                lines = dataclasses.replace(lines, text=lines.text.replace(COLONS, MARK.encode()))
            for number, cells in csvrecords.cells(lines, MARK if colons else mark):
                yield f"{lines.name}, line {number}", cells


def _has_colons(record: bytes, cells: list[str]) -> bool:
    """Whether `::` separates: ids may have it too, in a line that has cells without it."""
    from hogshare.io.sniffing import is_number

    parts = record.split(COLONS)
    if len(parts) < 2:
        return False
    return len(cells) < 2 or COLONS.decode() in cells or (len(parts) > 2 and is_number(parts[2]))


def _without_names(args: Any, cells: Iterator[Line], known: Known) -> Iterator[Line]:
    """All lines but a first one that has names."""
    first = list(itertools.islice(cells, 2))
    names = args.header == "yes"
    if args.header == "auto" and first:
        names = _are_names(first[0][1], first[-1][1], known)
    if names and first:
        _check_names(*first[0])
    return itertools.chain(first[int(names) :], cells)


def _are_names(cells: list[str], others: list[str], known: Known) -> bool:
    """Whether a first line says what the others have.

    It has no number where ratings are; or neither of its ids is the model's, and it has anything
    else above a number, or two that are used as names and that no id of the model is like.
    """
    from hogshare.io.sniffing import is_number

    if len(cells) > 2:
        return cells[2].strip() not in MISSING and not is_number(cells[2])
    if len(cells) < 2 or known.count(cells):
        return False
    above = (is_number(other) > is_number(cell) for cell, other in zip(cells, others, strict=False))
    if any(above):
        return True
    alike = any(map(NAME.fullmatch, itertools.chain(known.users, known.items)))
    return all(map(NAME.fullmatch, cells)) and not alike


def _check_names(place: str, names: list[str]) -> None:
    """Refuse columns in another order, whose numbers would be fitted as well.

    Raises
    ------
    ValueError
    """
    for k, name in enumerate(names):
        for what, (pattern, wanted) in PLACES.items():
            if pattern.fullmatch(name) and (k < wanted or (k > wanted and what != "time")):
                raise ValueError(
                    f"{place}: column {k + 1} is {name!r}, and the columns must be user, item and "
                    "rating (or user and item alone), in this order: write them so, or rename it"
                )


def _number(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{place}: the rating {text!r} is no number") from None
    if not math.isfinite(value):
        raise ValueError(f"{place}: the rating is {text}")
    return value


def predict(args: Any, estimator: Any) -> Iterator[list[str]]:
    """All predictions, one for each line; say the score where there are ratings."""
    known = Known(frozenset(estimator.users_.tolist()), frozenset(estimator.items_.tolist()))
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
