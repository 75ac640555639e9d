"""AsySG as compositions: what a gradient, a message and a step size are, and where runs end up."""

import itertools
import json

import cases
import naive
import numpy as np
import pytest
from sklearn.datasets import load_digits

from hogshare import (
    ASP,
    SDCA,
    SGD,
    SSP,
    Master,
    Model,
    Shared,
    StepSize,
    Stop,
    asysg_con,
    asysg_incon,
    problems,
    solve,
    theory,
)
from hogshare.planes.shared import feature_rarity
from hogshare.rules.steps import optimal_start
from hogshare.simulation import Exponential, Simulator

RUNTIMES = ["threads", "processes"]
FALLING = StepSize("invscaling", eta0=1.0, power_t=0.5)


def value(problem, report):
    return problem.objective(report.model.coef, report.model.intercept)


@pytest.fixture(scope="module")
def digits():
    """Even digits against odd ones, and the best objective known."""
    X, y = load_digits(return_X_y=True)
    problem = problems.linear(X / 16.0, y % 2, alpha=1e-3, fit_intercept=False)
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
        problem, n_workers=n_workers, runtime=runtime, batch=20, gradients=2,
        step=StepSize("invscaling", eta0=15.0, power_t=0.5), epochs=80, seed=0,
    )  # fmt: skip
    assert value(problem, report) <= 1.01 * best
    assert report.theory["n_updates"] == 80 * problem.n_rows / 40


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("n_workers", [2, 4])
def test_incon_comes_within_a_hundredth_of_the_optimum(digits, runtime, n_workers):
    """In the middle one of three runs: what plain adds lose of each other's is up to chance."""
    problem, best = digits
    reports = [
        asysg_incon(
            problem, n_workers=n_workers, runtime=runtime, batch=4,
            step=StepSize("invscaling", eta0=2.5, power_t=0.5), epochs=120, seed=0,
        )
        for _ in range(3)
    ]  # fmt: skip
    assert np.median([value(problem, report) for report in reports]) <= 1.01 * best


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
                                        "damped": False, "fold": "sum"}  # fmt: skip
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
    K, age = rows / 10, len(report.ages) - 1
    start = Model(np.zeros((1, 30)), np.zeros(1))
    noises = [
        theory.gradient_noise(problem, model, 5, on_support=True)
        for model in (start, report.model)
    ]  # fmt: skip
    L = theory.lipschitz(problem)
    known = theory.Constants(gap=found["gap"], L=L, sigma=max(noises), n_gradients=2)
    assert (found["reads"], found["n_updates"], found["n_gradients"]) == ("consistent", K, 2)
    assert found["sigma"] == pytest.approx(max(noises))
    assert found["paper_step"] == pytest.approx(theory.con_step_size(known, K))
    assert found["least_updates"] == theory.con_least_updates(known, age)
    assert found["step"] == 0.02
    assert found["step_condition"] == pytest.approx(theory.con_condition(known, 0.02, age))
    assert found["ergodic_squared_gradient"] > 0.0
    assert asysg_con(problem, n_workers=1, epochs=1, theory=False).theory is None
    assert asysg_con(problem, n_workers=1, epochs=1, step=FALLING).theory["step"] is None


@pytest.mark.parametrize("gradients", [1, 4])
@pytest.mark.parametrize("barrier", [ASP(), SSP(3)], ids=str)
def test_ages_of_workers_and_workers_of_an_age_agree(cancer, gradients, barrier):
    """N workers have N gradients under way, and without a barrier their own besides."""
    problem, n, own = problems.linear(*cancer), 6, int(isinstance(barrier, ASP))
    simulator = Simulator(block_time=Exponential(1.0), write_seconds=0.02)
    report = asysg_con(
        problem, n_workers=n, runtime=simulator, batch=4, gradients=gradients, step=0.02,
        epochs=4, seed=0, barrier=barrier,
    )  # fmt: skip
    found = report.theory
    if own:  # else who waits is less stale
        assert report.staleness_mean == pytest.approx(n - 1 + (gradients - 1) / 2, rel=0.1)
        assert found["age_mean"] == pytest.approx(n / gradients, rel=0.1)
    allowed = found["largest_age"]
    assert allowed >= 1 and f"an age of {allowed:,} by" in found["sentence"]
    assert found["up_to_workers"] == gradients * allowed + 1 - own
    assert f"about {found['up_to_workers']:,} workers" in found["sentence"]
    assert found["speedup_expected"] == (found["age_p95"] <= allowed)


