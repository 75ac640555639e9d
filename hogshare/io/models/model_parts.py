"""The parts of a fitted model, by class, and checks that they fit together.

A model file is not trusted: its contents are set in an estimator only after `check`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import psi

from hogshare.problems.kernel_arrays import FLOATS

ITERATES = {"_standard_coef": "_standard_intercept", "_average_coef": "_average_intercept"}
GENERATOR = "MT19937"  # the generator of a RandomState
WORDS_OF_STATE = 624  # number of 32-bit words in its state
LAST_ACTIVATIONS = ("softmax", "logistic", "identity", "exp")  # of networks
LARGEST_PRIOR, LARGEST_SINGLE = 1e100, float(np.finfo(np.float32).max)
WEIGHTS = (float, float, str, float, float)
MOST_NEGATIVES = 1 << 20
LEAST_OF_LINES = {
    "alpha_": 0.0,
    "mean_": -math.inf,
    "t_": 1.0,
    "_eta0": 0.0,
    "_unit": 1.0,
    "_pace": 0.0,
}
FORM = (str, bool, bool)  # types of a factorization's loss, biases and nonnegative
OF_BOTH = {"learning_rate_init", "learning_rate"}  # attributes of both optimizers of networks
OF_SGD = {*OF_BOTH, "lr_schedule", "momentum", "nesterov", "power_t", "velocities"}
OF_ADAM = {*OF_BOTH, "beta_1", "beta_2", "epsilon", "t", "ms", "vs"}


@dataclass(kw_only=True)
class SavedModel:
    """The contents of a model file."""

    class_name: str  # of the estimator
    n_features: int  # number of columns that the model expects; 0 if it predicts pairs of ids
    params: dict[str, Any] = field(default_factory=dict)
    # the fitted attributes, by name
    attributes: dict[str, Any] = field(default_factory=dict)
    # the estimator's requests to scikit-learn's metadata routing, by method and name
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    # whether column 0 of the model was index 0 (True) or index 1 (False) in the LIBSVM text of the
    # fit; None if the rows were no such text, or in an older file
    zero_based: bool | None = None
    # name, or number from 1, of the labels' column in the CSV file of the fit
    label_column: str | int | None = None
    # the encoder of a table whose rows the model expects (`hogshare.io.encoding`): its parameters,
    # its fitted attributes, and the names of the pipeline's two steps; empty without an encoder
    encoding: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)  # of the libraries that made the model


def check(model: SavedModel) -> None:
    """Refuse a model whose parts do not fit together."""
    CHECKS.get(model.class_name, check_coefficients)(model)
    names = model.attributes.get("feature_names_in_")
    if names is not None and _shape(names) != (model.n_features,):
        raise ValueError("feature_names_in_ do not fit n_features")
    if names is not None and not all(type(name) is str for name in names.tolist()):
        raise ValueError("feature_names_in_ are no strings")


def check_coefficients(model: SavedModel) -> None:
    """Refuse coefficients that do not fit together."""
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
    # a RidgeClassifier that was fitted to a single class has one target
    fewest = 1 if model.class_name == "RidgeClassifier" and n_lines == 1 else 2
    if classes is not None and _shape(classes) not in ((fewest,), (max(2, n_lines),)):
        raise ValueError("classes_ are not those of the coefficients")


def check_lines(model: SavedModel) -> None:
    """Refuse users and items that do not fit together."""
    has: Mapping[str, Any] = {"seen_": None, **model.attributes}
    lengths, widths = [], set()
    for what, ids in (("user", "users_"), ("item", "items_")):
        names: Any = has.get(ids)
        lines: Any = has.get(f"{what}_factors_")
        if type(names) is not np.ndarray or names.ndim != 1:
            raise ValueError(f"{ids} is missing, or no list of ids")
        if not _is_floats(lines) or _shape(lines) is None or lines.shape[:-1] != names.shape:
            raise ValueError(f"{what}_factors_ is missing, or not those of {ids}")
        biases: Any = has.get(f"{what}_biases_")
        counts: Any = has.get(f"{what}_counts_")
        if not _is_floats(biases) or _shape(biases) != names.shape:
            raise ValueError(f"{what}_biases_ is missing, or not those of {ids}")
        if not (np.isfinite(lines).all() and np.isfinite(biases).all()):
            raise ValueError(f"{what}_factors_ or {what}_biases_ has NaN or infinity")
        if _shape(counts) != names.shape or counts.dtype.kind != "i" or counts.min(initial=0) < 0:
            raise ValueError(f"{what}_counts_ is missing, or not those of {ids}")
        lengths.append(len(names))
        widths.add(lines.shape[1])
        try:
            distinct = len(set(names.tolist()))
        except TypeError as error:
            raise ValueError(f"{ids} contains a value that is not an id") from error
        if distinct < len(names):
            raise ValueError(f"{ids} contains an id twice")
    if len(widths) > 1:
        raise ValueError("users and items have different numbers of factors")
    seen = has["seen_"]
    form = has.get("_form")
    if form is not None and not (type(form) is tuple and tuple(map(type, form)) == FORM):
        raise ValueError(f"_form is {form!r}, which is none of a fit")
    weights: Any = has.get("_weights")
    if weights is not None and not (
        type(weights) is tuple
        and tuple(map(type, weights)) == WEIGHTS
        and all(math.isfinite(one) for one in weights if type(one) is float)
        and weights[3] > 0.0
        and weights[2] in ("uniform", "popularity")
    ):
        raise ValueError(f"_weights is {weights!r}, which is none of a fit")
    if not sp.issparse(seen) or seen.shape != tuple(lengths):
        raise ValueError("seen_ is missing, or not that of users and items")
    for name, least in LEAST_OF_LINES.items():
        number: Any = has.get(name, 1.0 if name == "_pace" else None)  # older files lack it
        if not _is_float(number) or not least <= float(number) <= LARGEST_SINGLE:
            raise ValueError(f"{name} is {number!r}, which is not a number of a fit")
    solver, negatives = has.get("solver_", "sgd"), has.get("negatives_", 0)  # older files lack both
    if solver not in ("sgd", "als"):
        raise ValueError(f"solver_ is {solver!r}, which fits no lines")
    if type(negatives) is not int or not 0 <= negatives <= MOST_NEGATIVES:
        raise ValueError(f"negatives_ is {negatives!r}, which is not a number of draws")


def check_topics(model: SavedModel) -> None:
    """Refuse topics that do not fit together."""
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
    wide = topics.astype(np.float64)
    expected = np.exp(psi(wide) - psi(wide.sum(axis=1, keepdims=True)))
    # a loose tolerance: the stored values may have been computed in float32
    if not np.allclose(part, expected, rtol=1e-3, atol=1e-30):
        raise ValueError("exp_dirichlet_component_ is not that of components_")
    for name in ("doc_topic_prior_", "topic_word_prior_"):
        prior: Any = has.get(name)
        if not (_is_float(prior) or type(prior) is int) or not 0.0 < prior < LARGEST_PRIOR:
            raise ValueError(f"{name} is {prior!r}, which is no prior")
    _check_counts(has, "n_batch_iter_", "n_iter_")
    _check_generator(has.get("random_state_"))


def check_layers(model: SavedModel) -> None:
    """Refuse layers of a network that do not fit together."""
    has = model.attributes
    shapes = _check_layers(has, "coefs_", "intercepts_")
    if shapes[0][0] != model.n_features:
        raise ValueError("coefs_ do not fit n_features")
    n_outputs = shapes[-1][1]
    if has.get("n_outputs_") != n_outputs or has.get("n_layers_") != len(shapes) + 1:
        raise ValueError("n_outputs_ or n_layers_ is not that of coefs_")
    if has.get("out_activation_") not in LAST_ACTIVATIONS:
        raise ValueError(f"out_activation_ is {has.get('out_activation_')!r}")
    classes = has.get("classes_")
    if classes is not None and _shape(classes) not in ((max(2, n_outputs),), (n_outputs,)):
        raise ValueError("classes_ are not those of coefs_")
    counts = dict.fromkeys(("n_iter_", "t_", "_no_improvement_count"), 0)
    _check_counts({**counts, **has}, *counts)
    for name in ("loss_curve_", "validation_scores_"):
        curve = has.get(name)
        if curve is not None and not (type(curve) is list and all(map(_is_float, curve))):
            raise ValueError(f"{name} is not a list of numbers")
    for name in ("loss_", "best_loss_", "best_validation_score_"):
        if not (has.get(name) is None or _is_float(has[name])):
            raise ValueError(f"{name} is {has[name]!r}, which is not a number")
    if "_best_coefs" in has and _check_layers(has, "_best_coefs", "_best_intercepts") != shapes:
        raise ValueError("_best_coefs are not of the shapes of coefs_")
    if "_optimizer" in has:
        if has.get("loss_curve_") is None:
            raise ValueError("loss_curve_ is missing")
        _check_optimizer(has["_optimizer"], [*shapes, *[shape[1:] for shape in shapes]])


def _check_layers(has: Mapping[str, Any], coefs: str, intercepts: str) -> list[tuple[int, ...]]:
    """Return the shapes of the layers' coefficients; refuse layers that do not fit together."""
    layers, biases = has.get(coefs), has.get(intercepts)
    if not (type(layers) is type(biases) is list and len(layers) == len(biases) > 0):
        raise ValueError(f"{coefs} or {intercepts} are missing, or not by layer")
    shapes: list[tuple[int, ...]] = [_shape(part) or () for part in layers]
    n_in: Any = None
    for part, shape, bias in zip(layers, shapes, biases, strict=True):
        fits = _is_floats(part) and len(shape) == 2 and n_in in (None, shape[0])
        if not (fits and _is_floats(bias) and _shape(bias) == shape[1:]):
            raise ValueError(f"{coefs} or {intercepts} do not fit from layer to layer")
        if not (np.isfinite(part).all() and np.isfinite(bias).all()):
            raise ValueError(f"{coefs} or {intercepts} are no finite numbers")
        n_in = shape[1]
    return shapes


