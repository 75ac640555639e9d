"""What workers fold into the shared vector adds up, whoever holds, skips or dies.

Changes are whole numbers, so that sums are exact in any order, and the start is far from zero: a
copy that is exactly zero counts as clipped there by an l1 penalty. A broken twin of the exchange,
which forgets to move the base, has to violate what the real one keeps.
"""

import threading
import time

import cases
import numpy as np
import pytest
import scipy.sparse as sp

from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import ALL, TRY, exchange
from hogshare.kernels.jit.atomics import compare_exchange, load, store
from hogshare.kernels.jit.decorators import JIT_DISABLED, kernel
from hogshare.kernels.schedule.streams import next_random
from hogshare.planes.shared import Shared
from hogshare.problems.linear import linear
from hogshare.runtimes.monitor import Monitor

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="the stand-ins serve one thread only")

FEATURES = 8192
START = 100_000.0
ROUNDS = 300


@kernel
def change_some(private, total, state):
    for _ in range(256):
        state = next_random(state)
        j = np.int64(state % np.uint32(private.w.shape[0]))
        change = np.float64(np.int64((state >> np.uint32(8)) % np.uint32(17)) - 8)
        private.w[j] += change
        total[j] += change
    return state


@kernel
def work(schedule, vector, memory, private, me, rounds, total):
    """Change the copy and exchange it, many times, then flush."""
    state = np.uint32(me + 1)
    for _ in range(rounds):
        state = change_some(private, total, state)
        private.local[layout.L_INTERCEPT, 0] += 1.0
        exchange(schedule, vector, memory, private, me, 0.0, 0.0, 1.0, TRY)
    exchange(schedule, vector, memory, private, me, 0.0, 0.0, 1.0, ALL)


@kernel
def work_without_base(schedule, vector, memory, private, me, rounds, total):
    """The broken twin: what was folded is not noted in the base, and is folded again."""
    state = np.uint32(me + 1)
    n_segments = vector.segments.shape[0] // layout.WORD
    size = vector.w.shape[0] // n_segments
    for _ in range(rounds):
        state = change_some(private, total, state)
        for s in range(n_segments):
            if compare_exchange(vector.segments, s * layout.WORD, 0, me + 1) == 0:
                for j in range(s * size, (s + 1) * size):
                    vector.w[j] += private.w[j] - private.base[j]
                    private.w[j] = vector.w[j]
                store(vector.segments, s * layout.WORD, 0)


@kernel
def exchange_once(schedule, vector, memory, private, me):
    exchange(schedule, vector, memory, private, me, 0.0, 0.0, 1.0, TRY)


@kernel
def get_in_the_way(segments, stop, held):
    """Hold one segment after another for a while, as a slow worker would."""
    n = segments.shape[0] // layout.WORD
    s = 0
    while load(stop, 0) == 0:
        s = (s + 1) % n
        if compare_exchange(segments, s * layout.WORD, 0, 99) == 0:
            held[0] += 1
            for _ in range(2000):
                load(stop, 0)
            store(segments, s * layout.WORD, 0)


def wide_session(n_workers=2, dtype="float64"):
    """Several segments, no curvature, everyone joined: weights are one."""
    X = sp.random_array(
        (40, FEATURES), density=0.01, format="csr", random_state=np.random.default_rng(0)
    )
    y = np.arange(40) % 2
    problem = linear(X.astype(dtype), y, penalty=None)
    session = cases.session(problem, n_workers=n_workers, plane=Shared(exchange=8))
    session.vector.curvature[:] = 0.0
    session.vector.intercept_curvature[:] = 0.0
    assert len(session.vector.segments) >= 4 * layout.WORD // (2 if dtype == "float32" else 1)
    session.vector.w[:] = START
    workers = [session.worker(k) for k in range(n_workers)]
    assert all(w.join() for w in workers)
    return session, workers


