"""From an estimator to the one of scikit-learn's that it replaces."""

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

NARROW = ("SGDClassifier", "MLPClassifier")  # of which skl2onnx casts labels to 32 bits
NAMES_ITS_SOLVER = ("Ridge", "RidgeClassifier")  # in scikit-learn


class Exporting(KnownParameters):
    """For an estimator that is a class of scikit-learn's with more to it.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, where `X` has names that are all strings.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        take_collections(cls)

    def to_sklearn(self) -> Any:
        """Return the scikit-learn estimator that this one replaces, fitted.

        It predicts the same, bit for bit, shares nothing with this one, and can be pickled, served
        and converted where neither this package nor Numba is installed. Topics' shares, which are
        computed anew, are the same to rounding.

        Returns
        -------
        estimator
            Of scikit-learn's class with this class's name. It has the parameters
            that scikit-learn knows; ``learning_rate='auto'`` becomes the default of that class, or
            'invscaling' where that needs a penalty and there is none.

        Raises
        ------
        NotFittedError
            If this estimator has not been fitted.

        Warns
        -----
        UserWarning
            If skl2onnx (1.20) would make another model of what is returned: labels beyond 32 bits
            of `SGDClassifier` and `MLPClassifier`, three or more classes of `SGDClassifier` by
            ``loss="modified_huber"``, and networks of two labels.

        Notes
        -----
        A fit of what is returned is scikit-learn's own, which refuses a few things that are fitted
        here (sparse rows with an intercept by Ridge's 'saga', rows with 64-bit indices).
        Coefficients lie in memory as they do here, since that decides the last bits of predictions.
        With three classes or more scikit-learn's `partial_fit` wants them the other way round:
        ``model.coef_ = np.ascontiguousarray(model.coef_)`` before its first call.

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
        kept = {"n_features_in_": self.n_features_in_, **fitted_attributes.attributes(self)}
        if "_label_binarizer" in vars(self):
            kept["_label_binarizer"] = self._label_binarizer
        if kind.__name__ not in NAMES_ITS_SOLVER:
            kept.pop("solver_", None)
        for name, value in kept.items():
            setattr(made, name, _copy(value))
        fitted_attributes.request(made, fitted_attributes.requests(self))
        for fault in _onnx_faults(kind.__name__, vars(made)):
            warn(
                f"{fault} In scikit-learn the model predicts as before; this is about ONNX alone.",
            )
        return made


def _replaced(kind: type) -> Any:
    """scikit-learn's class that a class of ours, or one that a user made of it, stands for."""
    ours = next(base for base in kind.__mro__ if base.__module__.startswith("hogshare."))
    theirs = (base for base in kind.__mro__ if base.__module__.startswith("sklearn."))
    return next(base for base in theirs if base.__name__ == ours.__name__)


def _onnx_faults(name: str, attributes: dict[str, Any]) -> list[str]:
    """What skl2onnx would make another model of, by its own fault."""
    faults = []
    labels, narrow = np.asarray(attributes.get("classes_", 0)), np.iinfo(np.int32)
    numbers = name in NARROW and labels.dtype.kind in "iuf"
    if numbers and (labels.min() < narrow.min or labels.max() > narrow.max):
        faults.append(
            f"skl2onnx casts labels of {name} to 32 bits, and these range from {labels.min()} to "
            f"{labels.max()}: for ONNX fit smaller numbers, or words, as labels."
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
    """Parameters that scikit-learn takes, for what it does not have or warns of."""
    if params.get("learning_rate") == "auto":
        optimal = is_classifier(estimator) and estimator.alpha > 0.0
        params["learning_rate"] = "optimal" if optimal else "invscaling"
    if type(estimator).__name__ == "LogisticRegression":
        params.pop("n_jobs")  # which has no effect there, and is deprecated
    return params


def _copy(value: Any) -> Any:
    """A copy that is nobody's part; arrays in the same order in memory, and of no class of ours."""
    return np.array(value, order="K") if isinstance(value, np.ndarray) else copy.deepcopy(value)
