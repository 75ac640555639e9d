"""One fold's logistic regressions along a list of penalties, each starting from the one before."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer, make_scorer
from sklearn.utils.validation import _check_method_params

from hogshare.estimators.logistic import LogisticRegression


def point(template: dict[str, Any], C: float, ratio: float | None, **others: Any) -> Any:
    """Make a `LogisticRegression` for one penalty that takes checked rows (`_fit_rows`)."""
    estimator = LogisticRegression(C=C)
    for name, value in {**template, "l1_ratio": ratio, **others}.items():
        setattr(estimator, name, value)
    return estimator


@dataclass(frozen=True)
class Path:
    """The fits to a fold's rows with one `l1_ratio` and every `C`, one after another."""

    # parameters of all estimators, and `classes_`: all labels, even if the fold lacks some
    template: dict[str, Any]
    penalty: str
    ratio: float | None
    Cs: np.ndarray
    X: Any  # all rows; `train` and `test` index them
    y: np.ndarray
    sample_weight: np.ndarray | None
    train: np.ndarray
    test: np.ndarray

    def follow(
        self, scorer: Any, score_params: dict[str, Any], is_over: Callable[[], bool]
    ) -> tuple[np.ndarray, list[float], list[int]] | None:
        """Fit from the strongest penalty to the weakest; score in the order of `Cs`.

        Returns coefficients of shape (n_cs, n_columns, n_features + fit_intercept), scores and
        numbers of iterations; None if `is_over` has ended the path early.
        """
        X, y, weight = self.X[self.train], self.y[self.train], self.sample_weight
        weight = None if weight is None else weight[self.train]
        estimator = point(self.template, self.Cs[0], self.ratio)
        fitted: dict[int, tuple[np.ndarray, np.ndarray, int]] = {}
        last = None
        for k in np.argsort(self.Cs, kind="stable"):
            if is_over():
                return None
            estimator.C = self.Cs[k]
            last = estimator._fit_rows(X, y, weight, self.penalty, last)
            fitted[int(k)] = estimator.coef_, estimator.intercept_, int(estimator.n_iter_[0])
        score = self._score(scorer, score_params)
        coefs, scores, counts = [], [], []
        for k, C in enumerate(self.Cs):
            estimator.C = C
            estimator.coef_, estimator.intercept_, n_iter = fitted[k]
            parts = [estimator.coef_]
            parts += [estimator.intercept_[:, None]] if estimator.fit_intercept else []
            coefs.append(np.hstack(parts))
            scores.append(score(estimator))
            counts.append(n_iter)
        return np.array(coefs), scores, counts

    def _score(self, scorer: Any, params: dict[str, Any]) -> Callable[[Any], float]:
        """Return a function that scores an estimator on the left-out rows."""
        X, y, weight = self.X[self.test], self.y[self.test], self.sample_weight
        if scorer is None:
            weight = None if weight is None else weight[self.test]
            return lambda estimator: estimator.score(X, y, sample_weight=weight)
        params = _check_method_params(X=self.X, params=params, indices=self.test)
        return lambda estimator: scorer(estimator, X, y, **params)


def scorer_for(scoring: Any, classes: np.ndarray) -> Any:
    """Return the scorer of that name, with all classes as its labels if it takes any.

    A fold may lack a class. With None the result is None, for the estimator's own score.
    """
    scorer = get_scorer(scoring)
    function = getattr(scorer, "_score_func", None)
    known = inspect.signature(function).parameters if function is not None else {}
    if "labels" not in known:
        return scorer
    settings = {"labels": classes, **scorer._kwargs}
    if "pos_label" in known and len(classes) == 2:
        settings.setdefault("pos_label", classes[-1])
    return make_scorer(
        function,
        greater_is_better=scorer._sign == 1,
        response_method=scorer._response_method,
        **settings,
    )
