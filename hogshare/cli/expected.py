"""What a model that is used expects of the rows that come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    """What a model expects of the rows that it is to predict.

    Attributes
    ----------
    n_features : int
        Columns.
    zero_based : bool or None
        Whether indices began at 0 in the file that it was fitted to; None if nobody knows.
    name : str
        Its file.
    names : tuple of str or None
        Of columns, if the file had any.
    label : str, int or None
        The column of the labels in that file, by its name or its place from 1.
    """

    n_features: int
    zero_based: bool | None
    name: str
    names: tuple[str, ...] | None = None
    label: str | int | None = None
