"""A linear problem as one of a flat vector: its gradient is that of its objective."""

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import check_grad

from hogshare import problems
from hogshare.problems.linear import REGRESSION_LOSSES

RNG = np.random.default_rng(3)
X = RNG.standard_normal((40, 4))
SMOOTH = ("log_loss", "squared_hinge", "modified_huber", "squared_error", "huber")


def problem_of(loss, columns=1, form=np.asarray, **settings):
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * RNG.standard_normal(40)
    if loss not in REGRESSION_LOSSES:
        y = np.digitize(y, [-1.0, 1.0]) if columns == 3 else (y > 0.0).astype(int)
    weight = np.where(np.arange(40) % 3, 1.0, 0.5)
    return problems.linear(form(X), y, loss=loss, alpha=0.2, sample_weight=weight, **settings)


def mean_gradient(problem, w):
    out = np.zeros(problem.n_params)
    total = problem.gradient(w, np.arange(problem.n_rows), out)
    return total / problem.n_rows, out / problem.n_rows


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("loss", "columns"), [*((loss, 1) for loss in SMOOTH), ("log_loss", 3), ("multinomial", 3)]
)
def test_the_gradient_is_the_objective_s(loss, columns, form):
    problem = problem_of(loss, columns, form)

    def objective(w):
        return problem.objective_at(problem.model_at(w))

    w = RNG.standard_normal(problem.n_params)
    assert problem.n_params == problem.n_columns * 5
    assert objective(w) == pytest.approx(mean_gradient(problem, w)[0], rel=1e-12)
    assert check_grad(objective, lambda at: mean_gradient(problem, at)[1], w) < 1e-5


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "log_loss"])
def test_slopes_are_the_twin_s(loss):
    problem = problem_of(loss, penalty="l1", fit_intercept=False)
    w = RNG.standard_normal(4)
    rows = np.array([3, 17, 4])
    out = np.zeros(4)
    problem.gradient(w, rows, out)
    expected = np.zeros(4)
    for r in rows:
        y, weight = problem.rows.y[r], problem.rows.weight[r]
        slope = naive.loss_derivative(loss, problem.epsilon, y, X[r] @ w)
        expected += weight * slope * X[r] + 0.2 * np.sign(w)
    assert np.allclose(out, expected, rtol=1e-12)
