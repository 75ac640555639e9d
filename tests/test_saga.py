"""SAGA as a user meets it: it reaches the optimum, alone and with others; what "auto" chooses."""

import math

import cases
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.preprocessing import normalize

from hogshare import (
    SAGA,
    SDCA,
    SGDClassifier,
    SGDRegressor,
    Shared,
    Simulator,
    StepSize,
    Stop,
    asaga,
    datasets,
    problems,
    prox_asaga,
    solve,
)
from hogshare.rules.automatic_rule import automatic_rule, occurring_features

PLANES = {
    "exchange": Shared(),
    "lock-free": Shared(exchange=None),
    "atomic": Shared(exchange=None, adds="atomic"),
}
RUNTIMES = [("caller", 1), ("threads", 2), ("threads", 4), ("processes", 2)]
EXACT = Stop(epochs=5000, gradient=1e-12)  # at rest, whoever was preempted before


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("runtime", "n_workers"), RUNTIMES)
def test_logistic_regression_to_the_optimum(cancer, runtime, n_workers, sparse, plane):
    X, y = cancer
    if sparse:
        X = np.where(np.abs(X) < 0.5, 0.0, X)
    theirs = LogisticRegression(C=1.0 / (0.02 * len(y)), solver="newton-cholesky", tol=1e-12)
    theirs.fit(X, y)
    problem = problems.linear(sp.csr_matrix(X) if sparse else X, y, alpha=0.02)
    run = {"runtime": runtime, "n_workers": n_workers, "stop": EXACT, "seed": 0}
    model = solve(problem, rule=SAGA(), plane=PLANES[plane], **run).model
    np.testing.assert_allclose(model.coef, theirs.coef_, atol=1e-7)
    np.testing.assert_allclose(model.intercept, theirs.intercept_, atol=1e-7)


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize(("runtime", "n_workers"), RUNTIMES)
@pytest.mark.quick
def test_lasso_with_the_same_zeros(diabetes, runtime, n_workers, plane):
    X, y = diabetes
    theirs = Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(X, y)
    problem = problems.linear(X, y, loss="squared_error", penalty="l1", alpha=0.1)
    run = {"runtime": runtime, "n_workers": n_workers, "stop": EXACT, "seed": 0}
    coef = solve(problem, rule=SAGA(), plane=PLANES[plane], **run).model.coef[0]
    np.testing.assert_allclose(coef, theirs.coef_, atol=1e-6)
    assert (theirs.coef_ == 0.0).any()
    np.testing.assert_array_equal(coef == 0.0, theirs.coef_ == 0.0)


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
@pytest.mark.parametrize(("runtime", "n_workers"), RUNTIMES)
def test_losses_with_kinks_to_the_optimum(cancer, runtime, n_workers, loss, plane):
    """The gap is proof, whoever finds a model: no other is further below than it says."""
    X, y = cancer
    task = "regression" if loss == "epsilon_insensitive" else "classification"
    problem = problems.linear(X, y, loss=loss, alpha=0.02, task=task)
    run = {"runtime": runtime, "n_workers": n_workers, "seed": 0, "plane": PLANES[plane]}
    report = solve(problem, rule=SAGA(), stop=Stop(epochs=3000, gap=1e-6), **run)
    assert report.converged
    by_duals = solve(problem, rule=SDCA(), stop=Stop(epochs=1000), seed=0).model
    found, known = (problem.objective(m.coef, m.intercept) for m in (report.model, by_duals))
    assert found - known <= report.checks[-1]["gap"] + 1e-12
    assert report.checks[-1]["gap"] <= 1e-6


