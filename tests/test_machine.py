"""The machine's constants: kept, found again, ignored where they do not fit; what they decide."""

import json
import math
import os
import stat
import subprocess
import sys
from dataclasses import replace
from subprocess import PIPE

import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import Shared, Stop, problems
from hogshare.planes.shared import easy_interval, exchange_interval, row_nanoseconds
from hogshare.runtimes import choice, machine_probe
from hogshare.system import machine
from hogshare.system.machine import Machine
from hogshare.system.machine import busy_others as count_others

MEASURED = Machine(sparse_value_ns=0.5, miss_ns=90.0, measured=("sparse_value_ns", "miss_ns"))


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "new" / "machine.json"
    monkeypatch.setenv("HOGSHARE_MACHINE", str(path))
    machine.load.cache_clear()
    yield path
    machine.load.cache_clear()


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)


# -- the file


def test_nothing_stored_is_the_defaults(file):
    assert machine.load() == Machine()
    assert machine.load().measured == ()
    assert not file.parent.exists()


def test_what_is_stored_is_loaded(file):
    assert machine.load() == Machine()
    machine.store(MEASURED)
    assert machine.load() == MEASURED
    assert machine.load() is machine.load()
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    machine.store(replace(MEASURED, sparse_value_ns=0.7))
    assert machine.load().sparse_value_ns == 0.7
    assert os.listdir(file.parent) == [file.name]


def test_constants_that_were_not_measured_are_not_kept(file):
    machine.store(replace(MEASURED, row_ns=1.0))
    assert machine.load().row_ns == Machine().row_ns


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"key": 1}',
        "KEY",
        "KEY: []",
        'KEY: {"sparse_value_ns": -1.0}',
        'KEY: {"sparse_value_ns": 0}',
        'KEY: {"sparse_value_ns": NaN}',
        'KEY: {"sparse_value_ns": Infinity}',
        'KEY: {"sparse_value_ns": 1e400}',
        'KEY: {"sparse_value_ns": true}',
        'KEY: {"sparse_value_ns": "1"}',
        'KEY: {"measured": 1.0}',
        'KEY: {"sparse_value_ns": 1.0, "unknown_ns": 1.0}',
    ],
)
def test_a_damaged_file_is_ignored(file, content):
    if content.startswith("KEY"):
        constants = content.partition(": ")[2]
        rest = f', "constants": {constants}' if constants else ""
        content = f'{{"key": {json.dumps(machine.key())}{rest}}}'
    write(file, content)
    assert machine.load() == Machine()


def test_a_file_that_is_no_text_is_ignored(file):
    file.mkdir(parents=True)
    assert machine.load() == Machine()
    file.rmdir()
    file.write_bytes(b"\xff\xfe\x00")
    machine.load.cache_clear()
    assert machine.load() == Machine()


@pytest.mark.parametrize("part", ["hogshare", "machine", "processor", "cores"])
def test_the_file_of_another_machine_is_ignored(file, seams, part):
    machine.store(MEASURED)
    other = machine.key() | {part: "another"}
    seams.machine.key = lambda: other
    assert machine.load() == Machine()


def test_each_kind_of_machine_has_its_file(file, tmp_path, seams, monkeypatch):
    monkeypatch.delenv("HOGSHARE_MACHINE")
    seams.machine.root = lambda: tmp_path
    machine.store(MEASURED)
    assert machine.load() == MEASURED
    here = machine.key()
    seams.machine.key = lambda: here | {"cores": 1_000}
    machine.load.cache_clear()
    assert machine.load() == Machine()
    machine.store(replace(MEASURED, miss_ns=80.0))
    seams.machine.key = lambda: here
    machine.load.cache_clear()
    assert machine.load() == MEASURED
    assert len(list(tmp_path.glob("machine-*.json"))) == 2


def test_an_unwritable_folder_is_a_sentence(file):
    file.parent.write_text("not a folder")
    with pytest.raises(OSError, match="constants could not be stored: "):
        machine.store(MEASURED)
    assert machine.load() == Machine()


def test_a_user_without_a_home_has_the_defaults(file, seams, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HOGSHARE_MACHINE")
    seams.machine.root = homeless
    assert machine.load() == Machine()
    with pytest.raises(OSError, match="home directory"):
        machine.store(MEASURED)


def test_the_processor_has_a_name():
    key = machine.key()
    assert key["cores"] >= 1
    assert isinstance(key["processor"], str)
    assert len(json.dumps(key)) < 1_000


# -- what follows from the constants


def test_floor():
    costs = Machine(sparse_value_ns=1.5, sparse_value_many_ns=3.0)
    assert costs.floor_ns(1) == 1.5
    assert costs.floor_ns(4) == 0.75


def a_problem(form="csr", dtype="float32", classes=2, width=40):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, width)).astype(dtype)
    X = sp.csr_array(X * (rng.random(X.shape) < 0.5)) if form == "csr" else X
    return problems.linear(X, np.arange(60) % classes, loss="log_loss")


