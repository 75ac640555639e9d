"""What the linear models have in common: what they say of themselves, and how classifiers score."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.estimators.export import Exporting
from hogshare.estimators.solver_report import SolverReport
from hogshare.problems.linear.labels import own_type
from hogshare.report import Report


class LinearModel(Exporting):
    """For a linear model of scikit-learn's.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.

    warm_start : bool, default=False
        Whether `fit` starts from the last fit's solution.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.array_api_support = False
        tags.non_deterministic = self.n_jobs not in (None, 1)
        return tags


class ToTheOptimum(LinearModel):
    """For one that is fitted until a tolerance is met, and not for a number of epochs.

    Parameters
    ----------
    plane : "shared", Shared or None, default="shared"
        Where the model lives while several workers fit it. "shared" (and None) is
        ``hogshare.Shared()``: private copies that are exchanged. ``Shared(exchange=None)`` is
        refused.
    """

    report_: Report | list[Report] | SolverReport


class Accuracy:
    """For a classifier of scikit-learn's, whose `score` reads nullable whole numbers as floats."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows whose labels are predicted.

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
            Between 0 and 1. Where a row may have many labels, all of them have to be right.

        Raises
        ------
        ValueError
            If labels are missing.
        """
        theirs: Any = super()
        return float(theirs.score(X, own_type(y), sample_weight=sample_weight))


class LinearClassifier(Accuracy):
    """For a linear one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.

    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, in the dtype of `X` (float32 and float64 are kept).

    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts; zeros without.
    """

    classes_: np.ndarray
