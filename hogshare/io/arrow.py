"""Parquet, Arrow and Feather files by pyarrow, one row group or record batch at a time.

Only this module imports pyarrow, which is optional.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hogshare.io.rows import Wanted
from hogshare.io.sources import Source
from hogshare.io.table_parts import Cells, NotEncoded, Part, dates
from hogshare.system import extras

ROWS = 1 << 16  # number of rows of a part


def library() -> Any:
    """Import pyarrow, with its readers.

    Raises
    ------
    ImportError
        If pyarrow is not installed; the message contains the command that installs it.
    """
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        command = extras.command_for("pyarrow")
        raise ImportError(f"Parquet and Arrow files are read by pyarrow: {command}") from error
    return pyarrow


class ArrowTable:
    """The columns of a Parquet or an Arrow file (`hogshare.io.rows.Table`).

    Raises
    ------
    ValueError
        If the file is damaged, or a wanted column contains dates or anything else that is neither a
        number, a boolean nor text.
    ImportError
        If pyarrow is not installed.
    """

    delimiter = ""
    is_doubtful = False

    def __init__(self, source: Source, wanted: Wanted) -> None:
        self.name = source.name
        self._arrow = library()
        stream, _ = source.whole()
        self._is_parquet = wanted.kind == "parquet"
        try:
            if self._is_parquet:
                self._file = self._arrow.parquet.ParquetFile(stream)
                self._schema = self._file.schema_arrow
            else:
                self._file = self._arrow.ipc.open_file(stream)
                self._schema = self._file.schema
        except (self._arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from error
        names = self._schema.names
        twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
        if twice is not None:
            raise ValueError(f"{self.name}: two columns are called {twice!r}")
        self.names: tuple[str, ...] | None = tuple(names)
        self.width = len(names)
        self.choice = wanted.choose(self.names, self.width)
        columns, label = self.choice
        for k in columns if label is None else [*columns, label]:
            self._check(self._schema.field(k).type, names[k])

    def parts(self) -> Iterator[Part]:
        """Iterate over the wanted columns' cells, some rows at a time."""
        columns, label = self.choice
        row = 0
        for batch in self._batches():
            for begin in range(0, batch.num_rows, ROWS):
                some = batch.slice(begin, ROWS)
                cells = [self._cells(some, k) for k in columns]
                labels = None if label is None else self._cells(some, label)
                yield Part(cells, labels, _Place(self.name, row + begin))
            row += batch.num_rows

    def _batches(self) -> Iterator[Any]:
        columns, label = self.choice
        wanted = [*columns, *([] if label is None else [label])]
        try:
            if self._is_parquet:
                # no threads: decoding is a small part of the time
                names = [self._schema.names[k] for k in wanted]
                yield from self._file.iter_batches(ROWS, columns=names, use_threads=False)
            else:
                for k in range(self._file.num_record_batches):
                    yield self._file.get_batch(k)
        except (self._arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> ValueError:
        kind = "a Parquet" if self._is_parquet else "an Arrow"
        return ValueError(f"{self.name}: not {kind} file that can be read ({error})")

    def _check(self, kind: Any, name: str) -> None:
        """Refuse a column that is neither numbers, booleans nor text."""
        types = self._arrow.types
        if types.is_dictionary(kind):
            kind = kind.value_type
        if types.is_temporal(kind):
            raise dates(f"{self.name}, column {name!r}", name)
        if not (_is_number(types, kind) or _is_text(types, kind)):
            raise NotEncoded(
                f"{self.name}, column {name!r}: values of the type {kind}, and only numbers, "
                "booleans and text are fitted",
                name,
            )

    def _cells(self, batch: Any, k: int) -> Cells:
        name, types = self._schema.names[k], self._arrow.types
        array = batch.column(batch.schema.get_field_index(name))
        if types.is_dictionary(array.type):
            array = array.dictionary_decode()
        kind = array.type
        if types.is_boolean(kind):
            return [_TRUTHS[value] for value in array.to_pylist()]
        if _is_number(types, kind):
            if types.is_float16(kind):
                array = array.cast(self._arrow.float32())
            numbers: np.ndarray = array.cast(self._arrow.float64(), safe=False).to_numpy(
                zero_copy_only=False
            )
            return numbers
        return [(value or "").strip() for value in array.to_pylist()]


class _Place:
    """Names a row of a file."""

    def __init__(self, name: str, begin: int) -> None:
        self.name, self.begin = name, begin

    def __call__(self, row: int) -> str:
        return f"{self.name}, row {self.begin + row + 1:,}"


_TRUTHS = {None: "", True: "True", False: "False"}  # as pandas writes CSV


def _is_number(types: Any, kind: Any) -> bool:
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
    )


def _is_text(types: Any, kind: Any) -> bool:
    is_view = getattr(types, "is_string_view", lambda kind: False)(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or is_view)
