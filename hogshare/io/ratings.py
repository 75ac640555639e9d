"""Ratings in files: users, items and, where there are any, how much each user likes each item.

Ids are words, as they are written, so that 7 and 07 are two; what stands for a missing one is
refused. Of a sparse matrix an entry that is stored is a rating, a stored zero too, and its ids are
the numbers of row and column as the file has them: from 1 in MatrixMarket, from 0 in ``.npz``.
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

MISSING = {"", "nan", "NaN", "NaT", "<NA>"}  # what programs write for an id that is missing

# of a column of ids
THINGS = "item|product|movie|book|song|track|artist"
PEOPLE = "user|customer|reviewer"
NAME = re.compile(
    rf"(?i:([a-z]+[_ .-])?id|(user|customer|{THINGS})s?([_ .-]?(id|name))?)|[a-z]+I[dD]"
)

END = "s?([_ .-]?(id|name|idx|index|code|key|num|number))?"  # what may follow the word
EVENT = "((unix|event)[_ .-]?)?"  # a duration, such as watch_time, may be a rating
WHEN = f"{EVENT}time([_ .-]?stamp)?([_ .-]?ms)?|{EVENT}date([_ .-]?time)?|ts|[a-z]+_at"
# of the columns of a first line, and which of the three they must be; a time is none of them
PLACES = {
    "user": (re.compile(rf"(?i)({PEOPLE}){END}"), 0),
    "rating": (re.compile(r"(?i)ratings?|[a-z]+[_ .-]ratings?|stars|score"), 2),
    "time": (re.compile(rf"(?i){WHEN}"), 3),
}
ITEM = re.compile(rf"(?i)({THINGS}){END}")

MARK = "\x1f"  # a character that separates, and is in no text, in the stead of two colons
COORDINATES = "row", "col"

Line = tuple[str, list[str]]  # its place, and its cells


class Ratings(NamedTuple):
    """Lines of a file; without values where they are pairs alone."""

    users: list[str]
    items: list[str]
    values: list[float] | None


class KnownIds(NamedTuple):
    """Ids of a model."""

    users: frozenset[str]
    items: frozenset[str]

    def count(self, cells: Sequence[str]) -> int:
        """How many of a line's two ids it has."""
        return (cells[0] in self.users) + (cells[1] in self.items)


NOBODY = KnownIds(frozenset(), frozenset())


@dataclasses.dataclass(frozen=True)
class RatingsFormat:
    """What is said of text: whether the first line has names, and what is between cells."""

    header: bool | None = None
    delimiter: str | None = None
    known: KnownIds = NOBODY  # ids, of which a first line of pairs may have some


