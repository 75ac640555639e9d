"""Model files: a ``.npz`` archive whose entry ``header`` is JSON. No pickle, on either side.

    header.npy           bytes of JSON: format, version, class name, parameters, attributes
    <attribute>.npy      one array for each of the model's arrays (coef_, intercept_, classes_, ...)

The file is an archive (`hogshare.archives`): replaced as a whole or not at all. Of arrays by other
names nothing is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hogshare import archives

FORMAT = "hogshare model"
FORMAT_VERSION = 1
ARRAYS = ("coef_", "intercept_", "classes_", "n_iter_")


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
        Fitted arrays by attribute name, of those in `ARRAYS`: numbers, booleans or words, no
        objects.
    attributes : dict
        Fitted attributes that are plain numbers or words.
    zero_based : bool or None
        Whether column 0 of the model was index 0 in the LIBSVM text that it was fitted to (True) or
        index 1 (False). None where the rows were no such text, or the file is from before this was
        kept.
    versions : dict
        Versions of the libraries that made the model.
    """

    class_name: str
    n_features: int
    params: dict[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    zero_based: bool | None = None
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
        "zero_based": model.zero_based,
        "versions": model.versions,
    }
    archives.write(path, header, model.arrays)


def load(path: str | Path) -> SavedModel:
    """Read a model file.

    Raises
    ------
    ValueError
        If the file is no model, is cut off, or was written by a later version.
    OSError
        If it cannot be opened.
    """
    header, parts = archives.read(path, "a hogshare model", FORMAT, FORMAT_VERSION, ARRAYS)
    try:
        model = SavedModel(
            class_name=str(header["class_name"]),
            n_features=int(header["n_features"]),
            params=dict(header["params"]),
            arrays=parts,
            attributes=dict(header["attributes"]),
            zero_based=header.get("zero_based"),
            versions=dict(header["versions"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{path}: not a hogshare model ({error})") from error
    if not (model.zero_based is None or isinstance(model.zero_based, bool)):
        raise ValueError(f"{path}: not a hogshare model (zero_based: {model.zero_based!r})")
    coef = parts.get("coef_")
    if coef is None or coef.shape[-1:] != (model.n_features,) or coef.dtype.kind != "f":
        raise ValueError(f"{path}: the model's coefficients do not fit its header")
    n_lines = math.prod(coef.shape[:-1])
    intercept, classes = parts.get("intercept_"), parts.get("classes_")
    if intercept is None or intercept.dtype.kind != "f" or intercept.shape not in ((), (n_lines,)):
        raise ValueError(
            f"{path}: the model's intercept is missing, or is none of its coefficients'"
        )
    if classes is not None and classes.shape != (max(2, n_lines),):
        raise ValueError(f"{path}: the model's classes are not those of its coefficients")
    return model
