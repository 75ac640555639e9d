"""The replay of a recorded run on one core."""

from __future__ import annotations

import dataclasses
from typing import Any

from hogshare.engine.event_log import replay_recording
from hogshare.problems.protocol import Problem
from hogshare.report import Report
from hogshare.solvers.choice_names import problem_of
from hogshare.system.callers import warn
from hogshare.system.interrupts import leaves_numpy


class ApproximateReplay(UserWarning):
    """A replayed model is only approximately the run's model."""


@leaves_numpy
def replay(problem: Problem, report: Report) -> Any:
    """Replay a recorded run in this thread.

    Parameters
    ----------
    problem : LinearProblem or GradientProblem
        The problem of the run.
    report : Report
        The report of ``solve(..., record=True)``.

    Returns
    -------
    Model or Params
        With the `Master` plane, the result is the run's model, bit for bit. On one vector without
        locks, it is only approximately the run's model, and a warning says so.

    Raises
    ------
    TypeError
        If `report` is not a report. (The recording of a report is not sufficient.)
    ValueError
        If the report has no recording, or the problem has another shape.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import SGD, Master, problems, replay, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y)
    >>> run = {"rule": SGD(batch=8), "plane": Master(2), "runtime": "threads", "n_workers": 2}
    >>> report = solve(problem, record=True, **run)
    >>> bool((replay(problem, report).coef == report.model.coef).all())
    True
    """
    if not isinstance(report, Report):
        raise TypeError(
            "replay takes the report of a run, replay(problem, report); got "
            f"{type(report).__name__}."
        )
    problem = problem_of(problem)
    recording = report.recording
    if recording is None:
        raise ValueError(
            "This report has no recording: call solve with record=True. (A run in which a worker "
            "or the master has died has no recording.)"
        )
    given, was = problem.facts(), report.settings["problem"]
    sizes = [name for name in ("rows", "features", "columns", "params") if name in was]
    wanted = [was[name] for name in sizes]
    if [given.get(name) for name in sizes] != wanted:
        raise ValueError(
            f"The run was on {', '.join(sizes)} = {wanted}; this problem has "
            f"{[given.get(name) for name in sizes]}."
        )
    if not recording.exact:
        warn(
            "On one vector without locks only the order of blocks is recorded, but workers wrote "
            "it row by row: the replayed model is only approximately the run's.",
            ApproximateReplay,
        )
    model = dataclasses.replace(replay_recording(problem, recording).model(), t=report.model.t)
    return problem.view(dataclasses.replace(model, memory=getattr(report.model, "memory", None)))
