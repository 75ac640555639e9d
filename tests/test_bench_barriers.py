"""``hogshare bench barriers``: its numbers by their definitions, and the command."""

import json

import numpy as np
import pytest

from hogshare import datasets
from hogshare.cli.main import main
from hogshare.lab.experiments import barriers, common_options
from hogshare.lab.harness.experiment import reached_by_all


def a_run(barrier, number, objective, seconds=1.0, **changes):
    count = len(objective)
    return {
        "barrier": barrier,
        "round": number,
        "seconds": seconds * (count - 1),
        "cpu_seconds": 0.1,
        "blocks": [2, 4, 6],
        "waiting_seconds": [1.0, 2.0, 3.0],
        "largest_lead": 1,
        "staleness_mean": 2.0,
        "staleness_p95": 3,
        "staleness_max": 5,
        "trace": {
            "epochs": list(range(count)),
            "blocks": [10 * k for k in range(count)],
            "seconds": [seconds * k for k in range(count)],
            "objective": objective,
        },
        **changes,
    }


def a_result(runs, names, target=0.5):
    settings = {"barriers": names, "workers": 3, "rounds": 1, "base_ms": 20.0, "block": 7}
    result = {
        "settings": settings | {"data": "rows", "loss": "log_loss"},
        "law": "law",
        "machine": {"usable_cores": 2},
        "target": target,
        "runs": runs,
    }
    result["table"] = barriers.BARRIERS.tabulate(result)
    return result


def test_waiting_is_told_per_push_and_per_round():
    run = a_run("bsp", 0, [1.0, 0.5])
    # a worker waited 2 s in the mean: 12 pushes in all, 4 by each worker in the mean
    assert barriers.waiting(run) == (2.0 / 12, 2.0 / 4)


def test_a_row_is_medians_over_rounds():
    runs = [a_run("bsp", r, [1.0, 0.0], seconds=s) for r, s in enumerate([4.0, 1.0, 2.0])]
    runs[0]["staleness_max"] = 9
    (row,) = a_result(runs, ["bsp"])["table"]
    assert (row["seconds"], row["fastest"], row["slowest"]) == (1.0, 0.5, 2.0)
    assert row["blocks_to_target"] == 5
    assert (row["blocks_min"], row["blocks_mean"], row["blocks_max"]) == (2, 4, 6)
    assert row["blocks_per_second"] == 12 / 2.0
    assert row["waiting_ms_per_round"] == pytest.approx(3 * row["waiting_ms_per_push"])
    assert (row["staleness_mean"], row["staleness_p95"], row["staleness_max"]) == (2.0, 3, 9)


def test_a_target_that_was_not_reached(capsys):
    runs = [a_run("asp", 0, [1.0, 0.5], largest_lead=None), a_run("bsp", 0, [1.0, 0.9])]
    result = a_result(runs, ["asp", "bsp"])
    reached, not_reached = result["table"]
    assert (reached["slowest"], not_reached["seconds"], not_reached["slowest"]) == (1.0, None, None)
    barriers.BARRIERS.show(result)
    captured = capsys.readouterr()
    assert "wait ms/round" in captured.out
    assert "did not reach the target" in captured.err


def test_the_default_target_is_reached_by_all_that_gain():
    runs = [a_run("asp", 0, [1.0, 0.4]), a_run("bsp", 0, [1.0, 0.5]), a_run("x", 0, [1.0, None])]
    assert reached_by_all(runs) == pytest.approx(0.505)
    with pytest.raises(ValueError, match="smaller --step"):
        reached_by_all([a_run("asp", 0, [1.0, 2.0])])


def test_throttled_release_is_that_of_the_papers_experiments():
    assert barriers.default_barriers(8, "cds:1")[-1] == "throttled:7"
    assert barriers.default_barriers(32, "pcs")[-1] == "throttled:22"
    assert barriers.default_barriers(1, "none")[-1] == "throttled:1"


def test_computing_that_is_not_small_is_told():
    result = a_result([a_run("bsp", 0, [1.0, 0.5])], ["bsp"])
    assert barriers.doubts(result) == []
    result["runs"][0]["cpu_seconds"] = 1.0
    (warning,) = barriers.doubts(result)
    assert "50% of 2 cores" in warning


@pytest.mark.parametrize("sparse", [False, True])
def test_the_default_step_is_safe_for_log_loss(sparse):
    X = np.array([[3.0, 0.0], [0.0, 1.0]])
    if sparse:
        import scipy.sparse

        X = scipy.sparse.csr_array(X)
    assert common_options.default_step(X) == 1.0 / 5.0
    assert common_options.default_step(0.0 * X) == 1.0


@pytest.fixture
def rows_file(tmp_path):
    X, y = datasets.dense(n_samples=300, n_features=5, seed=0)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    return str(tmp_path / "rows.npz")


def run(text, *more):
    return main([*text.split(), *map(str, more)])


def test_bench_barriers(capsys, tmp_path, rows_file):
    pytest.importorskip("matplotlib").use("Agg")
    names = ["asp", "bsp", "pssp:1,2", "throttled:2"]
    code = run(
        "bench barriers --workers 3 --base-ms 1 --stragglers cds:2 --rounds 2 --epochs 2",
        *("--data", rows_file, "--barriers", *names),
        *("--json", tmp_path / "b.json", "--plot", tmp_path / "b.png"),
    )
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert "ControlledDelay(base=0.001, delay=2.0, workers=(0,))" in captured.err
    result = json.loads((tmp_path / "b.json").read_text())
    assert [row["barrier"] for row in result["table"]] == names
    assert len(result["runs"]) == 8
    assert all(sum(run["blocks"]) == 200 for run in result["runs"])  # blocks of 3 rows
    assert all(row["seconds"] > 0 for row in result["table"])
    held = [run for run in result["runs"] if run["barrier"] == "bsp"]
    assert all(run["largest_lead"] == 0 for run in held)
    assert (tmp_path / "b.png").stat().st_size > 1000


def test_bench_barriers_prints_json_alone_with_the_family(capsys, rows_file):
    options = "--workers 2 --base-ms 0 --rounds 1 --epochs 1 --block 10 --json -"
    code = run(f"bench barriers {options} --data", rows_file)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    result = json.loads(captured.out)
    assert len(result["table"]) == 7
    assert result["settings"]["block"] == 10


def test_bench_speedup_behind_a_barrier(capsys, rows_file):
    options = "--workers 1,2 --repeats 1 --epochs 2 --barrier bsp --json -"
    code = run(f"bench speedup {options} --data", rows_file)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert json.loads(captured.out)["settings"]["barrier"] == "bsp"


def test_fit_behind_a_barrier(capsys, tmp_path, rows_file):
    options = "--barrier ssp:4 --n-jobs 2 --runtime threads"
    files = "--model", tmp_path / "m.npz", "--json", tmp_path / "r.json"
    code = run(f"fit {options}", rows_file, *files)
    assert code == 0, capsys.readouterr().err
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["settings"]["barrier"] == "SSP(staleness=4)"


@pytest.mark.parametrize(
    "text",
    [
        "fit x --model m --barrier csp",
        "bench speedup --barrier ssp",
        "bench barriers --barriers bsp pssp:1",
        "bench barriers --barriers",
        "bench barriers --stragglers late",
        "bench barriers --base-ms -1",
    ],
)
def test_a_wrong_command_line_is_2(capsys, text):
    code = run(text)
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert "error:" in captured.err
