"""Blocks on the one vector that read, compute and write apart."""

import cases
import numpy as np
import pytest

from hogshare import SGD, Shared, StepSize, Stop, problems
from hogshare.kernels import layout
from hogshare.kernels.schedule import quanta
from hogshare.kernels.schedule.stale_quanta import moved, write_part

STEP = 0.05


def apart(n_workers=2, parts=2, n_features=4, rule=None, **settings):
    """A session of workers that read and write in so many parts, on a least squares problem."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, n_features))
    problem = problems.linear(
        X, X @ np.ones(n_features) + 0.5, loss="squared_error", penalty=None, task="regression"
    )
    session = cases.session(
        problem,
        n_workers=n_workers,
        rule=rule or SGD(batch=5),
        plane=Shared(exchange=None),
        block=5,
        step=StepSize("constant", STEP),
        stop=Stop(epochs=3),
        parts=parts,
        **settings,
    )
    workers = [session.worker(k) for k in range(n_workers)]
    assert all(worker.join() for worker in workers)
    return problem, session, workers


def gradient_step(problem, session, ticket, coef, intercept):
    """What a mini-batch's block adds: the twin of the block on a copy."""
    plan = session.plan
    order = session.schedule.order[ticket // plan.n_blocks % 2]
    first = ticket % plan.n_blocks * plan.block_rows
    rows = order[first : first + plan.block_rows]
    X = np.asarray(problem.rows.data).reshape(problem.n_rows, -1)[rows]
    steps = STEP * (np.asarray(problem.rows.y)[rows] - X @ coef - intercept)
    return steps @ X, steps.sum()


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_what_others_write_meanwhile_is_not_in_the_reading(parts):
    problem, session, (late, other) = apart(parts=parts)
    start = session.vector.w.copy()
    for _ in range(parts):
        assert late.run_quantum(1) == layout.QUANTUM_SLEEP  # it has read all
    for _ in range(2 * parts - 1):
        assert other.run_quantum(1) == layout.QUANTUM_SLEEP
    assert other.run_quantum(1) == layout.QUANTUM_OVER
    seen, intercept = session.vector.w.copy(), float(session.vector.intercept[0])
    assert np.all(seen != start)
    ticket = int(late.table[layout.T_BLOCK])
    for _ in range(parts - 1):
        assert late.run_quantum(1) == layout.QUANTUM_SLEEP
    assert late.run_quantum(1) == layout.QUANTUM_OVER
    change, bias = gradient_step(problem, session, ticket, start, 0.0)
    np.testing.assert_allclose(session.vector.w, seen + change, rtol=1e-12)
    np.testing.assert_allclose(session.vector.intercept, intercept + bias, rtol=1e-12)
    assert late.table[layout.T_STALENESS] == 1 and other.table[layout.T_STALENESS] == 0


def test_a_reading_may_be_a_state_that_never_was():
    """The paper's example: one coordinate is read before another worker's write, one after it."""
    _, session, (reader, writer) = apart(n_features=2)
    old = session.vector.w.copy()
    assert reader.run_quantum(1) == layout.QUANTUM_SLEEP  # the first coordinate
    for _ in range(3):
        assert writer.run_quantum(1) == layout.QUANTUM_SLEEP
    assert writer.run_quantum(1) == layout.QUANTUM_OVER
    new = session.vector.w.copy()
    assert reader.run_quantum(1) == layout.QUANTUM_SLEEP  # the second
    np.testing.assert_array_equal(reader.private.w[:2], [old[0], new[1]])
    assert np.all(old != new)


def test_a_writing_is_seen_part_by_part():
    _, session, (writer, _) = apart()
    before = session.vector.w.copy()
    for _ in range(3):  # claim and read, read, compute and write the first half
        assert writer.run_quantum(1) == layout.QUANTUM_SLEEP
    changed = session.vector.w != before
    assert changed[:2].all() and not changed[2:].any()
    assert writer.table[layout.T_BLOCKS] == writer.table[layout.T_PUSHES] == 0
    assert writer.run_quantum(1) == layout.QUANTUM_OVER
    assert np.all(session.vector.w != before)
    assert writer.table[layout.T_BLOCKS] == writer.table[layout.T_PUSHES] == 1


@pytest.mark.parametrize("rule", [SGD(batch=5), SGD(), SGD(batch=5, average=True)], ids=str)
@pytest.mark.parametrize("parts", [1, 3])
def test_one_worker_is_the_sequential_run_bit_for_bit(rule, parts):
    _, session, (alone,) = apart(n_workers=1, parts=parts, rule=rule)
    _, plain, (usual,) = apart(n_workers=1, parts=0, rule=rule)
    assert (
        plain.take_quantum
        is quanta.QUANTA[quanta.QuantumKind(plane=plain.plan.private, single=True)]
    )
    while alone.run_quantum(1) != layout.QUANTUM_DONE:
        pass
    while usual.run_quantum(1) != layout.QUANTUM_DONE:
        pass
    for worker in (alone, usual):
        worker.leave()
    np.testing.assert_array_equal(session.vector.w, plain.vector.w)
    np.testing.assert_array_equal(session.vector.intercept, plain.vector.intercept)
    if rule.average:
        np.testing.assert_array_equal(session.model().average_coef, plain.model().average_coef)


def test_one_coordinate_is_written_where_the_rule_says_so():
    _, session, (worker, _) = apart(parts=1, rule=SGD(batch=5, coordinate="uniform"))
    before = session.vector.w.copy()
    assert worker.run_quantum(1) == layout.QUANTUM_SLEEP
    assert worker.run_quantum(1) == layout.QUANTUM_OVER
    assert (session.vector.w != before).sum() <= 1


def test_the_parts_are_all_of_the_vector_once():
    _, session, (worker, _) = apart(n_features=5, parts=3)
    private = worker.private
    private.base[:5] = session.vector.w
    private.w[:5] = session.vector.w + np.arange(1.0, 6.0)
    for part in range(3):
        write_part(session.vector, private, part, 3)
    np.testing.assert_array_equal(session.vector.w, np.arange(1.0, 6.0))


def test_a_change_is_added_to_what_others_have_written():
    assert moved(0.1, 0.1, 0.3) == 0.3  # to the bit
    assert moved(1.0, 0.1, 0.3) == pytest.approx(1.2)
