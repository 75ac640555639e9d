"""Choose the columns of CSV for rows and for labels, from the command line or the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hogshare.cli import console
from hogshare.io.csv_text import listed
from hogshare.io.rows import Choose, ColumnChoice, Rows
from hogshare.system.messages import counted, nearest

if TYPE_CHECKING:
    from hogshare.io.encoding import TableEncoder

RANGE = re.compile(r"(\d+)-(\d+)")  # of column numbers
# lower-case names that mark a column as the labels' without --label-column
LABELS = ("label", "labels", "target", "class", "y")


@dataclass(frozen=True)
class Expected:
    """Properties of the file that a model was fitted to, which rows to predict must match."""

    n_features: int
    zero_based: bool | None  # whether indices of the fit's file began at 0; None if unknown
    name: str  # of the model file
    names: tuple[str, ...] | None = None  # of the columns, if they had names
    label: str | int | None = None  # the labels' column, by its name or its place from 1
    encoder: TableEncoder | None = None  # makes the model's rows from these columns


def to_fit(args: Any, name: str, labelled: bool = True) -> Choose:
    """Return a function that chooses the columns of a file to fit.

    The labels' column is the column of ``--label-column``, or the only column with a name in
    `LABELS`. It may be missing if labels are not required (`labelled`). The rows have the columns
    that ``--columns`` and ``--drop`` select, by default all columns, without the labels' column.
    """

    def choose(names: tuple[str, ...] | None, width: int) -> ColumnChoice:
        used = _used(args, names, width, name)
        if args.labels:
            return ColumnChoice(used, None)
        if args.label_column is not None:
            label = _place(args.label_column, names, width, name)
        else:
            plain = [n for n in names or () if n.lower() in LABELS]
            if len(plain) != 1 and not labelled:
                return ColumnChoice(used, None)
            if names is None or len(plain) != 1:
                known = listed(names) if names else f"1 is the first and -1 the last of {width}"
                raise ValueError(
                    f"{name}: which column has the labels? Set --label-column "
                    f"{'NAME' if names else 'NUMBER'} ({known})"
                )
            label = names.index(plain[0])
            console.note(f"{name}: the labels are column {label + 1} ({plain[0]!r}), by its name")
        if width == 1:
            raise ValueError(f"{name}: the only column has the labels; rows need others")
        used = [k for k in used if k != label]
        if not used:
            raise ValueError(f"{name}: --columns and --drop leave only the labels' column")
        return ColumnChoice(used, label)

    return choose


def to_predict(args: Any, name: str, expected: Expected) -> Choose:
    """Return a function that chooses the model's columns in a file to predict.

    Columns are found by name if both the model and the file have names, else by place.
    """

    def choose(names: tuple[str, ...] | None, width: int) -> ColumnChoice:
        if expected.names is not None and names is not None:
            return _by_name(args, name, expected, names)
        if expected.names is not None:
            console.say(f"{name}: no names in its first line; columns are taken in their order")
        elif names is not None:
            console.say(f"{expected.name} has no names of columns; they are taken in their order")
        return _by_order(args, name, expected, names, width)

    return choose


def names_of(found: Rows) -> tuple[tuple[str, ...] | None, str | int | None]:
    """Return the names of the rows' columns, if any, and the labels' column (name or place)."""
    if found.table is None:
        return None, None
    names, (columns, label) = found.table.names, found.table.choice
    if names is None:
        return None, label if label is None else label + 1
    return tuple(names[k] for k in columns), label if label is None else names[label]


def _by_name(args: Any, name: str, expected: Expected, names: tuple[str, ...]) -> ColumnChoice:
    wanted = expected.names or ()
    used = {names[k] for k in _used(args, names, len(names), name)}
    missing = [n for n in wanted if n not in used]
    if missing:
        more = f" ({len(missing) - 1} more are missing)" if len(missing) > 1 else ""
        meant = nearest(missing[0], [n for n in names if n not in wanted])
        raise ValueError(
            f"{name}: no column is called {missing[0]!r}{more}, and {expected.name} was fitted to "
            f"it; there are {listed(names)}{meant and '.' + meant}"
        )
    columns = [names.index(n) for n in wanted]
    if columns != sorted(columns):
        console.note(f"{name}: columns in another order than the model's were found by their names")
    label = None
    if args.label_column is not None:
        label = _place(args.label_column, names, len(names), name)
        if label in columns:
            raise ValueError(
                f"{name}: --label-column {args.label_column} is {names[label]!r}, which "
                f"{expected.name} was fitted to: it has no labels; name another column, or none"
            )
    elif expected.label in names and expected.label not in wanted:
        label = names.index(str(expected.label))
    others = [n for k, n in enumerate(names) if k not in columns and k != label]
    if others:
        console.say(f"{name}: left out columns that the model does not have: {listed(others)}")
    return ColumnChoice(columns, label)


def _by_order(
    args: Any, name: str, expected: Expected, names: tuple[str, ...] | None, width: int
) -> ColumnChoice:
    label = None
    if args.label_column is not None:
        label = _place(args.label_column, names, width, name)
    elif len(_used(args, names, width, name)) == expected.n_features + 1:
        plain = [k for k, n in enumerate(names or ()) if n.lower() in LABELS]
        if isinstance(expected.label, int) and expected.label <= width:
            label = expected.label - 1
        elif len(plain) == 1:
            label = plain[0]
        if label is not None:
            console.note(f"{name}: the labels are column {label + 1}")
    columns = [k for k in _used(args, names, width, name) if k != label]
    if len(columns) != expected.n_features:
        raise ValueError(
            f"{name}: {counted(len(columns), 'column')}, and {expected.name} was fitted to "
            f"{expected.n_features:,}; --label-column NUMBER says which has labels, --columns and "
            "--drop which are used"
        )
    return ColumnChoice(columns, label)


def _used(args: Any, names: tuple[str, ...] | None, width: int, name: str) -> list[int]:
    """Return the places of the columns that ``--columns`` and ``--drop`` select."""
    found = set(range(width))
    if (wanted := getattr(args, "columns", None)) is not None:
        found = _places(wanted, names, width, name, "--columns")
    if (dropped := getattr(args, "drop", None)) is not None:
        found -= _places(dropped, names, width, name, "--drop")
    return sorted(found)


def _places(
    wanted: list[str], names: tuple[str, ...] | None, width: int, name: str, flag: str
) -> set[int]:
    """Return the places of columns given by names, numbers from 1, or ranges of numbers."""
    found: set[int] = set()
    for part in wanted:
        ends = RANGE.fullmatch(part)
        if ends is None or part in (names or ()):
            found.add(_place(part, names, width, name, flag))
            continue
        first, last = (_place(end, None, width, name, flag) for end in ends.groups())
        if first > last:
            raise ValueError(f"{name}: {flag} {part}: the range ends before it begins")
        found |= set(range(first, last + 1))
    return found


def _place(
    column: str,
    names: tuple[str, ...] | None,
    width: int,
    name: str,
    flag: str = "--label-column",
) -> int:
    """Return the place, from 0, of a column given by name or number (from 1; -1 is the last)."""
    if names is not None and column in names:
        return names.index(column)
    try:
        number = int(column)
    except ValueError:
        known = (
            f"there are {listed(names)}" if names else "its first line has no names; give a number"
        )
        meant = nearest(column, names or ())
        raise ValueError(
            f"{name}: no column is called {column!r} ({flag}); {known}{meant and '.' + meant}"
        ) from None
    if not 1 <= abs(number) <= width:
        raise ValueError(f"{name}: {flag} {column}, and it has {counted(width, 'column')}")
    return number - 1 if number > 0 else width + number
