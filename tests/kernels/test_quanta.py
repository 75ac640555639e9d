"""Turns of one worker against the twins: the row kernels, the order, the epochs, the criterion."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import cases
import naive
import numpy as np
import pytest

from hogshare.barriers import BSP, PSSP, SSP, Throttled
from hogshare.engine.loop import worker_loop
from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.exchange.master_updates import OVER
from hogshare.kernels.jit.decorators import BOUNDSCHECK, JIT_DISABLED
from hogshare.kernels.schedule import block_claims, epoch_schedule, repair
from hogshare.planes.master import Master
from hogshare.planes.shared import Shared, feature_rarity
from hogshare.rules import SGD
from hogshare.rules.steps import StepSize
from hogshare.runtimes.driver import drive
from hogshare.runtimes.monitor import Monitor

FORMS = cases.FORMS if BOUNDSCHECK else cases.EVERY_FORM

# problem settings, then what of the run differs from three epochs of constant steps
RULES = {
    "no penalty": ({"penalty": None}, {}),
    "l2": ({"alpha": 0.01}, {}),
    "l1": ({"penalty": "l1", "alpha": 0.01}, {}),
    "elasticnet": ({"penalty": "elasticnet", "alpha": 0.02, "l1_ratio": 0.4}, {}),
    "huge alpha": ({"alpha": 50.0}, {}),
    "weights": ({"weighted": True}, {}),
    "no intercept": ({"fit_intercept": False}, {}),
    "average": ({"alpha": 0.01}, {"rule": SGD(average=1)}),
    "late average": ({"alpha": 0.01}, {"rule": SGD(average=30)}),
    "average of l1": ({"penalty": "elasticnet", "alpha": 0.02}, {"rule": SGD(average=True)}),
    "optimal": ({"alpha": 0.01}, {"step": StepSize("optimal")}),
    "invscaling": ({}, {"step": StepSize("invscaling", eta0=0.3, power_t=0.25)}),
    "adaptive": (
        {"alpha": 0.01},
        {"step": StepSize("adaptive", eta0=0.9), "stop": Stop(epochs=8, tol=0.05, patience=1)},
    ),
    "tol": ({"alpha": 0.01}, {"stop": Stop(epochs=30, tol=0.01, patience=2)}),
    "hinge": ({"loss": "hinge"}, {}),
    "perceptron": ({"loss": "perceptron"}, {}),
    "modified_huber": ({"loss": "modified_huber"}, {}),
    "squared_hinge": ({"loss": "squared_hinge"}, {}),
    "multinomial": ({"loss": "multinomial", "alpha": 0.01}, {}),
    "multinomial, all of it": (
        {"loss": "multinomial", "penalty": "elasticnet", "alpha": 0.02, "weighted": True},
        {
            "rule": SGD(average=10),
            "step": StepSize("adaptive", eta0=0.9),
            "stop": Stop(epochs=8, tol=0.05, patience=1),
        },
    ),
    "pa1": ({"loss": "hinge", "penalty": None}, {"step": StepSize("pa1", eta0=0.4)}),
    "pa2": ({"loss": "hinge", "penalty": None}, {"step": StepSize("pa2", eta0=0.4)}),
    "pa1 and l2": ({"loss": "hinge", "alpha": 0.01}, {"step": StepSize("pa1", eta0=0.4)}),
    "no shuffle": ({}, {"shuffle": False}),
    "later start": ({"alpha": 0.01}, {"first_t": 24.0, "step": StepSize("optimal")}),
}

REGRESSIONS = {
    "squared_error": {},
    "huber": {"epsilon": 0.3},
    "epsilon_insensitive": {},
    "squared_epsilon_insensitive": {"penalty": "l1"},
}


def compare(session, state, columns, history, dtype, loose=1.0):
    """Whether a finished session is where its twin is."""
    close = {k: v * loose for k, v in cases.tolerance(dtype).items()}
    model = session.model()
    np.testing.assert_allclose(model.coef.T, state.coef, **close)
    np.testing.assert_allclose(model.intercept, state.intercept, **close)
    if model.average_coef is not None:
        share = np.maximum(state.count, 1.0)
        np.testing.assert_allclose(model.average_coef.T, state.total / share, **close)
        np.testing.assert_allclose(model.average_intercept, state.total_intercept / share, **close)
    epochs = session.word(layout.EPOCHS)
    assert epochs == len(history)
    np.testing.assert_allclose(session.schedule.history[:epochs], history, **close)
    fields = session.schedule.columns
    np.testing.assert_array_equal(fields[layout.C_EPOCHS], columns.epochs)
    np.testing.assert_array_equal(fields[layout.C_ACTIVE], columns.active)
    np.testing.assert_allclose(fields[layout.C_ETA], columns.eta, rtol=1e-12)
    np.testing.assert_allclose(fields[layout.C_BEST], columns.best, **close)


def run_both(problem, X, Y, weight, run, lock_free=False):
    """The session and its twin, both finished."""
    session = cases.session(problem, **run)
    n_features = X.shape[1]
    state, columns = naive.State.zeros(n_features, Y.shape[1]), cases.twin_columns(session)
    stop = run.get("stop") or Stop()
    held_out = () if stop.validation is None else stop.validation
    rarity = feature_rarity(problem).astype(float) if lock_free else None
    dense = not problem.is_sparse
    history = naive.fit(
        X, Y, weight, session.rule, session.plan, state, columns, held_out, rarity, dense
    )
    cases.run(session)
    return session, state, columns, history


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("name", RULES)
@pytest.mark.quick
def test_one_worker_equals_the_twin(name, columns):
    settings, run = RULES[name]
    data = cases.problem("csr", "float64", columns, **settings)
    compare(*run_both(*data, run), "float64")


@pytest.mark.parametrize(
    "name", ["l2", "elasticnet", "weights", "average", "tol", "pa1", "multinomial"]
)
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_every_form_and_dtype(form, dtype, columns, name):
    settings, run = RULES[name]
    data = cases.problem(form, dtype, columns, **settings)
    compare(*run_both(*data, run), dtype, loose=3.0)


@pytest.mark.parametrize("loss", REGRESSIONS)
@pytest.mark.parametrize(("form", "dtype"), FORMS[1:4])
def test_regressions(form, dtype, loss):
    settings = {"loss": loss, "weighted": True, **REGRESSIONS[loss]}
    data = cases.problem(form, dtype, task="regression", **settings)
    compare(*run_both(*data, {"step": StepSize("invscaling", eta0=0.05)}), dtype, loose=3.0)


@pytest.mark.parametrize("kind", ["pa1", "pa2"])
def test_passive_aggressive_regression(kind):
    data = cases.problem(task="regression", loss="epsilon_insensitive", penalty=None)
    compare(*run_both(*data, {"step": StepSize(kind, eta0=0.4)}), "float64")


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("batch", [1, 4])
def test_lock_free_equals_the_twin(name, batch):
    settings, run = dict(RULES[name][0]), dict(RULES[name][1])
    run["rule"] = SGD(average=getattr(run.get("rule"), "average", 0), batch=batch)
    run["plane"] = Shared(exchange=None)
    data = cases.problem("csr", "float64", 3, **settings)
    compare(*run_both(*data, run, lock_free=True), "float64")


@pytest.mark.parametrize("adds", ["plain", "atomic"])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_lock_free_in_every_form(form, dtype, columns, adds):
    run = {"rule": SGD(average=1, batch=2), "plane": Shared(exchange=None, adds=adds)}
    data = cases.problem(form, dtype, columns, penalty="elasticnet", alpha=0.02, weighted=True)
    compare(*run_both(*data, run, lock_free=True), dtype, loose=3.0)


@pytest.mark.parametrize("form", ["uniform", "support", "unbiased"])
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("name", sorted(set(RULES) - {"pa1", "pa2", "pa1 and l2"}))
def test_writes_of_one_coordinate_equal_the_twin(name, batch, form):
    settings, run = dict(RULES[name][0]), dict(RULES[name][1])
    average = getattr(run.get("rule"), "average", 0)
    run["rule"] = SGD(average=average, batch=batch, coordinate=form)
    run["plane"] = Shared(exchange=None)
    data = cases.problem("csr", "float64", 3, **settings)
    session, *rest = run_both(*data, run, lock_free=True)
    compare(session, *rest, "float64")
    # a push is a write cycle
    cycles = session.word(layout.EPOCHS) * -(-23 // batch)
    assert session.schedule.table[0, layout.T_PUSHES] == cycles


@pytest.mark.parametrize("drawn", ["uniform", "support", "unbiased"])
@pytest.mark.parametrize("adds", ["plain", "atomic"])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("form", "dtype"), cases.FORMS)
def test_writes_of_one_coordinate_in_every_form(form, dtype, columns, adds, drawn):
    rule = SGD(average=1, batch=2, coordinate=drawn)
    run = {"rule": rule, "plane": Shared(exchange=None, adds=adds)}
    data = cases.problem(form, dtype, columns, penalty="elasticnet", alpha=0.02, weighted=True)
    compare(*run_both(*data, run, lock_free=True), dtype, loose=3.0)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None)])
@pytest.mark.parametrize(("form", "dtype"), [("csr", cases.DTYPES[0]), ("dense", "float64")])
def test_scores_of_held_out_rows(form, dtype, plane, columns):
    validation = np.arange(23) % 3 == 0
    run = {"stop": Stop(epochs=6, tol=1e-3, patience=2, validation=validation), "plane": plane}
    data = cases.problem(form, dtype, columns, alpha=0.01, weighted=True)
    both = run_both(*data, run, lock_free=plane.exchange is None)
    compare(*both, dtype, loose=3.0)


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None)])
def test_the_score_of_coupled_columns_is_that_of_the_largest(plane):
    validation = np.arange(23) % 3 == 0
    run = {"stop": Stop(epochs=6, tol=1e-3, patience=2, validation=validation), "plane": plane}
    data = cases.problem("csr", "float64", 3, loss="multinomial", alpha=0.01, weighted=True)
    both = run_both(*data, run, lock_free=plane.exchange is None)
    compare(*both, "float64")
    assert np.ptp(both[0].schedule.columns[layout.C_BEST]) == 0.0


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None)])
def test_r_squared_of_held_out_rows(plane):
    metrics = pytest.importorskip("sklearn.metrics")
    validation = np.arange(23) % 3 == 0
    run = {"stop": Stop(epochs=1, tol=1e-3, validation=validation), "plane": plane}
    problem, X, Y, weight = cases.problem("csr", task="regression", weighted=True)
    session, state, *rest = run_both(problem, X, Y, weight, run, lock_free=plane.exchange is None)
    compare(session, state, *rest, "float64")
    P = X[validation] @ state.coef + state.intercept
    theirs = metrics.r2_score(Y[validation], P, sample_weight=weight[validation])
    assert -session.schedule.columns[layout.C_BEST, 0] == pytest.approx(theirs)


def test_warm_start_goes_on_where_a_run_has_ended():
    """Two runs of one epoch without shuffling equal one of two."""
    problem, *_ = cases.problem(alpha=0.01)
    shared = {"step": StepSize("optimal"), "shuffle": False, "rule": SGD(average=1)}
    whole = cases.run(cases.session(problem, stop=Stop(epochs=2), **shared)).model()
    first = cases.run(cases.session(problem, stop=Stop(epochs=1), **shared)).model()
    second = cases.session(problem, stop=Stop(epochs=1), start=first, first_t=first.t, **shared)
    second = cases.run(second).model()
    assert second.t == whole.t == 1.0 + 2 * problem.n_rows
    np.testing.assert_allclose(second.coef, whole.coef, rtol=1e-12)
    np.testing.assert_allclose(second.average_coef, whole.average_coef, rtol=1e-12)


def test_a_model_that_overflows_ends_the_run():
    problem, *_ = cases.problem(loss="squared_hinge", penalty=None)
    session = cases.session(problem, step=StepSize("constant", eta0=1e300))
    with np.errstate(all="ignore"):
        cases.run(session)
    assert session.word(layout.STOP) == layout.STOPPED_BY_DIVERGENCE


@pytest.mark.parametrize("trace", [0, 1, 3, 23])
@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_every_epoch_ends_however_few_blocks_it_has(epochs, trace):
    """One block per epoch is the edge: its order is prepared by the block that uses it."""
    problem, *_ = cases.problem()
    session = cases.session(problem, stop=Stop(epochs=epochs), trace=trace)
    cases.run(session, blocks=1)
    assert session.word(layout.EPOCHS) == epochs
    assert session.word(layout.COMPLETED) == epochs * session.plan.n_blocks
    assert session.word(layout.STOP) == layout.STOPPED_BY_LIMIT
    assert session.schedule.table[0, layout.T_ROWS] == epochs * problem.n_rows


def test_turns_tell_of_epochs_and_records():
    problem, *_ = cases.problem()
    session = cases.session(problem, stop=Stop(epochs=2), report_epochs=True)
    worker = session.worker(0)
    worker.join()
    answers = [worker.run_quantum(100) for _ in range(3)]
    assert answers == [layout.QUANTUM_EPOCH, layout.QUANTUM_EPOCH, layout.QUANTUM_DONE]
    session = cases.session(problem, stop=Stop(epochs=1), trace=2)
    worker = session.worker(0)
    worker.join()
    answers = [worker.run_quantum(100) for _ in range(3)]
    assert answers == [layout.QUANTUM_RECORD, layout.QUANTUM_RECORD, layout.QUANTUM_DONE]


def test_the_stop_word_ends_a_turn():
    problem, *_ = cases.problem()
    session = cases.session(problem)
    worker = session.worker(0)
    worker.join()
    session.stop()
    assert worker.run_quantum(10) == layout.QUANTUM_DONE
    assert session.word(layout.COMPLETED) == 0
    session.stop(layout.STOPPED_BY_DIVERGENCE)
    assert session.word(layout.STOP) == layout.STOPPED_BY_CALLER, "the first reason stands"


def test_a_look_that_is_out_of_date_does_not_stop_twice(monkeypatch):
    """Between a look at the word and a store somebody else may have stopped the run."""
    problem, *_ = cases.problem()
    session = cases.session(problem)
    session.schedule.control[layout.STOP] = layout.STOPPED_BY_DIVERGENCE
    monkeypatch.setattr(session, "word", lambda place: layout.RUNNING)
    session.stop()
    assert session.schedule.control[layout.STOP] == layout.STOPPED_BY_DIVERGENCE


# -- several workers, taking turns in one thread -----------------------------------------------


def interleaved(problem, X, Y, weight, n_workers, run):
    """Workers take turns of one block; the twin exchanges after the same rows."""
    session = cases.session(problem, n_workers=n_workers, **run)
    rule, plan = session.rule, session.plan
    assert plan.private == epoch_schedule.EXCHANGE
    workers = [session.worker(k) for k in range(n_workers)]
    assert all(w.join() for w in workers)
    start = naive.State.zeros(X.shape[1], Y.shape[1])
    shared, intercept = start.coef.copy(), start.intercept.copy()
    states = [naive.State.zeros(X.shape[1], Y.shape[1]) for _ in workers]
    bases = [(shared.copy(), intercept.copy()) for _ in workers]
    rows_since = [0] * n_workers
    columns = cases.twin_columns(session)
    decay = rule.alpha * (1.0 - rule.l1_ratio) if rule.penalty else 0.0
    curvature = session.vector.curvature.astype(float)[:, None] + decay
    bias_curvature = session.vector.intercept_curvature[0]
    dense = not problem.is_sparse

    version, seen, staleness = 0, [0] * n_workers, [n_workers - 1] * n_workers

    def push(k, n_live):
        nonlocal shared, intercept, version
        s = states[k]
        behind = version - seen[k]
        args = s.eta, rows_since[k], naive.proposals(behind, staleness[k], n_live)
        version += 1
        seen[k], staleness[k] = version, behind
        shared = naive.fold(shared, s.coef, bases[k][0], curvature, *args)
        intercept = naive.fold_intercept(intercept, s.intercept, bases[k][1], bias_curvature, *args)
        s.coef[:], s.intercept[:] = shared, intercept
        bases[k] = shared.copy(), intercept.copy()
        s.reach[:] = 0.0  # what the average holds by now moves with no weight any more
        rows_since[k] = 0

    ticket, order = 0, list(range(len(X)))
    while session.word(layout.STOP) == layout.RUNNING:
        for k, worker in enumerate(workers):
            before = session.word(layout.COMPLETED)
            worker.run_quantum(1)
            if session.word(layout.COMPLETED) == before:
                continue
            epoch, block = divmod(ticket, plan.n_blocks)
            if block == 0:
                naive.shuffle(order, plan.seed)
            first = block * plan.block_rows
            t = rule.first_t + epoch * len(X) + first
            for r in order[first : first + plan.block_rows]:
                naive.sgd_rows(X, Y, weight, rule, [r], t, states[k], columns, dense)
                t += 1
                rows_since[k] += 1
                if rows_since[k] == plan.interval:
                    push(k, n_workers)
            ticket += 1
    for k, worker in enumerate(workers):
        worker.leave()
        push(k, n_workers - k)
    return session, shared, intercept, states


@pytest.mark.parametrize("n_workers", [2, 3])
@pytest.mark.parametrize(
    ("columns", "loss"), [(1, "log_loss"), (3, "log_loss"), (3, "multinomial")]
)
@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_exchange_equals_the_twin(form, dtype, columns, loss, n_workers):
    penalty = {"penalty": "elasticnet", "alpha": 0.02}
    data = cases.problem(form, dtype, columns, loss=loss, weighted=True, **penalty)
    run = {"plane": Shared(exchange=3), "step": StepSize("optimal"), "rule": SGD(average=5)}
    session, shared, intercept, states = interleaved(*data, n_workers, run)
    close = {k: 3.0 * v for k, v in cases.tolerance(dtype).items()}
    # curvature is float32, and so are the weights of a float32 model
    close["rtol"] = max(close["rtol"], 1e-6)
    np.testing.assert_allclose(session.model().coef.T, shared, **close)
    np.testing.assert_allclose(session.model().intercept, intercept, **close)
    # the average is that of all workers' iterates over all their steps
    count = sum(s.count for s in states)
    assert count[0] == 3 * len(data[1]) - 4
    average = sum(s.total for s in states) / count
    np.testing.assert_allclose(session.model().average_coef.T, average, **close)
    average = sum(s.total_intercept for s in states) / count
    np.testing.assert_allclose(session.model().average_intercept, average, **close)
    assert session.schedule.table[:, layout.T_ROWS].sum() == 3 * len(data[1])
    pushes = session.schedule.table[:, layout.T_PUSHES]
    assert pushes.sum() == session.word(layout.VERSION) == session.schedule.staleness.sum()


def test_staleness_is_the_pushes_by_others():
    problem, *_ = cases.problem("csr")
    session = cases.session(problem, n_workers=2, plane=Shared(exchange=1), stop=Stop(epochs=1))
    a, b = session.worker(0), session.worker(1)
    a.join()
    b.join()
    a.run_quantum(1)
    rows = session.plan.block_rows
    b.run_quantum(1)
    expected = np.zeros((2, layout.HISTOGRAM), int)
    expected[0, 0] = rows
    expected[1, naive.staleness_bin(rows)] += 1
    expected[1, 0] += rows - 1
    np.testing.assert_array_equal(session.schedule.staleness, expected)


# -- turns that enter the run and leave it -----------------------------------------------------


def by_turns(session, apart):
    """Workers take turns of two blocks; `apart`: each enters and leaves by calls of their own."""
    workers = [session.worker(k) for k in range(session.settings.n_workers)]
    if not apart:
        session.set_up_quanta(0)
    entered, answers = set(), []
    while workers:
        for worker in list(workers):
            assert worker.enters is not apart
            if apart and worker.me not in entered:
                assert worker.join()
            entered.add(worker.me)
            answers.append(worker.run_quantum(2))
            if answers[-1] == layout.QUANTUM_DONE:
                if apart:
                    worker.leave()
                workers.remove(worker)
    return answers


@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("exchange", ["auto", None])
def test_turns_enter_and_leave_as_calls_of_their_own_do(n_workers, exchange):
    problem, *_ = cases.problem(alpha=0.01)
    run = {"plane": Shared(exchange=exchange), "n_workers": n_workers}
    apart, together = (cases.session(problem, **run) for _ in range(2))
    assert by_turns(apart, True) == by_turns(together, False)
    for name, array in apart.arrays.items():
        other = together.arrays[name]
        if name == "table":
            array[:, layout.T_ENTERS] = 1
            for place in (layout.T_HEARTBEAT, layout.T_JOINED):
                assert (array[:, place] > 0).all() and (other[:, place] > 0).all()
                array[:, place] = other[:, place]
        np.testing.assert_array_equal(array, other, err_msg=name)
    assert together.word(layout.LIVE) == 0
    assert (together.schedule.table[:, layout.T_STATE] == layout.DONE).all()
    assert (together.schedule.table[:, layout.T_PROCESS] > 0).all()


@pytest.mark.parametrize("closed", [True, False])
def test_nobody_enters_a_run_that_is_closed_or_over(closed):
    problem, *_ = cases.problem()
    session = cases.session(problem, n_workers=2)
    session.set_up_quanta(0)
    if closed:
        repair.refuse(session.schedule.table[1])
    else:
        session.stop()
    drive(worker_loop(session.worker(1)))
    row = session.schedule.table[1]
    assert row[layout.T_STATE] == layout.DONE
    assert row[layout.T_PROCESS] == row[layout.T_JOINED] == 0
    for word in (layout.LIVE, layout.COMPLETED, layout.VERSION):
        assert session.word(word) == 0


def test_who_rests_leaves_and_comes_again_by_turns():
    """And does not look for blocks that only the caller can give."""
    problem, *_ = cases.problem()
    session = cases.session(problem, n_workers=2, stop=Stop(epochs=2))
    session.set_up_quanta(1000)
    session.raise_limit(1)
    first, last = session.worker(0), session.worker(1)
    row = session.schedule.table[0]
    assert first.run_quantum(100) == layout.QUANTUM_PAUSE
    assert row[layout.T_STATE] == layout.RESTING and row[layout.T_POLLED] == 0
    assert session.word(layout.LIVE) == 0
    session.raise_limit(2)
    assert first.rejoin() and first.run_quantum(1) == layout.QUANTUM_OVER
    assert session.word(layout.LIVE) == 1
    assert (
        first.run_quantum(100) == layout.QUANTUM_DONE
        and last.run_quantum(1) == layout.QUANTUM_CLOSED
    )
    assert session.word(layout.LIVE) == 0 and row[layout.T_POLLED] == 0


@contextlib.contextmanager
def that_waits(call, *args):
    """A call in another thread that has not come back after a moment."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call, *args)
        with pytest.raises(TimeoutError):
            future.result(0.05)
        yield future


