"""``hogshare bench tasks``: its numbers by their definitions, and the command."""

import json

import pytest

from hogshare.cli.main import main
from hogshare.lab.experiments.tasks import TASKS


def a_run(method, law, objective, seconds=1.0):
    count = len(objective)
    return {
        "contestant": f"{method}, {law}",
        "method": method,
        "law": law,
        "round": 0,
        "seconds": seconds * (count - 1),
        "tasks": 24,
        "updates": 6,
        "waiting_seconds": [1.0, 2.0, 3.0],
        "trace": {
            "epochs": list(range(count)),
            "blocks": [3 * k for k in range(count)],
            "seconds": [seconds * k for k in range(count)],
            "objective": objective,
        },
    }


def test_a_law_is_compared_with_the_first_of_its_method():
    settings = {"methods": ["sgd", "asgd"], "stragglers": ["none", "cds:1"], "target": 0.5}
    runs = [
        a_run("sgd", "none", [1.0, 0.5, 0.0]),
        a_run("asgd", "none", [1.0, 0.0], seconds=0.5),
        a_run("sgd", "cds:1", [1.0, 0.5], seconds=2.0),
        a_run("asgd", "cds:1", [1.0, 0.9]),
    ]
    result = {"settings": settings, "runs": runs}
    result["targets"] = TASKS.targets_of(result)
    table = {row["contestant"]: row for row in TASKS.tabulate(result)}
    assert table["sgd, none"]["seconds"] == 1.0 and table["sgd, none"]["slower"] == 1.0
    assert table["sgd, cds:1"]["slower"] == 2.0 and table["asgd, none"]["seconds"] == 0.25
    assert table["asgd, cds:1"]["seconds"] is None and table["asgd, cds:1"]["slower"] is None
    # a worker waited 2 s in the mean: six updates, and eight rounds of three tasks
    assert table["sgd, none"]["waiting_ms_per_update"] == pytest.approx(1e3 * 2.0 / 6)
    assert table["sgd, none"]["waiting_ms_per_round"] == pytest.approx(1e3 * 2.0 / 8)


def test_families_have_targets_of_their_own():
    runs = [a_run("asgd", "none", [1.0, 0.5]), a_run("saga", "none", [1.0, 0.1])]
    found = TASKS.targets_of({"settings": {"target": None}, "runs": runs})
    assert found == {"saga": pytest.approx(0.109), "sgd": pytest.approx(0.505)}


@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_the_command(runtime, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    told, drawn = tmp_path / "tasks.json", tmp_path / "tasks.png"
    line = "bench tasks --workers 2 --epochs 1 --rounds 1 --base-ms 0.5 --stragglers none cds:2"
    more = ["--runtime", runtime, "--available", "2", "--json", str(told), "--plot", str(drawn)]
    assert main([*line.split(), *more]) == 0
    assert drawn.stat().st_size > 1000
    result = json.loads(told.read_text())
    methods = ["sgd", "asgd", "saga", "asaga"]
    laws = ["none", "cds:2"]
    assert [row["contestant"] for row in result["table"]] == [
        f"{method}, {law}" for law in laws for method in methods
    ]
    assert all(run["tasks"] >= run["updates"] > 0 for run in result["runs"])
    captured = capsys.readouterr()
    assert "asaga, cds:2" in captured.out and "2 workers" in captured.err


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--available 9", "wait for ever"),
        ("--methods adam", "invalid choice"),
        ("--stragglers late", "late"),
        ("--rate 0", "rate"),
    ],
)
def test_what_makes_no_sense_is_refused(options, word, capsys):
    try:
        code = main(["bench", "tasks", *options.split()])
    except SystemExit as ended:
        code = ended.code
    assert code in (1, 2) and word in capsys.readouterr().err
