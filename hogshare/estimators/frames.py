"""Ratings in data frames: the columns of users, items and ratings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

PARTS = ("user", "item", "rating")


class RatingsInput(NamedTuple):
    """The ratings for a fit: three array-likes, or a matrix as `users` and None as the others."""

    users: Any
    items: Any
    ratings: Any


def columns_of(users: Any, items: Any, ratings: Any, columns: Any) -> RatingsInput:
    """Return the columns of a data frame passed as `users`, or the arguments if it is none.

    columns : names of the frame's columns of users, items and ratings; None to find them by name

    Raises
    ------
    TypeError, ValueError
        If the frame lacks such columns, or if they are ambiguous.
    """
    names = _names_of(users)
    if names is None:
        if columns is not None:
            raise TypeError(
                "columns are names in a data frame, which must be passed as users; got "
                f"{type(users).__name__}."
            )
        return RatingsInput(users, items, ratings)
    if items is not None or ratings is not None:
        raise TypeError(
            "a data frame contains users, items and ratings: pass neither items nor ratings with "
            "it, and name its columns by columns=(user, item, rating)."
        )
    chosen = _found(names) if columns is None else _checked(names, columns)
    return RatingsInput(*(None if name is None else users[name] for name in chosen))


def _names_of(frame: Any) -> list[Any] | None:
    """Return the column names of a pandas, polars, Arrow or similar frame; None for other input."""
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    if names is None or callable(names) or not hasattr(frame, "__getitem__"):
        return None
    return list(names)


def _found(names: list[Any]) -> list[Any]:
    """Return the names of the columns "user", "item" and "rating", or of their plurals."""
    found: list[Any] = []
    for part in PARTS:
        fitting = [name for name in names if str(name).lower() in (part, f"{part}s")]
        if len(fitting) > 1:
            raise ValueError(
                f"the data frame has several columns of {part}s, {_listed(fitting)}: name one by "
                "columns=(user, item, rating)."
            )
        found += fitting or [None]
    user, item, rating = found
    missing = [part for part, name in zip(PARTS, found, strict=True) if name is None]
    # a third column with another name may contain ratings, so these may not be pairs alone
    if user is None or item is None or (rating is None and len(names) > 2):
        what = " and ".join(f"no column {part!r}" for part in missing)
        pairs = f"; columns=({user!r}, {item!r}) fits pairs alone" if missing == ["rating"] else ""
        raise ValueError(
            f"the data frame has {what}, and these: {_listed(names)}. Name its columns by "
            f"columns=(user, item, rating){pairs}."
        )
    return found


def _checked(names: list[Any], columns: Any) -> Sequence[Any]:
    """Check given names of columns; return three names, the last None if it is not given."""
    if isinstance(columns, str) or not hasattr(columns, "__len__") or len(columns) not in (2, 3):
        raise ValueError(
            "columns must be the names of the users', the items' and the ratings' column, or of "
            f"the first two for pairs alone; got {columns!r}."
        )
    for name in columns:
        if names.count(name) != 1:
            found = "no column" if name not in names else "several columns"
            raise ValueError(f"the data frame has {found} {name!r}, and these: {_listed(names)}.")
    return [*columns, None][:3]


def _listed(names: Sequence[Any]) -> str:
    return ", ".join(map(repr, names))
