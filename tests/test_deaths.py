"""Ranks that MPI knows to have died (ULFM): who is named, what is expected of them, how others end.

In the first part MPI's answers are made up. In the second one ranks are killed in runs that go on
without them, where the launcher leaves the others alone; in `test_guide_on_ranks.py` in others.
"""

import json
import subprocess
import sys

import pytest
import ranks
from ranks import HERE, needs_mpi, needs_survivors

pytest.importorskip("mpi4py", exc_type=ImportError)

from hogshare.runtimes.mpi import door, talk
from hogshare.runtimes.mpi.calls import Call, RankFailed
from hogshare.runtimes.mpi.heart import unless_dead
from hogshare.runtimes.mpi.talk import Letter, Talk


class Failed(Exception):
    """MPI's error of a class."""

    def __init__(self, number):
        super().__init__(f"error {number}")
        self.number = number

    def Get_error_class(self):
        return self.number


class Group:
    def __init__(self, members):
        self.members = members

    def Get_size(self):
        return len(self.members)

    def Free(self):
        self.members = None

    @staticmethod
    def Translate_ranks(group, numbers, other):
        return [other.members.index(group.members[k]) for k in numbers]


class Library:
    """An MPI that knows of deaths."""

    Exception = Failed
    Group = Group
    ERR_UNKNOWN, ERR_INTERN, ERR_PROC_FAILED, ERR_PROC_FAILED_PENDING = 14, 17, 75, 76
    ANY_SOURCE = ANY_TAG = -1
    BYTE = None

    @staticmethod
    def Status():
        return None


class Comm:
    """Rank 0 of three, to which nothing comes; processes 10, 11 and 12."""

    def __init__(self):
        self.dead, self.error, self.sent = [], None, []

    def Get_rank(self):
        return 0

    def Get_size(self):
        return 3

    def Get_group(self):
        return Group([10, 11, 12])

    def Get_failed(self):
        return Group([10 + k for k in self.dead])

    def Ack_failed(self):
        self.error = None

    def Improbe(self, *anything):
        if self.error is not None:
            raise self.error

    def Isend(self, content, dest):
        self.sent.append(dest)
        return self

    def Test(self):
        return False


@pytest.fixture
def comm(monkeypatch):
    for module in (door, talk):
        monkeypatch.setattr(module, "library", lambda: Library)
    monkeypatch.setattr(door, "known", lambda: {"knows_deaths": True})
    monkeypatch.setenv(door.WITH_SURVIVORS, "1")
    return Comm()


def test_a_death_is_named(comm):
    comm.dead = [2, 1]
    assert door.died(comm) == [2, 1]
    sentence = "Rank 1 has died, and this call needs every rank."
    assert door.death(Failed(75), comm) == sentence
    assert door.death(Failed(17), comm) == sentence  # as of a collective call that was in it
    assert door.death(ValueError(), comm) is None
    comm.dead = []
    assert door.death(Failed(17), comm) is None and "A rank" in door.death(Failed(76), comm)


def test_where_the_launcher_ends_all_nobody_is_asked(comm, monkeypatch):
    comm.dead = [1]
    monkeypatch.delenv(door.WITH_SURVIVORS)
    assert door.died(comm) == [] and door.death(Failed(75), comm) is None
    assert not door.outlives_ranks()
    monkeypatch.setenv(door.WITH_SURVIVORS, "1")
    monkeypatch.setattr(door, "known", lambda: {"knows_deaths": False})
    assert not door.outlives_ranks()


@pytest.mark.parametrize("late", [False, True], ids=["known", "in the middle of a poll"])
def test_nothing_more_is_expected_of_the_dead(comm, late):
    line = Talk(comm)
    for to in line.others:
        line.post(to, Letter(1, "here", None))
    comm.dead = [2]
    if late:
        comm.dead, comm.error = [], Failed(75)
        comm.Get_failed = lambda: Group([] if comm.error else [12])
        line.poll()
        comm.error = None
    line.poll()
    assert line.dead == {2} and line.gone == {2: "has died"}
    assert [to for _, _, to in line._under_way] == [1]
    line.post(2, Letter(1, "here", None))
    assert comm.sent == [1, 2]
    with pytest.raises(RankFailed, match="Rank 2 has died, and this call needs every rank"):
        Call(line, 1).raise_failures()


