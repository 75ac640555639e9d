"""Ranks of MPI against threads and processes, and against gradients summed over all ranks.

Log loss, l2, alpha = 1/n, float32; time to a relative sub-optimality by the run's own trace,
alternating contestants, medians over rounds. Every rank has one worker; ranks that a contestant
does not use sleep. "messages" are ranks that share no memory (``MPI(arena=False)``), with the
messages that they have sent per epoch. "all-reduce" is the plain rival: mini-batches of each rank's
rows by SciPy, gradients summed by ``MPI_Allreduce``, the best step of a grid. Usage::

    mpiexec -n 2 python -m mpi4py bench/ranks.py --json bench/results/ranks.json
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import script
from mpi4py import MPI as library
from scaling import load
from scipy.special import expit

from hogshare import MPI, SGD, Stop, problems, solve
from hogshare.lab.harness.settings import Setting
from hogshare.rules.automatic_rule import automatic_rule
from hogshare.solvers import outcome

COMM = library.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
NAP_SECONDS = 1e-3
BATCH = 64  # rows of a rank in a step of the rival
STEPS = (0.3, 1.0, 3.0, 10.0)  # of the rival; each falls as 1 / sqrt(epochs)

Found = dict[str, float]  # seconds to each target, and what else is told


def meet() -> None:
    """Wait for all ranks, asleep: a rank that spins would take a core from those that work."""
    request = COMM.Ibarrier()
    while not request.Test():
        time.sleep(NAP_SECONDS)


class Race:
    """One set, and how low its objective is.

    Parameters
    ----------
    name : str
    data_home : str or None
    targets : sequence of float
        Relative sub-optimality.
    epochs : int
        Most that a run takes.
    rule : {"auto", "sgd"}
    """

    def __init__(
        self, name: str, data_home: str | None, targets: Sequence[float], epochs: int, rule: str
    ) -> None:
        X, y = load(name, data_home)
        self.X, self.y = X.astype(np.float32), y
        self.targets, self.epochs = targets, epochs
        self.settings = {"alpha": 1.0 / X.shape[0], "fit_intercept": False}
        self.whole = problems.linear(self.X, y, **self.settings)
        mine = np.arange(RANK, len(y), SIZE)
        self.mine = self.X[mine], np.where(y[mine] == self.whole.classes[1], 1.0, -1.0)
        self.part = problems.linear(self.X[mine], y[mine], **self.settings)
        self.rule = SGD() if rule == "sgd" else automatic_rule(self.whole)
        precise = problems.linear(X.astype(np.float64), y, **self.settings)
        stop = Stop(epochs=300, gradient=0.01 * min(targets))
        best = solve(precise, rule=automatic_rule(precise), stop=stop, seed=0, runtime="caller")
        self.best = precise.objective(best.model.coef, best.model.intercept)

    def ours(self, problem: Any, seed: int, **plan: Any) -> Found:
        """A run of ours."""
        run = {"rule": self.rule, "stop": self.epochs, "seed": seed, "trace": 1, **plan}
        report = solve(problem, **run)
        trace = report.trace
        found = {f"s to {t:g}": trace.first((1.0 + t) * self.best, "seconds") for t in self.targets}
        whole = self.whole.objective(report.model.coef, report.model.intercept)
        found["excess"] = whole / self.best - 1.0
        for kind, counted in (report.traffic or {}).items():
            found[f"{kind} messages an epoch"] = counted["messages"] / report.n_epochs
            found[f"{kind} bytes an epoch"] = counted["bytes"] / report.n_epochs
        return {what: math.inf if number is None else number for what, number in found.items()}

    def rival(self, seed: int, step: float) -> Found:
        """Mini-batches of each rank's rows, their gradients summed; its trace is not timed."""
        X, y = self.mine
        w, alpha = np.zeros(X.shape[1], np.float32), np.float32(self.settings["alpha"])
        n = COMM.allreduce(len(y), library.MIN) // BATCH
        draw, seconds = np.random.default_rng([seed, RANK]), 0.0
        found = dict.fromkeys([f"s to {t:g}" for t in self.targets], math.inf)
        for epoch in range(self.epochs):
            rows, eta = draw.permutation(len(y)), np.float32(step / math.sqrt(epoch + 1.0))
            COMM.Barrier()
            began = time.perf_counter()
            for k in range(n):
                batch = rows[k * BATCH : (k + 1) * BATCH]
                part = X[batch]
                pull = -y[batch] * expit(-y[batch] * (part @ w))
                gradient = np.asarray(part.T @ pull.astype(np.float32)) / np.float32(BATCH * SIZE)
                COMM.Allreduce(library.IN_PLACE, gradient)
                w -= eta * (gradient + alpha * w)
            seconds += time.perf_counter() - began
            excess = self.whole.objective(w[None].astype(np.float64), np.zeros(1)) / self.best - 1.0
            for target in self.targets:
                if excess <= target:
                    found[f"s to {target:g}"] = min(found[f"s to {target:g}"], seconds)
        return {**found, "excess": excess}

    def contestants(self) -> dict[str, tuple[bool, Callable[[int], Found]]]:
        """What runs, by name: whether all ranks do, and a run by its seed."""

        def alone(**plan: Any) -> tuple[bool, Callable[[int], Found]]:
            return False, lambda seed: self.ours(self.whole, seed, **plan)

        def together(problem: Any, **plan: Any) -> tuple[bool, Callable[[int], Found]]:
            runtime = MPI(**plan)
            return True, lambda seed: self.ours(problem, seed, runtime=runtime, n_workers=1)

        return {
            "one worker": alone(runtime="caller"),
            "threads": alone(runtime="threads", n_workers=SIZE),
            "processes": alone(runtime="processes", n_workers=SIZE),
            "ranks": together(self.whole, rows="all"),
            "ranks, messages": together(self.part, arena=False),
            "all-reduce": (True, lambda seed: self.rival(seed, self.step)),
        }

    def choose_step(self) -> float:
        """The rival's best step of the grid, by the sub-optimality at the end."""
        ends = [(self.rival(0, step)["excess"], step) for step in STEPS]
        self.step = min((end if math.isfinite(end) else math.inf, step) for end, step in ends)[1]
        return self.step


