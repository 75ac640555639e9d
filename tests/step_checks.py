"""What ranks in step come to, against as many threads: run by tests/test_in_step.py."""

import sys
import tempfile
from pathlib import Path

import numpy as np
from mpi4py import MPI as library
from ranks import report_on
from sklearn.datasets import load_digits

from hogshare import (
    MPI,
    SAGA,
    SDCA,
    SGD,
    Adam,
    Checkpoint,
    Master,
    Plane,
    Replicas,
    Rule,
    Shared,
    StepSize,
    Stop,
    datasets,
    problems,
    solve,
)
from hogshare.simulation import Link

COMM = library.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
STEP = MPI(arena=False, rows="all", start_timeout=30)
DRAWS = np.random.default_rng(0)
X = DRAWS.standard_normal((500, 6))
Y = (X @ np.arange(1.0, 7.0) > 0.3 * DRAWS.standard_normal(500)).astype(int)
LINEAR = problems.linear(X, Y, alpha=0.01)
DIGITS, NUMBERS = load_digits(return_X_y=True)
CLASSES = problems.linear(DIGITS[:400] / 16.0, NUMBERS[:400], alpha=1e-3)
TEXT, LABELS = datasets.zipf_classification(n_samples=3000, n_features=1500)
SPARSE = problems.linear(TEXT, LABELS, alpha=1e-4)
HELD_OUT = np.arange(500) % 10 == 0


def network():
    return problems.network(DIGITS[:300] / 16.0, NUMBERS[:300], (7,))


def quadratic():
    """A gradient of one's own, whose mini-batches can be split."""

    def gradient(w, rows, out):
        slope = X[rows] @ w - Y[rows]
        out += X[rows].T @ slope
        return float(0.5 * slope @ slope)

    return problems.user(gradient, 500, 6)


class Heavy(Rule):
    """A step with a state of its own, of numbers and of a count."""

    def state(self, n_params):
        return {"velocity": ((n_params,), "vector"), "count": ((), "int32")}

    def step(self, gradient, eta, state):
        state["count"] += 1
        state["velocity"] *= 0.5
        state["velocity"] += gradient
        gradient[:] = eta * state["velocity"] / (1.0 + 0.01 * state["count"])


class Averaged(Plane):
    """Workers go on from the mean of what all have written into rows of their own."""

    def arrays(self, n_params, n_workers):
        return {"rows": ((n_workers, n_params), "float64")}

    def begin(self, arrays, vector):
        arrays["rows"][:] = vector

    def after_block(self, home):
        home.arrays["rows"][home.me] = home.read()
        home.write(home.arrays["rows"].mean(axis=0))


def numbers(model):
    """All numbers of a model, as bytes."""
    parts = [getattr(model, name, None) for name in ("coef", "intercept", "average_coef", "memory")]
    if hasattr(model, "coefs"):
        parts += [*model.coefs, *model.intercepts]
    for name in ("params", "vector", "users", "items", "components"):
        parts.append(getattr(model, name, None))
    found = [np.asarray(one).tobytes() for one in parts if isinstance(one, np.ndarray)]
    assert found, vars(model)
    return b"".join(found)


def on_all(value):
    """Whether a value is the same on every rank."""
    return len(set(COMM.allgather(value))) == 1


def check(problem, n=1, runtime=STEP, **settings):
    """Whether ranks in step have the bits of as many threads, which rank 0 has."""
    run = {"barrier": "bsp", "seed": 3, "stop": 4, **settings}
    ours = solve(problem, runtime=runtime, n_workers=n, **run)
    theirs = None
    if RANK == 0:
        theirs = solve(problem, runtime="threads", n_workers=n * SIZE, **run)
    theirs = COMM.bcast(theirs)
    assert ours.settings["in_step"] and ours.n_workers == n * SIZE
    assert on_all(numbers(ours.model))
    assert numbers(ours.model) == numbers(theirs.model), "other bits"
    assert ours.n_epochs == theirs.n_epochs, (ours.n_epochs, theirs.n_epochs)
    assert ours.stop_reason == theirs.stop_reason
    assert ours.traffic["block"]["bytes"] > 0
    assert [one["rank"] for one in ours.workers] == [k for k in range(SIZE) for _ in range(n)]
    for name in ("rows", "blocks", "pushes"):
        assert [w[name] for w in ours.workers] == [w[name] for w in theirs.workers], name
    return ours, theirs