@pytest.mark.parametrize("plane", PLANES)
def test_kinks_and_exact_zeros(cancer, plane):
    """Hinge and l1: the objective is a linear programme's, which SciPy solves."""
    X, y = cancer
    n, m = X.shape
    problem = problems.linear(X, y, loss="hinge", penalty="l1", alpha=0.02)
    signs = np.where(y == y.max(), 1.0, -1.0)
    # w = up - down and the intercept alike; slack >= 1 - sign (x w + b)
    signed = signs[:, None] * np.hstack([X, -X, np.ones((n, 1)), -np.ones((n, 1))])
    costs = np.concatenate([np.full(2 * m, 0.02), [0.0, 0.0], np.full(n, 1.0 / n)])
    found = linprog(costs, A_ub=-np.hstack([signed, np.eye(n)]), b_ub=-np.ones(n))
    run = {"plane": PLANES[plane], "runtime": "threads", "n_workers": 2, "seed": 0}
    model = solve(problem, rule=SAGA(), stop=Stop(epochs=2000), **run).model
    assert problem.objective(model.coef, model.intercept) == pytest.approx(found.fun, rel=1e-3)
    assert (model.coef == 0.0).sum() >= m // 2


def test_steps_grow_with_targets_that_have_kinks(diabetes):
    """Targets in another unit give the same model in that unit, step by step."""
    X, y = diabetes
    unit = 1024.0  # exact in floating point

    def model(unit):
        settings = {"loss": "epsilon_insensitive", "epsilon": 0.5 * unit, "alpha": 0.1 / unit}
        problem = problems.linear(X, y * unit, **settings)
        return solve(problem, rule=SAGA(), stop=Stop(epochs=5), seed=0).model

    small, large = model(1.0), model(unit)
    np.testing.assert_allclose(large.coef, unit * small.coef, rtol=1e-9)
    np.testing.assert_allclose(large.intercept, unit * small.intercept, rtol=1e-9)


@pytest.mark.parametrize("target", [0.0, 0.1, 7.3, 1e6])
def test_targets_that_are_all_alike(target):
    """Their mean may be off by rounding, and tells nothing about their spread."""
    X = np.random.default_rng(0).standard_normal((1000, 5))
    settings = {"loss": "epsilon_insensitive", "epsilon": 0.0, "alpha": 1e-3}
    problem = problems.linear(X, np.full(1000, target), **settings)
    assert problem.sharpness == pytest.approx(1.0 / (target or 1.0))
    model = solve(problem, rule=SAGA(), stop=Stop(epochs=20), seed=0).model
    np.testing.assert_allclose(model.intercept, target, rtol=1e-3, atol=1e-9)


def test_a_few_wild_targets_do_not_set_the_step(diabetes):
    X, y = diabetes
    settings = {"loss": "epsilon_insensitive", "alpha": 0.1}
    plain = problems.linear(X, y, **settings).sharpness
    wild = y.copy()
    wild[::100] = 1e9
    assert problems.linear(X, wild, **settings).sharpness == pytest.approx(plain, rel=0.05)
    weight = np.where(wild == 1e9, 0.0, 2.0)  # rows that do not count at all
    weighted = problems.linear(X, wild, sample_weight=weight, **settings)
    kept = problems.linear(X[weight > 0.0], y[weight > 0.0], **settings)
    assert weighted.sharpness == pytest.approx(2.0 * kept.sharpness)


