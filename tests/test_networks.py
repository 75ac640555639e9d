"""Networks: gradients and steps against plain twins and scikit-learn's, and runs of them."""

import os
import pickle
import signal
import warnings
from dataclasses import replace

import naive_networks as naive
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import check_grad
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier, MLPRegressor
from threadpoolctl import threadpool_info, threadpool_limits

from hogshare import ASP, BSP, SGD, Adam, Master, Shared, Simulator, StepSize, problems, solve
from hogshare.problems import Convolution, Dense, LocalResponse, Params, Pooling
from hogshare.runtimes.user_objects import packed
from hogshare.stragglers import Recorded

DRAWS = np.random.default_rng(0)
N, D = 40, 7
X = DRAWS.standard_normal((N, D)) * (DRAWS.random((N, D)) < 0.6)
TARGETS = {
    "softmax": DRAWS.integers(0, 3, N),
    "binary": DRAWS.integers(0, 2, N),
    "labels": DRAWS.integers(0, 2, (N, 4)),
    "numbers": DRAWS.standard_normal((N, 2)),
    "counts": DRAWS.poisson(1.0, N),
}
LOSS = {"numbers": "squared_error", "counts": "poisson"}
TWIN = {"labels": "binary", "numbers": "squares", "counts": "poisson"}
ACTIVATIONS = ["relu", "tanh", "logistic", "identity"]
DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16.0


def made(kind, dtype=np.float64, sparse=False, **others):
    rows = X.astype(dtype)
    rows = sp.csr_array(rows) if sparse else rows
    loss = LOSS.get(kind, "log_loss")
    return problems.network(rows, TARGETS[kind], (5, 6), loss=loss, seed=1, **others)


def columns(kind):
    """Targets with a column for each of the last sums."""
    y = TARGETS[kind]
    if kind == "softmax":
        return np.eye(3)[y]
    return y.reshape(N, -1).astype(float)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("kind", TARGETS)
def test_gradient_is_the_twins(kind, sparse, dtype):
    weight = DRAWS.uniform(0.5, 2.0, N).astype(dtype)
    rows = DRAWS.permutation(N)[:17]
    for activation in ACTIVATIONS:
        options = {"activation": activation, "alpha": 0.3, "sample_weight": weight}
        problem = made(kind, dtype, sparse, **options)
        vector = problem.start()
        layers = problems.NetworkParams(vector.astype(float), shapes=problem.shapes)
        x, y = X[rows].astype(dtype).astype(float), columns(kind)[rows]
        run = layers.coefs, layers.intercepts, activation, TWIN.get(kind, kind), 0.3
        value, slopes = naive.network(x, y, weight[rows].astype(float), *run)
        out = np.full_like(vector, np.nan)
        found = problem.gradient(vector, rows, out)
        near = (
            {"rtol": 1e-12, "atol": 1e-12} if dtype is np.float64 else {"rtol": 1e-4, "atol": 1e-4}
        )
        np.testing.assert_allclose(found, value, **near)
        of = problems.NetworkParams(out, shapes=problem.shapes)
        for k, (coefs, intercepts) in enumerate(slopes):
            np.testing.assert_allclose(of.coefs[k], coefs, **near)
            np.testing.assert_allclose(of.intercepts[k], intercepts, **near)


@pytest.mark.parametrize("kind", TARGETS)
def test_whole_gradient_is_that_of_the_objective(kind):
    problem = made(kind, activation="tanh", alpha=0.5)
    at = problem.start()

    def objective(w):
        return problem.evaluate(w)[0]

    assert check_grad(objective, lambda w: problem.evaluate(w)[1], at) < 1e-6
    assert problem.objective(at) == pytest.approx(objective(at), rel=1e-14)


IMAGES = DRAWS.standard_normal((12, 6, 7, 2))
STACKS = {
    "convolution": [Convolution(3, 3)],
    "padded": [Convolution(3, 3, stride=2, padding=2, activation="relu")],
    "max": [Convolution(3, 2), Pooling(2)],
    "average": [Convolution(3, 2), Pooling(3, 2, kind="average")],
    "response": [Convolution(3, 3, padding=1), LocalResponse(3, alpha=0.5, k=2.0)],
    "cifar": [
        Convolution(4, 3, padding=1, activation="identity"),
        Pooling(3, 2),
        LocalResponse(3, alpha=0.1),
        Convolution(3, 3, padding=1),
        Pooling(3, 2, kind="average"),
        Dense(5),
    ],
    "first": [Pooling(2), LocalResponse()],
}


