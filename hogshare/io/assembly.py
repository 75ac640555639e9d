"""Rows of tables with columns of any kind, encoded part by part.

A fit reads the source twice. The first pass learns the columns' contents and counts the rows; the
second pass encodes the rows. Rows that do not fit into memory are stored in a mapped temporary
file, which disappears when it is no longer used.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare.io import arff, arrow, csv_text, json_lines
from hogshare.io.csv_records import is_number
from hogshare.io.encoding import Learner, TableEncoder, Tally
from hogshare.io.growing_arrays import Growing
from hogshare.io.rows import ColumnChoice, Rows, Table, Wanted
from hogshare.io.sources import Source
from hogshare.io.table_parts import Cells, NotEncoded, Part, as_numbers, as_text, missing
from hogshare.system import memory

SPARE = 4  # ``1 / SPARE`` of the free memory is reserved for the fit


@dataclass(frozen=True)
class Assembled:
    """Encoded rows to fit, and how they were obtained.

    rows : the rows, with an encoded X
    learner : the `Learner` with the fitted encoder
    unlabelled : number of rows left out because their label is missing
    incomplete : number of rows left out because another value is missing
    on_disk : number of bytes of X in a temporary file; 0 if X is in memory
    strange : names that occur only after the first block of JSON lines; the value of each is the
        line where it occurs first
    """

    rows: Rows
    learner: Learner
    unlabelled: int
    incomplete: int
    on_disk: int
    strange: dict[str, str]


def table_of(source: Source, wanted: Wanted, now: bool = False) -> Table:
    """Open a source with columns as a table of the kind `wanted.kind`.

    With `now`, the parts of text are yielded as soon as their lines arrive.
    """
    if wanted.kind == "csv":
        return csv_text.CsvTable(source, wanted, now)
    if wanted.kind == "jsonl":
        return json_lines.JsonTable(source, wanted, now)
    if wanted.kind == "arff":
        return arff.ArffTable(source, wanted, now)
    return arrow.ArrowTable(source, wanted)


def fit(source: Source, wanted: Wanted, encoder: TableEncoder, complete: bool = False) -> Assembled:
    """Fit an encoder to the columns of a source, and encode the source's rows.

    The source is read twice: it must be a file, or have been opened with ``again=True``. Rows
    without a label are left out. With `complete`, rows in which another value is missing are left
    out as well.

    Raises
    ------
    NotEncoded
        If a column is of a kind that the encoder refuses.
    ValueError, MemoryError, OSError
        For the reasons of `hogshare.io.readers.read_file`, or if every row is left out.
    """
    table = table_of(source, wanted)
    chosen = table.names and [table.names[k] for k in table.choice.columns]
    learner = Learner(encoder, chosen or None, table.choice.columns)
    counts = np.zeros(3, np.int64)  # rows, rows without a label, rows without another value
    labels = LabelParts(table)
    for part in table.parts():
        used = _used(part, complete, counts)
        if counts[1] and encoder.missing == "error" and part.labels is not None:
            row = int(missing(part.labels).argmax())
            raise labels.refused(part, row, "the label is missing")
        learner.add(used)
        labels.add(used)
    if not counts[0]:
        names = "names of columns and " if table.names and wanted.kind == "csv" else ""
        raise ValueError(f"{table.name}: the file has {names}no rows")
    n_rows = int(counts[0] - counts[1:].sum())
    if not n_rows:
        what = "a value" if counts[2] else "a label"
        raise ValueError(f"{table.name}: every row lacks {what}, and is left out")
    learner.settle()
    source.rewind()
    again = _again(table, wanted)
    X, on_disk = _encoded(table_of(source, again), learner, n_rows, complete)
    rows = Rows(X, labels.taken(), table)
    strange = getattr(table, "strange", {})
    return Assembled(rows, learner, int(counts[1]), int(counts[2]), on_disk, strange)


def _again(table: Table, wanted: Wanted) -> Wanted:
    """Return the settings of the second pass: the first pass's delimiter, header and columns."""
    mark = table.delimiter or None
    header = table.names is not None

    def choose(names: tuple[str, ...] | None, width: int) -> ColumnChoice:
        return table.choice

    return replace(wanted, choose=choose, header=header, delimiter=mark)


