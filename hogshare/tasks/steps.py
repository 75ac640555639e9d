"""Step sizes of methods on tasks: functions of the update's number and of the result.

A step rule is any function ``step(k, result) -> float``. The argument k counts updates of the model
from 0. The argument `result` is a `hogshare.tasks.Result`, which has its staleness as an attribute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hogshare.system.ranges import positive, whole
from hogshare.tasks.results import Result

StepRule = Callable[[int, Result], float]


def constant(size: float) -> StepRule:
    """Return the rule of a constant step, which the paper uses for SAGA and ASAGA.

    Examples
    --------
    >>> from hogshare.tasks import steps
    >>> steps.constant(0.1)(7, None)
    0.1
    """
    positive(size=size)
    return lambda k, result: size


def falling(first: float) -> StepRule:
    """Return the rule ``first / sqrt(k + 1)``, the paper's for synchronous SGD; k counts rounds.

    Examples
    --------
    >>> from hogshare.tasks import steps
    >>> steps.falling(0.1)(3, None)
    0.05
    """
    positive(first=first)
    return lambda k, result: first / math.sqrt(k + 1)


def falling_per_worker(first: float, n_workers: int) -> StepRule:
    """Return the rule ``first / P / sqrt(k // P + 1)`` for ASGD with P workers; k counts updates.

    This is the step of the paper. The division by P is the paper's heuristic for the cost of
    asynchrony.

    Examples
    --------
    >>> from hogshare.tasks import steps
    >>> steps.falling_per_worker(0.8, n_workers=4)(15, None)
    0.1
    """
    positive(first=first)
    whole(1, n_workers=n_workers)
    return lambda k, result: first / n_workers / math.sqrt(k // n_workers + 1)


def damped(rule: StepRule) -> StepRule:
    """Return a rule that divides another rule's step by one plus the result's staleness.

    This division replaces the division of all steps by the number of workers. A single worker has
    staleness 0, so its steps are not divided. Source: Zhang, Gupta, Lian and Liu, "Staleness-aware
    async-SGD for distributed deep learning", IJCAI 2016. The divisor of the paper is the staleness.
    This function adds one, because staleness counts from 0 in this package.

    Examples
    --------
    >>> from hogshare.tasks import Result, steps
    >>> late = Result(None, 0, staleness=3, n_samples=1, partitions=(0,), seconds=1.0, number=9)
    >>> steps.damped(steps.constant(0.4))(0, late)
    0.1
    """
    return lambda k, result: rule(k, result) / (1 + result.staleness)


def step_rule(step: Any, of_number: Callable[[float], StepRule], safe: float | None) -> StepRule:
    """Return a function `step` itself, ``of_number`` of a number, or of `safe` for None.

    Raises
    ------
    ValueError
        If `step` and `safe` are both None.
    TypeError
        If `step` is neither a function nor a number.
    """
    if step is None:
        if safe is None:
            raise ValueError(
                "step has to be given for a problem by a gradient, as its curvature is unknown."
            )
        return of_number(safe)
    if callable(step):
        rule: StepRule = step
        return rule
    if isinstance(step, int | float) and not isinstance(step, bool):
        return of_number(float(step))
    raise TypeError(f"step must be a number or a function (k, result) -> float; got {step!r}.")
