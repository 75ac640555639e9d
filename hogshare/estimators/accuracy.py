"""The score of a classifier, whose labels may come from a nullable column as those of a fit do."""

from __future__ import annotations

from typing import Any

from hogshare.problems.linear.labels import own_type


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