def test_heavy_rows_do_not_shorten_the_steps_for_others():
    """A proximal point has no step that is too long for a row, however heavy it is."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 20))
    y = X @ rng.standard_normal(20) + 2.0 * rng.standard_normal(3000) > 0.0
    weight = np.ones(3000)
    weight[0] = 1000.0
    problem = problems.linear(X, y, loss="hinge", alpha=1.0 / 3000, sample_weight=weight)
    run = {"rule": SAGA(), "n_workers": 1, "seed": 0}
    best, early = (solve(problem, stop=Stop(epochs=e), **run).model for e in (300, 8))
    floor, near = (problem.objective(m.coef, m.intercept) for m in (best, early))
    assert near < 1.1 * floor  # steps that the heaviest row sets: above 3


def test_a_few_epochs_are_enough_for_a_support_vector_machine():
    """Many short rows, hardly any penalty: where SDCA runs to and fro for dozens of epochs."""
    rng = np.random.default_rng(0)
    X = (rng.uniform(size=(6000, 40)) < 0.3).astype(float)
    y = X @ rng.standard_normal(40) + rng.standard_normal(6000) > 0.0
    problem = problems.linear(sp.csr_array(X), y, loss="hinge", alpha=1.0 / 6000)
    assert automatic_rule(problem) == SAGA()
    run = {"n_workers": 1, "seed": 0}
    best = solve(problem, rule=SAGA(), stop=Stop(epochs=200), **run).model
    floor = problem.objective(best.coef, best.intercept)

    def excess(rule, epochs):
        model = solve(problem, rule=rule, stop=Stop(epochs=epochs), **run).model
        return problem.objective(model.coef, model.intercept) / floor - 1.0

    assert excess(SAGA(), 1) < 0.05
    assert excess(SAGA(), 4) < 0.01
    assert excess(SDCA(), 4) > 0.1


def test_asaga_and_prox_asaga_are_that_rule_on_that_plane(cancer):
    smooth = problems.linear(*cancer, alpha=0.02)
    sparse = problems.linear(*cancer, alpha=0.02, penalty="l1")
    for solver, problem in ((asaga, smooth), (prox_asaga, smooth), (prox_asaga, sparse)):
        report = solver(problem, n_workers=1, epochs=30, step=0.01, adds="plain", seed=0)
        assert report.settings["rule"]["step"] == 0.01
        assert report.settings["step"] == {"kind": "constant", "eta0": 0.01}
        assert report.settings["plane"] == {
            "name": "Shared",
            "exchange": None,
            "adds": "plain",
        }
        plane = Shared(exchange=None)
        run = {"rule": SAGA(step=0.01), "plane": plane, "stop": Stop(epochs=30), "seed": 0}
        np.testing.assert_array_equal(report.model.coef, solve(problem, **run).model.coef)
    assert asaga(smooth, n_workers=1).settings["plane"]["adds"] == "atomic"
    automatic = asaga(smooth, n_workers=1).settings
    assert automatic["rule"]["step"] is None
    assert automatic["step"]["kind"] == "falls" and automatic["step"]["eta0"] > 0.0
    with pytest.raises(ValueError, match="use prox_asaga"):
        asaga(sparse)
    with pytest.raises(ValueError, match="positive number or 'auto'"):
        asaga(smooth, step="long")
    with pytest.raises(ValueError, match="step must be a positive"):
        asaga(smooth, step=0.0)


@pytest.mark.parametrize("plane", PLANES)
def test_a_stop_criterion_sees_the_vector(cancer, plane):
    problem = problems.linear(*cancer, alpha=0.02)
    run = {"rule": SAGA(), "plane": PLANES[plane], "runtime": "threads", "n_workers": 2, "seed": 0}
    assert solve(problem, stop=Stop(epochs=500, tol=1e-6), **run).converged
    held_out = np.arange(problem.n_rows) % 5 == 0
    assert solve(problem, stop=Stop(epochs=500, tol=1e-6, validation=held_out), **run).converged


def test_without_a_penalty_alpha_does_not_matter(cancer):
    models = [
        solve(problems.linear(*cancer, penalty=None, alpha=a), rule=SAGA(), seed=0).model
        for a in (0.0, 10.0)
    ]
    np.testing.assert_array_equal(models[0].coef, models[1].coef)


def test_rare_features_and_a_strong_penalty():
    """A gradient step on the penalty, scaled by rarity, would overshoot more at every visit."""
    rng = np.random.default_rng(0)
    X = sp.random_array((2000, 200), density=0.001, format="csr", random_state=rng)
    X = sp.csr_matrix(sp.hstack([X, np.ones((2000, 1))]))
    y = np.arange(2000) % 2
    for alpha in (1e-2, 1.0):
        problem = problems.linear(X, y, alpha=alpha)
        report = solve(problem, rule=SAGA(), stop=Stop(epochs=100), seed=0)
        best = solve(problem, rule=SDCA(), stop=Stop(epochs=200), seed=0)
        ours, theirs = (problem.objective(r.model.coef, r.model.intercept) for r in (report, best))
        assert ours == pytest.approx(theirs, rel=1e-3)


def test_long_rows_converge_though_they_are_uneven():
    """Rows of normal numbers, as everybody has them: far beyond what SDCA does in few epochs."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = X @ np.arange(5.0) + 3.0
    model = SGDRegressor(learning_rate="auto", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.99


def test_it_goes_on_from_a_model(cancer):
    problem = problems.linear(*cancer, alpha=0.02)
    first = solve(problem, rule=SAGA(), stop=Stop(epochs=1500), seed=0).model
    again = solve(problem, rule=SAGA(), stop=Stop(epochs=1), start=first, seed=0).model
    begun = solve(problem, rule=SAGA(), stop=Stop(epochs=1), seed=0).model
    best, near, far = (problem.objective(m.coef, m.intercept) for m in (first, again, begun))
    assert near <= best + 1e-12
    assert near < far


def test_it_goes_on_from_a_model_of_a_loss_with_kinks(cancer):
    """Past the first epochs, whose long steps that fall would undo what is known."""
    problem = problems.linear(*cancer, alpha=0.02, loss="hinge")
    first = solve(problem, rule=SAGA(), stop=Stop(epochs=150), seed=0).model
    again = solve(problem, rule=SAGA(), stop=Stop(epochs=1), start=first, seed=0).model
    by_duals = solve(problem, rule=SDCA(), stop=Stop(epochs=1), start=first, seed=0).model
    begun = solve(problem, rule=SAGA(), stop=Stop(epochs=1), seed=0).model
    best, near, dual, far = (
        problem.objective(m.coef, m.intercept) for m in (first, again, by_duals, begun)
    )
    assert near == pytest.approx(best, rel=1e-4) and dual == pytest.approx(best, rel=1e-3)
    assert far > 1.02 * best


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"alpha": 0.1}, SDCA),
        ({"alpha": 1e-4}, SAGA),
        ({"alpha": 1.0, "loss": "hinge"}, SDCA),
        ({"alpha": 1e-4, "loss": "hinge"}, SAGA),
        ({"alpha": 1e-4, "loss": "hinge", "penalty": "l1"}, SAGA),
        ({"alpha": 1e-4, "penalty": "l1"}, SAGA),
        ({"alpha": 0.0, "penalty": None}, SAGA),
    ],
)
def test_what_auto_chooses(cancer, settings, rule):
    X, y = cancer
    problem = problems.linear(normalize(X) * 3.0, y, **settings)
    assert isinstance(automatic_rule(problem), rule)


