"""ASYNC's methods as programs on `hogshare.AsyncContext`: SGD and ASGD, SAGA and ASAGA."""

from __future__ import annotations

from functools import partial
from operator import add
from typing import Any, Never

import numpy as np

from hogshare.problems.protocol import Problem
from hogshare.report import Report
from hogshare.solvers.task_runs import TaskRun, by_ranks
from hogshare.tasks import steps
from hogshare.tasks.plans import DifferenceOf


@by_ranks
def sgd_rounds(
    problem: Problem,
    *others: Never,
    workers: Any = "processes",
    n_workers: int | None = None,
    rate: float = 0.1,
    step: Any = None,
    epochs: float = 10,
    **settings: Any,
) -> Report:
    """Minimize by synchronous SGD: one step after each round of tasks, by all of their results.

    Parameters
    ----------
    step : float or callable, optional
        A number is the first step size. Step sizes are divided by the square root of the round's
        number, as in the paper. A callable is a rule of `hogshare.tasks.steps`. By default, for
        linear problems, the number is 1 divided by the largest curvature of a row.

    Notes
    -----
    Source: Soori et al. 2019 (ASYNC), Algorithm 1. This algorithm is the paper's baseline: MLlib's
    mini-batch SGD.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import problems
    >>> from hogshare import sgd_rounds
    >>> X, y = load_diabetes(return_X_y=True)
    >>> problem = problems.linear(scale(X), scale(y), loss="squared_error")
    >>> report = sgd_rounds(problem, workers="threads", n_workers=2, trace=1)
    >>> bool(report.objective < 0.3 < report.trace.objective[0])
    True
    """
    settings = {"barrier": None, **settings, "workers": workers, "n_workers": n_workers}
    with TaskRun((problem, others), epochs=epochs, rate=rate, **settings) as run:
        size = run.step(step, steps.falling, share=1.0)
        w = run.start()
        while run.goes_on():
            run.points.map(run.problem, run.ac.broadcast(w)).reduce(add)
            results = run.ac.collect_all()
            gradient = sum(result.value for result in results)
            count = sum(result.n_samples for result in results)
            w = w - size(run.updates, results[0]) * gradient / count
            run.record(w, *results)
        return run.report("SGD in rounds", w)


@by_ranks
def asgd(
    problem: Problem,
    *others: Never,
    workers: Any = "processes",
    n_workers: int | None = None,
    rate: float = 0.1,
    step: Any = None,
    epochs: float = 10,
    barrier: Any = None,
    **settings: Any,
) -> Report:
    """Minimize by asynchronous SGD: one step by each task, first come first served.

    Parameters
    ----------
    step : float or callable, optional
        A number is divided by the number of workers, and by the square root of the number of
        updates per worker, as in the paper. A callable is a rule of `hogshare.tasks.steps`, such as
        ``steps.damped(steps.constant(0.1))``. The default is the same as in `sgd_rounds`.

    Notes
    -----
    Source: Soori et al. 2019 (ASYNC), Algorithm 2. The sum of a task is divided by the number of
    rows that the task has drawn. In places, the authors' code omits this division.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import Throttled, problems
    >>> from hogshare import asgd
    >>> X, y = load_diabetes(return_X_y=True)
    >>> problem = problems.linear(scale(X), scale(y), loss="squared_error")
    >>> report = asgd(problem, workers="threads", n_workers=2, barrier=Throttled(1), trace=1)
    >>> bool(report.objective < 0.3 < report.trace.objective[0])
    True
    """
    settings = {**settings, "workers": workers, "n_workers": n_workers, "barrier": barrier}
    with TaskRun((problem, others), epochs=epochs, rate=rate, **settings) as run:
        of_number = partial(steps.falling_per_worker, n_workers=run.ac.n_workers)
        size = run.step(step, of_number, share=1.0)
        w = run.start()
        while run.goes_on():
            run.points.map(run.problem, run.ac.broadcast(w)).reduce(add)
            while run.ac.has_next():
                result = run.ac.collect()
                w = w - size(run.updates, result) * result.value / result.n_samples
                run.record(w, result)
        return run.report("ASGD", w)


SHARE = 1 / 3  # SAGA's step, relative to one over the largest curvature


