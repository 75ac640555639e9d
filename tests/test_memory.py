"""What SAGA and SDCA remember per row goes from one run to the next."""

import dataclasses

import numpy as np
import pytest

from hogshare import SAGA, SDCA, SGD, Model, Shared, Stop, problems, solve

LOSSES = {
    "log_loss": 1.0,
    "squared_hinge": 1.0,
    "modified_huber": 1.0,
    "hinge": 1.0,
    "multinomial": 1.0,
    "squared_error": 1.0,
    "huber": 1.0,
    "epsilon_insensitive": 1.0,
}


def three_classes(n=150, m=5, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, m)).astype(dtype)
    return X, (X @ rng.standard_normal((m, 3))).argmax(axis=1)


def value(problem, model):
    return problem.objective(model.coef, model.intercept)


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None)])
@pytest.mark.parametrize("rule", [SAGA(), SDCA()], ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_resumed_is_as_if_it_had_not_been_interrupted(rule, classes, plane):
    if rule == SDCA() and plane.exchange is None:
        pytest.skip("SDCA needs private copies")
    X, y = three_classes()
    problem = problems.linear(X, y % classes, alpha=0.02)
    run = {"rule": rule, "plane": plane, "shuffle": False, "seed": 0}
    whole = solve(problem, stop=Stop(epochs=7), **run).model
    first = solve(problem, stop=Stop(epochs=3), **run).model
    second = solve(problem, stop=Stop(epochs=4), start=first, **run).model
    assert second.t == whole.t
    np.testing.assert_allclose(second.coef, whole.coef, rtol=1e-9)
    np.testing.assert_allclose(second.intercept, whole.intercept, rtol=1e-9)
    np.testing.assert_allclose(second.memory, whole.memory, rtol=1e-8, atol=1e-12)
    forgetful = dataclasses.replace(first, memory=None)
    if rule == SAGA():
        other = solve(problem, stop=Stop(epochs=4), start=forgetful, **run).model
        assert np.abs(other.coef - whole.coef).max() > 1e-6, "the memory has been read"


@pytest.mark.parametrize("loss", LOSSES)
def test_at_the_optimum_it_is_the_derivatives_there(loss, cancer, diabetes):
    if loss == "multinomial":
        problem = problems.linear(*three_classes(), loss=loss, alpha=0.05)
    else:
        regression = loss in ("squared_error", "huber", "epsilon_insensitive")
        X, y = diabetes if regression else cancer
        problem = problems.linear(
            X, y, loss=loss, alpha=0.05, sample_weight=1.0 + np.arange(len(y)) % 2
        )
    rules = [SAGA(), SDCA()]
    if loss == "multinomial":
        rules.remove(SDCA())
    if loss in ("hinge", "epsilon_insensitive"):
        rules.remove(SAGA())
    for rule in rules:
        model = solve(problem, rule=rule, stop=Stop(epochs=600), seed=0).model
        assert model.memory.shape == (problem.n_rows, problem.n_columns)
        assert model.memory.dtype == problem.dtype
        gradient = model.memory.T @ np.asarray(problem.rows.data).reshape(problem.n_rows, -1)
        np.testing.assert_allclose(gradient / problem.n_rows, -0.05 * model.coef, atol=1e-4)
        np.testing.assert_allclose(model.memory.mean(axis=0), 0.0, atol=1e-4)
        # and either rule stays there
        for other in rules:
            again = solve(problem, rule=other, stop=Stop(epochs=1), start=model, seed=0).model
            assert value(problem, again) <= value(problem, model) + 1e-6


@pytest.mark.parametrize(
    ("runtime", "n_workers"), [("caller", 1), ("threads", 2), ("processes", 2)]
)
@pytest.mark.parametrize("rule", [SAGA(), SDCA()], ids=str)
def test_a_path_of_penalties_by_warm_start(cancer, rule, runtime, n_workers):
    """A solution for one alpha is the start for the next: few epochs instead of many."""
    run = {"rule": rule, "runtime": runtime, "n_workers": n_workers, "seed": 0}
    model = None
    for alpha in (0.4, 0.3, 0.23):
        problem = problems.linear(*cancer, alpha=alpha)
        best = value(problem, solve(problem, rule=SDCA(), stop=Stop(epochs=1000)).model)
        cold = solve(problem, stop=Stop(epochs=2), **run).model
        warm = solve(problem, stop=Stop(epochs=2), start=model, **run).model
        if model is not None:
            assert value(problem, warm) - best < 0.5 * (value(problem, cold) - best) + 1e-12
        model = solve(problem, stop=Stop(epochs=300), start=model, **run).model


def test_a_start_without_memory_is_looked_at_once(cancer):
    """A table of the start's derivatives is better than an empty one; a step then cannot stray."""
    problem = problems.linear(*cancer, alpha=0.02)
    best = solve(problem, rule=SAGA(), stop=Stop(epochs=3000), seed=0).model
    start = dataclasses.replace(best, memory=None)
    again = solve(problem, rule=SAGA(), stop=Stop(epochs=1), start=start, seed=0).model
    assert value(problem, again) - value(problem, best) < 1e-10
    np.testing.assert_allclose(again.memory, best.memory, atol=1e-6)


def test_rows_that_are_held_out_are_not_remembered(cancer):
    problem = problems.linear(*cancer, alpha=0.1)
    held_out = np.arange(problem.n_rows) % 3 == 0
    whole = solve(problem, rule=SDCA(), stop=Stop(epochs=20), seed=0).model
    for rule in (SAGA(), SDCA()):
        for start in (whole, None):
            stop = Stop(epochs=200, validation=held_out)
            model = solve(problem, rule=rule, stop=stop, start=start, seed=0).model
            assert (model.memory[held_out] == 0.0).all()
            np.testing.assert_allclose(
                model.memory.T @ cancer[0] / (~held_out).sum(), -0.1 * model.coef, atol=1e-5
            )


def test_stochastic_gradients_remember_nothing(cancer):
    problem = problems.linear(*cancer, alpha=0.1)
    assert solve(problem, rule=SGD(), seed=0).model.memory is None
    start = solve(problem, rule=SDCA(), seed=0).model
    bare = dataclasses.replace(start, memory=None)
    models = [solve(problem, rule=SGD(), start=s, seed=0).model for s in (start, bare)]
    np.testing.assert_array_equal(models[0].coef, models[1].coef)


def test_a_memory_that_does_not_fit_is_refused(cancer, diabetes):
    X, y = cancer
    problem = problems.linear(X, y, alpha=0.1)
    model = solve(problem, rule=SDCA(), seed=0).model
    with pytest.raises(ValueError, match=r"remembers \(569, 1\).*\(500, 1\) rows"):
        solve(problems.linear(X[:500], y[:500]), rule=SAGA(), start=model)
    broken = dataclasses.replace(model, memory=np.full((569, 1), np.nan))
    with pytest.raises(ValueError, match="memory contains NaN"):
        solve(problem, rule=SDCA(), start=broken)
    for rule in (SAGA(), SDCA()):
        with pytest.raises(ValueError, match=r"row 0 has .* derivative of its loss is between"):
            solve(problems.linear(X, 1 - y, alpha=0.1), rule=rule, start=model)
        with pytest.raises(ValueError, match="labels, weights or the loss changed"):
            weight = np.full(569, 1e-3)
            solve(problems.linear(X, y, alpha=0.1, sample_weight=weight), rule=rule, start=model)
    problem = problems.linear(*diabetes, loss="huber", epsilon=0.1, alpha=0.1)
    model = solve(problems.linear(*diabetes, loss="squared_error", alpha=0.1), rule=SAGA()).model
    with pytest.raises(ValueError, match="loss='huber'"):
        solve(problem, rule=SDCA(), start=model)
    start = Model(np.ones((1, 30)), np.zeros(1))
    with pytest.raises(ValueError, match=r"starts from zero, or from a model of SDCA or SAGA"):
        solve(problems.linear(X, y), rule=SDCA(), start=start)


@pytest.mark.parametrize("name", ["SGDClassifier", "LogisticRegression"])
def test_estimators_keep_no_number_per_row(name):
    import hogshare

    settings = {"learning_rate": "auto"} if name == "SGDClassifier" else {}
    X = np.random.default_rng(0).normal(size=(60, 4))
    model = getattr(hogshare, name)(**settings).fit(X, X[:, 0] > 0)
    assert model.report_.model.memory is None


def test_a_criterion_of_ones_own_for_the_lock_free_solvers():
    from hogshare import asaga, prox_asaga

    X = np.random.default_rng(0).normal(size=(60, 4))
    problem = problems.linear(X, X[:, 0] > 0, alpha=0.1)
    for solver in (asaga, prox_asaga):
        report = solver(problem, n_workers=1, stop=Stop(epochs=300, gradient=1e-6), seed=0)
        assert report.converged and report.n_epochs < 300
