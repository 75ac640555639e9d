"""SAGA's average against its twin, and what a run that starts from zero remembers."""

from dataclasses import replace

import cases
import naive
import numpy as np
import pytest

from hogshare.kernels.rules.saga_steps import average_table
from hogshare.problems.model import Model
from hogshare.rules import SAGA


def averages(problem, table, share):
    n_columns = table.shape[1]
    average, mean = np.full(problem.n_features * n_columns, 7.0), np.full(n_columns, 7.0)
    flat = np.ascontiguousarray(table, dtype=problem.dtype).reshape(-1)
    average_table(problem.rows, flat, share, average, mean)
    return average.reshape(-1, n_columns), mean


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_the_average_equals_the_twins(form, dtype, columns):
    problem, X, Y, _ = cases.problem(form, dtype, columns)
    table = np.random.default_rng(0).standard_normal(Y.shape).astype(dtype).astype(float)
    average, mean = averages(problem, table, 0.3)
    expected, expected_mean = naive.average_table(X, table, 0.3)
    np.testing.assert_allclose(average, expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-12)


def test_from_zero_nothing_is_remembered():
    """An empty table, as without a start, is an epoch ahead; any other model may be the optimum."""
    problem, _, _, _ = cases.problem(alpha=0.05)
    zero = Model(np.zeros((1, problem.n_features)), np.zeros(1))
    coef, intercept = replace(zero, coef=zero.coef + 0.1), replace(zero, intercept=np.full(1, 0.5))
    for start, remembers in ((zero, False), (coef, True), (intercept, True)):
        session = cases.session(problem, rule=SAGA(), start=start)
        assert session.arrays["gradients"].any() == remembers
        assert session.arrays["average"].any() == remembers
