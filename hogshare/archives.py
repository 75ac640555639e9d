"""Archives: a ``.npz`` file whose entry ``header`` is JSON. No pickle, on either side.

What models and checkpoints are stored in. A file is replaced as a whole or not at all: it is
written under another name in the same folder, brought to the disk, and renamed. Whoever reads sees
the old file or the new one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hogshare.readers import read_arrays


def write(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write an archive, or leave what was there.

    Parameters
    ----------
    path : str or Path
    header : mapping
        As JSON knows it; with ``format`` and ``format_version``, which `read` looks at.
    arrays : mapping of str to array_like
        Numbers, booleans or words.

    Raises
    ------
    ValueError
        If the header holds what JSON does not know, or an array holds objects.
    OSError
        If it cannot be written (a full disk, no permission). The old file is as it was.
    """
    try:
        text = json.dumps(header)
    except TypeError as error:
        raise ValueError(f"a parameter cannot be stored: {error}") from error
    parts = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in parts.items():
        if array.dtype.hasobject:
            raise ValueError(f"{name} holds objects, and this file holds numbers and words only")
    content = io.BytesIO()
    parts["header"] = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez(content, allow_pickle=False, **parts)
    replace_file(Path(path), content.getbuffer())


def read(
    path: str | Path, what: str, form: str, version: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read an archive.

    Parameters
    ----------
    path : str or Path
    what : str
        What the file should be, in words ("a hogshare model").
    form, version : str and int
        What its header must say under ``format`` and ``format_version``.

    Returns
    -------
    header : dict
    arrays : dict of ndarray

    Raises
    ------
    ValueError
        If the file is something else, is cut off, or was written by a later version.
    OSError
        If it cannot be opened.
    """
    arrays = read_arrays(path, what)
    try:
        header = json.loads(arrays.pop("header").tobytes())
        if header["format"] != form:
            raise ValueError(f"its header says {header['format']!r}")
        if header["format_version"] != version:
            raise ValueError(
                f"its format is {header['format_version']}, and this hogshare reads {version}: "
                "update hogshare"
            )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not {what} ({error})") from error
    return header, arrays


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """Put content in a file's place so that nobody ever sees half of it.

    The order matters: without bringing the content to the disk before the new name, a crash could
    leave the new name with nothing behind it.
    """
    folder = path.parent
    descriptor, temporary = tempfile.mkstemp(
        prefix=f".{path.name}.{os.getpid()}.", suffix=".tmp", dir=folder
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def sweep(path: Path) -> None:
    """Remove what processes that were killed while they wrote this file have left beside it."""
    if not os.path.isdir("/proc/self"):
        return  # who is alive cannot be told here, and a file in the making must stay
    start = f".{path.name}."
    for name in os.listdir(path.parent):
        process = name.removeprefix(start).partition(".")[0]
        ours = name.startswith(start) and name.endswith(".tmp") and process.isdigit()
        if ours and not os.path.exists(f"/proc/{process}"):
            with contextlib.suppress(OSError):
                os.unlink(path.parent / name)


def _mode(path: Path) -> int:
    """Permissions of the file that is replaced, or those that a new file would get."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk; where folders cannot be opened (Windows), the system does."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
