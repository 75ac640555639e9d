"""Rows drawn with unequal chances: the draws, and that SAGA's step stays right on average."""

import cases
import naive
import numpy as np
import pytest

from hogshare import problems
from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.rules.saga_steps import saga_rows
from hogshare.kernels.schedule import streams
from hogshare.planes.shared import Shared, feature_rarity
from hogshare.rules import SAGA
from hogshare.rules.pace import row_chances

RULES = [SAGA(replace=True), SAGA(sampling="importance"), SAGA(sampling="importance", replace=True)]


@kernel
def one_step(rows, rule, order, schedule, vector, memory, private):
    groups = schedule, vector, memory
    saga_rows(rows, rule, order, 0, order.shape[0], *groups, private, True, 1.0, False)


def drawn(chances, replace, seed, epoch):
    order = np.empty(round(chances.sum()), np.int64)
    streams.draw_rows(chances, order, replace, seed, epoch)
    return order


@pytest.mark.parametrize("replace", [False, True])
def test_draws_equal_their_twin(replace):
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 40):
        chances = rng.exponential(size=n) * (rng.random(n) < 0.8)
        chances[-1] += 1e-3
        total = max(1, n // 2)
        chances *= total / chances.sum()
        for seed, epoch in ((0, 0), (5, 1), (2**31 - 2, 3)):
            order = drawn(chances, replace, seed, epoch)
            assert order.tolist() == naive.draw_rows(chances, total, replace, seed, epoch)


@pytest.mark.parametrize("replace", [False, True])
def test_rows_come_as_often_as_their_chances_say(replace):
    chances = np.array([0.0, 0.5, 2.3, 0.5, 0.7, 0.0, 4.0, 0.0])
    epochs = 4000
    counts = np.array(
        [np.bincount(drawn(chances, replace, 1, e), minlength=8) for e in range(epochs)]
    )
    assert (counts.sum(axis=1) == 8).all()
    spread = np.sqrt(chances / epochs)  # of a mean of Poisson numbers; less for the others
    assert (np.abs(counts.mean(axis=0) - chances) <= 4.0 * spread).all()
    assert (counts[:, chances == 0.0] == 0).all()
    if replace:
        np.testing.assert_allclose(counts[:, 6].var(), 4.0 * (1.0 - 4.0 / 8.0), rtol=0.1)
    else:
        assert (counts >= np.floor(chances)).all() and (counts <= np.ceil(chances)).all()
    orders = np.array([drawn(chances, replace, 1, e) for e in range(epochs)])
    # in random order: a row stands in every place as often
    places = (orders == 6).mean(axis=0)
    np.testing.assert_allclose(places, 0.5, atol=4.0 * np.sqrt(0.25 / epochs))


def test_chances_follow_norms_and_weights():
    problem, X, _, weight = cases.problem("csr", "float64", weighted=True)
    held_out = np.arange(len(X)) % 4 == 0
    chances = row_chances(problem, SAGA(sampling="importance"), held_out)
    assert (chances[held_out] == 0.0).all()
    assert chances.sum() == pytest.approx((~held_out).sum())
    size = weight * np.where(problem.rows.y > 0, problem.positive[0], problem.negative[0])
    np.testing.assert_allclose(problem.row_sizes(), size)
    smooth = ((np.square(X).sum(axis=1) + 1.0) * size)[~held_out]
    np.testing.assert_allclose(chances[~held_out], 0.5 + 0.5 * smooth / smooth.mean())
    uniform = row_chances(problem, SAGA(replace=True), held_out)
    np.testing.assert_array_equal(uniform, ~held_out)


def test_sizes_of_several_columns_are_the_largest():
    problem, *_ = cases.problem("csr", "float64", 3, weighted=True)
    own = problem.positive[problem.rows.y.astype(int)]
    np.testing.assert_allclose(problem.row_sizes(), problem.rows.weight * np.maximum(own, 1.0))


def test_chances_of_rows_without_any_length_are_even():
    from hogshare import problems

    problem = problems.linear(np.zeros((4, 2)), [0, 1, 0, 1], fit_intercept=False)
    np.testing.assert_array_equal(row_chances(problem, SAGA(sampling="importance"), None), 1.0)


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None)])
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_one_worker_equals_the_twin(form, dtype, columns, rule, plane):
    problem, X, Y, weight = cases.problem(
        form, dtype, columns, weighted=True, penalty="elasticnet", alpha=0.05
    )
    held_out = np.arange(len(X)) % 6 == 0
    stop = Stop(epochs=3, validation=held_out)
    session = cases.run(cases.session(problem, rule=rule, stop=stop, seed=7, plane=plane))
    chances = row_chances(problem, rule, held_out)
    state, table = naive.SagaState.zeros(X.shape[1], Y.shape[1]), np.zeros_like(Y)
    rarity = feature_rarity(problem, chances).astype(float)
    for epoch in range(3):
        order = naive.draw_rows(chances, (~held_out).sum(), rule.replace, 7, epoch)
        args = table, state, cases.twin_columns(session), rarity, not problem.is_sparse, chances
        naive.saga_rows(X, Y, weight, session.rule, order, *args, first=epoch == 0)
    close = {k: 5.0 * v for k, v in cases.tolerance(dtype).items()}
    np.testing.assert_allclose(session.model().coef.T, state.w, **close)
    np.testing.assert_allclose(session.model().intercept, state.intercept, **close)