CONSTANT = StepSize("constant", 0.01)
# -- of every plane, rule and problem that has an order


def check_shared_sgd(n):
    check(LINEAR, n)
    check(SPARSE, n, rule=SGD(average=True), trace=2)
    check(CLASSES, n, rule=SGD(average=100))
    check(problems.linear(X, Y, alpha=0.01, penalty="elasticnet"), n)


def check_shared_rules_that_remember(n):
    for rule in (SAGA(), SDCA()):
        check(LINEAR, n, rule=rule)
        check(SPARSE, n, rule=rule)
        check(CLASSES, n, rule=rule)


def check_master(n):
    check(LINEAR, n, plane=Master())
    check(LINEAR, n, plane=Master(), rule=SGD(batch=8), step=CONSTANT)
    check(SPARSE, n, plane=Master(gradients=3), trace=2)
    check(CLASSES, n, plane=Master(gradients=2, cutoff=3))
    check(LINEAR, n, plane=Master(), rule=SGD(average=True))
    check(network(), n, plane=Master(), step=0.01)
    check(quadratic(), n, plane=Master(), step=1e-3)
    check(quadratic(), n, plane=Master(), rule=SGD(momentum=0.9, weight_decay=0.1), step=1e-3)


def check_homes(n):
    for plane in (
        Replicas("ring", every=16),
        Replicas("root", every=16, send="change"),
        Replicas("ring", every=16, sync="bsp"),
        Replicas("ring", every=16, sync="async"),
        Averaged(),
    ):
        check(LINEAR, n, plane=plane, trace=1)
        check(network(), n, plane=plane, step=0.01, rule="adam")
    check(LINEAR, n, plane=Averaged(), rule=SGD(average=True))


def check_gradients(n):
    for rule in (SGD(), SGD(momentum=0.9), Adam(), Heavy(), SGD(batch=50, average=True)):
        for problem in (network(), quadratic()):
            for plane in (Shared(), Shared(exchange=None)):
                if plane.exchange is None and not (problem.by_mean or rule.state(3)):
                    continue  # nothing is split, and writes have no order
                check(problem, n, rule=rule, plane=plane, step=1e-3)
    check(network(), n, barrier=None, step=0.01)  # in step of itself


def check_other_problems(n):
    draws = np.random.default_rng(1)
    users, items = draws.integers(0, 40, 900), draws.integers(0, 30, 900)  # some pairs twice
    ratings = problems.factorisation(users, items, draws.random(900), n_factors=4)
    check(ratings, n)
    check(ratings, n, plane=Master())
    check(ratings, n, plane=Averaged())
    counts = draws.integers(0, 5, (200, 40))
    check(problems.topics(counts, 4, random_state=0), n)


# -- what is decided on the way


def check_stops(n):
    ours, _ = check(LINEAR, n, stop=Stop(epochs=60, tol=1e-3))
    assert ours.converged
    held = Stop(epochs=60, tol=1e-3, validation=HELD_OUT)
    check(LINEAR, n, stop=held)
    for rule in (SAGA(), SDCA()):
        ours, theirs = check(LINEAR, n, rule=rule, stop=Stop(epochs=300, gradient=1e-4))
        assert ours.converged and ours.checks == theirs.checks
        ours, _ = check(LINEAR, n, rule=rule, stop=Stop(epochs=300, gap=1e-3))
        assert ours.converged
    check(LINEAR, n, step="adaptive", stop=Stop(epochs=50, tol=1e-3, patience=2))
    check(LINEAR, n, rule=SDCA(), stop=Stop(epochs=60, tol=1e-4, confirm=True))
    check(quadratic(), n, step=1e-4, stop=Stop(epochs=40, gradient=0.1))


def check_traces_and_records(n):
    ours, theirs = check(SPARSE, n, trace=4, gradients=True)
    assert (ours.trace.objective == theirs.trace.objective).all()
    assert (ours.trace.blocks == theirs.trace.blocks).all()
    ours, theirs = check(LINEAR, n, plane=Master(gradients=2), record=True)
    assert (ours.recording.events == theirs.recording.events).all()


