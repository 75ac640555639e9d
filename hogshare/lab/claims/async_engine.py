"""Claims of Soori et al. 2019 (ASYNC), with the methods of ``hogshare bench tasks``.

Quick runs use a virtual clock; full runs use processes that sleep and compute. Both have the
paper's stragglers, and tasks of unequal length.
"""

from __future__ import annotations

import functools
import math
import time
from typing import Any

import numpy as np

from hogshare import asaga_tasks, problems, sgd_rounds
from hogshare.datasets import dense
from hogshare.lab.claims import spark_rounds
from hogshare.lab.claims.claim import (
    AGREES,
    BOTH,
    IN_PART,
    REAL,
    Claim,
    ClaimNumber,
    Found,
    near,
    over,
)
from hogshare.lab.experiments import common_options, tasks
from hogshare.shm.mailbox import HEADER_BYTES
from hogshare.simulation import LogNormal, Simulator
from hogshare.tasks.draws import draws_of_task

PAPER = "Soori et al. 2019"
LAWS = ("cds:0", "cds:0.3", "cds:0.6", "cds:1")
METHODS = ("sgd", "asgd", "saga", "asaga")
WRITTEN = {"sgd": "SGD", "asgd": "ASGD", "saga": "SAGA", "asaga": "ASAGA"}
BASE_MS = 20.0  # sleep of every task, in addition to its computing
COMPUTING, SIGMA = 0.25, 0.8  # of a virtual task, in sleeps: a total deviation of a fifth
SETTING = (
    "4,000 x 200 dense rows, logistic loss, {}. A task uses a tenth of its worker's rows, and "
    "sleeps for 20 ms. Quick runs use a virtual clock, full runs use processes"
)
EIGHT = SETTING.format("8 workers, one of which is delayed")
CLUSTER = SETTING.format(
    "32 workers, 6 of which are delayed by 1.5 to 2.5 tasks, and 2 by 2.5 to 10 tasks"
)


def settings_of(n_rows: int, seed: int, quick: bool, **others: Any) -> dict[str, Any]:
    """Return settings of ``hogshare bench tasks``."""
    clock = Simulator(block_time=LogNormal(1e-3 * COMPUTING * BASE_MS, SIGMA), seed=seed)
    return tasks.TASKS.defaults(
        alpha=1.0 / n_rows,
        base_ms=BASE_MS,
        runtime=clock if quick else "processes",
        epochs=4 if quick else 8,
        rounds=1,
        points=4,
        seed=seed,
        **others,
    )


def raced(seed: int, quick: bool, targets: Any = None, **others: Any) -> dict[str, Any]:
    """Run the bench with one seed; without `targets`, with the targets that the bench computes.

    others : settings that replace the defaults of `settings_of`
    """
    X, y = dense(n_samples=4000, n_features=200, seed=seed)
    settings = settings_of(len(y), seed, quick, **others)
    problem = common_options.stated(X, y, settings)
    if not quick:  # a first run starts the processes and compiles before anything is timed
        briefly = {**settings, "epochs": 1, "base_ms": 0.0}
        tasks.run_once(problem, briefly, tasks.TASKS.contestants(settings)[0], seed)
    return tasks.TASKS.measure_once(problem, settings, targets)


@functools.cache
def delays(seed: int, quick: bool) -> dict[tuple[str, str], dict[str, Any]]:
    """Measure figures 3 to 6: one of 8 workers is delayed by 0, 30, 60 or 100 %.

    Return the rows of the table by method and law of delay. They are cached, because four claims
    use the same runs.
    """
    table = raced(seed, quick, stragglers=list(LAWS))["table"]
    return {(row["method"], row["law"]): row for row in table}


@functools.cache
def production(seed: int, quick: bool) -> dict[str, dict[str, Any]]:
    """Measure figures 7 and 8 and table III: 32 workers with a production cluster's stragglers.

    Return the rows of the table by method. The methods "asgd, 22" and "asaga, 22" dispatch tasks
    when 22 workers wait. The rows are cached, because three claims use the same runs.
    """
    cluster = {"stragglers": ["pcs"], "workers": 32}
    free = raced(seed, quick, **cluster)
    behind = raced(seed, quick, free["targets"], **cluster, available=22, methods=["asgd", "asaga"])
    return {
        **{row["method"]: row for row in free["table"]},
        **{f"{row['method']}, 22": row for row in behind["table"]},
    }


