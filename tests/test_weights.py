"""Weights of rows and of classes: what is refused, by which sentence, and what zeros mean."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.sparse as sp

import hogshare
from hogshare import problems

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
NUMBERS = X @ [1.0, -2.0, 0.0, 3.0]
LABELS = (NUMBERS > 0.0).astype(int)
CHOSEN = {"use_legacy_attributes": False, "l1_ratios": (0.0,), "scoring": "accuracy"}
SETTINGS = [
    ("SGDClassifier", {}),
    ("SGDClassifier", {"early_stopping": True}),
    ("SGDRegressor", {}),
    ("SGDRegressor", {"learning_rate": "auto"}),
    ("LogisticRegression", {}),
    ("LogisticRegressionCV", CHOSEN),
    ("Ridge", {}),
    ("Ridge", {"solver": "svd"}),
    ("Ridge", {"runtime": "caller"}),
    ("RidgeClassifier", {}),
    ("RidgeClassifier", {"runtime": "caller", "class_weight": {0: 1.0, 1: 2.0}}),
    ("Lasso", {}),
    ("Lasso", {"runtime": "caller"}),
    ("ElasticNet", {"positive": True}),
    ("MLPClassifier", {"solver": "sgd"}),
    ("MLPRegressor", {}),
    ("MLPRegressor", {"solver": "lbfgs"}),
]
FITS = [(name, kwargs, "fit") for name, kwargs in SETTINGS]
FITS += [(name, {}, "partial_fit") for name in ("SGDClassifier", "SGDRegressor", "MLPClassifier")]
STATED = [("linear", {"loss": "squared_error"}), ("linear", {}), ("network", {})]
SENTENCE = "sample_weight must contain a number, at least 0, for each of 60 rows"
ONE_NEGATIVE = np.where(np.arange(60) == 3, -1.0, 1.0)


def fit(name, kwargs, method, weight, rows=X):
    estimator = getattr(hogshare, name)(**kwargs)
    target = LABELS if "Class" in name or "Logistic" in name else NUMBERS
    classes = {"classes": [0, 1]} if "Class" in name and method == "partial_fit" else {}
    return getattr(estimator, method)(rows, target, sample_weight=weight, **classes)


@pytest.mark.parametrize(
    "weight", [ONE_NEGATIVE, -1.0, np.full(60, np.nan)], ids=["one", "-1", "nan"]
)
@pytest.mark.parametrize(("name", "kwargs", "method"), FITS)
def test_every_estimator_refuses_them_by_one_sentence(name, kwargs, method, weight):
    for rows in (X, sp.csr_array(X)):
        if kwargs.get("solver") == "svd" and sp.issparse(rows):
            continue  # which scikit-learn refuses
        with pytest.raises(ValueError, match=SENTENCE):
            fit(name, kwargs, method, weight, rows)


@pytest.mark.parametrize(("name", "kwargs"), STATED)
@pytest.mark.parametrize("weight", [ONE_NEGATIVE, -1.0, np.zeros(60)], ids=["one", "-1", "zeros"])
def test_problems_refuse_them_by_the_same(name, kwargs, weight):
    with pytest.raises(ValueError, match=SENTENCE):
        getattr(problems, name)(X, LABELS, sample_weight=weight, **kwargs)


def takes(name, argument):
    return argument in inspect.signature(getattr(hogshare, name)).parameters


WITH_CLASSES = [(name, kwargs) for name, kwargs in SETTINGS if takes(name, "class_weight")]


@pytest.mark.parametrize("weight", [-1.0, np.inf, np.nan])
@pytest.mark.parametrize(("name", "kwargs"), WITH_CLASSES)
def test_weights_of_classes_are_not_negative(name, kwargs, weight):
    with pytest.raises(ValueError, match="class_weight must contain a number, at least 0"):
        fit(name, {**kwargs, "class_weight": {0: weight, 1: 1.0}}, "fit", None)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["MLPClassifier", "MLPRegressor"])
def test_a_mini_batch_of_no_weight_is_no_step(name):
    kwargs = {"hidden_layer_sizes": (3,), "solver": "sgd", "momentum": 0.0, "batch_size": 20}
    kwargs |= {"shuffle": False, "max_iter": 4, "random_state": 0, "learning_rate_init": 0.1}
    weight = np.repeat([1.0, 0.0, 2.0], 20)
    y = LABELS if name == "MLPClassifier" else NUMBERS
    counted = weight > 0.0
    with_zeros = getattr(hogshare, name)(**kwargs).fit(X, y, sample_weight=weight)
    without = getattr(hogshare, name)(**kwargs).fit(X[counted], y[counted], weight[counted])
    for one, other in zip(with_zeros.coefs_, without.coefs_, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.isfinite(with_zeros.loss_curve_).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("part", ["validation", "training"])
@pytest.mark.parametrize("name", ["SGDClassifier", "SGDRegressor", "MLPClassifier", "MLPRegressor"])
def test_rows_of_no_weight_are_no_part_of_a_split(name, part):
    seen = []
    rows = np.column_stack([np.arange(60.0), X])
    kwargs = {"early_stopping": True, "random_state": 0, "max_iter": 2, "validation_fraction": 0.2}
    y = LABELS if "Class" in name else NUMBERS
    # which rows are held out is the same in every fit of this seed
    for k in range(60):
        weight = np.where(np.arange(60) == k, 1.0, 0.0)
        with pytest.raises(
            ValueError, match=r"sample weights for (validation|training) set"
        ) as caught:
            getattr(hogshare, name)(**kwargs).fit(rows, y, sample_weight=weight)
        seen.append(part in str(caught.value))
    assert sum(seen) == (48 if part == "validation" else 12)