def hold_the_last_block(session, looks):
    """Let worker 1 have the only block that is left in hand."""
    session.set_up_quanta(looks)
    worker = session.worker(0)
    assert worker.run_quantum(session.plan.n_blocks - 1) == layout.QUANTUM_OVER
    table, control = session.schedule.table, session.schedule.control
    table[1, layout.T_BLOCK] = table[0, layout.T_BLOCK] = control[layout.TICKET]
    table[1, layout.T_STATE] = layout.ACTIVE
    control[layout.TICKET] += 1
    return worker


def test_a_wait_has_so_many_looks():
    problem, *_ = cases.problem()
    session = cases.session(problem, n_workers=2, stop=Stop(epochs=1))
    worker = hold_the_last_block(session, 3)
    row = session.schedule.table[0]
    assert worker.run_quantum(1) == layout.QUANTUM_WAIT
    assert row[layout.T_POLLED] == 3 and row[layout.T_STATE] == layout.ACTIVE
    row[layout.T_POLLS] = 1
    assert worker.run_quantum(1) == layout.QUANTUM_WAIT and row[layout.T_POLLED] == 3, (
        "they are spent"
    )
    session.schedule.returned[0] = session.schedule.table[1, layout.T_BLOCK]
    session.schedule.control[layout.RETURNED] = 1
    assert worker.run_quantum(1) == layout.QUANTUM_OVER and row[layout.T_POLLED] == 0, (
        "the next wait's"
    )


