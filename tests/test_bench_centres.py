"""``hogshare bench centres``: its numbers by their definitions, links by name and by file."""

import json

import numpy as np
import pytest

from hogshare import links
from hogshare.cli.main import main
from hogshare.lab.experiments.centres import CENTRES
from hogshare.links import Link

SMALL = "bench centres --data zipf-small --epochs 1 --rounds 1 --every 100"


def a_run(method, links, objective, seconds):
    count = len(objective)
    return {
        "contestant": f"{method}, {links}",
        "method": method,
        "links": links,
        "round": 0,
        "seconds": seconds * (count - 1),
        "blocks": 10 * (count - 1),
        "bytes": 4_000_000,
        "barriers": 3,
        "significant_share": 0.5,
        "small_share": 0.9,
        "blocked_reads": 2,
        "passes": 1,
        "waiting_seconds": [0.5, 0.0, 0.0],
        "trace": {
            "epochs": list(range(count)),
            "blocks": [10 * k for k in range(count)],
            "seconds": [seconds * k for k in range(count)],
            "objective": objective,
        },
    }


def test_ratios_are_to_bsp_and_to_the_first_links():
    settings = {"methods": ["bsp", "gaia"], "links": ["lan", "wan"]}
    runs = [
        a_run("bsp", "lan", [1.0, 0.5, 0.0], 1.0),
        a_run("gaia", "lan", [1.0, 0.5, 0.0], 1.0),
        a_run("bsp", "wan", [1.0, 0.5, 0.0], 8.0),
        a_run("gaia", "wan", [1.0, 0.9, 0.5], 1.0),
    ]
    table = CENTRES.tabulate({"settings": settings, "runs": runs, "target": 0.5})
    assert [row["speedup"] for row in table] == [1.0, 1.0, 1.0, 4.0]
    assert [row["of_lan"] for row in table] == [1.0, 1.0, 8.0, 2.0]
    assert [row["megabytes"] for row in table] == [2.0, 2.0, 2.0, 4.0]


def test_the_command(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    told, drawn, slow_ones = (tmp_path / name for name in ("c.json", "c.png", "links.json"))
    slow = {"latency": np.full((3, 3), 0.01).tolist(), "bandwidth": np.full((3, 3), 1e6).tolist()}
    slow_ones.write_text(json.dumps(slow), encoding="utf-8")
    code = main(
        f"{SMALL} --block-ms 1 --links lan {slow_ones} --json {told} --plot {drawn}".split()
    )
    assert code == 0, capsys.readouterr().err
    found = json.loads(told.read_text(encoding="utf-8"))
    assert [row["method"] for row in found["table"]] == ["bsp", "gaia"] * 2
    took = {run["links"]: run["seconds"] for run in found["runs"]}
    assert took[str(slow_ones)] > 1.5 * took["lan"]
    assert drawn.stat().st_size > 10_000
    assert "3 centres of 3 workers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "rows", "every"),
    [("network:20-10-3", 120, 50), ("factorisation", 20000, 500), ("topics", 60, 20)],
)
def test_other_problems_on_a_virtual_clock(problem, rows, every, tmp_path):
    told = tmp_path / "c.json"
    command = f"bench centres --problem {problem} --rows {rows} --links lan --epochs 1 --rounds 1"
    assert main([*command.split(), "--every", str(every), "--json", str(told)]) == 0
    found = json.loads(told.read_text(encoding="utf-8"))
    assert all(0.0 < run["significant_share"] <= 1.0 for run in found["runs"])
    assert found["settings"]["problem"] == problem