def in_threads(function, session, workers, rounds=ROUNDS):
    """Let every worker run `function`; the sum of all changes to private copies."""
    totals = np.zeros((len(workers), FEATURES))
    threads = [
        threading.Thread(
            target=function, args=(*cases.groups(session), w.private, w.me, rounds, totals[w.me])
        )
        for w in workers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return totals.sum(axis=0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.quick
def test_the_shared_vector_is_the_sum_of_all_changes(dtype):
    session, workers = wide_session(2, dtype)
    total = in_threads(work, session, workers)
    np.testing.assert_array_equal(session.vector.w, START + total)
    np.testing.assert_array_equal(session.vector.intercept, 2.0 * ROUNDS)
    assert not session.vector.segments.any()


def test_segments_that_others_hold_lose_nothing():
    session, workers = wide_session()
    stop, held = np.zeros(1, np.int64), np.zeros(1, np.int64)
    blocker = threading.Thread(target=get_in_the_way, args=(session.vector.segments, stop, held))
    blocker.start()
    while held[0] == 0:
        time.sleep(0.001)
    try:
        total = in_threads(work, session, workers)
    finally:
        stop[0] = 1
        blocker.join()
    np.testing.assert_array_equal(session.vector.w, START + total)


def test_the_twin_without_base_update_breaks_the_sum():
    session, workers = wide_session()
    total = in_threads(work_without_base, session, workers, rounds=5)
    assert (session.vector.w != START + total).any()


def test_a_scaled_copy_counts_with_its_scale():
    session, (worker, _) = wide_session()
    worker.private.w[:] = 2.0 * START + 6.0
    worker.private.local[layout.L_SCALE] = 0.5
    fold(session, worker)
    np.testing.assert_array_equal(session.vector.w, START + 3.0)
    np.testing.assert_array_equal(worker.private.w, START + 3.0)
    assert worker.private.local[layout.L_SCALE, 0] == 1.0


def fold(session, worker):
    work(*cases.groups(session), worker.private, worker.me, 0, np.zeros(FEATURES))


def test_a_copy_clipped_to_zero_keeps_its_zero():
    """Unless the shared weight has grown beyond what the copy's penalty has taken away."""
    session, (worker, _) = wide_session()
    shared, private = session.vector.w, worker.private
    private.w[:], private.base[:FEATURES] = 0.0, 3.0
    shared[: FEATURES // 2], shared[FEATURES // 2 :] = 2.0, 5.0
    fold(session, worker)
    np.testing.assert_array_equal(shared[: FEATURES // 2], 0.0)
    np.testing.assert_array_equal(shared[FEATURES // 2 :], 2.0)


@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_weights_add_cold_coordinates_and_average_hot_ones(n_workers):
    session, (worker, _) = wide_session()
    private = worker.private
    private.local[layout.L_ETA] = 0.5
    private.w[:] = START + 1.0
    curvature = session.vector.curvature
    curvature[:] = 0.25
    curvature[:10], curvature[10:20] = 0.0, 1e12
    session.schedule.control[layout.LIVE] = n_workers
    session.schedule.table[0, layout.T_UNEXCHANGED] = 16
    fold(session, worker)
    folded = session.vector.w - START
    np.testing.assert_array_equal(folded[:10], 1.0)
    np.testing.assert_allclose(folded[10:20], 1.0 / n_workers, rtol=1e-5)
    if n_workers == 2:
        rho = 1.0 / (1.0 + 0.5 * 16.0 * 0.25)
        np.testing.assert_allclose(folded[20:], (1.0 + rho) / 2.0, rtol=1e-5)


def test_a_segment_that_was_skipped_is_weighted_by_all_its_rows():
    session, (worker, _) = wide_session()
    private, table = worker.private, session.schedule.table
    n_segments = len(session.vector.segments) // layout.WORD
    size = -(-FEATURES // n_segments)
    private.local[layout.L_ETA] = 0.5
    private.w[:] = START + 1.0
    session.vector.curvature[:] = 0.25
    session.vector.segments[layout.WORD] = 99  # somebody else holds the second segment
    table[0, layout.T_UNEXCHANGED] = 16
    exchange_once(*cases.groups(session), private, 0)
    assert private.pending[0] == 0 and private.pending[1] == 16
    np.testing.assert_array_equal(session.vector.w[size : 2 * size], START)
    session.vector.segments[layout.WORD] = 0
    table[0, layout.T_UNEXCHANGED] = 8
    exchange_once(*cases.groups(session), private, 0)
    for segment, rows in ((0, 16.0), (1, 24.0)):
        rho = 1.0 / (1.0 + 0.5 * rows * 0.25)
        folded = session.vector.w[segment * size] - START
        np.testing.assert_allclose(folded, (1.0 + rho) / 2.0, rtol=1e-5)


@kernel
def exchange_stretched(schedule, vector, memory, private, me, limit):
    exchange(schedule, vector, memory, private, me, 0.0, 1.0, limit, TRY)


def test_a_stretched_change_is_folded_by_its_share():
    session, (worker, _) = wide_session()
    private = worker.private
    assert private.local[layout.L_STRETCH, 0] == 1.0
    exchange_stretched(*cases.groups(session), private, 0, 8.0)
    assert private.local[layout.L_STRETCH, 0] == 2.0, "two workers are live"
    private.w[:] += 6.0
    exchange_stretched(*cases.groups(session), private, 0, 8.0)
    np.testing.assert_array_equal(session.vector.w, START + 3.0)
    np.testing.assert_array_equal(private.w, START + 3.0)
    np.testing.assert_array_equal(private.base[:FEATURES], START + 3.0)


def test_what_stays_in_the_copy_follows_the_stretch():
    """Of a held segment, and of what the weight holds back: nothing is lost, nothing doubled."""
    session, (worker, _) = wide_session()
    vector, private = session.vector, worker.private
    size = -(-FEATURES // (len(vector.segments) // layout.WORD))
    private.local[layout.L_ETA] = 0.5
    vector.curvature[:] = 0.25
    session.schedule.table[0, layout.T_UNEXCHANGED] = 16
    vector.segments[layout.WORD] = 99
    private.w[:] += 1.0
    exchange_stretched(*cases.groups(session), private, 0, 8.0)
    stretch = private.local[layout.L_STRETCH, 0]
    assert stretch == 2.0
    kept = (private.w - private.base[:FEATURES]) / stretch
    np.testing.assert_array_equal(kept[size : 2 * size], 1.0)
    assert 0.0 < kept[0] < 1.0
    np.testing.assert_allclose(vector.w + kept, START + 1.0, rtol=1e-15)


def test_a_dead_workers_segments_are_freed_and_the_run_goes_on():
    session, (worker, dead) = wide_session()
    session.vector.segments[0] = dead.me + 1  # died inside a fold
    ended = threading.Event()

    def run():
        while worker.run_quantum(10) != layout.QUANTUM_DONE:
            time.sleep(0.001)
        worker.leave()
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert not ended.wait(0.2), "the last flush waits for the segment"
    monitor = Monitor(session)
    monitor.bury(dead.me)
    assert ended.wait(5.0)
    thread.join()
    assert session.word(layout.EPOCHS) == session.plan.max_epochs
    assert np.isfinite(session.vector.w).all() and session.vector.w.any()


@pytest.mark.parametrize("where", ["claimed", "counted"])
def test_a_dead_workers_block_is_put_back(where):
    """Dead with a block in hand, or just after its count-down: every epoch ends all the same."""
    problem, *_ = cases.problem("csr")
    session = cases.session(problem, n_workers=2, plane=Shared(exchange=4), stop=Stop(epochs=4))
    live, dead = session.worker(0), session.worker(1)
    assert live.join() and dead.join()
    if where == "claimed":
        ticket = session.word(layout.TICKET)
        session.schedule.done[0, 0] = 0
        live.run_quantum(1)  # prepares the order and takes block 0
        session.schedule.table[1, layout.T_BLOCK] = ticket + 1
        session.schedule.control[layout.TICKET] += 1
    else:
        while session.schedule.remaining[0] > 1 or session.word(layout.TICKET) == 0:
            live.run_quantum(1)
        session.schedule.control[layout.ENDER] = 2
        live.run_quantum(1)
    monitor = Monitor(session)
    monitor.bury(1)
    for _ in range(200):
        answer = live.run_quantum(10)
        waits = answer == layout.QUANTUM_WAIT
        session.schedule.table[0, layout.T_STATE] = layout.WAITING if waits else layout.ACTIVE
        if answer == layout.QUANTUM_DONE:
            break
        monitor.tick()
    assert answer == layout.QUANTUM_DONE
    assert session.word(layout.EPOCHS) == 4
    assert session.word(layout.COMPLETED) == 4 * session.plan.n_blocks
