"""The process that forks the crew's members, and a member's own loop.

::

    caller  --- control (SEQPACKET) --->  helper     "fork these members", their socket ends
            <-- control ---------------- "ready", then (member, pid, wait status)
    caller  <== a stream per member ==>  member      frames, see `encode`

The helper imports the kernels once and then forks, so a member is up in milliseconds. The helper
has one thread whenever it forks. It never imports the user's ``__main__``. It ignores Ctrl-C, which
the caller handles.

Ownership. The caller makes each member's socket pair before the member exists, and so never waits
for the helper. The helper owns the member's end of the pair only until it has forked the member;
after that only the member has this end. So end of file means death in both directions. If the
caller is gone, a member leaves at once, even in the middle of a task. A member does not need the
helper, and may outlive it. Only the helper reaps members. The helper leaves when the caller leaves,
or when it has had no member for as long as members may be idle.

Frames contain pickles. It is safe to unpickle them: the processes at both ends of a socket belong
to the same user and were started by the caller, and no other process can connect to an unnamed
socket pair.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

# caller -> member
TASK = b"t"  # ("module:function", kwargs), with descriptors
IDLE = b"i"  # seconds: leave if no frame comes for so long
HIRED = b"h"  # None: wait for a task without limit
# member -> caller
UP = b"u"  # process id
MESSAGE = b"m"  # an object sent by the task
ENDED = b"e"  # None: the task returned
FAILED = b"f"  # (one line, traceback): it raised

HEADER = struct.Struct("=cHQ")  # kind, number of descriptors, bytes that follow
MAX_FDS = 253  # the kernel's limit for one message
GRACE = 2.0  # seconds that an idle process stays beyond its limit: the caller may be hiring it
EXIT_GRACE = 1.0  # seconds that members have to leave after the caller

MEMBERS_WORK = "hogshare.runtimes.processes"  # by name: that module imports this one

HANG_UP = getattr(select, "POLLRDHUP", 0) | getattr(select, "POLLHUP", 0)


def encode(kind: bytes, content: Any, n_fds: int = 0) -> bytes:
    """Return one frame: a header and a pickle."""
    body = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(kind, n_fds, len(body)) + body


class Frames:
    """A stream of bytes, cut into frames; iterating removes and yields the complete frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._bytes += data

    def __iter__(self) -> Iterator[tuple[bytes, int, bytes]]:
        while len(self._bytes) >= HEADER.size:
            kind, n_fds, length = HEADER.unpack_from(self._bytes)
            end = HEADER.size + length
            if len(self._bytes) < end:
                return
            body = bytes(memoryview(self._bytes)[HEADER.size : end])
            del self._bytes[:end]
            yield kind, n_fds, body


class TaskChannel:
    """A task's connection to its caller."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._frames = Frames()
        self._fds: list[int] = []
        self._lock = threading.Lock()

    def send(self, message: Any) -> None:
        """Post a picklable object to the caller, from any thread.

        If the socket is full because the caller does not poll, wait. If the caller is gone, end
        this process.
        """
        self.post(MESSAGE, message)

    def post(self, kind: bytes, content: Any) -> None:
        """Send a frame."""
        data = encode(kind, content)
        try:
            with self._lock:
                self._sock.sendall(data)
        except OSError:
            leave(0)

    def receive(self, timeout: float | None) -> tuple[bytes, bytes, list[int]] | None:
        """Return the next frame's kind, pickle and descriptors.

        Return None after the timeout, or if the caller is gone.
        """
        while True:
            for kind, n_fds, body in self._frames:
                fds, self._fds = self._fds[:n_fds], self._fds[n_fds:]
                return kind, body, fds
            if not select_readable(self._sock, timeout):
                return None
            try:
                data, fds, _, _ = socket.recv_fds(
                    self._sock, 1 << 16, MAX_FDS, socket.MSG_CMSG_CLOEXEC
                )
            except OSError:
                return None
            if not data:
                return None
            self._frames.feed(data)
            self._fds += fds


def select_readable(sock: Any, timeout: float | None) -> bool:
    """Wait until a socket, or an object with a `fileno`, has data to read.

    timeout : largest waiting time in seconds; if None, no limit
    """
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return bool(poller.poll(None if timeout is None else 1000 * timeout))


def leave(status: int) -> NoReturn:
    """End this process now, without the interpreter's clean-up: the helper does that."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status)


def leave_when_hung_up(sock: socket.socket, cancel: socket.socket | None = None) -> None:
    """End this process as soon as the other end is closed; return when `cancel` has data.

    Kernels release the GIL, so a thread in this function runs while they work.
    """
    poller = select.poll()
    poller.register(sock, HANG_UP)
    if cancel is not None:
        poller.register(cancel, select.POLLIN)
    ready = {fd for fd, _ in poller.poll()}
    if sock.fileno() in ready:
        os._exit(0)  # not leave(): the working thread may have taken a stream's lock


def member(sock: socket.socket) -> None:
    """Run tasks until the caller is gone, or this member has been idle for too long."""
    channel = TaskChannel(sock)
    threading.Thread(target=leave_when_hung_up, args=(sock,), daemon=True).start()
    channel.post(UP, os.getpid())
    timeout: float | None = None
    while (frame := channel.receive(timeout)) is not None:
        kind, body, fds = frame
        if kind == TASK:
            channel.post(*_run(channel, body, fds))
            gc.collect()  # a cycle must not retain the task's arena; all older objects are frozen
        else:
            timeout = pickle.loads(body) + GRACE if kind == IDLE else None