def test_what_the_filter_alone_gains_is_over_all_changes_with_its_clock_difference(tmp_path):
    """Without the filter all is sent; without latency and with all bandwidth both wait as much."""
    told = tmp_path / "c.json"
    command = f"{SMALL} --methods bsp ssp gaia --links 1x:0ms 60x:300ms --block-ms 20"
    options = ["--threshold", "0.5", "--clock-difference", "3", "--queue", "5"]
    assert main([*command.split(), *options, "--json", str(told)]) == 0
    found = json.loads(told.read_text(encoding="utf-8"))
    rows = {(row["method"], row["links"]): row for row in found["table"]}
    far = {method: rows[method, "60x:300ms"] for method in ("bsp", "ssp", "gaia")}
    assert far["bsp"]["significant_share"] == far["ssp"]["significant_share"] == 1.0
    assert far["gaia"]["significant_share"] < 0.5
    run = {one["contestant"]: one["seconds"] for one in found["runs"]}
    assert run["gaia, 60x:300ms"] < run["ssp, 60x:300ms"] < run["bsp, 60x:300ms"]
    assert run["ssp, 1x:0ms"] == pytest.approx(run["gaia, 1x:0ms"], rel=0.05)


def test_links_between_threads(tmp_path):
    told = tmp_path / "c.json"
    command = f"{SMALL} --runtime threads --methods bsp --block-ms 1 --links 1x:0ms 1x:40ms"
    assert main([*command.split(), "--json", str(told)]) == 0
    took = [run["seconds"] for run in json.loads(told.read_text(encoding="utf-8"))["runs"]]
    assert took[1] > took[0] + 0.04 * 10  # of many clocks, each of which is waited for


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--centres 1", "sends nothing"),
        ("--workers 2", "each needs one"),
        ("--links moon", "no such file, and none of lan, wan"),
        ("--links {file}", "is for 2 centres, and --centres is 3"),
        ("--links {bad}", "two matrices"),
        ("--links 3x:", "as in 15x:100ms"),
        ("--batch 3", "not for --problem linear"),
        ("--queue 1", "use at least 2"),
        ("--clock-difference -1", "whole number of at least 0"),
    ],
)
def test_bad_options_are_told_before_anything_runs(options, told, tmp_path, capsys):
    file, bad = tmp_path / "two.json", tmp_path / "bad.json"
    two = {"latency": [[0, 1], [1, 0]], "bandwidth": [[1, 1], [1, 1]]}
    file.write_text(json.dumps(two), encoding="utf-8")
    bad.write_text("[]", encoding="utf-8")
    try:
        code = main(f"{SMALL} {options.format(file=file, bad=bad)}".split())
    except SystemExit as left:
        code = left.code
    assert code != 0
    assert told in capsys.readouterr().err


def test_presets_are_as_far_apart_as_they_say():
    slow = links.preset("regions", 11)
    ratios = [links.LAN.bandwidth / slow[0][j].bandwidth for j in range(1, 11)]
    assert max(ratios) == pytest.approx(60.0) and min(ratios) == pytest.approx(6.84)
    mean = np.mean([slow[0][j].bandwidth for j in range(1, 11)])
    assert links.LAN.bandwidth / mean == pytest.approx(15.0, rel=0.05)
    latencies = {slow[0][j].latency for j in range(1, 11)}
    assert (min(latencies), max(latencies)) == (0.01, 0.3)
    assert links.preset("wan", 3)[0][1].bandwidth == links.LAN.bandwidth / 15.0
    with pytest.raises(ValueError, match=r"links must be a preset .lan.*Did you mean 'wan'"):
        links.preset("wam", 3)


def test_a_matrix_of_links_is_looked_at():
    found = links.matrix([[0, 1], [2, 0]], [[1, 10], [20, 1]])
    assert found[0][1] == Link(1.0, 10.0) and found[1][0] == Link(2.0, 20.0)
    with pytest.raises(ValueError, match="square matrices"):
        links.matrix([[0, 1]], [[0, 1]])
    with pytest.raises(ValueError, match="at least 0"):
        links.matrix([[0, 1], [1, 0]], [[0, -1], [1, 0]])
    with pytest.raises(ValueError, match="matrix of numbers"):
        links.matrix("x", [[0, 1], [1, 0]])
