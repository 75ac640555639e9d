"""Files of ratings (user, item, rating), or of pairs of users and items without ratings.

Ids are strings as written, so 7 and 07 differ; missing ids are refused. In a sparse matrix every
stored entry is a rating, even a stored zero. Its ids are its row and column numbers in the file:
from 1 in MatrixMarket, from 0 in ``.npz``.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from hogshare.io import (
    arrow,
    csv_records,
    entries,
    json_lines,
    matrices,
    matrixmarket,
    npz,
    sniffing,
    table_parts,
)
from hogshare.io.csv_records import is_number
from hogshare.io.readers import refuse_others
from hogshare.io.rows import ColumnChoice, Kind, Wanted
from hogshare.io.sources import Source

MISSING = {"", "nan", "NaN", "NaT", "<NA>"}  # texts that programs write for a missing id

# names of columns of ids
THINGS = "item|product|movie|book|song|track|artist"
PEOPLE = "user|customer|reviewer"
NAME = re.compile(
    rf"(?i:([a-z]+[_ .-])?id|(user|customer|{THINGS})s?([_ .-]?(id|name))?)|[a-z]+I[dD]"
)

END = "s?([_ .-]?(id|name|idx|index|code|key|num|number))?"  # possible endings of such a name
EVENT = "((unix|event)[_ .-]?)?"  # a time such as watch_time is a duration, which may be a rating
WHEN = f"{EVENT}time([_ .-]?stamp)?([_ .-]?ms)?|{EVENT}date([_ .-]?time)?|ts|[a-z]+_at"
# names of columns in a first line, and the place of each; times come after the first three columns
PLACES = {
    "user": (re.compile(rf"(?i)({PEOPLE}){END}"), 0),
    "rating": (re.compile(r"(?i)ratings?|[a-z]+[_ .-]ratings?|stars|score"), 2),
    "time": (re.compile(rf"(?i){WHEN}"), 3),
}
ITEM = re.compile(rf"(?i)({THINGS}){END}")

MARK = "\x1f"  # a separator that occurs in no text; it replaces two colons
COORDINATES = "row", "col"

Line = tuple[str, list[str]]  # place and cells


class Ratings(NamedTuple):
    """The lines of a file; `values` is None for pairs without ratings."""

    users: list[str]
    items: list[str]
    values: list[float] | None


class KnownIds(NamedTuple):
    """The ids of a model."""

    users: frozenset[str]
    items: frozenset[str]

    def count(self, cells: Sequence[str]) -> int:
        """Return how many of a line's two ids are known: 0, 1 or 2."""
        return (cells[0] in self.users) + (cells[1] in self.items)


NOBODY = KnownIds(frozenset(), frozenset())


@dataclasses.dataclass(frozen=True)
class RatingsFormat:
    """The form of text: whether the first line has names, and the delimiter.

    If one of the two is None, it is inferred from the first lines.
    """

    header: bool | None = None
    delimiter: str | None = None
    known: KnownIds = NOBODY  # if a first line of pairs has one of these ids, it has no names


