"""Encoders of tables in model files: parameters, fitted attributes, and the pipeline's steps.

A model file is not trusted: its contents become an encoder only after all checks in `to_encoder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hogshare.io.encoding import CATEGORY, EMPTY, FITTED, NUMBER, TableEncoder

STEPS = ("columns", "model")  # default names of a pipeline's steps


def to_saved(encoder: TableEncoder, steps: tuple[str, str] = STEPS) -> dict[str, Any]:
    """Return the mapping that a model file stores for a fitted encoder and the steps' names."""
    names = (*FITTED, "n_features_in_", "feature_names_in_")
    fitted = {name: vars(encoder)[name] for name in names if name in vars(encoder)}
    return {"params": encoder.get_params(), "fitted": fitted, "steps": list(steps)}


def to_encoder(saved: Mapping[str, Any]) -> TableEncoder:
    """Return the encoder from its form in a file.

    Raises
    ------
    ValueError, TypeError, KeyError
        If the form is not a valid encoder.
    """
    encoder = TableEncoder(**saved["params"])
    encoder._validate_params()
    fitted = dict(saved["fitted"])
    width = fitted["n_features_in_"]
    if type(width) is not int or width < 1:
        raise ValueError(f"n_features_in_ is {width!r}")
    names = fitted.get("feature_names_in_")
    if names is not None and not _is_text(names, width):
        raise ValueError("feature_names_in_ are not those of the encoder's columns")
    kinds, categories = fitted["kinds_"], fitted["categories_"]
    if not (type(kinds) is list and len(kinds) == width):
        raise ValueError("kinds_ are not those of the encoder's columns")
    if any(kind not in (NUMBER, CATEGORY, EMPTY) for kind in kinds):
        raise ValueError("kinds_ has one that is not known")
    if not (type(categories) is list and len(categories) == width):
        raise ValueError("categories_ are not those of the encoder's columns")
    for kind, texts in zip(kinds, categories, strict=True):
        n_texts = len(texts) if kind == CATEGORY else 0
        if not _is_text(texts, n_texts) or len(set(texts.tolist())) != n_texts:
            raise ValueError("categories_ are no texts of the encoder's columns")
    scales = fitted["scales_"]
    for name in ("means_", "scales_"):
        numbers = fitted[name]
        if numbers is not None and not _is_numbers(numbers, "f", width):
            raise ValueError(f"{name} are not those of the encoder's columns")
    if fitted["means_"] is None or (scales is not None and not (scales > 0.0).all()):
        raise ValueError("means_ or scales_ are none of a fit")
    if not _is_numbers(fitted["with_missing_"], "b", width):
        raise ValueError("with_missing_ is not that of the encoder's columns")
    if type(fitted["is_sparse_"]) is not bool:
        raise ValueError("is_sparse_ is no truth value")
    for name, value in fitted.items():  # after the checks there are no other names
        setattr(encoder, name, value)
    return encoder


def check(saved: Mapping[str, Any], n_features: int) -> None:
    """Refuse an encoder that does not make `n_features` columns; raise as `to_encoder`."""
    encoder = to_encoder(saved)
    if encoder.n_features_out_ != n_features:
        raise ValueError("the encoder's columns are not those of the model")
    steps = saved["steps"]
    if not (type(steps) is list and len(set(steps)) == 2 and all(type(s) is str for s in steps)):
        raise ValueError("the steps are not named")


def _is_text(array: Any, length: int) -> bool:
    return (
        type(array) is np.ndarray
        and array.shape == (length,)
        and all(type(text) is str for text in array.tolist())
    )


def _is_numbers(array: Any, kind: str, length: int) -> bool:
    return (
        type(array) is np.ndarray
        and array.dtype.kind == kind
        and array.shape == (length,)
        and bool(np.isfinite(array).all())
    )