def test_auto_does_not_find_a_model_of_zeros(cancer):
    with pytest.raises(ValueError, match="a model of zeros is one"):
        SGDClassifier("perceptron", learning_rate="auto").fit(*cancer)


def test_uneven_rows_are_left_to_the_dual_or_drawn_by_importance(cancer):
    X, y = cancer
    X = normalize(X) * 3.0
    X[0] *= 3.0
    by_importance = SAGA(sampling="importance")
    assert automatic_rule(problems.linear(X, y, alpha=1e-3)) == SDCA()
    assert automatic_rule(problems.linear(X, y, alpha=1e-5)) == by_importance, "too long for it"
    assert automatic_rule(problems.linear(X, y, alpha=1e-5), shuffle=False) == SAGA()
    X[0] *= 10.0
    assert automatic_rule(problems.linear(X, y, alpha=1e-3)) == by_importance
    assert automatic_rule(problems.linear(X, y, alpha=1e-3), shuffle=False) == SDCA()
    assert automatic_rule(problems.linear(X, y, penalty=None)) == by_importance


REACHES = {"short": 0.3, "middling": 0.6, "long": 5.0, "very long": 25.0, "endless": 1000.0}


def choices(X, loss="log_loss", **options):
    """What "auto" chooses at each reach."""
    n = X.shape[0]
    y = np.arange(n) % 2 if loss == "log_loss" else np.arange(float(n)) % 3
    task = "classification" if loss == "log_loss" else "regression"
    strength = (0.25 if loss == "log_loss" else 1.0) / n
    mean = np.square(X.data if sp.issparse(X) else X).sum() / n
    return {
        name: automatic_rule(
            problems.linear(X, y, loss=loss, task=task, alpha=strength * mean / reach), **options
        )
        for name, reach in REACHES.items()
    }


def by_sdca(chosen):
    return [name for name, rule in chosen.items() if rule == SDCA()]


