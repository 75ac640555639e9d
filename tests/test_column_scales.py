"""Columns of unlike sizes, which steps of one size do not suit: who is warned of them, and when."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from hogshare import SGDClassifier, SGDRegressor
from hogshare.estimators.column_scales import unlike

SAID = r"Column .* times as large as column .* learning_rate='auto'"


@pytest.fixture
def incomes():
    draws = np.random.default_rng(0)
    X = np.column_stack([draws.normal(50_000, 9_000, 400), draws.normal(40, 9, 400)])
    return X, (X[:, 0] / 1_000 + X[:, 1] > 90).astype(int)


@pytest.mark.parametrize("few", [0, 100_000], ids=["workers", "scikit-learn"])
@pytest.mark.parametrize("form", [np.array, sp.csr_array, np.float32], ids=str)
def test_a_fit_by_scikit_learns_schedules_warns(form, few, incomes, seams):
    seams.sizes.few = few
    X, y = incomes
    with pytest.warns(UserWarning, match="Column 0 is 1,[0-9]{3} times as large as column 1"):
        SGDClassifier(max_iter=5, tol=None).fit(form(X), y)
    with pytest.warns(UserWarning, match=SAID):
        SGDRegressor(max_iter=5, tol=None, eta0=1e-12).fit(form(X), y)


def test_columns_are_named_as_in_the_frame(incomes):
    X, y = incomes
    with pytest.warns(UserWarning, match="Column 'income' is .* as large as column 'age'"):
        SGDClassifier(max_iter=5, tol=None).fit(pd.DataFrame(X, columns=["income", "age"]), y)


def test_nobody_is_warned_where_it_does_not_matter(incomes):
    """Warnings are errors here."""
    X, y = incomes
    SGDClassifier(max_iter=5, tol=None).fit(X / X.std(0), y)
    SGDClassifier(max_iter=5, tol=None, learning_rate="pa1").fit(X, y)
    SGDClassifier(learning_rate="auto").fit(X, y)
    model = SGDClassifier()
    model.partial_fit(X, y, classes=[0, 1])


def test_zeros_and_constants_count_for_nothing():
    X = np.ones((1_000, 3))
    X[20:, 1] = 0.0  # rare, and no smaller for it
    X[:, 2] = 0.0
    assert unlike(X) is None
    assert unlike(sp.csr_array(X)) is None
    X[:, 0] = 150.0
    assert unlike(X)[1:] == (0, 1)
    assert unlike(np.zeros((3, 2))) is None and unlike(sp.csr_array((3, 2))) is None


def test_wide_rows_that_are_scaled_are_alike():
    draws = np.random.default_rng(0)
    for shape in ((100, 20_000), (300, 5_000), (12, 40)):
        assert unlike(draws.normal(size=shape)) is None
    assert (
        unlike(sp.random_array((500, 8_000), density=0.01, random_state=draws, format="csr"))
        is None
    )


def test_of_many_rows_some_are_read():
    draws = np.random.default_rng(0)
    X = draws.normal(size=(60_000, 4)) * [1.0, 1.0, 500.0, 1.0]
    for rows in (X, sp.csr_array(X)):
        ratio, largest, _ = unlike(rows)
        assert largest == 2 and 400 < ratio < 600
