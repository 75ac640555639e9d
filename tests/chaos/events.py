"""What goes wrong in a case, or goes on beside it, by name."""

import contextlib
import dataclasses
import os
import signal
import threading
import time

import psutil
from beside import Beside, InJoblib, JoblibBeside
from crews import members
from disks import FullDisk, LostFolder
from event import REFUSALS, Event, Late

from hogshare import Mirrors
from hogshare.links import Link
from hogshare.planes.protocol import PlaneError
from hogshare.stragglers import ControlledDelay


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


class Signals(Late):
    """Signals come that the caller has a handler for, which changes nothing."""

    def __enter__(self):
        self.sent = self.came = 0
        self.before = signal.signal(signal.SIGUSR1, self._take)
        return super().__enter__()

    def _take(self, number, frame):
        self.came += 1

    def happen(self):
        for _ in range(self.rng.randint(1, 5)):
            self.sent += 1
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
            time.sleep(self.rng.uniform(0.0, 5e-3))

    def __exit__(self, *error):
        super().__exit__(*error)
        signal.signal(signal.SIGUSR1, self.before)
        assert min(1, self.sent) <= self.came <= self.sent, f"{self.came} of {self.sent} signals"


class Fork(Late):
    """A thread of the caller's forks; the child leaves at once."""

    def happen(self):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)


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
    "signals": Signals,
    "a fork": Fork,
    "fits beside": Beside,
    "in joblib": InJoblib,
    "joblib beside": JoblibBeside,
    "a lost folder": LostFolder,
    "a full disk": FullDisk,
    "late workers": SlowWorkers,
    "slow links": SlowLinks,
    "ctrl-c": CtrlC,  # entered last and left first: it may interrupt what is entered after it
}
