"""Fits beside the run: in threads, in workers of joblib's, and the run itself in one of those."""

import threading

import contract
import joblib
import numpy as np
from event import Event

from hogshare import SGDClassifier, StepSize, problems, solve

RUNTIMES = ("threads", "processes", "simulator")
MOST = 3  # fits beside
ALL_ZERO = np.log(2.0)  # the objective of the start


def solved(runtime):
    """A small run of its own: the objective that it comes to."""
    problem = problems.linear(contract.X, contract.Y, alpha=0.01)
    run = {"n_workers": 2, "runtime": runtime, "stop": 3, "trace": 1, "seed": 0}
    return solve(problem, step=StepSize("constant", 0.01), **run).objective


def fitted(runtime):
    """A small fit of two workers, as joblib's own workers make one: the same number of it."""
    model = SGDClassifier(loss="log_loss", alpha=0.01, n_jobs=2, runtime=runtime, random_state=0)
    chances = model.fit(contract.X, contract.Y).predict_proba(contract.X)
    return -np.log(np.maximum(chances[np.arange(len(contract.Y)), contract.Y], 1e-9)).mean()


class Beside(Event):
    """Other threads solve something of their own meanwhile."""

    def __enter__(self):
        self.found, self.errors = [], []
        runtimes = [self.rng.choice(RUNTIMES) for _ in range(self.rng.randint(1, MOST))]
        self.threads = [
            threading.Thread(target=self._work, args=(runtime,), name="chaos")
            for runtime in runtimes
        ]
        for thread in self.threads:
            thread.start()
        return self

    def _work(self, runtime):
        try:
            self.found += self.work(runtime)
        except BaseException as error:
            self.errors.append(error)

    def work(self, runtime):
        """What a thread does: the objectives that come of it."""
        return [solved(runtime)]

    def __exit__(self, *error):
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]
        assert all(0.0 < found < ALL_ZERO for found in self.found), self.found


class JoblibBeside(Beside):
    """Processes of joblib's fit meanwhile, and each fit has workers of its own."""

    def work(self, runtime):
        if self.threads[0] is not threading.current_thread():
            return [solved(runtime)]  # joblib has one pool of processes
        kind = self.rng.choice(("threads", "processes"))
        return joblib.Parallel(n_jobs=2, backend="loky")(
            joblib.delayed(fitted)(kind) for _ in range(2)
        )


class InJoblib(Event):
    """A thread of joblib's runs the case, among others that fit."""

    def __enter__(self):
        self.is_over = threading.Event()
        self.is_over.set()
        return self

    def _noted(self, run):
        self.is_over.clear()
        try:
            return run()
        finally:
            self.is_over.set()

    def __exit__(self, *error):
        self.is_over.wait()  # an interrupt ends the call of joblib's, and not what its threads do

    def call(self, run):
        others = [self.rng.choice(("threads", "processes")) for _ in range(self.rng.randint(1, 3))]
        calls = [
            joblib.delayed(self._noted)(run),
            *(joblib.delayed(fitted)(kind) for kind in others),
        ]
        report, *found = joblib.Parallel(n_jobs=2, backend="threading")(calls)
        assert all(0.0 < one < ALL_ZERO for one in found), found
        return report