def _check_optimizer(numbers: Any, shapes: list[tuple[int, ...]]) -> None:
    """Refuse values that are not an optimizer of a network with these shapes."""
    fields = OF_ADAM if isinstance(numbers, dict) and "ms" in numbers else OF_SGD
    if not (isinstance(numbers, dict) and set(numbers) == fields):
        raise ValueError("_optimizer is none that is known")
    for name, value in numbers.items():
        if name in ("ms", "vs", "velocities"):
            fits = type(value) is list and [_shape(part) for part in value] == shapes
            fits = fits and all(_is_floats(part) and np.isfinite(part).all() for part in value)
            fits = fits and not (name == "vs" and any((part < 0.0).any() for part in value))
        elif name == "lr_schedule":
            fits = value in ("constant", "invscaling", "adaptive")
        else:
            fits = isinstance(value, bool | int | np.bool_ | np.integer) or _is_float(value)
            fits = fits and 0.0 <= value < math.inf
        if not fits:
            raise ValueError(f"_optimizer does not fit the network, in its {name}")


def _check_counts(has: Mapping[str, Any], *names: str) -> None:
    """Refuse counts that are negative, too large, or not whole numbers."""
    for name in names:
        count = has.get(name)
        if type(count) is not int or not 0 <= count < 1 << 62:
            raise ValueError(f"{name} is {count!r}, which counts nothing")


