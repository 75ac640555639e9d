"""Planes of one's own: a vector for each worker, and what the plane makes of them."""

import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import scale

from hogshare import (
    BSP,
    SAGA,
    SGD,
    SSP,
    Checkpoint,
    Plane,
    Shared,
    Simulator,
    StepSize,
    problems,
    solve,
)
from hogshare.planes import PlaneError
from hogshare.simulation import Constant, Link, Network

X, Y = load_breast_cancer(return_X_y=True)
X = scale(X)
RUNTIMES = ["threads", "processes", "simulator"]


def written_plane():
    """The plane that the page about planes writes, which is a file there."""
    text = (Path(__file__).parent.parent / "docs" / "write_a_plane.md").read_text(encoding="utf-8")
    known = {"__name__": "written_plane"}  # which no process can import: its code travels
    exec(text.split("```python\n", 1)[1].split("```\n", 1)[0], known)
    return known["Averaged"]


Averaged = written_plane()


def linear(**settings):
    return problems.linear(X, Y, alpha=0.01, **settings)


def gradient(w, rows, out):
    x, s = X[rows], 2.0 * Y[rows] - 1.0
    margin = s * (x @ w)
    out += x.T @ (-s / (1.0 + np.exp(margin))) + len(rows) * 0.01 * w
    return np.logaddexp(0.0, -margin).sum() + 0.005 * len(rows) * (w @ w)


def by_gradient():
    return problems.user(gradient, *X.shape)


PROBLEMS = {
    "linear": (linear, {"step": StepSize("optimal"), "block": 20}),
    "gradient": (by_gradient, {"step": StepSize("invscaling", 0.02, 0.25), "rule": SGD(batch=16)}),
}


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_averaged_every_few_blocks(kind, runtime, n_workers):
    make, run = PROBLEMS[kind]
    known = solve(make(), stop=20, trace=1, seed=0, **run)
    # nobody is left behind, whatever cores there are: its home counts as much as the others'
    settings = {"plane": Averaged(), "barrier": SSP(4), "runtime": runtime, **run}
    # of several workers the mean goes as far in an epoch as one of them in its share of the blocks
    report = solve(make(), stop=20 * n_workers, trace=1, seed=0, n_workers=n_workers, **settings)
    assert report.objective < 1.2 * known.objective
    assert report.plane == {"name": "Averaged", "every": 4}
    assert len(report.trace.objective) == 20 * n_workers + 1 and report.n_workers == n_workers


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
def test_one_worker_at_home_is_the_sequential_run(kind, runtime):
    """Its own mean changes nothing but where a scale is folded."""
    make, run = PROBLEMS[kind]
    known = solve(make(), stop=3, seed=1, **run).model
    made = solve(
        make(), plane=Averaged(), runtime=runtime, n_workers=1, stop=3, seed=1, **run
    ).model
    for name in ("coef", "intercept") if kind == "linear" else ("params",):
        np.testing.assert_allclose(getattr(made, name), getattr(known, name), rtol=1e-9)


@pytest.mark.parametrize("barrier", [BSP(), SSP(2)], ids=repr)
def test_barriers_hold(barrier):
    run = {"plane": Averaged(), "n_workers": 3, "barrier": barrier, "stop": 5, "block": 20}
    report = solve(linear(), runtime="threads", **run)
    lead = 0 if isinstance(barrier, BSP) else 2
    assert all(w["largest_lead"] <= lead for w in report.workers)


def test_what_stands_in_the_homes():
    """Without a word between them workers end apart, and the mean is what is returned."""
    seen = {}

    class Apart(Plane):
        def after_block(self, home):
            seen[home.me] = home.read()

    report = solve(linear(), plane=Apart(), n_workers=2, runtime="simulator", stop=3, block=20)
    assert len(seen) == 2 and np.abs(seen[0] - seen[1]).max() > 1e-3
    vector = np.concatenate([report.model.coef[0], report.model.intercept])
    np.testing.assert_allclose(vector, (seen[0] + seen[1]) / 2.0, rtol=1e-12)