def compare(race: Race, rounds: int) -> dict[str, Found]:
    """Medians of all contestants, and how much faster each was than one worker."""

    def after_all(by_all: bool, run: Callable[[int], Found]) -> Callable[[int], Found]:
        def call(seed: int) -> Found:
            meet()
            return run(seed) if by_all or RANK == 0 else {}

        return call

    contestants = {name: after_all(*one) for name, one in race.contestants().items()}
    found = script.in_rounds(contestants, rounds)
    meet()
    lines = {name: script.medians(runs) for name, runs in found.items() if RANK == 0}
    for numbers in lines.values():
        for what in [what for what in numbers if what.startswith("s to")]:
            if numbers[what] < math.inf:
                numbers[f"times: {what}"] = lines["one worker"][what] / numbers[what]
            else:
                del numbers[what]  # it was not reached
    return lines


def measure(options: Any) -> dict[str, Any] | None:
    """Every set; rank 0 has the results."""
    results: dict[str, Any] = {
        "machine": outcome.machine(),
        "versions": outcome.versions() | {"mpi": library.Get_library_version().split("\n")[0]},
        "ranks": SIZE,
    }
    for name in options.data:
        race = Race(name, options.data_home, options.targets, options.epochs, options.rule)
        step = race.choose_step()
        lines = compare(race, options.rounds)
        results[name] = {"rule": str(race.rule), "step of all-reduce": step, **lines}
        if RANK == 0:
            script.show(lines, f"{name}, {race.rule}, all-reduce by steps of {step:g}")
    return results if RANK == 0 else None


if __name__ == "__main__":
    script.run(
        __doc__,
        measure,
        script.HOME,
        Setting("rule", "", "auto", choices=("auto", "sgd")),
        data=("zipf", "imdb", "zipf-large"),
        targets=(1e-1, 1e-2, 1e-3),
        epochs=20,
        rounds=5,
    )
