"""The crew: worker processes that start in milliseconds and stay alive between fits.

Ownership. Each process id has one crew, made at first use. One lock guards the crew, its members
and its helper; it is taken for microseconds (milliseconds while the helper is started, up to two
seconds while an ended helper is reaped), never during a wait for a member. A hired member belongs
to its hirer until it is released; only the crew uses idle members. The caller stores a member's
tasks until the member reports that it is up. If a fit ends before this report, it takes its task
back, and the next fit can hire the member.

If other code forks this process, the child closes its copies of all these sockets. It makes a crew
of its own when it needs one. `hogshare.runtimes.fork_helper` describes when the helper ends, and
why these processes can safely unpickle each other's messages.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hogshare.kernels import preload
from hogshare.runtimes import fork_helper, interpreter_exit
from hogshare.runtimes.fork_helper import encode, select_readable

BACKLOG = 1 << 26  # bytes that may wait for a member to read them
BATCH = 100  # members per request to the helper; below the kernel's 253 descriptors
STATUS_WAIT = 2.0  # seconds to wait for the report on a death, which takes 1 ms on an idle machine
# prefixes of the environment variables that mark a process as a rank of an MPI launcher
OF_RANKS = ("PMI_", "PMIX_", "OMPI_", "PRTE_", "HYDRA_", "HYDI_", "I_MPI_")
HUNG = 5.0  # seconds after its release that a task may still run

_lock = threading.RLock()  # also taken for a fork, see `hogshare.system.forks`
_current: Crew | None = None


@dataclass(frozen=True)
class TaskFailed:
    """A member's message that its task raised an exception."""

    summary: str
    traceback: str


