"""Dual coordinate ascent against its twin, alone and with several workers; its sum."""

import cases
import naive
import numpy as np
import pytest

from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.schedule import epoch_schedule
from hogshare.planes.shared import Shared
from hogshare.rules import SDCA

PENALTIES = {"l2": {}, "elasticnet": {"penalty": "elasticnet", "l1_ratio": 0.3}}
CLASSIFICATION = ["log_loss", "hinge", "squared_hinge", "modified_huber"]
REGRESSION = ["squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive"]


def dual_of(session, n_columns):
    table = session.memory.dual.reshape(-1, 1 + n_columns)
    return table[:, 1:].astype(float)


def compare(session, states, dual, dtype, coef, intercept):
    close = {k: 5.0 * v for k, v in cases.tolerance(dtype).items()}
    # curvature is float32, and so are the weights of an exchange
    close["rtol"] = max(close["rtol"], 1e-6) if len(states) > 1 else close["rtol"]
    close["atol"] = max(close["atol"], 1e-7) if len(states) > 1 else close["atol"]
    model = session.model()
    np.testing.assert_allclose(model.coef.T, coef, **close)
    np.testing.assert_allclose(model.intercept, intercept, **close)
    np.testing.assert_allclose(dual_of(session, coef.shape[1]), dual, **close)


def alone(problem, X, Y, weight, epochs=3):
    run = {"rule": SDCA(), "stop": Stop(epochs=epochs), "seed": 7}
    session = cases.session(problem, **run)
    state, columns = naive.DualState.zeros(X.shape[1], Y.shape[1]), cases.twin_columns(session)
    dual, order, history = np.zeros_like(Y), list(range(len(X))), []
    for epoch in range(epochs):
        naive.shuffle(order, session.plan.seed)
        state.losses[:] = 0.0
        first = epoch == 0
        naive.dual_rows(X, Y, weight, session.rule, order, dual, state, columns, first)
        history.append(state.losses.mean() / len(X))
    cases.run(session)
    np.testing.assert_allclose(session.schedule.history[:epochs], history, rtol=1e-3)
    coef = naive.soft(state.v, session.rule.threshold)
    compare(session, [state], dual, problem.dtype, coef, state.intercept)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_one_worker_equals_the_twin(form, dtype, columns, penalty):
    # an alpha at which every row is short: the log loss takes its closed step
    settings = {"alpha": 6.0, "weighted": True, **PENALTIES[penalty]}
    alone(*cases.problem(form, dtype, columns, **settings))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", [*CLASSIFICATION[1:], *REGRESSION])
def test_every_loss_equals_the_twin(loss, fit_intercept):
    task = "regression" if loss in REGRESSION else "classification"
    settings = {"loss": loss, "alpha": 0.05, "weighted": True, "fit_intercept": fit_intercept}
    alone(*cases.problem("csr", "float64", task=task, **settings))