def read_ratings(
    path: str | Path, header: bool | None = None, delimiter: str | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    r"""Read ratings, or pairs of users and items, from a file or a pipe, plain or compressed.

    The first bytes determine the format:

    - Text with one line per pair: user, item and, optionally, rating, separated by ``::`` or a
      delimiter of CSV (commas, tabs, semicolons, bars, blanks). Further cells, such as a time, are
      ignored. Names in the first line must be in this order.
    - A table (Parquet, Arrow, JSON lines). The columns are found by their names: ``user``,
      ``item`` and ``rating``, or similar names such as ``movieId`` and ``stars``. If the names do
      not identify all three columns, the first columns are used, in this order.
    - A sparse matrix of users by items: MatrixMarket (a ``pattern`` has pairs without ratings), or
      a file of :func:`scipy.sparse.save_npz` with a CSR, a CSC or a COO matrix. All stored entries
      are ratings, including zeros.

    Parameters
    ----------
    path : str or Path
    header : bool, default=None
        Whether the first line of text has names; None infers it from its cells.
    delimiter : str, default=None
        The delimiter of text: a character, ``"::"``, or a blank for any number of blanks and tabs.
        None infers it from the first lines.

    Returns
    -------
    users, items : ndarray of str of shape (n_ratings,)
        Ids as written, so 7 and 07 differ. Ids of a matrix are the row and column numbers of the
        file: MatrixMarket counts from 1, and SciPy's arrays from 0.
    ratings : ndarray of float64 of shape (n_ratings,), or None
        None for pairs without ratings. A pair that occurs twice is returned twice.

    Raises
    ------
    ValueError
        If the file contains anything else, an id is missing, or a rating is not a finite number;
        the message names the file and the line. Also if `header` or `delimiter` is set and the
        file is not text.
    MemoryError
        If the ratings need more memory than is free.
    OSError
        If the file cannot be opened.
    ImportError
        If the file is Parquet or Arrow, and pyarrow is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from hogshare import datasets
    >>> path = pathlib.Path(tempfile.mkdtemp(), "ratings.dat")
    >>> _ = path.write_text("1::1193::5::978300760\n1::661::3::978302109\n")
    >>> users, items, ratings = datasets.read_ratings(path)
    >>> users.tolist(), items.tolist(), ratings.tolist()
    (['1', '1'], ['1193', '661'], [5.0, 3.0])
    """
    if delimiter == " ":
        delimiter = csv_records.BLANKS
    elif delimiter is not None and delimiter != "::" and len(delimiter) != 1:
        raise ValueError(f"delimiter must be a character, '::' or ' '; got {delimiter!r}.")
    with Source(path) as source:
        found = read(source, RatingsFormat(header, delimiter))
    values = None if found.values is None else np.array(found.values, np.float64)
    return np.array(found.users, str), np.array(found.items, str), values


def read(source: Source, form: RatingsFormat | None = None, kind: Kind | None = None) -> Ratings:
    """Read all ratings of a source; raise as `read_ratings`.

    kind : kind of the source; if None, `kind_of` determines it
    """
    form = form or RatingsFormat()
    kind = kind or kind_of(source)
    if kind == "csv":
        found = _of_lines(source, form)
    else:
        refuse_others(source.name, kind, header=form.header, delimiter=form.delimiter)
        if kind not in READERS:
            raise ValueError(
                f"{source.name}: no ratings, but {kind}: ratings are read of text such as CSV, of "
                "Parquet, Arrow and JSON lines, of MatrixMarket and of SciPy's .npz"
            )
        found = READERS[kind](source)
    if not found.users:
        raise ValueError(f"{source.name}: there are no ratings")
    return found


def kind_of(source: Source) -> Kind:
    """Return the kind of a source of ratings, without consuming any of it.

    The kind "csv" stands for all text with one rating per line.

    Raises
    ------
    ValueError
        If the kind is unknown.
    """
    if source.head(csv_records.is_of_colons):
        return "csv"
    kind = sniffing.kind_of(source)
    return "csv" if kind == "libsvm" else kind


def _of_lines(source: Source, form: RatingsFormat) -> Ratings:
    """Read ratings from text, one per line."""
    users: list[str] = []
    items: list[str] = []
    values: list[float] = []
    rated = None
    for place, cells in _without_names(_cells(source, form.delimiter), form):
        if len(cells) < 2:
            raise ValueError(
                f"{place}: user and item were expected, with a rating or without, and there are "
                f"{len(cells)} cells{_advice(cells)}"
            )
        _check_ids(place, cells)
        users.append(cells[0])
        items.append(cells[1])
        if rated is None:
            rated = len(cells) > 2
        if rated != (len(cells) > 2):
            what = ("no rating", "others have one") if rated else ("a rating", "others have none")
            raise ValueError(f"{place}: there is {what[0]}, and {what[1]}")
        if rated:
            values.append(_number(cells[2], place))
    return Ratings(users, items, values or None)


def _advice(cells: Sequence[str]) -> str:
    """Return advice on a line that may be a user and a list of items."""
    if len(" ".join(cells).split()) < 3:
        return ""
    return "; of a user and a list of items, as cornac's UI has them, write a line for each item"


def _check_ids(place: str, cells: Sequence[str]) -> None:
    for name, word in zip(("user", "item"), cells, strict=False):
        if word.strip() in MISSING:
            raise ValueError(
                f"{place}: the {name} is {word!r}, which is not an id: give it one, or leave the "
                "line out"
            )


def _cells(source: Source, delimiter: str | None) -> Iterator[Line]:
    """Iterate over the place and the cells of each record."""
    colons = None if delimiter is None else delimiter == csv_records.COLONS.decode()
    mark, blocks = csv_records.opened(source, MARK if colons else delimiter)
    for lines in blocks:
        if colons is None:
            *_, (_, second) = itertools.islice(csv_records.records(lines, mark), 2)
            *_, (_, its_cells) = itertools.islice(csv_records.cells(lines, mark), 2)
            colons = csv_records.has_colons(second, its_cells)
        if colons:
            text = lines.text.replace(csv_records.COLONS, MARK.encode())
            lines = dataclasses.replace(lines, text=text)
        for number, cells in csv_records.cells(lines, MARK if colons else mark):
            yield f"{lines.name}, line {number}", cells


def _without_names(cells: Iterator[Line], form: RatingsFormat) -> Iterator[Line]:
    """Skip a first line that has names."""
    first = list(itertools.islice(cells, 2))
    names = bool(form.header)
    if form.header is None and first:
        names = _are_names(first[0][1], first[-1][1], form.known)
    if names and first:
        _check_names(*first[0])
    return itertools.chain(first[int(names) :], cells)


def _are_names(cells: list[str], others: list[str], known: KnownIds) -> bool:
    """Whether a first line has the names of columns.

    A line with a rating has names if the rating's cell is not a number. A line with a pair has
    names if neither cell is an id of the model, and one of two conditions holds: (1) a cell is text
    above a number; (2) both cells resemble names of columns, and no id of the model does.
    """
    if len(cells) > 2:
        return cells[2].strip() not in MISSING and not is_number(cells[2])
    if len(cells) < 2 or known.count(cells):
        return False
    above = (is_number(other) > is_number(cell) for cell, other in zip(cells, others, strict=False))
    if any(above):
        return True
    alike = any(map(NAME.fullmatch, itertools.chain(known.users, known.items)))
    return all(map(NAME.fullmatch, cells)) and not alike


def _check_names(place: str, names: Sequence[str]) -> None:
    """Refuse columns in another order than user, item and rating; a fit would not detect it.

    Raises
    ------
    ValueError
        If a name belongs to another place.
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
        raise ValueError(f"{place}: the rating {text!r} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{place}: the rating is {text}")
    return value


class _ArrowTable(arrow.ArrowTable):
    """An `ArrowTable` with whole numbers as text: as floats, ids beyond 2**53 would merge."""

    def _cells(self, batch: Any, k: int) -> table_parts.Cells:
        array = batch.column(batch.schema.get_field_index(self._schema.names[k]))
        if self._arrow.types.is_integer(array.type):
            return ["" if value is None else str(value) for value in array.to_pylist()]
        return super()._cells(batch, k)


def _of_table(source: Source, table_of: Callable[[Source, Wanted], Any], kind: Any) -> Ratings:
    """Read ratings from a table with named columns."""

    def choose(names: tuple[str, ...] | None, width: int) -> ColumnChoice:
        return ColumnChoice(_columns_of(source.name, names or ()), None)

    users: list[str] = []
    items: list[str] = []
    values: list[float] = []
    for part in table_of(source, Wanted(kind, choose=choose)).parts():
        pairs = [table_parts.as_text(cells) for cells in part.columns[:2]]
        for row, pair in enumerate(zip(*pairs, strict=True)):
            if MISSING.intersection(pair):
                _check_ids(part.place(row), pair)
        users += pairs[0]
        items += pairs[1]
        if len(part.columns) > 2:
            values += _numbers(part.columns[2], part.place)
    return Ratings(users, items, values or None)


def _columns_of(name: str, names: tuple[str, ...]) -> list[int]:
    """Find the columns of users, items and ratings by their names; else take the first columns."""
    patterns = PLACES["user"][0], ITEM, PLACES["rating"][0]
    found = [[k for k, one in enumerate(names) if p.fullmatch(one)] for p in patterns]
    if all(len(places) == 1 for places in found):
        return [places[0] for places in found]
    if len(names) < 2:
        raise ValueError(f"{name}: a column for users and one for items were expected")
    _check_names(name, names)
    return list(range(min(3, len(names))))


def _numbers(cells: table_parts.Cells, place: Callable[[int], str]) -> list[float]:
    found = table_parts.as_numbers(cells)
    if found is None or not np.isfinite(found).all():
        for row, cell in enumerate(cells):
            _number(str(cell) or "missing", place(row))
    assert found is not None  # otherwise a call of `_number` above has raised
    values: list[float] = found.tolist()
    return values


def _of_npz(source: Source) -> Ratings:
    """Read ratings from a sparse matrix of SciPy."""

    def form_of(archive: npz.Archive) -> str:
        if any("factors" in name for name in archive.names):
            raise ValueError(f"{source.name}: factors of a model, as implicit saves it: no ratings")
        if "format" not in archive.names:
            return "csr"
        word = archive.read("format").item()
        return word.decode("ascii", "replace") if isinstance(word, bytes) else str(word)

    what = "a sparse matrix of SciPy (save_npz) with ratings"
    form = npz.use(source, what, form_of)
    if form in ("csr", "csc"):
        X = matrices.read(source, Wanted("npz")).X
        if not sparse.issparse(X):
            raise ValueError(f"{source.name}: not {what}, but a dense one, X: save a sparse one")
        return _of_entries(source.name, X.tocoo().coords, X.data)
    if form != "coo":  # zeros that fill blocks or diagonals of other formats are not ratings
        raise ValueError(f"{source.name}: {what} is CSR, CSC or COO, and this is {form!r}")
    # read as COO: conversion to CSR would add the entries of the same pair
    arrays = npz.read_arrays(source, what, {"coords", "data", "shape", *COORDINATES}.intersection)
    coords = arrays.get("coords", [arrays.get(name) for name in COORDINATES])
    for line in coords:
        if line is None or line.dtype.kind not in "iu":  # SciPy would truncate decimals
            raise ValueError(f"{source.name}: not {what}: row and col must be whole numbers")
    try:
        X = sparse.coo_array((arrays["data"], tuple(coords)), shape=tuple(arrays["shape"].tolist()))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"{source.name}: not {what} ({error})") from error
    if X.ndim != 2:
        raise ValueError(f"{source.name}: not {what}: it has {X.ndim} axes")
    return _of_entries(source.name, X.coords, X.data)


def _of_matrix_market(source: Source) -> Ratings:
    """Read ratings from a sparse matrix in MatrixMarket; a pattern has pairs without ratings."""
    banner, sizes, blocks = matrixmarket.opened(source)
    if not banner.is_sparse:
        raise ValueError(
            f"{source.name}: a dense matrix, in which zeros may or may not be ratings: write the "
            "ratings as coordinates, with scipy.io.mmwrite of a coo_array"
        )
    size = entries.Size(*sizes)
    found = matrixmarket.stored(source, blocks, size, banner, np.float64)
    ratings = _of_entries(source.name, (found.row + 1, found.column + 1), found.value)
    return ratings._replace(values=None) if banner.field == "pattern" else ratings


def _of_entries(name: str, coords: Sequence[np.ndarray], values: np.ndarray) -> Ratings:
    """Convert the entries of a matrix of users by items to ratings."""
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name}: ratings must be real numbers, not {values.dtype}")
    for k in np.flatnonzero(~np.isfinite(values))[:1].tolist():
        place = ", ".join(f"{what} {at[k]}" for what, at in zip(COORDINATES, coords, strict=True))
        raise ValueError(f"{name}: the rating of {place} is {values[k]}")
    users, items = (list(map(str, line.tolist())) for line in coords)
    return Ratings(users, items, values.astype(np.float64).tolist())


READERS: dict[Kind, Callable[[Source], Ratings]] = {
    "npz": _of_npz,
    "mtx": _of_matrix_market,
    "jsonl": lambda source: _of_table(source, json_lines.JsonTable, "jsonl"),
    "parquet": lambda source: _of_table(source, _ArrowTable, "parquet"),
    "arrow": lambda source: _of_table(source, _ArrowTable, "arrow"),
}
