"""Many mini-batches in a call: the steps of the gradient's kernel, alone and as a team."""

import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import SGD, Adam, Rule, problems, solve
from hogshare.kernels import layout
from hogshare.kernels.networks import network_training as kernels
from hogshare.kernels.networks.network_training import Values
from hogshare.problems import network_trainer, sparse_columns

BATCH, N_ROWS, N_INPUTS = 20, 203, 37
RULES = {
    "plain": SGD(batch=BATCH),
    "heavy": SGD(batch=BATCH, momentum=0.9),
    "ahead": SGD(batch=BATCH, momentum=0.9, nesterov=True),
    "adam": Adam(batch=BATCH),
}
NETS = {
    "one": ((20,), "relu", "log_loss"),
    "narrow": ((3, 17, 1), "tanh", "squared_error"),
    "none": ((), "relu", "log_loss"),
    "deep": ((40, 30), "logistic", "poisson"),
}
TEAMS = {"one": ((70,), "relu", "log_loss"), "deep": ((64, 70, 50), "tanh", "squared_error")}


def network(net, dtype="float64", share=0.3, sparse=False, weighted=False, alpha=1e-2):
    """A problem of which so much of the inputs is not zero, and less of some columns."""
    hidden, activation, loss = net
    draws = np.random.default_rng(0)
    X = draws.normal(size=(N_ROWS, N_INPUTS))
    X *= draws.random(X.shape) < share * np.linspace(0.1, 1.9, N_INPUTS)
    y = {
        "log_loss": draws.integers(0, 4, N_ROWS),
        "squared_error": draws.normal(size=(N_ROWS, 2)),
        "poisson": draws.poisson(2.0, N_ROWS).astype(float),
    }[loss]
    weight = draws.random(N_ROWS) if weighted else None
    X = X.astype(dtype)
    settings = {"activation": activation, "loss": loss, "alpha": alpha, "sample_weight": weight}
    return problems.network(sp.csr_array(X) if sparse else X, y, hidden, **settings)


def state_of(rule, problem):
    shapes = rule.state(problem.n_params).items()
    state = {
        name: np.zeros(shape, problem.dtype if kind == "vector" else kind)
        for name, (shape, kind) in shapes
    }
    return (state,) if state else ()


def batches(epochs=3):
    """The rows of a few epochs' mini-batches."""
    orders = [np.random.default_rng(k).permutation(N_ROWS) for k in range(epochs)]
    return [order[k : k + BATCH] for order in orders for k in range(0, N_ROWS, BATCH)]


def one_by_one(problem, rule):
    """Vector, state and sum of losses after a step for each mini-batch."""
    w, state, total = problem.start(), state_of(rule, problem), 0.0
    replica, out = problem.for_worker(0), np.empty(problem.n_params, problem.dtype)
    for rows in batches():
        total += replica.descend(w.view(), rows, out, w, rule.descent(0.05, *state))
    return w, state, total