def later(seed: int, quick: bool) -> Found:
    """Return the seconds of each method with each delay, over its seconds without delay."""
    found = delays(seed, quick)
    return {
        f"{method} {law}": over(found[method, law]["seconds"], found[method, LAWS[0]]["seconds"])
        for method in METHODS
        for law in LAWS[1:]
    }


def ahead(seed: int, quick: bool) -> Found:
    """Return the speedup of ASGD over SGD in rounds, by delay."""
    found = delays(seed, quick)
    return {law: over(found["sgd", law]["seconds"], found["asgd", law]["seconds"]) for law in LAWS}


def waits(seed: int, quick: bool) -> Found:
    """Return a worker's wait per round in ms, without delay and with the largest delay.

    On the virtual clock of quick runs, all methods in rounds wait equally, and asynchronous ones
    do not wait.
    """
    found = delays(seed, quick)
    return {
        f"{method} {law}": found[method, law]["waiting_ms_per_round"]
        for method in (("sgd",) if quick else METHODS)
        for law in (LAWS[0], LAWS[-1])
    }


def in_production(rounds: str, seed: int, quick: bool) -> Found:
    """Return the speedup of the asynchronous method over the method in rounds."""
    found = production(seed, quick)
    return {
        "free": over(found[rounds]["seconds"], found[f"a{rounds}"]["seconds"]),
        "22": over(found[rounds]["seconds"], found[f"a{rounds}, 22"]["seconds"]),
    }


def table_3(seed: int, quick: bool) -> Found:
    """Divide the waiting time in rounds by the asynchronous one, per round and per update."""
    found = production(seed, quick)
    return {
        f"{one} {unit}": found[one][f"waiting_ms_per_{unit}"]
        / max(found[f"a{one}, 22"][f"waiting_ms_per_{unit}"], 1e-9)
        for one in (("sgd",) if quick else ("saga", "sgd"))
        for unit in ("round", "update")
    }


def rounds_by_hand(seed: int, quick: bool) -> Found:
    """Measure figure 2: SGD in rounds, a plain NumPy loop on the same draws, and MLlib's SGD.

    MLlib has two workers, and draws of its own; it is left out if Spark is not installed.
    """
    n, rounds, step, rate = 4000, 200 if quick else 2000, 0.05, 0.1
    X, y = dense(n_samples=n, n_features=200, seed=seed)
    targets = X @ np.linspace(-1.0, 1.0, X.shape[1]) + y
    problem = problems.linear(
        X, targets, loss="squared_error", penalty=None, fit_intercept=False, task="regression"
    )

    def in_rounds(n_workers: int) -> tuple[np.ndarray, int, float]:
        run = {"workers": "threads", "n_workers": n_workers, "rate": rate, "step": step}
        sgd_rounds(problem, epochs=1.0, seed=seed, **run)
        report = sgd_rounds(problem, epochs=rate * rounds, seed=seed, **run)
        assert report.run_seconds is not None
        updates = int(report.settings["updates"])
        return report.model.coef.ravel(), updates, 1e3 * report.run_seconds / updates

    found, updates, one = in_rounds(1)
    w, began = np.zeros(X.shape[1]), time.perf_counter()
    for k in range(updates):
        rows = draws_of_task(seed, k, {0: n}, rate)[0]
        w = w - step / math.sqrt(k + 1) * (X[rows].T @ (X[rows] @ w - targets[rows])) / len(rows)
    loop = 1e3 * (time.perf_counter() - began) / updates
    numbers = {
        "difference": float(np.abs(found - w).max()),
        "round": one,
        "loop": loop,
        "two": in_rounds(2)[2],
    }
    if spark_rounds.is_installed():
        numbers["mllib"] = _ms_of_mllib(X, targets, step, rate)
    return numbers


def _ms_of_mllib(X: np.ndarray, y: np.ndarray, step: float, rate: float) -> float:
    """Return the milliseconds of one of MLlib's rounds, without the start of a run."""
    run, (short, long) = spark_rounds.least_squares(X, y, step, rate, 2), (20, 120)
    seconds = []
    for rounds in (short, short, long):  # the first run warms up
        began = time.perf_counter()
        run(rounds)
        seconds.append(time.perf_counter() - began)
    return 1e3 * (seconds[2] - seconds[1]) / (long - short)


