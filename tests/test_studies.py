"""Studies with real gradients on the virtual clock: PSP's model error, AsySG's speedups."""

import json

import numpy as np
import pytest

from hogshare.lab.studies import asysg_speedups, model_error, named_problems, printed_speedups

SETTINGS = {
    "n_workers": 30,
    "n_parameters": 20,
    "seconds": 12.0,
    "laws": ["exponential:1"],
    "poll": 0.05,
    "seeds": 2,
    "seed": 0,
    "step": None,
}


# -- model error


def test_the_error_is_the_distance_from_the_truth_of_that_at_the_start():
    data = model_error.rows(SETTINGS, seed=3)
    problem, truth = data
    assert problem.n_rows == 30 * model_error.ROWS_PER_WORKER
    exact = np.linalg.lstsq(
        np.asarray(problem.rows.data).reshape(-1, 20), np.asarray(problem.rows.y)
    )[0]
    np.testing.assert_allclose(exact, truth, rtol=1e-3)
    found = model_error.errors("asp", 0.01, SETTINGS, data, seed=0)
    assert found.shape == (13,) and found[0] == 1.0
    assert (np.diff(found) < 0.05).all() and found[-1] < 0.3
    again = model_error.errors("asp", 0.01, SETTINGS, data, seed=0)
    np.testing.assert_array_equal(found, again)


def test_a_step_that_is_too_long_is_an_infinite_or_a_large_error_and_not_chosen(monkeypatch):
    data = model_error.rows(SETTINGS, seed=3)
    found = model_error.errors("asp", 1.0, SETTINGS, data, seed=0)
    assert found[0] == 1.0 and found[-1] > 1e3
    monkeypatch.setattr(model_error, "GRID", (0.5, 50.0))
    steps = model_error.best_steps(SETTINGS, ["asp", "bsp"], lambda what: None)
    assert steps == [0.5 / 50] * 2


def test_figure_1d_has_every_barrier_at_both_steps(monkeypatch):
    monkeypatch.setattr(model_error, "GRID", (0.5, 1.0))
    told = []
    result = model_error.FIGURES["1d"](SETTINGS, told.append)
    json.dumps(result, allow_nan=False)
    assert len(told) <= model_error.most_runs("1d", seeds=2, tuned=True)
    ways = {one["panel"] for one in result["series"]}
    assert ways == {"a short step for all", "a long step for all", "each its best step"}
    assert len(result["series"]) == 15
    for one in result["series"]:
        assert one["step"] > 0.0
        curve = one["over_time"]
        assert curve["seconds"] == list(range(13)) and curve["mean"][0] == 1.0
        assert curve["low"][-1] <= curve["mean"][-1] <= curve["high"][-1]
        assert one["points"][0]["error"]["mean"] == curve["mean"][-1]
        assert curve["mean"][-1] < 1.0 or one["panel"] == "a long step for all"
    assert all("in the paper" in note for note in result["notes"])


def test_figure_2b_is_relative_to_no_stragglers(monkeypatch):
    monkeypatch.setattr(model_error, "SHARES", (0.0, 0.3))
    result = model_error.FIGURES["2b"](SETTINGS | {"step": 0.01}, lambda what: None)
    for one in result["series"]:
        first, last = one["points"]
        assert first["ratio"]["mean"] == 1.0 and last["x"] == 0.3
        assert one["step"] == 0.01
        assert last["error"]["mean"] > first["error"]["mean"]


# -- speedups


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(asysg_speedups, "ROWS", 4000)
    monkeypatch.setattr(asysg_speedups, "FEATURES", 10)
    monkeypatch.setattr(asysg_speedups, "STEP", {"con": 0.01, "incon": 0.0005})


@pytest.mark.parametrize("algorithm", ["con", "incon"])
def test_iteration_speedup_is_nearly_the_number_of_workers(small, algorithm):
    result = asysg_speedups.speedups(algorithm, workers=(2, 4), seeds=2)
    json.dumps(result, allow_nan=False)
    one, two, four = result["series"][0]["points"]
    assert one["iteration"]["mean"] == one["time"]["mean"] == 1.0 and one["staleness"] == 0.0
    for point in (two, four):
        n = point["x"]
        assert point["iteration"]["mean"] == pytest.approx(n, rel=0.15)
        assert point["time"]["mean"] == pytest.approx(point["iteration"]["mean"], rel=0.1)
        assert point["staleness"] == pytest.approx(n - 1, rel=0.1, abs=1.1)


def test_at_the_ceiling_time_speedup_ends_and_iteration_speedup_does_not(small):
    result = asysg_speedups.speedups("con", workers=(8,), seeds=1, ceiling=3.0)
    point = result["series"][0]["points"][1]
    assert point["time"]["mean"] < 4.5 < 6.5 < point["iteration"]["mean"]


def test_a_step_that_stale_gradients_do_not_bear_is_told(small):
    with pytest.raises(ValueError, match="use a smaller step"):
        asysg_speedups.speedups("con", workers=(32,), seeds=1, step=0.07)


def test_the_papers_tables_have_a_speedup_for_each_number_of_workers():
    for (problem, _), tables in printed_speedups.TABLES.items():
        named_problems.family_of(problem)
        for table in tables:
            assert len(table["workers"]) == len(table["time"])
            assert table["iteration"] is None or len(table["iteration"]) == len(table["time"])
    assert [table["what"] for table in printed_speedups.tables_of("con")] == [
        "LENET, table 1",
        "CIFAR10-FULL, table 2",
    ]
    assert len(printed_speedups.tables_of("incon", "factorisation")) == 3
    with pytest.raises(ValueError, match="algorithm must be"):
        asysg_speedups.speedups("both")
