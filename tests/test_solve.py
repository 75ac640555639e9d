"""`solve`: one worker is scikit-learn, many reach the same optimum, and bad input is a sentence."""

import re
import time
import warnings

import cases
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.preprocessing import scale

from hogshare import SAGA, SDCA, SGD, Shared, StepSize, Stop, asysg_incon, problems, share, solve
from hogshare.kernels.rules import losses
from hogshare.problems.linear import REGRESSION_LOSSES, row_arrays
from hogshare.solvers.solver import OrderSeed

RUNTIMES = [("caller", 1), ("threads", 1), ("processes", 1)]
WORKERS = [("caller", 1), ("threads", 2), ("processes", 2)]
CONSTANT = StepSize("constant", eta0=0.01)


@pytest.fixture(scope="module")
def sparse():
    """4,000 rows, 300 features of falling frequency, one label in ten flipped."""
    rng = np.random.default_rng(0)
    n, m = 4000, 300
    frequency = 0.5 / np.arange(1, m + 1) ** 0.7
    X = sp.csr_array((rng.random((n, m)) < frequency) * rng.uniform(0.5, 1.5, (n, m)))
    signal = X @ rng.standard_normal(m)
    y = (signal > np.median(signal)) ^ (rng.random(n) < 0.1)
    return X, y.astype(int)


def same(a, b):
    """Bit for bit."""
    for name in ("coef", "intercept", "average_coef", "average_intercept"):
        left, right = getattr(a.model, name), getattr(b.model, name)
        if left is None:
            assert right is None
        else:
            np.testing.assert_array_equal(left, right)
    assert a.n_epochs == b.n_epochs


def value(problem, report):
    return problem.objective(report.model.coef, report.model.intercept)


# -- one worker -----------------------------------------------------------------------------------

CLASSIFIERS = [
    {"loss": "log_loss"},
    {"loss": "hinge", "penalty": "l1", "alpha": 1e-3},
    {"loss": "modified_huber", "penalty": "elasticnet", "alpha": 1e-3},
    {"loss": "squared_hinge", "learning_rate": "invscaling", "eta0": 0.001},
    {"loss": "perceptron", "penalty": None, "learning_rate": "constant", "eta0": 1.0},
    {"loss": "log_loss", "average": True},
    {"loss": "log_loss", "average": 1000, "penalty": "elasticnet"},
    {"loss": "log_loss", "learning_rate": "adaptive", "eta0": 0.1, "max_iter": 30, "tol": 1e-3},
    {"loss": "hinge", "max_iter": 100, "tol": 1e-3},
    {"loss": "hinge", "penalty": None, "learning_rate": "pa1", "eta0": 0.1},
    {"loss": "hinge", "penalty": None, "learning_rate": "pa2", "eta0": 0.1},
    {"loss": "log_loss", "fit_intercept": False, "shuffle": False},
]


def ours(X, y, runtime="caller", seed=3, **settings):
    """`solve` called with scikit-learn's names."""
    step = StepSize(
        settings.pop("learning_rate", "optimal"),
        eta0=settings.pop("eta0", 0.01),
        power_t=settings.pop("power_t", 0.5),
    )
    stop = Stop(epochs=settings.pop("max_iter", 5), tol=settings.pop("tol", None))
    rule, shuffle = SGD(average=settings.pop("average", 0)), settings.pop("shuffle", True)
    problem = problems.linear(X, y, **settings)
    return problem, solve(
        problem, rule=rule, step=step, stop=stop, runtime=runtime, seed=seed, shuffle=shuffle
    )


