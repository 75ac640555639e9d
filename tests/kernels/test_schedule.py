"""The schedule's words: claims, count-downs, returned blocks, the stop criterion, repair."""

import os
import subprocess
import sys
import textwrap

import cases
import naive
import numpy as np
import pytest

from hogshare.cli import warm
from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.exchange import copy_exchange
from hogshare.kernels.jit.decorators import JIT_DISABLED, kernel
from hogshare.kernels.schedule import epoch_schedule, repair
from hogshare.kernels.schedule.streams import shuffle_windows
from hogshare.planes.shared import Shared


@kernel
def judge(columns, plan, adaptive, criterion, score, epoch):
    return epoch_schedule.apply_criterion(columns, plan, adaptive, criterion, score, epoch)


@kernel
def fold_all(schedule, vector, memory, private, me, decay, how):
    copy_exchange.exchange(schedule, vector, memory, private, me, decay, 0.0, 1.0, how)


def two_workers(epochs=2, **settings):
    """A session of two workers that have joined, four or more blocks per epoch."""
    problem, *_ = cases.problem("csr")
    settings.setdefault("plane", Shared(exchange=4))
    session = cases.session(problem, n_workers=2, stop=Stop(epochs=epochs), **settings)
    workers = [session.worker(0), session.worker(1)]
    assert all(w.join() for w in workers)
    return session, workers


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("early_stopping", [0, 1])
@pytest.mark.parametrize("tol", [-np.inf, 0.0, 0.05])
def test_criterion(tol, early_stopping, adaptive):
    problem, *_ = cases.problem(columns=3)
    session = cases.session(problem)
    plan = session.plan._replace(tol=tol, patience=2, early_stopping=early_stopping)
    fields = session.schedule.columns
    fields[layout.C_ETA] = [0.1, 1e-6, 5e-6]
    columns = cases.twin_columns(session)
    rng = np.random.default_rng(5)
    values = np.array([1.0, 0.9, 0.8]) * np.array([1.0, 0.8, 0.79, 0.9, 0.95, 0.94, 0.7])[:, None]
    values += 0.02 * rng.standard_normal(values.shape)
    for epoch, line in enumerate(values):
        criterion = np.full(3, np.nan) if early_stopping else line
        score = -line if early_stopping else np.full(3, np.nan)
        over = judge(fields, plan, adaptive, criterion, score, epoch)
        expected = naive.apply_criterion(
            columns, line, epoch, tol=tol, patience=2, adaptive=adaptive
        )
        assert over == expected
        twin = (columns.active, columns.eta, columns.best, columns.bad, columns.epochs)
        places = (
            layout.C_ACTIVE,
            layout.C_ETA,
            layout.C_BEST,
            layout.C_PATIENCE,
            layout.C_EPOCHS,
        )
        for place, field in zip(places, twin, strict=True):
            np.testing.assert_allclose(fields[place], field, rtol=1e-12)
        if over:
            break
    assert tol > -np.inf or not over, "no tolerance means no stop"


def test_blocks_cover_every_epoch_once():
    session, workers = two_workers(epochs=3)
    n = session.plan.n_blocks
    assert n > 4
    seen = []
    for _ in range(200):
        for worker in workers:
            before = session.word(layout.TICKET)
            worker.run_quantum(1)
            seen += list(range(before, session.word(layout.TICKET)))
            ready, ended = session.word(layout.READY), session.word(layout.EPOCHS)
            assert ended <= ready <= ended + 2, "at most two epochs are open"
    assert seen == list(range(3 * n))
    assert session.word(layout.EPOCHS) == 3
    assert session.word(layout.PREPARER) == session.word(layout.ENDER) == 0


@kernel
def windows(permutation, held_out, order, window, abreast, interleaved, seed, epoch):
    shuffle_windows(permutation, held_out, order, window, abreast, interleaved, seed, epoch)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(("abreast", "interleaved"), [(1, 0), (3, 0), (8, 0), (3, 1), (8, 1)])
@pytest.mark.parametrize(("n", "window"), [(1, 1), (10, 3), (23, 5), (23, 100), (64, 8), (7, 1)])
def test_windows_of_neighbours(n, window, abreast, interleaved, held):
    held_out = (np.arange(n) % 4 == 1).astype(np.uint8) if held else np.empty(0, np.uint8)
    training = np.flatnonzero(held_out == 0) if held else np.arange(n)
    orders = []
    for epoch in range(3):
        order = np.full(len(training), -1, np.int64)
        windows(np.arange(n), held_out, order, window, abreast, interleaved, 77, epoch)
        expected = naive.shuffle_windows(n, held_out, window, abreast, interleaved, 77, epoch)
        assert order.tolist() == expected
        np.testing.assert_array_equal(np.sort(order), training)
        orders.append(order.tolist())
    if n > 10 and n > window:
        assert orders[0] != orders[1] != orders[2]


