"""Replicas on graphs against the figures of ASAP (Kadav and Kruus 2016).

consistency  how many of seven inputs reduces have used, eight processes (figure 8)
bytes        to the same objective by graph and number of workers, on a virtual clock (5, 6)
ring         rounds and bytes of 25 workers on a ring and on the root graph (7)
time         25 sleeping threads, log-normal blocks, by way of waiting (10)
death        what a worker costs that is killed in a run of 200 rounds
network      rows per second and accuracy of a network on digits, by way of waiting (9)

    python bench/replicas.py --json bench/results/replicas.json
    python bench/replicas.py --only bytes,ring
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from summaries import store

from hogshare import Replicas, Report, Simulator, StepSize, datasets, problems, solve, stragglers
from hogshare.simulation import LogNormal

SYNCS = ("notify-ack", "bsp", "async")
N_NUMBERS = 47_236  # of a message of the figure
EXCESS = 0.05  # relative sub-optimality that bytes are counted to
SIGMA = 0.5  # of the log-normal law
BASE_MS = 20.0
NOISE = 1.0  # of the labels by which shares are sorted, in labels


def even(w: np.ndarray, rows: np.ndarray, out: np.ndarray) -> float:
    """A step of every row's own, the same for all numbers, so that half a message shows."""
    steps = float(np.cos(rows * 1.7).sum())
    out += steps + 0.01 * len(rows) * w[0]
    return steps * float(w[0])


def consistency(options: argparse.Namespace) -> dict[str, Any]:
    """Figure 8: NOTIFY-ACK 7 of 7 in all; five or more: BSP in 77 %, ASYNC in 39 %."""
    found = {}
    for sync in SYNCS:
        problem = problems.user(even, 8 * options.reduces, N_NUMBERS)
        plane = Replicas("all", every=1, sync=sync, final=7)
        run = {"step": StepSize("constant", 0.01), "block": 1, "seed": 0, "stop": 1}
        report = solve(problem, plane=plane, n_workers=8, runtime="processes", **run)
        used = report.consistency.sum(axis=0) / report.consistency.sum()
        found[sync] = {
            "reduces": int(report.consistency.sum()),
            "all seven": float(used[7]),
            "five or more": float(used[5:].sum()),
            "torn": int(report.reduces.torn.sum()),
            "missing": int(report.reduces.missing.sum()),
            "a model of two messages": bool((np.diff(report.model.params) != 0.0).any()),
            "seconds": report.run_seconds,
        }
    return found