class Member:
    """One process of the crew, hired to run tasks; usable before it is up.

    Only `poll` reads from the member. The properties report the state after the last `poll`, so
    they never consume data for which a thread waits at `fileno`.
    """

    def __init__(self, number: int, helper: _Helper, sock: socket.socket) -> None:
        self.number = number
        self._helper = helper
        self._sock: socket.socket | None = sock
        self._frames = fork_helper.Frames()
        self._inbox: collections.deque[tuple[bytes, bytes]] = collections.deque()
        self._outgoing: collections.deque[tuple[memoryview, list[int]]] = collections.deque()
        self.pid: int | None = None  # of the process, once the member is up
        self._up = False
        self._open_tasks = 0
        self._stale_tasks = 0  # open tasks that were posted before the last release
        self._lost = False  # the other end is closed
        self._exit: int | str | None = None  # exit code as in subprocess, or why no fork
        self._death: str | None = None
        self.idle_since = 0.0

    def post(self, task: tuple[str, dict[str, Any]], fds: Sequence[int] = ()) -> None:
        """Give the member a task, without waiting.

        If the member is not up yet, a later `poll` sends the task. The member runs its tasks one
        after another.

        task : the function's name and its `kwargs`; the member calls
            ``function(channel, fds, **kwargs)``
        fds : descriptors for the task. The member gets duplicates, and closes them after the task;
            the caller's descriptors stay open.

        Raises BufferError if more than 64 MiB wait for the member. Put large data into an arena.
        """
        if len(fds) > fork_helper.MAX_FDS:
            raise ValueError(
                f"fds has {len(fds)} descriptors, and a task takes at most {fork_helper.MAX_FDS}; "
                "pass fewer."
            )
        with _lock:
            self._open_tasks += 1
            self._send(encode(fork_helper.TASK, task, len(fds)), fds)

    def poll(self) -> list[Any]:
        """Return the messages of the member's tasks since the last call, without waiting.

        An exception in a task arrives as a `TaskFailed`; the member stays alive.
        """
        with _lock:
            self._pump()
            frames, self._inbox = self._inbox, collections.deque()
        messages = []
        for kind, body in frames:
            content = pickle.loads(body)
            messages.append(TaskFailed(*content) if kind == fork_helper.FAILED else content)
        return messages

    def fileno(self) -> int:
        """Return the descriptor that is readable when `poll` has news, a death included."""
        if self._sock is None:
            raise ValueError("This member was released.")
        return self._sock.fileno()

    @property
    def is_sending(self) -> bool:
        """Whether a part of a task is unsent because the member's socket is full."""
        return self._up and bool(self._outgoing)

    @property
    def alive(self) -> bool:
        """Whether the process runs, or is about to."""
        return not self._lost and self._sock is not None

    @property
    def busy(self) -> bool:
        """Whether a posted task has not ended yet."""
        return self._open_tasks > 0

    @property
    def death(self) -> str | None:
        """A phrase that says how the process ended, or None while the process lives.

        Examples: "was killed by signal 9 (SIGKILL)", "ended with exit status 3", "could not be
        started". Waits at most two seconds for the helper's report.
        """
        if self._death is not None or not self._lost:
            return self._death
        self._helper.wait_until(lambda: self._exit is not None, STATUS_WAIT)
        with _lock:
            self._death = self._describe_death()
        return self._death

    def _describe_death(self) -> str:
        if isinstance(self._exit, str):
            return f"could not be started ({self._exit})"
        if self._exit is not None:
            return what_became(self._exit)
        if self._helper.death is None:
            return "is gone, and nothing says why"
        if self.pid is None:
            return f"did not come up: its fork helper {self._helper.death}"
        return f"is gone, and its fork helper, which could say why, {self._helper.death}"

    def _reported(self, pid: int | None, how: int | str) -> None:
        self.pid = self.pid or pid
        self._exit = how

    def _released(self, idle_seconds: float) -> None:
        self._inbox.clear()
        notified = not self._up and self.idle_since > 0
        self.idle_since = time.monotonic()
        if not self._up:
            self._drop_outgoing()
            self._open_tasks = 0
        self._stale_tasks = self._open_tasks
        idle = encode(fork_helper.IDLE, idle_seconds)
        if self._up:
            self._send(idle)
        elif not notified and self._sock is not None:
            # The message waits in the socket. So a member that comes up reads its idle limit, and
            # leaves when the limit is over, even if no thread polls this member.
            with contextlib.suppress(OSError):
                self._sock.send(idle)

    def _send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        if self._sock is None or self._lost:
            return  # poll() and death report it
        if sum(len(unsent) for unsent, _ in self._outgoing) + len(data) > BACKLOG:
            raise BufferError(
                f"More than {BACKLOG >> 20} MiB wait for worker process {self.pid}; "
                "pass large arrays in an arena."
            )
        self._outgoing.append((memoryview(data), _duplicates(fds)))
        self._flush()

    def _flush(self) -> None:
        assert self._sock is not None
        while self._outgoing and self._up:
            data, fds = self._outgoing[0]
            try:
                if fds:
                    sent = socket.send_fds(self._sock, [data], fds)
                else:
                    sent = self._sock.send(data)
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                self._drop_outgoing()
                return
            # Remove the descriptors from the queue before closing them. Otherwise an interrupted
            # call might leave numbers of closed descriptors in the queue, and by the next call such
            # a number may belong to another file. (An interrupt before this line may send a frame
            # twice; but a run defers signals.)
            if sent == len(data):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = (data[sent:], [])
            _close_all(fds)

    def _drop_outgoing(self) -> None:
        while self._outgoing:
            _, fds = self._outgoing.popleft()
            _close_all(fds)

    def _pump(self) -> None:
        if self._sock is None or self._lost:
            return
        for _ in range(64):  # bounded: a member that floods must not trap the caller
            try:
                data = self._sock.recv(1 << 16)
            except BlockingIOError:
                break
            except ConnectionResetError:
                data = b""
            if not data:
                self._lost = True
                self._drop_outgoing()
                break
            self._frames.feed(data)
        for kind, _, body in self._frames:
            self._take(kind, body)
        if not self._lost:
            self._flush()

    def _take(self, kind: bytes, body: bytes) -> None:
        if kind == fork_helper.UP:
            self.pid = pickle.loads(body)
            self._up = True
            return
        stale = self._stale_tasks > 0
        if kind in (fork_helper.ENDED, fork_helper.FAILED):
            self._open_tasks -= 1
            self._stale_tasks -= stale
        if kind != fork_helper.ENDED and not stale:
            self._inbox.append((kind, body))

    def _close(self) -> None:
        if self._sock is not None:
            self._drop_outgoing()
            self._sock.close()
            self._sock = None

    __del__ = _close