@contextlib.contextmanager
def looking_on(n_blocks):
    """A run whose last block worker 1 has in hand, and a turn of worker 0 that looks for it."""
    problem, *_ = cases.problem()
    session = cases.session(problem, n_workers=2, stop=Stop(epochs=1))
    worker = hold_the_last_block(session, 1 << 62)
    with that_waits(worker.run_quantum, n_blocks) as turn:
        try:
            yield session, worker, turn
        finally:
            session.stop()


def held_by(barrier, looks):
    """Worker 0, whom a barrier holds until worker 1, which is in the run, has done a block."""
    problem, *_ = cases.problem()
    session = cases.session(problem, n_workers=3, barrier=barrier, block=3)
    session.set_up_quanta(looks)
    session.schedule.table[1, layout.T_STATE] = layout.ACTIVE
    worker = session.worker(0)
    worker.prepare()
    return session, worker


@pytest.mark.parametrize(
    ("barrier", "blocks"), [(SSP(1), 2), (PSSP(1, 2, hold=True), 3), (Throttled(2), 1)], ids=str
)
def test_a_barrier_is_looked_at_again_for_a_moment(barrier, blocks):
    session, worker = held_by(barrier, 5)
    row = session.schedule.table[0]
    assert worker.run_quantum(5) == layout.QUANTUM_WAIT and row[layout.T_BLOCKS] == blocks
    assert row[layout.T_POLLED] == 5
    waited = row[layout.T_WAITING]
    assert waited > 0, "what a turn waits by itself is waiting"
    assert worker.run_quantum(5) == layout.QUANTUM_WAIT and row[layout.T_WAITING] == waited
    others = session.schedule.table[1]
    others[layout.T_CLOCK] = blocks
    others[layout.T_ARRIVED] = session.word(layout.GENERATION) + 1
    assert worker.run_quantum(1) == layout.QUANTUM_OVER and row[layout.T_BLOCKS] == blocks + 1
    assert row[layout.T_POLLED] == 0


