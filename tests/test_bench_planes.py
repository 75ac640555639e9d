"""``hogshare bench planes``: its numbers by their definitions, planes by name, and the command."""

import json

import numpy as np
import pytest
import ranks
from ranks import needs_mpi

from hogshare import Master, Mirrors
from hogshare.cli.main import main
from hogshare.lab.experiments.planes import COLLECTIVE, ONE, OWN, PLANES, plane_of, timed_by
from hogshare.report import Report, Trace

SMALL = "bench planes --data zipf-small --epochs 1 --rounds 1 --workers 2"


def a_run(plane, number, objective, seconds=1.0, sent=0):
    count = len(objective)
    traffic = {"update": {"messages": 4, "bytes": sent, "edges": {}}} if sent else {}
    return {
        "plane": plane,
        "round": number,
        "n_epochs": count - 1,
        "seconds": seconds * (count - 1),
        "seconds_per_epoch": seconds,
        "traffic": traffic,
        "waiting_seconds": 0.5 * seconds * (count - 1),
        "trace": {
            "epochs": list(range(count)),
            "blocks": [10 * k for k in range(count)],
            "seconds": [seconds * k for k in range(count)],
            "objective": objective,
        },
    }


def table_of(runs, **settings):
    names = list(dict.fromkeys(run["plane"] for run in runs))
    planes = [name for name in names if name != ONE]
    settings = {"planes": planes, "links": [], "runtime": "threads", "epochs": 2, **settings}
    settings = {"target": None, "within": 0.0, **settings}
    result = {"settings": settings, "runs": runs}
    target = result["target"] = PLANES.targets_of(result)[""]
    return target, {row["plane"]: row for row in PLANES.tabulate(result)}


def test_all_go_for_what_one_worker_has_in_its_worst_round():
    runs = [
        a_run(ONE, 0, [1.0, 0.6, 0.4], 2.0),
        a_run(ONE, 1, [1.0, 0.6, 0.5], 2.0),
        a_run(ONE, 2, [1.0, 0.6, 0.45], 2.0),
        *(a_run("shared", k, [1.0, 0.6, 0.5, 0.4], 1.0) for k in range(3)),
        *(a_run("master", k, [1.0, 0.9, 0.7, 0.5, 0.3], 4.0, 8_000_000) for k in range(3)),
        *(a_run("mirrors", k, [1.0, 0.9, 0.9, 0.8], 4.0) for k in range(3)),
    ]
    target, table = table_of(runs)
    assert target == 0.5
    one, common, master, mirrors = table.values()
    seconds = [row["seconds"] for row in (one, common, master)]
    assert seconds == pytest.approx([10 / 3, 2.0, 12.0])
    assert [row["of_shared"] for row in (one, common, master)] == pytest.approx([5 / 3, 1.0, 6.0])
    assert [row["of_one"] for row in (one, common, master)] == pytest.approx([1.0, 0.6, 3.6])
    assert mirrors["seconds"] is mirrors["of_shared"] is mirrors["of_one"] is None
    assert [row["objective"] for row in table.values()] == [0.45, 0.5, 0.7, 0.9]
    assert [row["megabytes"] for row in table.values()] == [0.0, 0.0, 2.0, 0.0]
    assert master["waiting_share"] == 0.5


def test_the_target_is_what_is_given_or_somewhat_above_one_worker():
    runs = [a_run(ONE, 0, [1.0, 0.5]), a_run("shared", 0, [1.0, 0.5])]
    assert table_of(runs, within=0.1)[0] == pytest.approx(0.55)
    assert table_of(runs, within=0.1, target=0.7)[0] == 0.7


def test_the_objective_is_between_snapshots_that_are_beside_the_epoch():
    run = a_run("shared", 0, [1.0, 0.5, 0.4])
    run["trace"]["epochs"] = [0.0, 1.9, 2.4]
    _, table = table_of([a_run(ONE, 0, [1.0, 0.5]), run])
    assert table["shared"]["objective"] == pytest.approx(0.48)


def test_a_trace_goes_at_the_pace_of_the_run_without_one():
    columns = [np.array([0.0, 1.0, 2.0])] * 2 + [
        np.array([0.0, 3.0, 4.0]),
        np.array([1.0, 0.5, 0.1]),
    ]
    seen = Report(model=None, seconds={"run": 4.0}, trace=Trace(*columns))
    bare = Report(model=None, seconds={"run": 2.0}, traffic={"update": {}})
    found = timed_by(bare, seen)
    assert found.trace.seconds.tolist() == [0.0, 1.5, 2.0] and found.run_seconds == 2.0
    assert found.seconds_to(0.5) == 1.5 and "update" in found.traffic


def test_links_are_of_mirrors_alone_or_of_all_ranks():
    settings = {"planes": ["shared", "mirrors:every=9", "all-reduce"], "links": ["lan", "wan"]}
    over = [f"mirrors:every=9 over {link}" for link in ("lan", "wan")]
    names = [name for (name,) in PLANES.contestants({**settings, "runtime": "threads"})]
    assert names == [ONE, "shared", *over, "all-reduce"]
    names = [name for (name,) in PLANES.contestants({**settings, "runtime": "mpi"})]
    linked = [f"{name} over {link}" for name in settings["planes"] for link in ("lan", "wan")]
    assert names == [ONE, *linked]
    runs = [a_run(ONE, 0, [1.0, 0.5])]
    runs += [
        a_run(f"{plane} over {link}", 0, [1.0, 0.5], seconds)
        for plane, link, seconds in (
            *(("shared", "lan", 1.0), ("shared", "wan", 3.0)),
            *(("mirrors:every=9", "lan", 2.0), ("mirrors:every=9", "wan", 3.0)),
        )
    ]
    _, table = table_of(runs, **{**settings, "planes": settings["planes"][:2]}, runtime="mpi")
    assert [row["of_shared"] for row in table.values()] == [None, 1.0, 1.0, 2.0, 1.0]