@pytest.mark.parametrize("kind", ["constant", "invscaling", "optimal"])
def test_the_ergodic_norm_goes_by_step_sizes(cancer, kind):
    """Each snapshot's gradient counts by the steps of the rows until the next."""
    problem, n, epochs = problems.linear(*cancer), 569, 4
    step = StepSize(kind, eta0=0.05)
    settings = {"n_workers": 2, "runtime": "threads", "trace": 4, "seed": 0, "epochs": epochs}
    report = asysg_incon(problem, step=step, **settings)
    t = 1.0 + np.arange(n * epochs)
    t0 = optimal_start("log_loss", 0.1, problem.alpha)
    eta = {
        "constant": np.full(len(t), 0.05),
        "invscaling": 0.05 / np.sqrt(t),
        "optimal": 1.0 / (problem.alpha * (t0 + t - 1.0)),
    }[kind]
    rows = np.rint(report.trace.epochs * n).astype(int)
    means = [eta[a:b].mean() for a, b in itertools.pairwise(rows)]
    weights = np.diff(report.trace.epochs) * means
    expected = weights @ report.trace.squared_gradient[:-1] / weights.sum()
    assert report.theory["ergodic_squared_gradient"] == pytest.approx(expected, rel=1e-9)
    if kind == "invscaling":
        con = asysg_con(problem, step=step, batch=1, stop=Stop(epochs=2), **settings)
        assert con.theory["ergodic_squared_gradient"] > 0.0
        whole = con.trace.squared_gradient[:-1].mean()
        assert con.theory["ergodic_squared_gradient"] > whole


