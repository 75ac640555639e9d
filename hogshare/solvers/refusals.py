"""Checks of `solve` for invalid combinations of arguments, before anything is allocated."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.barriers import Barrier, Throttled
from hogshare.engine.convergence_checks import check_criterion
from hogshare.engine.gradient_steps import takes_passes
from hogshare.engine.stops import Stop, check_length
from hogshare.planes import Plane
from hogshare.problems.gradient import GradientProblem
from hogshare.problems.model import Handed, Model
from hogshare.problems.protocol import Problem, RowProblem, by_gradient, has_rows
from hogshare.rules.protocol import Rule
from hogshare.rules.run_choices import OtherChoices
from hogshare.rules.steps import StepSize
from hogshare.system import ranges
from hogshare.system.interrupts import errstate
from hogshare.system.messages import listed, own

PROPORTIONAL = ("constant", "invscaling", "adaptive")  # schedules proportional to eta0


def refuse(
    problem: Problem,
    rule: Rule,
    plane: Plane,
    step: StepSize | None,
    stop: Stop,
    start: Model | None,
    shuffle: bool,
    trace: int | None,
    block: int | None,
    gradients: bool,
) -> StepSize:
    """Refuse invalid combinations, before anything is allocated.

    Returns
    -------
    StepSize
        The given step size, or the problem's default if `step` is None.
    """
    plane.check()
    if plane.has_cells:
        check_cells(problem, rule, plane, block)
    rule.check(
        OtherChoices(
            problem=problem,
            plane=plane,
            step=step,
            stop=stop,
            start=start,
            shuffle=shuffle,
            block=block,
        )
    )
    if rule.remembers:
        step = StepSize("constant")  # a placeholder: rules with row memory have their own step
    if block is not None:
        ranges.whole(1, block=block)
    if trace is not None:
        ranges.whole(1, trace=trace)
    if gradients and trace is None:
        raise ValueError("gradients=True records them in the trace, but trace=None: set trace=4.")
    if not has_rows(problem):
        assert by_gradient(problem)
        step = step or StepSize("constant", eta0=problem.eta0)
        check_outside(step, stop)
        check_own_steps(problem, rule, step)
        if plane.numbers()["atomic"] and takes_passes(problem, rule):
            raise ValueError(
                f"{problem.name} takes its rows' steps itself, with plain adds: leave out "
                "adds='atomic', or use steps by its gradient, as with SGD(batch=64)."
            )
        return step
    step = step or StepSize()
    check(problem, rule, step, stop, start)
    if gradients:
        from hogshare.problems.linear.gradients import check_smooth

        check_smooth(problem)
    check_criterion(problem, stop)
    return step


def check_cells(problem: Problem, rule: Rule, plane: Plane, block: int | None) -> None:
    """Refuse problems and rules that cannot proceed cell by cell."""
    if getattr(problem, "cells", None) is None:
        raise ValueError(
            f"{plane} needs a problem whose rows are in cells, such as problems.factorisation: "
            "use plane=Shared()."
        )
    assert by_gradient(problem)
    if not takes_passes(problem, rule):
        raise ValueError(
            f"{plane} takes a step for each row of a cell, but {rule} takes other steps: use SGD()."
        )
    if block is not None:
        raise ValueError(f"A block of {plane} is a cell: leave out block={block}.")


def check_outside(step: StepSize, stop: Stop) -> None:
    """Refuse settings for the rows of linear problems if steps are by a gradient."""
    if step.kind not in PROPORTIONAL:
        raise ValueError(
            f"The step {step.kind!r} is computed from a linear problem. With a gradient of your "
            f"own, use {listed(PROPORTIONAL)}, as in StepSize('constant', eta0=0.01)."
        )
    if stop.validation is not None:
        raise ValueError(
            "Stop(validation=...) scores the rows of a linear problem. With a gradient of your "
            "own, score the model in on_epoch=, and return True there to stop the run."
        )
    gaps = [name for name in ("gap", "relative_gap") if getattr(stop, name) is not None]
    if gaps or stop.confirm:
        raise ValueError(
            f"Stop({gaps[0] if gaps else 'confirm'}=...) needs a linear problem, whose dual and "
            "whose curvature are known. With a gradient of your own, use tol= or gradient=."
        )


def check_own_steps(problem: GradientProblem, rule: Rule, step: StepSize) -> None:
    """Refuse settings that would change the steps of a problem that defines its own."""
    if not problem.has_steps:
        return
    if rule.average or not rule.is_proportional:
        what = str(rule) if rule.has_kernels else type(rule).__name__
        raise ValueError(
            f"The steps of {problem.name} are its own, and {what} would change them: use SGD()."
        )
    if (step.kind, step.eta0) != ("constant", problem.eta0):
        raise ValueError(
            f"The steps of {problem.name} are its own: leave out step=, or set "
            f"step={problem.eta0!r}; got {step}."
        )


def check(problem: RowProblem, rule: Rule, step: StepSize, stop: Stop, start: Model | None) -> None:
    """Refuse invalid combinations for a linear problem."""
    if step.kind == "optimal" and problem.alpha == 0.0:
        raise ValueError(
            "alpha must be > 0 since the step size is 'optimal', which is computed from alpha; "
            f"use another {own('StepSize')}."
        )
    wanted = {"pa1": "hinge", "pa2": "hinge"} if not problem.is_regression else {}
    if problem.is_regression:
        wanted = {"pa1": "epsilon_insensitive", "pa2": "epsilon_insensitive"}
    if step.kind in wanted and problem.loss != wanted[step.kind]:
        raise ValueError(
            f"The step {step.kind!r} works with loss={wanted[step.kind]!r} only; got "
            f"{problem.loss!r}: use another {own('StepSize')}."
        )
    if stop.validation is not None:
        check_length(problem.n_rows, stop.validation)
        held_out = np.asarray(stop.validation)
        weight = problem.rows.weight
        weighs = weight[held_out].any() if weight.size else held_out.any()
        sums = np.array([np.count_nonzero(held_out), weighs], np.float64)
        (count, weighs), *_ = problem.totals(sums)  # over all ranks: one may have no such rows
        if not 0 < count < problem.n_all:
            raise ValueError(
                f"{own('Stop.validation')} must mark some but not all of the {problem.n_all} "
                f"rows; it marks {int(count)}."
            )
        if not weighs:
            raise ValueError(
                f"{own('Stop.validation')} marks only rows of weight 0; their score is undefined."
            )
    if start is not None:
        shape = (problem.n_columns, problem.n_features)
        if np.shape(start.coef) != shape or np.shape(start.intercept) != shape[:1]:
            raise ValueError(
                f"{own('The start model')} has coef of shape {np.shape(start.coef)} and intercept "
                f"of shape {np.shape(start.intercept)}; this problem needs {shape} and {shape[:1]}."
            )
        averages: list[Any] = [start.average_coef, start.average_intercept]
        of_average = [None if part is None else np.shape(part) for part in averages]
        if of_average not in ([None, None], [shape, shape[:1]]):
            raise ValueError(
                f"{own('The start model')} has an average with coef of shape {of_average[0]} and "
                f"intercept of shape {of_average[1]}; this problem needs {shape} and {shape[:1]}, "
                "or neither."
            )
        ranges.not_negative(**{own("t of the start model"): start.t})
        if isinstance(start, Handed):
            return  # the start has the rows' dtype; its numbers are checked at the end of the run
        if not start.is_finite():
            raise ValueError(f"{own('The start model')} contains NaN or infinity.")
        with errstate(over="ignore"):
            converted = np.asarray(start.coef).astype(problem.dtype)
        if not np.isfinite(converted).all():
            raise ValueError(f"{own('The start model')} has a coef too large for {problem.dtype}.")
        if start.memory is not None:
            rule.memory.check(problem, start.memory)


def check_groups(plane: Plane, barrier: Barrier, n_workers: int) -> None:
    """Refuse numbers of workers that a plane cannot group, and barriers that need all workers.

    Raises
    ------
    ValueError
        If the plane has groups, and the number of workers or the barrier does not fit.
    """
    if plane.groups(n_workers) is not None and isinstance(barrier, Throttled):
        raise ValueError(
            f"a throttled release lets all workers continue at once, but on {type(plane).__name__} "
            "a barrier applies within a group: use BSP(), SSP(4) or a function of the table."
        )
