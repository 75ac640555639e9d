"""Rows that were read, and the settings of a reader, common to all formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from hogshare.io.table_parts import Part

# "arff" becomes "sparse-arff" if its first row is sparse
Kind = Literal[
    "libsvm",
    "csv",
    "npz",
    "npy",
    "parquet",
    "arrow",
    "jsonl",
    "ldac",
    "mtx",
    "uci",
    "arff",
    "sparse-arff",
]
ZeroBased = bool | Literal["auto"]

# how sure the base of the indices of LIBSVM text is
CERTAIN = "certain"  # it was given, or the indices leave no choice
LIKELY = "likely"  # the smallest index is 1
UNSURE = "unsure"  # the smallest index is larger


class ColumnChoice(NamedTuple):
    """The wanted columns of CSV, from 0: columns of the rows and, if any, the labels' column."""

    columns: Sequence[int]
    label: int | None


# called with the names of all columns, or None if the text has none, and their number
Choose = Callable[[tuple[str, ...] | None, int], ColumnChoice]


class Table(Protocol):
    """A source with columns: CSV, JSON lines, ARFF, Parquet, Arrow.

    Attributes
    ----------
    name : str
        Name of the source.
    names : tuple of str, or None
        Names of all columns.
    width : int
        Number of columns.
    choice : ColumnChoice
        The wanted columns.
    delimiter : str
        The delimiter of CSV; else empty.
    is_doubtful : bool
        Whether the first line was taken for names although a cell of it is a number.
    """

    name: str
    names: tuple[str, ...] | None
    width: int
    choice: ColumnChoice
    delimiter: str
    is_doubtful: bool

    def parts(self) -> Iterator[Part]:
        """Iterate over the wanted columns' cells, some rows at a time."""


@dataclass(frozen=True)
class Wanted:
    """The settings of a reader.

    Attributes
    ----------
    kind : Kind or None
        None infers it from the bytes and the name.
    dtype : dtype
        Data type of the rows.
    n_features : int or None
        Number of columns of LIBSVM text, which does not specify it; None uses the largest index.
    zero_based : bool or "auto"
        Whether indices of LIBSVM text begin at 0, see `hogshare.io.readers.read_libsvm`.
    counted : bool
        Whether lines of LIBSVM text begin with the number of their pairs, as in LDA-C, and not with
        a label.
    leave_out : bool
        Whether to leave out values of LIBSVM text in columns beyond `n_features`, instead of
        refusing them.
    header : bool or None
        Whether the first line of CSV has names; None infers it from its cells.
    delimiter : str or None
        The delimiter of CSV, `csv_records.BLANKS` for blanks; None infers it from the first lines.
    decimal : {",", "."} or None
        The decimal mark in CSV; the other mark may separate thousands. If None, the mark is a
        point, and nothing separates thousands.
    choose : callable
        ``choose(names, width)`` returns the wanted columns of CSV, from the names of all columns
        (or None) and their number. By default all columns belong to the rows.
    names : tuple of str
        Additional columns of JSON lines, which may have no values.
    finite : bool
        Whether to refuse values that are NaN or infinite.
    compared : bool
        Whether labels of CSV are only compared with predictions. In this case, all labels of a part
        become NaN if one of them is missing.
    """

    kind: Kind | None = None
    dtype: Any = np.float64
    n_features: int | None = None
    zero_based: ZeroBased = "auto"
    counted: bool = False
    leave_out: bool = False
    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    choose: Choose = lambda names, width: ColumnChoice(range(width), None)
    names: tuple[str, ...] = ()
    finite: bool = False
    compared: bool = False

    @property
    def is_one_based(self) -> bool:
        """Whether `zero_based` is False, so indices begin at 1."""
        return self.zero_based != "auto" and not self.zero_based


@dataclass(frozen=True)
class Rows:
    """Rows that were read, with facts about their source.

    Attributes
    ----------
    X : ndarray or csr_array
    y : ndarray or None
    table : Table or None
        The table of CSV and other sources with columns.
    zero_based : bool or None
        Whether indices of LIBSVM text begin at 0; None if there are none.
    guess : {"certain", "likely", "unsure"}
        How certain `zero_based` is.
    first : int or None
        The smallest index of the text.
    left_out : int
        Number of values that were left out because their columns are beyond `Wanted.n_features`.
    """

    X: Any
    y: np.ndarray | None
    table: Table | None = None
    zero_based: bool | None = None
    guess: str = CERTAIN
    first: int | None = None
    left_out: int = 0
