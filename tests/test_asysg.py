"""AsySG as compositions: what a gradient, a message and a step size are, and where runs end up."""

import json

import cases
import numpy as np
import pytest
from sklearn.datasets import load_digits

from hogshare import (
    SGD,
    SSP,
    Master,
    Model,
    StepSize,
    Stop,
    asysg_con,
    asysg_incon,
    problems,
    solve,
    theory,
)

RUNTIMES = ["threads", "processes"]
FALLING = StepSize("invscaling", eta0=1.0, power_t=0.5)


def value(problem, report):
    return problem.objective(report.model.coef, report.model.intercept)


@pytest.fixture(scope="module")
def digits():
    """Even digits against odd ones, and the best objective known."""
    X, y = load_digits(return_X_y=True)
    problem = problems.linear(X / 16.0, y % 2, alpha=1e-3, fit_intercept=False)
    from hogshare import SDCA

    best = solve(problem, rule=SDCA(), stop=Stop(epochs=2000, relative_gap=1e-6), seed=0)
    assert best.converged
    return problem, value(problem, best)


# -- with a master


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("gradients", [1, 3])
def test_an_update_is_the_papers_equation(form, gradients):
    """Means over the rows of a mini-batch, M of them summed, from one and the same past model."""
    problem, X, Y, _ = cases.problem(form, loss="squared_error", penalty=None, task="regression")
    batch, step = 4, 0.05
    report = asysg_con(
        problem, n_workers=1, runtime="caller", batch=batch, gradients=gradients, step=step,
        epochs=1, shuffle=False, seed=0,
    )  # fmt: skip
    w, b = np.zeros(X.shape[1]), 0.0
    decay = 0.01 if form == "csr" else 1.0
    parts = [slice(i, i + batch) for i in range(0, len(X), batch)]
    for k in range(0, len(parts), gradients):
        change, bias = np.zeros_like(w), 0.0
        for part in parts[k : k + gradients]:
            residual = X[part] @ w + b - Y[part, 0]
            # the last mini-batch of an epoch has fewer rows, and counts for less
            change += X[part].T @ residual / batch
            bias += residual.sum() / batch
        w, b = w - step * change, b - step * decay * bias
    np.testing.assert_allclose(report.model.coef[0], w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(report.model.intercept[0], b, rtol=1e-9)
    assert report.staleness[:gradients].sum() == report.staleness.sum() == len(parts)


def test_a_single_row_is_a_message_too(cancer):
    """Where `solve` would take 64 rows one after the other for one."""
    problem = problems.linear(*cancer)
    report = asysg_con(problem, n_workers=2, runtime="threads", step=0.001, epochs=2, seed=0)
    assert sum(worker["blocks"] for worker in report.workers) == 2 * problem.n_rows


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("n_workers", [2, 4])
def test_con_comes_within_a_hundredth_of_the_optimum(digits, runtime, n_workers):
    """A step that falls with the square root of the rows seen."""
    problem, best = digits
    report = asysg_con(
        problem, n_workers=n_workers, runtime=runtime, batch=4, gradients=2,
        step=StepSize("invscaling", eta0=10.0, power_t=0.5), epochs=120, seed=0,
    )  # fmt: skip
    assert value(problem, report) <= 1.01 * best
    assert report.theory["n_updates"] == 120 * problem.n_rows / 8


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("n_workers", [2, 4])
def test_incon_comes_within_a_hundredth_of_the_optimum(digits, runtime, n_workers):
    problem, best = digits
    report = asysg_incon(
        problem, n_workers=n_workers, runtime=runtime, batch=4,
        step=StepSize("invscaling", eta0=2.5, power_t=0.5), epochs=120, seed=0,
    )  # fmt: skip
    assert value(problem, report) <= 1.01 * best


def test_what_else_a_con_run_can_ask_for(cancer):
    problem = problems.linear(*cancer, alpha=0.01)
    common = {"n_workers": 3, "runtime": "threads", "batch": 8, "step": 0.05, "epochs": 20}
    plain = asysg_con(problem, **common, seed=0)
    for more in (
        {"barrier": SSP(1)},
        {"damped": True, "cutoff": 8, "gradients": 2},
        {"stop": Stop(epochs=50, tol=1e-3, patience=3)},
        {"step": FALLING},
        {"start": plain.model},
    ):
        report = asysg_con(problem, **{**common, **more}, seed=0)
        assert value(problem, report) <= 1.25 * value(problem, plain), more
    assert report.settings["plane"] == {"name": "Master", "gradients": 1, "cutoff": None,
                                        "damped": False}  # fmt: skip
    assert report.theory["gap"] < plain.theory["gap"]


def test_con_is_solve_with_the_step_divided(cancer):
    problem = problems.linear(*cancer)
    common = {"n_workers": 1, "runtime": "caller", "seed": 3}
    ours = asysg_con(problem, batch=8, gradients=2, step=0.4, epochs=3, **common)
    direct = solve(
        problem, rule=SGD(batch=8), plane=Master(2), step=StepSize("constant", 0.05),
        stop=Stop(epochs=3), **common,
    )  # fmt: skip
    assert ours.model.coef.tobytes() == direct.model.coef.tobytes()
    falling = asysg_con(problem, batch=8, step=FALLING, epochs=3, **common)
    assert falling.settings["step"] == {"kind": "invscaling", "eta0": 1.0 / 8, "power_t": 0.5}


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_con_reports_its_theory(cancer, form):
    problem = problems.linear(cases.as_form(cancer[0], form), cancer[1])
    report = asysg_con(
        problem, n_workers=2, runtime="threads", batch=5, gradients=2, step=0.02, epochs=4,
        trace=4, seed=0,
    )  # fmt: skip
    found = json.loads(report.to_json())["theory"]
    rows = sum(worker["rows"] for worker in report.workers)
    K, age = rows / 10, report.staleness_max
    start = Model(np.zeros((1, 30)), np.zeros(1))
    noises = [
        theory.gradient_noise(problem, model, 5, on_support=True)
        for model in (start, report.model)
    ]  # fmt: skip
    known = found["gap"], theory.lipschitz(problem), max(noises)
    assert (found["reads"], found["n_updates"], found["n_gradients"]) == ("consistent", K, 2)
    assert found["sigma"] == pytest.approx(max(noises))
    assert found["paper_step"] == pytest.approx(theory.con_step_size(*known, K, 2))
    assert found["least_updates"] == theory.con_least_updates(*known, 2, age)
    assert found["step"] == 0.02
    assert found["step_condition"] == pytest.approx(theory.con_condition(0.02, known[1], 2, age))
    assert found["ergodic_squared_gradient"] > 0.0
    assert asysg_con(problem, n_workers=1, epochs=1, theory=False).theory is None
    assert asysg_con(problem, n_workers=1, epochs=1, step=FALLING).theory["step"] is None


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"step": StepSize("optimal")}, "no factor"),
        ({"step": StepSize("pa1")}, "no factor"),
        ({"batch": 0}, "at least 1 row"),
        ({"batch": 570}, "more than the 569 rows"),
        ({"gradients": 0}, "gradients must be a whole number"),
        ({"cutoff": -1}, "cutoff must be a whole number"),
        ({"step": -1.0}, "eta0 must be positive"),
    ],
)
def test_what_con_cannot_do_is_refused(cancer, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        asysg_con(problems.linear(*cancer), **settings)
