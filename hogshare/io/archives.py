"""Archives: a ``.npz`` file whose entry ``header`` is JSON. No pickle, on either side.

What models and checkpoints are stored in. A file is replaced as a whole or not at all.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hogshare.io import npz
from hogshare.io.sources import Source
from hogshare.system import files
from hogshare.system.interrupts import DeferredSignals

LONGEST = 1 << 22  # bytes of a header: JSON of that length may take a hundred times the memory
DEPTH = 32  # of lists and mappings in each other that a header may have


def write(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write an archive, or leave what was there.

    The header is as JSON knows it, with ``format`` and ``format_version``, which `read` checks;
    arrays are of numbers, booleans or words.

    Raises
    ------
    ValueError
        If the header holds what JSON does not know, or more than `read` takes, or an array holds
        objects.
    OSError
        If it cannot be written (a full disk, no permission). The old file is as it was.
    """
    try:
        text = json.dumps(header)
        _check_depth(header, DEPTH)
    except TypeError as error:
        raise ValueError(f"a parameter cannot be stored: {error}") from error
    if len(text) > LONGEST:
        raise ValueError(
            f"the header would have {len(text):,} bytes, and {LONGEST:,} are read: what is long in "
            "it may be given as an array"
        )
    parts = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in parts.items():
        if array.dtype.hasobject:
            raise ValueError(f"{name} holds objects, and this file holds numbers and words only")
    content = io.BytesIO()
    parts["header"] = np.frombuffer(text.encode(), dtype=np.uint8)
    with (
        DeferredSignals()
    ):  # interrupted, the archive that is not closed yet would raise something else
        np.savez(content, allow_pickle=False, **parts)
    # given back at once: a buffer that is left to the collector, as an interruption's traceback
    # would leave it, may be collected before what exports it
    with content.getbuffer() as view:
        files.replace(Path(path), view)


def read(
    path: str | Path,
    what: str,
    form: str,
    versions: Collection[int],
    choose: Callable[[dict[str, Any]], Iterable[str]],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read an archive.

    Parameters
    ----------
    path : str or Path
    what : str
        What the file should be, in words ("a hogshare model").
    form, versions : str and collection of int
        What its header must say under ``format``, and one of under ``format_version``.
    choose : callable
        Given the header, the names of the arrays that are read, if there are such; nothing else is.

    Raises
    ------
    ValueError
        If the file is something else, is cut off, or was written by a later version.
    MemoryError
        If its arrays take more memory than there is; the message names the file.
    OSError
        If it cannot be opened.
    """
    with Source(path) as source:

        def take(archive: npz.Archive) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
            if "header" not in archive.names:
                raise ValueError(f"{source.name}: not {what} (it has no header)")
            header = _header(source.name, what, archive.read("header"), form, versions)
            names = dict.fromkeys(choose(header))
            return header, {name: archive.read(name) for name in names if name in archive.names}

        header, arrays = npz.use(source, what, take)
    return header, arrays


def _header(
    path: str, what: str, text: np.ndarray, form: str, versions: Collection[int]
) -> dict[str, Any]:
    try:
        if text.nbytes > LONGEST:
            raise ValueError("its header is too long")
        header: dict[str, Any] = json.loads(text.tobytes())
        _check_depth(header, DEPTH)
        if header["format"] != form:
            raise ValueError(f"its header says {header['format']!r}")
        if header["format_version"] not in versions:
            *most, last = map(str, versions)
            known = " and ".join(filter(None, [", ".join(most), last]))
            raise ValueError(
                f"its format is {header['format_version']}, and this hogshare reads {known}: "
                "update hogshare"
            )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not {what} ({error})") from error
    except RecursionError as error:
        raise ValueError(f"{path}: not {what} (its header is nested too deeply)") from error
    except MemoryError as error:
        raise MemoryError(f"{path}: its header takes more memory than there is") from error
    return header


def _check_depth(value: Any, left: int) -> None:
    """Refuse what is nested so deeply that to compare or to print it may be an error."""
    if not left:
        raise ValueError("its header is nested too deeply")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_depth(part, left - 1)
