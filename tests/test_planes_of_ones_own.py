"""Planes of one's own: a vector for each worker, and what the plane makes of them."""

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
    StepSize,
    problems,
    solve,
)
from hogshare.planes import PlaneError

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
    report = solve(make(), stop=20 * n_workers, trace=1, n_workers=n_workers, **settings)
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
    assert resumed.n_epochs == 20 and resumed.objective < resumed.trace.objective[0]
    elsewhere = solve(make(), stop=20, resume=path, trace=1, **settings)  # and on another plane
    assert elsewhere.objective < elsewhere.trace.objective[0]


def test_on_epoch_sees_the_model_of_the_homes():
    seen = []
    run = {"plane": Averaged(), "n_workers": 2, "runtime": "simulator", "stop": 3, "block": 20}
    solve(linear(), on_epoch=lambda epoch, snapshot: seen.append(snapshot().coef.copy()), **run)
    assert len(seen) == 3 and np.abs(seen[0] - seen[2]).max() > 0.0


def test_a_class_is_its_defaults():
    report = solve(linear(), plane=Averaged, n_workers=2, runtime="threads", stop=1)
    assert report.plane["every"] == 4


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


def test_a_model_of_another_shape():
    with pytest.raises(PlaneError, match="has to make a model of shape"):
        solve(linear(), plane=Shapeless(), n_workers=2, runtime="threads", stop=1)


@pytest.mark.parametrize("plane", [Plane, Plane()])
def test_a_plane_that_does_nothing_is_refused(plane, monkeypatch):
    """Before anything is allocated, let alone a worker started."""
    monkeypatch.setattr("hogshare.solvers.running.Run.to_the_end", None)
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