def test_several_columns_and_no_intercept():
    rows, labels = load_iris(return_X_y=True)
    for fit_intercept in (True, False):
        problem = problems.linear(scale(rows), labels, alpha=0.01, fit_intercept=fit_intercept)
        run = {"n_workers": 2, "barrier": SSP(2), "stop": 40, "block": 10, "seed": 0}
        report = solve(problem, plane=Averaged(1), runtime="threads", trace=1, **run)
        assert report.model.coef.shape == (3, 4)
        assert report.objective < 1.2 * solve(problem, stop=40, trace=1, seed=0).objective
        assert report.model.intercept.any() == fit_intercept


def test_iterates_are_averaged_across_writes():
    class Reset(Plane):
        """Writes back what it has read: the sum of the iterates must not change."""

        def after_block(self, home):
            home.write(home.read())

    run = {"rule": SGD(average=True), "stop": 2, "seed": 0, "block": 20}
    known, made = (solve(linear(), plane=plane, **run).model for plane in (Shared(), Reset()))
    np.testing.assert_allclose(made.average_coef, known.average_coef, rtol=1e-9)
    np.testing.assert_allclose(made.average_intercept, known.average_intercept, rtol=1e-9)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_checkpoints(kind, tmp_path):
    make, run = PROBLEMS[kind]
    path, settings = tmp_path / "run.npz", {"n_workers": 2, "runtime": "threads", **run}
    first = solve(make(), plane=Averaged(), stop=5, checkpoint=path, **settings)
    saved = Checkpoint(path).model()
    name = "coef" if kind == "linear" else "params"
    np.testing.assert_allclose(getattr(saved, name), getattr(first.model, name), rtol=1e-12)
    resumed = solve(make(), plane=Averaged(), stop=20, resume=path, trace=1, **settings)
    assert resumed.n_epochs == 20 and resumed.objective < 1.05 * resumed.trace.objective[0]
    elsewhere = solve(make(), stop=20, resume=path, trace=1, **settings)  # and on another plane
    assert elsewhere.objective < 1.05 * elsewhere.trace.objective[0]


def test_on_epoch_sees_the_model_of_the_homes():
    seen = []
    run = {"plane": Averaged(), "n_workers": 2, "runtime": "simulator", "stop": 3, "block": 20}
    solve(linear(), on_epoch=lambda epoch, snapshot: seen.append(snapshot().coef.copy()), **run)
    assert len(seen) == 3 and np.abs(seen[0] - seen[2]).max() > 0.0


def test_a_class_is_its_defaults():
    report = solve(linear(), plane=Averaged, n_workers=2, runtime="threads", stop=1)
    assert report.plane["every"] == 4


# -- messages --------------------------------------------------------------------------------------


class Ring(Plane):
    """Goes on from the mean with what the worker before has sent, whole or half of the places."""

    def __init__(self, whole=True, queue=1, meets=False):
        self.whole, self.queue, self.meets = whole, queue, meets

    def edges(self, n_workers):
        return [(k, (k + 1) % n_workers) for k in range(n_workers) if n_workers > 1]

    def arrays(self, n_params, n_workers):
        return {"sent": ((n_workers,), "int64"), "had": ((n_workers,), "int64")}

    def after_block(self, home):
        n, sent, had = home.n_workers, home.arrays["sent"], home.arrays["had"]
        while self.meets and not home.table.blocks.all():
            time.sleep(0.001)  # processes have come by then
        before, vector = (home.me - 1) % n, home.read()
        while n > 1 and (message := home.mail(before)) is not None:
            had[home.me] += 1
            assert message.number == had[home.me] <= message.round
            places = slice(None) if self.whole else message.places
            vector[places] = (vector[places] + message.values) / 2.0
            home.take(before)
            home.write(vector)
        if n > 1:
            places = None if self.whole else np.arange(home.blocks % 2, len(vector), 2)
            values = vector if self.whole else vector[places]
            sent[home.me] += home.post((home.me + 1) % n, values, places, round=home.blocks)

    def model(self, homes, arrays):
        self.counts = arrays["sent"].copy(), arrays["had"].copy()
        return homes.mean(axis=0)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("n_workers", [2, 3])
