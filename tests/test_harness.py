"""The laboratory's harness, by an experiment of its own."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from hogshare import Stop, problems, solve
from hogshare.cli import options
from hogshare.lab.harness import panels
from hogshare.lab.harness.experiment import Experiment, crowded
from hogshare.lab.harness.rounds import in_rounds
from hogshare.lab.harness.settings import Setting, defaults_of
from hogshare.lab.harness.table_numbers import (
    Compared,
    Spread,
    TableNumber,
    columns_of,
    over_seeds,
    ratio,
)

BENCH = Path(__file__).parent.parent / "bench"

STEPS = Experiment(
    name="steps",
    help="what a step costs",
    description="Run the same problem with several steps.",
    examples="",
    settings=(
        Setting("steps", "constant ones", [0.1, 0.5], options.positive, several=True),
        Setting("workers", "", 1, options.positive_int),
        Setting("epochs", "of a run", 2, options.positive_int),
        Setting("target", "objective (default: what all reach)", type=options.finite),
        Setting("rounds", "", 2, options.positive_int),
        Setting("seed", "", 0, options.seed),
    ),
    axes=("step",),
    contestants=lambda settings: [(step,) for step in settings["steps"]],
    problem=lambda args: problems.linear(np.eye(8, 3), np.arange(8) % 2),
    run_once=lambda problem, settings, one, seed: solve(
        problem, step=one[0], stop=Stop(epochs=settings["epochs"]), seed=seed, trace=4
    ),
    facts=lambda report: {"seconds": report.run_seconds},
    numbers=(
        Spread("seconds", lambda run: run.first("seconds"), header="{clock}s"),
        TableNumber("epochs", lambda run: run.first("epochs"), header="epochs", form=".1f"),
        Compared("more", by=lambda row, rows, _: ratio(row["epochs"], rows[0]["epochs"])),
    ),
    caption="{workers} worker, {rounds} rounds, {nonzero}",
    about=lambda problem, settings: {"nonzero": problem.nnz},
    title="{rounds} rounds",
)


def the_command(*more):
    parser = argparse.ArgumentParser()
    STEPS.add_to(parser.add_subparsers())
    args = parser.parse_args(["steps", *map(str, more)])
    return args.run(args)


def test_an_experiment_is_a_command_with_a_table_json_and_a_picture(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    files = tmp_path / "s.json", tmp_path / "s.png"
    assert the_command("--steps", 0.2, 0.4, 0.8, "--json", files[0], "--plot", files[1]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1].split() == ["step", "s", "epochs"]
    assert "1 worker, 2 rounds, 24\n" in printed.err
    result = json.loads(files[0].read_text())
    assert [row["step"] for row in result["table"]] == [0.2, 0.4, 0.8]
    assert result["table"][0]["more"] == 1.0
    # sorted by contestant and round, of which every contestant runs in each
    assert [(run["step"], run["round"]) for run in result["runs"]] == [
        (step, number) for step in (0.2, 0.4, 0.8) for number in (0, 1)
    ]
    assert result["settings"]["steps"] == [0.2, 0.4, 0.8] and result["nonzero"] == 24
    assert files[1].stat().st_size > 5_000


def test_settings_have_defaults_for_whoever_else_measures():
    assert STEPS.defaults(epochs=7)["epochs"] == 7 and STEPS.defaults()["steps"] == [0.1, 0.5]
    with pytest.raises(TypeError, match="epoch: no setting of steps"):
        STEPS.defaults(epoch=7)
    assert defaults_of([Setting("a", "", 1.5)], "nothing") == {"a": 1.5}


def test_each_round_begins_with_another():
    order = []
    found = in_rounds("abc", 2, lambda one, number: order.append(one) or number)
    assert "".join(order) == "abcbca" and found == [[0, 1]] * 3


def test_numbers_that_share_a_header_share_a_column():
    numbers = (
        TableNumber("a", header="x"),
        TableNumber("b", header="x", form=".2f"),
        TableNumber("c"),
    )
    assert columns_of(numbers, [{"a": 1, "b": 0.5, "c": 3}]) == (["x"], [["1, 0.50"]])


def test_over_seeds():
    assert over_seeds([3.0, 1.0, np.inf]) == {
        "median": 3.0,
        "low": 1.0,
        "high": None,
        "unknown": False,
    }
    assert over_seeds([1.0, np.nan])["median"] is None and over_seeds([np.nan])["unknown"]


def test_workers_that_sleep_or_are_virtual_crowd_nobody(monkeypatch):
    import joblib

    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    assert "4 workers on 2 usable cores" in crowded({"workers": 4})[0]
    for settings in ({"base_ms": 1.0}, {"runtime": "simulator"}):
        assert crowded({"workers": 4, **settings}) == []


def test_a_contestant_is_called_by_what_it_is_made_of():
    assert panels.name_in({"workers": 2, "repeat": 0}) == "2 workers"
    assert panels.name_in({"contestant": "a, b", "x": "a"}) == "a, b"


@pytest.mark.skipif(not BENCH.is_dir(), reason="the scripts are part of the repository")
def test_scripts_measure_in_rounds_and_store(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(BENCH)
    import script

    def measure(given):
        calls = {name: lambda k, name=name: {"n": k, "of": len(name)} for name in given.names}
        table = {n: script.medians(runs) for n, runs in script.in_rounds(calls, 3).items()}
        script.show(table, "numbers")
        return {**script.before(given), "table": table}

    file = tmp_path / "f.json"
    monkeypatch.setattr(sys, "argv", ["x", "--names", "one,three", "--json", str(file)])
    script.run("What it says.", measure, names=("a",), rounds=3)
    assert json.loads(file.read_text())["table"] == {
        "one": {"n": 1, "of": 3},
        "three": {"n": 1, "of": 5},
    }
    assert "numbers" in capsys.readouterr().out
    assert script.median_ratio([2.0, 9.0], [1.0, 3.0]) == 2.5
    assert script.at_once(lambda one: one + 1, [1, 2]) == [2, 3]