@pytest.mark.parametrize("rule", [SAGA(), *RULES], ids=str)
@pytest.mark.parametrize(("columns", "loss"), [(1, "log_loss"), (3, "multinomial")])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_mean_step_over_all_rows_is_the_gradient(form, columns, loss, rule):
    """Each row's step from one state, weighted by its chance: exactly, and whatever the table."""
    problem, X, Y, weight = cases.problem(
        form, "float64", columns, loss=loss, penalty=None, weighted=True
    )
    n, m = X.shape
    rng = np.random.default_rng(1)
    W, b = rng.normal(size=(m, columns)), rng.normal(size=columns)
    table = rng.normal(size=(n, columns))
    average, mean = X.T @ table / n, table.mean(axis=0)
    session = cases.session(problem, rule=rule)
    a, private = session.arrays, session.private(0)
    total, total_intercept = np.zeros((m, columns)), np.zeros(columns)
    chances = a["chances"] if rule.draws else np.ones(n)
    for r in range(n):
        a["w"][:], a["gradients"][:], a["average"][:] = W.ravel(), table.ravel(), average.ravel()
        private.local[layout.L_INTERCEPT], private.local[layout.L_DUAL_MEAN] = b, mean
        one_step(session.rows, session.rule, np.array([r]), *cases.groups(session), private)
        total += chances[r] / n * (a["w"].reshape(m, columns) - W)
        total_intercept += chances[r] / n * (private.local[layout.L_INTERCEPT] - b)
    P = naive.predictions(loss, X @ W + b)
    slopes = np.array(
        [
            [naive.loss_derivative(loss, 0.0, Y[r, c], P[r, c]) for c in range(columns)]
            for r in range(n)
        ]
    )
    sizes = np.where(Y > 0.0, problem.positive, problem.negative) * weight[:, None]
    gradient = X.T @ (sizes * slopes) / n
    step = session.rule.saga_step
    np.testing.assert_allclose(total, -step * gradient, rtol=1e-6, atol=1e-9)  # D is float32
    np.testing.assert_allclose(total_intercept, -step * (sizes * slopes).mean(axis=0), atol=1e-12)


def test_norms_that_overflow_leave_rows_equally_likely():
    problem = problems.linear(np.full((6, 2), 1e200), [0, 1, 0, 1, 0, 1])
    with np.errstate(over="ignore"):  # told without the JIT
        chances = row_chances(problem, SAGA(sampling="importance"), None)
    assert (chances == 1.0).all()