def test_windows_are_read_to_their_end_one_at_a_time_or_in_turn():
    n, window = 64, 8
    order = np.empty(n, np.int64)
    windows(np.arange(n), np.empty(0, np.uint8), order, window, 1, 0, 3, 0)
    steps = np.abs(np.diff(order))
    assert np.count_nonzero(np.minimum(steps, n - steps) >= window) <= n // window
    windows(np.arange(n), np.empty(0, np.uint8), order, window, 4, 0, 3, 0)
    in_turn = order.reshape(-1, window, 4)  # four windows, a row of each in turn
    assert ((np.diff(in_turn, axis=1) % n) == 1).all()
    assert (np.diff(in_turn, axis=2) % window == 0).all()
    windows(np.arange(n), np.empty(0, np.uint8), order, window, 4, 1, 3, 0)
    in_turn = order.reshape(-1, window, 4)
    steps = np.diff(in_turn, axis=1) % n
    assert set(steps.ravel().tolist()) == {1, n - window + 1}, "the next row, or the first"
    assert (np.count_nonzero(steps != 1, axis=1) <= 1).all()
    places = in_turn % window  # up to where the windows begin
    assert (np.diff(places, axis=2) % window == 1).all(), "each begins a row later"


def test_an_open_block_holds_back_its_epoch_but_not_the_next():
    """A worker that is slow with one block: the other may go one epoch ahead, and no further."""
    session, (fast, slow) = two_workers(epochs=3)
    n = session.plan.n_blocks
    # `slow` claims ticket 0 and then does nothing
    assert fast.run_quantum(1) == layout.QUANTUM_OVER
    session.schedule.done[0, 0] = 0
    session.schedule.remaining[0] += 1
    for _ in range(50):
        answer = fast.run_quantum(100)
    assert answer == layout.QUANTUM_WAIT
    assert session.word(layout.EPOCHS) == 0
    assert session.word(layout.TICKET) == 2 * n
    repair.put_back(session.schedule.returned, session.schedule.control, slow.me, 0)
    for _ in range(50):
        answer = fast.run_quantum(100)
    assert answer == layout.QUANTUM_DONE
    assert session.word(layout.EPOCHS) == 3
    assert session.word(layout.COMPLETED) == 3 * n + 1, "one block was undone by this test"


def test_a_block_that_runs_twice_counts_once():
    session, (first, second) = two_workers(epochs=1)
    first.run_quantum(2)
    assert repair.put_back(session.schedule.returned, session.schedule.control, 1, 1)
    assert not repair.put_back(session.schedule.returned, session.schedule.control, 1, 0), "taken"
    assert session.word(layout.RETURNED) == 1
    second.run_quantum(1)
    assert session.word(layout.RETURNED) == 0
    assert session.word(layout.COMPLETED) == 2
    assert session.schedule.remaining[0] == session.plan.n_blocks - 2


def test_an_epoch_whose_ender_died_is_ended_by_another():
    session, (first, second) = two_workers(epochs=1)
    session.schedule.control[layout.ENDER] = first.me + 1  # holds the word, and dies
    for _ in range(20):
        first.run_quantum(100)
    assert session.word(layout.EPOCHS) == 0
    repair.bury(session.schedule.control, session.schedule.table[first.me])
    repair.release_words(session.vector.segments, session.schedule.control, first.me)
    assert session.word(layout.LIVE) == 1
    assert second.run_quantum(100) == layout.QUANTUM_WAIT
    repair.put_back(session.schedule.returned, session.schedule.control, 0, layout.FINISH_EPOCH)
    while second.run_quantum(100) != layout.QUANTUM_DONE:
        pass
    assert session.word(layout.EPOCHS) == 1


def test_a_dead_preparer_holds_nobody_up():
    session, (dead, live) = two_workers(epochs=2)
    session.schedule.control[layout.PREPARER] = dead.me + 1
    assert live.run_quantum(10) == layout.QUANTUM_WAIT
    repair.release_words(session.vector.segments, session.schedule.control, dead.me)
    for _ in range(50):
        answer = live.run_quantum(100)
    assert answer == layout.QUANTUM_DONE
    assert session.word(layout.EPOCHS) == 2


