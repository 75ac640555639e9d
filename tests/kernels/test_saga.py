"""SAGA against its twin, and that its average stays the mean of its table."""

import cases
import naive
import numpy as np
import pytest

from hogshare.engine.rules import SAGA
from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.saga import norms_of
from hogshare.planes.shared import Shared, feature_rarity

FORMS = [("dense", "float32"), ("dense", "float64"), ("csr", "float32"), ("csr64", "float64")]
PENALTIES = {
    "l2": {"alpha": 0.05},
    "l1": {"penalty": "l1", "alpha": 0.02},
    "elasticnet": {"penalty": "elasticnet", "alpha": 0.05, "l1_ratio": 0.3},
    "none": {"penalty": None, "alpha": 0.7},
}


def table_of(session, n_columns):
    return session.shared.gradients.reshape(-1, n_columns).astype(float)


def alone(problem, X, Y, weight, epochs=3):
    run = {"rule": SAGA(), "stop": Stop(epochs=epochs), "seed": 7}
    session = cases.session(problem, **run)
    state, columns = naive.SagaState.zeros(X.shape[1], Y.shape[1]), cases.twin_columns(session)
    table, order, history = np.zeros_like(Y), list(range(len(X))), []
    rarity = feature_rarity(problem).astype(float)
    for _ in range(epochs):
        naive.shuffle(order, session.plan.seed)
        state.losses[:] = 0.0
        args = order, table, state, columns, rarity, not problem.is_sparse
        naive.saga_rows(X, Y, weight, session.rule, *args)
        coupled = problem.loss == "multinomial"
        history.append(state.losses.sum() / (len(X) * (1 if coupled else Y.shape[1])))
    cases.run(session)
    close = {k: 5.0 * v for k, v in cases.tolerance(problem.dtype).items()}
    np.testing.assert_allclose(session.shared.history[:epochs], history, rtol=1e-3)
    model = session.model()
    np.testing.assert_allclose(model.coef.T, state.w, **close)
    np.testing.assert_allclose(model.intercept, state.intercept, **close)
    np.testing.assert_allclose(table_of(session, Y.shape[1]), table, **close)
    np.testing.assert_allclose(
        session.shared.average.reshape(-1, Y.shape[1]), state.average, **close
    )


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_one_worker_equals_the_twin(form, dtype, columns, penalty):
    alone(*cases.problem(form, dtype, columns, weighted=True, **PENALTIES[penalty]))


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_coupled_columns(form, dtype, penalty):
    settings = {"loss": "multinomial", "weighted": True, **PENALTIES[penalty]}
    alone(*cases.problem(form, dtype, 3, **settings))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["squared_hinge", "modified_huber"])
def test_smooth_losses(loss, fit_intercept):
    alone(*cases.problem("csr", "float64", loss=loss, alpha=0.05, fit_intercept=fit_intercept))


@pytest.mark.parametrize("loss", ["squared_error", "huber", "squared_epsilon_insensitive"])
def test_regressions(loss):
    alone(*cases.problem("csr", "float64", task="regression", loss=loss, alpha=0.05))


@pytest.mark.parametrize("n_workers", [1, 2, 3])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_at_rest_the_average_is_the_mean_of_the_table(form, dtype, columns, n_workers):
    problem, X, _, _ = cases.problem(form, dtype, columns, alpha=0.05, weighted=True)
    run = {"rule": SAGA(), "plane": Shared(exchange=3), "stop": Stop(epochs=4)}
    session = cases.run(cases.session(problem, n_workers=n_workers, **run), blocks=1)
    table = table_of(session, columns)
    assert (table != 0.0).any(axis=1).all()
    average = session.shared.average.reshape(-1, columns)
    np.testing.assert_allclose(
        average, X.T @ table / len(X), atol=1e-7 if dtype == "float32" else 1e-15
    )
    mean = (
        session.shared.dual_mean
        if n_workers > 1
        else session.worker(0).private.local[layout.L_DUAL_MEAN]
    )
    np.testing.assert_allclose(mean, table.mean(axis=0), atol=1e-7 if dtype == "float32" else 1e-15)


@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_norms(form, dtype):
    problem, X, _, _ = cases.problem(form, dtype)
    norms = np.square(X).sum(axis=1)
    for every in (1, 4):
        expected = norms[::every].mean(), norms[::every].max()
        np.testing.assert_allclose(norms_of(problem.rows, every), expected, rtol=1e-6)