@by_ranks
def saga_rounds(
    problem: Problem,
    *others: Never,
    workers: Any = "processes",
    n_workers: int | None = None,
    rate: float = 0.1,
    step: Any = None,
    epochs: float = 10,
    **settings: Any,
) -> Report:
    """Minimize by synchronous SAGA: one step after each round of tasks, by all of their results.

    Parameters
    ----------
    step : float or callable, optional
        A number is a constant step size, as in the paper. By default, for linear problems, it is
        1 / (3 L) with the largest curvature L of a row. A callable is a rule of
        `hogshare.tasks.steps`.

    Notes
    -----
    Source: Soori et al. 2019 (ASYNC), Algorithm 3. Departure: the step uses the average of the
    history as it was before this round. After the step, the sum of the changes, divided by the
    number of rows N, is added to the average. (The printed algorithm has another factor.)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import problems
    >>> from hogshare import saga_rounds
    >>> X, y = load_diabetes(return_X_y=True)
    >>> problem = problems.linear(scale(X), scale(y), loss="squared_error")
    >>> report = saga_rounds(problem, workers="threads", n_workers=2, trace=1)
    >>> bool(report.objective < 0.3 < report.trace.objective[0])
    True
    """
    settings = {"barrier": None, **settings, "workers": workers, "n_workers": n_workers}
    with TaskRun((problem, others), epochs=epochs, rate=rate, **settings) as run:
        size = run.step(step, steps.constant, SHARE)
        difference = DifferenceOf(run.problem)
        w = run.start()
        average = np.zeros_like(w)  # of all rows' gradients at their last use
        while run.goes_on():
            w_br = run.ac.broadcast(w)
            run.points.map_with_index(difference, w_br, history=True).reduce(add)
            results = run.ac.collect_all()
            change = sum(result.value for result in results)
            count = sum(result.n_samples for result in results)
            w = w - size(run.updates, results[0]) * (change / count + average)
            # after the step, which must use the average of the old gradients
            average = average + change / run.problem.n_rows
            run.record(w, *results)
        return run.report("SAGA in rounds", w)


@by_ranks
def asaga_tasks(
    problem: Problem,
    *others: Never,
    workers: Any = "processes",
    n_workers: int | None = None,
    rate: float = 0.1,
    step: Any = None,
    epochs: float = 10,
    barrier: Any = None,
    **settings: Any,
) -> Report:
    """Minimize by ASAGA on tasks: one step by each task, first come first served.

    `hogshare.asaga` is another algorithm of this name, on one vector without locks.

    Parameters
    ----------
    step : float or callable, optional
        A number, divided by the number of workers, is a constant step size, as in the paper. By
        default, for linear problems, the number is 1 / (3 L) with the largest curvature L of a row.
        A callable is a rule of `hogshare.tasks.steps`.

    Notes
    -----
    Source: Soori et al. 2019 (ASYNC), Algorithm 4, with the same departure as in `saga_rounds`.
    Workers compute past gradients from past versions of the model. Each version is sent to a worker
    only once (`Collection.map` with ``history=True``).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import problems
    >>> from hogshare import asaga_tasks
    >>> X, y = load_diabetes(return_X_y=True)
    >>> problem = problems.linear(scale(X), scale(y), loss="squared_error")
    >>> report = asaga_tasks(problem, workers="threads", n_workers=2, trace=1)
    >>> bool(report.objective < 0.3 < report.trace.objective[0])
    True
    """
    settings = {**settings, "workers": workers, "n_workers": n_workers, "barrier": barrier}
    with TaskRun((problem, others), epochs=epochs, rate=rate, **settings) as run:
        size = run.step(step, partial(_shared, n_workers=run.ac.n_workers), SHARE)
        difference = DifferenceOf(run.problem)
        w = run.start()
        average = np.zeros_like(w)  # of all rows' gradients at their last use
        while run.goes_on():
            w_br = run.ac.broadcast(w)
            run.points.map_with_index(difference, w_br, history=True).reduce(add)
            while run.ac.has_next():
                result = run.ac.collect()
                change = result.value
                w = w - size(run.updates, result) * (change / result.n_samples + average)
                # after the step, which must use the average of the old gradients
                average = average + change / run.problem.n_rows
                run.record(w, result)
        return run.report("ASAGA", w)


def _shared(step: float, n_workers: int) -> steps.StepRule:
    return steps.constant(step / n_workers)
