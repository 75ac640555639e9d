"""The crew: processes that start at once, are reused, and leave nothing behind, whoever dies."""

import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from hogshare.kernels import layout
from hogshare.runtimes import crew as crew_module
from hogshare.runtimes import fork_helper, processes
from hogshare.runtimes.crew import Crew, TaskFailed, current_crew
from hogshare.runtimes.fork_helper import Frames, encode
from hogshare.runtimes.user_objects import Parcel
from hogshare.shm.arena import Arena

ROOT = Path(crew_module.__file__).parents[2]
PATIENCE = 30  # seconds after which something that should happen has not

TASKS = """
import os, sys, time
import numpy as np
from hogshare.shm.arena import Arena

def hello(channel, fds, **kwargs):
    channel.send((os.getpid(), kwargs))

def fill(channel, fds, layout, value):
    arena = Arena.attach(fds[0], layout)
    arena["a"][...] = value
    channel.send("filled")

def wait(channel, fds, seconds=60):
    channel.send("waiting")
    time.sleep(seconds)
    channel.send("waited")

def spin(channel, fds):
    channel.send("waiting")
    while True:
        pass

def leave(channel, fds, status):
    os._exit(status)

def fail(channel, fds):
    raise OverflowError("too hot")

def count_fds(channel, fds):
    channel.send((len(os.listdir("/proc/self/fd")), len(fds)))

def look(channel, fds):
    channel.send({"modules": sorted(sys.modules), "path": sys.path,
                  "main": sys.modules.get("__mp_main__", sys.modules["__main__"]).__file__,
                  "python_path": os.environ.get("PYTHONPATH"), "session": os.getsid(0)})

def big(channel, fds, data):
    channel.send(data[::-1])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a module of tasks, on the path of this process and so of members."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "crew_tasks.py").write_text(TASKS)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def crew(folder, seams):
    # these tasks are no fits: a helper that imports nothing for them is there ten times as soon
    seams.kernels.loaded = list
    crew = current_crew()
    crew.shutdown()  # members from before do not know this folder
    yield crew
    crew.shutdown()
    assert not crew._hired and not crew._idle
    assert not psutil.Process().children()


def until(condition, what="it"):
    """Return the condition's first true value."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} has not happened"
        time.sleep(0.005)
    return value


def messages(member, n=1):
    """Return n messages of a member."""
    found = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < n:
        assert time.monotonic() < deadline and member.alive, (member.death, found)
        select.select([member], [], [], 0.1)
        found += member.poll()
    return found


def ask(member, task, fds=(), **kwargs):
    """Return a task's one message."""
    member.post((f"crew_tasks:{task}", kwargs), fds)
    (message,) = messages(member)
    return message


def death(member):
    """Return how a member ended."""

    def ended():
        member.poll()
        return not member.alive

    until(ended, "death")
    return member.death


def open_fds():
    return len(os.listdir("/proc/self/fd"))


