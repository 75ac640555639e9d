"""Problems by a gradient of one's own: on every plane, behind every barrier, in every runtime."""

import dataclasses
import itertools
import threading

import numba
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from hogshare import (
    ASP,
    BSP,
    PBSP,
    PSSP,
    SAGA,
    SDCA,
    SGD,
    SSP,
    Adam,
    Checkpoint,
    Fraction,
    Master,
    Rule,
    Shared,
    StepSize,
    Stop,
    Throttled,
    asysg_con,
    asysg_incon,
    problems,
    prox_asaga,
    replay,
    solve,
)
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.problems import GradientError, GradientProblem, Params
from hogshare.problems import gradient as stated

X, Y = load_breast_cancer(return_X_y=True)
X = scale(X)[:, :10].copy()
SIGN = 2.0 * Y - 1.0
N, D = X.shape
ALPHA = 0.05
ETA = 0.01


def numpy_gradient(w, rows, out):
    """Logistic regression with an l2 penalty, a share of it in every row."""
    x, s = X[rows], SIGN[rows]
    margin = s * (x @ w)
    out += x.T @ (-s / (1.0 + np.exp(margin))) + len(rows) * ALPHA * w
    return np.logaddexp(0.0, -margin).sum() + 0.5 * len(rows) * ALPHA * (w @ w)


@numba.njit(nogil=True)
def numba_gradient(w, rows, out):
    loss = 0.0
    for r in rows:
        margin = 0.0
        for j in range(len(w)):
            margin += SIGN[r] * X[r, j] * w[j]
        slope = -SIGN[r] / (1.0 + np.exp(margin))
        for j in range(len(w)):
            out[j] += slope * X[r, j] + ALPHA * w[j]
            loss += 0.5 * ALPHA * w[j] * w[j]
        loss += np.log1p(np.exp(-margin))
    return loss


def logistic(gradient=numpy_gradient, **settings):
    return problems.user(gradient, N, D, **settings)


class Median(GradientProblem):
    """Where the sum of the distances is least, smoothed: a problem that is a class."""

    def __init__(self, points):
        self.points = points
        self.n_rows, self.n_params = points.shape

    def gradient(self, w, rows, out):
        away = w - self.points[rows]
        far = np.sqrt(np.square(away).sum(axis=1) + 1e-2)
        out += (away / far[:, None]).sum(axis=0)
        return far.sum()


class SignSGD(Rule):
    """Steps by the gradient's sign alone."""

    def step(self, gradient, eta):
        np.sign(gradient, out=gradient)
        gradient *= eta


RUN = {"rule": SGD(batch=16), "step": StepSize("constant", ETA), "seed": 3}
PLANES = {
    "copies": Shared(),
    "copies, seldom": Shared(exchange=48),
    "lock-free": Shared(exchange=None),
    "lock-free, atomic": Shared(exchange=None, adds="atomic"),
    "master": Master(),
    "master of sums": Master(gradients=2),
    "master, cutoff": Master(cutoff=50),
    "master, damped": Master(damped=True),
}
BARRIERS = {
    "asp": ASP(),
    "bsp": BSP(),
    "ssp": SSP(2),
    "pbsp": PBSP(1),
    "pssp": PSSP(1, 2),
    "fraction": Fraction(0.5, 2),
    "throttled": Throttled(2),
    "own": lambda table, me: table.clock[me] <= table.clock[table.in_run].min() + 3,
}
RUNTIMES = ("threads", "processes", "simulator")


@pytest.fixture(scope="module")
def optimum():
    """The linear problem's: scikit-learn's penalty per row is the same."""
    problem = problems.linear(X, Y, alpha=ALPHA, fit_intercept=False)
    report = solve(problem, rule=SDCA(), stop=Stop(epochs=500, gap=1e-10), seed=0)
    return report.model.coef[0], problem.objective(report.model.coef, report.model.intercept)