def test_homes_send_messages(runtime, n_workers, whole):
    make, run = PROBLEMS["linear"]
    plane = Ring(whole, queue=n_workers - 1, meets=runtime != "simulator")
    settings = {"plane": plane, "barrier": SSP(2), "runtime": runtime, **run}
    report = solve(make(), stop=20 * n_workers, trace=1, seed=0, n_workers=n_workers, **settings)
    assert report.objective < 0.9 * report.trace.objective[0]
    sent, had = plane.counts
    assert (sent > 5).all() and (had <= np.roll(sent, 1)).all()  # as they meet
    assert (had >= np.roll(sent, 1) - plane.queue).all()


def test_messages_by_a_gradient_and_in_several_columns():
    make, run = PROBLEMS["gradient"]
    rows, labels = load_iris(return_X_y=True)
    problem = problems.linear(scale(rows), labels, alpha=0.01)
    for made, settings in ((make(), run), (problem, {"block": 10})):
        settings = {"runtime": "threads", "barrier": SSP(2), "stop": 80, **settings}
        report = solve(made, plane=Ring(), n_workers=2, trace=1, **settings)
        assert report.objective < 0.9 * report.trace.objective[0]


def test_messages_repeat_on_a_virtual_clock():
    run = {"n_workers": 4, "runtime": "simulator", "stop": 6, "block": 20, "seed": 3}
    first, again = (solve(linear(), plane=Ring(), **run).model.coef for _ in range(2))
    assert np.array_equal(first, again)


class Told(Plane):
    """Worker 0 tells the others after each block; how old that is when they are told."""

    queue = 10

    def edges(self, n_workers):
        return [(0, k) for k in range(1, n_workers)]

    def arrays(self, n_params, n_workers):
        return {"age": ((n_workers, 100), "int64"), "told": ((n_workers,), "int64")}

    def after_block(self, home):
        age, told = home.arrays["age"], home.arrays["told"]
        for k in range(1, home.n_workers) if home.me == 0 else ():
            told[0] += home.post(k, home.read(), round=home.blocks)
            told[0] += home.post(k, np.ones(2), np.arange(2), round=home.blocks)
        while home.me and (message := home.mail(0)) is not None:
            age[home.me, told[home.me]] = home.blocks - message.round
            told[home.me] += 1
            home.take(0)

    def model(self, homes, arrays):
        self.ages = [ages[:n] for ages, n in zip(arrays["age"], arrays["told"], strict=True)]
        self.sent = arrays["told"][0]
        return homes.mean(axis=0)


def test_messages_are_under_way_on_a_virtual_clock_as_long_as_their_link_takes():
    """Blocks take a second: what is told after one is seen after the next that ends later."""
    plane, network = (
        Told(),
        Network(
            Link(latency=2.5),
            classes={"near": (Link(), [2])},
            edges={(0, 3): Link(1.0, bandwidth=336 / 0.9), (0, 4): Link(latency=np.inf)},
        ),
    )
    simulator = Simulator(block_time=Constant(1.0), network=network)
    report = solve(linear(), plane=plane, n_workers=5, runtime=simulator, stop=3, block=20)
    # to the third 336 bytes depart in 0.9 s, one message after the other, and arrive a second later
    for k, age in ((1, 3), (2, 0), (3, 2)):
        assert list(plane.ages[k]) == [age] * 2 * (report.workers[k]["blocks"] - age)
    assert len(plane.ages[4]) == 0  # and to the fourth nothing ever comes
    assert plane.sent == 3 * 2 * report.workers[0]["blocks"] + plane.queue
    half = plane.sent // 2
    size = half * (31 * 8 + 32) + half * (2 * (8 + 4) + 32)
    mail = report.traffic["mail"]
    assert (mail["messages"], mail["bytes"]) == (plane.sent, size)
    assert set(mail["edges"]) == {f"0 to {k}" for k in range(1, 5)}
    assert set(report.traffic) == {"mail", "control"}


def test_a_message_that_is_not_taken_keeps_its_place():
    class Deaf(Ring):
        def after_block(self, home):
            sent = home.arrays["sent"]
            sent[home.me] += home.post((home.me + 1) % home.n_workers, home.read())

    for queue in (1, 3):
        plane = Deaf(queue=queue)
        solve(linear(), plane=plane, n_workers=3, runtime="threads", stop=4, block=20)
        assert (plane.counts[0] <= queue).all() and plane.counts[0].max() == queue


