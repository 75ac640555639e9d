"""The same runs in real and in virtual time: eight sleeping workers, waiting, staleness, blocks.

Goal: on average over seeds, a simulated run agrees with one in threads within 10 % on the share of
their time that workers wait, on the mean staleness, and on the blocks to a target objective, with
log-normal block times and with stragglers. Every block sleeps 200 ms by a law that depends on seed,
worker and block alone, so that both runs sleep alike, and differ by the time of computing, waking
and polling. No two blocks sleep equally long, stragglers' blocks included: otherwise the order in
which workers wake would depend on neither clock. The two runs of a pair follow each other. Usage::

    python bench/virtual_time.py --seeds 5 --json bench/results/virtual_time.json
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from typing import Any

import script
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from hogshare import ASP, BSP, PBSP, SSP, Master, Shared, Simulator, StepSize, Stop, problems, solve
from hogshare.barriers import name_of
from hogshare.lab.harness.settings import Setting
from hogshare.report import Report
from hogshare.simulation import Constant
from hogshare.stragglers import ControlledDelay, LogNormal, ProductionCluster, Stragglers

N_WORKERS = 8
JITTER = 0.2  # spread of stragglers' sleeps, as a share of them


@dataclass(frozen=True)
class Jittered(Stragglers):
    """Another law's sleeps, each times a log-normal multiple of its own, with mean 1."""

    law: Stragglers
    multiple: LogNormal

    def lateness(self, worker: int, block: int, n_workers: int, mean: float) -> float:
        """As `Stragglers.lateness`."""
        slept = mean + self.law.lateness(worker, block, n_workers, mean)
        return self.multiple.multiple(worker, block) * slept - self.base


def laws(base: float, seed: int) -> dict[str, Any]:
    """Laws by name."""
    jitter = LogNormal(JITTER, seed=seed)
    return {
        "log-normal": LogNormal(0.5, seed=seed, base=base),
        "one late by 100 %": Jittered(ControlledDelay(1.0), jitter, base=base),
        "production cluster": Jittered(ProductionCluster(seed=seed), jitter, base=base),
    }


def facts(report: Report, target: float) -> dict[str, float]:
    """What is compared."""
    waited = sum(worker["waiting_seconds"] for worker in report.workers)
    blocks = sum(worker["blocks"] * worker["mean_block_seconds"] for worker in report.workers)
    assert report.trace is not None
    return {
        "waiting share": waited / (waited + blocks),
        "staleness": report.staleness_mean,
        "blocks to target": report.trace.first(target, "blocks") or float("nan"),
        "seconds": report.seconds.get("virtual", report.seconds["run"]),
    }


def pair(problem: Any, plane: Any, barrier: Any, law: Any, seed: int, epochs: int) -> list[Any]:
    """The same run in threads and simulated."""
    reports = []
    for runtime in ("threads", Simulator(block_time=Constant(0.0))):
        reports.append(
            solve(
                problem,
                plane=plane,
                barrier=barrier,
                runtime=runtime,
                n_workers=N_WORKERS,
                block=4,
                step=StepSize("constant", 0.01),
                stop=Stop(epochs=epochs),
                seed=seed,
                trace=8,
                stragglers=law,
            )
        )
    # what both have come down to
    target = 1.02 * max(float(report.trace.objective[-1]) for report in reports)
    return [facts(report, target) for report in reports]


def measure(options: Any) -> dict[str, Any]:
    """Every plane, law and barrier."""
    X, y = load_breast_cancer(return_X_y=True)
    problem = problems.linear(scale(X), y, alpha=1.0 / len(y))
    found = []
    cases = itertools.product(
        (Shared(), Master()), laws(options.base, 0), (ASP(), SSP(2), BSP(), PBSP(2))
    )
    for plane, name, barrier in cases:
        pairs = [
            pair(problem, plane, barrier, laws(options.base, k)[name], k, options.epochs)
            for k in range(options.seeds)
        ]
        real, virtual = (
            {key: statistics.fmean(one[key] for one in runs) for key in runs[0]}
            for runs in zip(*pairs, strict=True)
        )
        line = {"plane": type(plane).__name__, "law": name, "barrier": name_of(barrier)}
        found.append({**line, "real": real, "virtual": virtual})
        script.show({"real": real, "virtual": virtual}, ", ".join(line.values()))
    settings = {name: getattr(options, name) for name in ("seeds", "epochs", "base")}
    return {"settings": settings | {"workers": N_WORKERS, "jitter": JITTER}, "runs": found}


if __name__ == "__main__":
    base = Setting("base", "seconds that a block sleeps", 0.2, float)
    script.run(__doc__, measure, base, seeds=5, epochs=1)
