"""`save` and `load`: fitted estimators in files of numbers and strings, without code.

`save` and ``hogshare fit`` write the same format (`hogshare.io.models.model_file`). `load` and
``hogshare predict`` read it.
"""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import Interval, make_constraint
from sklearn.utils.validation import check_is_fitted

from hogshare import estimators
from hogshare.io.encoding import TableEncoder
from hogshare.io.models import encoders, model_file
from hogshare.io.models.model_file import SavedModel
from hogshare.system import files
from hogshare.system.ranges import LARGEST

# the target for rows outside a class, in classifiers with numeric targets
BINARIZED = {"MLPClassifier": 0, "RidgeClassifier": -1}

PathLike = str | os.PathLike[str]


def save(estimator: Any, path: PathLike, *, zero_based: bool | None = None) -> None:
    """Store a fitted estimator in a file, without pickle.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of this package, or a pipeline of a `TableEncoder` and such an estimator.
        For other pipelines and other libraries' estimators use ``skops.io.dump``, which does not
        need pickle either.
    path : str or path-like
        File to write; no suffix is added. An existing file is replaced, as a whole or not at all.
    zero_based : bool or None, default=None
        For ``hogshare predict``: whether column 0 of the model is index 0 in files of LIBSVM text
        (True) or index 1 (False). If None, the value is that of the file from which the estimator
        was loaded, unless the estimator has been fitted since; in other cases no value is stored.

    Raises
    ------
    TypeError
        If `estimator` is not of this package.
    NotFittedError
        If `estimator` has not been fitted.
    ValueError
        If a parameter cannot be stored (a function, a scorer, a splitter or a
        `numpy.random.RandomState`), or would be refused by `fit`. Nothing is written in this case.
    OSError
        If the file cannot be written. In this case an existing file is unchanged.

    See Also
    --------
    load : Load a stored estimator.

    Notes
    -----
    The file contains the class, all parameters, and the attributes of a fit or `partial_fit`, bit
    for bit: the attributes for predictions, and the attributes from which a further `partial_fit`
    or warm start continues. It contains neither `report_`, nor callbacks, nor attributes of your
    own. A `partial_fit` of the loaded estimator continues as the original's `partial_fit` would,
    except that its first call copies the coefficients once.

    The file is an ``.npz`` archive of arrays and one header of JSON; reading it executes no code.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> import hogshare
    >>> X, y = load_iris(return_X_y=True)
    >>> model = hogshare.SGDClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.npz")
    ...     hogshare.save(model, path)
    ...     again = hogshare.load(path)
    >>> again
    SGDClassifier(random_state=0)
    >>> bool((again.decision_function(X) == model.decision_function(X)).all())
    True
    """
    if not (zero_based is None or isinstance(zero_based, bool | np.bool_)):
        raise ValueError(f"zero_based must be True, False or None; got {zero_based!r}.")
    name = os.fsdecode(path)
    files.check(name)
    encoding: dict[str, Any] = {}
    if type(estimator) is Pipeline:
        encoding, estimator = _steps(estimator)
    base = _known_base(estimator) if zero_based is None else bool(zero_based)
    saved = to_saved(estimator, base)
    saved.encoding = encoding
    model_file.save(name, saved)


def load(path: PathLike) -> Any:
    """Load an estimator that `save` or ``hogshare fit`` has stored.

    No content of the file is executed.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    estimator
        A fitted estimator of the stored class, with the same parameters, predictions and
        probabilities, bit for bit. It has no `report_`. If the model was fitted to a table with
        text, missing values or scaled columns, a pipeline is returned. Its first step is a
        `TableEncoder`, and it predicts rows of such a table.

    Raises
    ------
    ValueError
        If the file is not a model of this package, is cut off, or is of a later version.
    MemoryError
        If the arrays need more memory than is free.
    OSError
        If the file cannot be opened.

    See Also
    --------
    save : Store a fitted estimator.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import hogshare
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "line.npz")
    ...     hogshare.save(hogshare.Ridge(alpha=0.5).fit(X, X[:, 0]), path)
    ...     model = hogshare.load(path)
    >>> model, model.n_features_in_
    (Ridge(alpha=0.5), 2)
    """
    name = os.fsdecode(path)
    saved = model_file.load(name)
    estimator = to_estimator(saved, name)
    if saved.zero_based is not None:
        estimator._zero_based = saved.zero_based
    if not saved.encoding:
        return estimator
    steps = (encoders.to_encoder(saved.encoding), estimator)
    return Pipeline(list(zip(saved.encoding["steps"], steps, strict=True)))