@pytest.mark.parametrize(
    ("rows", "features", "loss", "up_to"),
    [
        (60, 60, "log_loss", 5),
        (60, 60, "squared_error", 5),
        (62, 60, "log_loss", 4),
        (62, 60, "squared_error", 3),
        (148, 60, "log_loss", 4),
        (152, 60, "log_loss", 2),
        (152, 60, "squared_error", 2),
        (990, 10, "log_loss", 2),
        (1000, 10, "log_loss", 1),
        (1000, 10, "squared_error", 1),
    ],
)
def test_auto_asks_for_rows_per_feature(rows, features, loss, up_to):
    X = normalize(np.random.default_rng(0).standard_normal((rows, features)))
    assert by_sdca(choices(X, loss)) == list(REACHES)[:up_to]


def test_text_with_kinks_is_for_the_dual_unless_the_penalty_is_weak():
    text, y = datasets.zipf_classification(n_samples=4000, n_features=3000, seed=0)
    chosen = {
        times: automatic_rule(problems.linear(text, y, loss="hinge", alpha=times / 4000))
        for times in (10.0, 1.0, 0.1)
    }
    assert chosen == {10.0: SDCA(), 1.0: SDCA(), 0.1: SAGA()}


def test_columns_that_no_row_has_do_not_count():
    rng = np.random.default_rng(0)
    X = sp.random_array((9000, 40), density=0.2, format="csr", random_state=rng)
    hashed = sp.csr_array((X.data, X.indices, X.indptr), shape=(9000, 2**18))
    assert choices(hashed) == choices(X[:3900]) != choices(X)  # below the border to many rows
    # text: rare words that few rows have are not forgotten by a sample
    text, y = datasets.zipf_classification(n_samples=9000, n_features=6000, seed=0)
    found = occurring_features(problems.linear(text, y), every=4)
    assert found == pytest.approx(len(np.unique(text.indices)), rel=0.15)
    assert occurring_features(problems.linear(text, y)) == len(np.unique(text.indices))


