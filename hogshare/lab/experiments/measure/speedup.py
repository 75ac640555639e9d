"""Measure iteration speedup against time speedup.

`measure` runs, `tabulate` turns runs into the table of the papers, `show` prints it. What passes
between them is one dictionary of plain data, which is also the JSON output:

    settings, data, versions, machine, warm_up_seconds, target,
    runs   one for each repeat and number of workers, with its trace
    table  one row for each number of workers: medians over repeats

Definitions (as Lian et al. 2015 measure): with p workers, an iteration is one step on a mini-batch,
counted over all workers; iteration speedup = p * iterations(1) / iterations(p); time speedup =
seconds(1) / seconds(p), both up to the same objective. Of ``incon`` it is a write cycle, of ``con``
an update by the master, which takes `gradients` mini-batches. Departures: with private copies a
step changes the copy, and many steps travel in one push, so iterations are counted as steps, not as
pushes; on the one shared vector the two are the same. A trace counts what has been computed: of
``con`` up to two messages of each worker are under way besides. On the virtual clock seconds are
virtual ones.
"""

from __future__ import annotations

import math
import statistics
import time
from typing import Any

from hogshare.cli import console
from hogshare.lab.experiments.measure.trials import (
    LAST_PART,
    has_own_steps,
    in_turn,
    median,
    result_of,
    tell_of_targets,
    trace_of,
)
from hogshare.report import Report

SETTINGS = (
    *("problem", "algorithm", "gradients", "coordinate", "step"),
    *("data", "loss", "penalty", "alpha", "l1_ratio", "dtype", "exchange", "adds", "batch"),
    *("barrier", "workers", "runtime", "law", "ceiling"),
    *("epochs", "target", "repeats", "points", "seed"),
)
SIMULATOR = "simulator"
VIRTUAL_WORKERS = [1, 2, 4, 8, 16, 32]

# a spread of the repeats' speed, (slowest - fastest) / median, above which medians say little
LARGE_SPREAD = 0.3

# of incon in an epoch: what others have written of the blocks that they have in hand is in the
# vector and not counted, which with large blocks would flatter many workers by a tenth of an epoch
BLOCKS_PER_WORKER = 100


def default_workers(runtime: str = "threads") -> list[int]:
    """Return 1, 2, 4, ... and the number of usable cores, or to 32 on the virtual clock."""
    import joblib

    if runtime == SIMULATOR:
        return VIRTUAL_WORKERS

    cores = joblib.cpu_count()
    return sorted({2**k for k in range(cores.bit_length()) if 2**k <= cores} | {cores})


def machine_warnings(workers: list[int]) -> list[str]:
    """Return what makes time speedups meaningless before anything has run."""
    import joblib

    cores = joblib.cpu_count()
    if workers[-1] <= cores:
        return []
    return [
        f"{workers[-1]} workers on {cores} usable core{'s' * (cores != 1)}: "
        "iteration speedups stay meaningful, time speedups do not"
    ]


def measure(problem: Any, settings: dict[str, Any], lent: Any = None) -> dict[str, Any]:
    """Run every number of workers as often as asked for.

    Parameters
    ----------
    problem : Problem
    settings : dict
        The values of `SETTINGS`; a target of None is found from the runs themselves.
    lent : Runtime, default=None
        With the workers of other processes, in place of the one of that name.

    Returns
    -------
    dict
        See the head of this file.
    """
    counts, by = settings["workers"], settings["runtime"] if lent is None else lent
    runs: list[dict[str, Any]] = []
    # on the virtual clock all numbers of workers have the same kernels, and nobody starts
    warmed = counts[:1] if settings["runtime"] == SIMULATOR else counts
    with console.progress(len(warmed) + len(counts) * settings["repeats"], "speedup") as progress:
        begin = time.perf_counter()
        for count in warmed:
            report = run_once(problem, settings, count, settings["seed"], by, warm_up=True)
            progress.advance("(warming up)")
        warm_up = time.perf_counter() - begin
        for repeat in range(settings["repeats"]):
            for count in in_turn(counts, repeat):
                report = run_once(problem, settings, count, settings["seed"] + repeat, by)
                runs.append(facts(report, count, repeat))
                progress.advance(f"(repeat {repeat + 1}, workers: {count})")
    result = result_of(problem, report, settings, warm_up)
    result["runs"] = sorted(runs, key=lambda run: (run["workers"], run["repeat"]))
    if settings["target"] is None:
        result["target"] = default_target(result["runs"])
    result["table"] = tabulate(result)
    return result