def _is_float(value: Any) -> bool:
    return isinstance(value, float | np.float32)  # float64 is a float


def _check_generator(state: Any) -> None:
    """Refuse values that are not a state of a RandomState (`RandomState.get_state`)."""
    fits = isinstance(state, tuple) and len(state) == 5 and state[0] == GENERATOR
    if fits:
        _, words, place, has_normal, normal = state
        fits = _shape(words) == (WORDS_OF_STATE,) and words.dtype == np.uint32
        fits = fits and type(place) is int and 0 <= place <= WORDS_OF_STATE
        fits = fits and has_normal in (0, 1) and isinstance(normal, float) and math.isfinite(normal)
    if not fits:
        raise ValueError("random_state_ is missing, or no generator's state")


def _is_floats(value: Any) -> bool:
    """Whether a value is an array of floats, or a sparse matrix of them."""
    known = type(value) is np.ndarray or sp.issparse(value)
    return known and value.dtype in FLOATS


def _is_intercept(value: Any, n_lines: int) -> bool:
    if _is_float(value):
        return True
    return _is_floats(value) and value.shape in ((), (n_lines,))


def _shape(value: Any) -> Any:
    """Return the shape of an array; None for anything else."""
    return value.shape if type(value) is np.ndarray else None


CHECKS: Mapping[str, Callable[[SavedModel], None]] = {
    "LatentDirichletAllocation": check_topics,
    "MLPClassifier": check_layers,
    "MLPRegressor": check_layers,
    "MatrixFactorization": check_lines,
}