def test_planes_by_name_with_options():
    mirrors = plane_of("mirrors:every=512,threshold=0.0,significance=relative", 3, "wan")
    assert isinstance(mirrors, Mirrors) and mirrors.every == 512 and mirrors.threshold == 0.0
    assert mirrors.centres == 3 and mirrors.links is not None
    assert plane_of("mirrors:centres=[0, 0, 1]", 3).least_workers == 3
    assert plane_of("master:gradients=4,damped=true", 2) == Master(4, damped=True)
    assert plane_of("shared:exchange=none", 2).is_lock_free
    assert [plane_of(name, 2) for name in COLLECTIVE] == list(COLLECTIVE)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--planes shard", "Did you mean 'shared'"),
        ("--planes master:gradient=2", "gradient"),
        ("--planes master:2", "is not an option"),
        ("--planes master:gradients=0", "gradients"),
        ("--planes all-reduce", "needs --runtime mpi"),
        ("--workers 1", "one worker is the reference of all planes"),
        ("--links far", "none of lan"),
        ("--batch 9", "not for --problem linear"),
        ("--runtime mpi --points 4", "--points must be 1 for ranks"),
    ],
)
def test_what_makes_no_sense_is_refused(words, told, capsys):
    try:
        code = main(["bench", "planes", *words.split()])
    except SystemExit as end:
        code = end.code
    assert code == 2 and told in capsys.readouterr().err


def test_the_command(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    told, drawn = tmp_path / "planes.json", tmp_path / "planes.png"
    assert main([*SMALL.split(), "--json", str(told), "--plot", str(drawn)]) == 0
    printed = capsys.readouterr()
    assert "times shared" in printed.out and "2 workers, threads" in printed.err
    found = json.loads(told.read_text(encoding="utf-8"))
    assert [row["plane"] for row in found["table"]] == [ONE, *OWN]
    one, *others = found["runs"]
    assert found["target"] == pytest.approx(1.001 * one["trace"]["objective"][-1], rel=1e-12)
    assert one["n_epochs"] == 1
    assert all(run["n_epochs"] == 2 for run in others)
    sent = {run["plane"]: set(run["traffic"]) for run in found["runs"]}
    assert not sent[ONE] and not sent["shared"] and sent["master"] == {"model", "update"}
    assert drawn.stat().st_size > 10_000


@pytest.mark.parametrize(
    "words",
    [
        "--data zipf-small --runtime processes --links 1x:1ms --planes shared mirrors:every=4000",
        "--problem factorisation --rows 20000 --planes shared master",
        "--problem network:20-10-3 --rows 400 --planes shared replicas --block-ms 1",
    ],
)
def test_other_problems_runtimes_and_links(words, tmp_path):
    told = tmp_path / "planes.json"
    command = ["bench", "planes", *words.split(), "--epochs", "1", "--rounds", "1"]
    assert main([*command, "--workers", "2", "--json", str(told)]) == 0
    rows = json.loads(told.read_text(encoding="utf-8"))["table"]
    assert len(rows) == 3 and all(row["objective"] is not None for row in rows)


def test_mnist_is_a_network_of_digits_where_there_is_no_mnist(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOGSHARE_DATA", str(tmp_path))
    told = tmp_path / "planes.json"
    command = "bench planes --data mnist --epochs 1 --rounds 1 --workers 2 --planes shared --json"
    assert main([*command.split(), str(told)]) == 0
    assert "scikit-learn's digits in place of MNIST's" in capsys.readouterr().err
    found = json.loads(told.read_text(encoding="utf-8"))
    assert found["settings"]["problem"] == "network:64-100-10"
    assert found["data"]["rows"] == 1797


@needs_mpi
def test_on_two_ranks(tmp_path):
    draws, told = np.random.default_rng(0), tmp_path / "planes.json"
    X = draws.standard_normal((3000, 20))
    np.savez(tmp_path / "rows.npz", X=X, y=(X @ np.arange(20.0) > 0.0).astype(int))
    command = f"-m hogshare bench planes --runtime mpi --data {tmp_path / 'rows.npz'} --step 0.01"
    job = ranks.run(
        2, *command.split(), "--epochs", 2, "--rounds", 1, "--links", "1x:1ms", "--json", told
    )
    assert job.returncode == 0, job.stderr
    assert job.stdout.count("times shared") == 1
    found = json.loads(told.read_text(encoding="utf-8"))
    names = [ONE, *(f"{plane} over 1x:1ms" for plane in (*OWN, *COLLECTIVE))]
    assert [row["plane"] for row in found["table"]] == names
    sent = {run["plane"]: run["traffic"] for run in found["runs"]}
    assert not sent[ONE] and "update" in sent["shared over 1x:1ms"]
    assert set(sent["all-reduce over 1x:1ms"]) == {"gradient"}
    assert set(sent["local-sgd over 1x:1ms"]) == {"model"}
    took = {run["plane"]: run["seconds"] for run in found["runs"]}
    calls = 4 * (1500 // 64)  # of which each passes the link twice
    assert took["all-reduce over 1x:1ms"] > calls * 2 * 0.001 > took[ONE]
    ends = {run["plane"]: run["trace"]["objective"] for run in found["runs"]}
    assert all(end[-1] < 0.6 * end[0] for end in ends.values())


@needs_mpi
def test_one_rank_is_told_how_to_start(tmp_path):
    job = ranks.run(1, "-m", "hogshare", "bench", "planes", "--runtime", "mpi", "--data", "digits")
    assert job.returncode == 2 and "mpiexec -n 2" in job.stderr
