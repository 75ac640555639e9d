"""Predict the time of a run with other numbers of workers; each worker has a core.

The report of a real run gives the costs of a row, an exchange and a master's message, and the
variation of the blocks' times. `hogshare.lab.psp.progress` simulates workers with these costs under
the run's barrier. All workers claim their blocks from one counter, and the run ends when all blocks
are done. Some work can only be done by one worker at a time: a master's writes, the shuffle of the
next epoch's order, the sections of BSP. Its seconds are a lower bound of the run's time.

`docs/prediction.md` describes this model and its measured errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from hogshare.barriers import ASP, POLLS_PER_BLOCK, BuiltIn, numbers_of
from hogshare.kernels.schedule import barrier_codes as codes
from hogshare.kernels.schedule.shared_quanta import FIRST_INTERVAL
from hogshare.lab.prediction.costs import Finished, ReportFacts, RunCosts, costs_of
from hogshare.lab.prediction.prediction import Prediction
from hogshare.lab.psp.progress import progress
from hogshare.simulation.block_times import Measured
from hogshare.simulation.simulator import Simulator
from hogshare.system.ranges import count

MOST_BLOCKS = 20_000  # blocks to simulate; a longer run is extrapolated from them
SEEDS = 3  # simulated runs; their mean is used
MOST_EVENTS = 1024  # most blocks of an epoch that is simulated with its gradients
# the same for a rule with a memory of rows, whose epochs depend on the interval of exchanges
MOST_EVENTS_REMEMBERING = 4096
MOST_EPOCHS = 2.0  # times the run's epochs: later, an objective counts as not reached
GAIN = 0.98  # share of the run's gain that is the default objective


def time_of_blocks(barrier: BuiltIn, n_workers: int, law: Measured, n_blocks: int) -> float:
    """Return the seconds until the workers have done `n_blocks` blocks in total."""
    simulated = min(n_blocks, MOST_BLOCKS)
    draws = numbers_of(barrier, n_workers)["sample"] != codes.EVERYBODY
    poll = law.mean / POLLS_PER_BLOCK if draws else None
    ends = [_end_of_blocks(barrier, n_workers, law, simulated, poll, seed) for seed in range(SEEDS)]
    return float(np.mean(ends)) * n_blocks / simulated


def _end_of_blocks(
    barrier: BuiltIn, n_workers: int, law: Measured, n_blocks: int, poll: float | None, seed: int
) -> float:
    """Return the virtual time at which the first `n_blocks` claimed blocks are all done."""
    # a first guess of the length; a run that is too short is repeated with twice as much
    seconds = 1.5 * math.ceil(n_blocks / n_workers) * law.mean + max(law.seconds)
    while True:
        run = progress(
            barrier,
            n_workers,
            block_time=law,
            seconds=seconds,
            poll=poll,
            seed=seed,
            events=True,
        )
        # each worker claims a block at the start, and one at each pass
        starts = sorted(
            [(0.0, worker) for worker in range(n_workers)]
            + [(when, worker) for when, worker, what in run.events or () if what == "passed"]
        )[:n_blocks]
        wanted = np.bincount([worker for _, worker in starts], minlength=n_workers)
        done, end = np.zeros(n_workers, np.int64), 0.0
        for when, worker, what in run.events or ():
            if what == "completed":
                done[worker] += 1
                if done[worker] <= wanted[worker]:  # later blocks of the worker are beyond the run
                    end = max(end, when)
        if len(starts) == n_blocks and bool((done >= wanted).all()):
            return end
        seconds *= 2.0


@dataclass(frozen=True)
class PredictedRun:
    """The predicted seconds of a run with some number of workers, and further results."""

    seconds: float
    waiting_share: float
    limit: str


def mean_block(run: ReportFacts, costs: RunCosts, n_workers: int) -> tuple[float, int, float]:
    """Return a block's mean seconds without its fold, an epoch's blocks, and a fold's seconds."""
    per_epoch = -(-run.n_rows // run.rows_of_block(n_workers))
    n_rows = run.n_rows / per_epoch
    exchanges = run.exchanges_of_block(n_workers, n_rows)
    serial = costs.exchange if exchanges and run.is_ordered(n_workers) else 0.0
    seconds = n_rows * costs.row + exchanges * costs.exchange + costs.order / per_epoch
    return seconds - serial, per_epoch, serial


def outcome_of(run: ReportFacts, costs: RunCosts, n_workers: int) -> PredictedRun:
    """Predict the run's epochs with `n_workers` workers."""
    mean, per_epoch, serial = mean_block(run, costs, n_workers)
    n_blocks = max(1, round(run.epochs * per_epoch))
    barrier = ASP() if n_workers == 1 else run.barrier
    if run.is_free(n_workers):
        barrier = ASP()
    inline = run.has_master and n_workers == 1
    if inline:
        mean += costs.message
    law = Measured((mean * costs.factors).tolist())
    seconds = time_of_blocks(barrier, n_workers, law, n_blocks)
    seconds += n_blocks * serial  # one worker after the other, round by round
    floors = {"workers": seconds, "master": 0.0 if inline else n_blocks * costs.message}
    # one worker shuffles the next order from the middle of an epoch on; it must be ready at the
    # epoch's end, see `hogshare.kernels.schedule.epoch_schedule.claim`
    computing = per_epoch * mean - costs.order
    floors["order"] = run.epochs * (0.5 * computing / n_workers + costs.order)
    if n_workers == 1:
        del floors["order"]
    limit = max(floors, key=lambda name: floors[name])
    seconds = floors[limit]
    computed = n_blocks * (mean + serial)
    waiting = max(0.0, 1.0 - computed / (n_workers * seconds))
    return PredictedRun(seconds + costs.outside, waiting, limit)


def assumptions(run: ReportFacts, costs: RunCosts) -> list[str]:
    """List the assumptions of a prediction from this run, and the effects that it ignores."""
    found = ["each worker has its own core, and caches and memory are as fast as in this run"]
    if run.exchanges:
        found.append(
            f"an exchange takes {costs.exchange * 1e6:.3g} us, by {costs.source}, for any number "
            "of workers; conflicts between exchanges are ignored"
        )
    elif not run.has_master:
        found.append(
            "workers on one shared vector do not slow each other down; with frequent features they "
            "do, because cache lines move between cores"
        )
    if run.has_master and run.n_workers == 1:
        found.append(
            "with one worker the master's time is part of the blocks and was not measured: it sets "
            "no limit; predict from a run with two"
        )
    elif run.has_master:
        found.append(f"the master takes {costs.message * 1e6:.3g} us for each message")
    if run.sleeps:
        found.append("the stragglers' sleep is part of the blocks' times, as drawn in this run")
    if run.evaluates:
        found.append("evaluations of the model during the run (Stop's criteria) are ignored")
    if run.cores is not None and run.n_workers > run.cores:
        found.append(
            f"the run had {run.n_workers} workers on {run.cores} usable cores: its blocks' times "
            "include waits for a core"
        )
    return found + list(costs.notes)


def predict(
    report: Finished,
    n_workers: Sequence[int],
    epochs: Mapping[int, float] | None = None,
    objective: float | None = None,
    paces: Mapping[int, tuple[int, int]] = MappingProxyType({}),
) -> Prediction:
    """Predict a run with other numbers of workers; see `Report.predict`.

    epochs : epochs to the objective by number of workers, including one worker; NaN if the
        objective is not reached
    paces : known paces by number of workers, as in `ReportFacts`
    """
    wanted = workers_of(n_workers)
    run = ReportFacts(report, paces)
    costs = costs_of(run)
    found = {count: outcome_of(run, costs, count) for count in {1, run.n_workers, *wanted}}
    seconds = np.array([found[count].seconds for count in wanted])
    speedup = found[1].seconds / seconds
    to_objective = time_speedup = None
    if epochs is not None:
        to_objective = np.array([epochs[count] for count in wanted])
        time_speedup = speedup * epochs[1] / to_objective
    return Prediction(
        n_workers=wanted,
        seconds=seconds,
        throughput=run.rows / seconds,
        speedup=speedup,
        waiting_share=np.array([found[count].waiting_share for count in wanted]),
        limits=tuple(found[count].limit for count in wanted),
        epochs=to_objective,
        time_speedup=time_speedup,
        objective=objective,
        measured={
            "n_workers": run.n_workers,
            "seconds": run.seconds,
            "epochs": run.epochs,
            "predicted": found[run.n_workers].seconds,
        },
        costs=costs,
        assumed=tuple(assumptions(run, costs)),
    )


def predict_with_epochs(
    report: Finished, n_workers: Sequence[int], problem: Any, objective: float | None
) -> Prediction:
    """Predict the time to an objective; its epochs are measured on a virtual clock.

    The run is repeated on the virtual clock with the problem's gradients. Raises ValueError if the
    report has no trace, belongs to another problem, or cannot be repeated.
    """
    wanted, run = workers_of(n_workers), ReportFacts(report)
    trace, again = report.trace, report.again
    if trace is None:
        raise ValueError(
            "this run has no trace, which the time to an objective needs: call solve(..., trace=4)."
        )
    if again is None or again.obstacle:
        why = "it was not made by solve" if again is None else again.obstacle
        raise ValueError(f"this run cannot be repeated on a virtual clock: {why}.")
    check_problem(report.settings["problem"], problem)
    if objective is None:
        first, last = float(trace.objective[0]), float(trace.objective[-1])
        objective = first - GAIN * (first - last)
    paces = {}
    if run.exchanges:
        counts = sorted({1, run.n_workers, *wanted})
        paces = {count: again.pace(problem, count, run.per_epoch) for count in counts}
        run = ReportFacts(report, paces)
    costs = costs_of(run)
    most = math.ceil(MOST_EPOCHS * run.epochs)
    epochs = {}
    for workers in sorted({1, *wanted}):
        n_rows = virtual_rows(run, workers)
        mean, per_epoch, serial = mean_block(run, costs, workers)
        share = n_rows * per_epoch / run.n_rows
        simulator = Simulator(
            block_time=Measured(((mean + serial) * share * costs.factors).tolist()),
            write_seconds=costs.message if run.has_master and workers > 1 else 0.0,
        )
        reached = again.epochs_to(objective, problem, workers, simulator, n_rows, most)
        epochs[workers] = math.nan if reached is None else reached
    return predict(report, wanted, epochs, objective, paces)


def virtual_rows(run: ReportFacts, n_workers: int) -> int:
    """Return the rows of a block on the virtual clock, where workers exchange once per block.

    Without a barrier a block has 128 rows, which is the interval of the first exchanges of most
    rules. Early progress, with frequent exchanges, decides the number of epochs. (With blocks of
    the later interval, 8 workers on the virtual clock took three times the epochs of 8 threads, on
    IMDB and on Zipf. With 128 rows they took 1 to 1.1 times the epochs on IMDB, and 0.6 times on
    Zipf.) If a rule with a memory of rows exchanges more often, a block has the rule's own
    interval: SAGA takes several times the epochs if it cannot carry the changes that an exchange
    defers. In rounds, blocks have as many rows as in a real run.
    """
    n_rows = run.rows_of_block(n_workers)
    if n_workers == 1 or run.has_master or run.is_ordered(n_workers):
        return n_rows
    if run.is_free(n_workers):
        n_rows = min(n_rows, max(FIRST_INTERVAL, -(-run.n_rows // MOST_EVENTS)))
    if run.exchanges and run.remembers:
        fewest = -(-run.n_rows // MOST_EVENTS_REMEMBERING)
        n_rows = min(n_rows, max(run.interval(n_workers), fewest))
    return n_rows


def check_problem(known: Mapping[str, Any], problem: Any) -> None:
    """Raise ValueError if a problem is not the problem of the run."""
    compared = ("rows", "features", "columns", "nonzeros", "loss", "penalty", "alpha", "params")
    given = problem.facts()
    for name in compared:
        if known.get(name) != given.get(name):
            raise ValueError(
                f"problem is not the one that was solved: {name} is {given.get(name)!r}, and was "
                f"{known.get(name)!r}."
            )


def workers_of(n_workers: Sequence[int] | int) -> tuple[int, ...]:
    """Return the numbers of workers; ValueError if one is not a whole number of at least 1."""
    given = np.atleast_1d(np.asarray(n_workers, dtype=object)).tolist()
    wanted = tuple(int(k) if isinstance(k, np.integer) else k for k in given)
    if not wanted:
        raise ValueError("n_workers must name at least one number of workers; got none.")
    for each in wanted:
        count(1, **{"every entry of n_workers": each})
    return wanted
