"""Archives: a ``.npz`` file whose entry ``header`` is JSON, written and read without pickle.

Models and checkpoints are stored in archives. A file is replaced as a whole or not at all.
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

LONGEST = 1 << 22  # bytes of a header; decoded, JSON may take a hundred times this memory
DEPTH = 32  # largest depth of nested lists and mappings in a header


def write(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write an archive; after an error an existing file is unchanged.

    The header must be data for JSON. `read` checks its entries ``format`` and ``format_version``.
    Arrays must contain numbers, booleans or strings.

    Raises
    ------
    ValueError
        If the header is not data for JSON, or is longer than `read` allows, or an array contains
        objects.
    OSError
        If the file cannot be written (a full disk, no permission).
    """
    try:
        text = json.dumps(header)
        _check_depth(header, DEPTH)
    except TypeError as error:
        raise ValueError(f"a parameter cannot be stored: {error}") from error
    if len(text) > LONGEST:
        raise ValueError(
            f"the header would have {len(text):,} bytes, more than the {LONGEST:,} that are read: "
            "pass long parameters as arrays"
        )
    parts = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in parts.items():
        if array.dtype.hasobject:
            raise ValueError(
                f"{name} is an array of objects, but this file stores numbers and strings only"
            )
    content = io.BytesIO()
    parts["header"] = np.frombuffer(text.encode(), dtype=np.uint8)
    with DeferredSignals():  # an archive that an interrupt leaves open raises another error
        np.savez(content, allow_pickle=False, **parts)
    # Release the view at once. Otherwise a traceback may still refer to it after an interrupt, and
    # the garbage collector may collect the buffer before the view.
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
        The kind of file, for messages ("a hogshare model").
    form : str
        The required value of ``format`` in the header.
    versions : collection of int
        The accepted values of ``format_version``.
    choose : callable
        ``choose(header)`` returns the names of the arrays to read. Names that the archive does not
        have are skipped.

    Returns
    -------
    header : dict
    arrays : dict of ndarray
        The chosen arrays, by name.

    Raises
    ------
    ValueError
        If the file is of another kind, is cut off, or was written by a later version.
    MemoryError
        If the arrays need more memory than is free; the message names the file.
    OSError
        If the file cannot be opened.
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
    """Refuse a value with more than `left` levels of nesting.

    Comparing or printing a value of deeper nesting may raise a RecursionError.
    """
    if not left:
        raise ValueError("its header is nested too deeply")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_depth(part, left - 1)
