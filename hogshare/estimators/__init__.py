"""scikit-learn's faces: they validate, build a problem, call `solve`, and set attributes.

Names are imported when they are first used: who fits one estimator needs no other's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hogshare.system import lazy

if TYPE_CHECKING:
    from hogshare.estimators.classifier import SGDClassifier
    from hogshare.estimators.factorisation import MatrixFactorization
    from hogshare.estimators.lasso import ElasticNet, Lasso
    from hogshare.estimators.logistic import LogisticRegression
    from hogshare.estimators.logistic_cv import LogisticRegressionCV
    from hogshare.estimators.mlp import MLPClassifier, MLPRegressor
    from hogshare.estimators.regressor import SGDRegressor
    from hogshare.estimators.ridge import Ridge, RidgeClassifier
    from hogshare.estimators.topics import LatentDirichletAllocation

_PLACES = {
    "ElasticNet": "lasso",
    "Lasso": "lasso",
    "LatentDirichletAllocation": "topics",
    "LogisticRegression": "logistic",
    "LogisticRegressionCV": "logistic_cv",
    "MLPClassifier": "mlp",
    "MLPRegressor": "mlp",
    "MatrixFactorization": "factorisation",
    "Ridge": "ridge",
    "RidgeClassifier": "ridge",
    "SGDClassifier": "classifier",
    "SGDRegressor": "regressor",
}

__all__ = [
    "ElasticNet",
    "Lasso",
    "LatentDirichletAllocation",
    "LogisticRegression",
    "LogisticRegressionCV",
    "MLPClassifier",
    "MLPRegressor",
    "MatrixFactorization",
    "Ridge",
    "RidgeClassifier",
    "SGDClassifier",
    "SGDRegressor",
]

__getattr__, __dir__ = lazy.names(__name__, _PLACES)
