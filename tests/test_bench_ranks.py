"""``hogshare bench ranks``: its formula by hand, and the command on two ranks."""

import json
import math
import sys

import numpy as np
import pytest
import ranks
from ranks import needs_mpi

from hogshare.cli.main import main
from hogshare.lab.experiments.ranks import RANKS, doubts, per_epoch, sentences, summed
from hogshare.lab.prediction.rank_epochs import ClusterCosts
from hogshare.report import Trace
from hogshare.runtimes.mpi.round_trips import way_of

LAN = ClusterCosts(row=1e-6, latency=5e-5, bandwidth=1e8, n_bytes=1e5, numbers=25_000)


def job(n, *words):
    return ranks.run(n, "-m", "hogshare", "bench", "ranks", *words)


# -- the formula


def test_an_epoch_is_its_rows_and_what_offers_take():
    way, work = 5e-5 + 3 * 1e5 / 1e8, 2e-4 + 3 * 1.25e-4
    by_hand = 1.0 / 4 + 8 * work + way + work + 5e-5
    assert math.isclose(LAN.epoch(1_000_000, 4), by_hand)
    assert LAN.epoch(1_000_000, 1) == 1.0
    # rows between offers are no fewer than twenty of these take
    assert math.isclose(LAN.interval(1000, 4), 20 * work / 1e-6)


