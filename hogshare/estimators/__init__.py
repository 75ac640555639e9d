"""Estimators with scikit-learn's interface: validate, call `solve`, set attributes.

Names are imported on first use: fitting one estimator does not import the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hogshare.system import lazy_imports

if TYPE_CHECKING:
    from hogshare.estimators.classifier import SGDClassifier as SGDClassifier
    from hogshare.estimators.factorisation import MatrixFactorization as MatrixFactorization
    from hogshare.estimators.lasso import ElasticNet as ElasticNet
    from hogshare.estimators.lasso import Lasso as Lasso
    from hogshare.estimators.logistic import LogisticRegression as LogisticRegression
    from hogshare.estimators.logistic_cv import LogisticRegressionCV as LogisticRegressionCV
    from hogshare.estimators.mlp import MLPClassifier as MLPClassifier
    from hogshare.estimators.mlp import MLPRegressor as MLPRegressor
    from hogshare.estimators.regressor import SGDRegressor as SGDRegressor
    from hogshare.estimators.ridge import Ridge as Ridge
    from hogshare.estimators.ridge import RidgeClassifier as RidgeClassifier
    from hogshare.estimators.topics import LatentDirichletAllocation as LatentDirichletAllocation

__getattr__, __dir__, __all__ = lazy_imports.names(
    __name__,
    {
        "classifier": "SGDClassifier",
        "factorisation": "MatrixFactorization",
        "lasso": "ElasticNet Lasso",
        "logistic": "LogisticRegression",
        "logistic_cv": "LogisticRegressionCV",
        "mlp": "MLPClassifier MLPRegressor",
        "regressor": "SGDRegressor",
        "ridge": "Ridge RidgeClassifier",
        "topics": "LatentDirichletAllocation",
    },
)
