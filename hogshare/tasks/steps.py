"""Step sizes of methods on tasks: functions of the update's number and of the result.

A rule is any ``step(k, result) -> float``: k counts updates of the model from 0, and the result
knows how stale it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hogshare.system.ranges import positive, whole
from hogshare.tasks.results import Result

StepRule = Callable[[int, Result], float]


def constant(size: float) -> StepRule:
    """The same at each update: of SAGA and ASAGA, as in the paper.

    Examples
    --------
    >>> from hogshare.tasks import steps
    >>> steps.constant(0.1)(7, None)
    0.1
    """
    positive(size=size)
    return lambda k, result: size


def falling(first: float) -> StepRule:
    """``first / sqrt(k + 1)``: of synchronous SGD, as in the paper; k counts rounds.

    Examples
    --------
    >>> from hogshare.tasks import steps
    >>> steps.falling(0.1)(3, None)
    0.05
    """
    positive(first=first)
    return lambda k, result: first / math.sqrt(k + 1)


def falling_per_worker(first: float, n_workers: int) -> StepRule:
    """``first / P / sqrt(k // P + 1)``: of ASGD with P workers, as in the paper; k counts updates.

    Dividing by the number of workers is the paper's heuristic for what asynchrony costs.

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
    """Another rule's step over one plus the result's staleness: late results step less.

    In place of dividing all steps by the number of workers: who is alone takes whole ones. Source:
    Zhang, Gupta, Lian and Liu, "Staleness-aware async-SGD for distributed deep learning", IJCAI
    2016; their divisor is the staleness, ours is that plus one, of a count from 0.

    Examples
    --------
    >>> from hogshare.tasks import Result, steps
    >>> late = Result(None, 0, staleness=3, n_samples=1, partitions=(0,), seconds=1.0, number=9)
    >>> steps.damped(steps.constant(0.4))(0, late)
    0.1
    """
    return lambda k, result: rule(k, result) / (1 + result.staleness)


def step_rule(step: Any, of_number: Callable[[float], StepRule], safe: float | None) -> StepRule:
    """The rule that is meant: a function as it is, a number by `of_number`, None by `safe`.

    Raises
    ------
    ValueError
        If nothing is given and nothing is known to be safe.
    TypeError
        If it is neither.
    """
    if step is None:
        if safe is None:
            raise ValueError(
                "step has to be given: how curved a problem by a gradient is, is not known."
            )
        return of_number(safe)
    if callable(step):
        rule: StepRule = step
        return rule
    if isinstance(step, int | float) and not isinstance(step, bool):
        return of_number(float(step))
    raise TypeError(f"step must be a number or a function (k, result) -> float; got {step!r}.")
