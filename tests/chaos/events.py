"""What goes wrong in a case: each is entered around its run, and may change its settings.

An event says in `may_raise` which errors are its own doing, and in `explains` whether one is.
"""

import contextlib
import dataclasses
import os
import shutil
import signal
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path

import psutil
from crews import members

from hogshare import Mirrors, StepSize, problems, solve
from hogshare.links import Link
from hogshare.planes.protocol import PlaneError
from hogshare.stragglers import ControlledDelay

MOMENTS = (2e-3, 1e-2, 5e-2, 0.3)  # seconds within which something happens; most runs are short
REFUSALS = (ValueError, TypeError)


class Event:
    """Nothing happens."""

    may_raise = REFUSALS

    def __init__(self, rng, settings):
        self.rng, self.settings = rng, settings

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def explains(self, error):
        """Whether an error is this event's doing."""
        return False


class Late(Event, ABC):
    """Something happens at some moment, in a thread beside the run."""

    def __enter__(self):
        self.over = threading.Event()
        seconds = self.rng.uniform(0.0, self.rng.choice(MOMENTS))
        self.thread = threading.Thread(target=self._wait, args=(seconds,), name="chaos")
        self.thread.start()
        return self

    def _wait(self, seconds):
        if not self.over.wait(seconds):
            self.happen()

    def __exit__(self, *error):
        self.over.set()
        self.thread.join()

    @abstractmethod
    def happen(self):
        """Do it."""


class Kill(Late):
    """A worker process is killed; in threads nobody is."""

    def happen(self):
        found = members()
        if found:
            with contextlib.suppress(psutil.NoSuchProcess):
                self.rng.choice(found).kill()


class Pause(Late):
    """All worker processes stand still for a while."""

    def happen(self):
        found = members()
        for signal_ in (signal.SIGSTOP, signal.SIGCONT):
            for one in found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.send_signal(signal_)
            time.sleep(0.2)


class CtrlC(Late):
    """The caller is interrupted."""

    may_raise = (KeyboardInterrupt, *REFUSALS)

    def happen(self):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def __exit__(self, *error):
        with contextlib.suppress(KeyboardInterrupt):  # it may come while this is left
            super().__exit__(*error)
            return
        super().__exit__(*error)

    def explains(self, error):
        return isinstance(error, KeyboardInterrupt)


class Fork(Late):
    """A thread of the caller's forks; the child leaves at once."""

    def happen(self):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)


class Beside(Event):
    """Another thread solves something of its own meanwhile."""

    def __enter__(self):
        self.found = []
        self.thread = threading.Thread(target=self._solve, name="chaos")
        self.thread.start()
        return self

    def _solve(self):
        import test_contract as contract

        problem = problems.linear(contract.X, contract.Y, alpha=0.01)
        run = {"n_workers": 2, "runtime": "threads", "stop": 3, "trace": 1, "seed": 0}
        self.found.append(solve(problem, step=StepSize("constant", 0.01), **run).objective)

    def __exit__(self, *error):
        self.thread.join()
        assert error[0] or 0.0 < self.found[0] < 0.7, self.found


class LostFolder(Late):
    """The folder of the checkpoints goes: a warning, and the run goes on."""

    may_raise = (FileNotFoundError, *REFUSALS)

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp())
        self.settings["checkpoint"] = self.folder / "run.npz"
        return super().__enter__()

    def happen(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def __exit__(self, *error):
        super().__exit__(*error)
        self.happen()

    def explains(self, error):
        return isinstance(error, FileNotFoundError)  # it had gone before the run began


class SlowWorkers(Event):
    """Some workers are late in every block."""

    def __enter__(self):
        self.settings["stragglers"] = ControlledDelay(base=1e-3, delay=3.0)
        return self

    def explains(self, error):
        return "stragglers" in str(error) or "Simulator" in str(error)


class SlowLinks(Event):
    """Centres are far from each other, and for a while farther still."""

    may_raise = (PlaneError, *REFUSALS)

    def __enter__(self):
        if isinstance(self.settings["plane"], Mirrors):
            down = self.rng.uniform(0.0, 0.2)
            link = Link(5e-3, 1e6, outages=[(down, down + 0.3)])
            plane = self.settings["plane"]
            self.settings["plane"] = dataclasses.replace(plane, links=[[link] * 2] * 2)
        return self


EVENTS = {
    "nothing": Event,
    "a kill": Kill,
    "a pause": Pause,
    "ctrl-c": CtrlC,
    "a fork": Fork,
    "a fit beside": Beside,
    "a lost folder": LostFolder,
    "late workers": SlowWorkers,
    "slow links": SlowLinks,
}