def gone(pid):
    """Tell whether a process has ended; one that nobody has reaped has ended too."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def helper_of(crew):
    return crew._helper._process.pid


def test_members_work_for_us_in_processes_of_their_own(crew):
    members = crew.hire(2)
    for number, member in enumerate(members):
        assert member.alive and member.death is None
        member.post(("crew_tasks:hello", {"number": number}))
        assert member.busy
    answers = [messages(member)[0] for member in members]
    assert [kwargs for _, kwargs in answers] == [{"number": 0}, {"number": 1}]
    pids = [pid for pid, _ in answers]
    assert pids == [member.pid for member in members]
    assert len({os.getpid(), helper_of(crew), *pids}) == 4
    for member in members:
        until(lambda m=member: m.poll() or not m.busy)
    crew.release(members)


def test_hire_does_not_wait_for_the_helper(crew):
    (member,) = crew.hire(1)
    assert member.pid is None and member.alive
    assert member.poll() == []
    assert ask(member, "hello")[1] == {}
    assert crew.hire(0) == []


def test_members_are_reused(crew):
    first = crew.hire(2)
    pids = {ask(member, "hello")[0] for member in first}
    crew.release(first)
    second = crew.hire(3)
    again = [ask(member, "hello")[0] for member in second]
    assert pids < set(again) and len(set(again)) == 3


def test_a_fit_that_ends_before_its_member_is_up_takes_its_task_back(crew):
    arena = Arena.create({"a": (10, "float32")})
    before = open_fds()
    for _ in range(300):
        (member,) = crew.hire(1)
        member.post(("crew_tasks:leave", {"status": 1}), [arena.fileno()])
        crew.release([member])
    assert open_fds() <= before + 4  # one member, one helper
    (member,) = crew.hire(1)
    assert ask(member, "hello", n=5)[1] == {"n": 5}
    arena.close()


def test_a_task_from_before_the_release_is_not_heard_any_more(crew):
    (member,) = crew.hire(1)
    assert ask(member, "wait", seconds=0.2) == "waiting"
    crew.release([member])
    (same,) = crew.hire(1)
    assert same is member
    assert ask(same, "hello", new=True)[1] == {"new": True}
    until(lambda: same.poll() or not same.busy)


def test_hires_from_two_threads_share_nobody(crew):
    hired, errors = [], []

    def work():
        try:
            for _ in range(10):
                members = crew.hire(2)
                hired.append(members)
                pids = {ask(member, "hello")[0] for member in members}
                assert len(pids) == 2
                crew.release(members)
        except BaseException as error:
            errors.append(error)

    members = [crew.hire(2), crew.hire(2)]
    assert not set(members[0]) & set(members[1])
    for pair in members:
        crew.release(pair)
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not errors and len(hired) == 20
    assert len({id(m) for pair in hired for m in pair}) <= 6


def test_descriptors_and_arena_reach_a_running_member(crew):
    (member,) = crew.hire(1)
    ask(member, "hello")
    for value in (1, 2):
        arena = Arena.create({"a": (1000, "float64")})
        answer = ask(member, "fill", [arena.fileno()], layout=arena.describe(), value=value)
        assert answer == "filled"
        assert (arena["a"] == value).all()
        arena.close()


def test_nothing_leaks_here_or_in_a_member(crew):
    members = crew.hire(2)
    for member in members:
        ask(member, "hello")
    crew.release(members)
    arena = Arena.create({"a": (10, "float32")})
    counts = []
    for _ in range(30):
        members = crew.hire(2)
        for member in members:
            n_open, n_given = ask(member, "count_fds", [arena.fileno()] * 3)
            assert n_given == 3
            counts.append((open_fds(), n_open))
        crew.release(members)
    assert counts[-2:] == counts[:2]
    assert len(psutil.Process().children(recursive=True)) == 3
    arena.close()


def test_shutdown_gives_everything_back_and_the_crew_can_go_on(crew):
    crew.shutdown()
    gc.collect()
    before = open_fds()
    for _ in range(2):
        members = crew.hire(2)
        pids = [ask(member, "hello")[0] for member in members] + [helper_of(crew)]
        crew.shutdown()
        assert open_fds() == before
        for pid in pids:
            until(lambda p=pid: not psutil.pid_exists(p))
        assert not members[0].alive and members[0].death is None


def test_kill_of_a_member_is_reported(crew):
    idle, victim, other = crew.hire(3)
    ask(idle, "hello")
    assert ask(victim, "wait") == "waiting"
    os.kill(victim.pid, signal.SIGKILL)
    assert death(victim) == "was killed by signal 9 (SIGKILL)"
    assert not victim.alive
    victim.post(("crew_tasks:hello", {}))  # no error: poll and death tell
    assert victim.poll() == []
    assert ask(other, "hello")
    crew.release([idle, victim, other])
    assert victim not in crew.hire(2)


def test_the_exit_status_of_a_member_is_reported(crew):
    members = crew.hire(2)
    members[0].post(("crew_tasks:leave", {"status": 3}))
    assert death(members[0]) == "ended with exit status 3"
    assert members[1].death is None


def test_an_exception_in_a_task_is_a_message_and_the_member_lives(crew):
    (member,) = crew.hire(1)
    failed = ask(member, "fail")
    assert isinstance(failed, TaskFailed)
    assert failed.summary == "OverflowError: too hot" and "in fail" in failed.traceback
    assert ask(member, "nothing_like_that").summary.startswith("AttributeError")
    assert ask(member, "hello", unknown=Unpicklable()).summary.startswith("ValueError: not here")
    assert ask(member, "hello")[1] == {}


class Unpicklable:
    """Cannot be read in another process."""

    def __reduce__(self):
        return exec, (f"import os\nif os.getpid() != {os.getpid()}: raise ValueError('not here')",)


def test_large_messages_pass_both_ways(crew):
    (member,) = crew.hire(1)
    data = os.urandom(3_000_000)
    assert ask(member, "big", data=data) == data[::-1]
    with pytest.raises(BufferError, match="arena"):
        member.post(("crew_tasks:big", {"data": bytes(70 << 20)}))


def test_what_a_member_has_not_read_is_known_to_wait(crew):
    (member,) = crew.hire(1)
    assert not member.is_sending
    assert ask(member, "big", data=b"1") == b"1"
    assert not member.is_sending, "a small task is sent at once"
    os.kill(member.pid, signal.SIGSTOP)
    member.post(("crew_tasks:big", {"data": bytes(3_000_000)}))
    assert member.is_sending, "more than its socket takes"
    os.kill(member.pid, signal.SIGCONT)
    assert messages(member) == [bytes(3_000_000)]
    assert not member.is_sending


def test_a_problems_arrays_travel_in_memory_not_in_the_message():
    parcel = Parcel.of("gradient", {"small": np.zeros(9), "large": np.arange(20_000.0)})
    assert len(parcel.content) < 1000 and parcel.arena is not None
    files = iter([parcel.arena.fileno()])
    assert parcel.opened(files)["large"].tolist() == list(range(20_000))


def test_dismissed_members_end_in_the_middle_of_a_task(crew):
    members = crew.hire(2)
    pids = []
    for member, task in zip(members, ("wait", "spin"), strict=True):
        assert ask(member, task) == "waiting"
        pids.append(member.pid)
    crew.dismiss(members)
    for pid in pids:
        until(lambda p=pid: gone(p))
    assert ask(crew.hire(1)[0], "hello")


def test_a_member_whose_old_task_hangs_is_ended_by_a_later_hire(crew, seams):
    (member,) = crew.hire(1)
    assert ask(member, "wait") == "waiting"
    pid = member.pid
    crew.release([member])
    seams.clock.until_hung = 0.1
    time.sleep(0.2)
    (other,) = crew.hire(1)
    assert other is not member and ask(other, "hello")[0] != pid
    until(lambda: gone(pid))


def test_a_helper_without_kernels_imports_nothing(crew):
    modules = ask(crew.hire(1)[0], "look")["modules"]
    assert "hogshare.runtimes.fork_helper" in modules and "numba" not in modules


def with_kernels(seams):
    """Have the next helper import what it does for a fit."""
    seams.kernels.loaded = lambda: ["sgd_quantum"]


def test_the_helper_forks_with_one_thread(crew, seams):
    with_kernels(seams)
    ask(crew.hire(1)[0], "hello")
    assert psutil.Process(helper_of(crew)).num_threads() == 1


def test_a_helper_that_is_killed_is_replaced(crew):
    old = crew.hire(2)
    assert ask(old[0], "wait", seconds=0.3) == "waiting"
    ask(old[1], "hello")
    helper = helper_of(crew)
    os.kill(helper, signal.SIGKILL)
    until(lambda: gone(helper))
    assert messages(old[0]) == ["waited"]  # members go on without it
    (new,) = crew.hire(1)
    assert ask(new, "hello")[0] not in {m.pid for m in old}
    os.kill(old[1].pid, signal.SIGKILL)
    assert death(old[1]) == (
        "is gone, and its fork helper, which could say why, was killed by signal 9 (SIGKILL)"
    )
    crew.release(old)


def zombies():
    """Children of this process that have ended and that it has not reaped."""
    return [
        child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE
    ]


def kill_helper(crew):
    """Kill the helper, and return when there is nothing left but its zombie."""
    helper = helper_of(crew)
    os.kill(helper, signal.SIGKILL)
    until(lambda: [child.pid for child in zombies()] == [helper])


@pytest.mark.parametrize("use", ["hire", "release", "dismiss"])
def test_a_helper_that_has_ended_is_reaped_by_the_next_use(crew, use):
    """Though no use of these needs a helper."""
    members = crew.hire(2)
    for member in members:
        ask(member, "hello")
    idle, hired = members
    crew.release([idle])
    kill_helper(crew)
    if use == "hire":
        assert crew.hire(1) == [idle]
    else:
        getattr(crew, use)([hired])
    assert not zombies()


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_helper_that_is_killed_is_reaped_by_the_run_that_follows(crew, monkeypatch, when):
    import numpy as np

    from hogshare import Stop, problems, solve
    from hogshare.runtimes.processes import Watch

    problem = problems.linear(np.ones((4, 2)), [0, 1, 0, 1])
    run = {"runtime": "processes", "n_workers": 2, "stop": Stop(epochs=3)}
    (member,) = crew.hire(1)
    ask(member, "hello")  # it is up: the run does not need a helper
    crew.release([member])
    helper, left = helper_of(crew), []
    if when == "before":
        kill_helper(crew)
    look, release = Watch.poll, crew.release

    def kill_and_look(watch, seconds):
        kill_helper(crew)
        monkeypatch.setattr(Watch, "poll", look)
        look(watch, seconds)

    if when == "during":
        monkeypatch.setattr(Watch, "poll", kill_and_look)
    monkeypatch.setattr(crew, "release", lambda m: (left.append(len(zombies())), release(m)))
    solve(problem, **run)
    assert left == [0]
    assert not psutil.pid_exists(helper)


@pytest.mark.parametrize("runtime", ["caller", "threads"])
def test_a_helper_that_has_ended_is_reaped_by_a_run_without_processes(crew, runtime):
    import numpy as np

    from hogshare import Stop, problems, solve

    (member,) = crew.hire(1)
    ask(member, "hello")
    crew.release([member])
    kill_helper(crew)
    solve(problems.linear(np.ones((4, 2)), [0, 1, 0, 1]), runtime=runtime, stop=Stop(epochs=1))
    assert not zombies()


def test_a_helper_that_cannot_start_is_reported(crew, monkeypatch, capfd):
    crew.shutdown()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    (member,) = crew.hire(1)
    assert death(member) == "did not come up: its fork helper ended with exit status 1"
    monkeypatch.undo()
    assert ask(crew.hire(1)[0], "hello")


GONE = {
    "killed": (-9, 7, None, "(process 7) was killed by signal 9 (SIGKILL)"),
    "killed early": (-11, 7, None, "(process 7) was killed by signal 11 (SIGSEGV)"),
    "unknown signal": (-63, 7, None, "(process 7) was killed by signal 63"),
    "ended": (3, 7, None, "(process 7) ended with exit status 3"),
    "no memory": (
        os.strerror(errno.ENOMEM),
        None,
        None,
        "could not be started (Cannot allocate memory)",
    ),
    "untold": (None, 7, None, "(process 7) is gone, and nothing says why"),
    "no helper": (
        None,
        None,
        "ended with exit status 1",
        "did not come up: its fork helper ended with exit status 1",
    ),
    "helper too": (
        None,
        7,
        "was killed by signal 9 (SIGKILL)",
        "(process 7) is gone, and its fork helper, which could say why, was killed by signal 9 "
        "(SIGKILL)",
    ),
}


@pytest.mark.parametrize("who", ["worker 2", "the master"])
@pytest.mark.parametrize("case", GONE)
def test_what_has_become_of_a_worker_is_a_sentence(monkeypatch, case, who):
    how, pid, helper, words = GONE[case]
    asked = SimpleNamespace(death=helper, wait_until=lambda *_: None, members={})
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.setblocking(False)
    member = crew_module.Member(2, asked, ours)
    if how is not None:
        member._reported(pid, how)
    member.pid = pid
    watch = processes.Watch.__new__(processes.Watch)
    watch.session = SimpleNamespace(
        word=lambda _: layout.RUNNING, master=lambda: SimpleNamespace(take_over=lambda: None)
    )
    watch.members, watch.master, watch.notes, watch.news = {2: member}, 2, [], None
    watch.monitor = SimpleNamespace(bury=lambda _: None)
    monkeypatch.setattr(processes.Watch, "_state", lambda *_: layout.ACTIVE)
    monkeypatch.setattr(processes, "ThreadCrew", lambda *_: SimpleNamespace(start=lambda: None))
    watch.master = 2 if who == "the master" else 5
    with pytest.warns(processes.WorkerDied) as told:
        watch._read_news(2)
    goes_on, lost = {
        "worker 2": ("the fit goes on without it", "steps that it had not exchanged yet"),
        "the master": ("a thread of the caller has taken over", "messages of an unfinished sum"),
    }[who]
    came = f", and only {lost} are lost" if pid else ""
    assert [str(one.message) for one in told] == [f"{who} {words}; {goes_on}{came}"] == watch.notes
    member._close()


def test_who_dies_resting_when_the_run_is_over_is_done(recwarn):
    """A master, which waits until all are done or dead, would wait for it for ever."""
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.setblocking(False)
    table = np.zeros((2, layout.N_TABLE), np.int64)
    table[1, layout.T_STATE] = layout.RESTING
    watch = processes.Watch.__new__(processes.Watch)
    watch.session = SimpleNamespace(
        word=lambda _: layout.STOPPED_BY_CALLER, schedule=SimpleNamespace(table=table)
    )
    watch.members, watch.master = {1: crew_module.Member(1, None, ours)}, 2
    watch._read_news(1)
    assert table[1, layout.T_STATE] == layout.DONE and not watch.members and not recwarn


def test_a_fork_that_fails_says_why_without_a_number(monkeypatch):
    def fork():
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    helper = fork_helper.ForkServer.__new__(fork_helper.ForkServer)
    told = []
    helper._report = told.append
    helper._fork(4, None, (), [])
    assert told == [(4, None, "Resource temporarily unavailable")]


def test_members_know_the_callers_path_but_not_its_main_module(crew, seams, monkeypatch):
    crew.shutdown()
    with_kernels(seams)
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    (member,) = crew.hire(1)
    seen = ask(member, "look")
    assert seen["path"] == [os.path.abspath(entry) for entry in sys.path]
    assert seen["python_path"] == "/somewhere"
    assert "pytest" not in seen["modules"]
    assert "numba" in seen["modules"]
    assert "sklearn" not in seen["modules"], "a second for nothing: members check no input"
    # multiprocessing has a second name for a process's own main module
    assert Path(seen["main"]).name == "fork_helper.py"
    assert seen["session"] != os.getsid(0)  # the terminal's Ctrl-C goes to the caller alone


def test_members_ignore_an_interrupt(crew):
    (member,) = crew.hire(1)
    assert ask(member, "wait", seconds=0.2) == "waiting"
    os.kill(member.pid, signal.SIGINT)
    os.kill(helper_of(crew), signal.SIGINT)
    assert messages(member) == ["waited"]


def test_idle_members_and_then_their_helper_leave(crew, monkeypatch):
    crew.shutdown()
    monkeypatch.setenv("HOGSHARE_IDLE_SECONDS", "0.1")
    members = crew.hire(2)
    pids = [ask(member, "hello")[0] for member in members] + [helper_of(crew)]
    crew.release(members)
    for pid in pids:
        until(lambda p=pid: gone(p))
    assert len(zombies()) == 1
    assert crew.hire(0) == [] and not zombies()
    (member,) = crew.hire(1)  # nobody counts as dead, and others come
    assert ask(member, "hello")[0] not in pids
    assert [m for m in members if m in crew._idle] == []


def test_a_hired_member_has_no_time_out(crew, monkeypatch):
    """Also one that had a time-out while it was idle, and that the hire takes from it."""
    monkeypatch.setenv("HOGSHARE_IDLE_SECONDS", "0.1")
    (member,) = crew.hire(1)
    pid = ask(member, "hello")[0]
    crew.release([member])
    monkeypatch.setenv("HOGSHARE_IDLE_SECONDS", "60")  # it is hired again, however late that is
    (same,) = crew.hire(1)
    assert same is member
    time.sleep(0.1 + crew_module.fork_helper.GRACE + 0.4)
    assert same.alive and ask(same, "hello")[0] == pid


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_a_bad_time_out_is_named(crew, monkeypatch, text):
    monkeypatch.setenv("HOGSHARE_IDLE_SECONDS", text)
    with pytest.raises(ValueError, match="HOGSHARE_IDLE_SECONDS"):
        crew.hire(1)


def test_a_crew_of_many(crew):
    members = crew.hire(12)
    for member in members:
        member.post(("crew_tasks:hello", {}))
    assert len({messages(member)[0][0] for member in members}) == 12


def test_one_crew_per_process(crew):
    assert current_crew() is crew and isinstance(crew, Crew)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_frames_survive_any_cut(size):
    stream = encode(b"m", "one") + encode(b"t", b"x" * 300, 3) + encode(b"e", None)
    frames, found = Frames(), []
    for start in range(0, len(stream), size):
        frames.feed(stream[start : start + size])
        found += [(kind, n_fds) for kind, n_fds, _ in frames]
    assert found == [(b"m", 0), (b"t", 3), (b"e", 0)]


# Scripts: what happens to a user's process, seen from outside.

SCRIPT = """
import os, select, signal, sys, threading, time
from hogshare.runtimes.crew import current_crew

