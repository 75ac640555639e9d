"""Conversion of an estimator to scikit-learn's estimator of the same name."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from hogshare.estimators import fitted_attributes
from hogshare.estimators.collections import take_collections
from hogshare.estimators.parameters import KnownParameters
from hogshare.system.callers import warn

NARROW = ("SGDClassifier", "MLPClassifier")  # skl2onnx casts the labels of these to 32 bits
NAMES_ITS_SOLVER = ("Ridge", "RidgeClassifier")  # in scikit-learn


class Exporting(KnownParameters):
    """Base of an estimator that extends scikit-learn's estimator, and can be converted to it.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`. Defined only when `X` has feature names that are all
        strings.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        take_collections(cls)

    def to_sklearn(self) -> Any:
        """Return the scikit-learn estimator that this one replaces, fitted.

        The result makes the same predictions, bit for bit, and shares no memory with this
        estimator. It can be pickled, served and converted without this package and without Numba.
        An exception is the `transform` of topics, which is the same up to rounding.

        Returns
        -------
        estimator
            An instance of scikit-learn's class with this class's name and the parameters that
            scikit-learn has. ``learning_rate='auto'`` becomes that class's default, or
            'invscaling' if the default needs a penalty and there is none.

        Raises
        ------
        NotFittedError
            If this estimator has not been fitted.

        Warns
        -----
        UserWarning
            If skl2onnx (1.20) would convert the result to a different model. This happens for
            `SGDClassifier` and `MLPClassifier` with labels beyond 32 bits, for `SGDClassifier` with
            three or more classes and ``loss="modified_huber"``, and for networks with two labels.

        Notes
        -----
        The `fit` of the result is scikit-learn's own. It refuses some input that this package
        accepts: sparse rows with an intercept for Ridge's 'saga', and rows with 64-bit indices.
        The coefficients are copied in the same memory order, because this order decides the last
        bits of predictions. With three or more classes scikit-learn's `partial_fit` needs C order:
        assign ``model.coef_ = np.ascontiguousarray(model.coef_)`` before the first call.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from hogshare import SGDClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = SGDClassifier(random_state=0, n_jobs=1).fit(X, y)
        >>> served = model.to_sklearn()
        >>> type(served).__module__
        'sklearn.linear_model._stochastic_gradient'
        >>> bool((served.decision_function(X) == model.decision_function(X)).all())
        True
        """
        check_is_fitted(self, fitted_attributes.mark(self))
        kind = _replaced(type(self))
        params = self.get_params(deep=False)
        known = {name: params[name] for name in kind._get_param_names() if name in params}
        known = _translated(self, known)
        made = kind(**{name: clone(value, safe=False) for name, value in known.items()})
        fitted = {"n_features_in_": self.n_features_in_, **fitted_attributes.attributes(self)}
        if "_label_binarizer" in vars(self):
            fitted["_label_binarizer"] = self._label_binarizer
        if kind.__name__ not in NAMES_ITS_SOLVER:
            fitted.pop("solver_", None)
        for name, value in fitted.items():
            setattr(made, name, _copy(value))
        fitted_attributes.request(made, fitted_attributes.requests(self))
        for fault in _onnx_faults(kind.__name__, vars(made)):
            warn(
                f"{fault} This concerns ONNX alone: in scikit-learn the model predicts as before.",
            )
        return made


def _replaced(kind: type) -> Any:
    """Return the class of scikit-learn's that a class of this package replaces.

    kind : the class, or a user's subclass of it
    """
    ours = next(base for base in kind.__mro__ if base.__module__.startswith("hogshare."))
    theirs = (base for base in kind.__mro__ if base.__module__.startswith("sklearn."))
    return next(base for base in theirs if base.__name__ == ours.__name__)


def _onnx_faults(name: str, attributes: dict[str, Any]) -> list[str]:
    """Describe the attributes that skl2onnx would convert wrongly."""
    faults = []
    labels, narrow = np.asarray(attributes.get("classes_", 0)), np.iinfo(np.int32)
    numbers = name in NARROW and labels.dtype.kind in "iuf"
    if numbers and (labels.min() < narrow.min or labels.max() > narrow.max):
        faults.append(
            f"skl2onnx casts labels of {name} to 32 bits, and these range from {labels.min()} to "
            f"{labels.max()}: for ONNX fit smaller numbers, or strings, as labels."
        )
    if attributes.get("loss") == "modified_huber" and labels.size > 2:
        faults.append(
            "skl2onnx takes the class of the largest probability, and by the loss 'modified_huber' "
            "several classes often have the same: for ONNX fit the loss 'log_loss' or 'hinge'."
        )
    if attributes.get("out_activation_") == "logistic" and attributes["n_outputs_"] == 2:
        faults.append(
            "skl2onnx gives a network of two labels four columns of probabilities: each label's "
            "complement, and then each label's."
        )
    return faults


def _translated(estimator: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Replace, in `params`, values that scikit-learn does not have or deprecates; return it."""
    if params.get("learning_rate") == "auto":
        optimal = is_classifier(estimator) and estimator.alpha > 0.0
        params["learning_rate"] = "optimal" if optimal else "invscaling"
    if type(estimator).__name__ == "LogisticRegression":
        params.pop("n_jobs")  # deprecated in scikit-learn, and without effect
    return params


def _copy(value: Any) -> Any:
    """Return a copy of a value; an array becomes a plain ndarray in the same memory order."""
    return np.array(value, order="K") if isinstance(value, np.ndarray) else copy.deepcopy(value)
