"""``hogshare bench reduce``: its numbers by their definitions, and the command."""

import json

import pytest

from hogshare.cli.main import main
from hogshare.lab.experiments.reduce import REDUCE

SMALL = "bench reduce --data zipf-small --workers 4 --epochs 2 --rounds 1 --every 400"


def a_run(graph, number, objective, seconds=1.0, **changes):
    count = len(objective)
    return {
        "contestant": f"{graph}, bsp",
        "graph": graph,
        "sync": "bsp",
        "round": number,
        "seconds": seconds * (count - 1),
        "rounds": 20,
        "bytes": 4_000_000,
        "blocks": 10 * (count - 1),
        "whole_share": 0.5,
        "used": [5, 5],
        "torn": 1,
        "missing": 3,
        "waiting_seconds": {"message": 0.1, "acknowledgement": 0.2, "barrier": 0.3},
        "trace": {
            "epochs": list(range(count)),
            "blocks": [10 * k for k in range(count)],
            "seconds": [seconds * k for k in range(count)],
            "objective": objective,
            "disagreement": [0.0] * (count - 1) + [0.25],
        },
        "notes": [],
        **changes,
    }


def test_rounds_and_bytes_are_those_up_to_the_target():
    settings = {"graphs": ["ring", "all"], "syncs": ["bsp"]}
    runs = [a_run("ring", 0, [1.0, 0.5, 0.0]), a_run("all", 0, [1.0, 0.9, 0.8])]
    ring, whole = REDUCE.tabulate({"settings": settings, "runs": runs, "target": 0.5})
    assert (ring["seconds"], ring["rounds"], ring["megabytes"]) == (1.0, 10, 2.0)
    assert (whole["seconds"], whole["rounds"], whole["megabytes"]) == (None, None, None)
    assert ring["waiting_seconds"]["acknowledgement"] == 0.2 and ring["disagreement"] == 0.25


@pytest.mark.parametrize(
    "who",
    [
        "--stragglers lognormal:0.3 --base-ms 1 --syncs notify-ack bsp async",
        "--runtime simulator --link 0.001,1e7",
    ],
)
def test_the_command(who, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    told, drawn = tmp_path / "reduce.json", tmp_path / "reduce.png"
    code = main(
        [*f"{SMALL} {who} --graphs ring all".split(), "--json", str(told), "--plot", str(drawn)]
    )
    assert code == 0 and drawn.stat().st_size > 1000
    result = json.loads(told.read_text())
    n_syncs = len(result["settings"]["syncs"])
    assert [row["graph"] for row in result["table"]] == ["ring"] * n_syncs + ["all"] * n_syncs
    whole = [row for row in result["table"] if row["sync"] == "notify-ack"]
    assert all(row["whole_share"] == 1.0 and row["torn"] == 0 for row in whole)
    ring, rest = result["runs"][0], result["runs"][n_syncs]
    assert rest["bytes"] / rest["rounds"] == 3 * ring["bytes"] / ring["rounds"]
    assert result["graphs"]["all"]["rounds_to_agreement"] == 1.0
    assert "ring: 1 messages of a worker in a round, gap" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--graphs rnig", "Did you mean 'ring'"),
        ("--link 1", "not a latency and a bandwidth"),
        ("--link 1,1", "--link needs --runtime simulator"),
        ("--workers 1", "no other to average with"),
        ("--workers 6 --graphs hypercube", "power of two"),
        ("--syncs acks", "invalid choice"),
    ],
)
def test_what_makes_no_sense_is_refused(options, word, capsys):
    try:
        code = main(["bench", "reduce", *options.split()])
    except SystemExit as ended:
        code = ended.code
    assert code in (1, 2) and word in capsys.readouterr().err