def test_other_errors_of_a_poll_are_raised(comm):
    line = Talk(comm)
    comm.error = Failed(17)
    with pytest.raises(Failed):
        line.poll()


def test_a_call_ends_by_a_sentence_whatever_mpi_says(comm):
    line = Talk(comm)
    comm.dead = [1, 2]
    with pytest.raises(RankFailed, match="Rank 1 has died") as caught, Call(line, 1):
        raise Failed(75)
    assert isinstance(caught.value.__cause__, Failed)


def test_a_heart_goes_on_beside_the_dead(comm):
    with unless_dead():
        raise Failed(75)
    with pytest.raises(Failed), unless_dead():
        raise Failed(17)


LEAVES = """
import atexit, sys
atexit.register(lambda: print("others'", flush=True))
from hogshare.runtimes.mpi import door, rank_exit
rank_exit.begin()
rank_exit._talks.append(type("Talk", (), {"others": [], "flush": lambda *_: None})())
door.died = lambda comm: [1]
print("no newline", end="")
"""


@needs_mpi
@pytest.mark.parametrize(("last", "status"), [("", 0), ("raise ValueError('mine')", 1)])
def test_a_process_beside_the_dead_ends_without_mpis_end(tmp_path, last, status):
    done = subprocess.run(
        [sys.executable, "-c", LEAVES + last],
        env=ranks.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert done.stdout == "no newlineothers'\n"
    assert ("ValueError: mine" in done.stderr) == bool(status)


# -- runs that go on

PLANES = {
    "shared": "Shared()",
    "replicas": "Replicas('ring', every=100)",
    "mirrors": "Mirrors(3, every=100)",
}
SECONDS = 420  # for kernels that are compiled; a run of its own takes some seconds


def lines_of(dies, plane, size=3, **how):
    """Run a job of which some ranks die; what the others have printed, who have all come to one."""
    case = json.dumps({"plane": plane, "dies": dies, "how": how})
    job = ranks.run(size, HERE / "dying_ranks.py", case, survive=True, seconds=SECONDS)
    found, lost = (
        sorted(ranks.told(job.stdout), key=lambda line: line["rank"]),
        sorted(map(int, dies)),
    )
    assert [line["rank"] for line in found] == [k for k in range(size) if k not in lost], job.stderr
    assert job.returncode == 0, job.stderr
    for line in found:
        assert line["lost"] == lost
        assert line["workers"] == [k for k in range(size) if k not in lost]
        assert 0.98 < line["times"] < 1.02
        assert line["coef"] == found[0]["coef"]
        for rank, sentence in zip(lost, sorted(line["warned"]), strict=True):
            assert f"rank {rank} has died, with {1200 // size} of 1,200 rows" in sentence
    return found


@needs_survivors
@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize(
    "dies",
    [
        {"2": ["seconds", 0.2]},
        {"0": ["seconds", 0.05]},
        {"1": ["message", 120]},
        {"0": ["meeting", 20]},
        {"0": ["result", 15]},
        {"0": ["result", 10], "1": ["meeting", 30]},
    ],
    ids=lambda dies: " and ".join(f"{k} at {when} {n}" for k, (when, n) in dies.items()),
)
def test_the_others_go_on_to_the_end(plane, dies):
    for line in lines_of(dies, PLANES[plane]):
        assert line["epochs"] == 80 and set(line["warned"]) <= set(line["notes"])


@needs_survivors
@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_that_dies_when_the_run_is_over_is_missing_in_the_report(rank):
    for line in lines_of({rank: ["report", 1]}, "Shared()"):
        assert "the run was over, and only the report lacks its workers" in line["notes"][0]


@needs_survivors
@pytest.mark.parametrize(
    "plane",
    [
        "Shared(exchange=None)",
        "Replicas('all', every=50, send='change')",
        "Replicas('ring', every=50, sync='bsp')",
        "Replicas('root', every=50, sync='async')",
        "Mirrors(4, every=50, clock_difference=2)",
    ],
)
def test_who_waits_at_a_barrier_waits_for_the_dead_no_more(plane):
    barrier = {} if plane.startswith("Mirrors") else {"barrier": "'ssp:1'"}
    lines_of({"3": ["seconds", 0.1], "0": ["message", 200]}, plane, size=4, **barrier)


@needs_survivors
@pytest.mark.parametrize("plane", PLANES)
def test_stops_and_traces_are_of_the_rows_that_are_left(plane):
    how = {"trace": "1", "stop": "Stop(epochs=80, tol=1e-5)"}
    for line in lines_of({"0": ["meeting", 12]}, PLANES[plane], **how):
        assert abs(line["traced"] - 1.0) < 1e-6


@needs_survivors
def test_checkpoints_stop_and_the_last_one_has_all(tmp_path):
    path = tmp_path / "run.npz"
    how = {"checkpoint": repr(str(path)), "stop": "Stop(epochs=80)"}
    for line in lines_of({"1": ["meeting", 60]}, "Shared()", **how):
        (sentence,) = line["files"]
        assert "no more checkpoints are written, because rank 1 has died" in sentence
        assert sentence in line["notes"]
    assert len(list(tmp_path.glob("run.npz.*of3"))) == 3
    again = how | {"resume": repr(str(path)), "checkpoint": "None"}
    assert all("resumed after" in line["notes"][0] for line in lines_of({}, "Shared()", **again))


NETWORK = """
import threading
from hogshare import Adam, Replicas
from hogshare.runtimes.mpi.survivors import Survivors
begin = Survivors.begin

def begins(self):
    begin(self)
    if rank == 0:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()

Survivors.begin = begins
network = problems.network(X, y, hidden=(4,))
runtime = MPI(rows="all", arena=False, survive=True)
how = {"rule": Adam(), "plane": Replicas("root"), "barrier": "asp", "n_workers": 1, "trace": 1}
report = solve(network, runtime=runtime, stop=300, seed=0, **how)
first, *_, last = report.trace.objective
assert report.settings["lost_ranks"] == [0] and last < 0.5 * first
print("fitted", report.notes[0])
"""


@needs_survivors
def test_a_network_goes_on_with_the_rows_of_those_that_live(tmp_path):
    job = ranks.run(3, ranks.script(tmp_path, NETWORK), survive=True, seconds=SECONDS)
    assert job.stdout.count("fitted rank 0 has died, with 80 of 240 rows") == 2, job.stderr
    assert job.returncode == 0


REFUSED = """
from hogshare import Master, Ridge
part = problems.linear(X[rank::size], y[rank::size], alpha=0.01)
SPACING = {"arena": False, "survive": True}

def refused(problem=part, apart=SPACING, rows="shard", **settings):
    try:
        solve(problem, runtime=MPI(rows=rows, **apart), **{"stop": 2, "seed": 0, **settings})
    except ValueError as error:
        return str(error)

def estimator():
    try:
        Ridge(runtime=MPI(**SPACING)).fit(X[rank::size], y[rank::size])
    except ValueError as error:
        return str(error)

found = {
    "saga": refused(rule="saga"),
    "sdca": refused(rule="sdca"),
    "master": refused(plane=Master()),
    "in step": refused(problem, rows="all", barrier="bsp"),
    "memory": refused(apart={"survive": True}),
    "estimator": estimator(),
}
if rank == 0:
    import json
    print(json.dumps(found))
"""


@needs_survivors
def test_what_needs_every_rank_is_refused(tmp_path):
    job = ranks.run(2, ranks.script(tmp_path, REFUSED), survive=True, seconds=SECONDS)
    assert job.returncode == 0, job.stderr
    (found,) = ranks.told(job.stdout)
    words = {
        "saga": "SAGA, which remembers something of each row",
        "sdca": "SDCA, which remembers something of each row",
        "master": "Master",
        "in step": "a run in step",
        "memory": "MPI(arena=False, survive=True)",
        "estimator": "an estimator",
    }
    for name, sentence in words.items():
        assert "MPI(survive=True) is " in found[name] and sentence in found[name], name


CANNOT = """
try:
    solve(problem, runtime=MPI(rows="all", arena=False, survive=True), stop=2)
except ValueError as error:
    print(f"{error}")
"""


@needs_mpi
def test_an_mpi_that_cannot_is_refused(tmp_path):
    job = ranks.run(2, ranks.script(tmp_path, CANNOT))
    sentence = "MPI(survive=True) needs an MPI that knows when a rank has died, and a launcher that"
    assert job.stdout.count(sentence) == 2, job.stderr
    assert job.stdout.count("run `hogshare doctor` for its abilities") == 2
