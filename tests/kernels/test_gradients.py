"""The pass of a look against its twin; conjugates against a search for the maximum."""

import cases
import naive
import numpy as np
import pytest
from scipy.special import logsumexp

from hogshare import problems
from hogshare.kernels.rows import whole_gradients
from hogshare.kernels.rules import losses
from hogshare.kernels.rules.losses import loss_conjugate
from hogshare.problems.linear import optimality
from hogshare.problems.linear.intercepts import best_intercepts, best_without_features
from hogshare.problems.linear.optimality import Optimality
from hogshare.problems.model import Model

FORMS = [("dense", "float32"), ("dense", "float64"), ("csr", "float32"), ("csr64", "float64")]
PENALTIES = {
    "l2": {},
    "l1": {"penalty": "l1"},
    "elasticnet": {"penalty": "elasticnet", "l1_ratio": 0.3},
    "none": {"penalty": None},
}
REGRESSION = ("squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive")


def model(problem, seed=3):
    rng = np.random.default_rng(seed)
    coef = rng.standard_normal((problem.n_columns, problem.n_features)).astype(problem.dtype)
    coef[:, 1] = 0.0
    return Model(coef, rng.standard_normal(problem.n_columns).astype(problem.dtype))


def slopes_of(problem, X, Y, weight, at):
    known = problem.loss, problem.epsilon, at.coef.T.astype(float), at.intercept.astype(float)
    return naive.slopes(X, Y, weight, *known, problem.positive, problem.negative)


