"""An exchange of vectors that are longer than what it fetches ahead, against its twin."""

import cases
import naive
import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import SAGA, SDCA, SGD, problems
from hogshare.kernels import layout
from hogshare.kernels.exchange import copy_exchange
from hogshare.kernels.jit.decorators import kernel
from hogshare.planes.shared import Shared

N_FEATURES = 9_001  # several segments; no whole number of parts or lines


@kernel
def fold(schedule, vector, memory, private, me, decay, keep, proposals, live):
    copy_exchange.fold_copy(
        schedule, vector, memory, private, me, decay, keep, 1.0, copy_exchange.WAIT, proposals, live
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rule", "n_columns", "keep", "proposals", "stretch"),
    [
        (SGD(), 1, 0.0, 2, 1.0),
        (SGD(), 3, 0.0, 2, 1.0),
        (SAGA(), 1, 0.0, 3, 1.0),
        (SAGA(), 1, 1.0, 2, 1.0),
        (SAGA(), 1, 1.0, 3, 1.5),
        (SAGA(), 1, 1.0, 2, 2.0),  # all of it
        (SAGA(), 1, 1.0, 1, 1.0),
        (SAGA(), 3, 1.0, 1, 1.0),
    ],
)
def test_every_coordinate_is_folded_once(rule, n_columns, keep, proposals, stretch, dtype):
    rng = np.random.default_rng(0)
    X = sp.random(30, N_FEATURES, 0.01, format="csr", rng=rng, dtype=dtype)
    y = np.arange(30) % max(2, n_columns)
    problem = problems.linear(X, y, alpha=0.01)
    session = cases.session(problem, rule=rule, n_workers=2, plane=Shared(exchange=10))
    worker = session.worker(1)
    assert worker.join()
    vector, memory, private = session.vector, session.memory, worker.private
    mine = [vector.w, private.w, private.base]
    if isinstance(rule, SAGA):
        mine += [memory.average, private.average, private.average_base]
    for array in mine:
        array[:] = rng.standard_normal(array.size)
    private.w[::7] = 0.0
    vector.curvature[:] = rng.random(N_FEATURES)
    private.local[layout.L_ETA] = 0.1
    private.local[layout.L_STRETCH] = stretch
    worker.table[layout.T_UNEXCHANGED] = 10
    w, copy, base, *averages = (array.astype(float) for array in mine)

    fold(*cases.groups(session), private, 1, 0.01, keep, proposals, 2)

    curvature = np.repeat(vector.curvature.astype(float), n_columns) + 0.01
    if keep:
        args = curvature, 0.1, 10, proposals, stretch
        after, kept = naive.fold_and_keep(w, copy, base, *args)
    else:
        after = kept = naive.fold(w, copy, base, curvature, 0.1, 10, proposals)
    close = {"rtol": 2e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-14}
    np.testing.assert_allclose(vector.w, after, **close)
    np.testing.assert_allclose(private.w, kept, **close)
    np.testing.assert_array_equal(private.base, vector.w)
    if averages:
        total, own, before = averages
        np.testing.assert_allclose(memory.average, total + own - before, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(private.average, memory.average)
        np.testing.assert_array_equal(private.average_base, memory.average)


@kernel
def flush(schedule, vector, memory, private, me, keep, how):
    copy_exchange.fold_copy(schedule, vector, memory, private, me, 0.0, keep, 1.0, how, 4, 4)


@pytest.mark.parametrize("rule", [SAGA(), SDCA()])
def test_the_last_flush_folds_whole_what_is_part_of_a_sum(rule):
    """And weighs the rest as ever: what four workers hold back would come all at once."""
    X = np.ones((20, 3))
    problem = problems.linear(X, np.arange(20) % 2, alpha=0.01)
    folded = []
    for how in (copy_exchange.WAIT, copy_exchange.ALL):
        session = cases.session(problem, rule=rule, n_workers=4, plane=Shared(exchange=5))
        worker = session.worker(0)
        assert worker.join()
        vector, private = session.vector, worker.private
        private.w[:] = 1.0
        vector.curvature[:] = 100.0
        private.local[layout.L_ETA] = 1.0
        worker.table[layout.T_UNEXCHANGED] = 5
        flush(*cases.groups(session), private, 0, 1.0, how)
        folded.append(vector.w.copy())
    held, last = folded
    np.testing.assert_allclose(held, 0.25, rtol=0.02)
    np.testing.assert_array_equal(last, held if isinstance(rule, SAGA) else 1.0)