def test_the_ergodic_norm_is_left_out_where_the_steps_are_not_known(cancer):
    problem, adaptive = problems.linear(*cancer), StepSize("adaptive", eta0=0.05)
    settings = {"n_workers": 1, "runtime": "caller", "trace": 4, "seed": 0}
    for step, stop, is_known in (
        (adaptive, Stop(epochs=3), True),  # without a criterion they do not fall
        (adaptive, Stop(epochs=3, tol=1e-3), False),
    ):
        report = asysg_incon(problem, step=step, stop=stop, **settings)
        assert ("ergodic_squared_gradient" in report.theory) == is_known


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"step": StepSize("optimal")}, "no factor"),
        ({"step": StepSize("pa1")}, "no factor"),
        ({"batch": 0}, "batch must be a whole number, at least 1"),
        ({"batch": 570}, "more than the 569 training rows"),
        ({"gradients": 0}, "gradients must be a whole number"),
        ({"cutoff": -1}, "cutoff must be a whole number"),
        ({"step": -1.0}, "step must be a positive"),
    ],
)
def test_what_con_cannot_do_is_refused(cancer, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        asysg_con(problems.linear(*cancer), **settings)


# -- without locks, one coordinate at a time


def a_rule(form, **settings):
    """A problem's numbers as kernels see them, and a model that is not zero."""
    problem, X, Y, weight = cases.problem("csr", "float64", **settings)
    rule = SGD(coordinate=form)
    numbers = cases.session(problem, rule=rule, plane=Shared(exchange=None)).rule
    rng = np.random.default_rng(7)
    state = naive.State.zeros(X.shape[1], Y.shape[1])
    state.coef[:] = rng.standard_normal(state.coef.shape)
    state.intercept[:] = rng.standard_normal(state.intercept.shape)
    return problem, X, Y, weight, numbers, state


def expected_change(X, Y, weight, rule, state, batch, rarity):
    """Mean over all coordinates that may be drawn, each by itself; the intercept's is last."""
    columns = naive.Columns.start(Y.shape[1], rule.eta0)
    sizes, etas = naive.batch_sizes(X, Y, weight, rule, batch, 1.0, state, columns)
    places = naive.coordinate_places(X, rule, batch, Y.shape[1])
    mean = np.zeros((X.shape[1] + 1, Y.shape[1]))
    for place in places:
        change = naive.coordinate_change(
            X, rule, batch, sizes, etas[place[1]], place, len(places), state.coef, rarity
        )
        mean[place] += change / len(places)
    whole = np.vstack([X[batch].T @ sizes, rule.intercept_decay * sizes.sum(axis=0)])
    return mean, whole, len(places)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("form", ["uniform", "support", "unbiased"])
def test_the_expected_step_of_a_mini_batch(form, columns):
    """By enumeration: the whole step, its n-th part, or its part by the size of the support."""
    _, X, Y, weight, rule, state = a_rule(form, columns=columns, penalty=None, weighted=True)
    for batch in ([0], [3, 8, 14], [len(X) // 2], list(range(len(X)))):
        mean, whole, n_places = expected_change(X, Y, weight, rule, state, batch, None)
        share = 1.0 if form == "unbiased" else 1.0 / n_places
        np.testing.assert_allclose(mean, share * whole, rtol=1e-12, atol=1e-15)
        if form == "uniform":
            assert n_places == (X.shape[1] + 1) * columns


@pytest.mark.parametrize("form", ["uniform", "support", "unbiased"])
def test_what_is_printed_for_the_support_is_biased(form):
    """Over all rows, with l2: along the objective's gradient, or not."""
    problem, X, Y, weight, rule, state = a_rule(form, alpha=0.3)
    rarity = feature_rarity(problem).astype(float)
    mean = np.zeros((X.shape[1] + 1, 1))
    for r in range(len(X)):
        mean += expected_change(X, Y, weight, rule, state, [r], rarity)[0] / len(X)
    gradient = theory.gradient(problem, Model(state.coef.T, state.intercept))
    step = -rule.eta0 * np.append(gradient.coef, rule.intercept_decay * gradient.intercept)
    cosine = mean[:, 0] @ step / (np.linalg.norm(mean) * np.linalg.norm(step))
    if form == "support":
        assert cosine < 0.995  # an eighth of it stands across
    else:
        n = 1 if form == "unbiased" else X.shape[1] + 1
        np.testing.assert_allclose(n * mean[:, 0], step, rtol=1e-6)  # rarity is a float32


@pytest.mark.parametrize("form", ["uniform", "support", "unbiased"])
def test_a_block_draws_what_has_been_enumerated(form):
    """Of many seeds: each coordinate as often, and each time the change that is its own."""
    _, X, Y, weight = cases.problem("csr", alpha=0.3)
    few = problems.linear(cases.as_form(X[:3], "csr"), Y[:3, 0], alpha=0.3)
    rule = SGD(batch=3, coordinate=form)
    run = {"rule": rule, "plane": Shared(exchange=None), "stop": Stop(epochs=1)}
    start = Model(np.full((1, X.shape[1]), 0.5), np.array([0.25]))
    numbers = cases.session(few, **run).rule
    state = naive.State.zeros(X.shape[1], 1)
    state.coef[:], state.intercept[:] = 0.5, 0.25
    columns = naive.Columns.start(1, numbers.eta0)
    batch = [0, 1, 2]
    args = X[:3], Y[:3], weight[:3], numbers, batch, 1.0, state, columns
    sizes, etas = naive.batch_sizes(*args)
    places = naive.coordinate_places(X[:3], numbers, batch, 1)
    rarity = feature_rarity(few).astype(float)
    known = [
        naive.coordinate_change(
            X[:3], numbers, batch, sizes, etas[0], place, len(places), state.coef, rarity
        )
        for place in places
    ]
    seen = np.zeros(len(places))
    n_draws = 600
    for seed in range(n_draws):
        session = cases.run(cases.session(few, **run, seed=seed, shuffle=False, start=start))
        after = session.model()
        moved = np.append(after.coef[0] - 0.5, after.intercept[0] - 0.25)
        (j,) = np.flatnonzero(moved)
        k = places.index((int(j) if j < X.shape[1] else -1, 0))
        assert moved[j] == pytest.approx(known[k], rel=1e-9)
        seen[k] += 1
    expected = n_draws / len(places)
    assert np.square(seen - expected).sum() / expected < 30.0  # of at most 7 degrees of freedom


def test_a_draw_depends_on_the_block_not_on_the_worker():
    """Two workers in turn, at a step too small to matter, write where one alone does."""
    problem, *_ = cases.problem("csr", penalty=None)
    written = []
    for n_workers in (1, 2):
        session = cases.session(
            problem, rule=SGD(batch=2, coordinate="uniform"), plane=Shared(exchange=None),
            step=StepSize("constant", eta0=1e-9), n_workers=n_workers, stop=Stop(epochs=4),
        )  # fmt: skip
        workers = [session.worker(k) for k in range(n_workers)]
        assert all(worker.join() for worker in workers)
        places = []
        for turn in range(4 * 12):
            before = np.append(session.vector.w, session.vector.intercept)
            workers[turn % n_workers].run_quantum(1)
            after = np.append(session.vector.w, session.vector.intercept)
            places.append(tuple(np.flatnonzero(after != before)))
        assert len(set(places)) > 4
        written.append(places)
    assert written[0] == written[1]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("form", ["uniform", "unbiased"])
def test_one_coordinate_at_a_time_comes_down_too(cancer, runtime, form):
    problem = problems.linear(*cancer, alpha=0.01)
    best = solve(problem, rule=SDCA(), stop=Stop(epochs=500, relative_gap=1e-4), seed=0)
    step = {"uniform": 3.0, "unbiased": 0.1}[form]
    report = asysg_incon(
        problem, n_workers=2, runtime=runtime, batch=2, coordinate=form,
        step=StepSize("invscaling", eta0=step, power_t=0.5), epochs=300, seed=0,
    )  # fmt: skip
    assert value(problem, report) <= 1.05 * value(problem, best)
    pushes = sum(worker["pushes"] for worker in report.workers)
    assert pushes == report.staleness.sum() == 300 * -(-569 // 2)
    assert report.settings["rule"]["coordinate"] == form


def test_theory_of_writes_of_one_coordinate(cancer):
    """A write is one iteration of the analysis, and an age is in writes."""
    problem = problems.linear(*cancer)
    common = {"n_workers": 2, "runtime": "threads", "batch": 2, "epochs": 4, "seed": 0}
    report = asysg_incon(problem, coordinate="uniform", step=1e-4, **common)
    found, n = report.theory, 31
    K, age = 4 * 569 / 2, report.staleness_max
    names = ("gap", "L", "L_max", "sigma")
    constants = {name: found[name] for name in names}
    known = theory.CoordinateConstants(**constants, n_gradients=2, n_coordinates=n)
    assert found["n_updates"] == K
    assert found["paper_step"] == pytest.approx(theory.incon_step_size(known, K))
    assert found["least_updates"] == theory.incon_least_writes(known, age)
    condition = theory.incon_condition(known, 1e-4, age)
    assert found["step_condition"] == pytest.approx(condition)
    whole = theory.gradient_noise(problem, report.model)
    assert found["sigma"] >= whole  # the whole penalty, at the noisier end
    for form in ("support", "unbiased"):
        report = asysg_incon(problem, coordinate=form, step=1e-4, **common)
        assert list(report.theory) == ["sentence"]
        assert "(20), is uncertain" in report.theory["sentence"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"rule": SGD(coordinate="uniform")}, r"needs plane=Shared\(exchange=None\)"),
        ({"rule": SGD(coordinate="uniform"), "plane": Master()}, r"needs plane=Shared"),
        ({"step": StepSize("pa1")}, "takes a coordinate of a gradient"),
        ({"block": 64}, "leave block out"),
    ],
)
def test_where_one_coordinate_has_no_meaning(cancer, settings, sentence):
    run = {"rule": SGD(coordinate="support"), "plane": Shared(exchange=None)}
    if "rule" in settings and "plane" not in settings:
        run["plane"] = Shared()
    with pytest.raises(ValueError, match=sentence):
        solve(problems.linear(*cancer, loss="hinge"), **(run | settings))


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="coordinate must be one of"):
        SGD(coordinate="random")
