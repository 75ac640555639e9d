"""scikit-learn's faces: they validate, build a problem, call `solve`, and set attributes."""

from hogshare.estimators.classifier import SGDClassifier
from hogshare.estimators.lasso import ElasticNet, Lasso
from hogshare.estimators.logistic import LogisticRegression
from hogshare.estimators.logistic_cv import LogisticRegressionCV
from hogshare.estimators.regressor import SGDRegressor
from hogshare.estimators.ridge import Ridge, RidgeClassifier

__all__ = [
    "ElasticNet",
    "Lasso",
    "LogisticRegression",
    "LogisticRegressionCV",
    "Ridge",
    "RidgeClassifier",
    "SGDClassifier",
    "SGDRegressor",
]