def test_who_has_passed_and_waits_for_a_block_looks_so_often_only_once():
    session, worker = held_by(SSP(1000), 5)
    assert worker.run_quantum(session.plan.n_blocks - 1) == layout.QUANTUM_OVER
    control, table = session.schedule.control, session.schedule.table
    table[1, layout.T_BLOCK] = control[layout.TICKET]  # the last block of the epoch, and the next
    control[layout.TICKET] += 1
    answer = worker.run_quantum(1000)
    assert answer == layout.QUANTUM_WAIT and table[0, layout.T_POLLED] == 5
    waited = table[0, layout.T_WAITING]
    assert worker.run_quantum(1000) == layout.QUANTUM_WAIT and table[0, layout.T_WAITING] == waited


@pytest.mark.parametrize("barrier", [SSP(1), BSP()], ids=str)
def test_a_repair_that_is_wanted_ends_the_looks_of_who_is_held(barrier):
    session, worker = held_by(barrier, 1 << 62)
    repair.ask_for_repair(session.schedule.control)
    assert worker.run_quantum(5) == layout.QUANTUM_WAIT


def test_a_stop_by_the_caller_ends_the_looks_of_workers_in_order():
    session, worker = held_by(BSP(), 1 << 62)
    with that_waits(worker.run_quantum, 5) as turn:
        session.stop()
        assert turn.result(10.0) == layout.QUANTUM_WAIT