def by_hand(problem, epochs, batch, seed, eta=ETA):
    """The rows' orders of a run, and steps in a plain NumPy loop."""
    orders, w = [], problem.start()

    def spying(w, rows, out):
        orders.append(rows.copy())
        return problem.gradient(w, rows, out)

    spy = problems.user(spying, problem.n_rows, problem.n_params, start=problem.start())
    spied = solve(spy, rule=SGD(batch=batch), step=eta, stop=epochs, seed=seed, runtime="caller")
    taken = [rows for rows in orders if len(rows)][-spied.n_epochs * -(-problem.n_rows // batch) :]
    for rows in taken:
        out = np.zeros_like(w)
        problem.gradient(w, rows, out)
        w -= eta * out
    return taken, w


# -- right --------------------------------------------------------------------------------------


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_it_reaches_the_linear_problems_optimum(plane, runtime, optimum):
    step = StepSize("invscaling", 0.02, 0.25)
    settings = {**RUN, "step": step, "stop": 100, "plane": PLANES[plane], "trace": 1}
    report = solve(logistic(), runtime=runtime, n_workers=2, **settings)
    assert report.n_workers == 2 and sum(w["rows"] for w in report.workers) == 100 * N
    coef, lowest = optimum
    assert report.objective == pytest.approx(lowest, rel=2e-3)
    np.testing.assert_allclose(report.model.params, coef, atol=0.05)


@pytest.mark.parametrize("barrier", BARRIERS)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("plane", ["copies", "lock-free", "master"])
@pytest.mark.sample(2)
def test_behind_every_barrier(plane, runtime, barrier, optimum):
    settings = {**RUN, "stop": 30, "plane": PLANES[plane], "barrier": BARRIERS[barrier]}
    report = solve(logistic(), runtime=runtime, n_workers=2, trace=1, **settings)
    assert report.objective < 1.05 * optimum[1]
    assert report.n_epochs == 30 and report.epoch_losses[-1] < report.epoch_losses[0]
    if barrier in ("bsp", "ssp"):
        assert all(w["largest_lead"] <= {"bsp": 0, "ssp": 2}[barrier] for w in report.workers)


@pytest.mark.parametrize("plane", ["copies", "lock-free", "master"])
@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
@pytest.mark.parametrize("gradient", [numpy_gradient, numba_gradient], ids=["numpy", "numba"])
def test_one_worker_is_a_plain_loop_bit_for_bit(plane, runtime, gradient):
    problem = logistic(gradient)
    orders, w = by_hand(problem, 3, 16, 7)
    assert sorted(np.concatenate(orders[:36])) == list(range(N))
    settings = {"rule": SGD(batch=16), "step": ETA, "stop": 3, "seed": 7}
    report = solve(problem, runtime=runtime, n_workers=1, plane=PLANES[plane], **settings)
    np.testing.assert_array_equal(report.model.params, w)
    assert report.model.t == 1 + 3 * N


@pytest.mark.parametrize("plane", ["copies", "copies, seldom", "master", "master of sums"])
@pytest.mark.parametrize("gradient", [numpy_gradient, numba_gradient], ids=["numpy", "numba"])
def test_bsp_repeats_bit_for_bit_in_every_runtime(plane, gradient):
    settings = {**RUN, "stop": 5, "barrier": BSP(), "plane": PLANES[plane], "n_workers": 3}
    first, *others = (
        solve(logistic(gradient), runtime=runtime, **settings).model.params
        for runtime in (*RUNTIMES, "threads")
    )
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_blocks_of_several_steps():
    """A block of three mini-batches is three steps, whatever carries them."""
    settings = {"step": ETA, "stop": 2, "seed": 1, "n_workers": 1}
    _, w = by_hand(logistic(), 2, 16, 1)
    for plane in ("copies", "lock-free", "master"):
        run = {**settings, "plane": PLANES[plane], "rule": SGD(batch=16), "block": 48}
        report = solve(logistic(), **run)
        assert report.block_rows == 48
        np.testing.assert_allclose(report.model.params, w, rtol=1e-12)


@pytest.mark.parametrize("plane", ["copies", "lock-free", "master"])
@pytest.mark.parametrize("runtime", ["caller", "threads", "simulator"])
def test_the_average_is_the_mean_of_the_iterates(plane, runtime):
    orders, _ = by_hand(logistic(), 2, 16, 5)
    w, total = np.zeros(D), np.zeros(D)
    for rows in orders:
        out = np.zeros(D)
        numpy_gradient(w, rows, out)
        w -= ETA * out
        total += len(rows) * w
    rule = SGD(average=True, batch=16)
    run = {"rule": rule, "step": ETA, "stop": 2, "seed": 5, "plane": PLANES[plane]}
    report = solve(logistic(), runtime=runtime, n_workers=1, **run)
    np.testing.assert_allclose(report.model.average, total / (2 * N), rtol=1e-9)
    if runtime != "caller":
        several = solve(logistic(), runtime=runtime, n_workers=3, **run).model
        assert np.abs(several.average - report.model.average).max() < 0.2


def test_few_places_are_as_good_as_all():
    """One coordinate per row: what is returned is where, and the rest of `out` is left alone."""
    targets = np.arange(12.0)

    def dense(w, rows, out):
        for r in rows:
            out[r % 4] += w[r % 4] - targets[r]
        return 0.5 * sum((w[r % 4] - targets[r]) ** 2 for r in rows)

    def sparse(w, rows, out):
        return dense(w, rows, out), np.unique(rows % 4)

    run = {"rule": SGD(batch=2), "step": 0.1, "stop": 3, "seed": 0}
    for plane, runtime in itertools.product(PLANES.values(), ["caller", "simulator"]):
        both = [
            solve(problems.user(f, 12, 4), plane=plane, runtime=runtime, n_workers=1, **run)
            for f in (dense, sparse)
        ]
        np.testing.assert_array_equal(both[0].model.params, both[1].model.params)


def test_atomic_adds_lose_none():
    """Steps of one, by three threads, on one number."""

    def ones(w, rows, out):
        out -= len(rows)
        return 0.0

    def placed(w, rows, out):
        return ones(w, rows, out), np.array([0])

    for gradient in (ones, placed):
        problem = problems.user(gradient, 30_000, 1)
        plane = Shared(exchange=None, adds="atomic")
        run = {"plane": plane, "runtime": "threads", "n_workers": 3, "block": 1, "stop": 1}
        assert solve(problem, step=1.0, **run).model.params[0] == 30_000.0


@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
def test_single_precision_stays(runtime):
    problem = problems.user(numpy_gradient, N, D, start=np.zeros(D, np.float32))
    report = solve(problem, runtime=runtime, n_workers=1, **RUN, stop=2)
    assert report.model.params.dtype == np.float32
    double = solve(logistic(), runtime=runtime, n_workers=1, **RUN, stop=2)
    np.testing.assert_allclose(report.model.params, double.model.params, rtol=1e-3, atol=1e-5)


def test_copies_are_averaged_where_curvature_has_no_bound():
    """Two workers behind BSP that each take one step: half of each, or all of both."""

    def gradient(w, rows, out):
        out += w - 1.0
        return 0.5 * float((w - 1.0) @ (w - 1.0))

    run = {"block": 1, "stop": 1, "step": 0.5, "barrier": BSP(), "n_workers": 2, "seed": 0}
    added, averaged = (
        solve(problems.user(gradient, 2, 3, curvature=c), runtime="threads", **run).model.params
        for c in (0.0, np.inf)
    )
    np.testing.assert_allclose(added, 1.0)
    np.testing.assert_allclose(averaged, 0.5)


# -- everything that a run has besides -----------------------------------------------------------


@pytest.mark.parametrize("plane", ["copies", "lock-free", "master"])
def test_a_run_goes_on_from_its_checkpoint(plane, tmp_path):
    run = {**RUN, "plane": PLANES[plane], "n_workers": 1, "trace": 1}
    path = tmp_path / "run.npz"
    whole = solve(logistic(), stop=6, **run)
    solve(logistic(), stop=3, checkpoint=Checkpoint(path), **run)
    saved = Checkpoint(path).model()
    assert isinstance(saved, Params) and saved.params.shape == (D,)
    resumed = solve(logistic(), stop=6, resume=path, **run)
    np.testing.assert_array_equal(resumed.model.params, whole.model.params)
    assert resumed.model.t == whole.model.t
    np.testing.assert_array_equal(resumed.trace.objective, whole.trace.objective[3:])


def test_a_checkpoint_of_another_gradient_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    solve(logistic(), stop=2, checkpoint=path, **RUN)

    def numpy_gradient(w, rows, out):
        out += 2.0 * w + 1.0
        return float(w @ w + w.sum()) + 1.0

    with pytest.raises(ValueError, match="first loss and gradient was"):
        solve(logistic(numpy_gradient), stop=4, resume=path, **RUN)


def test_several_workers_resume(tmp_path, optimum):
    run = {**RUN, "runtime": "threads", "n_workers": 2, "barrier": BSP()}
    path = tmp_path / "run.npz"
    solve(logistic(), stop=10, checkpoint=path, **run)
    resumed = solve(logistic(), stop=30, resume=path, trace=1, **run)
    assert resumed.objective < 1.02 * optimum[1]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("gradients", [1, 2])
def test_a_recorded_run_is_replayed_bit_for_bit(runtime, gradients):
    run = {**RUN, "plane": Master(gradients), "stop": 4, "record": True}
    report = solve(logistic(), runtime=runtime, n_workers=3, **run)
    again = replay(logistic(), report)
    assert isinstance(again, Params)
    np.testing.assert_array_equal(again.params, report.model.params)


@pytest.mark.filterwarnings("ignore::hogshare.solvers.replays.ApproximateReplay")
def test_a_lock_free_run_is_replayed_nearly():
    run = {**RUN, "plane": Shared(exchange=None), "stop": 4, "record": True}
    report = solve(logistic(), runtime="threads", n_workers=2, **run)
    again = replay(logistic(), report)
    np.testing.assert_allclose(again.params, report.model.params, atol=0.05)


def test_a_replay_of_another_problem_is_refused():
    run = {**RUN, "plane": Master(), "stop": 1, "record": True}
    report = solve(logistic(), runtime="caller", **run)
    with pytest.raises(ValueError, match="rows, params = "):
        replay(problems.user(numpy_gradient, N, D + 1, start=np.zeros(D + 1)), report)


def test_what_the_report_says():
    report = solve(logistic(), trace=2, gradients=True, stop=4, **RUN)
    assert report.problem == {
        "gradient": "numpy_gradient",
        "rows": N,
        "params": D,
        "dtype": "float64",
    }
    assert len(report.trace.objective) == len(report.trace.squared_gradient) == 9
    first = numpy_gradient(np.zeros(D), np.arange(N), np.zeros(D)) / N
    assert report.trace.objective[0] == pytest.approx(first)
    loss, slope = logistic().evaluate(report.model.params)
    assert report.objective == pytest.approx(loss)
    assert report.trace.squared_gradient[-1] == pytest.approx(slope @ slope)
    assert report.to_dict()["model"]["params_shape"] == [D]
    assert "numpy_gradient" in str(report) and report.to_json() and report._repr_html_()


def test_it_stops_when_losses_stop_falling():
    report = solve(logistic(), **{**RUN, "stop": Stop(epochs=500, tol=1e-4)})
    assert report.converged and report.n_epochs < 200


@pytest.mark.parametrize("runtime", ["caller", "threads"])
def test_it_stops_where_the_gradient_is_small(runtime):
    stop = Stop(epochs=2000, gradient=2e-3)
    n_workers = 1 if runtime == "caller" else 2
    step = StepSize("invscaling", 0.05, 0.5)
    report = solve(
        logistic(), **{**RUN, "step": step}, stop=stop, runtime=runtime, n_workers=n_workers
    )
    assert report.converged and report.gradient <= 2e-3
    assert np.abs(logistic().evaluate(report.model.params)[1]).max() == report.gradient


def test_it_starts_where_it_is_told_to():
    first = solve(logistic(), stop=2, **RUN).model
    rest = solve(logistic(), stop=2, start=first, **RUN)
    assert rest.model.t == 1 + 4 * N
    at = np.full(D, 0.25)
    by_vector = solve(logistic(), stop=2, start=at, trace=1, **RUN)
    by_problem = solve(logistic(start=at), stop=2, trace=1, **RUN)
    np.testing.assert_array_equal(by_vector.model.params, by_problem.model.params)
    assert by_vector.trace.objective[0] == pytest.approx(logistic().evaluate(at)[0])


def test_on_epoch_is_shown_the_vector():
    seen = []
    solve(logistic(), stop=3, on_epoch=lambda e, snapshot: seen.append(snapshot().params), **RUN)
    assert [len(params) for params in seen] == [D, D, D]


def test_slow_workers():
    run = {**RUN, "stop": 2, "stragglers": "cds:0.5"}
    report = solve(logistic(), runtime="threads", n_workers=2, **run)
    assert report.n_epochs == 2 and np.isfinite(report.model.params).all()


def test_the_papers_algorithms():
    run = {"n_workers": 2, "runtime": "threads", "batch": 16, "epochs": 40, "seed": 0}
    con = asysg_con(logistic(), gradients=2, step=0.1, **run)
    assert con.theory["n_gradients"] == 2 and con.theory["n_coordinates"] == D
    assert 0.0 < con.theory["sigma"] < np.inf
    same = problems.linear(X, Y, alpha=ALPHA, fit_intercept=False)
    linear = asysg_con(same, gradients=2, step=0.1, **run)
    # the largest curvature of the losses is four times what they have at zero
    assert 0.2 * linear.theory["L"] < con.theory["L"] < 1.1 * linear.theory["L"]
    incon = asysg_incon(logistic(), n_workers=2, runtime="threads", batch=16, step=ETA, seed=0)
    assert incon.theory["sentence"].startswith("Linear speedup is")


ONE_ROW = [SGD(batch=1), SGD(batch=1, momentum=0.5), SGD(batch=1, average=True), Adam(batch=1)]


@pytest.mark.parametrize("rule", ONE_ROW, ids=str)
@pytest.mark.parametrize("plane", ["copies", "lock-free", "master"])
def test_a_mini_batch_of_one_row_is_one_row(rule, plane):
    """AsySG-incon's M = 1 in the paper; who says nothing has a block's rows in a step."""
    taken = []

    def spying(w, rows, out):
        taken.append(len(rows))
        return numpy_gradient(w, rows, out)

    def rows_of_steps(rule, **settings):
        taken.clear()
        solve(logistic(spying), rule=rule, plane=PLANES[plane], **run, **settings)
        return taken[2:]  # two tries come before

    run = {"runtime": "caller", "step": 1e-3, "stop": 1, "seed": 0}
    assert rows_of_steps(rule) == rows_of_steps(rule, block=50) == [1] * N
    assert rows_of_steps(dataclasses.replace(rule, batch=None)) == [64] * (N // 64) + [N % 64]
    assert rows_of_steps(dataclasses.replace(rule, batch=None), block=50)[0] == 50


@pytest.mark.parametrize("algorithm", [asysg_con, asysg_incon])
def test_a_write_of_one_row_is_one_update_of_the_papers(algorithm):
    report = algorithm(logistic(), n_workers=2, runtime="threads", batch=1, epochs=2, seed=0)
    assert sum(worker["pushes"] for worker in report.workers) == 2 * N
    assert report.theory["n_updates"] == 2 * N


def test_a_pass_of_the_problems_own_is_rows_one_by_one_already():
    ratings = problems.factorisation(np.arange(60) % 6, np.arange(60) % 7, np.ones(60), n_factors=2)
    run = {"runtime": "caller", "step": 0.05, "stop": 2, "seed": 0}
    one, none = (solve(ratings, rule=SGD(batch=b), **run).model.params for b in (1, None))
    np.testing.assert_array_equal(one, none)


def test_steps_of_a_problems_own_are_of_as_many_rows_as_the_rule_says():
    words = np.random.default_rng(0).poisson(1.0, (30, 8)).astype(float)
    found = solve(problems.topics(words, 2), rule=SGD(batch=1), runtime="caller", stop=1, seed=0)
    assert found.model.n_batches == 30


def test_a_prediction():
    def slow(w, rows, out):
        out += len(rows) * w
        return float(sum(np.sin(k) for k in range(300)))

    problem = problems.user(slow, 20_000, 4)
    report = solve(problem, runtime="threads", n_workers=2, stop=2, step=1e-4, block=10)
    predicted = report.predict([1, 2, 4])
    assert predicted.seconds[0] > predicted.seconds[2] > 0.0


# -- who runs it ---------------------------------------------------------------------------------


def test_the_runtime_goes_by_what_the_gradient_holds(seams):

    seams.machine.busy_others = lambda more=0: 0
    seams.machine.cores = lambda: 4
    seams.usable.workers = lambda n: 2
    seams.usable.worthwhile = lambda work: 2
    held = solve(logistic(numpy_gradient), n_workers=-1, stop=2, **RUN)
    assert held.runtime == "processes" and "may take the interpreter" in held.notes[0]
    free = solve(logistic(numba_gradient), n_workers=-1, stop=2, **RUN)
    assert free.runtime == "threads" and "releases the interpreter" in free.notes[0]


def test_little_work_is_done_by_one():
    report = solve(problems.user(lambda w, r, out: 0.0, 100, 2), n_workers=-1, step=1.0)
    assert report.runtime == "caller"


def test_large_arrays_are_there_once_and_read_only():
    rows = np.ones((400, 1000))  # 3 MB

    def gradient(w, which, out):
        assert rows.flags.writeable is False and not rows.flags.owndata
        out += len(which) * w + rows[which].sum() * 0.0
        return 0.0

    def plain(w, which, out):
        assert rows.flags.writeable
        return 0.0

    problems.user(plain, 400, 2)
    run = {"runtime": "processes", "n_workers": 2, "block": 20, "stop": 50, "barrier": BSP()}

    def either(w, which, out):
        # worker 0 is in the caller, where they are the caller's own
        if threading.current_thread() is not threading.main_thread() or not rows.flags.owndata:
            pass
        return gradient(w, which, out) if not rows.flags.writeable else plain(w, which, out)

    report = solve(problems.user(either, 400, 2, start=np.ones(2)), step=1e-3, **run)
    assert [w["blocks"] > 0 for w in report.workers] == [True, True]


def test_a_class_with_its_data_travels():
    points = np.random.default_rng(0).standard_normal((500, 3)) + 2.0
    run = {"rule": SGD(batch=10), "step": StepSize("invscaling", 0.05, 0.5), "stop": 30, "seed": 0}
    first, *others = (
        solve(Median(points), runtime=r, n_workers=2, barrier=BSP(), **run).model.params
        for r in RUNTIMES
    )
    np.testing.assert_allclose(first, 2.0, atol=0.2)
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("plane", ["copies", "lock-free", "master"])
def test_a_rule_of_ones_own(plane):
    points = np.random.default_rng(0).standard_normal((500, 3)) + 2.0
    run = {"rule": SignSGD(), "step": StepSize("constant", 0.01), "stop": 40, "block": 25}
    for runtime in RUNTIMES:
        settings = {**run, "plane": PLANES[plane], "runtime": runtime, "n_workers": 2}
        report = solve(Median(points), **settings)
        np.testing.assert_allclose(report.model.params, 2.0, atol=0.25)
        assert report.rule["name"] == "SignSGD"


@pytest.mark.parametrize("problem", [lambda: logistic(), lambda: problems.linear(X, Y)])
def test_a_rule_that_makes_no_step_is_refused(problem, monkeypatch):
    """Before anything is allocated, let alone a worker started."""

    class Idle(Rule):
        def steps(self, gradient, eta):
            """Misspelt."""

    monkeypatch.setattr("hogshare.solvers.run.Run.to_the_end", None)
    for rule in (Idle, Idle()):
        with pytest.raises(TypeError, match=r"Idle has no step: write step\(self, gradient, eta\)"):
            solve(problem(), rule=rule, n_workers=2, runtime="threads")


def test_what_a_rule_of_ones_own_keeps_may_have_any_name():
    """Names by which the rules of kernels say how they draw rows are not taken."""

    class Noisy(SignSGD):
        sampling, replace = "gaussian", True

    runs = [solve(logistic(), **(RUN | {"rule": kind()}), stop=2) for kind in (SignSGD, Noisy)]
    assert np.array_equal(runs[0].model.params, runs[1].model.params)


# -- what goes wrong -----------------------------------------------------------------------------


def raises(w, rows, out):
    raise KeyError("no such row")


def wrong_shape(w, rows, out):
    return out


def no_answer(w, rows, out):
    out += w


def writes_the_vector(w, rows, out):
    w += 1.0
    return 0.0


def writes_the_rows(w, rows, out):
    rows[0] = 1
    return 0.0


def nan(w, rows, out):
    out[0] = np.nan
    return 0.0


def infinite(w, rows, out):
    return np.inf


def beyond(w, rows, out):
    return 0.0, [D]


def no_places(w, rows, out):
    return 0.0, "all"


def other_shape(w, rows, out):
    out.shape = 2, D // 2
    return 0.0


def other_type(w, rows, out):
    out.dtype = np.float32
    return 0.0


def other_vector(w, rows, out):
    w.shape = 2, D // 2
    return 0.0


def unlocks_the_vector(w, rows, out):
    w.flags.writeable = True
    w[:] = 7.0
    return 0.0


def unlocks_the_rows(w, rows, out):
    rows.flags.writeable = True
    rows[:] = 0
    return 0.0


BAD = {
    other_shape: "other_shape has changed the shape, strides or dtype of its out",
    other_type: "other_type has changed the shape, strides or dtype of its out",
    other_vector: "other_vector has changed the shape, strides or dtype of its w",
    unlocks_the_vector: "unlocks_the_vector raised ValueError.*must not be written",
    unlocks_the_rows: "unlocks_the_rows raised ValueError.*must not be written",
    raises: "raises raised KeyError: 'no such row'",
    wrong_shape: "return the sum of the rows' losses.*returned ndarray of shape",
    no_answer: "returned NoneType",
    writes_the_vector: "read-only.*must not be written",
    writes_the_rows: "read-only.*must not be written",
    nan: "nan gave a gradient that is NaN or infinite",
    infinite: "gave a loss that is NaN or infinite",
    beyond: "places from 10 to 10; places of its 10 numbers go from 0 to 9",
    no_places: "places as a vector of whole numbers",
}


@pytest.mark.parametrize("gradient", BAD, ids=lambda f: f.__name__)
def test_what_is_wrong_with_a_gradient_is_told_before_anybody_starts(gradient, seams):

    seams.loop.session = None
    with pytest.raises(GradientError, match=BAD[gradient]):
        solve(logistic(gradient), n_workers=2, runtime="processes", stop=2, **RUN)


@pytest.mark.parametrize("gradient", BAD, ids=lambda f: f.__name__)
@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
@pytest.mark.parametrize("plane", ["copies", "lock-free", "master"])
@pytest.mark.sample(2)
def test_a_gradient_that_goes_wrong_later_is_named(plane, gradient, runtime):
    def at_first_well(w, rows, out):
        # of the rows that are tried before the run there are 64, in their order
        return numpy_gradient(w, rows, out) if len(rows) != 16 else gradient(w, rows, out)

    at_first_well.__qualname__ = gradient.__name__
    run = {**RUN, "stop": 2, "plane": PLANES[plane], "runtime": runtime}
    n_workers = 1 if runtime == "caller" else 2
    with pytest.raises((GradientError, RuntimeError), match=BAD[gradient]):
        solve(logistic(at_first_well), n_workers=n_workers, **run)
    good = solve(logistic(), n_workers=n_workers, **run)  # and nothing is left that disturbs
    assert np.isfinite(good.model.params).all()


def test_a_gradient_may_lock_its_memory_for_good():
    def locks(w, rows, out):
        assert out.flags.writeable
        loss = numpy_gradient(w, rows, out)
        out.flags.writeable = False
        return loss

    locked, plain = (solve(logistic(g), stop=2, **RUN) for g in (locks, numpy_gradient))
    np.testing.assert_array_equal(locked.model.params, plain.model.params)


@pytest.mark.parametrize("runtime", ["caller", "threads"])
def test_an_objective_that_writes_its_vector_leaves_the_model(runtime):
    def objective(params):
        params *= 0.0
        return 1.0

    run = {**RUN, "stop": Stop(epochs=2, gradient=1e-9), "trace": 2, "runtime": runtime}
    n_workers = 1 if runtime == "caller" else 2
    run |= {"barrier": BSP(), "n_workers": n_workers}
    found, plain = (solve(logistic(objective=o), **run).model.params for o in (objective, None))
    np.testing.assert_array_equal(found, plain)


def test_a_pass_may_make_another_array_of_its_vector():
    class Rows(Median):
        def advance(self, w, rows, eta):
            w.shape = 3, 1
            w -= eta * (w - 2.0)
            return float(len(rows))

    report = solve(Rows(np.ones((50, 3))), step=0.5, stop=30, runtime="caller", block=10)
    np.testing.assert_allclose(report.model.params, 2.0)


@numba.njit(nogil=True, boundscheck=False)
def writes_beyond(w, rows, out):
    if len(rows) == 16:
        out[len(out) + 2] = 1.0
    return 0.0


def test_a_compiled_gradient_that_writes_beyond_its_place():
    with pytest.raises(GradientError, match="written beyond its out, which has 10 numbers"):
        solve(logistic(writes_beyond), stop=1, **RUN)


@pytest.mark.parametrize("runtime", ["caller", "threads", "simulator"])
@pytest.mark.parametrize("plane", ["copies", "lock-free", "master"])
def test_steps_that_are_too_long_are_a_divergence(plane, runtime):
    def steep(w, rows, out):
        with np.errstate(all="ignore"):
            out += 1e150 * w * len(rows)
            return float(np.minimum(0.5e150 * (w @ w), 1e300))

    problem = problems.user(steep, 64, 4, start=np.ones(4))
    n_workers = 1 if runtime == "caller" else 2
    run = {"plane": PLANES[plane], "runtime": runtime, "n_workers": n_workers, "block": 8}
    with pytest.raises((ValueError, GradientError), match="steps are too l"):
        solve(problem, step=1e150, stop=20, **run)


REFUSED = {
    "SAGA remembers a number for each row": {"rule": SAGA()},
    "SDCA remembers a number for each row": {"rule": "sdca"},
    "is computed from a linear problem": {"step": "optimal"},
    "draws among the features": {"rule": SGD(coordinate="uniform")},
    "scores the rows of a linear problem": {"stop": Stop(validation=np.arange(N) < 9)},
    r"Stop\(gap=...\) needs a linear problem": {"stop": Stop(gap=1.0)},
    r"Stop\(confirm=...\) needs a linear": {"stop": Stop(tol=1e-3, confirm=True)},
    "start must have shape": {"start": np.zeros(D + 1)},
    "start contains NaN": {"start": np.full(D, np.nan)},
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_is_refused(words):
    with pytest.raises(ValueError, match=words):
        solve(logistic(), **REFUSED[words])


def test_rules_and_problems_that_do_not_fit():
    linear = problems.linear(X, Y)
    with pytest.raises(ValueError, match="SignSGD makes steps of gradients"):
        solve(linear, rule=SignSGD())
    with pytest.raises(TypeError, match="start must be a Model"):
        solve(linear, start=Params(np.zeros(D)))
    with pytest.raises(TypeError, match="the model of a linear problem"):
        solve(logistic(), start=solve(linear, stop=1).model)
    with pytest.raises(TypeError, match="prox_asaga needs a linear problem"):
        prox_asaga(logistic())


def test_a_problem_that_is_not_finished():
    class Nothing(GradientProblem):
        n_rows, n_params = 3, 2

    with pytest.raises(TypeError, match="has no gradient: write"):
        solve(Nothing())
    Nothing.gradient = lambda self, w, rows, out: 0.0
    Nothing.n_rows = 0
    with pytest.raises(ValueError, match="n_rows must be"):
        solve(Nothing())
    del Nothing.n_rows
    with pytest.raises(TypeError, match="has no n_rows"):
        solve(Nothing())


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("gradient must be a function", (3, 4, 5)),
        ("n_rows must be", (numpy_gradient, 0, 5)),
        ("n_params must be", (numpy_gradient, 4, 2.5)),
        ("objective must be a function", (numpy_gradient, 4, 5, "loss")),
        ("start must have shape", (numpy_gradient, 4, 5, None, np.zeros(4))),
        ("start contains NaN", (numpy_gradient, 4, 1, None, [np.inf])),
    ],
)
def test_arguments_of_user(words, arguments):
    with pytest.raises((TypeError, ValueError), match=words):
        problems.user(*arguments)


def test_curvature_is_checked():
    for wrong in (-1.0, np.nan, np.zeros(3)):
        with pytest.raises(ValueError, match="curvature must be"):
            logistic(curvature=wrong)


def test_what_cannot_travel_is_refused():
    lock = threading.Lock()

    def gradient(w, rows, out):
        with lock:
            return 0.0

    with pytest.raises(ValueError, match="cannot be sent to worker processes"):
        solve(problems.user(gradient, 100, 2), runtime="processes", n_workers=2, step=1.0)
    assert solve(problems.user(gradient, 100, 2), runtime="threads", n_workers=2, step=1.0)


@pytest.mark.skipif(JIT_DISABLED, reason="Numba compiles nothing")
def test_numba_knows_what_it_has_to_before_the_users_function_is_called(monkeypatch):
    """Interrupted while it loads that, it could compile nothing more in this process."""
    seen = []

    def gradient(w, rows, out):
        seen.append("called")
        return 0.0

    monkeypatch.setattr(stated, "load_registries", lambda: seen.append("loaded"))
    problems.user(gradient, 100, 2).seconds_of_a_row(np.zeros(2))
    assert seen == ["loaded", "called", "called"]


class Noisy(GradientProblem):
    """A mean, by gradients with noise that is drawn for each block."""

    n_rows, n_params = 60, 2

    def __init__(self):
        self.points = np.random.default_rng(0).normal(size=(self.n_rows, self.n_params))

    def gradient(self, w, rows, out):
        return self.for_worker(-1)(w, rows, out)

    def for_worker(self, me):
        class OfAWorker:
            def begin(self, claim):
                self.key = [claim.site, claim.epoch, claim.block]
                CLAIMS.append(claim)

            def __call__(mine, w, rows, out):
                away = w - self.points[rows]
                out += away.sum(axis=0)
                if me >= 0:
                    out += np.random.default_rng(mine.key).normal(size=self.n_params)
                return 0.5 * np.square(away).sum()

        return OfAWorker()


CLAIMS = []


@pytest.mark.parametrize("plane", [Shared(), Master()], ids=repr)
def test_what_is_drawn_by_block_is_the_same_whoever_works(plane):
    run = {"block": 10, "stop": 3, "seed": 0, "step": StepSize("constant", 0.01), "plane": plane}
    found = [
        solve(Noisy(), barrier=BSP(), n_workers=2, runtime=runtime, **run).model.params
        for runtime in ("threads", "simulator", "processes", "threads")
    ]
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


@pytest.mark.parametrize("n_workers", [1, 3])
def test_each_block_of_each_epoch_is_announced_once(n_workers):
    CLAIMS.clear()
    run = {"block": 10, "stop": 3, "seed": 0, "step": StepSize("constant", 0.01)}
    solve(Noisy(), n_workers=n_workers, runtime="threads", **run)
    claims = sorted(CLAIMS)
    assert [(c.epoch, c.block) for c in claims] == list(itertools.product(range(3), range(6)))
    assert [c.rows_before for c in claims] == list(range(0, 180, 10))
    assert {c.n_workers for c in claims} == {n_workers} and {c.site for c in claims} == {0}