def history(seed: int, quick: bool) -> Found:
    """Measure sections III to V: bytes of ASAGA's tasks, and stored model versions."""
    n, n_features, rate = 4000, 200, 0.1
    X, y = dense(n_samples=n, n_features=n_features, seed=seed)
    workers = 8
    report = asaga_tasks(
        problems.linear(X, y, alpha=1.0 / n, fit_intercept=False),
        workers=Simulator(block_time=LogNormal(1.0, 0.2), seed=seed),
        n_workers=workers,
        partitions=workers,
        rate=rate,
        epochs=40,
        seed=seed,
    )
    sent, versions = report.traffic["model"], int(report.settings["updates"])
    of_a_task, of_a_model = sent["bytes"] / sent["messages"], 8.0 * n_features
    return {
        "bytes": of_a_task / (HEADER_BYTES + of_a_model + 8.0 * rate * n / workers),
        "table": of_a_task / (of_a_model * versions),
        "alive": report.settings["versions_alive"],
        "predicted": workers * math.log(n / workers) / rate,
    }


def _waits_grow(found: Found) -> bool:
    """Whether waiting times in rounds grow with the delay, of all methods that were measured."""
    return all(
        found[f"{one} {LAWS[-1]}"] > found[f"{one} {LAWS[0]}"] + 5.0
        for one in ("sgd", "saga")
        if f"{one} {LAWS[0]}" in found
    )


def _waits_stay(found: Found) -> bool:
    """Whether asynchronous waiting times were measured, and do not grow with the delay."""
    return all(
        f"{one} {LAWS[0]}" in found
        and found[f"{one} {LAWS[-1]}"] < 1.2 * found[f"{one} {LAWS[0]}"] + 0.5
        for one in ("asgd", "asaga")
    )


def times_by_delay(method: str, rounds: str) -> dict[str, ClaimNumber]:
    """List times by delay: of an asynchronous method, printed as constant, and of one in rounds."""
    return {
        f"{one} {law}": ClaimNumber(
            f"{WRITTEN[one]}'s seconds to the target, delay {delay_of(law)} over no delay", printed
        )
        for one, printed in ((method, 1.0), (rounds, None))
        for law in LAWS[1:]
    }


def delay_of(law: str) -> str:
    """Format a controlled delay."""
    return f"{float(law.removeprefix('cds:')):.0%}"


def _is_within(key: str, least: float, most: float, found: Found) -> bool:
    return least <= found[key] <= most


def _is_level(method: str, rounds: str, found: Found) -> bool:
    """Whether the times in rounds grow with the delay, and the asynchronous times do not."""
    low, middle, high = (found[f"{rounds} {law}"] for law in LAWS[1:])
    level = max(found[f"{method} {law}"] for law in LAWS[1:]) < 1.1
    return level and low < middle < high and high > 1.2


def _is_slowed_less(method: str, rounds: str, found: Found) -> bool:
    """Whether the largest delay slows the rounds down, and the asynchronous method less."""
    return found[f"{rounds} {LAWS[-1]}"] > max(1.0, found[f"{method} {LAWS[-1]}"])


on_eight = functools.partial(Claim, workload=EIGHT, clock=BOTH, seconds=(9, 600))
on_cluster = functools.partial(Claim, workload=CLUSTER, clock=BOTH, seconds=(9, 900))

