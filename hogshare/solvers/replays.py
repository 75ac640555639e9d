"""Doing a recorded run again on one core."""

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
    """A replay that is near the run, not equal to it."""


@leaves_numpy
def replay(problem: Problem, report: Report) -> Any:
    """Do a run that was recorded again, in this thread.

    Parameters
    ----------
    problem : LinearProblem or GradientProblem
        The one that was solved.
    report : Report
        Of ``solve(..., record=True)``.

    Returns
    -------
    Model or Params
        With the `Master` plane the run's own, bit for bit. On one vector without locks only near
        it: a warning says so.

    Raises
    ------
    TypeError
        If what is given is no report; its recording alone is not enough.
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
            "This report has no recording: solve with record=True. (The recording of a run in "
            "which a worker or the master has died is not kept.)"
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
            "On one vector without locks only the order of blocks is known, and workers wrote it "
            "row by row: the replayed model is near the run's, not equal to it.",
            ApproximateReplay,
        )
    model = dataclasses.replace(replay_recording(problem, recording).model(), t=report.model.t)
    return problem.view(dataclasses.replace(model, memory=getattr(report.model, "memory", None)))