@pytest.mark.filterwarnings("ignore:Maximum number of iteration")
@pytest.mark.parametrize("settings", CLASSIFIERS, ids=lambda s: "-".join(map(str, s.values())))
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_one_worker_is_scikit_learns_classifier(cancer, form, settings):
    X, y = cases.as_form(cancer[0], form), cancer[1]
    _, report = ours(X, y, **settings)
    theirs = SGDClassifier(**{"max_iter": 5, "tol": None, **settings}, random_state=3).fit(X, y)
    average = bool(settings.get("average"))
    coef = report.model.average_coef if average else report.model.coef
    intercept = report.model.average_intercept if average else report.model.intercept
    np.testing.assert_allclose(coef, theirs.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(intercept, theirs.intercept_, rtol=1e-6, atol=1e-8)
    assert report.n_epochs == theirs.n_iter_
    assert report.model.t == theirs.t_


@pytest.mark.parametrize("loss", REGRESSION_LOSSES)
@pytest.mark.quick
def test_one_worker_is_scikit_learns_regressor(loss):
    X, y = load_diabetes(return_X_y=True)
    X, y = scale(X), scale(y)
    settings = {"loss": loss, "learning_rate": "invscaling", "power_t": 0.25, "penalty": "l2"}
    # scikit-learn's regressor draws the first number of the generator, its classifier the second
    seed = OrderSeed(np.random.RandomState(3).randint(0, np.iinfo(np.int32).max))
    _, report = ours(X, y, seed=seed, **settings)
    theirs = SGDRegressor(**settings, max_iter=5, tol=None, random_state=3).fit(X, y)
    np.testing.assert_allclose(report.model.coef[0], theirs.coef_, rtol=1e-6)
    np.testing.assert_allclose(report.model.intercept, theirs.intercept_, rtol=1e-6)


def test_one_worker_is_scikit_learns_for_many_classes():
    """All classes in one pass over a row; scikit-learn gives each class a seed of its own."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    settings = {"loss": "hinge", "alpha": 1e-3, "shuffle": False}
    _, report = ours(X, y, **settings)
    theirs = SGDClassifier(**settings, max_iter=5, tol=None).fit(X, y)
    np.testing.assert_allclose(report.model.coef, theirs.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(report.model.intercept, theirs.intercept_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize(
    "settings", [{}, {"average": 1, "penalty": "elasticnet"}, {"tol": 1e-3, "max_iter": 50}]
)
def test_one_worker_is_the_same_bit_for_bit_in_every_runtime(cancer, form, dtype, settings):
    X = cases.as_form(cancer[0].astype(dtype), form)
    first, *others = (ours(X, cancer[1], runtime, **settings)[1] for runtime, _ in RUNTIMES)
    for other in others:
        same(first, other)
    assert first.model.coef.dtype == dtype
    assert [r.settings["runtime"] for r in (first, *others)] == [r for r, _ in RUNTIMES]


def test_a_seed_means_one_model_and_no_seed_another_each_time(cancer):
    problem = problems.linear(*cancer)
    seeded = [solve(problem, seed=7, stop=Stop(epochs=2)) for _ in range(2)]
    same(*seeded)
    same(seeded[0], solve(problem, seed=np.random.RandomState(7), stop=Stop(epochs=2)))
    unseeded = [solve(problem, stop=Stop(epochs=2)).model.coef for _ in range(2)]
    assert (unseeded[0] != unseeded[1]).any()


# -- many workers ---------------------------------------------------------------------------------

PLANES = {
    "exchange": Shared(),
    "often": Shared(exchange=16),
    "plain": Shared(exchange=None),
    "atomic": Shared(exchange=None, adds="atomic"),
}


@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("data", ["cancer", "sparse"])
@pytest.mark.quick
def test_two_workers_reach_the_same_optimum(request, data, plane, runtime):
    problem = problems.linear(*request.getfixturevalue(data), alpha=1e-2)
    run = {"stop": Stop(epochs=40), "seed": 0}
    one = value(problem, solve(problem, runtime="caller", **run))
    two = solve(problem, runtime=runtime, n_workers=2, plane=PLANES[plane], **run)
    assert value(problem, two) <= one * 1.02
    assert two.n_epochs == 40
    check_counts(two, problem)


def check_counts(report, problem):
    """What must add up whatever the timing was."""
    rows = report.settings["block_rows"]
    n_blocks = -(-problem.n_rows // rows)
    assert sum(w["blocks"] for w in report.workers) == n_blocks * report.n_epochs
    assert sum(w["rows"] for w in report.workers) == problem.n_rows * report.n_epochs
    assert report.staleness.sum() == sum(w["pushes"] for w in report.workers)
    assert all(w["waiting_seconds"] >= 0.0 for w in report.workers)
    assert report.model.t == 1.0 + report.n_epochs * problem.n_rows


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "settings", [{"loss": "hinge"}, {"penalty": "elasticnet"}, {"loss": "huber"}]
)
def test_two_threads_with_other_losses(sparse, dtype, settings):
    X, y = sparse[0].astype(dtype), sparse[1]
    step = StepSize("invscaling", eta0=0.1) if settings.get("loss") == "huber" else None
    problem = problems.linear(X, y, alpha=1e-2, **settings)
    run = {"stop": Stop(epochs=40), "seed": 0, "step": step}
    one = value(problem, solve(problem, runtime="caller", **run))
    two = value(problem, solve(problem, runtime="threads", n_workers=2, **run))
    assert two <= one * 1.02


def test_many_classes_on_two_threads():
    X, y = load_digits(return_X_y=True)
    problem = problems.linear(X / 16.0, y, alpha=1e-2)
    run = {"stop": Stop(epochs=30), "seed": 0}
    one = value(problem, solve(problem, runtime="caller", **run))
    assert value(problem, solve(problem, runtime="threads", n_workers=2, **run)) <= one * 1.02


@pytest.mark.parametrize("plane", ["exchange", "atomic"])
@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_the_average_of_two_workers(cancer, runtime, plane):
    problem = problems.linear(*cancer, alpha=1e-2)
    # from the third epoch on: the first steps of the 'optimal' schedule are wild
    run = {"stop": Stop(epochs=30), "seed": 0, "rule": SGD(average=3 * problem.n_rows)}
    models = [
        solve(problem, runtime="caller", **run).model,
        solve(problem, runtime=runtime, n_workers=2, plane=PLANES[plane], **run).model,
    ]
    one, two = (problem.objective(m.average_coef, m.average_intercept) for m in models)
    assert two <= one * 1.02


@pytest.mark.parametrize("n_workers", [1, 2])
def test_mini_batches_of_asysg(cancer, n_workers):
    problem = problems.linear(*cancer, alpha=1e-2)
    report = asysg_incon(
        problem, n_workers=n_workers, runtime="threads", batch=8, step=0.01, epochs=30, seed=0
    )
    reference = value(problem, solve(problem, stop=Stop(epochs=60), seed=0))
    assert value(problem, report) <= reference * 1.05


def test_unseeded_runs_of_two_workers_differ(sparse):
    problem = problems.linear(*sparse)
    run = {"runtime": "threads", "n_workers": 2, "stop": Stop(epochs=3)}
    first, second = (solve(problem, **run).model.coef for _ in range(2))
    assert (first != second).any()


@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_epochs_are_counted_right_when_they_are_tiny(runtime):
    """Four workers, five rows: epochs end almost as often as blocks do."""
    problem = problems.linear(cases.matrix(6)[:5], np.array([0, 1, 0, 1, 1]))
    repeats = {"threads": 150, "processes": 30}[runtime]
    for k in range(repeats):
        report = solve(
            problem, runtime=runtime, n_workers=4, stop=Stop(epochs=50), seed=k, step=CONSTANT
        )
        assert report.n_epochs == 50
        check_counts(report, problem)


def test_more_workers_than_rows():
    problem = problems.linear(np.eye(3), np.array([0, 1, 1]))
    report = solve(problem, runtime="threads", n_workers=8, stop=Stop(epochs=3), step=CONSTANT)
    check_counts(report, problem)


# -- stopping -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("runtime", "n_workers"), WORKERS)
def test_tol_stops(cancer, runtime, n_workers):
    problem = problems.linear(*cancer, alpha=1e-2)
    stop = Stop(epochs=1000, tol=1e-3, patience=3)
    report = solve(problem, runtime=runtime, n_workers=n_workers, stop=stop, seed=0)
    assert report.converged and 3 < report.n_epochs < 200
    assert report.stop_reason == "the stop criterion was met"
    assert len(report.epoch_losses) == report.n_epochs
    assert report.epoch_losses[-1] < report.epoch_losses[0]
    limited = solve(
        problem, runtime=runtime, n_workers=n_workers, stop=Stop(epochs=2, tol=1e-3), seed=0
    )
    assert not limited.converged and limited.n_epochs == 2


@pytest.mark.parametrize(("runtime", "n_workers"), WORKERS)
@pytest.mark.parametrize("plane", ["exchange", "plain"])
def test_held_out_rows_stop_and_are_never_learned_from(cancer, runtime, n_workers, plane):
    X, y = cancer
    validation = np.arange(len(y)) % 5 == 0
    # rows that would ruin the model, if they were learned from, and that have no say here
    X = X.copy()
    X[validation & (np.arange(len(y)) % 10 == 0)] *= 1e3
    problem = problems.linear(X, y, alpha=1e-2)
    stop = Stop(epochs=500, tol=1e-3, patience=4, validation=validation)
    report = solve(
        problem, runtime=runtime, n_workers=n_workers, stop=stop, seed=0, plane=PLANES[plane]
    )
    assert report.converged and report.n_epochs < 100
    assert sum(w["rows"] for w in report.workers) >= report.n_epochs * np.sum(~validation)
    decision = X @ report.model.coef[0] + report.model.intercept[0]
    assert ((decision > 0) == y)[~validation].mean() > 0.95


@pytest.mark.parametrize(("runtime", "n_workers"), WORKERS)
def test_on_epoch_is_called_once_per_epoch_in_order_and_may_stop(cancer, runtime, n_workers):
    problem = problems.linear(*cancer, alpha=1e-2)
    seen, models = [], []

    def note(epoch, snapshot):
        seen.append(epoch)
        models.append(snapshot())
        return False

    run = {"runtime": runtime, "n_workers": n_workers, "seed": 0}
    report = solve(problem, stop=Stop(epochs=12), on_epoch=note, **run)
    assert seen == list(range(1, 13)) and report.n_epochs == 12
    values = [problem.objective(m.coef, m.intercept) for m in models]
    assert values[-1] < 2.0 * value(problem, report) and np.isfinite(values).all()
    seen.clear()
    report = solve(
        problem, stop=Stop(epochs=10_000), on_epoch=lambda e, s: seen.append(e) or e == 4, **run
    )
    assert seen == [1, 2, 3, 4]
    assert 4 <= report.n_epochs < 10_000 and not report.converged
    assert report.stop_reason == "the caller asked for it"


@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_on_epoch_is_given_the_snapshot_of_its_own_epoch(cancer, runtime):
    X, y = cancer
    counts = []

    def note(epoch, snapshot):
        counts.append(snapshot().t - 1)
        return False

    stop = Stop(epochs=24, tol=None)
    solve(problems.linear(X, y), runtime=runtime, n_workers=2, stop=stop, on_epoch=note)
    assert counts == [epoch * len(y) for epoch in range(1, 25)]


def test_an_error_in_on_epoch_ends_the_run_and_is_raised(cancer):
    problem = problems.linear(*cancer)

    def fail(epoch, snapshot):
        raise OverflowError("enough")

    for runtime, n_workers in [("caller", 1), ("threads", 2), ("processes", 2)]:
        with pytest.raises(OverflowError, match="enough"):
            solve(
                problem,
                runtime=runtime,
                n_workers=n_workers,
                on_epoch=fail,
                stop=Stop(epochs=100_000),
            )


@pytest.mark.parametrize(("runtime", "n_workers"), WORKERS)
def test_trace(sparse, runtime, n_workers):
    problem = problems.linear(*sparse, alpha=1e-2)
    report = solve(
        problem, runtime=runtime, n_workers=n_workers, stop=Stop(epochs=6), trace=4, seed=0
    )
    trace = report.trace
    lengths = {len(a) for a in (trace.epochs, trace.blocks, trace.seconds, trace.objective)}
    # of 25; one that a worker was kept from taking in time is not taken
    assert len(lengths) == 1 and lengths.pop() >= (20 if n_workers == 1 else 7)
    assert trace.epochs[0] == trace.blocks[0] == 0.0
    for clock in (trace.epochs, trace.blocks):
        assert (np.diff(clock) > 0).all()
    assert (np.diff(trace.seconds) >= 0).all()
    assert trace.seconds[-1] <= report.seconds["run"]
    assert trace.objective[0] == pytest.approx(np.log(2.0))
    assert trace.objective[-1] < 0.9 * trace.objective[0]
    if n_workers == 1:
        assert trace.epochs[-1] == 6.0
        assert trace.objective[-1] == pytest.approx(value(problem, report))


def test_a_start_is_where_the_run_begins(cancer):
    problem = problems.linear(*cancer, alpha=1e-2)
    first = solve(problem, stop=Stop(epochs=30), seed=0)
    for runtime, n_workers in [("caller", 1), ("threads", 2)]:
        again = solve(
            problem,
            runtime=runtime,
            n_workers=n_workers,
            stop=Stop(epochs=1),
            start=first.model,
            seed=1,
        )
        assert again.model.t == first.model.t + problem.n_rows
        assert value(problem, again) <= 1.05 * value(problem, first)


# -- bad input ------------------------------------------------------------------------------------


def damaged(change):
    X = sp.csr_array(cases.matrix(), dtype=float)
    X.sum_duplicates()
    X.indices, X.indptr, X.data = X.indices.copy(), X.indptr.copy(), X.data.copy()
    change(X)
    return X


def out_of_range(X):
    X.indices[3] = 10_000_000


def negative_index(X):
    X.indices[3] = -1


def decreasing(X):
    X.indptr[5] = X.indptr[4] - 1


def negative_pointer(X):
    X.indptr[1] = -3


def past_the_end(X):
    X.indptr[-1] = len(X.data) + 1000


def wrapping(X):
    X.indptr[-1] = -(2**31)  # a difference of int32 wraps around here


def empty_by_its_last_pointer(X):
    X.indptr[-1] = 0  # scipy's full check takes this for a matrix without values


def late_start(X):
    X.indptr[0] = 1


@pytest.mark.parametrize(
    "change",
    [
        out_of_range,
        negative_index,
        decreasing,
        negative_pointer,
        past_the_end,
        empty_by_its_last_pointer,
        wrapping,
        late_start,
    ],
)
def test_a_damaged_csr_matrix_is_a_sentence(change):
    with pytest.raises(ValueError, match="damaged"):
        problems.linear(damaged(change), np.arange(23) % 2)


BAD_PROBLEMS = {
    "NaN": lambda X, y: problems.linear(np.where(X.max() / 2 < X, np.nan, X), y),
    "infinity": lambda X, y: problems.linear(np.where(X.max() / 2 < X, np.inf, X), y),
    "label NaN": lambda X, y: problems.linear(X, np.where(y == 1, np.nan, 0.0)),
    "lengths": lambda X, y: problems.linear(X, y[:-1]),
    "one dimension": lambda X, y: problems.linear(X[:, 0], y),
    "no rows": lambda X, y: problems.linear(X[:0], y[:0]),
    "no columns": lambda X, y: problems.linear(X[:, :0], y),
    "one class": lambda X, y: problems.linear(X, np.zeros(len(y))),
    "strings": lambda X, y: problems.linear(np.full(X.shape, "a", object), y),
    "loss": lambda X, y: problems.linear(X, y, loss="l3"),
    "penalty": lambda X, y: problems.linear(X, y, penalty="l3"),
    "task": lambda X, y: problems.linear(X, y, task="ranking"),
    "alpha": lambda X, y: problems.linear(X, y, alpha=-1.0),
    "alpha NaN": lambda X, y: problems.linear(X, y, alpha=np.nan),
    "l1_ratio": lambda X, y: problems.linear(X, y, l1_ratio=2.0),
    "weights": lambda X, y: problems.linear(X, y, sample_weight=np.ones(3)),
    "negative weights": lambda X, y: problems.linear(X, y, sample_weight=-np.ones(len(y))),
    "class_weight": lambda X, y: problems.linear(X, y, class_weight=[1.0, 2.0, 3.0]),
    "classes": lambda X, y: problems.linear(X, y, classes=[5, 6]),
    "regression": lambda X, y: problems.linear(X, y, loss="hinge", task="regression"),
}


@pytest.mark.parametrize("name", BAD_PROBLEMS)
def test_bad_problems_are_sentences(name):
    X, y = cases.matrix(), np.arange(23) % 2
    with pytest.raises(ValueError, match=r"\w{3}"):
        BAD_PROBLEMS[name](X, y)


BAD_RUNS = {
    "runtime": lambda p: solve(p, runtime="gpu"),
    "caller with two": lambda p: solve(p, runtime="caller", n_workers=2),
    "no worker": lambda p: solve(p, n_workers=0),
    "epochs": lambda p: solve(p, stop=Stop(epochs=0)),
    "patience": lambda p: solve(p, stop=Stop(patience=0)),
    "mask": lambda p: solve(p, stop=Stop(validation=np.ones(3, bool))),
    "mask of numbers": lambda p: solve(p, stop=Stop(validation=np.ones(p.n_rows))),
    "all held out": lambda p: solve(p, stop=Stop(validation=np.ones(p.n_rows, bool))),
    "step": lambda p: solve(p, step=StepSize("fast")),
    "eta0": lambda p: solve(p, step=StepSize("constant", eta0=0.0)),
    "eta0 NaN": lambda p: solve(p, step=StepSize("constant", eta0=np.nan)),
    "pa1 with log loss": lambda p: solve(p, step=StepSize("pa1")),
    "average": lambda p: solve(p, rule=SGD(average=-1)),
    "batch": lambda p: solve(p, rule=SGD(batch=0)),
    "batch with exchange": lambda p: solve(p, rule=SGD(batch=4)),
    "exchange": lambda p: solve(p, plane=Shared(exchange=0)),
    "exchange word": lambda p: solve(p, plane=Shared(exchange="often")),
    "adds": lambda p: solve(p, plane=Shared(adds="locked")),
    "trace": lambda p: solve(p, trace=0),
    "trace too long": lambda p: solve(p, trace=10**6, stop=Stop(epochs=10**7)),
    "seed": lambda p: solve(p, seed="seven"),
}


@pytest.mark.parametrize("name", BAD_RUNS)
def test_bad_runs_are_sentences(name):
    problem, *_ = cases.problem()
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        BAD_RUNS[name](problem)


def test_optimal_steps_need_alpha():
    problem, *_ = cases.problem(alpha=0.0)
    with pytest.raises(ValueError, match="alpha"):
        solve(problem)


def test_a_start_of_another_shape_or_with_nan():
    problem, *_ = cases.problem()
    model = solve(problem).model
    other, *_ = cases.problem(columns=3)
    with pytest.raises(ValueError, match="shape"):
        solve(other, start=model)
    model.coef[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        solve(problem, start=model)


def attempt(problem, **run):
    """How a run with absurd steps ends: "error", "warning" or "fitted"; never with NaN."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            report = solve(problem, **run)
        except ValueError as error:
            assert re.search("under-/overflow occurred at epoch #[1-9]", str(error))
            return "error"
    assert report.model.is_finite()
    assert {w.category for w in caught} <= {ConvergenceWarning}, [str(w.message) for w in caught]
    return "warning" if caught else "fitted"


@pytest.mark.parametrize("plane", ["exchange", "plain", "atomic"])
@pytest.mark.parametrize(("runtime", "n_workers"), WORKERS)
@pytest.mark.parametrize("loss", ["squared_error", "squared_hinge"])
def test_a_diverging_run_says_so(loss, plane, runtime, n_workers):
    """Steps a million times too large: an error where numbers end, a warning before that."""
    X, y = load_diabetes(return_X_y=True)
    X, y = scale(X).astype(np.float32), y if loss == "squared_error" else y > 150
    run = {
        "runtime": runtime,
        "n_workers": n_workers,
        "plane": PLANES[plane],
        "step": StepSize("constant", eta0=0.01 * 1e6),
        "seed": 0,
    }
    small = problems.linear(X, y, loss=loss, penalty=None)
    assert attempt(small, **run) in ("warning", "error")
    run["step"] = StepSize("constant", eta0=1e30)
    assert attempt(small, **run) == "error"


@pytest.mark.parametrize(
    ("rule", "word"),
    [(SGD(), "eta0"), (SAGA(step=1e300), r"SAGA\(step="), (SDCA(), r"a larger alpha \(SDCA")],
)
def test_a_diverging_run_says_what_helps_its_rule(rule, word):
    """Rows so long that even a step without a step size leaves the numbers."""
    X = np.full((8, 2), 1e200)
    step = StepSize("constant", eta0=1e300) if isinstance(rule, SGD) else None
    problem = problems.linear(X, np.arange(8.0), loss="squared_error")
    with pytest.raises(ValueError, match=word) as caught:
        solve(problem, rule=rule, step=step, seed=0)
    assert "overflow occurred at epoch #1" in str(caught.value)
    assert ("eta0" in str(caught.value)) == isinstance(rule, SGD)


@pytest.mark.parametrize(("runtime", "n_workers"), WORKERS[:2])
@pytest.mark.parametrize("loss", losses.CODES)
def test_no_step_size_gives_nan(loss, runtime, n_workers):
    X, y = load_diabetes(return_X_y=True)
    X, y = scale(X), y - 150
    problem = problems.linear(X, y if loss in REGRESSION_LOSSES else y > 0, loss=loss)
    for eta0 in (1e4, 1e150, 1e300):
        step = StepSize("constant", eta0=eta0)
        attempt(problem, runtime=runtime, n_workers=n_workers, step=step, seed=0)


# -- all kinds of legal input ---------------------------------------------------------------------


def test_int64_indices_give_the_same_model():
    first, *_ = cases.problem("csr", alpha=0.01)
    second, *_ = cases.problem("csr64", alpha=0.01)
    assert second.rows.indices.dtype == np.uint64
    same(solve(first, seed=0), solve(second, seed=0))


@pytest.mark.parametrize(
    ("n_features", "limit", "dtype"),
    [
        (1 << 31, None, np.uint32),
        ((1 << 31) + 1, None, np.uint64),
        (10, 6 * 8, np.uint32),
        (10, 6 * 8 - 1, np.uint64),
    ],
    ids=["fits", "does not fit", "small", "large"],
)
def test_int64_indices_are_narrowed_where_they_fit_and_are_few(seams, n_features, limit, dtype):
    if limit is not None:
        seams.sizes.narrowed = limit
    columns = np.array([0, n_features - 1] * 3)
    X = sp.csr_array((np.ones(6), columns, np.arange(0, 7, 2)), shape=(3, n_features))
    X.indices, X.indptr = columns, X.indptr.astype(np.int64)
    y, ones = np.zeros(3), np.ones(3)
    view = row_arrays.as_rows(X, y, ones).indices
    assert view.dtype == dtype
    assert np.array_equal(view, columns.astype(np.uint64))
    assert np.shares_memory(view, columns) == (dtype == np.uint64)
    shared = share(X)
    assert np.shares_memory(row_view := row_arrays.as_rows(shared, y, ones).indices, shared.indices)
    assert row_view.dtype == np.uint64


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_unsorted_and_repeated_columns_are_the_canonical_matrix(index):
    X = sp.csr_array(cases.matrix())
    rng = np.random.default_rng(0)
    data, indices, indptr = [], [], [0]
    for r in range(X.shape[0]):
        at = slice(X.indptr[r], X.indptr[r + 1])
        # every value in two halves, in any order
        columns, halves = np.tile(X.indices[at], 2), np.tile(X.data[at] / 2, 2)
        order = rng.permutation(len(columns))
        indices += columns[order].tolist()
        data += halves[order].tolist()
        indptr.append(len(data))
    messy = sp.csr_array(X.shape)
    messy.data = np.array(data)
    messy.indices, messy.indptr = np.array(indices, index), np.array(indptr, index)
    kept = [a.copy() for a in (messy.data, messy.indices, messy.indptr)]
    y = np.arange(23) % 2
    reports = [solve(problems.linear(M, y, alpha=0.01), seed=0) for M in (X, messy)]
    np.testing.assert_allclose(reports[1].model.coef, reports[0].model.coef, rtol=1e-12)
    for now, before in zip((messy.data, messy.indices, messy.indptr), kept, strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_unsorted_columns_are_taken_as_they_are(index):
    X = sp.csr_array(cases.matrix())
    rng = np.random.default_rng(0)
    messy = X.copy()
    for r in range(X.shape[0]):
        at = np.arange(X.indptr[r], X.indptr[r + 1])
        order = rng.permutation(at)
        messy.indices[at], messy.data[at] = X.indices[order], X.data[order]
    messy = sp.csr_array((messy.data, messy.indices.astype(index), messy.indptr.astype(index)))
    messy.resize(X.shape)
    assert not messy.has_sorted_indices
    y = np.arange(23) % 2
    there, here = (problems.linear(M, y, alpha=0.01, penalty="elasticnet") for M in (X, messy))
    assert np.shares_memory(here.rows.data, messy.data)
    for rule in (SGD(), SGD(average=True), SAGA(), SDCA()):
        coefs = [solve(p, rule=rule, seed=0).model.coef for p in (there, here)]
        np.testing.assert_allclose(coefs[1], coefs[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("runtime", ["caller", "threads", "processes"])
def test_read_only_memory_maps(tmp_path, runtime):
    X, y = cases.matrix(), np.arange(23) % 2
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    problem = problems.linear(mapped, np.load(tmp_path / "y.npy", mmap_mode="r"), alpha=0.01)
    assert np.shares_memory(problem.rows.data, mapped)
    expected = solve(problems.linear(X, y, alpha=0.01), seed=0)
    same(solve(problem, runtime=runtime, n_workers=1, seed=0), expected)


@pytest.mark.parametrize("kind", ["fortran", "slice", "float16", "ints", "csc", "list"])
def test_other_layouts(kind):
    X, y = cases.matrix().round(1), np.arange(23) % 2
    if kind in ("ints", "float16"):
        X = np.round(X)
    made = {
        "fortran": np.asfortranarray,
        "slice": lambda X: np.repeat(X, 2, axis=0)[::2],
        "float16": lambda X: X.astype(np.float16),
        "ints": lambda X: X.astype(int),
        "csc": sp.csc_array,
        "list": lambda X: X.tolist(),
    }[kind](X)
    base = sp.csr_array(X) if kind == "csc" else X
    expected = solve(problems.linear(base, y, alpha=0.01), seed=0)
    same(solve(problems.linear(made, y, alpha=0.01), seed=0), expected)


def test_the_callers_arrays_stay_as_they_are(cancer):
    X, y = cases.as_form(cancer[0], "csr"), cancer[1]
    before = [a.copy() for a in (X.data, X.indices, X.indptr, y)]
    for runtime in ("threads", "processes"):
        solve(problems.linear(X, y), runtime=runtime, n_workers=2)
    for now, kept in zip((X.data, X.indices, X.indptr, y), before, strict=True):
        np.testing.assert_array_equal(now, kept)


INTEGERS = (-1, 0, 1, 7, 8, 22, 23, 24, 2**31 - 1, -(2**31), 10**6)
FLOATS = (np.nan, np.inf, -np.inf, 1e308, -1e300, 0.0, 5e-324, 1.0)


def mutate(X, y, rng):
    """Change one to three things about a CSR matrix and its labels."""
    parts = {"data": X.data.copy(), "indices": X.indices.copy(), "indptr": X.indptr.copy(), "y": y}
    shape = X.shape
    for _ in range(rng.integers(1, 4)):
        name = str(rng.choice(["data", "indices", "indptr", "y", "shape"]))
        if name == "shape":
            shape = tuple(int(max(0, s + rng.integers(-2, 3))) for s in shape)
            continue
        part = parts[name]
        what = rng.integers(5)
        if what == 0 and len(part):
            pool = FLOATS if part.dtype.kind == "f" else INTEGERS
            part[rng.integers(len(part))] = pool[rng.integers(len(pool))]
        elif what == 1:
            part = part[: rng.integers(len(part) + 1)]
        elif what == 2:
            part = np.concatenate([part, part[: rng.integers(len(part) + 1)]])
        elif what == 3:
            part = rng.permutation(part)
        else:
            kinds = {"data": "f4 f8 i4 c8", "y": "f8 i8 U3 O"}.get(name, "i4 i8")
            kind = rng.choice(kinds.split())
            if part.dtype.kind not in "UO":
                part = part.astype(kind)
        parts[name] = np.array(part)
    made = sp.csr_matrix((23, 7))
    made.data, made.indices, made.indptr = (parts[k] for k in ("data", "indices", "indptr"))
    made._shape = shape
    return made, parts["y"]


# scikit-learn sums the data to look for infinities, where two of them may cancel
@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_mutated_csr_input_never_crashes(rounds):
    """Every mutation is either refused in a sentence or fitted with a finite model."""
    X, y = sp.csr_matrix(cases.matrix()), (np.arange(23) % 2).astype(float)
    outcomes = {"fitted": 0, "refused": 0}
    n = rounds(10_000) // 2 if rounds(10) == 1 else rounds(10_000)
    for k in range(n):
        rng = np.random.default_rng(k)
        with warnings.catch_warnings(action="ignore"):  # of casts that lose something
            made, labels = mutate(X, y.copy(), rng)
        try:
            problem = problems.linear(made, labels, alpha=0.01)
            n_workers = 1 + k % 2
            report = solve(
                problem,
                runtime="threads" if n_workers == 2 else "caller",
                n_workers=n_workers,
                stop=Stop(epochs=2),
                seed=0,
            )
        except ValueError as error:
            assert len(str(error)) > 10
            outcomes["refused"] += 1
        else:
            assert report.model.is_finite(), k
            outcomes["fitted"] += 1
    assert min(outcomes.values()) > n // 20, outcomes


def test_auto_uses_one_worker_where_more_would_not_pay():
    problem, *_ = cases.problem()
    report = solve(problem, n_workers=2, seed=0)
    assert report.settings["n_workers"] == 1 and report.settings["runtime"] == "caller"
    assert any("runtime" in note for note in report.notes)


def test_seconds_are_those_of_the_call(cancer):
    began = time.perf_counter()
    report = solve(problems.linear(*cancer), runtime="threads", n_workers=2)
    spent = time.perf_counter() - began
    setup, run, total = (report.seconds[k] for k in ("setup", "run", "total"))
    assert run > 0.0 and setup > 0.0
    assert setup + run <= total <= spent


# -- combinations that once went wrong ------------------------------------------------------------


@pytest.mark.parametrize("trace", [1, 3])
@pytest.mark.parametrize(("runtime", "n_workers"), [("caller", 1), ("threads", 2)])
def test_epochs_are_reported_also_when_a_snapshot_falls_on_their_end(trace, runtime, n_workers):
    problem, *_ = cases.problem("csr", alpha=0.01)
    seen = []
    run = {"runtime": runtime, "n_workers": n_workers, "seed": 0, "trace": trace}
    solve(problem, stop=Stop(epochs=4), on_epoch=lambda e, s: seen.append(e), **run)
    assert seen == [1, 2, 3, 4]


def test_a_trace_lasts_to_the_end():
    problem, *_ = cases.problem("csr", alpha=0.01)
    for trace in (1, 2, 3, 5):
        report = solve(problem, stop=Stop(epochs=7), trace=trace, seed=0)
        assert report.trace.epochs[-1] > 6.5


@pytest.mark.parametrize("kind", [sp.csc_array, sp.bsr_array])
def test_other_damaged_compressed_matrices_are_a_sentence(kind):
    X = kind(cases.matrix())
    X.indptr[-1] = 0
    with pytest.raises(ValueError, match="damaged"):
        problems.linear(X, np.arange(X.shape[0]) % 2)


def test_classes_must_be_sorted_and_belong_to_a_classification():
    X = cases.matrix()
    with pytest.raises(ValueError, match="sorted"):
        problems.linear(X, np.arange(len(X)) % 2, classes=[1, 0])
    with pytest.raises(ValueError, match="classification"):
        problems.linear(X, np.arange(len(X)) * 1.0, loss="squared_error", classes=[0, 1])


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_in_a_file_larger_than_memory_are_read_in_windows(tmp_path, seams, sparse):
    """The order has neighbours together, and every row is still visited once per epoch."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 20)).astype(np.float32)
    y = (X[:, 0] + 0.1 * rng.standard_normal(400) > 0).astype(int)
    form = sp.csr_matrix(X) if sparse else X
    parts = {"data": form.data, "indices": form.indices} if sparse else {"data": X}
    for name, array in parts.items():
        np.save(tmp_path / f"{name}.npy", array)
    loaded = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in parts}
    mapped = loaded["data"]
    if sparse:
        mapped = sp.csr_matrix((loaded["data"], loaded["indices"], form.indptr), shape=X.shape)
    usual = solve(problems.linear(mapped, y, alpha=0.01), seed=0)
    private = solve(problems.linear(form, y, alpha=0.01), seed=0)
    np.testing.assert_array_equal(usual.model.coef, private.model.coef)

    seams.memory.free = lambda **_: 1000
    seams.sizes.window = X.nbytes // 10
    problem = problems.linear(mapped, y, alpha=0.01)
    window, abreast = row_arrays.windows(problem.rows, problem.n_rows)
    assert 0 < window <= 40 and abreast == 1
    plan = cases.session(problem, rule=SDCA(), n_workers=4).plan
    assert (plan.window, plan.abreast, plan.interleaved) == (window, 1, 0), (
        "one at a time, by all rules"
    )
    for run in ({}, {"runtime": "threads", "n_workers": 2}):
        report = solve(problem, seed=0, **run)
        assert sum(w["rows"] for w in report.workers) == 10 * 400
        assert problem.objective(
            report.model.coef, report.model.intercept
        ) < 1.1 * problem.objective(usual.model.coef, usual.model.intercept)
    assert (report.model.coef != usual.model.coef).any()


def test_saga_reads_small_windows_of_rows_that_fit_in_the_caches(seams):
    """Its rows have no order of scikit-learn's to keep, and sorted ones do not suffer by it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 20))
    y = np.sort((X[:, 0] + 0.1 * rng.standard_normal(5000) > 0).astype(int))
    X[y == 1, 1] += 1.0
    problem = problems.linear(X, y, alpha=0.001)
    assert row_arrays.windows(problem.rows, problem.n_rows) == (0, 1)
    small = row_arrays.SAGA_NEIGHBOURS, row_arrays.SAGA_ABREAST
    assert row_arrays.windows(problem.rows, problem.n_rows, neighbours=True) == small

    def objective(epochs, seed=0, **run):
        report = solve(problem, rule=SAGA(), stop=Stop(epochs=epochs), seed=seed, **run)
        assert sum(w["rows"] for w in report.workers) == epochs * 5000
        return problem.objective(report.model.coef, report.model.intercept)

    best, windows = objective(60), sum(objective(6, seed) for seed in range(5)) / 5
    assert objective(6, runtime="threads", n_workers=2) < 1.01 * best
    seams.sizes.saga = 5001
    assert row_arrays.windows(problem.rows, problem.n_rows, neighbours=True) == (0, 1)
    random = sum(objective(6, seed) for seed in range(5)) / 5
    assert windows - best < 3.0 * (random - best)


@pytest.mark.parametrize("rule", [SGD(), SDCA(), SAGA()], ids=lambda rule: type(rule).__name__)
def test_rows_that_are_not_shuffled_are_read_in_order_however_many(seams, rule):
    """Not in windows, whose scratch is not the rows' order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4096, 5))
    problem = problems.linear(X, X[:, 0] > 0.0, alpha=0.01)
    run = {"rule": rule, "stop": Stop(epochs=2), "shuffle": False, "seed": 0}
    usual = solve(problem, **run).model
    assert problem.objective(usual.coef, usual.intercept) < 0.3
    seams.sizes.cached = 1000
    np.testing.assert_array_equal(solve(problem, **run).model.coef, usual.coef)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_larger_than_the_caches_are_read_with_their_neighbours(seams, sparse):
    """Sorted by class, too: the model is as good as with rows in wholly random order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 20)).astype(np.float32)
    y = np.sort((X[:, 0] + 0.1 * rng.standard_normal(2000) > 0).astype(int))
    X[y == 1, 1] += 1.0
    problem = problems.linear(sp.csr_matrix(X) if sparse else X, y, alpha=0.01)
    assert row_arrays.windows(problem.rows, problem.n_rows) == (0, 1)
    usual = solve(problem, seed=0)
    seams.sizes.cached = 1000
    assert row_arrays.windows(problem.rows, problem.n_rows) == (
        row_arrays.NEIGHBOURS,
        row_arrays.ABREAST,
    )
    for rule, expected in ((SGD(), (8, 0)), (SAGA(), (8, 0)), (SDCA(), (10, 1))):
        plan = cases.session(problem, rule=rule, n_workers=3).plan
        assert (plan.abreast, plan.interleaved) == expected, (
            "only what SDCA remembers has to be mixed"
        )
    for run in ({}, {"runtime": "threads", "n_workers": 2}, {"rule": SDCA()}, {"rule": SAGA()}):
        report = solve(problem, seed=0, **run)
        assert sum(w["rows"] for w in report.workers) == 10 * 2000
        assert problem.objective(
            report.model.coef, report.model.intercept
        ) < 1.02 * problem.objective(usual.model.coef, usual.model.intercept)
        assert (report.model.coef != usual.model.coef).any()
