"""Fitted estimators of every class, with every kind of label and target that they take."""

import itertools
import warnings
from functools import cache

import numpy as np
from scipy import sparse

import hogshare

METHODS = ("predict", "decision_function", "predict_proba", "predict_log_proba")
CLASSIFIERS = {
    "SGDClassifier": {"loss": "log_loss", "max_iter": 5, "tol": None},
    "LogisticRegression": {"solver": "saga", "tol": 1e-2, "max_iter": 1000},
    "LogisticRegressionCV": {
        "Cs": [0.1, 1.0],
        "cv": 2,
        "tol": 1e-1,
        "max_iter": 1000,
        "l1_ratios": (0,),
        "scoring": "accuracy",
        "use_legacy_attributes": False,
    },
    "RidgeClassifier": {},
}
REGRESSORS = {
    "SGDRegressor": {"max_iter": 5, "tol": None},
    "Ridge": {"runtime": "caller", "tol": 1e-2},
    "Lasso": {"alpha": 0.1},
    "ElasticNet": {"alpha": 0.1, "runtime": "caller", "tol": 1e-1},
}
LABELS = {
    "two": np.arange(2),
    "three": np.arange(3, dtype=np.int32) * 4 - 1,
    "words": np.array(["no", "perhaps", "yes"]),
    "words of Python": np.array(["ja", "nein"], dtype=object),
    "truth": np.array([False, True]),
    "floats": np.array([-1.0, 2.0, 3.0]),
}
OUTPUTS = {"one": 1, "two": 2}


def rows(dtype=np.float64, n=60):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 5)).astype(dtype)


@cache
def cases():
    """Name, estimator, what to fit it to: every class with every kind of label or target."""
    made = {}
    for name, labels, dtype in itertools.product(CLASSIFIERS, LABELS, ("float32", "float64")):
        X = rows(dtype)
        places = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int) + (X[:, 2] > 0.5)
        y = LABELS[labels][np.minimum(places, len(LABELS[labels]) - 1)]
        made[f"{name}, {labels}, {dtype}"] = name, CLASSIFIERS[name], X, y
    for name, outputs, dtype in itertools.product(REGRESSORS, OUTPUTS, ("float32", "float64")):
        X = rows(dtype)
        if outputs == "one" or name != "SGDRegressor":
            y = X[:, 0] - 2.0 * X[:, 1] if outputs == "one" else X[:, :2] @ [[1.0, 0.5], [0.0, 2.0]]
            made[f"{name}, {outputs}, {dtype}"] = name, REGRESSORS[name], X, y
    return made


@cache
def fitted(case):
    """The fitted estimator of a case. Tests share it, and leave it as it is."""
    name, settings, X, y = cases()[case]
    return fit(getattr(hogshare, name)(random_state=0, n_jobs=1, **settings), X, y)


def fit(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a handful of rows and iterations
        return estimator.fit(X, y)


def answers(estimator, X):
    """What an estimator says of rows in all forms, by its methods that say something."""
    told = {}
    forms = [X, np.asfortranarray(X), X[:1], X.astype(np.float64), sparse.csr_array(X)]
    for method in filter(lambda name: hasattr(estimator, name), METHODS):
        with np.errstate(divide="ignore"):  # the logarithm of no probability
            told |= {(method, k): getattr(estimator, method)(x) for k, x in enumerate(forms)}
    return told


def assert_same_answers(ours, theirs, X):
    told, heard = answers(ours, X), answers(theirs, X)
    assert told.keys() == heard.keys()
    for place, answer in told.items():
        assert type(answer) is type(heard[place])
        if sparse.issparse(answer):
            answer, heard[place] = answer.toarray(), heard[place].toarray()
        assert answer.dtype == heard[place].dtype, place
        np.testing.assert_array_equal(answer, heard[place], err_msg=str(place))