def test_who_waits_at_a_barrier_goes_on_in_the_same_turn():
    session, worker = held_by(SSP(1), 1 << 62)
    with that_waits(worker.run_quantum, 3) as turn:
        session.schedule.table[1, layout.T_CLOCK] = 2
        assert turn.result(10.0) == layout.QUANTUM_OVER
    assert session.schedule.table[0, layout.T_BLOCKS] == 3


def test_a_stop_ends_the_looks_at_a_barrier():
    session, worker = held_by(SSP(1), 1 << 62)
    with that_waits(worker.run_quantum, 3) as turn:
        session.stop()
        assert turn.result(10.0) == layout.QUANTUM_WAIT
    assert worker.run_quantum(1) == layout.QUANTUM_DONE


def test_a_barrier_that_draws_anew_is_looked_at_once_a_turn():
    session, worker = held_by(PSSP(1, 2), 5)
    assert worker.run_quantum(5) == layout.QUANTUM_WAIT
    row = session.schedule.table[0]
    assert row[layout.T_BLOCKS] == 3 and row[layout.T_POLLED] == 0


def test_who_waits_for_the_master_goes_on_in_the_same_turn():
    """With both slots full, until a message has been taken."""
    problem, *_ = cases.problem()
    session = cases.session(problem, n_workers=2, plane=Master(), block=3)
    session.set_up_quanta(5)
    session.schedule.table[:, layout.T_HELPS] = 0  # else it takes the mail itself
    worker, master = session.worker(1), session.master()
    assert worker.join()
    assert worker.run_quantum(10) == layout.QUANTUM_WAIT
    row = session.schedule.table[1]
    assert session.mail.box.counters[1, layout.M_POSTED] == 2
    assert row[layout.T_POLLED] == 5 and row[layout.T_WAITING] > 0
    row[layout.T_POLLS], row[layout.T_POLLED] = 1 << 62, 0
    with that_waits(worker.run_quantum, 3) as turn:
        deadline = time.monotonic() + 60.0  # the first call may compile
        while not turn.done() and time.monotonic() < deadline:
            master.serve()
        assert turn.result(10.0) == layout.QUANTUM_OVER
    assert row[layout.T_BLOCKS] == 5