def run_block(trainers, answers, w, rows, descents, block):
    """Have trainers take a block's steps, each in a thread."""

    def go(k):
        answers[k] = trainers[k](w, rows, descents, block)

    threads = [threading.Thread(target=go, args=(k,)) for k in range(len(trainers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_blocks(problem, rule, trainers):
    """The same by trainers, each in a thread, in blocks of an epoch's mini-batches."""
    w, state, total = problem.start(), state_of(rule, problem), 0.0
    rows, n = batches(), -(-N_ROWS // BATCH)
    for block in range(len(rows) // n):
        part = np.concatenate(rows[block * n : (block + 1) * n])
        descents = rule.descents(np.full(n, 0.05), *state)
        answers = [None] * len(trainers)
        run_block(trainers, answers, w, part, descents, block)
        total += sum(answers)
    return w, state, total


def assert_same(problem, found, wanted):
    tolerance = 1e-10 if problem.dtype == np.float64 else 1e-4
    largest = np.abs(wanted[0]).max()
    np.testing.assert_allclose(found[0], wanted[0], atol=tolerance * largest)
    for mine, theirs in zip(found[1], wanted[1], strict=True):
        for name, numbers in theirs.items():
            np.testing.assert_allclose(
                mine[name], numbers, atol=tolerance * (np.abs(numbers).max() + 1e-30)
            )
    assert found[2] == pytest.approx(wanted[2], rel=1e-10 if tolerance < 1e-5 else 1e-5)


def team(problem, size, saves=False):
    shared = network_trainer.TeamArrays(
        np.zeros((size, layout.WORD), np.int64),
        np.zeros((size, problem.numbers_of_part(BATCH, size)), problem.dtype),
        np.zeros((3, problem.n_params), problem.dtype),
        Values(*(np.zeros(*made) for made in problem.shared_values(BATCH, size).values())),
        np.zeros((size, layout.N_TABLE), np.int64),
        np.zeros(layout.N_CONTROL * layout.WORD, np.int64),
        problem.n_layers,
        saves,
    )
    return shared, [problem.trainer(BATCH, k, size, shared) for k in range(size)]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rows", ["dense", "sparse", "float32"])
def test_steps_in_a_call_are_those_one_by_one(rule, net, rows, late, monkeypatch):
    if late:  # rows of the first layer are loaded when a mini-batch touches them
        monkeypatch.setattr(network_trainer, "LATE_BYTES", 0)
        monkeypatch.setattr(network_trainer, "LATE_SHARE", np.inf)
        monkeypatch.setattr(sparse_columns, "MOST_SHARE", 10.0)
    kind = "float32" if rows == "float32" else "float64"
    problem = network(NETS[net], kind, 0.05, rows == "sparse", weighted=net == "narrow")
    trainer = problem.trainer(BATCH)
    assert bool(len(trainer._memory.late.stamps)) == late
    found = in_blocks(problem, RULES[rule], [trainer])
    assert_same(problem, found, one_by_one(problem, RULES[rule]))


@pytest.mark.parametrize("alpha", [0.0, 1e-2])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.3, 10.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_columns_are_read_densely_or_by_their_values(share, sparse, alpha, monkeypatch):
    monkeypatch.setattr(sparse_columns, "LEAST_BYTES", 0)
    problem = network(NETS["one"], share=share, sparse=sparse, alpha=alpha)
    columns = problem.columns
    assert sorted(columns.order) == list(range(N_INPUTS))
    if share in (0.0, 10.0):
        assert columns.n_dense == (0 if share == 0.0 else N_INPUTS) or sparse
    elif not sparse:
        assert 0 < columns.n_dense < N_INPUTS
    found = in_blocks(problem, RULES["ahead"], [problem.trainer(BATCH)])
    assert_same(problem, found, one_by_one(problem, RULES["ahead"]))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("net", TEAMS)
@pytest.mark.parametrize("rule", ["ahead", "adam"])
@pytest.mark.parametrize("rows", ["dense", "sparse"])
def test_a_team_takes_the_steps_of_one(size, net, rule, rows):
    problem = network(TEAMS[net], share=0.2, sparse=rows == "sparse", weighted=True)
    assert problem.may_team(size)
    found = in_blocks(problem, RULES[rule], team(problem, size, saves=rows == "dense")[1])
    assert_same(problem, found, one_by_one(problem, RULES[rule]))


@pytest.mark.parametrize("rule", RULES)
def test_steps_that_are_settled_at_once_are_those_one_by_one(rule):
    problem, etas = network(NETS["one"]), np.linspace(0.01, 0.1, 7)
    mine, theirs = state_of(RULES[rule], problem), state_of(RULES[rule], problem)
    for _ in range(2):
        found = RULES[rule].descents(etas, *mine)
        wanted = Rule.descents(RULES[rule], etas, *theirs)
        assert found[0] == wanted[0]
        np.testing.assert_allclose(found[3], wanted[3], rtol=1e-13)


def test_narrow_layers_have_no_team():
    assert not network(NETS["one"]).may_team(20)
    assert not network(NETS["none"]).may_team(2)


@pytest.mark.parametrize("state", [layout.DEAD, layout.DONE])
def test_a_team_that_has_lost_a_worker_writes_nothing(state):
    problem = network(TEAMS["deep"])
    shared, (first, _) = team(problem, 2)
    shared.table[1, layout.T_STATE] = state
    w = problem.start()
    descents = 1, None, None, np.array([[0.1, 0.0, 0.0, 0.0]])
    assert first(w, np.arange(BATCH), descents, 0) is None
    np.testing.assert_array_equal(w, problem.start())


def test_what_some_have_written_of_a_block_is_put_back():
    problem = network(TEAMS["deep"])
    shared, trainers = team(problem, 2, saves=True)
    state = {"velocity": np.zeros(problem.n_params)}
    w = problem.start()
    for block in range(2):
        before = w.copy(), state["velocity"].copy()
        descents, answers = RULES["ahead"].descents(np.full(2, 0.05), state), [None] * 2
        run_block(trainers, answers, w, np.arange(2 * BATCH), descents, block)
    assert not np.array_equal(w, before[0])
    assert shared.is_through(1, 2) and shared.is_through(0, 2)
    shared.words[1, 0] -= 1  # the second has died while it wrote
    assert not shared.is_through(1, 2) and shared.is_through(0, 2)
    shared.put_back(2, [w, state["velocity"]])  # of which nobody has written anything
    assert not np.array_equal(w, before[0])
    shared.put_back(1, [w, state["velocity"]])
    np.testing.assert_array_equal(w, before[0])
    np.testing.assert_array_equal(state["velocity"], before[1])
    shared.note_through(1, 2)
    assert shared.is_through(1, 2)


def test_a_team_does_not_wait_for_who_has_seen_a_stop():
    problem = network(TEAMS["one"])
    shared, (first, _) = team(problem, 2)
    shared.control[layout.STOP] = layout.STOPPED_BY_CALLER
    descents = 1, None, None, np.array([[0.1, 0.0, 0.0, 0.0]])
    assert first(problem.start(), np.arange(BATCH), descents, 0) is None


@pytest.mark.parametrize("eta", [1e200, 1e308])
@pytest.mark.parametrize("size", [1, 2])
def test_numbers_out_of_range_are_not_written(size, eta):
    """Whether a loss shows it or the last step."""
    problem = network(TEAMS["one"])
    trainers = team(problem, 2)[1] if size == 2 else [problem.trainer(BATCH)]
    for n_steps in (1, 3):
        w, answers = problem.start(), [None] * size
        descents = 1, None, None, np.array([[eta, 0.0, 0.0, 0.0]] * n_steps)
        run_block(trainers, answers, w, np.arange(n_steps * BATCH), descents, n_steps)
        if any(np.isnan(answers)):
            assert np.isfinite(w).all()
    assert any(np.isnan(answers))


def test_rows_that_no_mini_batch_touches_shrink_in_every_step_that_has_a_weight():
    draws = np.random.default_rng(0)
    X = sp.random_array((64, 5000), density=0.001, format="csr", random_state=draws)
    weight = np.ones(64)
    weight[:8] = 0.0  # all of the first mini-batch
    y = draws.integers(0, 2, 64)
    problem = problems.network(X, y, (100,), alpha=1.0, sample_weight=weight)
    assert len(problem.trainer(8)._memory.late.stamps)
    run = {"rule": SGD(batch=8), "step": 0.05, "stop": 2, "shuffle": False}
    w, out = problem.start(), np.empty(problem.n_params)
    replica = problem.for_worker(0)
    for k in range(16):
        rows = np.arange(k % 8 * 8, k % 8 * 8 + 8)
        replica.descend(w.view(), rows, out, w, SGD().descent(0.05))
    found = solve(problem, runtime="caller", **run).model.params
    np.testing.assert_allclose(found, w, atol=1e-12)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_mini_batch_may_be_larger_than_the_rows(n_workers):
    problem = network(TEAMS["one"])
    run = {"step": 0.1, "stop": 2, "runtime": "threads", "n_workers": n_workers, "seed": 0}
    wanted = solve(problem, rule=SGD(batch=N_ROWS), **run).model.params
    found = solve(problem, rule=SGD(batch=10**9), **run).model.params
    np.testing.assert_array_equal(found, wanted)


def test_blocks_of_any_length_have_the_same_bits():
    problem = network(NETS["deep"])
    run = {"rule": Adam(batch=BATCH), "step": 0.01, "stop": 3, "seed": 0, "runtime": "caller"}
    whole = solve(problem, **run).model.params
    for block in (BATCH, 3 * BATCH):
        np.testing.assert_array_equal(solve(problem, block=block, **run).model.params, whole)


def test_who_has_not_seen_that_the_team_is_no_more_writes_nothing():
    X, y = np.random.default_rng(0).standard_normal((40, 6)), np.arange(40) % 3
    problem = problems.network(X, y, (32,))
    shared, trainers = team(problem, 2)
    descents = SGD(batch=BATCH).descents(np.full(2, 0.1))
    rows = np.arange(2 * BATCH) % 40
    shared.words[1, kernels.HOW_FAR] = 1 << 60  # as who goes on alone says for one that is gone
    w = problem.start()
    assert trainers[0](w.copy(), rows, descents, 0) is not None
    shared.words[0, kernels.BROKEN] = 1
    before = w.copy()
    assert trainers[0](w, rows, descents, 0) is None
    assert w.tobytes() == before.tobytes()


def test_who_goes_on_alone_waits_for_those_that_still_write():
    X, y = np.random.default_rng(0).standard_normal((40, 6)), np.arange(40) % 3
    shared, _ = team(problems.network(X, y, (32,)), 4)
    block, first = 2, network_trainer._first_point(2, shared.n_layers)
    shared.words[1, kernels.HOW_FAR] = first - 1  # has not begun
    shared.words[2, kernels.HOW_FAR] = shared.words[3, kernels.HOW_FAR] = first + 1
    shared.table[3, layout.T_STATE] = layout.DEAD
    waits = threading.Thread(target=shared.break_up, args=(0, block, 5))
    waits.start()
    deadline = time.monotonic() + 30.0
    while not shared.words[0, kernels.BROKEN]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    waits.join(0.2)
    assert waits.is_alive()
    shared.words[2, kernels.LEFT] = first
    waits.join(30)
    assert not waits.is_alive()