CLAIMS = (
    Claim(
        name="async-1",
        source=f"{PAPER}, figure 2",
        says="SGD in synchronous rounds is as fast as the SGD of Spark's library MLlib.",
        workload="4,000 x 200 dense rows, squared error; rounds of one worker against a plain "
        "NumPy loop on the same draws",
        numbers={
            "difference": ClaimNumber("largest difference between a parameter and the loop's"),
            "round": ClaimNumber("milliseconds of a round, one worker"),
            "loop": ClaimNumber("milliseconds of the loop's round"),
            "two": ClaimNumber("milliseconds of a round, two workers", "as MLlib"),
            "mllib": ClaimNumber("milliseconds of MLlib's round, two workers"),
        },
        measure=rounds_by_hand,
        agrees=lambda x: x["difference"] < 1e-12 and "mllib" in x and near(x["two"], x["mllib"]),
        when="parameters agree to 1e-12, and a round of two workers takes as long as MLlib's to "
        "within a fifth",
        partly=lambda x: x["difference"] < 1e-12 and x["two"] < x.get("mllib", math.inf),
        verdict=IN_PART,
        seconds=(1, 60),
        why="Our round is faster than MLlib's: most of the time of MLlib's round is Spark's "
        "dispatch of tasks. In the paper both methods run on Spark. MLlib's round is measured if "
        "pyspark and Java are installed.",
        clock=REAL,
    ),
    on_eight(
        name="async-2",
        source=f"{PAPER}, figure 3",
        says="If one worker is delayed by 100 %, ASGD is up to twice as fast as SGD in rounds.",
        numbers={
            law: ClaimNumber(
                f"SGD's seconds to the target over ASGD's, delay {delay_of(law)}", printed
            )
            for law, printed in zip(LAWS, (None, None, None, "up to 2"), strict=True)
        },
        measure=ahead,
        agrees=lambda x: near(x[LAWS[-1]], 2.0) and x[LAWS[-1]] > 1.15 * x[LAWS[0]],
        when="with a delay of 100 % the ratio is within a fifth of 2, and above 1.15 times the "
        "ratio without a delay",
        partly=lambda x: x[LAWS[-1]] > max(1.0, x[LAWS[0]]),
        why="With tasks of equal length the ratio can be at most 1.875: in the time of two tasks, "
        "SGD completes 8 tasks and ASGD 15. Real tasks differ in length, and each round waits for "
        "its longest task. Hence ASGD can gain more.",
    ),
    *(
        on_eight(
            name=name,
            runs_of="async-2",
            source=f"{PAPER}, {figures}",
            says=f"A delayed worker does not slow {WRITTEN[f'a{one}']} down; it slows "
            f"{WRITTEN[one]} in rounds down.",
            numbers=times_by_delay(f"a{one}", one),
            measure=later,
            agrees=functools.partial(_is_level, f"a{one}", one),
            partly=functools.partial(_is_slowed_less, f"a{one}", one),
            when=f"with every delay {WRITTEN[f'a{one}']} takes less than 1.1 times its seconds "
            f"without delay; {WRITTEN[one]}'s seconds grow with the delay, to more than 1.2 times "
            "those without delay at 100 %",
            why=why,
        )
        for name, figures, one, why in (
            (
                *("async-3", "figures 3 and 5", "sgd"),
                "If one of 8 workers has half its speed, 8 workers complete as many tasks as 7.5 "
                "workers without delay. With tasks that only sleep, ASGD would take 1.07 times as "
                "long.",
            ),
            ("async-4", "figure 5", "saga", ""),
        )
    ),
    on_eight(
        name="async-5",
        runs_of="async-2",
        source=f"{PAPER}, figures 4 and 6",
        says="With synchronous rounds, the workers' waiting time grows with the delay; with "
        "asynchronous tasks, it does not.",
        numbers={
            f"{method} {law}": ClaimNumber(
                f"ms that a worker waits per round, {WRITTEN[method]}, delay {delay_of(law)}"
            )
            for method in METHODS
            for law in (LAWS[0], LAWS[-1])
        },
        measure=waits,
        agrees=lambda x: _waits_grow(x) and _waits_stay(x),
        when="the waiting time of ASGD and ASAGA grows by less than a fifth plus 0.5 ms, and the "
        "waiting time of SGD and SAGA by more than 5 ms",
        partly=_waits_grow,
        verdict_quick=IN_PART,
        why="Quick runs measure only the waiting time of SGD. On a virtual clock a task's length "
        "does not depend on the method, so the waiting time of SAGA is the same. An asynchronous "
        "worker has nothing to wait for, since dispatch takes no virtual time.",
    ),
    *(
        on_cluster(
            name=name,
            runs_of=of,
            source=f"{PAPER}, figure {figure}",
            says=f"With the stragglers of a production cluster, {WRITTEN[f'a{one}']} is {times} "
            f"times as fast as {WRITTEN[one]} in rounds.",
            numbers={
                "free": ClaimNumber(
                    f"{WRITTEN[one]}'s seconds to the target over {WRITTEN[f'a{one}']}'s"
                ),
                "22": ClaimNumber(
                    f"the same, if {WRITTEN[f'a{one}']} dispatches tasks when 22 workers wait",
                    f"{times}",
                ),
            },
            measure=functools.partial(in_production, one),
            agrees=functools.partial(_is_within, "22", least, 4.0),
            when="if tasks are dispatched when 22 workers wait, as in the paper, the ratio is "
            f"{times}",
            partly=lambda x: min(x.values()) > 1.0,
            verdict=verdict,
            verdict_quick=IN_PART,
            why="With tasks that only sleep, the ratio can be at most 7.0. On a cluster both "
            "methods have other costs; on a virtual clock they have none. If tasks are dispatched "
            "when 22 workers wait, quick runs have a ratio of 4.5 for ASGD and of 4.3 for ASAGA. "
            + more,
        )
        for name, of, figure, one, least, times, verdict, more in (
            (
                *("async-6", "", "7", "sgd", 3.0, "3 to 4", AGREES),
                "If dispatch does not wait for 22 workers, the ratio is larger than printed.",
            ),
            (
                *("async-7", "async-6", "8", "saga", 3.5, "3.5 to 4", IN_PART),
                "On these two cores the ratio is below the printed range if dispatch waits for 22 "
                "workers, and above it otherwise.",
            ),
        )
    ),
    on_cluster(
        name="async-8",
        runs_of="async-6",
        source=f"{PAPER}, table III",
        says="With synchronous rounds, workers wait 2 to 6 times as long as with asynchronous "
        "tasks.",
        numbers={
            "saga round": ClaimNumber("SAGA's wait per round over ASAGA's", "4.4 and 6.0"),
            "sgd round": ClaimNumber("SGD's wait per round over ASGD's", "1.8 and 3.7"),
            "saga update": ClaimNumber("SAGA's wait per update of the model over ASAGA's"),
            "sgd update": ClaimNumber("SGD's wait per update of the model over ASGD's"),
        },
        measure=table_3,
        agrees=lambda x: (
            "saga round" in x and 4.4 <= x["saga round"] <= 6.0 and 1.8 <= x["sgd round"] <= 3.7
        ),
        when="the ratio of the waits per round is 4.4 to 6.0 for SAGA and 1.8 to 3.7 for SGD, as "
        "printed",
        partly=lambda x: min(x.get("saga round", math.inf), x["sgd round"]) > 1.0,
        verdict=IN_PART,
        why="The ratios exceed the printed ones because asynchronous waits are shorter than on a "
        "cluster. For both methods of a ratio, a round is one task of each of the 32 workers. In "
        "synchronous rounds, workers wait for the slowest of the 32. In asynchronous runs, a "
        "worker waits until 22 workers wait. On a virtual clock it waits for nothing else; on a "
        "cluster it also waits for the dispatch of tasks. Per update of the model the ratio is 32 "
        "times as large: a synchronous round makes one update, 32 asynchronous tasks make 32. "
        "Quick runs leave SAGA out: on a virtual clock its tasks are as long as SGD's.",
    ),
    Claim(
        name="async-9",
        source=f"{PAPER}, sections III to V",
        says="A history of model versions is cheap: with a task of ASAGA, no model is sent except "
        "the newest.",
        workload="4,000 x 200 dense rows, 8 workers on a virtual clock, tasks on a tenth of their "
        "rows",
        numbers={
            "bytes": ClaimNumber(
                "bytes of a task, over the bytes of one model and one number for each row"
            ),
            "table": ClaimNumber("bytes of a task, over the bytes of all versions of the model"),
            "alive": ClaimNumber("versions stored at the end"),
            "predicted": ClaimNumber(
                "expected stored versions: P log(n / P) / rate (coupon collector)"
            ),
        },
        measure=history,
        agrees=lambda x: 0.95 < x["bytes"] < 1.05 and 0.5 < x["alive"] / x["predicted"] < 1.5,
        when="the bytes of a task are within 5 % of one model and one number for each row, and "
        "the stored versions within half of the expected number",
        seconds=(2, 60),
    ),
)