def test_the_master_looks_for_mail_for_a_moment():
    problem, *_ = cases.problem()
    session = cases.session(problem, n_workers=2, plane=Master(), block=3)
    session.set_up_quanta(1 << 62)
    session.schedule.table[:, layout.T_HELPS] = 0  # else who posts takes it itself
    worker, master = session.worker(0), session.master()
    assert worker.join()
    with that_waits(master.serve) as served:
        assert worker.run_quantum(1) == layout.QUANTUM_OVER
        assert served.result(10.0) == 1
    assert master.waited() > 1_000_000, "which is no work"  # a message takes it microseconds
    session.schedule.table[:, layout.T_STATE] = layout.DONE
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(master.serve).result(10.0) == OVER, "nobody is there to write any"


def test_workers_in_order_look_again_for_their_sections():
    problem, *_ = cases.problem()
    session = cases.session(problem, n_workers=2, barrier=BSP())
    assert session.plan.ordered
    session.set_up_quanta(5)
    first, second = session.worker(0), session.worker(1)
    assert first.join() and second.join()
    rows = session.schedule.table[:2]
    assert (
        first.run_quantum(1) == layout.QUANTUM_OVER and second.run_quantum(3) == layout.QUANTUM_WAIT
    )
    assert first.run_quantum(3) == layout.QUANTUM_WAIT, "the second has not folded its block"
    assert rows[:, layout.T_BLOCKS].sum() > 0 and (rows[:, layout.T_POLLED] == 5).any()
    assert (rows[:, layout.T_WAITING] > 0).any()


