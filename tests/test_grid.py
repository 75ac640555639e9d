"""The grid: any number of workers, in any runtime, gives the bits of one."""

import itertools
import os
import signal
import warnings

import naive
import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import (
    SGD,
    SSP,
    Adam,
    Grid,
    MatrixFactorization,
    Shared,
    Simulator,
    StepSize,
    Stop,
    problems,
    solve,
)
from hogshare.estimators import rating_passes
from hogshare.runtimes.processes import WorkerDied
from hogshare.stragglers import Stragglers

N_USERS, N_ITEMS, N = 120, 90, 6000
RUN = {"plane": Grid(), "step": StepSize("invscaling", 0.03, 0.5), "stop": 8, "seed": 3}
WORKERS = [
    *(("threads", n) for n in (1, 2, 3, 4)),
    *(("processes", n) for n in (2, 3)),
    *((Simulator(seed=n), n) for n in (2, 4)),
]


def made(loss="squared_error", **settings):
    rng = np.random.default_rng(0)
    users = np.minimum(rng.geometric(0.03, size=N), N_USERS) - 1  # some have most ratings
    items = rng.integers(N_ITEMS, size=N)
    P, Q = rng.normal(size=(N_USERS, 2)), rng.normal(size=(N_ITEMS, 2))
    ratings = (P[users] * Q[items]).sum(axis=1) + 0.3 * rng.normal(size=N)
    values = (ratings > 0.0).astype(float) if loss == "logistic" else ratings
    return problems.factorisation(users, items, values, n_factors=3, loss=loss, **settings)


class Slow(Stragglers):
    """Workers of very different speed."""

    def lateness(self, worker, block, n_workers, mean):
        return 1e-4 * ((7 * worker + 3 * block) % 5)


class Deadly(Stragglers):
    """Worker 1 is killed with a cell in hand of which it has not begun."""

    def lateness(self, worker, block, n_workers, mean):
        if worker == 1 and block == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0.0


@pytest.mark.parametrize(
    ("stated", "run"),
    [
        ({}, {}),
        ({"dtype": np.float64}, {"shuffle": False}),
        ({"loss": "logistic", "biases": False}, {"step": StepSize("adaptive", 0.05)}),
        ({"nonnegative": True}, {"stop": Stop(epochs=40, tol=2e-3, patience=1)}),
    ],
    ids=["shuffled", "as they stand", "adaptive", "tol"],
)
def test_the_bits_are_those_of_one_worker(stated, run):
    problem = made(**stated)
    settings = {**RUN, **run}
    one = solve(problem, runtime="caller", **settings)
    assert problem.objective(one.model.params) < problem.objective(problem.start())
    for runtime, n in WORKERS:
        report = solve(problem, runtime=runtime, n_workers=n, **settings)
        where = repr(runtime), n
        np.testing.assert_array_equal(report.model.params, one.model.params, str(where))
        np.testing.assert_array_equal(report.epoch_losses, one.epoch_losses, str(where))
        assert report.n_epochs == one.n_epochs and report.stop_reason == one.stop_reason


def test_a_fit_is_the_same_with_any_number_of_workers():
    rng = np.random.default_rng(1)
    users, items = rng.integers(40, size=3000), rng.integers(30, size=3000)
    values = rng.normal(size=3000)
    settings = {"n_factors": 2, "max_iter": 6, "random_state": 0}
    one, *others = (
        MatrixFactorization(n_jobs=n, runtime=runtime, **settings).fit(users, items, values)
        for n, runtime in ((1, "caller"), (2, "threads"), (3, "threads"), (2, "processes"))
    )
    assert one.report_.plane["name"] == "Grid"
    for other in others:
        for name in ("user_factors_", "item_factors_", "user_biases_", "item_biases_"):
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name))


def test_steps_are_those_of_the_twin_cell_by_cell():
    problem = made(dtype=np.float64, alpha=0.5)
    run = {**RUN, "step": 0.03, "stop": 1, "shuffle": False}
    w, _ = naive.factor_steps(problem.start(), problem.ratings, np.arange(N), 0.03)
    got = solve(problem, runtime="threads", n_workers=3, **run).model.params
    np.testing.assert_allclose(got, w, rtol=1e-9, atol=1e-12)


def test_shuffled_epochs_begin_elsewhere_in_each_cell():
    problem = made()
    models = [solve(problem, shuffle=s, **RUN).model.params for s in (False, True)]
    models.append(solve(problem, **{**RUN, "seed": 4}).model.params)
    assert all((a != b).any() for a, b in itertools.combinations(models, 2))
    objectives = [problem.objective(model) for model in models]
    np.testing.assert_allclose(objectives, objectives[0], rtol=0.02)