def run_once(
    problem: Any, settings: dict[str, Any], count: int, seed: int, by: Any, warm_up: bool = False
) -> Report:
    """Solve once with a number of workers; a warm-up is one epoch."""
    from hogshare.problems.gradient import NotFinite

    try:
        return _solved(problem, settings, count, seed, by, warm_up)
    except NotFinite as error:
        raise ValueError(
            f"with {count} worker{'s' * (count != 1)} the model leaves the numbers: take a --step "
            f"below {settings['step']:g}"
        ) from error


def _solved(
    problem: Any, settings: dict[str, Any], count: int, seed: int, by: Any, warm_up: bool
) -> Report:
    from hogshare import SGD, Stop, asysg_con, asysg_incon, barriers, solve
    from hogshare.lab.studies.clock import virtual

    epochs = settings["epochs"]
    if settings["target"] is None and count != settings["workers"][0]:
        # what more workers lose per epoch is then measured, instead of "not reached"
        epochs += math.ceil(epochs / 2)
    batch, step = settings["batch"], settings["step"]
    if by == SIMULATOR:
        by_messages = settings["algorithm"] == "con"
        by = virtual(problem, settings["law"], settings["ceiling"], by_messages, seed)
    common: dict[str, Any] = {
        "barrier": barriers.parse(settings["barrier"]),
        "runtime": by,
        "n_workers": count,
        "stop": Stop(epochs=1 if warm_up else epochs, tol=None),
        "seed": seed,
        "trace": settings["points"],
    }
    if has_own_steps(problem):
        return solve(problem, plane=plane_of(settings), block=batch, **common)
    if settings["algorithm"] == "sgd":
        return solve(problem, rule=SGD(batch=batch), plane=plane_of(settings), step=step, **common)
    common |= {"batch": batch, "step": step, "theory": False}
    if settings["algorithm"] == "con":
        return asysg_con(problem, gradients=settings["gradients"], **common)
    drawn, adds = settings["coordinate"], settings["adds"]
    if settings["runtime"] == SIMULATOR and drawn is None:
        common["block"] = batch  # of which each is read for itself
    elif drawn is None and problem.has_rows:
        common["block"] = max(batch, problem.n_rows // (BLOCKS_PER_WORKER * count))
    return asysg_incon(problem, coordinate=drawn, adds=adds, **common)


def plane_of(settings: dict[str, Any]) -> Any:
    """Where the model of an algorithm lives."""
    from hogshare import Master, Shared

    if settings["algorithm"] == "con":
        return Master(gradients=settings["gradients"])
    exchange = settings["exchange"] if settings["algorithm"] == "sgd" else None
    return Shared(exchange=exchange, adds=settings["adds"])


def facts(report: Report, count: int, repeat: int) -> dict[str, Any]:
    """Return what is kept of a run."""
    plain = report.to_dict()
    seconds = report.seconds.get("virtual", report.seconds["run"])
    return {
        "workers": count,
        "repeat": repeat,
        "n_epochs": plain["n_epochs"],
        "seconds": plain["seconds"],
        "seconds_per_epoch": seconds / max(1, report.n_epochs),
        "pushes": sum(int(worker.get("pushes") or 0) for worker in report.workers),
        "staleness_mean": plain["staleness_mean"],
        "staleness_p95": plain["staleness_p95"],
        "staleness_max": plain["staleness_max"],
        "trace": plain["trace"],
        "notes": plain["notes"],
    }


def default_target(runs: list[dict[str, Any]]) -> float:
    """Return where the smallest number of workers has gained all but a hundredth, at its worst.

    The objective at the very end would be the natural choice, but where a run converges early it
    lies on a flat tail, and when a flat tail crosses a value is chance.
    """
    fewest = min(run["workers"] for run in runs)
    traces = [run["trace"]["objective"] for run in runs if run["workers"] == fewest]
    if any(trace[0] is None or trace[-1] is None for trace in traces):
        raise ValueError("the objective of the smallest number of workers is not finite")
    return float(max(end + LAST_PART * (start - end) for start, *_, end in traces))


def tabulate(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each number of workers: medians over its repeats, and speedups.

    A run that does not reach the target counts as infinitely long, so a median is None when half
    of the runs do not.
    """
    target, settings = result["target"], result["settings"]
    table: list[dict[str, Any]] = []
    for count in settings["workers"]:
        runs = [run for run in result["runs"] if run["workers"] == count]
        traces = [trace_of(run) for run in runs]
        epochs = median([trace.first(target, "epochs") for trace in traces])
        per_epoch = result["data"]["rows"] / (settings["batch"] * settings["gradients"])
        row = {
            "workers": count,
            "epochs": epochs,
            "iterations": None if epochs is None else epochs * per_epoch,
            "seconds": median([trace.first(target, "seconds") for trace in traces]),
            "seconds_per_epoch": median([run["seconds_per_epoch"] for run in runs]),
            "staleness_mean": median([run["staleness_mean"] for run in runs]),
            "staleness_max": max(run["staleness_max"] for run in runs),
            "objective_at_end": median([run["trace"]["objective"][-1] for run in runs]),
        }
        base = table[0] if table else row
        more = count / base["workers"]
        row["iteration_speedup"] = ratio(base["epochs"], row["epochs"], more)
        row["time_speedup"] = ratio(base["seconds"], row["seconds"])
        table.append(row)
    return table


def ratio(above: float | None, below: float | None, factor: float = 1.0) -> float | None:
    """Return factor * above / below, or None where there is none."""
    return None if above is None or not below else factor * above / below


def noise_warnings(result: dict[str, Any]) -> list[str]:
    """Return what makes the measured times doubtful: repeats that differ too much."""
    found: list[str] = []
    if result["settings"]["runtime"] == SIMULATOR:
        return found
    for count in result["settings"]["workers"]:
        times = [run["seconds_per_epoch"] for run in result["runs"] if run["workers"] == count]
        spread = (max(times) - min(times)) / statistics.median(times)
        if spread > LARGE_SPREAD:
            found.append(
                f"noisy machine: with {count} worker{'s' * (count != 1)} the repeats' speed "
                f"differs by {spread:.0%}; close other programs, or ask for more --repeats"
            )
    return found


def show(result: dict[str, Any]) -> None:
    """Print the table, and below it what it is about."""
    columns = {
        "workers": "workers",
        "iterations": "iterations",
        "iteration_speedup": "iteration speedup",
        "seconds": "seconds",
        "time_speedup": "time speedup",
        "staleness_mean": "staleness mean",
        "staleness_max": "staleness max",
        "objective_at_end": "objective at end",
    }
    console.show_table(
        list(columns.values()),
        [[_rounded(row, key) for key in columns] for row in result["table"]],
        title=f"to objective {result['target']:.6g}",
    )
    settings = result["settings"]
    console.say(
        f"{result['what']}, {algorithm_of(settings)}, {runtime_of(settings)}; medians of "
        f"{settings['repeats']} repeats; warm-up (compiling, starting workers) of "
        f"{result['warm_up_seconds']:.1f} s not counted"
    )
    for table in result["paper"]:
        console.say(in_words(table))
    tell_of_targets(result["table"])


def runtime_of(settings: dict[str, Any]) -> str:
    """Who ran the workers, in words."""
    if settings["runtime"] != SIMULATOR:
        return str(settings["runtime"])
    ceiling = settings["ceiling"]
    told = f"virtual clock, blocks of {settings['law']}"
    return told if ceiling is None else f"{told}, {ceiling:g} workers keep the master's end busy"


def in_words(table: dict[str, Any]) -> str:
    """A paper's speedups: workers, and of each iterations (where they are told) and time."""
    iterations = table["iteration"] or ["-"] * len(table["workers"])
    cells = zip(table["workers"], iterations, table["time"], strict=True)
    told = "; ".join(f"{n}: {iteration}, {seconds}" for n, iteration, seconds in cells)
    return f"the paper's speedups, iterations and time ({table['what']}): {told}"


def algorithm_of(settings: dict[str, Any]) -> str:
    """What was run, in words."""
    if settings["algorithm"] == "con":
        what = f"AsySG-con, M = {settings['gradients']}, batch {settings['batch']}"
    elif settings["algorithm"] == "incon":
        what = f"AsySG-incon, M = {settings['batch']}"
        what += f", coordinate {settings['coordinate']}" if settings["coordinate"] else ""
    else:
        what = f"exchange {settings['exchange'] or 'none'}"
    return what if settings["step"] is None else f"{what}, step {settings['step']:g}"


def _rounded(row: dict[str, Any], key: str) -> Any:
    value = row[key]
    return round(value) if key == "iterations" and value is not None else value