def ask(member, task, **kwargs):
    member.post(("crew_tasks:" + task, kwargs))
    while True:
        select.select([member], [], [], 10)
        if found := member.poll():
            return found[0]
        assert member.alive, member.death

print("imported", flush=True)
crew = current_crew()
"""


def start(folder, body):
    """Start a script without a main guard, warnings being errors."""
    path = folder / f"script_{time.monotonic_ns()}.py"
    path.write_text(SCRIPT + textwrap.dedent(body))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": ""}
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(path)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder, body):
    """Return the lines that a script prints; it must end well, in silence."""
    with start(folder, body) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert out.count("imported") == 1
    return out.splitlines()[1:]


def kill_and_look(process):
    """Kill a script once it has printed its process ids; return when all of those are gone."""
    with process:
        assert process.stdout.readline() == "imported\n"
        pids = [int(pid) for pid in process.stdout.readline().split()]
        pids += [p.pid for p in psutil.Process(process.pid).children(recursive=True)]
        assert len(set(pids)) >= 1
        process.kill()
        for pid in set(pids):
            until(lambda p=pid: gone(p), f"the end of process {pid}")


def test_an_unguarded_script(folder):
    assert run(folder, 'print([ask(m, "hello", n=1)[1] for m in crew.hire(2)])') == [
        "[{'n': 1}, {'n': 1}]"
    ]


@pytest.mark.parametrize(
    "body",
    [
        "crew.hire(1)",
        'm, = crew.hire(1); ask(m, "wait")',
        'm, = crew.hire(1); ask(m, "hello"); crew.release([m]); del m, crew',
        'm, = crew.hire(1); m.post(("crew_tasks:wait", {})); crew.shutdown(); crew.shutdown()',
    ],
)
def test_a_script_ends_in_silence(folder, body):
    assert run(folder, body) == []


@pytest.mark.parametrize("task", ["wait", "spin"])
def test_kill_of_the_caller_ends_all(folder, task):
    kill_and_look(
        start(
            folder,
            f"""
            members = crew.hire(2)
            crew.hire(1)
            for m in members:
                ask(m, {task!r})
            print(*[m.pid for m in members], flush=True)
            time.sleep(60)
            """,
        )
    )


def test_kill_of_the_caller_during_the_start_ends_all(folder):
    body = "crew.hire(2); print(crew._helper._process.pid, flush=True); time.sleep(60)"
    kill_and_look(start(folder, body))


def test_a_helper_that_still_imports_leaves_with_its_caller():
    script = """