def largest_component(problem, X, slopes, at):
    """Of the gradient mapping, by definition: a proximal step of length one, in ``size * coef``."""
    ratio = {"l1": 1.0, "elasticnet": problem.l1_ratio}.get(problem.penalty, 0.0)
    alpha = problem.alpha if problem.penalty else 0.0
    coef = at.coef.T.astype(float)
    weight = problem.rows.weight if problem.rows.weight.size else np.ones(len(X))
    curvature = losses.CURVATURE[losses.CODES[problem.loss]]
    origin, size = naive.units(
        X, weight, curvature, alpha * (1.0 - ratio), bool(problem.fit_intercept)
    )
    means = slopes.mean(axis=0)
    gradient = X.T @ slopes / len(X) - np.outer(origin, means) + alpha * (1.0 - ratio) * coef
    size = size[:, None]
    residual = size * coef - naive.soft(size * coef - gradient / size, alpha * ratio / size)
    return max(np.abs(residual).max(), np.abs(means).max() * problem.fit_intercept)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_objective_and_gradient_equal_the_twin(form, dtype, columns, weighted, penalty):
    settings = {"alpha": 0.3, "weighted": weighted, **PENALTIES[penalty]}
    problem, X, Y, weight = cases.problem(form, dtype, columns, **settings)
    at = model(problem)
    look = Optimality(problem, at)
    wanted = largest_component(problem, X, slopes_of(problem, X, Y, weight, at), at)
    # margins are taken in the rows' dtype
    np.testing.assert_allclose(look.gradient(), wanted, **cases.tolerance(dtype))
    np.testing.assert_allclose(
        look.objective, problem.objective(at.coef, at.intercept), **cases.tolerance(dtype)
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", ["squared_hinge", "modified_huber", *REGRESSION[:2]])
def test_losses(loss, fit_intercept):
    task = "regression" if loss in REGRESSION else "classification"
    settings = {"task": task, "loss": loss, "epsilon": 0.4, "fit_intercept": fit_intercept}
    problem, X, Y, weight = cases.problem("csr", weighted=True, **settings)
    at = model(problem)
    wanted = largest_component(problem, X, slopes_of(problem, X, Y, weight, at), at)
    np.testing.assert_allclose(Optimality(problem, at).gradient(), wanted, rtol=1e-9)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_columns_that_the_loss_couples(form):
    settings = {"loss": "multinomial", "weighted": True, "alpha": 0.3}
    problem, X, Y, weight = cases.problem(form, columns=3, **settings)
    at = model(problem)
    look = Optimality(problem, at)
    wanted = largest_component(problem, X, slopes_of(problem, X, Y, weight, at), at)
    np.testing.assert_allclose(look.gradient(), wanted, rtol=1e-9)
    np.testing.assert_allclose(look.objective, problem.objective(at.coef, at.intercept), rtol=1e-9)


@pytest.mark.parametrize("settle", [None, 1e-9])
def test_parts_add_up_to_the_whole(monkeypatch, settle):
    monkeypatch.setattr(optimality, "PART_VALUES", 10)
    problem, *_ = cases.problem("dense", columns=3)
    at, sizes = model(problem), []

    def each(function, parts):
        sizes.append(len(parts))
        return map(function, reversed(parts))

    apart = Optimality(problem, at, each=each, n_parts=4, settle=settle)
    assert sizes == ([4] if settle is None else [4, 4]), "margins first, if intercepts are to move"
    whole = Optimality(problem, at, settle=settle)
    assert apart.objective == pytest.approx(whole.objective, rel=1e-12)
    assert apart.gradient() == pytest.approx(whole.gradient(), rel=1e-12)
    assert apart.gap() == pytest.approx(whole.gap(), rel=1e-12)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("known", [True, False])
def test_few_rows_at_a_time_are_the_same_as_all(seams, form, columns, known):
    """Whatever number of them stays in a cache."""
    loss = "hinge" if known else "log_loss"
    problem, *_ = cases.problem(form, columns=columns, loss=loss, alpha=0.3)
    at = model(problem)
    slopes = np.zeros((problem.n_rows, columns)) if known else None
    whole = Optimality(problem, at, slopes=slopes)
    for n_bytes in (1, 200, 1000):
        seams.sizes.cached_twice = n_bytes
        few = Optimality(problem, at, slopes=slopes)
        assert few.objective == pytest.approx(whole.objective, rel=1e-12)
        assert few.gradient() == pytest.approx(whole.gradient(), rel=1e-12)
        assert few.gap() == pytest.approx(whole.gap(), rel=1e-12)


@pytest.mark.parametrize(
    ("loss", "columns"),
    [
        ("log_loss", 1),
        ("log_loss", 3),
        ("multinomial", 3),
        ("squared_hinge", 1),
        ("modified_huber", 1),
        ("squared_error", 1),
        ("huber", 1),
        ("squared_epsilon_insensitive", 1),
    ],
)
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_intercepts_are_settled_where_the_objective_is_smallest(form, loss, columns):
    task = "regression" if loss in REGRESSION else "classification"
    settings = {"task": task, "loss": loss, "epsilon": 0.4, "weighted": True, "alpha": 0.3}
    problem, X, Y, weight = cases.problem(form, columns=columns, **settings)
    at = model(problem)
    look = Optimality(problem, at, settle=1e-12)
    settled = Model(at.coef, look.intercept)
    assert np.abs(slopes_of(problem, X, Y, weight, settled).mean(axis=0)).max() < 1e-9
    assert look.objective == pytest.approx(problem.objective(at.coef, look.intercept), rel=1e-9)
    assert look.objective <= problem.objective(at.coef, at.intercept) + 1e-12
    np.testing.assert_allclose(
        look.gradient(), Optimality(problem, settled).gradient(), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("scale", [0.3, 40.0, 900.0])
def test_even_rows_have_the_slopes_and_sums_of_others(scale):
    """The loop for vectors, in chunks, against the one that takes weights (1, to rounding)."""
    rng = np.random.default_rng(0)
    n = 2 * whole_gradients.CHUNK + 7
    X, y = scale * rng.standard_normal((n, 4)), rng.integers(0, 2, n)
    ones = np.ones(n)
    ones[0] += 1e-15  # weights that are all 1 are left out
    even = problems.linear(X, y, alpha=0.1)
    weighted = problems.linear(X, y, alpha=0.1, sample_weight=ones)
    assert weighted.rows.weight.size and not even.rows.weight.size
    at = model(even)
    for settle in (None, 1e-9):
        one, other = (Optimality(problem, at, settle=settle) for problem in (even, weighted))
        np.testing.assert_allclose(one.intercept, other.intercept, rtol=1e-12)
        np.testing.assert_allclose(one.passed.slopes, other.passed.slopes, rtol=1e-12)
        np.testing.assert_allclose(one.objective, other.objective, rtol=1e-12)
        np.testing.assert_allclose(one.gradient(), other.gradient(), rtol=1e-9)
        np.testing.assert_allclose(one.gap(), other.gap(), rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("loss", "columns"),
    [("log_loss", 1), ("log_loss", 3), ("multinomial", 3), ("squared_hinge", 1), ("huber", 1)],
)
def test_the_gap_without_a_pass_is_hardly_above_the_one_with_it(
    monkeypatch, loss, columns, fit_intercept
):
    task = "regression" if loss in REGRESSION else "classification"
    settings = {"task": task, "loss": loss, "epsilon": 0.4, "fit_intercept": fit_intercept}
    problem, *_ = cases.problem("csr", columns=columns, weighted=True, alpha=0.3, **settings)
    at = model(problem)
    at = at if fit_intercept else Model(at.coef, 0.0 * at.intercept)
    passes = []
    count = optimality.sum_of_conjugates
    monkeypatch.setattr(
        optimality, "sum_of_conjugates", lambda *args: passes.append(0) or count(*args)
    )
    look = Optimality(problem, at, settle=1e-6 if fit_intercept else None)
    quick = look.gap()
    assert not passes
    monkeypatch.setattr(optimality, "HARDLY_SHRUNK", 2.0)
    exact = look.gap()
    assert passes
    assert exact - 1e-12 <= quick <= exact + 1e-4 * look.objective


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_best_intercept_without_features_is_the_log_odds(dtype, weighted):
    problem, *_ = cases.problem("dense", dtype, weighted=weighted)
    start, margins = best_without_features(problem), np.zeros(problem.n_rows)
    parts = [(0, problem.n_rows)]
    from_zero = best_intercepts(problem, margins, np.zeros(1), 1e-12, parts)
    assert start != 0.0
    np.testing.assert_allclose(start, from_zero, rtol=1e-6 if dtype == "float32" else 1e-12)


def test_intercepts_begin_at_zero_where_odds_are_none():
    X = np.ones((4, 1))
    of_one_class = problems.linear(X, [0, 0, 0, 0], classes=[0, 1])
    weightless = problems.linear(X, [0, 1, 1, 1], sample_weight=[0.0, 1.0, 1.0, 1.0])
    several, *_ = cases.problem("dense", columns=3)
    squared, *_ = cases.problem("dense", task="regression")
    for problem in (of_one_class, weightless, several, squared):
        assert not best_without_features(problem).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [30.0, 300.0, 690.0, 1000.0])
@pytest.mark.parametrize("loss", ["log_loss", "modified_huber", "multinomial"])
def test_intercepts_are_no_worse_where_margins_are_huge(loss, size, dtype):
    """There curvatures are next to nothing, so that a plain step of Newton's method is too long."""
    y = (np.arange(100) < 90).astype(int)
    n = 2 if loss == "multinomial" else 1
    X = np.random.default_rng(0).normal(size=(100, 3))
    problem = problems.linear(X.astype(dtype), y, loss=loss)
    towards = np.where(y == 1, 1.0, -1.0)
    several = np.linspace(-1.0, 1.0, 100)
    for shape in (towards, -towards, np.ones(100), -np.ones(100), several, -several):
        margins = size * shape
        if n == 2:
            margins = np.stack([-0.5 * margins, 0.5 * margins], axis=1).reshape(-1)
        margins = margins.astype(dtype).astype(np.float64)
        start = np.zeros(problem.n_columns)

        def mean_loss(intercept, margins=margins):
            rows = margins.reshape(100, -1) + intercept
            if loss == "multinomial":
                return np.mean(logsumexp(rows, axis=1) - rows[np.arange(100), y])
            z = rows[:, 0] * towards
            if loss == "log_loss":
                return np.mean(np.logaddexp(0.0, -z))
            return np.mean(np.where(z >= -1.0, np.maximum(0.0, 1.0 - z) ** 2, -4.0 * z))

        best = best_intercepts(problem, margins, start, 1e-9, [(0, 100)])
        assert np.abs(best).max() <= 10.0 * size
        assert mean_loss(best) <= mean_loss(start) * (1.0 + 1e-6)
        if loss == "log_loss" and np.ptp(shape) == 0.0 and size < 700.0:
            odds = np.log(90.0 / 10.0) - margins[0]
            assert best[0] == pytest.approx(odds, rel=1e-5)


def test_losses_without_curvature_leave_the_intercept_alone():
    """All margins are past the kink and weights of zero: nothing to solve, and nothing moves."""
    problem, *_ = cases.problem("dense", loss="squared_hinge")
    far = Model(np.zeros_like(model(problem).coef), np.array([1e6], problem.dtype))
    look = Optimality(problem, far, settle=0.0)
    assert np.isfinite(look.intercept).all()


@pytest.mark.parametrize("loss", [loss for loss in losses.CODES if loss != "multinomial"])
def test_curvatures_are_the_derivatives_of_the_derivatives(loss):
    curvature = getattr(losses.loss_curvature, "py_func", losses.loss_curvature)
    epsilon, step = 0.4, 1e-6
    labels = [-1.0, 1.0] if loss not in (*REGRESSION, "log_loss") else [0.0, 1.0]
    for y in labels:
        for p in (-2.3, -0.45, 0.2, 0.9, 3.1, 40.0, -40.0):
            ends = [naive.loss_derivative(loss, epsilon, y, p + d) for d in (-step, step)]
            wanted = (ends[1] - ends[0]) / (2.0 * step)
            assert curvature(losses.CODES[loss], epsilon, y, p) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("loss", [loss for loss in losses.CODES if loss != "multinomial"])
def test_conjugates(loss):
    epsilon = 0.4
    labels = [-1.0, 1.0] if loss not in (*REGRESSION, "log_loss") else [0.0, 1.0]
    for y in labels + ([-0.7] if loss in REGRESSION else []):
        for p in (-2.3, -0.4, 0.2, 0.9, 3.1):
            slope = naive.loss_derivative(loss, epsilon, y, p)
            for shrink in (1.0, 0.6):
                a = float(shrink * slope)
                wanted = naive.loss_conjugate(loss, epsilon, y, a)
                assert loss_conjugate(losses.CODES[loss], epsilon, y, a) == pytest.approx(
                    wanted, abs=1e-6
                )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet"])
@pytest.mark.parametrize("loss", ["log_loss", "hinge", "modified_huber", *REGRESSION])
def test_no_model_is_better_than_the_gap_says(loss, penalty, columns, fit_intercept):
    """Weak duality: objective less gap is below the objective of every other model."""
    task = "regression" if loss in REGRESSION else "classification"
    if task == "regression" and columns > 1:
        columns = 1
    settings = {"task": task, "loss": loss, "fit_intercept": fit_intercept, "alpha": 0.2}
    problem, *_ = cases.problem("dense", "float64", columns, **settings, **PENALTIES[penalty])
    bounds, values = [], []
    for seed in range(12):
        at = model(problem, seed)
        at = Model(0.1 * seed * at.coef, fit_intercept * 0.1 * seed * at.intercept)
        look = Optimality(problem, at)
        values.append(look.objective)
        bounds.append(look.objective - look.gap())
    assert max(bounds) <= min(values) + 1e-12
