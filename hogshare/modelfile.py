"""Model files: a ``.npz`` archive whose entry ``header`` is JSON. No pickle, on either side.

    header.npy           bytes of JSON: format, version, class name, parameters, attributes
    <attribute>.npy      one array for each of the model's arrays (coef_, intercept_, classes_, ...)

A file is replaced as a whole or not at all: it is written under another name in the same folder,
brought to the disk, and renamed. Whoever reads sees the old model or the new one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hogshare.readers import read_arrays

FORMAT = "hogshare model"
FORMAT_VERSION = 1


@dataclass(kw_only=True)
class SavedModel:
    """What a model file holds.

    Parameters
    ----------
    class_name : str
        Name of the estimator's class.
    n_features : int
        Columns that the model expects.
    params : dict
        The estimator's parameters, as JSON knows them.
    arrays : dict of ndarray
        Fitted arrays by attribute name: numbers, booleans or words, no objects.
    attributes : dict
        Fitted attributes that are plain numbers or words.
    versions : dict
        Versions of the libraries that made the model.
    """

    class_name: str
    n_features: int
    params: dict[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def save(path: str | Path, model: SavedModel) -> None:
    """Write a model file, or leave what was there.

    Raises
    ------
    ValueError
        If a parameter is nothing that JSON knows, or an array holds objects.
    OSError
        If it cannot be written (a full disk, no permission). The old file is as it was.
    """
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "class_name": model.class_name,
        "n_features": int(model.n_features),
        "params": model.params,
        "attributes": model.attributes,
        "versions": model.versions,
    }
    try:
        text = json.dumps(header)
    except TypeError as error:
        raise ValueError(f"a parameter of the model cannot be stored: {error}") from error
    arrays = {name: np.asarray(array) for name, array in model.arrays.items()}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"{name} holds objects, and a model file holds numbers and words only")
    content = io.BytesIO()
    np.savez(
        content,
        allow_pickle=False,
        header=np.frombuffer(text.encode(), dtype=np.uint8),
        **arrays,
    )
    replace_file(Path(path), content.getbuffer())


def load(path: str | Path) -> SavedModel:
    """Read a model file.

    Raises
    ------
    ValueError
        If the file is no model, is cut off, or was written by a later version.
    OSError
        If it cannot be opened.
    """
    parts = read_arrays(path, "a hogshare model")
    try:
        header = json.loads(parts.pop("header").tobytes())
        if header["format"] != FORMAT:
            raise ValueError(f"its header says {header['format']!r}")
        if header["format_version"] != FORMAT_VERSION:
            raise ValueError(
                f"its format is {header['format_version']}, and this hogshare reads "
                f"{FORMAT_VERSION}: update hogshare"
            )
        model = SavedModel(
            class_name=str(header["class_name"]),
            n_features=int(header["n_features"]),
            params=dict(header["params"]),
            arrays=parts,
            attributes=dict(header["attributes"]),
            versions=dict(header["versions"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a hogshare model ({error})") from error
    coef = parts.get("coef_")
    if coef is None or coef.shape[-1:] != (model.n_features,) or coef.dtype.kind != "f":
        raise ValueError(f"{path}: the model's coefficients do not fit its header")
    return model


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """Put content in a file's place so that nobody ever sees half of it.

    The order matters: without bringing the content to the disk before the new name, a crash could
    leave the new name with nothing behind it.
    """
    folder = path.parent
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=folder)
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