def test_a_stop_ends_the_looks():
    with looking_on(1) as (session, worker, turn):
        session.stop()
        assert turn.result(10.0) == layout.QUANTUM_WAIT
        assert worker.run_quantum(1) == layout.QUANTUM_DONE
        assert session.word(layout.LIVE) == 0


def test_a_repair_that_is_wanted_ends_the_looks():
    """Everybody else stands still for it."""
    with looking_on(1) as (session, _, turn):
        repair.ask_for_repair(session.schedule.control)
        assert turn.result(10.0) == layout.QUANTUM_WAIT


def test_who_looks_does_not_withhold_a_dead_workers_block():
    """Though it has tried to take it, and written its number down before it failed."""
    with looking_on(2) as (session, _, turn):
        monitor = Monitor(session)
        monitor.bury(1)
        deadline = time.monotonic() + 10.0
        while not turn.done() and time.monotonic() < deadline:
            monitor.tick()
            time.sleep(0.001)
        assert turn.done() and turn.result() == layout.QUANTUM_DONE
        assert session.word(layout.EPOCHS) == 1


@pytest.mark.skipif(not JIT_DISABLED, reason="compiled kernels call what they were compiled with")
def test_who_looks_gives_its_core_up_each_time(monkeypatch):
    given = []
    monkeypatch.setattr(block_claims, "yield_core", lambda: given.append(1))
    problem, *_ = cases.problem()
    session = cases.session(problem, n_workers=2, stop=Stop(epochs=1))
    assert hold_the_last_block(session, 5).run_quantum(1) == layout.QUANTUM_WAIT
    assert len(given) == 5


@pytest.mark.parametrize(
    ("plan", "looks"),
    [
        ({"sleeps": 1}, 0),
        ({"ordered": 1}, 7),
        ({"private": epoch_schedule.MASTER}, 7),
        ({"parts": 2}, 0),
    ],
)
def test_workers_enter_by_calls_of_their_own_where_something_is_between(plan, looks):
    problem, *_ = cases.problem()
    session = cases.session(problem, n_workers=2)
    session.plan = session.plan._replace(**plan)
    session.set_up_quanta(7)
    assert not session.worker(1).enters and session.n_polls == looks
    session = cases.session(problem, n_workers=2)
    session.barrier = print
    session.set_up_quanta(7)
    assert not session.worker(1).enters and session.n_polls == 0