@pytest.mark.parametrize("features", [100, 400])
def test_a_regression_with_a_weak_penalty_is_solved(features):
    """With few more rows than features the dual stalls, with fewer SAGA does."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, features))
    y = X @ rng.standard_normal(features) + 5.0 * rng.standard_normal(200)
    problem = problems.linear(X, y, loss="squared_error", alpha=1e-2, task="regression")
    stop = Stop(epochs=300)
    report = solve(problem, rule=automatic_rule(problem), stop=stop, seed=0, trace=1)
    A = np.hstack([X, np.ones((200, 1))])
    best = np.linalg.solve(A.T @ A / 200 + 1e-2 * np.diag([1.0] * features + [0.0]), A.T @ y / 200)
    assert report.trace.objective[-1] <= 1.05 * problem.objective(best[None, :-1], best[-1:])


def test_where_rows_are_many_they_may_be_a_little_uneven():
    X = normalize(np.random.default_rng(0).standard_normal((6000, 50)))
    X[0] *= math.sqrt(2.5)
    assert choices(X)["endless"] == SAGA()
    X[0] *= 2.0
    assert by_sdca(choices(X)) == ["short"]
    assert choices(X)["endless"] == SAGA(sampling="importance")
    # read in order, SAGA's steps are as short as the largest row asks
    assert by_sdca(choices(X, shuffle=False)) == ["short", "middling"]
    X[0] *= math.sqrt(2.0)
    assert by_sdca(choices(X, shuffle=False)) == ["short", "middling", "long"]
    X[0] *= 5.0
    assert by_sdca(choices(X, shuffle=False)) == ["short", "middling", "long", "very long"]


def uneven(kind, n, m):
    """Rows on which a step of 1 / L of the largest row diverges."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, m))
    if kind == "one huge row":
        X[0] *= 30.0
    if kind == "a third, all alike":
        X = np.outer(np.where(np.arange(n) % 3 == 0, 1.0, 1e-3), X[0]) + 1e-3 * X
    if kind == "few large ones, correlated":
        X *= 1e-3
        X[: n // 10] += 1.0
    if kind == "long tail":
        X *= np.exp(1.5 * rng.standard_normal((n, 1)))
    return X, X @ rng.standard_normal(m) + rng.standard_normal(n)


@pytest.mark.parametrize(
    "kind", ["one huge row", "a third, all alike", "few large ones, correlated", "long tail"]
)
@pytest.mark.parametrize("shape", [(30, 2), (300, 5), (300, 40)])
@pytest.mark.parametrize("sampling", ["uniform", "importance"])
def test_the_automatic_step_does_not_diverge(kind, shape, sampling):
    X, y = uneven(kind, *shape)
    problem = problems.linear(X, y, loss="squared_error", penalty=None, fit_intercept=False)
    best = problem.objective(np.linalg.lstsq(X, y)[0], np.zeros(1))
    nothing = problem.objective(np.zeros(shape[1]), np.zeros(1))
    values = []
    for epochs in (100, 1000):
        report = solve(problem, rule=SAGA(sampling=sampling), stop=Stop(epochs=epochs), seed=0)
        values.append(problem.objective(report.model.coef, report.model.intercept))
    assert best - 1e-9 <= values[1] <= values[0] + 1e-9
    assert values[1] < nothing
    if sampling == "importance" and kind in ("one huge row", "long tail"):
        assert values[1] == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("sampling", ["uniform", "importance"])
def test_no_single_epoch_throws_the_model_far_away(sampling):
    rng = np.random.default_rng(0)
    for n, m in [(20, 20), (200, 10), (500, 50)]:
        X = rng.standard_normal((n, m)) * np.exp(2.0 * rng.standard_normal((n, 1)))
        y = X @ rng.standard_normal(m) + rng.standard_normal(n)
        problem = problems.linear(X, y, loss="squared_error", alpha=1e-3, fit_intercept=False)
        nothing = problem.objective(np.zeros((1, m)), np.zeros(1))
        for epochs in (1, 2, 5):
            run = {"stop": Stop(epochs=epochs), "seed": 0, "runtime": "caller"}
            model = solve(problem, rule=SAGA(sampling=sampling), **run).model
            assert problem.objective(model.coef, model.intercept) < 2.0 * nothing


@pytest.mark.parametrize("n_workers", [2, 4, 8])
def test_stretched_steps_do_not_begin_an_epoch_too_long(n_workers):
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(5)
    X = direction + 0.3 * rng.standard_normal((200, 5))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = X @ rng.standard_normal(5) + 0.1 * rng.standard_normal(200)
    problem = problems.linear(X, y, loss="squared_error", alpha=1e-4, fit_intercept=False)
    nothing = problem.objective(np.zeros((1, 5)), np.zeros(1))
    best = solve(problem, rule=SAGA(), stop=Stop(epochs=300), seed=0, runtime="caller").model
    least = problem.objective(best.coef, best.intercept)
    for seed in range(10):
        run = {"stop": Stop(epochs=30), "seed": seed, "runtime": Simulator()}
        model = solve(problem, rule=SAGA(), n_workers=n_workers, **run).model
        gap = problem.objective(model.coef, model.intercept) - least
        assert gap <= 1e-9 * (nothing - least)


def test_the_automatic_step_falls_within_an_epoch():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 20))
    y = X @ rng.standard_normal(20) + 3.0 * rng.standard_normal(2000) > 0.0
    problem = problems.linear(X, y, alpha=1e-3)
    given = SAGA(step=cases.session(problem, rule=SAGA()).rule.saga_step)
    best = solve(problem, rule=SAGA(), stop=Stop(epochs=300), seed=0, runtime="caller").model
    least = problem.objective(best.coef, best.intercept)

    def median(rule):
        models = [
            solve(problem, rule=rule, stop=Stop(epochs=1), seed=seed, runtime="caller").model
            for seed in range(15)
        ]
        return np.median([problem.objective(m.coef, m.intercept) for m in models]) - least

    assert median(SAGA()) < 0.5 * median(given)


