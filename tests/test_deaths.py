"""Ranks that MPI knows to have died (ULFM): who is named, what is expected of them, how others end.

Here MPI's answers are made up; `test_guide_on_ranks.py` kills ranks where the launcher leaves the
others alone.
"""

import subprocess
import sys

import pytest
import ranks
from ranks import needs_mpi

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
        Call(line, 1).look()


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
from hogshare.runtimes.mpi import door, leaving
leaving.begin()
leaving._talks.append(type("Talk", (), {"others": [], "flush": lambda *_: None})())
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
