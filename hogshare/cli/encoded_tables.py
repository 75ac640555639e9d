"""Load tables as a command's options specify; encode tables with more than plain numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hogshare.cli import console, options
from hogshare.system.messages import counted

if TYPE_CHECKING:
    import numpy as np

    from hogshare.io.assembly import Assembled
    from hogshare.io.encoding import TableEncoder, Tally
    from hogshare.io.rows import Rows, Wanted
    from hogshare.io.sources import Source
    from hogshare.io.table_parts import NotEncoded

SHOWN = 12  # columns that are reported individually
# options by their names in the parsed command line, with their defaults
OPTIONS = {"columns": None, "drop": None, "scale": None, "missing": None, "categories": None}
PLAIN = "error"  # refuse values that are not numbers


def check(args: Any, are_rows: bool, are_counts: bool) -> None:
    """Refuse options of tables for other rows, and options that do not apply to counts.

    For counts, `args.missing` and `args.categories` become "error".
    """
    for name in () if are_rows and not are_counts else OPTIONS:
        of_rows = name not in ("columns", "drop")
        if getattr(args, name) not in (None, False) and (of_rows or not are_rows):
            what = "counts" if are_rows else "ratings"
            raise options.WrongCommandLine(
                f"{options.flag_of(name)} is not for --estimator {args.estimator}, whose file has "
                f"{what}"
            )
    if are_counts:
        args.missing = args.categories = PLAIN


def encoder_of(args: Any) -> TableEncoder | None:
    """Return the encoder that the options require; None if all cells must be plain numbers."""
    from hogshare.io.encoding import TableEncoder

    said = {name: getattr(args, name, PLAIN) for name in ("missing", "categories")}
    scale = bool(getattr(args, "scale", False))
    if set(said.values()) == {PLAIN} and not scale:
        return None
    missing = {None: "mean", "drop": "mean"}.get(said["missing"], said["missing"])
    categories = said["categories"] or "auto"
    return TableEncoder(missing=missing, categories=categories, scale=scale, dtype=args.dtype)


def load(args: Any, source: Source, wanted: Wanted) -> tuple[Rows, TableEncoder | None]:
    """Load rows of a table to fit, and their encoder (or None); report all changes.

    CSV is first read as numbers, which is fastest. A file with other values is read again, so
    `source` must be a file, or opened with ``again=True``.
    """
    from hogshare.io import assembly, readers
    from hogshare.io.table_parts import NotEncoded

    encoder = encoder_of(args)
    if wanted.kind != "csv":
        if encoder is None:
            return readers.read(source, wanted), None
    elif encoder is None or not (encoder.scale or wanted.decimal):
        try:
            found = readers.read(source, wanted)
        except (NotEncoded, MemoryError):
            if encoder is None:
                raise
            source.rewind()
        else:
            say_ids(source.name, found)
            return found, None
    assert encoder is not None
    made = assembly.fit(source, wanted, encoder, complete=args.missing == "drop")
    say_assembled(source.name, made)
    return made.rows, None if made.learner.is_plain else encoder


def scaled(args: Any, X: Any) -> tuple[Any, TableEncoder | None]:
    """Return the rows of a file without columns, scaled if requested, and any encoder."""
    if not getattr(args, "scale", False):
        return X, None
    from hogshare.io.encoding import TableEncoder
    from hogshare.system import memory

    encoder = TableEncoder(scale=True, dtype=args.dtype)
    memory.require(2 * (X.data if hasattr(X, "indptr") else X).nbytes, f"{args.data}: to scale it")
    return encoder.fit(X).transform(X), encoder


def say_assembled(name: str, made: Assembled) -> None:
    """Report values filled in, columns made from text, and rows and columns left out."""
    from hogshare.system import memory

    learner = made.learner
    columns = list(zip(learner.profiles, learner.encoder.kinds_, strict=True))
    filled = [
        f"{_called(profile.column)}: {profile.missing:,} of {profile.rows:,} missing, filled with "
        f"the mean {profile.mean:.6g}"
        for profile, kind in columns
        if kind == "number" and profile.missing
    ]
    _note_some(name, filled, "columns with missing values, filled with their means")
    sizes = [
        f"{_called(profile.column)} ({len(texts)}{' and missing' * (profile.missing > 0)})"
        for (profile, kind), texts in zip(columns, learner.encoder.categories_, strict=True)
        if kind == "category"
    ]
    if sizes:
        more = f" and {len(sizes) - SHOWN} more columns" if len(sizes) > SHOWN else ""
        console.note(f"{name}: categories: {', '.join(sizes[:SHOWN])}{more}")
    empty = [_called(profile.column) for profile, kind in columns if kind == "empty"]
    if empty:
        console.say(f"{name}: left out columns without any value: {', '.join(empty[:SHOWN])}")
    for number, what in ((made.unlabelled, "a label"), (made.incomplete, "a value")):
        if number:
            console.say(f"{name}: left out {counted(number, 'row')} without {what}")
    if made.strange:
        names = ", ".join(f"{_called(name)} ({where})" for name, where in made.strange.items())
        console.say(f"{name}: left out names that the first lines do not have: {names}")
    if made.on_disk:
        console.note(
            f"{name}: {memory.amount(made.on_disk)} of rows do not fit into memory; they are in a "
            "temporary file, which the command removes at its end"
        )
    for profile in learner.profiles:
        if profile.is_like_an_id:
            _advise_against(name, profile.column)


def say_ids(name: str, found: Rows) -> None:
    """Advise to leave out columns of plain numbers that resemble ids."""
    from hogshare.io.profiles import is_named_id, rise

    table = found.table
    if table is None or table.names is None:
        return
    for place, k in enumerate(table.choice.columns):
        if is_named_id(table.names[k]) and rise(found.X[:, place]):
            _advise_against(name, table.names[k] or k + 1)


def _advise_against(name: str, column: str | int) -> None:
    console.say(
        f"{name}: {_called(column)} rises from row to row like an id, which a model cannot learn "
        f"from: --drop {column} leaves it out"
    )


def say_tally(name: str, tally: Tally, encoder: TableEncoder) -> None:
    """Report missing values and unknown categories in rows to predict."""
    for line in tally.unseen_in_words(encoder):
        console.say(f"{name}: {line}")
    filled = []
    for k, number in sorted(tally.missing.items()):
        what = "encoded as no category"
        if encoder.kinds_[k] == "number":
            what = f"filled with the mean {encoder.means_[k]:.6g} of the fit"
        elif encoder.with_missing_[k]:
            what = "a category of the fit"
        filled.append(f"{_called(tally.column(encoder, k))}: {number:,} missing, {what}")
    _note_some(name, filled, "columns with missing values, filled as in the fit")


def _note_some(name: str, lines: list[str], many: str) -> None:
    for line in lines[:SHOWN]:
        console.note(f"{name}: {line}")
    if len(lines) > SHOWN:
        console.note(f"{name}: and {len(lines) - SHOWN:,} {many}")


def _called(column: str | int) -> str:
    return column if isinstance(column, str) else f"column {column}"


def advice(error: NotEncoded) -> str:
    """Return advice on options for a refused column, to append to an error."""
    flag = f"--drop {error.column} leaves the column out"
    if error.why == "missing":
        return (
            "; --missing mean fills in the column's mean, --missing indicator also marks where, "
            "--missing drop leaves such rows out"
        )
    if error.why == "comma":
        return (
            "; of CSV --decimal comma reads numbers such as 1.234,5, and --decimal point such as "
            "1,234.5"
        )
    if error.why == "text":
        return f"; --categories auto makes a column of 0 and 1 for each text, {flag}"
    if error.why == "many":
        return f"; {flag}, --categories N takes up to N"
    return f"; {flag}" if error.why == "column" else ""


def made_names(encoder: TableEncoder | None, names: tuple[str, ...] | None) -> Any:
    """Return the names of the columns of an estimator's rows; None if they have no names."""
    if encoder is None:
        return names
    made: np.ndarray = encoder.get_feature_names_out()
    return made.tolist()
