"""A rule of one's own: what it keeps with each worker, where that goes, and what it may refuse."""

import numpy as np
import pytest

from hogshare import SGD, SSP, Checkpoint, Master, Rule, Shared, Simulator, problems, solve
from hogshare.engine.checkpoints import load

N, D = 96, 4
TARGET = np.arange(1.0, D + 1.0)
RUN = {"step": 0.002, "block": 8, "seed": 0}


def dense(w, rows, out):
    """Of each row the distance from the target along one coordinate."""
    places = rows % D
    np.add.at(out, places, w[places] - TARGET[places])
    return 0.5 * np.square(w[places] - TARGET[places]).sum()


def by_places(w, rows, out):
    return dense(w, rows, out), np.unique(rows % D)


class Momentum(Rule):
    def state(self, n_params):
        return {"velocity": ((n_params,), "float64")}

    def step(self, gradient, eta, state):
        state["velocity"] *= 0.9
        state["velocity"] += eta * gradient
        gradient[:] = state["velocity"]


class Counted(Momentum):
    """Tells what its workers' numbers of steps were when they came to their first ones here."""

    def __init__(self):
        self._begun = {}

    def state(self, n_params):
        return {"count": ((), "int64"), "worker": ((1,), np.uint8)}

    def step(self, gradient, eta, state):
        self._begun.setdefault(state["count"].__array_interface__["data"], int(state["count"]))
        state["count"] += 1
        gradient *= eta

    def begun(self):
        found, self._begun = sorted(self._begun.values()), {}
        return found

    def __repr__(self):
        return "Counted()"


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
@pytest.mark.parametrize("runtime", ["caller", "processes"])
def test_it_moves_numbers_that_a_gradient_does_not(plane, runtime):
    """Whether or not the problem tells which it has written."""
    run = {**RUN, "block": 2, "rule": Momentum(), "plane": plane, "stop": 3, "n_workers": 1}
    told, all_of_it = (
        solve(problems.user(f, N, D), runtime=runtime, **run).model.params
        for f in (by_places, dense)
    )
    np.testing.assert_array_equal(told, all_of_it)


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_a_checkpoint_keeps_every_workers_state(tmp_path, n_workers):
    """More workers than before begin with copies, fewer leave some out."""
    path, rule, problem = tmp_path / "run.npz", Counted(), problems.user(dense, N, D)
    run = {**RUN, "rule": rule, "runtime": Simulator(seed=0), "barrier": SSP(1)}
    solve(problem, n_workers=2, stop=2, checkpoint=Checkpoint(path), **run)
    assert rule.begun() == [0, 0]
    counts = load(path).arrays["state_rule_count"]
    assert counts.shape == (2,) and counts.sum() == 2 * N // 8
    solve(problem, n_workers=n_workers, stop=4, resume=path, **run)
    assert rule.begun() == sorted(counts[k % 2] for k in range(n_workers))


def test_a_replay_goes_through_the_same_states():
    from hogshare import replay

    run = {**RUN, "rule": Momentum(), "plane": Master(), "runtime": "threads", "n_workers": 2}
    problem = problems.user(dense, N, D)
    report = solve(problem, stop=3, record=True, **run)
    np.testing.assert_array_equal(replay(problem, report).params, report.model.params)


def test_to_set_an_array_of_the_state_is_to_write_it(tmp_path):
    """So that an array of the rule's own does not take the place of the one that is kept."""

    class Bound(Momentum):
        def step(self, gradient, eta, state):
            gradient[:] = 0.9 * state["velocity"] + eta * gradient
            state["velocity"] = gradient
            assert sorted(state) == ["velocity"] and len(state) == 1
            with pytest.raises(KeyError):
                state["other"] = gradient

    problem = problems.user(dense, N, D)
    for name, rule in (("in place", Momentum()), ("bound", Bound())):
        solve(problem, rule=rule, stop=2, checkpoint=Checkpoint(tmp_path / name), **RUN)
    one, other = (
        load(tmp_path / name).arrays["state_rule_velocity"] for name in ("in place", "bound")
    )
    assert one.any()
    np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(
    "asked",
    [
        None,
        ["velocity"],
        {"velocity": (3,)},
        {"velocity": (3, "float64")},
        {"velocity": ((-1,), "float64")},
        {"velocity": ((3,), "object")},
        {"velocity": ((3,), "floats")},
        {"a/b": ((3,), "float64")},
        {1: ((3,), "float64")},
    ],
    ids=repr,
)
def test_a_state_that_is_none_is_refused(asked):
    class Odd(Momentum):
        def state(self, n_params):
            return asked

    with pytest.raises(TypeError, match=r"Odd\.state has to name arrays by shape and dtype"):
        solve(problems.user(dense, N, D), rule=Odd(), stop=1, **RUN)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("state_rule_velocity"),
        lambda arrays: arrays.update(state_rule_velocity=np.zeros((1, D + 1))),
        lambda arrays: arrays.update(state_rule_velocity=np.zeros((0, D))),
        lambda arrays: arrays.update(state_rule_velocity=np.zeros((1, D), np.float32)),
    ],
    ids=["none", "longer", "nobody's", "of another type"],
)
def test_a_checkpoint_with_another_state_is_refused(tmp_path, change):
    path, problem = tmp_path / "run.npz", problems.user(dense, N, D)
    solve(problem, rule=Momentum(), stop=2, checkpoint=Checkpoint(path), **RUN)
    saved = load(path)
    change(saved.arrays)
    saved.save(path)
    with pytest.raises(ValueError, match="rule_velocity is not float64 of shape"):
        solve(problem, rule=Momentum(), stop=4, resume=path, **RUN)


def test_it_says_what_it_does_not_go_with():
    class Alone(SGD):
        def check(self, chosen):
            super().check(chosen)
            if not chosen.plane.is_lock_free or chosen.block != 8 or chosen.step.eta0 != 0.002:
                raise ValueError("Alone wants the one vector: use Shared(exchange=None).")

    problem = problems.user(dense, N, D)
    with pytest.raises(ValueError, match="Alone wants the one vector"):
        solve(problem, rule=Alone(), stop=1, **RUN)
    assert solve(problem, rule=Alone(), plane=Shared(exchange=None), stop=1, **RUN).n_epochs == 1
