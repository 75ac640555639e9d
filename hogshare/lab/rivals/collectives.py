"""Plain descent over MPI ranks by collective calls, as in a script with mpi4py.

The method "all-reduce" sums the gradients of every rank's mini-batch in each step. In "local-sgd"
each rank takes local steps; at intervals all ranks continue from the mean of their models (Stich,
"Local SGD converges fast and communicates little", ICLR 2019). The gradients are the problem's own
compiled ones. The step size falls as one over the square root of the epoch. The first step size is
the best of a few, which are tried beforehand. With an emulated link, the seconds of a ring on this
link are added to the measured seconds of a call. No rank sleeps for them, because all ranks would
wait equally long.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hogshare.links.link import Link
from hogshare.links.traffic import Traffic
from hogshare.problems.protocol import Problem, by_gradient, has_rows
from hogshare.report import Report, Trace
from hogshare.solvers import outcome
from hogshare.system.interrupts import errstate

BATCH = 64  # rows of a rank in a step
STEPS_ALONE = {"all-reduce": 1, "local-sgd": 16}  # steps between two collective calls
STEPS = 1.0, 3.0, 10.0, 30.0, 100.0  # step sizes to try, in units of `first_step`
TRIAL_EPOCHS = 2


class Ran(NamedTuple):
    """A run: the models and seconds after each epoch, and the number of collective calls."""

    models: list[np.ndarray]
    seconds: list[float]
    waited: float
    calls: int


@dataclass
class CollectiveDescent:
    """A rank's part in the descents on one problem.

    runtime : runtime of a call by all ranks (`hogshare.runtimes.mpi.replicated_fit`)
    step : step size for a mean gradient; None: the default, from the problem's curvature
    """

    problem: Problem
    runtime: Any
    step: float | None
    _best: dict[str, float] = field(default_factory=dict)  # method -> best step size

    def run(self, name: str, epochs: int, seed: int, link: Link | None = None) -> Report:
        """Run a method, optionally with an emulated link between ranks; every rank must call it."""
        from hogshare.runtimes.mpi.rank_pool import RankPool

        call = self.runtime.call
        comm = RankPool(call.talk.comm, call.poll).copy_of_comm(call.agree)
        try:
            if name not in self._best:
                self._best[name] = self._tried(comm, name)
            ran = self._ran(comm, name, epochs, self._best[name], seed, self._seconds_by(link))
        finally:
            comm.Free()
        return self._report(name, ran)

    @property
    def first_step(self) -> float:
        """Return the default step size: one over the mean curvature of a row."""
        if self.step is not None or not has_rows(self.problem):
            return self.step or 0.01
        mean, _ = self.problem.norms
        return float(1.0 / (self.problem.sharpness * mean + self.problem.l2))

    def _tried(self, comm: Any, name: str) -> float:
        """Return the best of the step sizes, by the objective after two epochs."""
        found = []
        for times in STEPS:
            step = times * self.first_step
            end = self._objectives(self._ran(comm, name, TRIAL_EPOCHS, step, 0).models[-1:])[0]
            found.append((end if math.isfinite(end) else math.inf, step))
        return min(found)[1]

    def _seconds_by(self, link: Link | None) -> float:
        """Return the seconds of a collective call on a ring, around which each part goes twice."""
        if link is None:
            return 0.0
        _, size = self.runtime.place()
        n_bytes = self.problem.n_params * np.dtype(self.problem.dtype).itemsize
        return 2 * (size - 1) * link.seconds(n_bytes // size)

    def _ran(
        self, comm: Any, name: str, epochs: int, step: float, seed: int, by_link: float = 0.0
    ) -> Ran:
        problem, (rank, size) = self.problem, self.runtime.place()
        mine, alone = np.arange(rank, problem.n_rows, size), STEPS_ALONE[name]
        n_steps, draws = len(mine) // BATCH or 1, np.random.default_rng([seed, rank])
        n_steps = min(self.runtime.gathered(n_steps))  # all ranks must make equally many calls
        w = np.array(problem.start(), problem.dtype)
        slope, models, seconds = np.zeros_like(w), [w.copy()], [0.0]
        waited, calls = 0.0, 0
        gradient = problem.for_worker(rank) if by_gradient(problem) else problem.gradient

        def collected(numbers: np.ndarray) -> None:
            nonlocal waited, calls
            began = time.perf_counter()
            comm.Allreduce(_in_place(), numbers)
            waited += time.perf_counter() - began
            calls += 1
            numbers /= size

        with errstate(all="ignore"):
            for epoch in range(epochs):
                order, eta = draws.permutation(mine), step / math.sqrt(epoch + 1.0)
                before = calls
                comm.Barrier()  # a start in common: an epoch must not include earlier delays
                began = time.perf_counter()
                for k in range(n_steps):
                    rows = order[k * BATCH : (k + 1) * BATCH]
                    slope[:] = 0.0
                    gradient(w, rows, slope)
                    slope /= len(rows)
                    if alone == 1:
                        collected(slope)
                    w -= eta * slope
                    if alone > 1 and (k % alone == alone - 1 or k == n_steps - 1):
                        collected(w)
                spent = time.perf_counter() - began + (calls - before) * by_link
                seconds.append(seconds[-1] + spent)
                models.append(w.copy())
        return Ran(models, seconds, waited + calls * by_link, calls)

    def _objectives(self, models: list[np.ndarray]) -> list[float]:
        with errstate(all="ignore"):
            return [float(self.problem.objective_at(self.problem.model_at(w))) for w in models]

    def _report(self, name: str, ran: Ran) -> Report:
        _, size = self.runtime.place()
        epochs = np.arange(len(ran.models), dtype=np.float64)
        trace = Trace(epochs, epochs, np.array(ran.seconds), np.array(self._objectives(ran.models)))
        traffic, n_bytes = Traffic(), ran.models[0].nbytes
        kind = "gradient" if STEPS_ALONE[name] == 1 else "model"
        for rank in range(size):  # traffic of a ring
            messages = 2 * (size - 1) * ran.calls
            traffic.add(kind, rank, (rank + 1) % size, messages * n_bytes // size, messages)
        waited = self.runtime.gathered(ran.waited)
        return Report(
            model=self.problem.model_at(ran.models[-1]),
            settings={"rule": {"name": name}, "step": self._best[name], "n_workers": size},
            versions=outcome.versions(),
            machine=outcome.machine(),
            n_epochs=len(ran.models) - 1,
            trace=trace,
            workers=[{"worker": k, "waiting_seconds": one} for k, one in enumerate(waited)],
            seconds={"run": ran.seconds[-1]},
            traffic=traffic.as_dict(),
        )


def _in_place() -> Any:
    from hogshare.runtimes.mpi.door import library

    return library().IN_PLACE
