"""Several workers need as many epochs as one to the optimum: the rules that remember rows converge
linearly, and at the same rate. All workers take turns in one thread, an exchange's rows at a time.
"""

import cases
import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import SAGA, SDCA, Shared, Stop, problems, solve
from hogshare.datasets import zipf_classification
from hogshare.engine import session as sessions
from hogshare.kernels import layout

LIMIT = 100
CLOSE = 1e-8  # relative excess of the objective


def like_a9a(n=2400):
    """Fourteen of 122 binary features a row, one of each group; each group's first are hot."""
    rng = np.random.default_rng(0)
    sizes = (5, 8, 16, 7, 14, 6, 5, 2, 2, 2, 5, 40, 6, 4)
    groups = [rng.choice(s, size=n, p=rng.dirichlet(np.ones(s))) for s in sizes]
    columns = np.stack(groups, axis=1) + np.cumsum((0, *sizes[:-1]))
    X = np.zeros((n, sum(sizes)))
    X[np.arange(n)[:, None], columns] = 1.0
    signal = X @ rng.standard_normal(X.shape[1]) + 1.5 * rng.standard_normal(n)
    return sp.csr_array(X), (signal > np.median(signal)).astype(int)


DATA = {"a9a": (like_a9a, 8), "text": (lambda: zipf_classification(4000, 1000, 30.0), 12)}
RULES = {
    "saga": (SAGA(), True),
    "lock-free": (SAGA(), False),
    "dual": (SDCA(), True),
}


@pytest.fixture(scope="module", params=DATA)
def task(request):
    """A problem, its least objective, and rows between exchanges: few beside the rows."""
    make, interval = DATA[request.param]
    X, y = make()
    problem = problems.linear(X, y, alpha=1.0 / len(y), fit_intercept=False)
    model = solve(problem, rule=SDCA(), stop=Stop(epochs=400), seed=0).model
    return problem, problem.objective(model.coef, model.intercept), interval


def epochs(problem, best, rule, plane, n_workers, interval):
    """Epochs until the shared vector is that close."""
    blocks = -(-problem.n_rows // interval)
    session = cases.session(
        problem,
        rule=rule,
        plane=plane,
        n_workers=n_workers,
        stop=Stop(epochs=LIMIT),
        seed=1,
        trace=blocks,
    )
    workers = [session.worker(k) for k in range(n_workers)]
    assert all(w.join() for w in workers)
    for _ in range(LIMIT * blocks):
        before = session.word(layout.EPOCHS)
        for worker in workers:
            worker.turn(1)
        if session.word(layout.EPOCHS) > before:
            model = session.model()
            if problem.objective(model.coef, model.intercept) <= best * (1.0 + CLOSE):
                return session.word(layout.EPOCHS)
    raise AssertionError("not reached")


@pytest.mark.parametrize("name", RULES)
def test_as_many_epochs_as_one_worker(task, name, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_SNAPSHOT_BYTES", np.inf)  # zeros that are never touched
    problem, best, interval = task
    rule, private = RULES[name]
    plane = Shared(exchange=interval if private else None, adds="atomic")
    one, *more = (epochs(problem, best, rule, plane, k, interval) for k in (1, 2, 4, 8))
    assert max(more) <= 1.15 * one + 1.0, (one, more)


def test_where_saga_keeps_what_an_exchange_holds_back():
    assert sessions.keeps(SAGA(), 0.0, 10_000, 4, 150)
    assert not sessions.keeps(SAGA(), 0.0, 10_000, 4, 160), "too old by then"
    assert not sessions.keeps(SAGA(), 0.5, 10_000, 4, 150), "zeros have to be exact"
    assert sessions.keeps(SDCA(), 0.5, 100, 16, 500), "a sum stays a sum"
