"""Lanes: a lane runs one contestant, in this process or in a separate process.

A separate process may crash or hang without harm. `race` makes a lane for each contestant, and
closes it. The lane's process owns the rows in the library's own format. It receives requests, one
at a time, over a socket pair that it shares only with this process. End of file on the socket means
that the other process has died. The lane's process leads its own session: a terminal's Ctrl-C does
not reach it, and its child processes end with it. The operating system ends it together with the
thread that started it. Its temporary files are in a folder that this process removes.

Pickles are safe on that socket, because both ends are processes of the same user, and the socket
has no name.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hogshare.lab.rivals.contestant import Kind, RaceTask, Setting
from hogshare.runtimes.crew import describe_exit
from hogshare.runtimes.forked_call import end_with_parent

READY_SECONDS = 600.0  # limit for preparing rows, and for a first fit, which may compile
CLOSE_SECONDS = 2.0


class Died(RuntimeError):
    """The process of a lane ended by itself."""


class Overdue(RuntimeError):
    """The process of a lane was ended because it took too long."""


class Lane:
    """A contestant in this process; it cannot be stopped, and its crash ends the race."""

    def __init__(self, kind: Kind, task: RaceTask) -> None:
        self._contestant = kind(task)
        self._workers = task.workers
        self._prepared: Any = None

    def prepare(self, X: Any, y: Any) -> float:
        """Convert rows and labels to the library's format; return the seconds that this takes."""
        begin = time.perf_counter()
        self._prepared = self._contestant.prepare(X, y)
        return time.perf_counter() - begin

    def fit(self, setting: Setting, budget: float, seed: int) -> tuple[float, Any]:
        """Fit once; return the seconds that `Contestant.fit` took, and the model."""
        # set at every fit, because a library that is loaded late has its own thread pool
        with threadpool_limits(self._workers):
            begin = time.perf_counter()
            fitted = self._contestant.fit(self._prepared, setting, budget, seed)
            seconds = time.perf_counter() - begin
        return seconds, self._contestant.model(fitted)

    def close(self) -> None:
        """Free the prepared data."""
        if self._prepared is not None:
            self._contestant.close(self._prepared)
            self._prepared = None

    def abandon(self) -> None:
        """Do nothing after a failure: this lane has no process to kill."""
        self.close()


class ProcessLane:
    """A contestant in a separate process.

    If the process dies, the next fit starts a new process, prepares the rows again and repeats the
    first successful fit. This restart is not timed.

    Parameters
    ----------
    kind : Contestant class, or a variant of one
        The contestant. Its class must be importable by name, so it cannot be defined in
        ``__main__`` or in a function.
    task : Task
        The facts that the contestant gets.
    limit : float
        Seconds that a fit may take. The preparation and the first fit may take `READY_SECONDS`.
    """

    def __init__(self, kind: Kind, task: RaceTask, limit: float) -> None:
        self._kind, self._task, self._limit = kind, task, limit
        self._rows: tuple[Any, Any] | None = None
        self._warm_up: tuple[Setting, float, int] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def prepare(self, X: Any, y: Any) -> float:
        """Start the process and send it the rows; return the seconds of their preparation.

        An error of the contestant is raised here as ImportError or RuntimeError with its message.
        If the process is lost without an error, `Died` or `Overdue` is raised.
        """
        self._rows = X, y
        try:
            self._start()
            return float(self._ask((self._kind, self._task, X, y), READY_SECONDS))
        except BaseException:
            self.abandon()
            raise

    def fit(self, setting: Setting, budget: float, seed: int) -> tuple[float, Any]:
        """Fit once; return the seconds that `Contestant.fit` took, and the model.

        Errors are those of `prepare`.
        """
        if self._process is None:
            assert self._rows is not None
            self.prepare(*self._rows)
            if self._warm_up is not None:
                self._ask(self._warm_up, READY_SECONDS)
        patience = READY_SECONDS if self._warm_up is None else self._limit
        fitted: tuple[float, Any] = self._ask((setting, budget, seed), patience)
        self._warm_up = self._warm_up or (setting, budget, seed)
        return fitted

    def close(self) -> None:
        """Let the process free its resources and end."""
        if self._process is None or self._pipe is None:
            return
        self._pipe.close()
        self._signal(signal.SIGCONT)  # a stopped process would not see the end of file
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.abandon()
        self._forget()

    def abandon(self) -> int:
        """End the process and its child processes at once; return its exit code."""
        code = 0
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                # the process has not been waited for yet, so its id still names its group
                os.killpg(self._process.pid, signal.SIGKILL)
            code = self._process.wait()
        self._forget()
        return code

    def _signal(self, number: int) -> None:
        if self._process is not None:
            os.kill(self._process.pid, number)  # Popen.send_signal would reap a dead process

    def _forget(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._folder is not None:
            self._folder.cleanup()
        self._process = self._pipe = self._folder = None

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="hogshare-race-", ignore_cleanup_errors=True
        )
        self._pipe, theirs = Pipe()
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path),
            "TMPDIR": self._folder.name,
        }
        with theirs:
            self._process = subprocess.Popen(
                # -P: the current folder must not shadow modules
                [sys.executable, "-P", "-m", "hogshare.lab.rivals.lanes", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # libraries' output must not mix with this command's
                env=environment,
                start_new_session=True,
            )

    def _ask(self, request: Any, patience: float) -> Any:
        """Send a request and return the answer; if the process dies, the lane has none afterwards.

        patience : seconds to wait for the answer
        """
        assert self._pipe is not None
        try:
            self._signal(signal.SIGCONT)
            self._pipe.send(request)
            if not self._pipe.poll(patience):
                self.abandon()
                raise Overdue(f"took longer than {patience:g} s and was ended")
            answer, failure = self._pipe.recv()
            # threads of OpenMP and OpenBLAS spin for up to 50 ms after a fit (measured with
            # scikit-learn's lbfgs) and would slow the next contestant: stop them between requests.
            # Only on Linux does the kernel end a stopped process with its parent
            if sys.platform == "linux":
                self._signal(signal.SIGSTOP)
        except (EOFError, OSError):
            code = self.abandon()
            how = "died of" if code < 0 else "left with"
            raise Died(f"{how} {describe_exit(code)}") from None
        if failure is not None:
            raise failure
        return answer


def main(fd: int) -> None:
    """Serve requests until the other end of socket `fd` is closed: first the rows, then fits."""
    end_with_parent()
    pipe = Connection(fd)
    # the objective shows whether a contestant has converged
    warnings.simplefilter("ignore")
    lane: Lane | None = None
    with np.errstate(all="ignore"):
        while True:
            answer: Any = None
            failure: Exception | None = None
            try:
                request = pipe.recv()
                if lane is None:
                    kind, task, X, y = request
                    made = Lane(kind, task)
                    answer = made.prepare(X, y)
                    lane = made  # only now: a failed preparation must not be fitted
                    del X, y
                else:
                    answer = lane.fit(*request)
                del request
            except (EOFError, ConnectionResetError):
                break
            except ImportError as error:
                failure = ImportError(str(error))
            except Exception as error:  # of any library, and perhaps not picklable
                failure = RuntimeError(str(error) or type(error).__name__)
            try:
                pipe.send((answer, failure))
            except BrokenPipeError:
                break
    if lane is not None:
        lane.close()


if __name__ == "__main__":
    # import by the real name: `__main__` would be a second copy of this module
    from hogshare.lab.rivals import lanes

    lanes.main(int(sys.argv[1]))