def _used(part: Part, complete: bool, counts: np.ndarray) -> Part:
    """Return the rows of a part that a fit uses.

    counts : numbers of all rows, of rows without a label, and of rows without another value; the
        part's numbers are added in place
    """
    n_rows = part.n_rows
    lacks_label = np.zeros(n_rows, bool) if part.labels is None else missing(part.labels)
    lacks = np.zeros(n_rows, bool)
    for cells in part.columns if complete else ():
        lacks |= missing(cells)
    lacks &= ~lacks_label
    counts += n_rows, np.count_nonzero(lacks_label), np.count_nonzero(lacks)
    out = lacks | lacks_label
    return part.chosen(np.flatnonzero(~out)) if out.any() else part


def _encoded(table: Table, learner: Learner, n_rows: int, complete: bool) -> tuple[Any, int]:
    """Encode all rows; return them and the number of their bytes in a file (0 if in memory)."""
    encoder, counts = learner.encoder, np.zeros(3, np.int64)
    dtype = np.dtype(encoder.dtype)
    encoded = (encoder.encode(_used(part, complete, counts), Tally()) for part in table.parts())
    if encoder.is_sparse_:
        data, indices, lengths = Growing(dtype), Growing(np.int32), Growing(np.int64)
        for X in encoded:
            for grown, more in ((data, X.data), (indices, X.indices), (lengths, np.diff(X.indptr))):
                grown.add(more)
        ends = np.concatenate([[0], np.cumsum(lengths.taken())])
        kind = np.int32 if ends[-1] < 2**31 else np.int64
        shape = len(ends) - 1, encoder.n_features_out_
        found = sp.csr_array((data.taken(), indices.taken().astype(kind), ends.astype(kind)), shape)
        on_disk, filled = 0, shape[0]
    else:
        found, on_disk = _place_for(table.name, (n_rows, encoder.n_features_out_), dtype)
        filled = 0
        for X in encoded:
            end = filled + len(X)
            if end <= n_rows:
                found[filled:end] = X
            filled = end
    if filled != n_rows:  # the two passes must see the same rows
        raise ValueError(f"{table.name}: the file has changed while it was read")
    return found, on_disk