class _Helper:
    def __init__(self) -> None:
        if sys.platform != "linux" or not sys.executable:
            raise RuntimeError(
                "Worker processes need Linux and a Python executable to start; "
                'use runtime="threads".'
            )
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        self.members: weakref.WeakValueDictionary[int, Member] = weakref.WeakValueDictionary()
        self.last_request = time.monotonic()
        self.death: str | None = None  # as `Member.death`
        self._ready = False
        try:
            with theirs:  # close this copy: then end of file means that the helper is gone
                self._process = _start(theirs.fileno())
        except BaseException:
            self._control.close()
            raise

    def request(self, members: Sequence[Member], ends: Sequence[int], idle: float) -> None:
        """Ask for forks; if the request is lost, the members' sockets reach end of file."""
        path = [os.path.abspath(entry) for entry in sys.path]
        packet = pickle.dumps(([m.number for m in members], path, idle))
        self.last_request = time.monotonic()
        self.members.update({m.number: m for m in members})
        try:
            socket.send_fds(self._control, [packet], list(ends))
        except (BrokenPipeError, ConnectionResetError):
            self.read_reports()  # reaps the helper, which is a zombie until then

    def read_reports(self) -> None:
        """Read the helper's reports, its own end included, without waiting for more."""
        while self.death is None:
            try:
                packet = self._control.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self.stop()
            elif (report := pickle.loads(packet)) == "ready":
                self._ready = True
            elif (member := self.members.get(report[0])) is not None:
                member._reported(*report[1:])

    def wait_until(self, condition: Any, seconds: float) -> None:
        """Read reports until the condition is true, the time is over or the helper is gone."""
        deadline = time.monotonic() + seconds
        while True:
            with _lock:
                self.read_reports()
                if condition() or self.death is not None:
                    return
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                return
            with contextlib.suppress(OSError, ValueError):  # closed by another thread
                select_readable(self._control, min(seconds_left, 0.02))

    def stop(self) -> None:
        """Let the helper end with its members, or kill it; takes at most about two seconds."""
        self._control.close()
        if not self._ready:
            self._process.kill()  # it has no member yet, and may be importing for a while
        try:
            code = self._process.wait(fork_helper.EXIT_GRACE + 0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self.death = what_became(code)

    def abandon(self) -> None:
        """Forget the helper in a forked child: it is the parent's."""
        self._control.close()
        self._process.returncode = 0  # subprocess would warn of a child that still runs
        self.death = "is another process's"


class Crew:
    """The worker processes of this process; get it from `current_crew`."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.idle_seconds = 60.0
        self._helper: _Helper | None = None
        # weak: dropping the last reference to a member closes its socket, and its process leaves
        self._hired: weakref.WeakSet[Member] = weakref.WeakSet()
        self._idle: list[Member] = []
        self._count = 0

    def hire(self, n: int) -> list[Member]:
        """Return `n` members, without waiting for new members to start.

        n : number of members. Idle members are hired before new members start.

        The members belong to the caller until it passes them to `release`. Prefer `hired`, which
        always releases them.
        """
        with _lock:
            self.idle_seconds = _idle_seconds()
            self.reap()
            for member in self._idle:
                member._pump()
            self._drop_stale()
            # first waiting members, then members about to end a task, then members about to be up
            members = sorted(self._idle, key=lambda m: (not m._up, m.busy))[: max(n, 0)]
            for member in members:
                self._idle.remove(member)
            # before forking, which ends a helper that has no member alive
            self._hired.update(members)
            try:
                for member in members:
                    member._send(encode(fork_helper.HIRED, None))
                self._fork(n - len(members), members)
            except BaseException:
                self.release(members)
                raise
            return members

    @contextlib.contextmanager
    def hired(self, n: int) -> Iterator[list[Member]]:
        """Hire n members for a with block, and release them at its end, even after an error."""
        members = self.hire(n)
        try:
            yield members
        finally:
            self.release(members)

    def release(self, members: Iterable[Member]) -> None:
        """Take members back: living members wait for the next hire, and dead members are removed.

        A task that still runs should be about to end. Its later messages are dropped. If the task
        still runs five seconds later, the next hire ends its member.
        """
        with _lock:
            self.reap()
            for member in self._taken(members):
                member._pump()
                if member.alive and not (member._up and member._outgoing):
                    member._released(self.idle_seconds)
                    self._idle.append(member)
                else:
                    member._close()

    def dismiss(self, members: Iterable[Member]) -> None:
        """Take members back and end their processes, even in the middle of a task."""
        with _lock:
            self.reap()
            for member in self._taken(members):
                member._close()

    def reap(self) -> None:
        """Reap a helper that has ended, which is a zombie until this call.

        Every use of the crew calls this. Every run calls it when it begins, and a run with members
        calls it repeatedly. In a process that does none of these the zombie remains, as one entry
        in the system's table of processes. The alternatives cost more: the handler of SIGCHLD
        belongs to the user; and if a thread waited for the helper, every process that the user
        forks would have two threads at the fork.
        """
        with _lock:
            if self._helper is not None and self._helper.death is None:
                self._helper.read_reports()

    def shutdown(self) -> None:
        """End all members and the helper. The crew can be used again."""
        with _lock:
            for member in (*self._hired, *self._idle):
                member._close()
            self._hired.clear()
            self._idle.clear()
            helper, self._helper = self._helper, None
            if helper is not None:
                helper.read_reports()  # it may have become ready
                if helper.death is None:
                    helper.stop()

    def _taken(self, members: Iterable[Member]) -> list[Member]:
        ours = [m for m in members if m in self._hired]
        self._hired.difference_update(ours)
        return ours

    def _drop_stale(self) -> None:
        """Close idle members that have left, may be about to leave, or hang."""
        now = time.monotonic()
        for member in list(self._idle):
            idle = now - member.idle_since
            hangs = member.busy and idle > HUNG
            if hangs or not member.alive or idle > self.idle_seconds:
                self._idle.remove(member)
                member._close()

    def _fork(self, n: int, hired: list[Member]) -> None:
        """Make the helper fork n members, a batch at a time, and add them to `hired`."""
        helper = self._ready_helper() if n > 0 else None
        for start in range(0, n, BATCH):
            assert helper is not None
            batch: list[Member] = []
            # Close the members' socket ends in this process: then only the member has its end open,
            # and end of file means that the member is gone.
            with contextlib.ExitStack() as theirs:
                try:
                    ends = [
                        theirs.enter_context(self._new_member(helper, batch))
                        for _ in range(min(BATCH, n - start))
                    ]
                    helper.request(batch, [end.fileno() for end in ends], self.idle_seconds)
                except BaseException:
                    for member in batch:
                        member._close()
                    raise
            self._hired.update(batch)
            hired += batch

    def _new_member(self, helper: _Helper, batch: list[Member]) -> socket.socket:
        ours, end = socket.socketpair()
        ours.setblocking(False)
        self._count += 1
        batch.append(Member(self._count, helper, ours))
        return end

    def _ready_helper(self) -> _Helper:
        """Return a helper that can serve the next request; start a new one if needed."""
        helper = self._helper
        if helper is not None:
            helper.read_reports()
            is_idle = time.monotonic() - helper.last_request > self.idle_seconds
            if helper.death is None and is_idle and not any(m.alive for m in self._of(helper)):
                helper.stop()  # an idle helper may leave while the request is on its way
            if helper.death is not None:
                helper = None
        if helper is None:
            helper = self._helper = _Helper()
        return helper

    def _of(self, helper: _Helper) -> list[Member]:
        return [m for m in (*self._hired, *self._idle) if m._helper is helper]

    def _abandon(self) -> None:
        # a child's copies of the sockets would hide the parent's death from the members
        for member in (*self._hired, *self._idle):
            member._close()
        if self._helper is not None:
            self._helper.abandon()


def current_crew() -> Crew:
    """Return the crew of this process, which all its threads share."""
    global _current
    with _lock:
        # after a fork that Python's hooks have not seen
        if _current is not None and _current.process != os.getpid():
            _current._abandon()
            _current = None
        if _current is None:
            _current = Crew()
        return _current


def reap() -> None:
    """Call `Crew.reap` on this process's crew, if it has one."""
    if _current is not None and _current.process == os.getpid():
        _current.reap()


def describe_exit(code: int) -> str:
    """Describe how a process ended.

    code : its exit code, as `subprocess` reports it
    """
    if code >= 0:
        return f"exit status {code}"
    with contextlib.suppress(ValueError):
        return f"signal {-code} ({signal.Signals(-code).name})"
    return f"signal {-code}"


def what_became(code: int) -> str:
    """Describe an exit as a phrase that follows a name: "worker 2 ..."."""
    return f"{'ended with' if code >= 0 else 'was killed by'} {describe_exit(code)}"


def _start(fd: int) -> subprocess.Popen[bytes]:
    """Start the helper without waiting for it.

    The helper gets: (1) the caller's module path (-P adds no entry before it); (2) a session of
    its own, which the terminal's signals do not reach; (3) one thread for the numerical libraries,
    because the crew has one process for each core, and a process that forks must have one thread.
    """
    own_path = os.environ.get("PYTHONPATH")
    environment = {
        # without the variables of a rank: a child that began MPI with them would replace the rank
        **{name: text for name, text in os.environ.items() if not name.startswith(OF_RANKS)},
        "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    command = [sys.executable, "-P", "-m", "hogshare.runtimes.fork_helper", str(fd)]
    command.append(",".join(preload.loaded()))
    if own_path is not None:
        command.append(own_path)
    return subprocess.Popen(
        command,
        pass_fds=[fd],
        stdin=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def _idle_seconds() -> float:
    text = os.environ.get("HOGSHARE_IDLE_SECONDS", "60")
    try:
        seconds = float(text)
        if not 0 <= seconds < 1e6:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"HOGSHARE_IDLE_SECONDS is {text!r}; set it to a number of seconds, at least 0."
        ) from None
    return seconds


def _duplicates(fds: Sequence[int]) -> list[int]:
    copies: list[int] = []
    try:
        for fd in fds:
            copies.append(os.dup(fd))
    except OSError:
        _close_all(copies)
        raise
    return copies


def _close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def forget_crew() -> None:
    """Forget the parent's crew in a forked child (`hogshare.system.forks`)."""
    global _current
    crew, _current = _current, None
    if crew is not None:
        crew._abandon()


def _at_exit() -> None:
    interpreter_exit.end_runs()  # before the members are gone
    if _current is not None and _current.process == os.getpid():
        _current.shutdown()


atexit.register(_at_exit)
