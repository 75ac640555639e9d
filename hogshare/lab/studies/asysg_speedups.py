"""Measure speedups of AsySG-con and AsySG-incon on the virtual clock, next to the papers' tables.

With p workers the iteration speedup is ``p * iterations(1) / iterations(p)``, and the time speedup
is ``seconds(1) / seconds(p)``, both to the same objective (as in Lian et al. 2015). An iteration is
an update of the master (con) or a write cycle (incon). The gradients are those of a linear problem;
block times are drawn. The iteration speedup shows the cost of stale gradients. The time speedup
also includes the cost of reading, of writing, and of the links at the model's home. The papers'
tables are for networks, and serve as a comparison only. Networks are measured by
``hogshare bench speedup --runtime simulator``.

If the step size is too long, stale gradients act like momentum, and the iteration speedup exceeds
the number of workers. With a still longer step size, the run diverges. The default step size times
the staleness of the oldest gradient is a sixteenth.

Results are plain data as in `hogshare.lab.studies.psp_figures`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np

from hogshare import problems
from hogshare.lab.studies.clock import LAW, virtual
from hogshare.lab.studies.printed_speedups import tables_of
from hogshare.lab.studies.psp_figures import Advance, Result, interval
from hogshare.problems.protocol import RowProblem
from hogshare.report import Report
from hogshare.simulation import block_times
from hogshare.solvers import asysg_con, asysg_incon
from hogshare.system.ranges import count, positive

WORKERS = (1, 2, 4, 8, 16, 32)
ROWS, FEATURES = 20_000, 100
BATCH = 20  # rows of a gradient: 1000 blocks in an epoch, 31 for each of 32 workers
EPOCHS = 3
POINTS = 50  # points of the trace in an epoch
GAIN = 0.99  # share of one worker's gain at the target
STEP = {"con": 0.002, "incon": 0.0001}  # for the mean and the sum over the rows of a gradient


def speedups(
    algorithm: str,
    *,
    workers: Sequence[int] = WORKERS,
    law: str = LAW,
    ceiling: float | None = None,
    step: float | None = None,
    seeds: int = 5,
    seed: int = 0,
    advance: Advance | None = None,
) -> Result:
    """Measure speedups to the same objective.

    Parameters
    ----------
    algorithm : {"con", "incon"}
    workers : sequence of int, default=(1, 2, 4, 8, 16, 32)
        Numbers of workers; one worker is always measured.
    law : str, default="lognormal:1,0.2"
        Law of the block time, as parsed by `hogshare.simulation.block_times.parse`.
    ceiling : float, default=None
        Number of workers that fill the links at the model's home. None: no limit.
    step : float, default=None
        Constant step size. None: 0.002 (con) or 0.0001 (incon), which are short enough for 32
        workers.
    seeds : int, default=5
        Runs for each number of workers, each with its own data, row order and block times.
    seed, advance
        As in `hogshare.lab.studies.psp_figures.figure`.

    Returns
    -------
    dict
        One series, whose points have ``x`` (the number of workers), ``iteration`` and ``time``
        (the speedups, each as mean, low and high over seeds) and ``staleness``. ``paper`` has the
        papers' tables.

    Raises
    ------
    ValueError
        If a setting is not valid, or a run does not reach the target.

    Examples
    --------
    >>> from hogshare.lab.studies.asysg_speedups import speedups
    >>> result = speedups("con", workers=(1, 4), seeds=1)
    >>> [point["x"] for point in result["series"][0]["points"]]
    [1, 4]
    """
    if algorithm not in STEP:
        raise ValueError(f"algorithm must be 'con' or 'incon'; got {algorithm!r}.")
    for n in workers:
        count(1, **{"every number of workers": n})
    count(1, seeds=seeds)
    count(0, seed=seed)
    step = STEP[algorithm] if step is None else step
    positive(step=step)
    if ceiling is not None:
        positive(ceiling=ceiling)
    positive(**{"the law's mean": block_times.parse(law).mean})
    counts = sorted({1, *workers})
    settings = {
        "algorithm": algorithm,
        "workers": counts,
        "law": block_times.written(block_times.parse(law)),
        "ceiling": ceiling,
        "step": float(step),
        "batch": BATCH,
        "rows": ROWS,
        "features": FEATURES,
        "epochs": EPOCHS,
        "seeds": seeds,
        "seed": seed,
    }
    found: dict[int, list[dict[str, float]]] = {n: [] for n in counts}
    for k in range(seed, seed + seeds):
        problem = draw_problem(k)
        alone: Report | None = None
        for n in counts:
            (advance or (lambda what: None))(f"({n} workers, seed {k})")
            report = run(problem, n, settings, law, k)
            alone = alone or report
            found[n].append(against(alone, report, n))
    points = [
        {
            "x": n,
            **{key: interval([one[key] for one in found[n]]) for key in ("iteration", "time")},
            "staleness": statistics.fmean(one["staleness"] for one in found[n]),
        }
        for n in counts
    ]
    return {
        "settings": settings,
        "title": f"AsySG-{algorithm} on a virtual clock",
        "axes": {"x": "workers", "y": "speedup"},
        "series": [{"what": f"linear, {settings['law']}", "points": points}],
        "paper": tables_of(algorithm),
    }


def draw_problem(seed: int) -> RowProblem:
    """Draw a least-squares problem with noise, on standard normal rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, FEATURES))
    y = X @ rng.standard_normal(FEATURES) + rng.standard_normal(ROWS)
    return problems.linear(
        X, y, loss="squared_error", penalty=None, fit_intercept=False, task="regression"
    )


def run(problem: RowProblem, n_workers: int, settings: Result, law: str, seed: int) -> Report:
    """Run once on the virtual clock, with a trace."""
    is_con = settings["algorithm"] == "con"
    solver: Callable[..., Report] = asysg_con if is_con else asysg_incon
    return solver(
        problem,
        n_workers=n_workers,
        batch=BATCH,
        step=settings["step"],
        epochs=EPOCHS,
        runtime=virtual(problem, law, settings["ceiling"], by_messages=is_con, seed=seed),
        trace=POINTS,
        seed=seed,
        theory=False,
    )


def against(alone: Report, report: Report, n_workers: int) -> dict[str, float]:
    """Return the speedups of a run over the run of one worker, `alone`."""
    assert alone.trace is not None and report.trace is not None
    begin, end = alone.trace.objective[0], alone.trace.objective[-1]
    if not end < begin:
        raise ValueError(
            f"one worker's objective goes from {begin:.4g} to {end:.4g}; use a smaller step."
        )
    target = begin - GAIN * (begin - end)
    reached = {}
    for axis in ("blocks", "seconds"):
        at = report.trace.first(target, axis), alone.trace.first(target, axis)
        if at[0] is None or at[1] is None:
            raise ValueError(
                f"with {n_workers} workers the run does not reach the objective "
                f"{target:.4g} of one worker; use a smaller step."
            )
        reached[axis] = at[1] / at[0]
    return {
        "iteration": n_workers * reached["blocks"],
        "time": reached["seconds"],
        "staleness": report.staleness_mean,
    }
