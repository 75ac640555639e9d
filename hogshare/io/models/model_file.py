"""Model files: a ``.npz`` archive whose entry ``header`` is JSON, written and read without pickle.

    header.npy           bytes of JSON: format, version, class name, parameters, attributes
    <attribute>.npy      one array for each of the model's arrays (coef_, intercept_, classes_, ...)

Parameters and attributes are in the form of `hogshare.io.models.forms`. The file is an archive
(`hogshare.io.archives`): it is replaced as a whole or not at all. Arrays that the header does not
name are not read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from hogshare.io import archives
from hogshare.io.models import encoders, forms, model_parts
from hogshare.io.models.model_parts import SavedModel as SavedModel

FORMAT = "hogshare model"
FORMAT_VERSION = 2
WITH_ENCODING = 3  # version of models with an encoder, which readers of version 2 do not know
# version 1 had parameters and attributes as plain JSON, and these arrays
FIRST_ARRAYS = ("coef_", "intercept_", "classes_", "n_iter_")
DAMAGE = (ValueError, KeyError, TypeError, OverflowError, AttributeError)


def save(path: str | Path, model: SavedModel) -> None:
    """Write a model file; after an error an existing file is unchanged.

    Raises
    ------
    ValueError
        If a parameter or an attribute cannot be stored, or the model's parts do not fit together.
    OSError
        If the file cannot be written (a full disk, no permission).
    """
    check(model)
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "format_version": WITH_ENCODING if model.encoding else FORMAT_VERSION,
        "class_name": model.class_name,
        "n_features": int(model.n_features),
        "params": _forms("parameter", model.params, "params.", arrays),
        "attributes": _forms("attribute", model.attributes, "", arrays),
        "requests": _forms("requests for", model.requests, "requests.", arrays),
        "zero_based": model.zero_based,
        "label_column": model.label_column,
        "versions": model.versions,
    }
    if model.encoding:
        header["encoding"] = _forms("encoder's", model.encoding, "encoding.", arrays)
    archives.write(path, header, arrays)


def _forms(
    what: str, values: Mapping[str, Any], start: str, arrays: dict[str, np.ndarray]
) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        try:
            found[name] = forms.write(value, f"{start}{name}", arrays)
        except TypeError as error:
            raise ValueError(
                f"the {what} {name} {error}, and a model file stores numbers, strings, bytes, "
                "dates, UUIDs, tuples and arrays of these, and hogshare's barriers and planes: set "
                "another value, or use pickle"
            ) from error
    return found


def load(path: str | Path) -> SavedModel:
    """Read a model file.

    Raises
    ------
    ValueError
        If the file is not a model, is cut off, or was written by a later version.
    OSError
        If the file cannot be opened.
    """
    versions = range(1, WITH_ENCODING + 1)
    header, arrays = archives.read(path, "a hogshare model", FORMAT, versions, _named)
    try:
        model = SavedModel(
            class_name=str(header["class_name"]),
            n_features=int(header["n_features"]),
            params=_values(header, "params", arrays),
            attributes=_values(header, "attributes", arrays),
            requests=_values(header, "requests", arrays),
            zero_based=header.get("zero_based"),
            label_column=header.get("label_column"),
            encoding=_values(header, "encoding", arrays) if "encoding" in header else {},
            versions=dict(header["versions"]),
        )
        check(model)
    except MemoryError as error:
        raise MemoryError(f"{path}: {error}") from error
    except DAMAGE as error:
        raise ValueError(f"{path}: not a hogshare model ({error})") from error
    return model


def _is_first(header: Mapping[str, Any]) -> bool:
    return bool(header["format_version"] == 1)


def _named(header: dict[str, Any]) -> list[str]:
    """Return the names of the arrays to which a header refers."""
    if _is_first(header):
        return list(FIRST_ARRAYS)
    parts = ("params", "attributes", "requests", "encoding")
    found = [dict(header[part]) for part in parts if part in header or part != "encoding"]
    return [name for part in found for name in forms.names(list(part.values()))]


def _values(
    header: Mapping[str, Any], part: str, arrays: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    if _is_first(header):
        if part == "requests":
            return {}
        # `[()]` converts an array without dimensions to a number
        own = {name: array[()] for name, array in arrays.items()} if part == "attributes" else {}
        return {**dict(header[part]), **own}
    return {str(name): forms.read(form, arrays) for name, form in dict(header[part]).items()}


def check(model: SavedModel) -> None:
    """Refuse a model whose parts do not fit together."""
    if not (model.zero_based is None or isinstance(model.zero_based, bool)):
        raise ValueError(f"zero_based: {model.zero_based!r}")
    if not (model.label_column is None or type(model.label_column) in (str, int)):
        raise ValueError(f"label_column: {model.label_column!r}")
    model_parts.check(model)
    if model.encoding:
        encoders.check(model.encoding, model.n_features)
    t = model.attributes.get("t_", 1.0)
    if not isinstance(t, Real) or not 0.0 <= float(t) < math.inf:
        raise ValueError(f"t_ is {t!r}, which is not a step counter")