def test_with_how_many_ranks_and_from_how_many_rows_they_pay():
    best = LAN.best(1_000_000)
    epochs = {m: LAN.epoch(1_000_000, m) for m in (best // 2, best, 2 * best)}
    assert epochs[best] <= min(epochs.values())
    n = LAN.pays_from()
    assert LAN.epoch(n, 2) < LAN.epoch(n, 1)
    assert LAN.epoch(int(0.96 * n), 2) >= LAN.epoch(int(0.96 * n), 1)
    slow = ClusterCosts(row=1e-7, latency=10.0, bandwidth=1e-3, n_bytes=1e5, numbers=10)
    assert slow.best(1000) == 1 and slow.pays_from() is None


def test_a_way_that_is_as_fast_as_a_nap_has_a_bandwidth():
    assert 0.0 < way_of(1, short=0.001, long=0.001, n_bytes=1 << 20).bandwidth < math.inf


class Ran:
    def __init__(self, epochs, seconds):
        objective = np.linspace(1.0, 0.0, len(epochs))
        self.trace = Trace(np.array(epochs), np.arange(len(epochs)), np.array(seconds), objective)


def test_an_epochs_seconds_are_those_after_the_first():
    assert per_epoch(Ran([0.0, 0.5, 1.0, 2.0, 3.0], [0.0, 4.0, 5.0, 7.0, 9.0])) == 2.0
    assert per_epoch(Ran([0.0, 1.0], [0.0, 3.0])) == 3.0


def a_run(count, number, seconds):
    sent = {"messages": 8, "bytes": 800, "edges": {"1 to 0": {"messages": 8, "bytes": 800}}}
    trace = {
        "epochs": [0.0, 1.0, 2.0],
        "blocks": [0.0, 4.0, 8.0],
        "seconds": [0.0, seconds, 2 * seconds],
        "objective": [1.0, 0.5, 0.0],
    }
    return {
        "ranks": count,
        "round": number,
        "epochs": 2,
        "seconds": 2 * seconds,
        "seconds_per_epoch": seconds,
        "interval": None if count == 1 else 1000,
        "traffic": {} if count == 1 else {"update": sent},
        "trace": trace,
        "notes": [],
    }


def a_result():
    place = {"host": "a", "cores": 2, "row_seconds": 1e-4, "workers": 1}
    return {
        "settings": {"data": "some", "target": None},
        "data": {"rows": 10_000, "columns": 50, "nonzeros": 1},
        "mpi": "MPI 9",
        "ranks": [place, {**place, "row_seconds": 1.2e-4}],
        "one_memory": True,
        "numbers": 50,
        "ways": [{"rank": 1, "latency": 1e-4, "bandwidth": 1e8}],
        "runs": [a_run(count, k, 1.0 / count) for k in range(3) for count in (1, 2)],
    }


def test_the_slowest_rank_and_what_was_sent_make_the_constants():
    result = summed(a_result())
    costs = result["costs"]
    assert costs["row"] == 1.2e-4 and costs["n_bytes"] == 100.0
    assert costs["exchanges_found"] == 4.0  # 8 messages of a run's one other rank, in 2 epochs
    assert math.isclose(costs["exchange_found"], (0.5 - 0.6) / costs["exchanges"])
    one, both = result["table"]
    assert (one["ranks"], both["ranks"], both["times"]) == (1, 2, 2.0)
    assert [row["ranks"] for row in result["prediction"]][:2] == [1, 2]
    assert both["predicted"] == result["prediction"][1]["seconds"]
    json.dumps(result, allow_nan=False)
    assert any("two are faster than one" in sentence for sentence in sentences(result))


def test_doubts_are_said():
    crowded, one_machine = doubts(a_result())
    assert "a has 2 workers on 2 cores" in crowded and "MPI() shares memory" in one_machine
    places = [{"host": host, "cores": 4, "workers": 2} for host in "ab"]
    assert doubts({"ranks": places, "one_memory": False}) == []


# -- the command


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    draws = np.random.default_rng(0)
    X = draws.standard_normal((3000, 20))
    np.savez(folder / "rows.npz", X=X, y=(X @ np.arange(20.0) > 0.0).astype(int))
    return folder / "rows.npz"


@needs_mpi
def test_on_two_ranks(rows, tmp_path):
    told = tmp_path / "ranks.json"
    done = job(2, "--data", rows, "--epochs", 4, "--rounds", 2, "--workers", 1, "--json", told)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("s/epoch predicted") == 1
    assert done.stderr.count("3,000 rows of 20 columns") == 1
    result = json.loads(told.read_text())
    assert set(result) >= {"settings", "data", "versions", "mpi", "best_ranks", "pays_from_rows"}
    assert [one["workers"] for one in result["ranks"]] == [1, 1]
    assert result["one_memory"] and [way["rank"] for way in result["ways"]] == [1]
    costs = result["costs"]
    for name in ("row", "latency", "bandwidth", "n_bytes", "work", "exchange", "exchanges_found"):
        assert 0.0 < costs[name] < math.inf, name
    assert all(one["seconds"] > 0.0 for one in result["prediction"])
    assert [run["ranks"] for run in result["runs"]] == [1, 2, 2, 1]
    one, both = result["table"]
    assert one["seconds_per_epoch"] > 0.0 and both["seconds_per_epoch"] > 0.0
    assert one["seconds"] > 0.0  # who sets the target reaches it


@needs_mpi
def test_time_that_is_up_ends_rounds_on_all(rows, tmp_path):
    told = tmp_path / "ranks.json"
    settings = ["--epochs", 2, "--seconds", 0.001, "--target", 0.6, "--json", told]
    done = job(3, "--data", rows, *settings)
    assert done.returncode == 0, done.stderr
    result = json.loads(told.read_text())
    assert [run["round"] for run in result["runs"]] == [0, 0] and result["target"] == 0.6


@needs_mpi
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--data", "nobodys"], "no data set is called 'nobodys'"),
        (["--json", "nowhere/r.json"], "no such folder"),
        (["--data", "zipf-small", "--loss", "squared"], "invalid choice"),
    ],
)
def test_bad_input_is_said_by_a_sentence(words, sentence):
    done = job(2, *words)
    assert done.returncode != 0 and sentence in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@needs_mpi
def test_one_process_is_told_how_to_start_several():
    done = job(1)
    assert done.returncode == 2 and "start it with mpiexec -n 2" in done.stderr, done.stderr


def test_without_mpi_it_says_what_to_install(capsys, monkeypatch):
    from hogshare.runtimes.mpi import door

    door.library.cache_clear()
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    try:
        assert main(["bench", "ranks"]) == 1
    finally:
        door.library.cache_clear()
    assert "needs mpi4py" in capsys.readouterr().err


def test_its_settings_are_for_whoever_else_measures():
    assert RANKS.defaults(epochs=3)["epochs"] == 3