@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize(
    "more", [{"stragglers": Slow(base=1e-4)}, {"barrier": SSP(1)}], ids=["slow", "ssp"]
)
def test_late_workers_and_barriers_change_nothing(runtime, more):
    problem = made()
    run = {**RUN, "stop": 3}
    one = solve(problem, **run).model.params
    report = solve(problem, runtime=runtime, n_workers=3, **run, **more)
    np.testing.assert_array_equal(report.model.params, one)
    assert sum(worker["blocks"] for worker in report.workers) == 3 * 16


def test_a_cell_that_a_dead_worker_had_not_begun_is_anothers():
    problem = made()
    run = {**RUN, "stop": 20}
    one = solve(problem, **run).model.params
    with pytest.warns(WorkerDied):
        report = solve(
            problem, runtime="processes", n_workers=3, stragglers=Deadly(base=0.01), **run
        )
    np.testing.assert_array_equal(report.model.params, one)


def test_a_checkpoint_goes_on_with_other_workers(tmp_path):
    problem, file = made(), tmp_path / "run"
    whole = solve(problem, **RUN).model.params
    first = {**RUN, "stop": 3, "checkpoint": file}
    solve(problem, runtime="threads", n_workers=2, **first)
    report = solve(problem, runtime="threads", n_workers=3, **RUN, resume=file)
    np.testing.assert_array_equal(report.model.params, whole)


def test_traces_and_epoch_ends_see_the_model():
    problem, seen = made(), []
    report = solve(
        problem,
        runtime="threads",
        n_workers=2,
        trace=4,
        on_epoch=lambda epoch, snapshot: seen.append(epoch) or False,
        **RUN,
    )
    assert report.trace.objective[-1] < report.trace.objective[0]
    assert seen and sum(worker["rows"] for worker in report.workers) == 8 * N


def test_steps_too_long_are_a_divergence():
    with pytest.raises(ValueError, match="a smaller eta0 than 30 might help"):
        solve(made(), runtime="threads", n_workers=2, **{**RUN, "step": 30.0})


@pytest.mark.parametrize(
    ("problem", "settings", "told"),
    [
        (problems.linear(np.eye(4), [0, 1, 0, 1]), {}, "whose rows are in cells"),
        (problems.user(lambda w, rows, out: 0.0, 4, 2), {"step": 0.1}, "are in cells"),
        (made(), {"rule": Adam(), "step": 0.1}, "Adam.* takes other steps"),
        (made(), {"rule": SGD(momentum=0.5), "step": 0.1}, "takes other steps"),
        (made(), {"block": 100, "step": 0.1}, "leave out block=100"),
        (made(), {"record": True, "step": 0.1}, "leave record=True out"),
    ],
)
def test_what_has_no_cells_is_refused(problem, settings, told):
    with pytest.raises(ValueError, match=told):
        solve(problem, plane="grid", n_workers=2, runtime="threads", **settings)


def test_hogwild_and_copies_can_be_chosen():
    problem = made()
    best = problem.objective(solve(problem, **RUN).model.params)
    for plane in (Shared(exchange=None), Shared()):
        run = {**RUN, "plane": plane, "runtime": "threads", "n_workers": 2}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            params = solve(problem, **run).model.params
        assert problem.objective(params) < 1.2 * best


@pytest.mark.parametrize("loss", ["squared_error", "logistic"])
def test_what_is_found_before_a_fit_is_the_same_by_threads(monkeypatch, loss):
    rng = np.random.default_rng(1)
    users, items = rng.integers(40, size=3000), rng.integers(30, size=3000)
    values = rng.random(3000)
    settings = {"n_factors": 2, "max_iter": 5, "random_state": 0, "loss": loss, "n_jobs": 2}
    one = MatrixFactorization(runtime="threads", **settings).fit(users, items, values)
    monkeypatch.setattr(rating_passes, "WORTH_THREADS", 0)
    two = MatrixFactorization(runtime="threads", **settings).fit(users, items, values)
    assert one.alpha_ == two.alpha_
    np.testing.assert_array_equal(one.user_biases_, two.user_biases_)
    np.testing.assert_array_equal(one.item_factors_, two.item_factors_)


@pytest.mark.parametrize("kind", [np.int64, np.uint16])
def test_pairs_are_those_of_scipy(kind):
    rng = np.random.default_rng(2)
    users, items = rng.integers(9, size=300).astype(kind), rng.integers(50, size=300).astype(kind)
    entries = np.ones(300), (users, items)
    expected = sp.coo_array(entries, shape=(12, 55)).tocsr()  # with lines that nobody has
    got = rating_passes.pairs_of(users, items, (12, 55))
    np.testing.assert_array_equal(got.toarray(), expected.toarray() > 0.0)
    assert got.nnz == expected.nnz < 300 and got.dtype == np.uint8
    assert got.has_canonical_format and (got.data == 1).all()
    assert all((np.diff(row.indices) > 0).all() for row in got)
    assert rating_passes.pairs_of(users[:0], items[:0], (3, 4)).nnz == 0
