"""Whether AsySG-con and AsySG-incon reach the optimum, with few and many workers, in both runtimes.

Objective over the best known (dual coordinate ascent to a relative gap of 1e-6), log loss with l2
and no intercept, after a number of epochs with a step that falls with the square root of the rows
seen. Usage::

    python bench/asysg.py --data a9a,zipf --json bench/results/asysg.json
"""

from __future__ import annotations

import itertools
from typing import Any

import script

from hogshare import SDCA, StepSize, Stop, asysg_con, asysg_incon, datasets, problems, solve
from hogshare.lab.harness.settings import Setting

ALPHA = 1e-4
RUNS: dict[str, dict[str, Any]] = {
    "con": {"batch": 100, "gradients": 2},
    "incon": {"batch": 4},
    "incon, unbiased": {"batch": 4, "coordinate": "unbiased"},
}
# First step, by trial (of con for the mean over a mini-batch, of the others for a sum), and epochs:
# writes of one coordinate are noisy, by about the number of coordinates that are drawn from, and
# need many more; on 47,236 features they are left out.
CHOSEN = {
    "a9a": {"con": (25.0, 20), "incon": (0.5, 10), "incon, unbiased": (0.1, 200)},
    "zipf": {"con": (2000.0, 5), "incon": (20.0, 5)},
}


def fit(problem: Any, name: str, first_step: float, **common: Any) -> Any:
    """One run."""
    algorithm = asysg_con if name == "con" else asysg_incon
    steps = StepSize("invscaling", eta0=first_step, power_t=0.5)
    return algorithm(problem, step=steps, seed=0, theory=False, **RUNS[name], **common)


def measure(options: Any) -> dict[str, Any]:
    """Every algorithm, number of workers and runtime."""
    lines = []
    for data in options.data:
        X, y = datasets.load(data)
        problem = problems.linear(X, y, alpha=ALPHA, fit_intercept=False)
        model = solve(problem, rule=SDCA(), stop=Stop(epochs=1000, relative_gap=1e-6), seed=0).model
        best = problem.objective(model.coef, model.intercept)
        cases = itertools.product(
            (name for name in CHOSEN[data] if name.startswith(options.only)),
            options.steps,
            options.workers,
            ("threads", "processes"),
        )
        for name, factor, n_workers, runtime in cases:
            first_step, epochs = factor * CHOSEN[data][name][0], CHOSEN[data][name][1]
            common = {"n_workers": n_workers, "runtime": runtime}
            report = fit(problem, name, first_step, epochs=options.epochs or epochs, **common)
            line = {"data": data, "algorithm": name, **RUNS[name], **common}
            line |= {"first_step": first_step, "epochs": options.epochs or epochs}
            value = problem.objective(report.model.coef, report.model.intercept)
            line |= {"over_best": value / best, "seconds": report.seconds["run"]}
            lines.append({**line, "staleness_p95": report.staleness_p95})
        script.show([line for line in lines if line["data"] == data], f"{data}: best {best:.6f}")
    return {"alpha": ALPHA, "results": lines}


if __name__ == "__main__":
    script.run(
        __doc__,
        measure,
        Setting("only", "algorithms whose names begin so", ""),
        Setting("steps", "multiples of the first step, for trials", (1.0,), script.commas(float)),
        data=("a9a", "zipf"),
        epochs=0,
        workers=(2, 8),
    )
