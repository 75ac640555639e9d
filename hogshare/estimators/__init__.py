"""scikit-learn's faces: they validate, build a problem, call `solve`, and set attributes."""

from hogshare.estimators.classifier import SGDClassifier
from hogshare.estimators.logistic import LogisticRegression
from hogshare.estimators.regressor import SGDRegressor

__all__ = ["LogisticRegression", "SGDClassifier", "SGDRegressor"]
