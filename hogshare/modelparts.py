"""Which parts a fitted model has, by its class, and how they fit together.

A model file is not trusted: what is read from one is put into an estimator only if it passes here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from hogshare.modelfile import SavedModel

ITERATES = {"_standard_coef": "_standard_intercept", "_average_coef": "_average_intercept"}
GENERATOR = "MT19937"  # of a RandomState
WORDS_OF_STATE = 624  # that it has


def check(model: SavedModel) -> None:
    """Refuse a model whose parts do not fit together.

    Raises
    ------
    ValueError
    """
    CHECKS.get(model.class_name, check_coefficients)(model)
    names = model.attributes.get("feature_names_in_")
    if names is not None and _shape(names) != (model.n_features,):
        raise ValueError("feature_names_in_ do not fit n_features")
    if names is not None and not all(type(name) is str for name in names.tolist()):
        raise ValueError("feature_names_in_ are no words")


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


def check_topics(model: SavedModel) -> None:
    """Refuse topics that do not fit together.

    Raises
    ------
    ValueError
    """
    has = model.attributes
    topics = has.get("components_")
    shape = _shape(topics)
    if not _is_floats(topics) or shape is None or len(shape) != 2 or shape[1] != model.n_features:
        raise ValueError("components_ are missing, or do not fit n_features")
    for name in ("components_", "exp_dirichlet_component_"):
        part: Any = has.get(name)
        if not _is_floats(part) or _shape(part) != shape or not np.isfinite(part).all():
            raise ValueError(f"{name} is missing, or not that of the topics")
    assert isinstance(topics, np.ndarray)
    if not (topics > 0.0).all():
        raise ValueError("components_ are no pseudo-counts")
    for name in ("doc_topic_prior_", "topic_word_prior_"):
        prior: Any = has.get(name)
        if not isinstance(prior, float | int) or not 0.0 <= prior < math.inf:
            raise ValueError(f"{name} is {prior!r}, which is no prior")
    for name in ("n_batch_iter_", "n_iter_"):
        count = has.get(name)
        if type(count) is not int or not 0 <= count < 1 << 62:
            raise ValueError(f"{name} is {count!r}, which counts nothing")
    _check_generator(has.get("random_state_"))


def _check_generator(state: Any) -> None:
    """Refuse what is no state of a RandomState (`RandomState.get_state`)."""
    fits = isinstance(state, tuple) and len(state) == 5 and state[0] == GENERATOR
    if fits:
        _, words, place, has_normal, normal = state
        fits = _shape(words) == (WORDS_OF_STATE,) and words.dtype == np.uint32
        fits = fits and type(place) is int and 0 <= place <= WORDS_OF_STATE
        fits = fits and has_normal in (0, 1) and isinstance(normal, float) and math.isfinite(normal)
    if not fits:
        raise ValueError("random_state_ is missing, or no generator's state")


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


CHECKS: Mapping[str, Callable[[SavedModel], None]] = {
    "LatentDirichletAllocation": check_topics,
    "MatrixFactorization": check_lines,
}