def _place_for(name: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> tuple[np.ndarray, int]:
    """Return an array in memory, or in an unnamed file if memory would not suffice for a fit.

    The second returned value is the number of bytes in the file; 0 for an array in memory.
    """
    nbytes = shape[0] * shape[1] * dtype.itemsize
    free = memory.free()
    if free is None or nbytes < memory.LITTLE or nbytes <= free - free // SPARE:
        return np.empty(shape, dtype), 0
    folder = tempfile.gettempdir()
    if (left := shutil.disk_usage(folder).free) < nbytes:
        raise MemoryError(
            f"{name}: its rows need {memory.amount(nbytes)}, but only {memory.amount(free)} of "
            f"memory and {memory.amount(left)} of the disk at {folder} are free; set TMPDIR to "
            "another folder"
        )
    # an unnamed file disappears with the process, however that ends
    with tempfile.TemporaryFile(prefix="hogshare-") as file:
        os.posix_fallocate(file.fileno(), 0, nbytes)  # otherwise a full disk would end the process
        return np.memmap(file, dtype, "w+", shape=shape), nbytes


class LabelParts:
    """Labels, collected part by part; the first label decides whether all are numbers or text."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._numbers, self._texts = Growing(np.float64), []  # type: ignore[var-annotated]
        self._are_numbers: bool | None = None

    def add(self, part: Part) -> None:
        """Add the labels of some rows, none of which is missing.

        Raises
        ------
        NotEncoded
            If a label is not a number although earlier labels are, or is not finite.
        """
        cells = part.labels
        if cells is None or not len(cells):
            return
        if self._are_numbers is None:
            self._are_numbers = isinstance(cells, np.ndarray) or is_number(cells[0])
        if not self._are_numbers:
            self._texts.append(np.array(as_text(cells), dtype=str))
            return
        if isinstance(cells, list) and not all(map(is_number, cells)):
            row = next(k for k, cell in enumerate(cells) if not is_number(cell))
            what = f"the label {cells[row]!r} is not a number, as the labels before it are"
            raise self.refused(part, row, what)
        numbers = np.array(cells, dtype=np.float64)
        if not np.isfinite(numbers).all():
            row = int(np.isfinite(numbers).argmin())
            raise self.refused(part, row, f"the label is {numbers[row]}")
        self._numbers.add(numbers)

    def refused(self, part: Part, row: int, what: str) -> NotEncoded:
        """Return the error for the label of row `row` of a part; `what` describes the fault."""
        k, names = self._table.choice.label or 0, self._table.names
        called = f"column {k + 1}" + (f" ({names[k]!r})" if names else "")
        return NotEncoded(f"{part.place(row)}, {called}: {what}", names[k] if names else k + 1, "")

    def taken(self) -> np.ndarray | None:
        """Return all labels, or None if no column has labels."""
        if self._table.choice.label is None:
            return None
        return np.concatenate(self._texts) if self._texts else self._numbers.taken()


def parts(source: Source, wanted: Wanted, encoder: TableEncoder, tally: Tally) -> Iterator[Rows]:
    """Yield encoded rows to predict, as soon as each part arrives.

    Missing and unseen values are counted in `tally`. Labels are only compared, so they may be
    missing (`hogshare.io.csv_text.to_compare`).
    """
    table = table_of(source, wanted, now=True)
    tally.places = table.choice.columns
    for part in table.parts():
        y = None if part.labels is None else csv_text.to_compare(part.labels)
        yield Rows(encoder.encode(part, tally), y, table)


def iterate(source: Source, wanted: Wanted) -> Iterator[Rows]:
    """Yield the rows of a table whose columns are all numbers, as soon as each part arrives."""
    table = table_of(source, wanted, now=True)
    for part in table.parts():
        yield Rows(_plain(table, part, wanted), _labels(part, wanted), table)


def read(source: Source, wanted: Wanted) -> Rows:
    """Read all rows of a table whose columns are all numbers; nothing is encoded."""
    table = table_of(source, wanted)
    values, labels = Growing(wanted.dtype), LabelParts(table)
    for part in table.parts():
        values.add(_plain(table, part, wanted))
        labels.add(part)
    if not len(values):
        raise ValueError(f"{table.name}: the file has no rows")
    return Rows(values.taken().reshape(-1, len(table.choice.columns)), labels.taken(), table)


def _labels(part: Part, wanted: Wanted) -> np.ndarray | None:
    return None if part.labels is None else csv_text.to_compare(part.labels)


def _plain(table: Table, part: Part, wanted: Wanted) -> np.ndarray:
    """Return the rows of a part, whose columns must be numbers."""
    columns, names = table.choice.columns, table.names
    X = np.empty((part.n_rows, len(columns)), wanted.dtype)
    for place, (k, cells) in enumerate(zip(columns, part.columns, strict=True)):
        called, column = f"column {k + 1}", names[k] if names else k + 1
        if names:
            called += f" ({names[k]!r})"
        numbers = _numbers(cells, part, called, column)
        X[:, place] = numbers
        if wanted.finite and not np.isfinite(X[:, place]).all():
            row = int(np.isfinite(X[:, place]).argmin())
            raise NotEncoded(
                f"{part.place(row)}, {called}: the value is {X[row, place]}, and a model needs "
                "finite ones; fill it in, or leave the row out",
                column,
                "missing",
            )
    return X


def _numbers(cells: Cells, part: Part, called: str, column: str | int) -> np.ndarray:
    numbers = as_numbers(cells)
    if numbers is None:
        row = next(k for k, cell in enumerate(cells) if as_numbers([cell]) is None)
        raise NotEncoded(
            f"{part.place(row)}, {called}: {cells[row]!r} is not a number", column, "text"
        )
    return numbers
