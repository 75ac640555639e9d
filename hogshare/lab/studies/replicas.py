"""Replicas on graphs as measured in ASAP (Kadav and Kruus 2016): bytes, rounds, waits.

Each function measures one run, or a pair of runs, with one seed, and returns numbers. Times and
bytes are on a virtual clock, with two exceptions: the workers of `consistency` are processes, and
those of `of_digits` may be threads that sleep.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare import problems
from hogshare.datasets import zipf_classification
from hogshare.engine.stops import Stop
from hogshare.planes import Replicas
from hogshare.problems.protocol import RowProblem
from hogshare.report import Report
from hogshare.rules.steps import StepSize
from hogshare.simulation import Constant, Link, LogNormal, Network, Simulator
from hogshare.solvers import solve
from hogshare.stragglers import LogNormal as Late

SYNCS = ("notify-ack", "bsp", "async")
N_NUMBERS = 47_236  # length of a message in figure 8
EXCESS = 0.05  # relative sub-optimality of the target
ROUNDS_PER_EPOCH = 16
JITTER, SIGMA = 0.2, 0.5  # sigma of log-normal block times: nearly equal, and uneven
PATIENCE = 10  # factor of the epochs for a method that the paper says does not converge
NOISE = 1.0  # noise of the labels that shares are sorted by, in labels
FIVE = ((0, 1), (1, 2), (2, 0), (3, 4), (4, 3), (2, 3), (4, 0))  # W1 to W3 in a ring, W4 and W5
SLOW_LAST_TWO = (1.0, 1.0, 1.0, 3.0, 3.0)


def _even(w: np.ndarray, rows: np.ndarray, out: np.ndarray) -> float:
    """Take a step that depends on the rows and is equal for all values: it shows torn messages."""
    steps = float(np.cos(rows * 1.7).sum())
    out += steps + 0.01 * len(rows) * w[0]
    return steps * float(w[0])


def consistency(sync: str, reduces: int, seed: int, n_numbers: int = N_NUMBERS) -> dict[str, float]:
    """Measure figure 8: how many of seven inputs the reduces of eight processes use.

    ``all`` is the share of reduces with all seven inputs, ``five`` the share with five or more.
    ``mixed`` is 1 if the model mixes the values of two messages, which must never happen.
    """
    problem = problems.user(_even, 8 * reduces, n_numbers)
    report = solve(
        problem,
        plane=Replicas("all", every=1, sync=sync, final=7),
        n_workers=8,
        runtime="processes",
        step=StepSize("constant", 0.01),
        block=1,
        stop=1,
        seed=seed,
    )
    assert report.reduces is not None
    used = report.reduces.consistency.sum(axis=0) / report.reduces.consistency.sum()
    mixed = bool((np.diff(report.model.params) != 0.0).any())
    return {"all": float(used[7]), "five": float(used[5:].sum()), "mixed": float(mixed)}


@functools.cache
def sparse(n_shares: int = 1, n_rows: int = 20_000) -> tuple[RowProblem, float]:
    """Return a logistic problem on Zipf-distributed words, and the target of its objective.

    The result is cached. `n_shares` is the number of workers' shares, which are roughly sorted by
    label; with 1 all shares are alike.
    """
    X, y = zipf_classification(n_samples=n_rows, n_features=2_000, dtype=np.float32)
    if n_shares > 1:
        noise = np.random.default_rng(0).normal(size=len(y))
        order = np.argsort(y + NOISE * noise)[: len(y) // n_shares * n_shares]
        order = order.reshape(n_shares, -1).T.ravel()
        X, y = X[order], y[order]
    problem = problems.linear(X, y, alpha=1.0 / X.shape[0], fit_intercept=False)
    report = solve(problem, rule="saga", n_workers=1, runtime="caller", stop=100, seed=0, trace=1)
    return problem, (1.0 + EXCESS) * float(report.objective)  # type: ignore[arg-type]


@dataclass(frozen=True)
class SimulatedMachines:
    """Workers on a virtual clock, and the links between them.

    block_seconds, sigma : mean and spread of a worker's computing between two reduces
    bandwidth : bytes per second of each link; None: messages take no time
    """

    n_workers: int
    block_seconds: float = 1.0
    sigma: float = JITTER
    bandwidth: float | None = None

    def clock(self, seed: int) -> Simulator:
        """Return the clock of a run."""
        law = LogNormal(self.block_seconds, self.sigma)
        if self.bandwidth is None:
            return Simulator(block_time=law, seed=seed)
        network = Network(Link(bandwidth=self.bandwidth))
        return Simulator(block_time=law, network=network, seed=seed)


def to_target(
    problem: RowProblem,
    target: float,
    graph: str,
    machines: SimulatedMachines,
    seed: int,
    *,
    sync: str = "notify-ack",
    step: float = 1.0 / 6.0,
    epochs: int = 8,
) -> dict[str, float]:
    """Return ``rounds``, ``megabytes`` of a worker and virtual ``seconds`` to a target.

    The numbers are infinite if the target is not reached.

    step : step size of the averaged model; a worker's step size is `step` times the number of
        workers, because the workers' models are averaged
    """
    n = machines.n_workers
    every = max(1, problem.n_rows // (n * ROUNDS_PER_EPOCH))
    report = solve(
        problem,
        plane=Replicas(graph, every=every, sync=sync),
        n_workers=n,
        runtime=machines.clock(seed),
        step=StepSize("constant", step * n),
        stop=Stop(epochs=epochs, tol=None),
        trace=ROUNDS_PER_EPOCH,
        seed=seed,
    )
    return _counted(report, target, n)


def _counted(report: Report, target: float, n_workers: int) -> dict[str, float]:
    """Scale the totals of a run to its part up to the target; traffic per block is constant."""
    assert report.trace is not None and report.reduces is not None
    blocks = report.trace.first(target, "blocks")
    seconds = report.trace.first(target, "seconds")
    if blocks is None or seconds is None:
        return {"rounds": math.inf, "megabytes": math.inf, "seconds": math.inf}
    part = blocks / sum(worker["blocks"] for worker in report.workers)
    return {
        "rounds": part * int(report.reduces.rounds.max()),
        "megabytes": part * report.reduces.bytes / n_workers / 1e6,
        "seconds": seconds,
    }


def of_digits(sync: str, seed: int, *, base_seconds: float | None) -> Report:
    """Run 25 workers on the root graph with unequal blocks, on digits: a run of figure 10.

    ASYNC runs `PATIENCE` times the epochs of the others. It counts as not converging only if it
    misses the target in all these epochs.

    base_seconds : mean sleep of a block, with workers as threads; None: run on a virtual clock
    """
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    who: dict[str, Any] = {"runtime": Simulator(block_time=LogNormal(1.0, SIGMA), seed=seed)}
    if base_seconds is not None:
        who = {"runtime": "threads", "stragglers": Late(SIGMA, base=base_seconds, seed=seed)}
    return solve(
        problems.linear(X / 16.0, y >= 5, alpha=1e-3),
        plane=Replicas("root", every=4, sync=sync),
        n_workers=25,
        step=StepSize("constant", 0.05),
        stop=Stop(epochs=8 * (PATIENCE if sync == "async" else 1), tol=None),
        trace=8,
        seed=seed,
        **who,
    )


def of_network(sync: str, seed: int, epochs: int = 20) -> dict[str, float]:
    """Measure figure 9 on a small network: rows per virtual second, and the final accuracy.

    ASYNC does not wait at the ends of epochs. Its run ends when the last worker has done its share
    of `epochs` epochs; all rows that the workers have done by that time are counted.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    split = train_test_split(X / 16.0, y, test_size=0.25, random_state=seed, stratify=y)
    rows, test, labels, truth = split
    problem = problems.network(rows, labels, (64,))
    report = solve(
        problem,
        rule="sgd",
        plane=Replicas("root", every=16, sync=sync),
        n_workers=8,
        runtime=Simulator(block_time=LogNormal(1.0, SIGMA), seed=seed),
        step=StepSize("constant", 0.5),
        block=16,
        stop=Stop(epochs=epochs, tol=None),
        seed=seed,
    )
    assert report.run_seconds is not None
    found = np.asarray(problem.predict(report.model.params, test))
    return {
        "rows": sum(int(worker["rows"]) for worker in report.workers) / report.run_seconds,
        "accuracy": float((found == truth).mean()),
    }