def read_ratings(
    path: str | Path, header: bool | None = None, delimiter: str | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    r"""Read ratings, or pairs of users and items, from a file or a pipe, plain or compressed.

    Which of these it is, its first bytes say:

    - text with a rating a line: user, item and, if there are any, the rating, with ``::`` between
      them, or what CSV has (commas, tabs, semicolons, bars, blanks); more cells, such as a time,
      are left out. Names in the first line are in this order.
    - a table (Parquet, Arrow, JSON lines) with columns ``user``, ``item`` and ``rating``, or named
      alike (``movieId``, ``stars``); else the first three columns are taken.
    - a sparse matrix of users by items: MatrixMarket (a ``pattern`` has pairs alone), or what
      :func:`scipy.sparse.save_npz` writes of a CSR, a CSC or a COO matrix. All entries that are
      stored are ratings, zeros too.

    Parameters
    ----------
    path : str or Path
    header : bool, default=None
        Whether the first line of text has names; None goes by its cells.
    delimiter : str, default=None
        What is between cells of text, a character, ``"::"``, or a blank for any number of blanks
        and tabs; None goes by the first lines.

    Returns
    -------
    users, items : ndarray of str of shape (n_ratings,)
        Ids, as they are written: 7 and 07 are two. Those of a matrix are the numbers of row and
        column as the file has them: MatrixMarket counts from 1, and SciPy's arrays from 0.
    ratings : ndarray of float64 of shape (n_ratings,), or None
        None where there are pairs alone. A pair that occurs twice is there twice.

    Raises
    ------
    ValueError
        If the file has anything else, or an id is missing, or a rating is no finite number; the
        message names the file and the line. If `header` or `delimiter` is said of what is no text.
    MemoryError
        If the ratings take more memory than there is.
    OSError
        If the file cannot be opened.
    ImportError
        If Parquet or Arrow is to be read, and there is no pyarrow.

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
    """Read all ratings of a source; raises as `read_ratings`.

    kind : of the source, if it is known (`kind_of`)
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
    """The kind of ratings, "csv" for any text with a rating a line; nothing is used up.

    Raises
    ------
    ValueError
        If it is nothing that is known.
    """
    if source.head(csv_records.is_of_colons):
        return "csv"
    kind = sniffing.kind_of(source)
    return "csv" if kind == "libsvm" else kind


def _of_lines(source: Source, form: RatingsFormat) -> Ratings:
    """Ratings of text, one a line."""
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
    """What to do about a line with several words and nothing else between them."""
    if len(" ".join(cells).split()) < 3:
        return ""
    return "; of a user and a list of items, as cornac's UI has them, write a line for each item"


def _check_ids(place: str, cells: Sequence[str]) -> None:
    for name, word in zip(("user", "item"), cells, strict=False):
        if word.strip() in MISSING:
            raise ValueError(
                f"{place}: the {name} is {word!r}, which is no id: give it one, or leave the "
                "line out"
            )


def _cells(source: Source, delimiter: str | None) -> Iterator[Line]:
    """Each record's place and cells."""
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
    """All lines but a first one that has names."""
    first = list(itertools.islice(cells, 2))
    names = bool(form.header)
    if form.header is None and first:
        names = _are_names(first[0][1], first[-1][1], form.known)
    if names and first:
        _check_names(*first[0])
    return itertools.chain(first[int(names) :], cells)


def _are_names(cells: list[str], others: list[str], known: KnownIds) -> bool:
    """Whether a first line says what the others have.

    It has no number where ratings are; or neither of its ids is the model's, and it has anything
    else above a number, or two that are used as names and that no id of the model is like.
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


class _ArrowTable(arrow.ArrowTable):
    """The same with whole numbers as they are written: as floats, ids beyond 2**53 would merge."""

    def _cells(self, batch: Any, k: int) -> table_parts.Cells:
        array = batch.column(batch.schema.get_field_index(self._schema.names[k]))
        if self._arrow.types.is_integer(array.type):
            return ["" if value is None else str(value) for value in array.to_pylist()]
        return super()._cells(batch, k)


def _of_table(source: Source, table_of: Callable[[Source, Wanted], Any], kind: Any) -> Ratings:
    """Ratings of a table of columns that have names."""

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
    """Places of users, items and ratings: by their names, or the first columns in this order."""
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
    assert found is not None
    values: list[float] = found.tolist()
    return values


def _of_npz(source: Source) -> Ratings:
    """Ratings of a sparse matrix of SciPy."""

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
    if form != "coo":  # whose stored zeros fill blocks or diagonals, and are no ratings
        raise ValueError(f"{source.name}: {what} is CSR, CSC or COO, and this is {form!r}")
    # by its coordinates: as CSR a pair that is stored twice would be one
    arrays = npz.read_arrays(source, what, {"coords", "data", "shape", *COORDINATES}.intersection)
    coords = arrays.get("coords", [arrays.get(name) for name in COORDINATES])
    for line in coords:
        if line is None or line.dtype.kind not in "iu":  # SciPy would cut decimals off
            raise ValueError(f"{source.name}: not {what}: row and col must be whole numbers")
    try:
        X = sparse.coo_array((arrays["data"], tuple(coords)), shape=tuple(arrays["shape"].tolist()))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"{source.name}: not {what} ({error})") from error
    if X.ndim != 2:
        raise ValueError(f"{source.name}: not {what}: it has {X.ndim} axes")
    return _of_entries(source.name, X.coords, X.data)


def _of_matrix_market(source: Source) -> Ratings:
    """Ratings of a sparse matrix in MatrixMarket; pairs alone of a pattern."""
    banner, sizes, rest = matrixmarket.opened(source)
    if not banner.is_sparse:
        raise ValueError(
            f"{source.name}: a dense matrix, of whose zeros it is not known whether they are "
            "ratings: write the ratings as coordinates, by scipy.io.mmwrite of a coo_array"
        )
    size = entries.Size(*sizes)
    found = matrixmarket.stored(source, rest, size, banner, np.float64)
    ratings = _of_entries(source.name, (found.row + 1, found.column + 1), found.value)
    return ratings._replace(values=None) if banner.field == "pattern" else ratings


def _of_entries(name: str, coords: Sequence[np.ndarray], values: np.ndarray) -> Ratings:
    """Ratings of the entries of a matrix, whose rows are users and whose columns are items."""
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