@pytest.mark.parametrize("stack", STACKS)
def test_gradient_through_images_by_differences(stack):
    y = DRAWS.integers(0, 3, len(IMAGES))
    problem = problems.network(IMAGES, y, layers=STACKS[stack], activation="tanh", alpha=0.1)
    at = problem.start()
    off = check_grad(lambda w: problem.evaluate(w)[0], lambda w: problem.evaluate(w)[1], at)
    assert off < 2e-6


@pytest.mark.parametrize("stack", STACKS)
def test_outputs_of_images_are_the_twins(stack):
    y = DRAWS.standard_normal(len(IMAGES))
    settings = {"loss": "squared_error", "activation": "tanh"}
    problem = problems.network(IMAGES, y, layers=STACKS[stack], **settings)
    vector = problem.start()
    expected = [naive.outputs(problem, vector, STACKS[stack], image, "tanh") for image in IMAGES]
    np.testing.assert_allclose(problem.scores(vector, IMAGES), expected, rtol=1e-10, atol=1e-12)


def test_sizes_are_those_of_caffes_networks():
    """Of LENET, which Caffe's example trains, and of CIFAR10-FULL."""
    y = np.arange(20) % 10
    lenet = [Convolution(20, 5), Pooling(2), Convolution(50, 5), Pooling(2), Dense(500)]
    cifar = [
        Convolution(32, 5, padding=2),
        Pooling(3, 2),
        LocalResponse(),
        Convolution(32, 5, padding=2),
        Pooling(3, 2, kind="average"),
        LocalResponse(),
        Convolution(64, 5, padding=2),
        Pooling(3, 2, kind="average"),
    ]
    assert problems.network(np.zeros((20, 28, 28, 1)), y, layers=lenet).n_params == 431_080
    assert problems.network(np.zeros((20, 32, 32, 3)), y, layers=cifar).n_params == 89_578


def test_sparse_images_are_laid_out():
    flat = IMAGES.reshape(len(IMAGES), -1) * (DRAWS.random((len(IMAGES), 84)) < 0.5)
    y = np.arange(len(IMAGES)) % 3
    stack = {"layers": STACKS["max"], "shape": (6, 7, 2)}
    dense, sparse = (problems.network(rows, y, **stack) for rows in (flat, sp.csr_array(flat)))
    at = dense.start()
    np.testing.assert_array_equal(dense.evaluate(at)[1], sparse.evaluate(at)[1])


def test_memory_is_kept_from_step_to_step():
    problem = made("softmax")
    replica = problem.for_worker(0)
    vector, out = problem.start(), np.empty(problem.n_params)
    replica(vector, np.arange(20), out)
    before = replica.memory
    replica(vector, np.arange(7), out)
    assert replica.memory is before


# -- scikit-learn's ------------------------------------------------------------------------------


def theirs(kind, **settings):
    """scikit-learn's after a few passes, in the order of the rows."""
    estimator = MLPRegressor if kind in LOSS else MLPClassifier
    if kind in LOSS:
        settings["loss"] = LOSS[kind]
    settings = {"shuffle": False, "random_state": 1, "tol": 0.0, "alpha": 0.3, **settings}
    model = estimator(hidden_layer_sizes=(5, 6), batch_size=16, max_iter=4, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, TARGETS[kind])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_start_has_the_bits_of_scikit_learns(activation):
    model = theirs("softmax", activation=activation, solver="sgd", learning_rate_init=1e-300)
    problem = made("softmax", activation=activation)
    ours = problems.NetworkParams(problem.start(), shapes=problem.shapes)
    for k in range(3):
        np.testing.assert_array_equal(ours.coefs[k], model.coefs_[k])
        np.testing.assert_array_equal(ours.intercepts[k], model.intercepts_[k])