# -- what goes wrong -------------------------------------------------------------------------------


class Raises(Averaged):
    def after_block(self, home):
        if home.blocks > 3:
            raise KeyError("no such home")


class Shapeless(Averaged):
    def model(self, homes, arrays):
        return homes


class WritesWrong(Averaged):
    def after_block(self, home):
        home.write(np.zeros(3))


@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
def test_a_plane_that_raises_is_named(runtime):
    n_workers = 1 if runtime == "caller" else 2
    run = {"runtime": runtime, "n_workers": n_workers, "stop": 5, "block": 20}
    with pytest.raises((PlaneError, RuntimeError), match="Raises raised in after_block: KeyError"):
        solve(linear(), plane=Raises(), **run)
    with pytest.raises((PlaneError, RuntimeError), match="home's vector has the shape"):
        solve(linear(), plane=WritesWrong(), **run)
    assert solve(linear(), plane=Averaged(), **run).n_epochs == 5


class Joined(Plane):
    """Has the edges that it is told."""

    def __init__(self, *joined, queue=1, does=lambda home: None):
        self.joined, self.queue, self.after_block = list(joined), queue, does

    def edges(self, n_workers):
        return self.joined


@pytest.mark.parametrize(
    ("plane", "sentence"),
    [
        (Joined((0, 2)), "edge from 0 to 2: an edge must join two different workers of 0 to 1"),
        (Joined((-1, 0)), "edge from -1 to 0"),
        (Joined((1, 1)), "edge from 1 to 1"),
        (Joined((0, 1), (0, 1)), "names an edge twice"),
        (Joined((0, 1), queue=0), "Joined.queue must be at least 1 message"),
    ],
)
def test_edges_that_cannot_be(plane, sentence):
    with pytest.raises(ValueError, match=sentence):
        solve(linear(), plane=plane, n_workers=2, runtime="threads", stop=1)


@pytest.mark.parametrize(
    ("does", "sentence"),
    [
        (lambda home: home.post(1 - home.me, home.read()[:, None]), "at most 31 entries"),
        (lambda home: home.post(1 - home.me, np.zeros(32)), "at most 31 entries"),
        (
            lambda home: home.post(1 - home.me, np.zeros(2), np.zeros(3, int)),
            "places must be None or as long as values",
        ),
        (lambda home: home.post(2, home.read()), "no edge from 0 to 2: Joined.edges has to"),
        (lambda home: home.mail(home.me), "no edge from 0 to 0"),
        (lambda home: home.take(1 - home.me), "no message to take: call take.. after poll"),
    ],
)
def test_messages_that_cannot_be(does, sentence):
    plane = Joined((0, 1), (1, 0), does=lambda home: does(home) if home.me == 0 else None)
    with pytest.raises((PlaneError, RuntimeError), match=sentence):
        solve(linear(), plane=plane, n_workers=2, runtime="simulator", stop=1, block=20)


def test_a_model_of_another_shape():
    with pytest.raises(PlaneError, match="has to make a model of shape"):
        solve(linear(), plane=Shapeless(), n_workers=2, runtime="threads", stop=1)


@pytest.mark.parametrize("plane", [Plane, Plane()])
def test_a_plane_that_does_nothing_is_refused(plane, monkeypatch):
    """Before anything is allocated, let alone a worker started."""
    monkeypatch.setattr("hogshare.solvers.run.Run.to_the_end", None)
    with pytest.raises(TypeError, match=r"Plane has no after_block: write after_block"):
        solve(linear(), plane=plane, n_workers=2, runtime="threads")


def test_a_plane_may_be_given_its_method():
    plane = Plane()
    plane.after_block = lambda home: None
    assert solve(linear(), plane=plane, n_workers=2, runtime="threads", stop=1).n_epochs == 1


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="SAGA needs a shared vector"):
        solve(linear(), rule=SAGA(), plane=Averaged())
    with pytest.raises(ValueError, match="use batch=1"):
        solve(linear(), rule=SGD(batch=4), plane=Averaged())
    with pytest.raises(ValueError, match="record=True needs a plane with versions"):
        solve(linear(), plane=Averaged(), record=True)