def _steps(pipeline: Pipeline) -> tuple[dict[str, Any], Any]:
    """Return the mapping that a file stores for a pipeline's encoder, and the estimator."""
    steps = [step for _, step in pipeline.steps]
    if len(steps) != 2 or type(steps[0]) is not TableEncoder:
        kinds = ", ".join(type(step).__name__ for step in steps)
        raise TypeError(
            "hogshare.save stores pipelines of a TableEncoder and an estimator of this package, "
            f"and this is a Pipeline of {kinds}: for others use skops.io.dump."
        )
    check_is_fitted(steps[0])
    first, last = (name for name, _ in pipeline.steps)
    return encoders.to_saved(steps[0], (first, last)), steps[1]


def _known_base(estimator: Any) -> bool | None:
    """Return `zero_based` of the file that was loaded; None without a file or after a fit."""
    known = getattr(estimator, "__dict__", {})
    return None if "report_" in known else known.get("_zero_based")


def to_saved(estimator: Any, zero_based: bool | None = None) -> SavedModel:
    """Return the contents of an estimator's file; raise as `save`."""
    kind = type(estimator)
    name = kind.__name__
    if name not in estimators.__all__ or getattr(estimators, name) is not kind:
        known = ", ".join(estimators.__all__)
        raise TypeError(
            f"hogshare.save stores fitted estimators of this package ({known}), and this is a "
            f"{name}: for pipelines and other estimators use skops.io.dump."
        )
    from hogshare.estimators import fitted_attributes
    from hogshare.solvers.outcome import versions

    check_is_fitted(estimator, fitted_attributes.mark(estimator))
    _check_parameters(estimator)  # they may have been set since the fit, and `load` checks them
    attributes = fitted_attributes.plain(fitted_attributes.attributes(estimator))
    if _is_multilabel(estimator):
        attributes["multilabel"] = "sparse" if estimator._label_binarizer.sparse_input_ else "dense"
    return SavedModel(
        class_name=name,
        n_features=getattr(estimator, "n_features_in_", 0),
        params={k: v for k, v in estimator.get_params(deep=False).items() if not _is_unset(v)},
        attributes=attributes,
        requests=fitted_attributes.requests(estimator),
        zero_based=zero_based,
        versions=versions(),
    )


def _check_parameters(estimator: Any) -> None:
    """Refuse parameters that `fit` would refuse, and booleans in place of numbers.

    scikit-learn accepts booleans as numbers.

    Raises
    ------
    ValueError
        As `_validate_params`.
    """
    estimator._validate_params()
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, Integral) and abs(int(value)) > LARGEST:
            raise ValueError(f"{name} must be at most {LARGEST}; got {value!r}.")
        kinds = map(make_constraint, estimator._parameter_constraints.get(name, []))
        others = (kind for kind in kinds if not isinstance(kind, Interval))
        if isinstance(value, bool) and not any(kind.is_satisfied_by(value) for kind in others):
            raise ValueError(f"{name} must be a number; got {value!r}.")


def _is_unset(value: Any) -> bool:
    """Whether a value is scikit-learn's default for a deprecated or changing parameter."""
    return isinstance(value, str) and value in ("deprecated", "warn")


def _is_multilabel(estimator: Any) -> bool:
    binarizer = vars(estimator).get("_label_binarizer")
    return binarizer is not None and binarizer.y_type_.startswith("multilabel")


def to_estimator(saved: SavedModel, path: str) -> Any:
    """Return the fitted estimator from the contents of a file; only known classes are created.

    Raises
    ------
    ValueError
        If the class is unknown, or its parameters or attributes are invalid.
    """
    if saved.class_name not in estimators.__all__:
        raise ValueError(f"{path}: a model of the unknown class {saved.class_name!r}")
    from sklearn.base import is_classifier

    from hogshare.estimators import fitted_attributes

    try:
        estimator = getattr(estimators, saved.class_name)(**saved.params)
        _check_parameters(estimator)
        fitted_attributes.request(estimator, saved.requests)
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}: the model's parameters do not fit ({error})") from error
    if is_classifier(estimator) != ("classes_" in saved.attributes):
        raise ValueError(f"{path}: a model of the class {saved.class_name!r} with the wrong arrays")
    if saved.n_features:
        estimator.n_features_in_ = saved.n_features
    fitted_attributes.restore(estimator, saved.attributes)
    if saved.class_name in BINARIZED:
        estimator._label_binarizer = _binarizer(saved.attributes, BINARIZED[saved.class_name])
    return estimator


def _binarizer(attributes: dict[str, Any], negative: int) -> Any:
    """Return the label binarizer that a classifier's `predict` needs."""
    from sklearn.preprocessing import LabelBinarizer

    classes, form = attributes["classes_"], attributes.get("multilabel")
    labels = classes if form is None else np.eye(len(classes), dtype=np.int64)
    if form == "sparse":
        labels = sp.csr_matrix(labels)
    return LabelBinarizer(pos_label=1, neg_label=negative).fit(labels)