def test_only_who_has_not_joined_is_refused():
    problem, *_ = cases.problem()
    session = cases.session(problem, n_workers=2, plane=Shared(exchange=4))
    early, late = session.worker(0), session.worker(1)
    assert early.join()
    table = session.schedule.table
    assert not repair.refuse(table[0])
    assert repair.refuse(table[1])
    assert not late.join()
    assert table[1, layout.T_STATE] == layout.DONE
    assert session.word(layout.LIVE) == 1
    repair.bury(session.schedule.control, table[1])
    assert session.word(layout.LIVE) == 1, "who never joined was never live"


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_a_held_segment_is_left_for_the_next_exchange(dtype):
    problem, *_ = cases.problem("csr", dtype, 3, penalty=None)
    session = cases.session(problem, n_workers=2, plane=Shared(exchange=4))
    vector = session.vector
    vector.curvature[:] = 0.0
    vector.intercept_curvature[:] = 0.0
    worker = session.worker(0)
    worker.join()
    rng = np.random.default_rng(6)
    change = rng.integers(-8, 8, vector.w.shape).astype(dtype)
    worker.private.w[:] += change
    worker.private.local[layout.L_SCALE] = 0.5
    worker.private.local[layout.L_INTERCEPT] += 1.0
    vector.segments[0] = 2  # held by worker 1, and there is only one segment
    fold_all(*cases.groups(session), worker.private, 0, 0.0, copy_exchange.TRY)
    assert not vector.w.any() and not vector.intercept.any()
    np.testing.assert_array_equal(worker.private.w, 0.5 * change)
    np.testing.assert_array_equal(worker.private.local[layout.L_SCALE], 1.0)
    vector.w[:] = 1.0  # what worker 1 has folded meanwhile
    repair.release_words(vector.segments, session.schedule.control, 1)
    fold_all(*cases.groups(session), worker.private, 0, 0.0, copy_exchange.ALL)
    np.testing.assert_array_equal(vector.w, 1.0 + 0.5 * change)
    np.testing.assert_array_equal(worker.private.w, vector.w)
    np.testing.assert_array_equal(worker.private.base[: vector.w.size], vector.w)
    np.testing.assert_array_equal(vector.intercept, 1.0)
    assert vector.segments[0] == 0


OVERRUN = """
    import numpy as np
    from hogshare.kernels.jit.decorators import kernel

    @kernel
    def read(array, i):
        return array[i]

    big = np.arange(8.0)
    read(big[:4], 3)
    read(big[:4], 5)
"""


@pytest.mark.skipif(JIT_DISABLED, reason="plain Python checks every index")
def test_a_planted_overrun_is_caught_by_bounds_checks(tmp_path):
    """The suite under NUMBA_BOUNDSCHECK=1 would see a kernel that reads past an array."""
    script = tmp_path / "overrun.py"
    script.write_text(textwrap.dedent(OVERRUN))
    path = os.pathsep.join(p for p in sys.path if p)
    codes = {}
    for check in ("0", "1"):
        environment = {
            **os.environ,
            "NUMBA_BOUNDSCHECK": check,
            "HOGSHARE_CACHE_DIR": str(tmp_path / check),
            "PYTHONPATH": path,
        }
        codes[check] = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True
        )
    assert codes["0"].returncode == 0, codes["0"].stderr
    assert "IndexError" in codes["1"].stderr


@kernel
def is_free(schedule, plan, epoch, cell):
    return epoch_schedule.cell_is_free(schedule, plan, epoch, cell)


def test_a_cell_waits_for_all_of_its_groups():
    """By the definition: of the cells before, those with the same users or the same items."""
    session = cases.session(cases.problem()[0])
    grid = 4
    groups = [(g, (g + d) % grid) for d in range(grid) for g in range(grid)]
    done = np.zeros((2, grid * grid), np.int64)
    schedule, plan = session.schedule._replace(done=done), session.plan._replace(grid=grid)
    schedule.control[layout.EPOCHS] = 1
    for cell, (user, item) in enumerate(groups):
        before = [k for k in range(cell) if groups[k][0] == user or groups[k][1] == item]
        for missing in (None, *range(grid * grid)):
            done[1] = 2  # in the slot of epoch 1, which all but one have done
            if missing is not None:
                done[1, missing] = 0
            # what is done of a diagonal has waited for the diagonals before
            last = [k for k in before if k // grid == cell // grid - 1]
            assert is_free(schedule, plan, 1, cell) == (missing not in last)
        done[:] = 3
        assert not is_free(schedule, plan, 2, cell)  # the epoch before it has not ended
    done[1] = 2
    schedule.control[layout.STOP] = layout.STOPPED_BY_CRITERION
    assert not is_free(schedule, plan, 1, 0)


def test_what_a_warm_up_calls_by_itself_stays_within_its_arrays():
    """With NUMBA_BOUNDSCHECK: its arrays are as long as those of a run."""
    warm.without_rows()
