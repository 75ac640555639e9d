"""Runtimes: what `solve` asks of one, and one of the user's."""

import importlib.util
import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from hogshare import ASP, BSP, PSSP, SSP, Master, Plane, Shared, Simulator, Until, problems, solve
from hogshare.planes import PlaneError
from hogshare.runtimes.caller import Caller
from hogshare.runtimes.processes import Processes
from hogshare.runtimes.protocol import Runtime
from hogshare.runtimes.threads import Threads
from hogshare.runtimes.virtual import Virtual
from hogshare.solvers import run, solver

X, Y = load_breast_cancer(return_X_y=True)
PROBLEM = problems.linear(scale(X), Y, alpha=0.01)
DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The runtime that the page writes."""
    text = (DOCS / "write_a_runtime.md").read_text(encoding="utf-8")
    path = tmp_path_factory.mktemp("page") / "round_robin.py"
    path.write_text(text.split("```python\n", 1)[1].split("```\n", 1)[0], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RoundRobin


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")} | {"name"}


@pytest.mark.parametrize("made", [Caller(), Threads(), Processes(), Virtual(Simulator())])
def test_ours_are_runtimes_as_the_protocol_says(made):
    """They take what it says and are told apart by nothing else."""
    assert isinstance(made, Runtime) and isinstance(made.name, str)
    for name, method in inspect.getmembers(Runtime, inspect.isfunction):
        theirs = inspect.signature(getattr(type(made), name))
        assert theirs == inspect.signature(method), name


def test_solve_asks_for_nothing_else():
    """All that it reads of its runner is in the protocol, and it asks nobody for its name."""
    asked = set()
    for module in (solver, run):
        text = inspect.getsource(module)
        for part in text.split("runner.")[1:]:
            asked.add(part.split("(")[0].split()[0].rstrip(",.:)"))
    assert asked and asked <= public(Runtime), asked - public(Runtime)
    assert "runner.name ==" not in inspect.getsource(solver) + inspect.getsource(run)


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
@pytest.mark.parametrize("barrier", [ASP(), BSP(), SSP(1), PSSP(1, 2)], ids=repr)
def test_by_turns_it_repeats(written, plane, barrier):
    run = {"plane": plane, "barrier": barrier, "n_workers": 3, "stop": 5, "seed": 0, "block": 20}
    first, second = (solve(PROBLEM, runtime=written(), trace=1, **run) for _ in range(2))
    assert first.objective < 0.2 and first.runtime == "round-robin"
    assert sum(worker["rows"] for worker in first.workers) == 5 * len(X)
    np.testing.assert_array_equal(first.model.coef, second.model.coef)


@pytest.mark.parametrize("plane", [Shared(), Master()], ids=repr)
def test_behind_bsp_it_is_every_other(written, plane):
    run = {"plane": plane, "barrier": BSP(), "n_workers": 3, "stop": 5, "seed": 0}
    models = [solve(PROBLEM, runtime=r, **run).model for r in (written, "threads", "simulator")]
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].coef, other.coef)


def test_it_tells_of_epochs_and_looks_at_rest(written, tmp_path):
    told, path = [], tmp_path / "run.npz"
    run = {"n_workers": 2, "runtime": written(), "seed": 0, "stop": 4, "block": 20}
    solve(PROBLEM, on_epoch=lambda epoch, snapshot: told.append(epoch), checkpoint=path, **run)
    assert told == [1, 2, 3, 4] and path.exists()


def test_a_wait_that_nobody_can_end_ends_there_too(written, seams):
    class Stubborn(Plane):
        def after_block(self, home):
            yield Until(lambda: False)

    seams.clock.until_stuck_ns = 100_000_000
    with pytest.raises(PlaneError, match="Stubborn has let worker"):
        solve(PROBLEM, plane=Stubborn(), n_workers=2, runtime=written(), stop=1, block=20)


def test_it_is_closed_whatever_happens(written):
    class Breaks(written):
        closed = 0

        def run(self, session, on_epoch, checks=None):
            raise KeyError("no such worker")

        def close(self):
            self.closed += 1

    breaks = Breaks()
    with pytest.raises(KeyError, match="no such worker"):
        solve(PROBLEM, runtime=breaks, n_workers=2, stop=1)
    assert breaks.closed == 1


def test_one_that_runs_nothing_is_refused(monkeypatch):
    class Idle(Runtime):
        name = "idle"

    class Nameless(Runtime):
        def run(self, session, on_epoch, checks=None):
            """Do nothing."""

    monkeypatch.setattr("hogshare.solvers.run.Run.to_the_end", None)
    with pytest.raises(TypeError, match="Idle has no run: write run"):
        solve(PROBLEM, runtime=Idle, n_workers=2)
    with pytest.raises(TypeError, match="Nameless has no name"):
        solve(PROBLEM, runtime=Nameless(), n_workers=2)
    with pytest.raises(TypeError, match="runtime must be"):
        solve(PROBLEM, runtime=3)