def interleaved(problem, X, Y, weight, n_workers):
    """Workers take turns of one block; the twin exchanges after the same rows."""
    run = {"rule": SDCA(), "plane": Shared(exchange=3), "stop": Stop(epochs=3), "seed": 7}
    session = cases.session(problem, n_workers=n_workers, **run)
    rule, plan = session.rule, session.plan
    assert plan.private == epoch_schedule.EXCHANGE
    workers = [session.worker(k) for k in range(n_workers)]
    assert all(w.join() for w in workers)
    shape = X.shape[1], Y.shape[1]
    shared, intercept, mean = np.zeros(shape), np.zeros(shape[1]), np.zeros(shape[1])
    states = [naive.DualState.zeros(*shape) for _ in workers]
    for k, state in enumerate(states):  # as many as have joined by then
        state.stretch = naive.stretch_now(rule.stretch, k + 1, k + 1)
    bases = [(shared, intercept, mean) for _ in workers]
    columns, dual = cases.twin_columns(session), np.zeros_like(Y)
    decay = rule.alpha * (1.0 - rule.l1_ratio)
    curvature = session.vector.curvature.astype(float)[:, None] + decay
    bias_curvature = session.vector.intercept_curvature[0]
    rows_since, version = [0] * n_workers, 0
    seen, staleness = [0] * n_workers, [n_workers - 1] * n_workers

    def push(k, n_live, last=False):
        nonlocal shared, intercept, mean, version
        s, behind = states[k], version - seen[k]
        count = 1 if last else naive.proposals(behind, staleness[k], n_live)
        args = s.eta, rows_since[k], count
        version += 1
        after = naive.stretch_now(
            rule.stretch, naive.proposals(behind, staleness[k], n_live), n_live
        )
        shared, s.v = naive.fold_and_keep(
            shared, s.v, bases[k][0], curvature, *args, s.stretch, after
        )
        s.stretch = after
        intercept = naive.fold_intercept(intercept, s.intercept, bases[k][1], bias_curvature, *args)
        mean = mean + s.mean - bases[k][2]
        s.v, s.intercept, s.mean = s.v.copy(), intercept.copy(), mean.copy()
        bases[k] = shared, intercept, mean
        seen[k], staleness[k] = version, behind
        rows_since[k] = 0

    ticket, order = 0, list(range(len(X)))
    while session.word(layout.STOP) == layout.RUNNING:
        for k, worker in enumerate(workers):
            before = session.word(layout.COMPLETED)
            worker.run_quantum(1)
            if session.word(layout.COMPLETED) == before:
                continue
            block = ticket % plan.n_blocks
            if block == 0:
                naive.shuffle(order, plan.seed)
            first = block * plan.block_rows
            for i, r in enumerate(order[first : first + plan.block_rows], first):
                args = dual, states[k], columns, ticket < plan.n_blocks, i
                naive.dual_rows(X, Y, weight, rule, [r], *args)
                rows_since[k] += 1
                if rows_since[k] == plan.interval:
                    push(k, n_workers)
            ticket += 1
    for k, worker in enumerate(workers):
        worker.leave()
        push(k, n_workers - k, last=True)
    return session, states, dual, shared, intercept


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("n_workers", [2, 3])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_exchange_equals_the_twin(form, dtype, columns, n_workers, penalty):
    settings = {"alpha": 6.0, "weighted": True, **PENALTIES[penalty]}
    problem, X, Y, weight = cases.problem(form, dtype, columns, **settings)
    session, states, dual, shared, intercept = interleaved(problem, X, Y, weight, n_workers)
    coef = naive.soft(shared, session.rule.threshold)
    compare(session, states, dual, dtype, coef, intercept)
    # what the exchange is for: the vector is still the sum of the dual variables
    total = X.T @ dual / session.rule.dual_scale
    np.testing.assert_allclose(shared, total, atol=1e-12)


def test_the_sum_is_restored_from_the_rows():
    problem, X, _, _ = cases.problem("csr", "float64", 3, alpha=0.1)
    session = cases.run(cases.session(problem, rule=SDCA(), n_workers=2))
    whole = session.vector.w.copy()
    session.vector.w[:] = 5.0
    session.restore_sums()
    assert (session.vector.w == 5.0).all(), "nobody has died"
    session.schedule.table[1, layout.T_STATE] = layout.DEAD
    session.restore_sums()
    np.testing.assert_allclose(session.vector.w, whole, atol=1e-12)
    mean = dual_of(session, 3).mean(axis=0)
    np.testing.assert_allclose(session.memory.dual_mean, mean, atol=1e-12)
    total = X.T @ dual_of(session, 3) / session.rule.dual_scale
    np.testing.assert_allclose(whole.reshape(-1, 3), total, atol=1e-12)


def test_scores_of_held_out_rows_are_those_of_the_model_with_zeros():
    validation = np.arange(23) % 3 == 0
    problem, X, Y, weight = cases.problem("csr", "float64", 3, **PENALTIES["elasticnet"], alpha=0.2)
    stop = Stop(epochs=1, tol=1e-3, patience=2, validation=validation)
    session = cases.run(cases.session(problem, rule=SDCA(), stop=stop))
    model = session.model()
    assert (model.coef == 0.0).any()
    P = X[validation] @ model.coef.T + model.intercept
    expected = naive.accuracy(P, Y[validation], weight[validation])
    np.testing.assert_allclose(-session.schedule.columns[layout.C_BEST], expected, rtol=1e-12)
    assert session.rule.dual_rows == (~validation).sum()