def five_nodes(sync: str, rounds: int) -> np.ndarray:
    """Measure figures 3 and 4: the virtual waits of five workers; two are three times as slow.

    W1, W2 and W3 send along a ring. W4 and W5 send to each other. W3 also sends to W4, and W5 also
    sends to W1. The result has shape (5, 3); its columns are the seconds of waiting for messages,
    for acknowledgements and for the barrier.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5 * rounds, 3))
    graph = np.zeros((5, 5), bool)
    graph[tuple(np.transpose(FIVE))] = True
    report = solve(
        problems.linear(X, (X[:, 0] > 0.0).astype(int), alpha=0.01),
        plane=Replicas(graph, every=1, sync=sync),
        n_workers=5,
        runtime=Simulator(block_time=Constant(1.0), slowness=SLOW_LAST_TWO),
        step=StepSize("constant", 0.01),
        stop=Stop(epochs=1, tol=None),
        block=1,
        seed=0,
    )
    assert report.reduces is not None
    return np.asarray(report.reduces.waits)


def five_nodes_by_hand(rounds: int) -> np.ndarray:
    """Compute the waits of NOTIFY-ACK from the protocol, with one message under way per edge.

    A worker sends when it has computed and its out-neighbours have used its last message. It starts
    a round when all its in-neighbours have sent. The result has the shape of `five_nodes`.
    """
    begun, waits = np.zeros(5), np.zeros((5, 3))
    for k in range(rounds):
        done = begun + np.array(SLOW_LAST_TWO)
        used = [max((begun[j] for i, j in FIVE if i == me), default=0.0) for me in range(5)]
        sent = np.maximum(done, used) if k else done
        heard = [max(sent[me], *(sent[i] for i, j in FIVE if j == me)) for me in range(5)]
        waits[:, 1] += sent - done
        waits[:, 0] += heard - sent
        begun = np.array(heard)
    return waits
