"""Base classes of the linear models, with common parameters, tags, and the score of classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.estimators.export import Exporting
from hogshare.estimators.solver_report import SolverReport
from hogshare.problems.linear.labels import own_type
from hogshare.report import Report


class LinearModel(Exporting):
    """Base of an estimator that extends a linear model of scikit-learn's.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalized.

    warm_start : bool, default=False
        Whether `fit` starts from the solution of the previous fit.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.array_api_support = False
        tags.non_deterministic = self.n_jobs not in (None, 1)
        return tags


class ToTheOptimum(LinearModel):
    """Base of a linear model that is fitted to a tolerance, not for a number of epochs.

    Parameters
    ----------
    plane : "shared", Shared or None, default="shared"
        Where the model lives while several workers fit it. "shared" (and None) is
        ``hogshare.Shared()``: private copies with exchanges. ``Shared(exchange=None)`` is refused.
    """

    report_: Report | list[Report] | SolverReport


class Accuracy:
    """Base of a classifier whose `score` accepts nullable integers, which scikit-learn refuses."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy: the share of rows whose labels are predicted correctly.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Their labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Between 0 and 1. For multilabel rows all labels of a row must be correct.

        Raises
        ------
        ValueError
            If labels are missing.
        """
        theirs: Any = super()
        return float(theirs.score(X, own_type(y), sample_weight=sample_weight))


class LinearClassifier(Accuracy):
    """Base of a linear classifier.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.

    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, in the dtype of `X` (float32 and float64 are preserved).

    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts; zeros if `fit_intercept` is False.
    """

    classes_: np.ndarray
