"""Rows that were read, and what is said of rows that are to be read: the same for all formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from hogshare.io.table_parts import Part

# "sparse-arff" is what "arff" is once its first row is known to be sparse
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

# how sure it is where the indices of LIBSVM text begin
CERTAIN = "certain"  # it was said, or the indices leave no choice
LIKELY = "likely"  # the smallest index is 1
UNSURE = "unsure"  # it is larger


class ColumnChoice(NamedTuple):
    """Which columns of CSV are wanted, from 0: the rows' and, if there is one, the labels'."""

    columns: Sequence[int]
    label: int | None


# given the names of all columns, or None if the text has none, and their number
Choose = Callable[[tuple[str, ...] | None, int], ColumnChoice]


class Table(Protocol):
    """A source with columns: CSV, JSON lines, ARFF, Parquet, Arrow.

    Attributes
    ----------
    name : str
        Of the source.
    names : tuple of str, or None
        Of all columns.
    width : int
        How many they are.
    choice : Choice
        Which of them are wanted.
    delimiter : str
        What is between cells of CSV; else nothing.
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
        """The wanted columns' cells, some rows at a time."""


@dataclass(frozen=True)
class Wanted:
    """What is said of rows that are to be read.

    Attributes
    ----------
    kind : Kind or None
        None goes by the bytes and the name.
    dtype : dtype
        Of the rows.
    n_features : int or None
        Columns of LIBSVM text, which does not say it itself; None takes the largest index.
    zero_based : bool or "auto"
        Where indices of LIBSVM text begin, see `hogshare.io.readers.read_libsvm`.
    counted : bool
        Each line of LIBSVM text begins with the number of its pairs, as in LDA-C, and not a label.
    leave_out : bool
        Leave out values of LIBSVM text that are beyond `n_features`, instead of refusing them.
    header : bool or None
        Whether the first line of CSV has names; None goes by its cells.
    delimiter : str or None
        What is between cells of CSV, `csv_records.BLANKS` for blanks; None goes by the first lines.
    decimal : {",", "."} or None
        Before decimals in CSV; the other is between thousands. None: a point, and nothing.
    choose : callable
        Which columns of CSV are wanted; by default all of them are the rows'.
    names : tuple of str
        Columns of JSON lines that may have no value in them.
    finite : bool
        Refuse values that are NaN or infinite.
    compared : bool
        Labels of CSV are only compared with others: those of a part that lacks some are NaN.
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
        """Whether it is said that indices begin at 1."""
        return self.zero_based != "auto" and not self.zero_based


@dataclass(frozen=True)
class Rows:
    """Rows that were read, and what is known of them.

    Attributes
    ----------
    X : ndarray or csr_array
    y : ndarray or None
    table : Table or None
        What is known of the columns of CSV and its like.
    zero_based : bool or None
        Whether indices of LIBSVM text begin at 0; None if there are none.
    guess : {"certain", "likely", "unsure"}
        How sure that is.
    first : int or None
        The smallest index of the text.
    left_out : int
        How many values were in columns beyond `Wanted.n_features`, and were left out.
    """

    X: Any
    y: np.ndarray | None
    table: Table | None = None
    zero_based: bool | None = None
    guess: str = CERTAIN
    first: int | None = None
    left_out: int = 0
