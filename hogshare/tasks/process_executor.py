"""Tasks in processes of the crew, each with a socket of its own to the caller.

::

    caller  -- Order: task, parcels, values -->  member      `hogshare.tasks.worker_process`
            <-- Outcome -----------------------

A member is a process of the crew. Writers and readers: the caller and one member write and read
each socket. Freeing: the caller makes each socket pair, and closes its copy of the member's end
once the member has that end. After this, end of file at the caller means that the member is dead. A
parcel (a packed object) has shared memory, which is made when the first worker needs the object.
This memory lives until the `Shelf`, the store of the caller's objects, has dropped the object and
no worker maps the memory. A member belongs to this executor until the executor releases it (if it
has no task) or dismisses it (if it has a task). Another member replaces a dead worker under the
same number, unless the worker has died `VAIN_STARTS` times in a row without a task. If a task kills
all its workers, the last retry ends in an error that names the task.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from hogshare.runtimes.crew import Member, TaskFailed, current_crew
from hogshare.runtimes.events import News
from hogshare.runtimes.fork_helper import select_readable
from hogshare.runtimes.user_objects import Parcel
from hogshare.system.callers import users_line
from hogshare.system.interrupts import DeferredSignals
from hogshare.tasks import wire
from hogshare.tasks.executor import Event, Joined, Lost, Remote, unreadable
from hogshare.tasks.store import Shelf
from hogshare.tasks.work import Key, Task

START_SECONDS = 60.0  # limit for a process to start on a busy machine
VAIN_STARTS = 3  # deaths in a row without a task, after which a worker is not replaced
GRACE_SECONDS = 0.1  # how long closing waits for tasks to end
CAPACITY = 1 << 22  # bytes of a socket's queue, if the system allows it: sends then never wait


@dataclass
class _Worker:
    member: Member
    sock: socket.socket
    task: int | None = None
    vain: int = 0  # deaths in a row under this number, without a task

    def __del__(self) -> None:
        self.sock.close()  # if a context is dropped without `close`, the member ends too


class ProcessExecutor(Remote):
    """The executor of processes."""

    name = "processes"

    def __init__(self, shelf: Shelf, n_workers: int) -> None:
        super().__init__(shelf)
        self._workers: dict[int, _Worker] = {}
        self._news: list[Event] = []
        self._poller: select.poll | None = None  # for all sockets; None: the sockets have changed
        self._whose: dict[int, int] = {}
        self._signals = News()  # set by a signal that ends a wait
        with DeferredSignals():
            for worker, member in enumerate(current_crew().hire(n_workers)):
                self._workers[worker] = self._engaged(worker, member)
            for one in self._workers.values():  # now: no task must wait for a process to start
                self._wait_until_up(one)

    @property
    def workers(self) -> Sequence[int]:
        return sorted(self._workers)

    def pid(self, worker: int) -> int:
        """Return the process id of a worker; wait until the worker is up."""
        self._wait_until_up(self._workers[worker])
        found = self._workers[worker].member.pid
        if found is None:
            raise RuntimeError(f"worker {worker} is gone: it has no process id.")
        return found

    def submit(self, worker: int, task: Task) -> None:
        target = self._workers[worker]
        self._pack(task.needs)
        with DeferredSignals():
            self._wait_until_up(target)
            order = self._order(worker, task, self._sent.missing(worker, task.needs))
            arenas = [parcel.arena for parcel in order.parcels.values()]
            target.task = task.number
            with contextlib.suppress(OSError):  # the member is gone: `poll` reports it
                wire.send(target.sock, order, [one.fileno() for one in arenas if one is not None])

    def _parcel(self, key: Key) -> Parcel:
        return Parcel.of("function", self._shelf.things[key], remedy=self.remedy)

    def poll(self, seconds: float | None) -> list[Event]:
        busy = any(one.task is not None for one in self._workers.values())
        deadline = None if seconds is None else time.monotonic() + seconds
        with DeferredSignals(self._signals) as deferred:
            while True:
                left = 0.0 if deadline is None else max(0.0, deadline - time.monotonic())
                wait = bool(busy and not self._news and seconds != 0.0)
                self._signals.clear()
                deferred.deliver()  # signals that came before this block do not set its bell
                for worker in self._ready(wait, None if deadline is None else left):
                    self._read(worker)
                if self._news or not wait or (deadline is not None and left == 0.0):
                    found, self._news = self._news, []
                    return found

    def _ready(self, wait: bool, seconds: float | None) -> set[int]:
        if self._poller is None:
            self._poller, self._whose = select.poll(), {}
            self._poller.register(self._signals.fileno(), select.POLLIN)
            for worker, one in self._workers.items():
                for fd in (one.sock.fileno(), one.member.fileno()):
                    self._poller.register(fd, select.POLLIN)
                    self._whose[fd] = worker
        milliseconds = 0.0 if not wait else None if seconds is None else 1e3 * seconds
        return {self._whose[fd] for fd, _ in self._poller.poll(milliseconds) if fd in self._whose}

    def _read(self, worker: int) -> None:
        target = self._workers[worker]
        failed = [m for m in target.member.poll() if isinstance(m, TaskFailed)]
        if failed:
            self._lose(worker, f"has failed: {failed[0].summary}")
            return
        if not select_readable(target.sock, 0.0):
            if not target.member.alive:
                self._lose(worker, target.member.death or "is gone")
            return
        try:
            outcome, _ = wire.receive(target.sock)
        except (EOFError, OSError):
            target.member.poll()
            deadline = time.monotonic() + 1.0
            while target.member.alive and time.monotonic() < deadline:
                time.sleep(0.001)  # its two sockets reach end of file one after another
                target.member.poll()
            self._lose(worker, target.member.death or "is gone")
            return
        except wire.Unreadable as error:
            assert target.task is not None
            outcome = unreadable(target.task, error.__cause__)
        target.task, target.vain = None, 0
        self._news.append(self._back(worker, outcome))

    def _lose(self, worker: int, why: str) -> None:
        """Report that a worker is gone, and replace it."""
        gone = self._workers.pop(worker)
        self._sent.end(worker)
        self._poller = None
        gone.sock.close()
        current_crew().dismiss([gone.member])  # after a bad answer its process may still live
        self._news.append(Lost(worker, why, () if gone.task is None else (gone.task,)))
        in_task = gone.task is not None and gone.member.pid is not None
        vain = 0 if in_task else gone.vain + 1
        if vain >= VAIN_STARTS:
            warnings.warn(
                f"worker {worker} {why}: {vain} times in a row its process has ended without a "
                "task, so it is no longer replaced",
                RuntimeWarning,
                stacklevel=users_line(),
            )
            return
        (member,) = current_crew().hire(1)
        self._workers[worker] = self._engaged(worker, member)
        self._workers[worker].vain = vain
        self._news.append(Joined(worker))

    def _engaged(self, worker: int, member: Member) -> _Worker:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, CAPACITY)
        with theirs:  # closes this copy, or end of file would never come
            member.post(("hogshare.tasks.worker_process:serve", {}), [theirs.fileno()])
        self._sent.begin(worker)
        self._poller = None
        return _Worker(member, ours)

    def _wait_until_up(self, target: _Worker) -> None:
        """Poll a worker's process until it is up; the process receives its socket after that."""
        deadline = time.monotonic() + START_SECONDS
        while target.member.pid is None and target.member.alive and time.monotonic() < deadline:
            select_readable(target.member, 0.1)
            target.member.poll()

    def _let_end(self) -> None:
        """Give tasks a moment to end, because a member dismissed during a task must be replaced."""
        end = time.monotonic() + GRACE_SECONDS
        while any(one.task is not None for one in self._workers.values()):
            left = end - time.monotonic()
            if left <= 0.0:
                return
            self.poll(left)

    def close(self) -> None:
        with DeferredSignals():
            self._let_end()
            crew, members = current_crew(), list(self._workers.values())
            for one in members:
                one.sock.close()
            crew.dismiss([one.member for one in members if one.task is not None])
            crew.release([one.member for one in members if one.task is None])
            self._workers.clear()
            self._parcels.clear()
            self._poller = None