@pytest.mark.parametrize("form", ["csr", "dense"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("width", [40, 300])
def test_default_constants_give_the_costs_that_the_intervals_were_tuned_with(
    form, dtype, classes, width
):
    problem = a_problem(form, dtype, classes, width)
    per_value = (3.0 if form == "csr" else 0.5) + 1.2 * (problem.n_columns - 1)
    row_ns = 25.0 + problem.nnz / problem.n_rows * per_value
    assert row_nanoseconds(problem) == pytest.approx(row_ns, rel=0.1)
    size = problem.n_features * problem.n_columns
    exchange_ns = size * (1.0 + 10.0 * problem.dtype.itemsize / 64.0)
    interval = max(16.0, 4.0 * (20.0 + exchange_ns) / row_ns)
    assert exchange_interval(problem) == pytest.approx(interval, rel=0.1, abs=1.0)
    easy = 10.0 * (960.0 + exchange_ns) / row_ns
    assert easy_interval(problem) == pytest.approx(easy, rel=0.1)


def work_on(problem, epochs):
    """What there is to do on one vector, so that no exchange says how many workers pay."""
    return choice.work_of(problem, Stop(epochs=epochs), Shared(exchange=None), None)


def test_measured_constants_decide(file):
    problem = a_problem()
    row_ns, interval = row_nanoseconds(problem), exchange_interval(problem)
    workers = choice.worthwhile_workers(work_on(problem, 1_000))
    assert workers == 1
    machine.store(
        Machine(
            sparse_value_ns=1_000.0,
            line_transfer_ns=100_000.0,
            thread_wake_ns=100.0,
            measured=("sparse_value_ns", "line_transfer_ns", "thread_wake_ns"),
        )
    )
    assert row_nanoseconds(problem) > 2.0 * row_ns
    assert exchange_interval(problem) > 2.0 * interval
    assert choice.worthwhile_workers(work_on(problem, 1_000)) > workers
    slow = Machine(sparse_value_ns=1_000.0, thread_wake_ns=1e7)
    machine.store(replace(slow, measured=("sparse_value_ns", "thread_wake_ns")))
    assert choice.worthwhile_workers(work_on(problem, 1_000)) == 1, "a thread that is slow to wake"


# -- the measurement


@pytest.mark.timeout(300)  # loops may have to be compiled
def test_a_short_probe_gives_plausible_numbers():
    measured = machine_probe.probe(repeats=2)
    never = {"row_ns", "column_value_ns"}
    if choice.usable_workers(-1) > 1:
        assert set(measured.measured) == set(machine.NAMES) - never
    for name, value in measured.constants().items():
        assert math.isfinite(value) and value > 0.0, name


def test_one_core_measures_what_it_can(seams):
    seams.usable.workers_to_probe = lambda n_jobs: 1
    measured = machine_probe.probe(repeats=1)
    assert "sparse_value_ns" in measured.measured
    assert "hand_over_ns" not in measured.measured
    assert measured.hand_over_ns == Machine().hand_over_ns


def test_a_thread_that_fails_is_told():
    def work(me):
        raise MemoryError(f"thread {me}")

    with pytest.raises(MemoryError):
        machine_probe._together(2, work)


# -- what others do


@pytest.mark.skipif(not os.path.exists("/proc/loadavg"), reason="needs Linux")
def test_others_that_run_are_counted():
    code = "print(flush=True)\nwhile True: pass"
    spinning = [subprocess.Popen([sys.executable, "-c", code], stdout=PIPE) for _ in range(3)]
    try:
        for other in spinning:
            other.stdout.readline()
        assert max(count_others() for _ in range(20)) >= 3
    finally:
        for other in spinning:
            other.kill()
            other.communicate()


@pytest.mark.parametrize("text", [b"", b"0.1 0.2 0.3", b"0.1 0.2 0.3 x/78 9", None])
def test_what_nobody_knows_is_nobody(text, tmp_path, monkeypatch):
    file = tmp_path / "loadavg"
    if text is not None:
        file.write_bytes(text)
    opened = os.open
    monkeypatch.setattr(machine.os, "open", lambda path, flags: opened(file, flags))
    assert count_others() == 0


def test_a_thread_that_ends_between_two_looks_is_nobody(seams):
    counts = iter([3, 2, 1, 7])
    seams.machine.running = lambda file: next(counts)
    assert count_others() == 0
    assert next(counts) == 7, "three looks were enough"


@pytest.mark.parametrize("others", [0, 1, 2, 7])
def test_a_short_run_leaves_cores_alone_that_others_have(others, seams, monkeypatch):
    problem = a_problem()
    seams.usable.workers = lambda n_jobs: 4
    seams.machine.cores = lambda: 4
    seams.usable.worthwhile = lambda *settings: 3
    seams.machine.busy_others = lambda more=0: others
    n_workers, runtime, notes = choice.choose(work_on(problem, 10), "auto", -1)
    assert n_workers == max(1, min(3, 4 - others))
    assert runtime.name == ("threads" if n_workers > 1 else "caller")
    assert n_workers > 1 or "busy" in notes[0]
    assert choice.choose(work_on(problem, 10), "threads", 4)[0] == 4, "an order is an order"
    monkeypatch.setattr(choice, "MOMENT_NS", 0)
    assert choice.choose(work_on(problem, 10), "auto", -1)[0] == 3, "others may be gone soon"


@pytest.mark.parametrize(("limit", "workers"), [("3", 3), ("0", 1), ("99", 8), ("many", 8)])
def test_a_worker_of_joblibs_has_the_cores_that_joblib_leaves_it(monkeypatch, limit, workers):
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert choice.usable_workers(8) == 8, "the limit of a process that is no such worker"
    monkeypatch.setenv("LOKY_WORKER", "1")
    assert choice.usable_workers(8) == workers
