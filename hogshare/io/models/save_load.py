"""`save` and `load`: fitted estimators in files that hold numbers and words, and no code.

The file is the command's own (`hogshare.io.models.model_file`): what ``hogshare fit`` has written
is loaded by `load`, and what `save` has written ``hogshare predict`` reads.
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

# what stands for not being of a class, in classifiers that have targets of numbers
BINARIZED = {"MLPClassifier": 0, "RidgeClassifier": -1}

PathLike = str | os.PathLike[str]


def save(estimator: Any, path: PathLike, *, zero_based: bool | None = None) -> None:
    """Store a fitted estimator in a file, without pickle.

    Parameters
    ----------
    estimator : estimator
        A fitted one of this package's classes, or a pipeline of a `TableEncoder` and one. Of other
        pipelines and other libraries' estimators ``skops.io.dump`` makes files without pickle.
    path : str or path-like
        File to write. The name is kept as it is. A file that is there is replaced, as a whole or
        not at all.
    zero_based : bool or None, default=None
        For ``hogshare predict``: whether column 0 of the model is index 0 in files of LIBSVM text
        (True) or index 1 (False). None: what the file said that the estimator was loaded from, if
        it has not been fitted since, or nothing.

    Raises
    ------
    TypeError
        If it is no estimator of this package's.
    NotFittedError
        If it has not been fitted.
    ValueError
        If a parameter is something that such a file does not hold: a function, a scorer, a splitter
        or a `numpy.random.RandomState`; or something that no fit would take. Nothing is written
        then.
    OSError
        If the file cannot be written. A file that was there is as it was.

    See Also
    --------
    load : The way back.

    Notes
    -----
    Kept are the class, all parameters, and what a fit or `partial_fit` has left, bit for bit: what
    predicting needs, and what a further `partial_fit` or warm start begins with. Not kept are
    `report_`, callbacks, and attributes of your own. A `partial_fit` goes on as if nothing had been
    between, except that its first call copies the coefficients once.

    The file is an ``.npz`` archive of arrays and one header of JSON; reading it runs nothing.

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

    Whatever the file holds, none of it is run.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    estimator
        A fitted one of the class that was stored, with the same parameters, predictions and
        probabilities, bit for bit. It has no `report_`. Of a file that was fitted to a table with
        text, missing values or scaled columns it is a pipeline, whose first step is a
        `TableEncoder`: it predicts rows of such a table.

    Raises
    ------
    ValueError
        If the file is no model of this package's, is cut off, or is of a later version.
    MemoryError
        If its arrays take more memory than there is.
    OSError
        If it cannot be opened.

    See Also
    --------
    save : Store one.

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
    """The encoder of a pipeline, as a file has it, and the estimator."""
    steps = [step for _, step in pipeline.steps]
    if len(steps) != 2 or type(steps[0]) is not TableEncoder:
        kinds = ", ".join(type(step).__name__ for step in steps)
        raise TypeError(
            "hogshare.save stores pipelines of a TableEncoder and an estimator of this package's, "
            f"and this is another Pipeline: of {kinds}. For others there is skops.io.dump."
        )
    check_is_fitted(steps[0])
    first, last = (name for name, _ in pipeline.steps)
    return encoders.to_saved(steps[0], (first, last)), steps[1]


def _known_base(estimator: Any) -> bool | None:
    """Where indices began, as the model's file said; a fit since then has left a report."""
    known = getattr(estimator, "__dict__", {})
    return None if "report_" in known else known.get("_zero_based")


def to_saved(estimator: Any, zero_based: bool | None = None) -> SavedModel:
    """Return what a file holds of an estimator; raises as `save`."""
    kind = type(estimator)
    name = kind.__name__
    if name not in estimators.__all__ or getattr(estimators, name) is not kind:
        known = ", ".join(estimators.__all__)
        raise TypeError(
            f"hogshare.save stores fitted estimators of this package's ({known}), and this is a "
            f"{name}: for pipelines and others' estimators there is skops.io.dump."
        )
    from hogshare.estimators import fitted_attributes
    from hogshare.solvers.outcome import versions

    check_is_fitted(estimator, fitted_attributes.mark(estimator))
    _check_parameters(estimator)  # what was set since a fit, and `load` would not take
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
    """Refuse parameters that no fit takes: scikit-learn's own checks take True for the number 1.

    Raises
    ------
    ValueError
        As `_validate_params`, whose error is one.
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
    """Whether it is scikit-learn's word for a parameter that nobody has set, and that may go."""
    return isinstance(value, str) and value in ("deprecated", "warn")


def _is_multilabel(estimator: Any) -> bool:
    binarizer = vars(estimator).get("_label_binarizer")
    return binarizer is not None and binarizer.y_type_.startswith("multilabel")


def to_estimator(saved: SavedModel, path: str) -> Any:
    """Return the fitted estimator that a file holds; only the known classes are made.

    Raises
    ------
    ValueError
        If the class is unknown, or its parameters or attributes are none that it can have.
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
    """What a classifier's `predict` asks for its labels."""
    from sklearn.preprocessing import LabelBinarizer

    classes, form = attributes["classes_"], attributes.get("multilabel")
    labels = classes if form is None else np.eye(len(classes), dtype=np.int64)
    if form == "sparse":
        labels = sp.csr_matrix(labels)
    return LabelBinarizer(pos_label=1, neg_label=negative).fit(labels)
