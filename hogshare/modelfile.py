"""Model files: a ``.npz`` archive whose entry ``header`` is JSON. No pickle, on either side.

    header.npy           bytes of JSON: format, version, class name, parameters, attributes
    <attribute>.npy      one array for each of the model's arrays (coef_, intercept_, classes_, ...)

Parameters and attributes are written as `hogshare.forms` has them. The file is an archive
(`hogshare.archives`): replaced as a whole or not at all. Of arrays that the header does not name
nothing is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare import archives, forms

FORMAT = "hogshare model"
FORMAT_VERSION = 2
# the first had parameters and attributes as plain JSON, and these arrays
FIRST_ARRAYS = ("coef_", "intercept_", "classes_", "n_iter_")
FACTORISATION = "MatrixFactorization"  # the class that has no coefficients
ITERATES = {"_standard_coef": "_standard_intercept", "_average_coef": "_average_intercept"}
DAMAGE = (ValueError, KeyError, TypeError, OverflowError, AttributeError)


@dataclass(kw_only=True)
class SavedModel:
    """What a model file holds.

    Parameters
    ----------
    class_name : str
        Name of the estimator's class.
    n_features : int
        Columns that the model expects; 0 of one that is asked for pairs of ids.
    params : dict
        The estimator's parameters.
    attributes : dict
        What a fit has left, by the names of the estimator's attributes.
    requests : dict
        What the estimator asks of scikit-learn's metadata routing: by method, by name.
    zero_based : bool or None
        Whether column 0 of the model was index 0 in the LIBSVM text that it was fitted to (True) or
        index 1 (False). None where the rows were no such text, or the file is from before this was
        kept.
    label_column : str, int or None
        Which column of the CSV file that it was fitted to had the labels: its name, or its place
        from 1. None where there was none.
    versions : dict
        Versions of the libraries that made the model.
    """

    class_name: str
    n_features: int
    params: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    zero_based: bool | None = None
    label_column: str | int | None = None
    versions: dict[str, str] = field(default_factory=dict)


def save(path: str | Path, model: SavedModel) -> None:
    """Write a model file, or leave what was there.

    Raises
    ------
    ValueError
        If a parameter or an attribute is nothing that a file can hold, or the model's parts do not
        fit together.
    OSError
        If it cannot be written (a full disk, no permission). The old file is as it was.
    """
    check(model)
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "class_name": model.class_name,
        "n_features": int(model.n_features),
        "params": _forms("parameter", model.params, "params.", arrays),
        "attributes": _forms("attribute", model.attributes, "", arrays),
        "requests": _forms("requests for", model.requests, "requests.", arrays),
        "zero_based": model.zero_based,
        "label_column": model.label_column,
        "versions": model.versions,
    }
    archives.write(path, header, arrays)


def _forms(
    what: str, values: Mapping[str, Any], start: str, arrays: dict[str, np.ndarray]
) -> dict[str, Any]:
    told = {}
    for name, value in values.items():
        try:
            told[name] = forms.write(value, f"{start}{name}", arrays)
        except TypeError as error:
            raise ValueError(
                f"the {what} {name} {error}, and a model file holds numbers, words, arrays of "
                "either, and hogshare's barriers and planes: set another value, or use pickle"
            ) from error
    return told


def load(path: str | Path) -> SavedModel:
    """Read a model file.

    Raises
    ------
    ValueError
        If the file is no model, is cut off, or was written by a later version.
    OSError
        If it cannot be opened.
    """
    versions = range(1, FORMAT_VERSION + 1)
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
    """Names of the arrays that a header refers to."""
    if _is_first(header):
        return list(FIRST_ARRAYS)
    parts = ("params", "attributes", "requests")
    return [name for part in parts for name in forms.names(list(dict(header[part]).values()))]


def _values(
    header: Mapping[str, Any], part: str, arrays: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    if _is_first(header):
        if part == "requests":
            return {}
        # `[()]` makes a number of an array without dimensions
        own = {name: array[()] for name, array in arrays.items()} if part == "attributes" else {}
        return {**dict(header[part]), **own}
    return {str(name): forms.read(form, arrays) for name, form in dict(header[part]).items()}


def check(model: SavedModel) -> None:
    """Refuse a model whose parts do not fit together.

    Raises
    ------
    ValueError
    """
    if not (model.zero_based is None or isinstance(model.zero_based, bool)):
        raise ValueError(f"zero_based: {model.zero_based!r}")
    if not (model.label_column is None or type(model.label_column) in (str, int)):
        raise ValueError(f"label_column: {model.label_column!r}")
    if model.class_name == FACTORISATION:
        check_lines(model)
    else:
        check_coefficients(model)
    t = model.attributes.get("t_", 1.0)
    if not isinstance(t, Real) or not 0.0 < float(t) < math.inf:
        raise ValueError(f"t_ is {t!r}, which is no step counter")


def check_coefficients(model: SavedModel) -> None:
    """Refuse coefficients that do not fit together.

    Raises
    ------
    ValueError
    """
    has = model.attributes
    coef = has.get("coef_")
    shape: tuple[int, ...] = getattr(coef, "shape", ())
    if not _is_floats(coef) or len(shape) not in (1, 2) or shape[-1] != model.n_features:
        raise ValueError("the coefficients coef_ are missing, or do not fit n_features")
    n_lines = math.prod(shape[:-1])
    if not _is_intercept(has.get("intercept_"), n_lines):
        raise ValueError("intercept_ is missing, or is not that of the coefficients")
    for one, other in ITERATES.items():
        iterate = has.get(one)
        if iterate is None:
            continue
        if not _is_floats(iterate) or math.prod(iterate.shape) != n_lines * model.n_features:
            raise ValueError(f"{one} does not fit the coefficients")
        if not _is_intercept(has.get(other), n_lines):
            raise ValueError(f"{other} is missing, or is not that of {one}")
    classes = has.get("classes_")
    # of a single class, which is a target of a single number
    fewest = 1 if model.class_name == "RidgeClassifier" and n_lines == 1 else 2
    if classes is not None and _shape(classes) not in ((fewest,), (max(2, n_lines),)):
        raise ValueError("classes_ are not those of the coefficients")
    names = has.get("feature_names_in_")
    if names is not None and _shape(names) != (model.n_features,):
        raise ValueError("feature_names_in_ do not fit n_features")
    if names is not None and not all(type(name) is str for name in names.tolist()):
        raise ValueError("feature_names_in_ are no words")


def check_lines(model: SavedModel) -> None:
    """Refuse users and items that do not fit together.

    Raises
    ------
    ValueError
    """
    has: Mapping[str, Any] = {"seen_": None, **model.attributes}
    lengths, widths = [], set()
    for side, ids in (("user", "users_"), ("item", "items_")):
        names: Any = has.get(ids)
        lines: Any = has.get(f"{side}_factors_")
        if type(names) is not np.ndarray or names.ndim != 1:
            raise ValueError(f"{ids} is missing, or no list of ids")
        if not _is_floats(lines) or _shape(lines) is None or lines.shape[:-1] != names.shape:
            raise ValueError(f"{side}_factors_ is missing, or not those of {ids}")
        biases: Any = has.get(f"{side}_biases_")
        counts: Any = has.get(f"{side}_counts_")
        if not _is_floats(biases) or _shape(biases) != names.shape:
            raise ValueError(f"{side}_biases_ is missing, or not those of {ids}")
        if _shape(counts) != names.shape or counts.dtype.kind != "i" or counts.min(initial=0) < 0:
            raise ValueError(f"{side}_counts_ is missing, or not those of {ids}")
        lengths.append(len(names))
        widths.add(lines.shape[1])
        try:
            distinct = len(set(names.tolist()))
        except TypeError as error:
            raise ValueError(f"{ids} holds what is no id") from error
        if distinct < len(names):
            raise ValueError(f"{ids} holds an id twice")
    if len(widths) > 1:
        raise ValueError("users and items have different numbers of factors")
    seen = has["seen_"]
    if not sp.issparse(seen) or seen.shape != tuple(lengths):
        raise ValueError("seen_ is missing, or not that of users and items")
    for name in ("alpha_", "mean_", "_eta0", "_unit"):
        if not isinstance(has.get(name), float) or not math.isfinite(has[name]):
            raise ValueError(f"{name} is {has.get(name)!r}, which is no finite number")


def _is_floats(value: Any) -> bool:
    """Whether it is an array of floats, or a sparse matrix."""
    known = type(value) is np.ndarray or sp.issparse(value)
    return known and value.dtype.kind == "f"


def _is_intercept(value: Any, n_lines: int) -> bool:
    if isinstance(value, float | np.floating):
        return True
    return _is_floats(value) and value.shape in ((), (n_lines,))


def _shape(value: Any) -> Any:
    """Of an array; None of anything else."""
    return value.shape if type(value) is np.ndarray else None