import socket, sys, time
from hogshare.runtimes import fork_helper
with fork_helper._guarded(socket.socket(fileno=int(sys.argv[1]))):
    print("importing", flush=True)
    time.sleep(60)
"""
    ours, theirs = socket.socketpair()
    with subprocess.Popen(
        [sys.executable, "-c", script, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    ) as process:
        theirs.close()
        assert process.stdout.readline() == b"importing\n"
        ours.close()
        assert process.wait(PATIENCE) == 0


def test_kill_of_the_caller_ends_all_though_a_forked_child_lives(folder):
    process = start(
        folder,
        """
        m, = crew.hire(1)
        ask(m, "wait")
        child = os.fork()
        if not child:
            os.close(1), os.close(2)
            time.sleep(60)
            os._exit(0)
        print(child, flush=True)
        print(m.pid, crew._helper._process.pid, flush=True)
        time.sleep(60)
        """,
    )
    with process:
        assert process.stdout.readline() == "imported\n"
        child = int(process.stdout.readline())
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.kill()
        for pid in pids:
            until(lambda p=pid: gone(p))
        assert not gone(child)
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_has_a_crew_of_its_own(folder):
    lines = run(
        folder,
        """
        m, = crew.hire(1)
        ask(m, "hello")
        if not (child := os.fork()):
            other = current_crew()
            assert other is not crew
            n, = other.hire(1)
            print(ask(n, "hello")[0] != m.pid, flush=True)
            other.shutdown()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert crew is current_crew()
        print(ask(m, "hello", still="here")[1])
        """,
    )
    assert lines == ["True", "{'still': 'here'}"]


def test_forks_from_one_thread_while_another_hires(folder):
    lines = run(
        folder,
        """
        import warnings
        warnings.simplefilter("ignore")
        stop = threading.Event()
        def hire():
            while not stop.is_set():
                members = crew.hire(2)
                crew.release(members)
        thread = threading.Thread(target=hire)
        thread.start()
        for _ in range(20):
            if not (child := os.fork()):
                current_crew()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        thread.join()
        print([ask(m, "hello", n=1)[1] for m in crew.hire(2)])
        """,
    )
    assert lines == ["[{'n': 1}, {'n': 1}]"]


def test_multiprocessing_children_have_crews_too(folder):
    lines = run(
        folder,
        """
        import multiprocessing
        def work(n):
            m, = current_crew().hire(1)
            return ask(m, "hello", n=n)[1]
        m, = crew.hire(1)
        ask(m, "hello")
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(work, [1, 2]))
            pool.close()
            pool.join()
        print(ask(m, "hello"))
        """,
    )
    assert lines[0] == "[{'n': 1}, {'n': 2}]" and len(lines) == 2


def test_a_helper_that_forked_long_ago_is_kept_for_the_members_that_go_on(crew):
    crew.shutdown()
    (first,) = crew.hire(1)
    assert ask(first, "look")
    helper = crew._helper
    crew.release([first])
    helper.last_request -= 1e4
    again, second = crew.hire(2)
    assert again is first and crew._helper is helper
    assert ask(first, "look") and ask(second, "look")


def test_members_find_the_kernels_loaded():
    import hogshare

    fit = "from hogshare import Stop, problems, solve; import numpy as np; "
    fit += "X = np.ones((4, 2)); solve(problems.linear(X, [0, 1, 0, 1]), stop=Stop(epochs=1)); "
    fit += "from hogshare.kernels import preload; print(json.dumps(preload.loaded()))"
    fit = "import json; " + fit
    look = "from hogshare.kernels import preload; import sys; preload.preload(sys.argv[1:]); "
    look += "import json; print(json.dumps(preload.loaded()))"
    root = str(Path(hogshare.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    names = []
    for code in (fit, look):
        done = subprocess.run(
            [sys.executable, "-c", code, *names], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == ["sgd_quantum"], "which joins and leaves, too"
        names = json.loads(done.stdout)


def test_an_interrupted_send_closes_no_descriptor_twice(monkeypatch):
    """A number that is closed twice may be somebody else's file by then."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    member = crew_module.Member(1, None, ours)
    member._up = True
    close_all = crew_module._close_all

    def interrupted(fds):
        close_all(fds)
        raise KeyboardInterrupt

    with theirs, open(os.devnull) as sent:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(crew_module, "_close_all", interrupted)
            member.post(("nobody:knows", {}), [sent.fileno()])
        with open(os.devnull) as mine:  # has the number of the copy that was closed
            member._close()
            os.fstat(mine.fileno())