def check_callers(n):
    told = []

    def hear(epoch, snapshot):
        told.append((epoch, snapshot().coef.tobytes()))
        return epoch == 2 and RANK == 0

    of_rows = [(Shared(), SAGA()), (Shared(), SDCA())]
    of_steps = [(plane, SGD()) for plane in (Shared(), Master(), Replicas("ring", every=16))]
    # several times: some workers wait for their next block when all are to stop, and some do not
    for plane, rule in 3 * (of_rows + of_steps):
        told.clear()
        run = {"runtime": STEP, "barrier": "bsp", "n_workers": n, "seed": 0}
        run |= {"plane": plane, "rule": rule}
        report = solve(LINEAR, stop=500, on_epoch=hear, **run)
        assert report.n_epochs == 2 and report.stop_reason == "the caller asked for it"
        assert [epoch for epoch, _ in told] == [1, 2], plane
        assert on_all(tuple(told)), plane
        assert on_all(report.to_json())
    heard = [] if RANK == 0 else None
    hear_all = None if heard is None else lambda epoch, _: heard.append(epoch)
    check(LINEAR, n, on_epoch=hear_all)
    assert heard in (None, [1, 2, 3, 4, 1, 2, 3, 4])


def check_checkpoints(n):
    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    own = Path(folder) / f"{RANK}.npz"
    for problem, settings in (
        (LINEAR, {"rule": SAGA()}),
        (network(), {"step": 0.01, "rule": "adam"}),
        (LINEAR, {"plane": Replicas("ring", every=16)}),
    ):
        path = Path(folder) / "run.npz"
        run = {"barrier": "bsp", "seed": 1, **settings}
        ours = {"runtime": STEP, "n_workers": n}
        theirs = {"runtime": "threads", "n_workers": n * SIZE}
        where = Checkpoint(path, epochs=2) if RANK == 0 else "never/written"
        first = solve(problem, stop=5, checkpoint=where, **ours, **run)
        again = solve(problem, stop=5, checkpoint=Checkpoint(own, epochs=2), **theirs, **run)
        assert numbers(first.model) == numbers(again.model)
        COMM.barrier()
        resumed = solve(problem, stop=9, resume=path if RANK == 0 else None, **ours, **run)
        by_threads = solve(problem, stop=9, resume=own, **theirs, **run)
        assert resumed.n_epochs == 9 and numbers(resumed.model) == numbers(by_threads.model)
        COMM.barrier()


def check_seeds_weights_stragglers_and_links(n):
    weights = np.random.default_rng(4).random(500)
    check(problems.linear(X, Y, alpha=0.01, sample_weight=weights), n)
    check(LINEAR, n, stragglers="cds:0.3", stop=2)
    run = {"runtime": STEP, "barrier": "bsp", "n_workers": n, "stop": 2}
    assert on_all(numbers(solve(LINEAR, seed=None, **run).model))
    slow = MPI(arena=False, rows="all", link=Link(latency=0.01))
    ours, _ = check(LINEAR, n, runtime=slow, stop=2)
    assert ours.run_seconds > 0.02
    edges = ours.traffic["block"]["edges"]
    assert len(edges) == SIZE * (SIZE - 1)
    assert sum(one["bytes"] for one in edges.values()) == ours.traffic["block"]["bytes"]


def check_errors(n):
    def gradient(w, rows, out):
        if RANK == SIZE - 1 and w.any():
            raise ValueError("of the last rank")
        out += w - 1.0
        return 1.0

    def hear(epoch, snapshot):
        if RANK == SIZE - 1 and epoch == 2:
            raise RuntimeError("in a callback")

    run = {"runtime": STEP, "barrier": "bsp", "n_workers": n, "stop": 1_000_000, "seed": 0}
    steep = problems.network(X, Y, (3,), activation="relu")
    for words, call in {
        "of the last rank": lambda: solve(problems.user(gradient, 64, 3), block=4, **run),
        "in a callback": lambda: solve(LINEAR, on_epoch=hear, **run),
        "Floating-point under-": lambda: solve(steep, step=1e100, **run),
    }.items():
        try:
            call()
        except Exception as error:
            text = str(error) + str(error.__cause__) + "".join(getattr(error, "__notes__", []))
            assert words in text, text
        else:
            raise AssertionError(f"nothing is raised: {words}")
        assert on_all(True)
    check(LINEAR, n, stop=1)


CHECKS = {name: value for name, value in list(globals().items()) if name.startswith("check_")}

if __name__ == "__main__":
    n, *names = sys.argv[1:]
    report_on({name: CHECKS[name] for name in names or CHECKS}, RANK, int(n))