def sparse(n_shares: int = 1) -> tuple[Any, float]:
    """The sparse problem, and what its objective comes down to.

    n_shares : so many workers, who are dealt rows by turns, get rows roughly sorted by label
    """
    X, y = datasets.zipf_classification(n_samples=20_000, n_features=2_000, dtype=np.float32)
    if n_shares > 1:
        noise = np.random.default_rng(0).normal(size=len(y))
        order = np.argsort(y + NOISE * noise)[: len(y) // n_shares * n_shares]
        order = order.reshape(n_shares, -1).T.ravel()
        X, y = X[order], y[order]
    problem = problems.linear(X, y, alpha=1.0 / X.shape[0], fit_intercept=False)
    best = solve(problem, rule="saga", stop=200, seed=0, trace=1).objective
    return problem, (1.0 + EXCESS) * best


def to_target(problem: Any, target: float, graph: str, n: int, options: Any) -> dict[str, Any]:
    """Rounds and bytes of a worker to the target, on a virtual clock; medians over seeds."""
    found = []
    for seed in range(options.rounds if n < 20 else 1):
        every = max(1, problem.n_rows // (n * 16))
        report = solve(
            problem,
            plane=Replicas(graph, every=every),
            n_workers=n,
            runtime=Simulator(block_time=LogNormal(1.0, 0.2), seed=seed),
            step=StepSize("constant", options.step * n),
            stop=options.epochs,
            trace=16,
            seed=seed,
        )
        blocks = report.trace.first(target, "blocks")
        part = np.inf if blocks is None else blocks / sum(w["blocks"] for w in report.workers)
        told = report.reduces
        found.append((part * int(told.rounds.max()), part * told.bytes / n / 1e6))
    rounds, megabytes = (statistics.median(one) for one in zip(*found, strict=True))
    return {"rounds": rounds, "MB a worker": megabytes}


def bytes_by_graph(options: argparse.Namespace) -> dict[str, Any]:
    """Figures 5 and 6: all-to-all against root, printed 1.5 at 4 and 9.5 at 64 workers."""
    problem, target = sparse()
    found: dict[str, Any] = {"target": target}
    for n in (4, 8, 20, 64):
        graphs = {g: to_target(problem, target, g, n, options) for g in ("all", "root")}
        ratio = graphs["all"]["MB a worker"] / graphs["root"]["MB a worker"]
        found[f"{n} workers"] = {**graphs, "all / root": ratio, "degrees": (n - 1) / 2.0}
    return found


def ring(options: argparse.Namespace) -> dict[str, Any]:
    """Figure 7: printed 50,433 MB a node on a ring, 44,351 on the root graph."""
    longer = argparse.Namespace(
        **{**vars(options), "epochs": 15 * options.epochs, "step": 0.12 * options.step}
    )
    found = {}
    for kind, n_shares in (("alike", 1), ("sorted", 25)):
        problem, target = sparse(n_shares)
        graphs = {g: to_target(problem, target, g, 25, longer) for g in ("ring", "root")}
        ratios = {
            f"{what}, ring / root": graphs["ring"][what] / graphs["root"][what]
            for what in ("rounds", "MB a worker")
        }
        found[f"shares {kind}"] = {**graphs, **ratios}
    return found


def waiting(options: argparse.Namespace) -> dict[str, Any]:
    """Figure 10: time to the target and time of a round, 25 sleeping threads, root graph."""
    X, y = load_digits(return_X_y=True)
    problem = problems.linear(X / 16.0, y >= 5, alpha=1e-3)
    law = stragglers.parse(f"lognormal:{SIGMA}", 1e-3 * BASE_MS, 0)
    runs: dict[str, list[Report]] = {sync: [] for sync in SYNCS}
    for seed in range(options.rounds):
        for sync in SYNCS:
            report = solve(
                problem,
                plane=Replicas("root", every=4, sync=sync),
                n_workers=25,
                runtime="threads",
                stragglers=law,
                step=StepSize("constant", 0.05),
                stop=8,
                trace=8,
                seed=seed,
            )
            runs[sync].append(report)
    ends = [run.trace.objective[-1] for reports in runs.values() for run in reports]
    target = max(ends) + 0.01 * (np.log(2.0) - max(ends))
    found: dict[str, Any] = {"target": target}
    for sync, reports in runs.items():
        told = [run.reduces for run in reports]
        found[sync] = {
            "s to target": statistics.median([run.seconds_to(target) or np.inf for run in reports]),
            "epochs to target": statistics.median(
                [run.epochs_to(target) or np.inf for run in reports]
            ),
            "ms of a round": statistics.median(
                [1e3 * r.run_seconds / t.rounds.mean() for r, t in zip(reports, told, strict=True)]
            ),
            "whole": statistics.median([one.whole_share for one in told]),
        }
    for what in ("s to target", "epochs to target", "ms of a round"):
        found[f"bsp / notify-ack: {what}"] = found["bsp"][what] / found["notify-ack"][what]
        found[f"async / notify-ack: {what}"] = found["async"][what] / found["notify-ack"][what]
    return found


def death(options: argparse.Namespace) -> dict[str, Any]:
    """A run of 200 rounds of which a process is killed in the middle, beside one without."""
    X, y = load_digits(return_X_y=True)
    problem = problems.linear(X / 16.0, y >= 5, alpha=1e-3)
    law = stragglers.parse("lognormal:0.2", 5e-3, 0)
    plane = Replicas("root", every=1 + len(y) // (8 * 20))
    run = {"plane": plane, "n_workers": 8, "runtime": "processes", "stop": 10, "seed": 0}
    run |= {"stragglers": law, "step": StepSize("constant", 0.05)}
    solve(problem, **{**run, "stop": 1})
    whole, hit = [], []

    def kill(after: float) -> None:
        time.sleep(after)
        workers = [c for c in psutil.Process().children(recursive=True) if c.num_threads() > 1]
        workers[-1].kill()

    for _ in range(options.rounds):
        whole.append(solve(problem, **run))
        killer = threading.Thread(target=kill, args=(0.5 * whole[-1].run_seconds,))
        killer.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hit.append(solve(problem, **run))
        killer.join()
    rounds = [int(one.reduces.rounds.max()) for one in (*whole, *hit)]
    shares = []
    for one, other in zip(whole, hit, strict=True):
        most = [max(w["blocks"] for w in report.workers) for report in (one, other)]
        shares.append(other.run_seconds / (one.run_seconds * most[1] / most[0]) - 1.0)
    return {
        "rounds": rounds,
        "seconds without": statistics.median(one.run_seconds for one in whole),
        "seconds with": statistics.median(one.run_seconds for one in hit),
        "costs, beside the rows that others take over": statistics.median(shares),
        "dead": [sum(w["state"] == "dead" for w in one.workers) for one in hit],
    }


def network(options: argparse.Namespace) -> dict[str, Any]:
    """Figure 9 on a small network: rows per virtual second, and accuracy at equal epochs."""
    X, y = load_digits(return_X_y=True)
    split = train_test_split(X / 16.0, y, test_size=0.25, random_state=0, stratify=y)
    rows, test, labels, truth = split
    problem = problems.network(rows, labels, (64,))
    found = {}
    for sync in SYNCS:
        reports = [
            solve(
                problem,
                rule="sgd",
                plane=Replicas("root", every=16, sync=sync),
                n_workers=8,
                runtime=Simulator(block_time=LogNormal(1.0, SIGMA), seed=seed),
                step=StepSize("constant", 0.5),
                block=16,
                stop=20,
                seed=seed,
            )
            for seed in range(options.rounds)
        ]
        found[sync] = {
            "rows per virtual s": statistics.median(
                [20 * len(rows) / report.run_seconds for report in reports]
            ),
            "accuracy": statistics.median(
                [float((predicted(problem, r, test) == truth).mean()) for r in reports]
            ),
            "whole": statistics.median([report.reduces.whole_share for report in reports]),
        }
    return found


def predicted(problem: Any, report: Report, rows: np.ndarray) -> np.ndarray:
    """Classes by a network's model."""
    return np.asarray(problem.predict(report.model.params, rows))


KINDS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "consistency": consistency,
    "bytes": bytes_by_graph,
    "ring": ring,
    "time": waiting,
    "death": death,
    "network": network,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--step", type=float, default=1.0 / 6.0, help="times workers")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reduces", type=int, default=500, help="of each of eight workers")
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for name in options.only.split(","):
        results[name] = KINDS[name](options)
        print(name)
        for what, value in results[name].items():
            print(f"    {what}: {value}", flush=True)
    if options.json:
        store(options.json, results)


if __name__ == "__main__":
    main()