def _run(channel: TaskChannel, body: bytes, fds: list[int]) -> tuple[bytes, Any]:
    try:
        name, kwargs = pickle.loads(body)
        module, _, function = name.partition(":")
        getattr(importlib.import_module(module), function)(channel, fds, **kwargs)
    except BaseException as error:  # SystemExit too: a task must not end its member
        return FAILED, (f"{type(error).__name__}: {error}", traceback.format_exc())
    finally:
        for fd in fds:
            with contextlib.suppress(OSError):
                os.close(fd)
    return ENDED, None


class ForkServer:
    """The forking loop."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, int] = {}  # process id -> member
        self._idle = 60.0
        self._wake, self._wake_end = socket.socketpair()
        for end in (self._wake, self._wake_end):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake_end.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Fork and reap until the caller closes its end, or the helper is idle for too long."""
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        self._report("ready")
        while True:
            wait = None if self._children else 1000 * (self._idle + GRACE)
            ready = {fd for fd, _ in poller.poll(wait)}
            if not ready and not self._children:
                return
            if self._wake.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    self._wake.recv(1 << 12)
            self._reap()
            if self._control.fileno() in ready and not self._serve_request():
                return

    def bury(self) -> None:
        """Reap the members, which leave with the caller; kill members that cannot leave."""
        deadline = time.monotonic() + EXIT_GRACE
        while self._children and (seconds := deadline - time.monotonic()) > 0:
            select_readable(self._wake, seconds)
            with contextlib.suppress(BlockingIOError):
                self._wake.recv(1 << 12)
            self._reap()
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _serve_request(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(
                self._control, 1 << 18, MAX_FDS, socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            return False
        if not data:
            return False
        members, path, self._idle = pickle.loads(data)
        ends = [socket.socket(fileno=fd) for fd in fds]
        for number, end in zip(members, ends, strict=True):
            self._fork(number, end, ends, path)
        for end in ends:
            end.close()
        return True

    def _fork(
        self, number: int, end: socket.socket, ends: Sequence[socket.socket], path: list[str]
    ) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            self._report((number, None, error.strerror or str(error)))
            return
        if pid:
            self._children[pid] = number
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # an open copy of another member's socket end would hide that member's death
            for sock in (self._control, self._wake, self._wake_end, *ends):
                if sock is not end:
                    sock.close()
            sys.path[:] = path
            _name_process("hogshare-member")
            member(end)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            leave(status)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                number = self._children.pop(pid, None)
                if number is not None:
                    self._report((number, pid, os.waitstatus_to_exitcode(status)))

    def _report(self, what: Any) -> None:
        # Never wait for the caller: if it reads no reports it misses them, but may send requests.
        with contextlib.suppress(OSError):
            self._control.send(pickle.dumps(what), socket.MSG_DONTWAIT)


def _name_process(name: str) -> None:
    """Set the name that process lists show; at most 15 characters."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as file:
        file.write(name)


@contextlib.contextmanager
def _guarded(control: socket.socket) -> Iterator[None]:
    """Leave as soon as the caller does, even in the middle of the imports of the with block."""
    stop, stop_end = socket.socketpair()
    with stop, stop_end:
        guard = threading.Thread(target=leave_when_hung_up, args=(control, stop), daemon=True)
        guard.start()
        yield
        stop_end.send(b"x")
        guard.join()  # from now on this process has one thread, and may fork


def _preload(kernels: Sequence[str]) -> None:
    """Import the members' modules once for all members, and load the named kernels.

    If `kernels` is empty, nothing is imported: a caller that has compiled no kernel has no run for
    members yet. (With the JIT off the caller never compiles a kernel. Each member then imports the
    modules by itself.)
    """
    if not kernels:
        return
    # A failing import fails again in the task that needs it, which reports it.
    with contextlib.suppress(Exception):
        importlib.import_module(MEMBERS_WORK)
        importlib.import_module("hogshare.kernels.preload").preload(kernels)


def main(arguments: Sequence[str]) -> None:
    """Serve the caller's requests until it leaves.

    arguments : three strings: the descriptor number of the control socket; the names of the kernels
        to load, separated by commas; the value of PYTHONPATH for the members
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # may be inherited from the caller's thread
    # this process was started with the caller's sys.path: give members the user's own PYTHONPATH
    os.environ.pop("PYTHONPATH", None)
    if len(arguments) > 2:
        os.environ["PYTHONPATH"] = arguments[2]
    if sys.stderr is not None:
        faulthandler.enable()
    _name_process("hogshare-helper")
    control = socket.socket(fileno=int(arguments[0]))
    control.set_inheritable(False)
    with _guarded(control):
        _preload(arguments[1].split(",") if arguments[1] else [])
    gc.collect()
    # garbage collection in members then never writes to these objects' pages, which stay shared
    gc.freeze()
    helper = ForkServer(control)
    helper.serve()
    control.close()
    helper.bury()
    leave(0)


if __name__ == "__main__":
    # by its real name: otherwise members would have two copies of this module
    importlib.import_module("hogshare.runtimes.fork_helper").main(sys.argv[1:])
