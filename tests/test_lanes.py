"""Contestants in processes of their own: one that crashes or hangs does not end the race."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import unruly

from hogshare import datasets
from hogshare.lab.rivals import lanes, race
from hogshare.lab.rivals.linear.linear_race import LinearRace

PLAN = race.RacePlan(targets=(0.999,), workers=1, rounds=2, limit=30.0)


@pytest.fixture(scope="module")
def data():
    X, y = datasets.dense(n_samples=60, n_features=3, seed=0)
    return X, np.where(y > 0, 1.0, -1.0)


@pytest.fixture
def lane(data):
    """``lane(kind, limit)``: prepared, and gone after the test."""
    made = []

    def make(kind, limit=30.0):
        task = LinearRace(*data, alpha=0.01).task(1)
        made.append(lanes.ProcessLane(kind, task, limit))
        made[-1].prepare(*data)
        return made[-1]

    yield make
    for one in made:
        one.abandon()


def easy(limit=30.0):
    """A target that every model reaches which is finite."""
    return race.RacePlan(targets=(1e6,), workers=1, rounds=2, limit=limit)


def reasons(result):
    return {who["name"]: who["reason"] for who in result["contestants"]}


# -- one lane


def test_a_fit_there_is_a_fit_here(data, lane):
    here = lanes.Lane(unruly.Quiet, LinearRace(*data, alpha=0.01).task(1))
    assert here.prepare(*data) >= 0.0
    seconds, coef = lane(unruly.Quiet).fit({}, 1, 0)
    assert seconds > 0.0
    np.testing.assert_array_equal(coef, here.fit({}, 1, 0)[1])
    here.close()


def test_a_crash_is_told_with_its_signal(lane):
    with pytest.raises(lanes.Died, match=r"died of signal 11 \(SIGSEGV\)"):
        lane(unruly.Crashing).fit({}, 1, 0)


def test_a_library_that_calls_exit(lane):
    with pytest.raises(lanes.Died, match="left with exit status 3"):
        lane(unruly.Leaving)


def test_after_a_crash_there_is_another_process(lane):
    one = lane(unruly.SometimesCrashing)
    first = one.fit({"bad": False}, 1, 0)[1]
    for _ in range(2):
        with pytest.raises(lanes.Died, match="SIGABRT"):
            one.fit({"bad": True}, 1, 0)
        np.testing.assert_array_equal(one.fit({"bad": False}, 1, 0)[1], first)


def test_a_fit_that_hangs_is_ended(lane):
    one = lane(unruly.Hanging, limit=0.2)
    one.fit({}, 1, 0)  # the first may take its time: it may compile
    with pytest.raises(lanes.Overdue, match=r"took longer than 0.2 s"):
        one.fit({}, 1, 0)


def test_a_first_fit_has_an_end_too(lane, monkeypatch):
    one = lane(unruly.HangingAtOnce)
    monkeypatch.setattr(lanes, "READY_SECONDS", 0.2)
    with pytest.raises(lanes.Overdue, match=r"took longer than 0.2 s"):
        one.fit({}, 1, 0)


def test_what_a_contestant_leaves_in_the_temporary_folder_goes(lane):
    one = lane(unruly.Forgetful)
    with pytest.raises(RuntimeError) as caught:
        one.fit({}, 1, 0)
    path = Path(str(caught.value))
    assert path.exists()
    one.close()
    assert not path.exists()
    assert not path.parent.exists()


def test_threads_are_limited_there(lane):
    assert set(lane(unruly.Limited).fit({}, 1, 0)[1]) == {1}


@pytest.mark.skipif(sys.platform != "linux", reason="nobody is stopped there")
def test_nobody_computes_between_requests(lane):
    one = lane(unruly.Quiet)
    for _ in range(2):
        one.fit({}, 1, 0)
        stopped = os.waitid(os.P_PID, one._process.pid, os.WSTOPPED | os.WNOWAIT)
        assert stopped.si_status == signal.SIGSTOP


def test_a_class_that_nobody_can_import_is_told(data):
    class Local(unruly.Quiet):
        name = "local"

    with pytest.raises(
        ValueError, match=r"no contestant can race: local: failed to prepare: .*Local"
    ):
        race.race(LinearRace(*data), [Local], PLAN)


# -- a race


def test_a_race_goes_on_without_those_who_crash_or_hang(data):
    kinds = [unruly.Crashing, unruly.Leaving, unruly.Hanging, unruly.Quiet]
    result = race.race(LinearRace(*data), kinds, easy(limit=1.0))
    told = reasons(result)
    assert told["crashing"] == "failed: died of signal 11 (SIGSEGV)"
    assert told["leaving"] == "failed to prepare: left with exit status 3"
    assert told["hanging"].startswith("reached no target within 1 s of tuning (no finite model; ")
    assert told["hanging"].endswith("a fit failed: took longer than 1 s and was ended)")
    assert told["quiet"] == ""
    (row,) = [row for row in result["table"] if row["contestant"] == "quiet"]
    assert row["rounds"] == row["reached"] == 2


def test_a_setting_that_crashes_is_passed_over(data):
    result = race.race(LinearRace(*data), [unruly.SometimesCrashing], easy())
    assert reasons(result) == {"sometimes crashing": ""}
    errors = {run["setting"]: run["error"] for run in result["runs"]}
    assert errors == {0: None, 1: "died of signal 6 (SIGABRT)", 2: None}


PROGRAM = """
import numpy as np, unruly
from hogshare.lab.rivals import race
from hogshare.lab.rivals.linear.linear_race import LinearRace
X = np.eye(4)
race.race(LinearRace(X, [0, 1, 0, 1]), [unruly.Quiet, unruly.Telling], race.RacePlan(workers=1))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_no_process_outlives_the_race(tmp_path, how):
    """Those in the middle of a fit hold a FIFO open: its end of file is theirs.

    After Ctrl-C what the fit has started ends with it. Nobody can do that after SIGKILL, where the
    kernel ends the lanes' processes.
    """
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path),  # nobody clears up after SIGKILL
        "HOGSHARE_TEST_FIFO": str(fifo),
        "HOGSHARE_TEST_CHILD": str(int(how == signal.SIGINT)),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment, stderr=subprocess.PIPE, text=True
    )
    with open(fifo, "rb", buffering=0) as reader:  # opens once the fit does
        assert reader.read(1) == b"x"
        process.send_signal(how)
        _, err = process.communicate()  # until nobody holds its standard error
        assert ("KeyboardInterrupt" in err) == (how == signal.SIGINT)
        assert reader.read() == b""
