"""SAGA against its twin, and that its average stays the mean of its table."""

import dataclasses
import threading

import cases
import naive
import numpy as np
import pytest

from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.kernels.rows.moments import norms_of
from hogshare.kernels.schedule import epoch_schedule
from hogshare.planes.shared import Shared, feature_rarity
from hogshare.rules import SAGA

PENALTIES = {
    "l2": {"alpha": 0.05},
    "l1": {"penalty": "l1", "alpha": 0.02},
    "elasticnet": {"penalty": "elasticnet", "alpha": 0.05, "l1_ratio": 0.3},
    "none": {"penalty": None, "alpha": 0.7},
}


def table_of(session, n_columns):
    return session.memory.gradients.reshape(-1, n_columns).astype(float)


def rule_in(rule, epoch):
    """Of losses with kinks the step falls from epoch to epoch too, and from the ninth on not."""
    if naive.LOSS_NAMES[rule.loss] not in naive.KINKED or rule.falls == 0:
        return rule
    step = rule.saga_step * min(epoch + 1, rule.falls) ** (-1.0 / 3.0)
    return rule._replace(saga_step=step, level=rule.level if epoch < rule.falls else 1.0)


def alone(problem, X, Y, weight, epochs=3, plane=None, rule=None):
    run = {"rule": rule or SAGA(), "stop": Stop(epochs=epochs), "seed": 7, "plane": plane}
    session = cases.session(problem, **run)
    state, columns = naive.SagaState.zeros(X.shape[1], Y.shape[1]), cases.twin_columns(session)
    table, order, history = np.zeros_like(Y), list(range(len(X))), []
    rarity = feature_rarity(problem).astype(float)
    for epoch in range(epochs):
        naive.shuffle(order, session.plan.seed)
        state.losses[:] = 0.0
        args = order, table, state, columns, rarity, not problem.is_sparse
        now = {"first": epoch == 0, "divisors": problem.divisors}
        naive.saga_rows(X, Y, weight, rule_in(session.rule, epoch), *args, **now)
        coupled = problem.loss == "multinomial"
        history.append(state.losses.sum() / (len(X) * (1 if coupled else Y.shape[1])))
    cases.run(session)
    close = {k: 5.0 * v for k, v in cases.tolerance(problem.dtype).items()}
    np.testing.assert_allclose(session.schedule.history[:epochs], history, rtol=1e-3)
    model = session.model()
    np.testing.assert_allclose(model.coef.T, state.w, **close)
    np.testing.assert_allclose(model.intercept, state.intercept, **close)
    np.testing.assert_allclose(table_of(session, Y.shape[1]), table, **close)
    np.testing.assert_allclose(
        session.memory.average.reshape(-1, Y.shape[1]), state.average, **close
    )


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_one_worker_equals_the_twin(form, dtype, columns, penalty):
    alone(*cases.problem(form, dtype, columns, weighted=True, **PENALTIES[penalty]))


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("columns", [1, 3])
def test_the_penalty_is_on_columns_as_they_were(columns, penalty):
    settings = {"weighted": True, **PENALTIES[penalty]}
    problem, *rest = cases.problem("dense", np.float64, columns, **settings)
    units = np.geomspace(0.1, 30.0, problem.n_features)
    alone(dataclasses.replace(problem, divisors=units), *rest)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_coupled_columns(form, dtype, penalty):
    settings = {"loss": "multinomial", "weighted": True, **PENALTIES[penalty]}
    alone(*cases.problem(form, dtype, 3, **settings))


@pytest.mark.parametrize("adds", ["plain", "atomic"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(
    ("columns", "loss"), [(1, "log_loss"), (3, "log_loss"), (3, "multinomial")]
)
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_lock_free_equals_the_twin(form, dtype, columns, loss, penalty, adds):
    data = cases.problem(form, dtype, columns, loss=loss, weighted=True, **PENALTIES[penalty])
    alone(*data, plane=Shared(exchange=None, adds=adds))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["squared_hinge", "modified_huber"])
def test_smooth_losses(loss, fit_intercept):
    alone(*cases.problem("csr", "float64", loss=loss, alpha=0.05, fit_intercept=fit_intercept))


@pytest.mark.parametrize("loss", ["squared_error", "huber", "squared_epsilon_insensitive"])
def test_regressions(loss):
    alone(*cases.problem("csr", "float64", task="regression", loss=loss, alpha=0.05))


@pytest.mark.parametrize(
    ("columns", "plane", "rule"),
    [(1, None, SAGA()), (3, None, SAGA(step=0.2)), (3, Shared(exchange=None), SAGA())],
    ids=["one", "a step that is given", "lock-free"],
)
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_losses_with_kinks(form, dtype, columns, plane, rule):
    data = cases.problem(form, dtype, columns, loss="hinge", weighted=True, alpha=0.05)
    alone(*data, epochs=9, plane=plane, rule=rule)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_targets_and_their_kinks(penalty, fit_intercept):
    settings = {"loss": "epsilon_insensitive", "fit_intercept": fit_intercept}
    settings.update(PENALTIES[penalty])
    alone(*cases.problem("csr", "float64", task="regression", **settings), epochs=9)


def check_average(session, X, columns):
    """Whether the average is the mean of the table, to rounding: both are sums in float64."""
    table = table_of(session, columns)
    assert (table != 0.0).any(axis=1).all()
    average = session.memory.average.reshape(-1, columns)
    np.testing.assert_allclose(average, X.T @ table / len(X), rtol=1e-9, atol=1e-14)
    mean = session.memory.dual_mean
    if session.plan.private == epoch_schedule.ALONE:
        mean = session.worker(0).private.local[layout.L_DUAL_MEAN]
    np.testing.assert_allclose(mean, table.mean(axis=0), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("exchange", [3, None])
@pytest.mark.parametrize("n_workers", [1, 2, 3])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_at_rest_the_average_is_the_mean_of_the_table(form, dtype, columns, n_workers, exchange):
    problem, X, _, _ = cases.problem(form, dtype, columns, alpha=0.05, weighted=True)
    run = {"rule": SAGA(), "plane": Shared(exchange=exchange), "stop": Stop(epochs=4)}
    session = cases.run(cases.session(problem, n_workers=n_workers, **run), blocks=1)
    check_average(session, X, columns)


@pytest.mark.parametrize("plane", [Shared(exchange=5), Shared(exchange=None)])
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_the_same_holds_after_real_races(dtype, plane):
    """Four threads on 23 rows meet on rows and on coordinates all the time."""
    problem, X, _, _ = cases.problem("csr", dtype, 3, alpha=0.05, weighted=True)
    # Python's threads take turns of milliseconds, and races are few however long they run
    run = {"rule": SAGA(), "plane": plane, "stop": Stop(epochs=30 if JIT_DISABLED else 3000)}
    session = cases.session(problem, n_workers=4, **run)
    workers = [session.worker(k) for k in range(4)]

    def work(worker):
        while worker.run_quantum(10_000) != layout.QUANTUM_DONE:
            pass
        worker.leave()

    assert all(w.join() for w in workers)
    threads = [threading.Thread(target=work, args=(w,)) for w in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_average(session, X, 3)


@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_norms(form, dtype):
    problem, X, _, _ = cases.problem(form, dtype)
    norms = np.square(X).sum(axis=1)
    for every in (1, 4):
        expected = norms[::every].mean(), norms[::every].max()
        np.testing.assert_allclose(norms_of(problem.rows, every), expected, rtol=1e-6)
