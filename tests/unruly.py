"""Contestants that crash or hang: in a module, because a process imports them by their names."""

import ctypes
import os
import signal
import tempfile

import numpy as np
import threadpoolctl

from hogshare.lab.rivals.contestant import Contestant


class Quiet(Contestant):
    """Returns a model that is a little better than zeros, in a moment."""

    name = "quiet"
    library = "hogshare"

    def ladder(self):
        return (1, 2, 3)

    def prepare(self, X, y):
        return X, y, float(abs(X).max())

    def fit(self, prepared, setting, budget, seed):
        X, y, _ = prepared
        return 1e-3 * np.asarray(X.T @ y) / len(y)

    def model(self, fitted):
        return fitted


class Crashing(Quiet):
    """Reads address 0."""

    name = "crashing"

    def fit(self, prepared, setting, budget, seed):
        return ctypes.string_at(0)


class Leaving(Quiet):
    """Ends its process, as a library that calls exit does."""

    name = "leaving"

    def prepare(self, X, y):
        os._exit(3)


class SometimesCrashing(Quiet):
    """Has a setting that crashes."""

    name = "sometimes crashing"

    def grid(self):
        return [{"bad": False}, {"bad": True}, {"bad": False}]

    def fit(self, prepared, setting, budget, seed):
        if setting["bad"]:
            os.kill(os.getpid(), signal.SIGABRT)
        return super().fit(prepared, setting, budget, seed)


class Hanging(Quiet):
    """Never returns from a fit, but from the first."""

    name = "hanging"
    fits = 0

    def fit(self, prepared, setting, budget, seed):
        self.fits += 1
        while self.fits > 1:
            signal.pause()
        return super().fit(prepared, setting, budget, seed)


class HangingAtOnce(Quiet):
    """Never returns from a fit."""

    name = "hanging at once"

    def fit(self, prepared, setting, budget, seed):
        while True:
            signal.pause()


class Telling(HangingAtOnce):
    """Opens a FIFO, has a child that holds it open too, and never returns."""

    name = "telling"

    def fit(self, prepared, setting, budget, seed):
        fifo = os.open(os.environ["HOGSHARE_TEST_FIFO"], os.O_WRONLY)
        if os.environ["HOGSHARE_TEST_CHILD"] == "0" or os.fork():
            os.write(fifo, b"x")
        super().fit(prepared, setting, budget, seed)


class Forgetful(Quiet):
    """Leaves a file in the temporary folder, whose path is its error message."""

    name = "forgetful"

    def fit(self, prepared, setting, budget, seed):
        raise RuntimeError(tempfile.mkstemp()[1])


class Limited(Quiet):
    """Its model says how many threads it may have."""

    name = "limited"

    def fit(self, prepared, setting, budget, seed):
        return np.array([pool["num_threads"] for pool in threadpoolctl.threadpool_info()])