@pytest.mark.parametrize(("runtime", "n_workers"), RUNTIMES[:2])
def test_too_long_a_step_is_halved_until_it_converges(runtime, n_workers, monkeypatch):
    """If the automatic step were wrong. One that the user gives is taken as it is."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5))
    y = X @ rng.standard_normal(5) + 0.3 * rng.standard_normal(400)
    problem = problems.linear(X, y, loss="squared_error", alpha=0.01)
    run = {"runtime": runtime, "n_workers": n_workers, "stop": Stop(epochs=500), "seed": 0}
    best = solve(problem, rule=SAGA(), **run | {"stop": EXACT}).model
    step = 0.8 / np.square(X).sum(axis=1).mean()
    with pytest.warns(ConvergenceWarning, match="has diverged"):
        solve(problem, rule=SAGA(step=step), **run)
    monkeypatch.setattr("hogshare.rules.saga.saga_step", lambda *_: step)
    model = solve(problem, rule=SAGA(), **run | {"stop": EXACT}).model
    np.testing.assert_allclose(model.coef, best.coef, atol=1e-6)


def test_what_sampling_cannot_do_is_refused(cancer):
    problem = problems.linear(*cancer)
    with pytest.raises(ValueError, match="sampling must be"):
        SAGA(sampling="often")
    with pytest.raises(ValueError, match="leave shuffle=False out"):
        solve(problem, rule=SAGA(replace=True), shuffle=False)


SAMPLINGS = [
    SAGA(replace=True),
    SAGA(sampling="importance"),
    SAGA(sampling="importance", replace=True),
]


@pytest.mark.parametrize("rule", SAMPLINGS, ids=str)
@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize(("runtime", "n_workers"), RUNTIMES)
@pytest.mark.sample(2)
def test_however_rows_are_drawn_the_optimum_is_the_same(cancer, runtime, n_workers, plane, rule):
    X, y = cancer
    X = sp.csr_matrix(np.where(np.abs(X) < 0.5, 0.0, X) * np.exp(0.3 * X[:, :1]))
    theirs = LogisticRegression(C=1.0 / (0.02 * len(y)), solver="newton-cholesky", tol=1e-12)
    theirs.fit(X.toarray(), y)
    problem = problems.linear(X, y, alpha=0.02)
    stop = Stop(epochs=2500, gradient=5e-9)  # at rest, whoever was preempted before
    run = {"runtime": runtime, "n_workers": n_workers, "stop": stop, "seed": 0}
    model = solve(problem, rule=rule, plane=PLANES[plane], **run).model
    np.testing.assert_allclose(model.coef, theirs.coef_, atol=2e-6)
    np.testing.assert_allclose(model.intercept, theirs.intercept_, atol=2e-6)


def test_importance_is_ahead_where_rows_are_uneven():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 8))
    X[:3] *= 15.0
    y = (X @ rng.standard_normal(8) > 0.0).astype(int)
    problem = problems.linear(X, y, alpha=1e-3, fit_intercept=False)
    best = solve(problem, rule=SDCA(), stop=Stop(epochs=3000), seed=0).model
    best = problem.objective(best.coef, best.intercept)

    def excess(rule):
        model = solve(problem, rule=rule, stop=Stop(epochs=40), seed=0).model
        return problem.objective(model.coef, model.intercept) / best - 1.0

    assert excess(SAGA(sampling="importance")) < 0.1 * excess(SAGA())


def test_the_estimators_take_it_where_it_is_ahead(cancer, diabetes):
    X, y = cancer
    ours = SGDClassifier("log_loss", penalty="l1", alpha=0.01, learning_rate="auto", random_state=0)
    ours.fit(X, y)
    assert ours.report_.settings["rule"]["name"] == "SAGA"
    assert ours.score(X, y) > 0.97
    assert (ours.coef_ == 0.0).any()
    regressor = SGDRegressor(penalty=None, learning_rate="auto", random_state=0).fit(*diabetes)
    assert regressor.report_.settings["rule"]["name"] == "SAGA"
    assert regressor.score(*diabetes) == pytest.approx(0.5177, abs=1e-3)  # least squares


def test_what_cannot_be_done_is_refused(cancer):
    problem = problems.linear(*cancer)
    with pytest.raises(ValueError, match="schedule of step sizes"):
        solve(problem, rule=SAGA(), step=StepSize())
    with pytest.raises(ValueError, match="step must be a positive"):
        SAGA(step=0.0)