RULES = {
    "plain": (SGD(batch=16), {"solver": "sgd", "momentum": 0.0}),
    "momentum": (
        SGD(batch=16, momentum=0.9),
        {"solver": "sgd", "momentum": 0.9, "nesterovs_momentum": False},
    ),
    "nesterov": (SGD(batch=16, momentum=0.9, nesterov=True), {"solver": "sgd"}),
    "adam": (Adam(batch=16, epsilon_hat=True), {"solver": "adam"}),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", TARGETS)
def test_one_worker_follows_scikit_learn(kind, rule):
    """The last mini-batch of a pass has 8 rows."""
    ours, settings = RULES[rule]
    model = theirs(kind, learning_rate_init=0.02, **settings)
    problem = made(kind, alpha=0.3)
    run = {"rule": ours, "step": 0.02, "stop": 4, "shuffle": False, "n_workers": 1}
    found = solve(problem, runtime="caller", **run).model
    for k in range(3):
        np.testing.assert_allclose(found.coefs[k], model.coefs_[k], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.intercepts[k], model.intercepts_[k], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(problem.predict(found.params, X).shape, model.predict(X).shape)
    np.testing.assert_allclose(
        problem.predict(found.params, X), model.predict(X), rtol=1e-9, atol=1e-12
    )


# -- runs ----------------------------------------------------------------------------------------


def digits(dtype=np.float64):
    return problems.network(DIGITS.astype(dtype), LABELS, (24,), alpha=1e-3)


PLAIN = {
    "plain": (SGD(batch=50), naive.plain, 0.1),
    "heavy": (SGD(batch=50, momentum=0.9), naive.heavy, 0.02),
    "ahead": (SGD(batch=50, momentum=0.9, nesterov=True), naive.ahead, 0.02),
    "adam": (Adam(batch=50), naive.adam, 0.003),
}


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
@pytest.mark.parametrize("rule", PLAIN)
def test_one_worker_is_a_plain_loop(rule, plane):
    """To rounding, whether the step is taken with the gradient or after it, as a message."""
    problem = digits()
    rule, step, eta = PLAIN[rule]
    w, order, kept = problem.start(), np.arange(problem.n_rows), {}
    out, replica = np.empty_like(w), problem.for_worker(0)
    for t in range(72):
        first = t % 36 * 50
        replica(w, order[first : first + 50], out)
        w -= step(out, kept, eta, t + 1)
    run = {"rule": rule, "step": eta, "stop": 2, "shuffle": False, "n_workers": 1}
    found = solve(problem, plane=plane, runtime="threads", **run).model.params
    np.testing.assert_allclose(found, w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("plane", [Shared(), Master()], ids=repr)
@pytest.mark.parametrize("rule", [SGD(batch=50, momentum=0.5), Adam(batch=50)], ids=repr)
def test_rounds_have_the_same_bits_in_every_runtime(plane, rule):
    """But for a team's, which a virtual clock has not: there each computes a part of the rows."""
    run = {"rule": rule, "plane": plane, "barrier": BSP(), "n_workers": 2, "stop": 2, "seed": 0}
    step = 0.003 if isinstance(rule, Adam) else 0.05
    threads, processes, simulated = (
        solve(digits(np.float32), step=step, runtime=runtime, **run).model.params
        for runtime in ("threads", "processes", Simulator(seed=1))
    )
    assert threads.dtype == np.float32
    np.testing.assert_array_equal(threads, processes)
    if isinstance(plane, Master):
        np.testing.assert_array_equal(threads, simulated)
    np.testing.assert_allclose(threads, simulated, atol=2e-4)


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
def test_more_workers_come_as_far(plane):
    """On the virtual clock, which repeats, where nobody waits."""
    run = {"rule": SGD(batch=25), "step": 0.1, "stop": 15, "seed": 0, "trace": 1}
    run["barrier"] = ASP()
    problem = digits()
    reached = [
        solve(problem, plane=plane, n_workers=n, runtime=Simulator(seed=0), **run).objective
        for n in (1, 2, 4)
    ]
    assert max(reached) < 1.1 * min(reached) < 0.13


FALLING = {
    "plain": (SGD(batch=32), 0.1),
    "momentum": (SGD(batch=32, momentum=0.9), 0.01),
    "ahead": (SGD(batch=32, momentum=0.9, nesterov=True), 0.01),
    "adam": (Adam(batch=32), 0.001),
}


@pytest.mark.parametrize("rule", FALLING)
def test_as_many_epochs_are_as_good_by_many_workers(rule):
    """In rounds, each of which is one mini-batch: up to rounding. So many have a seed each."""
    rule, eta = FALLING[rule]
    problem = problems.network(DIGITS.astype(np.float32), LABELS, (32,))
    n = float(problem.n_rows)
    run = {"rule": rule, "barrier": BSP(), "runtime": Simulator(seed=0), "stop": 20}
    run["step"] = StepSize("invscaling", eta * n**0.5, 0.5)

    def reached(n_workers, seed):
        start = Params(problem.start(seed), n)
        report = solve(problem, start=start, seed=seed, n_workers=n_workers, **run)
        return problem.objective(report.model.params)

    alone = [reached(1, seed) for seed in range(3)]
    assert np.median(alone) < 0.5
    for seed, n_workers in enumerate((2, 4, 8)):
        assert reached(n_workers, seed) == pytest.approx(alone[seed], rel=1e-3)


def places_and_all(n_rows, n_params):
    """Least squares, whose gradient tells of places or writes all numbers."""
    draws = np.random.default_rng(1)
    places = np.array([np.sort(draws.choice(n_params, 3, replace=False)) for _ in range(n_rows)])
    values = draws.standard_normal((n_rows, 3))
    targets = draws.standard_normal(n_rows)

    def sparse(w, rows, out):
        off = (values[rows] * w[places[rows]]).sum(axis=1) - targets[rows]
        np.add.at(out, places[rows], off[:, np.newaxis] * values[rows])
        return 0.5 * float(off @ off), np.unique(places[rows])

    return sparse, lambda w, rows, out: sparse(w, rows, out)[0]


@pytest.mark.parametrize("runtime", ["threads", "processes", "simulator"])
@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
def test_workers_take_the_steps_of_one_by_gradients_of_ones_own(plane, runtime):
    rule = SGD(batch=7, momentum=0.8, nesterov=True, clip=3.0, weight_decay=0.02)
    run = {"rule": rule, "step": StepSize("invscaling", 0.05, 0.3), "stop": 3, "seed": 2}
    for gradient in places_and_all(100, 9):
        problem = problems.user(gradient, 100, 9)
        one = solve(problem, runtime="caller", **run).model.params
        for n_workers in (2, 3, 9):
            report = solve(problem, plane=plane, runtime=runtime, n_workers=n_workers, **run)
            np.testing.assert_allclose(report.model.params, one, rtol=1e-10, atol=1e-12)
            assert report.settings["barrier"] == "BSP()"
            assert [worker["rows"] for worker in report.workers] != [300] + [0] * (n_workers - 1)


@pytest.mark.parametrize("average", [1, 40, 100, 130])
@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
def test_averages_begin_with_the_step_after_so_many_rows(plane, average):
    """100 rows in batches of 30: the average begins within a batch, and in the second epoch."""
    _, gradient = places_and_all(100, 9)
    problem = problems.user(gradient, 100, 9)
    rule = Adam(batch=30, average=average)
    run = {"rule": rule, "step": 0.05, "stop": 3, "seed": 2}
    one = solve(problem, runtime="caller", **run).model
    for n_workers in (1, 3):
        model = solve(problem, plane=plane, runtime="threads", n_workers=n_workers, **run).model
        np.testing.assert_allclose(model.average, one.average, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("plane", [Shared(), Master()], ids=repr)
def test_single_precision_is_as_near_by_many_workers(plane):
    draws = np.random.default_rng(0)
    A = draws.standard_normal((400, 20)).astype(np.float32)
    b = (A @ draws.standard_normal(20)).astype(np.float32)

    def gradient(w, rows, out):
        off = A[rows] @ w - b[rows]
        out += A[rows].T @ off
        return 0.5 * float(off @ off)

    run = {"rule": SGD(batch=8, momentum=0.5), "step": 0.005, "stop": 10, "seed": 0}
    problem = problems.user(gradient, 400, 20, start=np.zeros(20, np.float32))
    one = solve(problem, runtime="caller", **run).model.params
    many = solve(problem, plane=plane, runtime="threads", n_workers=16, **run).model.params
    assert many.dtype == np.float32
    np.testing.assert_allclose(many, one, rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize("plane", [Shared(), Master()], ids=repr)
def test_who_dies_makes_no_other_optimiser_of_the_others(plane, tmp_path):
    """Of two one dies in its first block; each round is then half a step by half a mini-batch."""
    draws, parent, mark = np.random.default_rng(0), os.getpid(), tmp_path / "died"
    A = draws.standard_normal((200, 5))
    b = A @ np.arange(5.0)

    def gradient(w, rows, out):
        if os.getpid() != parent and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        off = A[rows] @ w - b[rows]
        out += A[rows].T @ off
        return 0.5 * float(off @ off)

    problem = problems.user(gradient, 200, 5)
    run = {"rule": Adam(batch=20), "step": 0.02, "stop": 10, "seed": 0}
    one = problem.objective(solve(problem, runtime="caller", **run).model.params)
    with pytest.warns(RuntimeWarning, match="killed"):
        report = solve(problem, plane=plane, runtime="processes", n_workers=2, **run)
    assert mark.exists() and report.model.memory["steps"].max() > 150
    assert problem.objective(report.model.params) == pytest.approx(one, rel=0.2)


def test_what_depends_on_timing_stays_as_it_is_asked_for():
    problem = digits()
    run = {"n_workers": 2, "runtime": Simulator(), "stop": 1, "seed": 0, "step": 0.05}
    moving = SGD(batch=50, momentum=0.9)
    names = {
        "ASP()": {"rule": moving, "barrier": ASP()},
        "SSP(staleness=2)": {"rule": moving, "barrier": "ssp:2"},
        "BSP()": {"rule": moving},
    }
    for name, settings in names.items():
        assert solve(problem, **settings, **run).settings["barrier"] == name
    # several steps between two exchanges, or for an update, are not one step of all
    for settings in (
        {"plane": Shared(exchange=200)},
        {"plane": Master(gradients=2)},
        {"block": 100},
    ):
        assert solve(problem, rule=moving, **settings, **run).settings["barrier"] == "ASP()"
    with pytest.raises(ValueError, match="repeatable bit for bit: use record=False"):
        solve(problem, rule=moving, plane=Master(), barrier="bsp", record=True, **run)


def test_a_rule_goes_by_what_workers_do_and_not_by_how_many_there_are(monkeypatch):
    """The second worker sleeps in its first block for longer than the first one needs for all."""
    periods, among = [], SGD.among

    def noted(rule, period):
        periods.append(period)
        return among(rule, period)

    monkeypatch.setattr(SGD, "among", noted)
    run = {"rule": SGD(batch=50, momentum=0.9), "step": 0.01, "stop": 2, "seed": 0}
    run |= {"n_workers": 2, "runtime": Simulator(block_time="constant:1.0", seed=0)}
    for late, median in (([1e6], 1.0), ([], 2.0)):
        periods.clear()
        solve(digits(), barrier=ASP(), stragglers=Recorded([[], late]), **run)
        assert np.median(periods) == pytest.approx(median, rel=0.01)


@pytest.mark.parametrize("n_workers", [1, 2, 5, 10, 16])
def test_momentum_moves_as_far_and_as_late_by_many_workers(n_workers):
    """By taking a gradient of one step, and then none, from a velocity of zeros."""
    eta, share = 0.1, 0.9
    rule = SGD(momentum=share).among(n_workers)
    state, moves = {"velocity": np.zeros(1)}, []
    for step in range(400):
        gradient = np.array([1.0 if step == 0 else 0.0])
        rule.step(gradient, eta, state)
        moves.append(gradient[0])
    moves = np.array(moves)
    assert moves.sum() == pytest.approx(eta / (1.0 - share))
    # a worker's steps are n of the run's apart, and a gradient was read n - 1 before its own
    late = (moves * np.arange(400)).sum() / moves.sum() * n_workers + n_workers - 1
    assert late == pytest.approx(max(share / (1.0 - share), n_workers - 1))


def test_adam_is_a_word():
    run = {"step": 0.003, "stop": 1, "seed": 0}
    told, said = (solve(digits(), rule=rule, **run) for rule in (Adam(), " ADAM"))
    np.testing.assert_array_equal(told.model.params, said.model.params)
    with pytest.raises(ValueError, match="use one of those, or state the problem by its gradient"):
        solve(problems.linear(X, TARGETS["binary"]), rule="adam")


def test_a_rule_among_others_is_of_the_same_settings_and_state():
    rule = SGD(batch=8, momentum=0.5, nesterov=True, weight_decay=0.1, clip=2.0)
    mine = rule.among(4)
    assert (mine.batch, mine.weight_decay, mine.clip, mine.nesterov) == (8, 0.1, 2.0, True)
    assert mine.momentum == 0.0 and rule.momentum == 0.5
    assert rule.among(1) is rule and SGD(batch=8).among(4) == SGD(batch=8)
    betas = [(mine.beta_1, mine.beta_2) for mine in (Adam().among(4), Adam().among(20))]
    np.testing.assert_allclose(betas, [(0.6, 0.996), (0.0, 0.98)])


@pytest.mark.parametrize("rule", [SGD(batch=20), Adam(batch=20)], ids=repr)
def test_a_gradient_is_shortened_and_the_vector_decays(rule):
    """One step of each, against the rule without."""
    options = {"clip": 0.01, "weight_decay": 0.5}
    longest, start = 0.01, DRAWS.standard_normal(4)

    def gradient(w, rows, out):
        out += np.array([3.0, 0.0, 4.0, 0.0])
        return 1.0

    def shortened(w, rows, out):
        out += longest * np.array([0.6, 0.0, 0.8, 0.0])
        return 1.0

    run = {"step": 0.1, "stop": 1, "runtime": "caller"}
    both, neither = (
        solve(problems.user(f, 20, 4, start=start), rule=one, **run).model.params
        for f, one in ((gradient, replace(rule, **options)), (shortened, rule))
    )
    np.testing.assert_allclose(both, neither - 0.1 * 0.5 * start, rtol=1e-12)


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
@pytest.mark.parametrize("nesterov", [False, True])
def test_what_decays_is_in_the_velocity_of_momentum(nesterov, plane):
    """As in torch: the vector's share is of the gradient."""
    eta, share, decay, start = 0.1, 0.9, 0.5, np.array([1.0, -2.0])

    def gradient(w, rows, out):
        out += w - 3.0
        return 1.0

    rule = SGD(batch=10, momentum=share, nesterov=nesterov, weight_decay=decay)
    run = {"rule": rule, "step": eta, "stop": 3, "n_workers": 1, "runtime": "caller"}
    w, velocity = start.copy(), 0.0
    for _ in range(6):
        slope = w - 3.0 + decay * w
        velocity = share * velocity + slope
        w -= eta * (slope + share * velocity if nesterov else velocity)
    found = solve(problems.user(gradient, 20, 2, start=start), plane=plane, **run).model.params
    np.testing.assert_allclose(found, w, rtol=1e-12)


def test_a_network_that_leaves_the_range_says_so():
    with pytest.raises(ValueError, match=r"smaller eta0 than 1e\+30"):
        solve(digits(np.float32), rule=SGD(batch=50), step=1e30, stop=5, runtime="caller")


def test_zero_weights_leave_rows_out():
    weight = np.ones(len(LABELS))
    weight[900:] = 0.0
    whole = problems.network(DIGITS, LABELS, (8,), sample_weight=weight)
    part = problems.network(DIGITS[:900], LABELS[:900], (8,))
    at = part.start()
    assert whole.objective(at) == pytest.approx(part.objective(at), rel=1e-13)
    rows, out = np.arange(950, 1000), np.ones(whole.n_params)
    assert whole.for_worker(0)(at, rows, out) > 0.0  # the penalty
    assert not out.any()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"loss": "hinge"}, "loss must be one of"),
        ({"activation": "gelu"}, "activation must be one of"),
        ({"alpha": -1.0}, "alpha must be"),
        ({"hidden": (4, 0)}, "hidden must be numbers of units"),
        ({"hidden": "many"}, "hidden must be numbers of units"),
        ({"y": np.zeros(N)}, "at least two classes"),
        ({"y": np.zeros(3)}, "a target for each of the 40 rows"),
        ({"y": np.full((N, 2), 0.5)}, "zeros and ones"),
        ({"y": np.full(N, np.nan), "loss": "squared_error"}, "NaN or infinity"),
        ({"y": np.full(N, -1.0), "loss": "poisson"}, "must not be negative"),
        ({"X": np.full((N, D), np.nan)}, "NaN"),
        ({"sample_weight": np.zeros(N)}, "at least one non-zero"),
        ({"sample_weight": np.full(N, -1.0)}, "sample_weight must contain"),
        ({"shape": (2, 2, 2)}, "as many numbers as a row of X, 7"),
        ({"layers": [Pooling(2)]}, "needs an image before it"),
        ({"layers": [Convolution(3, 9)], "shape": (7, 1, 1)}, "must fit into the image"),
        ({"layers": [Pooling(2)], "shape": (7, 1, 1)}, "at most the image before it"),
    ],
)
def test_bad_input_is_a_sentence(given, told):
    arguments = {"X": X, "y": TARGETS["softmax"], **given}
    with pytest.raises(ValueError, match=told):
        problems.network(**arguments)


def test_what_is_no_layer_is_refused():
    with pytest.raises(TypeError, match="layers must be Dense, Convolution"):
        problems.network(X, TARGETS["softmax"], layers=[7])
    with pytest.raises(ValueError, match="padding must be less than size"):
        Convolution(3, 2, padding=2)
    with pytest.raises(ValueError, match="size must be odd"):
        LocalResponse(4)
    with pytest.raises(ValueError, match=r"kind must be one of .* Did you mean 'max'"):
        Pooling(2, kind="maxi")


def test_options_of_rules_are_looked_at():
    with pytest.raises(ValueError, match="nesterov=True needs a momentum"):
        SGD(nesterov=True)
    with pytest.raises(ValueError, match="beta_2 must be at least 0 and below 1"):
        Adam(beta_2=1.0)
    with pytest.raises(ValueError, match="clip must be"):
        Adam(clip=0.0)
    linear = problems.linear(DIGITS, LABELS)
    with pytest.raises(ValueError, match=r"SGD\(momentum=0.5\) is for problems by a gradient"):
        solve(linear, rule=SGD(momentum=0.5))


def test_a_checkpoint_goes_on_with_the_moments(tmp_path):
    path, run = tmp_path / "run.npz", {"rule": Adam(batch=50), "step": 0.003, "seed": 0}
    run |= {"runtime": "caller", "n_workers": 1}
    whole = solve(digits(np.float32), stop=4, **run).model.params
    solve(digits(np.float32), stop=2, checkpoint=path, **run)
    resumed = solve(digits(np.float32), stop=4, resume=path, **run).model.params
    np.testing.assert_array_equal(resumed, whole)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_threads_of_blas_stay_as_they_are(n_workers):
    """Kernels do without: nobody's linear algebra on the way has fewer threads, or later."""
    seen = []

    def count(*_):
        seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")

    with threadpool_limits(limits=2, user_api="blas"):
        run = {"rule": SGD(batch=50), "step": 0.1, "stop": 2, "n_workers": n_workers}
        solve(digits(), runtime="threads", on_epoch=count, **run)
        count()
    assert set(seen) == {2}


def test_large_rows_travel_to_processes_in_shared_memory():
    """A megabyte and more of them lies beside what is pickled."""
    rows = np.random.default_rng(0).random((300, 1000))
    problem, large = problems.network(rows, np.arange(300) % 3, (4,)), []
    content = packed("problem", problem, large)
    assert len(content) < 100_000 and [part.nbytes for part in large] == [rows.nbytes]
    assert pickle.loads(content, buffers=large).inputs[0].base is not None


@pytest.mark.parametrize("runtime", ["caller", "threads", "processes"])
@pytest.mark.parametrize("rule", [SGD(batch=50, momentum=0.5), Adam(batch=50)], ids=repr)
def test_a_run_goes_on_with_what_the_rule_has_kept(rule, runtime):
    run = {"rule": rule, "step": 0.01, "shuffle": False, "runtime": runtime}
    problem = digits()
    whole = solve(problem, stop=4, **run).model
    half = solve(problem, stop=2, **run).model
    found = solve(problem, stop=2, start=half, **run).model
    np.testing.assert_array_equal(found.params, whole.params)
    for name, kept in whole.memory.items():
        np.testing.assert_array_equal(found.memory[name], kept)
    other = SGD(batch=50, momentum=0.5) if isinstance(rule, Adam) else Adam(batch=50)
    bare = solve(problem, **{**run, "rule": other}, stop=1, start=half.params).model.params
    assert (solve(problem, **{**run, "rule": other}, stop=1, start=half).model.params == bare).all()
