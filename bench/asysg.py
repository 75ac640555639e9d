"""Whether AsySG-con and AsySG-incon reach the optimum, with few and many workers, in both runtimes.

Objective over the best known (dual coordinate ascent to a relative gap of 1e-6), log loss with l2
and no intercept, after so many epochs of a step that falls with the square root of the rows seen.
Usage::

    python bench/asysg.py --data a9a,zipf --json bench/results/asysg.json
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from summaries import store

from hogshare import SDCA, StepSize, Stop, asysg_con, asysg_incon, datasets, problems, solve

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


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="a9a,zipf")
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--workers", default="2,8")
    parser.add_argument("--only", default="", help="algorithms whose names begin so")
    parser.add_argument("--steps", default="1", help="multiples of the first step, for trials")
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    for data in options.data.split(","):
        X, y = datasets.load(data)
        problem = problems.linear(X, y, alpha=ALPHA, fit_intercept=False)
        model = solve(problem, rule=SDCA(), stop=Stop(epochs=1000, relative_gap=1e-6), seed=0).model
        best = problem.objective(model.coef, model.intercept)
        print(f"{data}: best known {best:.6f}", flush=True)
        for name in (name for name in CHOSEN[data] if name.startswith(options.only)):
            for factor in map(float, options.steps.split(",")):
                first_step = factor * CHOSEN[data][name][0]
                epochs = options.epochs or CHOSEN[data][name][1]
                for n_workers in map(int, options.workers.split(",")):
                    for runtime in ("threads", "processes"):
                        common = {"n_workers": n_workers, "runtime": runtime}
                        report = fit(problem, name, first_step, epochs=epochs, **common)
                        value = problem.objective(report.model.coef, report.model.intercept)
                        line = {"data": data, "algorithm": name, **RUNS[name], **common}
                        line |= {"first_step": first_step, "epochs": epochs}
                        line |= {"over_best": value / best, "seconds": report.seconds["run"]}
                        line |= {"staleness_p95": report.staleness_p95}
                        lines.append(line)
                        print(
                            f"{name:16s} {first_step:8.4g} {n_workers} {runtime:9s} "
                            f"{value / best:.4f} of the best, {line['seconds']:.2f} s, "
                            f"staleness p95 {report.staleness_p95}",
                            flush=True,
                        )
    if options.json:
        store(options.json, {"alpha": ALPHA, "results": lines})


if __name__ == "__main__":
    main()
