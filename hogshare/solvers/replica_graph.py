"""ASAP (Kadav and Kruus 2016): stochastic reduce, replicas averaged over a sparse graph."""

from __future__ import annotations

from typing import Any, Never

import numpy as np

from hogshare import topology
from hogshare.barriers import Barrier
from hogshare.engine.stops import Stop
from hogshare.planes.replicas import Replicas
from hogshare.problems.protocol import Problem
from hogshare.report import Report
from hogshare.rules.steps import StepSize
from hogshare.solvers.choice_names import problem_of
from hogshare.solvers.papers import algorithm, stop_after
from hogshare.solvers.solver import solve


@algorithm(Replicas)
def stochastic_reduce(
    problem: Problem,
    *others: Never,
    graph: Any = "root",
    n_workers: int = -1,
    every: str | int = "auto",
    sync: str = "notify-ack",
    queue: int = 1,
    send: str = "model",
    fold: str = "mean",
    step: StepSize | float | str | None = None,
    epochs: int = 10,
    barrier: Barrier | str | None = None,
    stop: Stop | int | None = None,
    theory: bool = True,
    **settings: Any,
) -> Report:
    """Minimize by ASAP: a model for each worker, averaged with the models of a few others.

    Parameters
    ----------
    barrier : Barrier, str or None, default=None
        An additional barrier of `hogshare.barriers`, such as ``"pssp:10,4"``. With
        ``sync="async"``, workers wait only at this barrier.
    theory : bool, default=True
        Whether `Report.theory` has the predictions from the graph: degree, spectral gap, the number
        of rounds until workers agree, and the number of rounds of the run.
    **settings
        Further arguments of `hogshare.solve`: `rule`, `runtime`, `trace`, `seed`, ..., and of
        `Replicas`: `rows`, `weights`, `final`, `patience`.

    Returns
    -------
    Report
        `Report.reduces` describes the reduces, and `Report.consistency` says how many inputs they
        used.

    Raises
    ------
    ValueError
        If a setting is out of its range, the graph is not connected or is for another number of
        workers, or the run diverges.

    Notes
    -----
    Source: Kadav and Kruus, "ASAP: asynchronous approximate data-parallel computation", 2016,
    sections 3 (stochastic reduce) and 4 (NOTIFY-ACK). Departures: see `Replicas`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import problems, stochastic_reduce
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y, alpha=0.01)
    >>> run = {"n_workers": 6, "every": 16, "seed": 0, "runtime": "simulator"}
    >>> report = stochastic_reduce(problem, graph="root", **run)
    >>> report.reduces.whole_share, report.theory["degree"], round(report.theory["gap"], 3)
    (1.0, 2, 0.333)
    """
    problem = problem_of(problem, others)
    own = ("rows", "weights", "final", "patience")
    plane = Replicas(
        graph=graph,
        every=every,
        sync=sync,
        queue=queue,
        send=send,
        fold=fold,
        **{name: settings.pop(name) for name in own if name in settings},
    )
    report = solve(
        problem,
        plane=plane,
        n_workers=n_workers,
        step=step,
        barrier=barrier,
        stop=stop_after(epochs, stop),
        **settings,
    )
    if theory and report.reduces is not None:
        report.theory = promises(plane, report)
    return report


def promises(plane: Replicas, report: Report) -> dict[str, Any]:
    """Return the predictions from a graph for a finished run, and the run's own numbers."""
    weights = plane.weights_of(report.n_workers)
    rounds = topology.predicted_rounds(weights)
    had, whole = int(report.reduces.rounds.min()), report.reduces.whole_share
    found = topology.check(weights[0])
    words = [
        f"the graph is {found.sentence}"
        if len(weights) == 1
        else f"the graph cycles through {len(weights)} graphs"
    ]
    if np.isfinite(rounds):
        words.append(
            f"disagreement of workers falls to a thousandth in {rounds:.0f} rounds; the slowest "
            f"worker had {had}"
        )
    if whole < 1.0:
        words.append(f"only {whole:.1%} of all reduces had every input")
    return {
        "gap": float(found.gap),
        "degree": max(
            int(topology.out_degrees(one).max())
            for one in topology.graphs_of(plane.graph, report.n_workers)
        ),
        "rounds_to_agreement": rounds,
        "rounds": had,
        "sentence": "; ".join(words) + ".",
    }
