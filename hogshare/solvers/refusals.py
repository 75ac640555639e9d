"""What `solve` refuses: combinations that do not make sense, before anything is allocated."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare import ranges
from hogshare.engine.checks import check_criterion
from hogshare.engine.outside import takes_passes
from hogshare.engine.stops import Stop
from hogshare.interrupts import errstate
from hogshare.planes import Plane
from hogshare.problems.linear import LinearProblem
from hogshare.problems.model import Handed, Model
from hogshare.problems.protocol import Problem, by_gradient, has_rows
from hogshare.problems.rows import exceeds_memory
from hogshare.rules.automatic import COUPLED
from hogshare.rules.protocol import Rule
from hogshare.rules.remembered import check_start
from hogshare.rules.steps import StepSize
from hogshare.words import listed, own

PROPORTIONAL = ("constant", "invscaling", "adaptive")  # schedules that eta0 multiplies


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
    """Refuse combinations that do not make sense, before anything is allocated.

    Returns
    -------
    StepSize
        The given one, or the default of such a problem.
    """
    if problem.has_rows and not rule.has_kernels:
        raise ValueError(
            f"{type(rule).__name__} makes steps of gradients, and the rows of a linear problem are "
            "stepped through by SGD, SDCA or SAGA: use one of those, or state the problem by its "
            "gradient (problems.user)."
        )
    if rule.remembers:
        if not has_rows(problem):
            raise ValueError(
                f"{type(rule).__name__} remembers a number for each row of a linear problem, and "
                "of this one only gradients of blocks are known: use SGD()."
            )
        check_memory(problem, rule, plane, step, shuffle, start)
        step = StepSize("constant")
    if plane.has_master and plane.cutoff is not None and rule.average:
        raise ValueError(
            f"{own('SGD(average=...)')} counts every step, and Master(cutoff=...) drops some: "
            "leave out one."
        )
    if block is not None:
        ranges.whole(1, block=block)
    if trace is not None:
        ranges.whole(1, trace=trace)
    if gradients and trace is None:
        raise ValueError("gradients=True records them on the trace: ask for one, trace=4.")
    if not has_rows(problem):
        step = step or StepSize("constant")
        check_outside(rule, step, stop)
        if by_gradient(problem) and plane.numbers()["atomic"] and takes_passes(problem, rule):
            raise ValueError(
                f"{problem.name} takes its rows' steps by itself, with plain adds: leave out "
                "adds='atomic', or have it stepped by its gradient, as with SGD(batch=64)."
            )
        return step
    step = step or StepSize()
    check(problem, rule, plane, step, stop, start, block)
    check_gradients(problem, gradients)
    check_criterion(problem, stop)
    check_confirm(rule, stop)
    check_units(problem, rule, plane, stop)
    return step


def check_outside(rule: Rule, step: StepSize, stop: Stop) -> None:
    """Refuse what is for the rows of linear problems, where steps are by a gradient."""
    if step.kind not in PROPORTIONAL:
        raise ValueError(
            f"The step {step.kind!r} is computed from a linear problem; for a gradient of your own "
            f"use {listed(PROPORTIONAL)}, as in StepSize('constant', eta0=0.01)."
        )
    if rule.coordinate is not None:
        raise ValueError(
            f"SGD(coordinate={rule.coordinate!r}) draws among the features of a linear problem's "
            "rows; leave it out, and return the places that the gradient has written."
        )
    if stop.validation is not None:
        raise ValueError(
            "Stop(validation=...) scores the rows of a linear problem; for a gradient of your own "
            "score the model in on_epoch=, which stops the run when it returns True."
        )
    gaps = [name for name in ("gap", "relative_gap") if getattr(stop, name) is not None]
    if gaps or stop.confirm:
        raise ValueError(
            f"Stop({gaps[0] if gaps else 'confirm'}=...) needs a linear problem, whose dual and "
            "whose curvature are known; for a gradient of your own use tol= or gradient=."
        )


def check(
    problem: LinearProblem,
    rule: Rule,
    plane: Plane,
    step: StepSize,
    stop: Stop,
    start: Model | None,
    block: int | None,
) -> None:
    """Refuse combinations of a linear problem that do not make sense."""
    if rule.batch > 1 and (plane.has_copies or plane.has_homes):
        raise ValueError(
            f"SGD(batch={rule.batch}) computes a mini-batch from one read of a vector that others "
            "write meanwhile; that needs Shared(exchange=None), or a Master. With private copies "
            "use batch=1."
        )
    check_coordinate(rule, plane, step, block)
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
        held_out = int(np.count_nonzero(stop.validation))
        if len(stop.validation) != problem.n_rows or not 0 < held_out < problem.n_rows:
            raise ValueError(
                f"{own('Stop.validation')} must mark some but not all of the {problem.n_rows} "
                f"rows; it has {len(stop.validation)} entries and marks {held_out}."
            )
        weight = problem.rows.weight
        if weight.size and not weight[np.asarray(stop.validation)].any():
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
            return  # of the rows' type; the run looks at its numbers when it is over
        if not start.is_finite():
            raise ValueError(f"{own('The start model')} holds NaN or infinity.")
        with errstate(over="ignore"):
            held = np.asarray(start.coef).astype(problem.dtype)
        if not np.isfinite(held).all():
            raise ValueError(f"{own('The start model')} has a coef too large for {problem.dtype}.")
        if start.memory is not None and rule.remembers:
            check_start(problem, start.memory)


def check_coordinate(rule: Rule, plane: Plane, step: StepSize, block: int | None) -> None:
    """Refuse writes of one coordinate where they have no meaning."""
    if rule.coordinate is None:
        return
    what = f"SGD(coordinate={rule.coordinate!r})"
    if not plane.is_lock_free:
        raise ValueError(
            f"{what} writes one coordinate of a vector that others write meanwhile: that needs "
            "plane=Shared(exchange=None). With another plane leave coordinate out."
        )
    if step.kind in ("pa1", "pa2"):
        raise ValueError(
            f"{what} takes a coordinate of a gradient, and StepSize({step.kind!r}) has none: its "
            "step is meant for a whole row. Use another StepSize."
        )
    if block is not None:
        raise ValueError(
            f"{what} counts writes of one coordinate, and each block is one: leave block out."
        )


def check_memory(
    problem: LinearProblem,
    rule: Rule,
    plane: Plane,
    step: StepSize | None,
    shuffle: bool,
    start: Model | None,
) -> None:
    """Refuse what the rules that remember rows cannot do."""
    name = type(rule).__name__
    if plane.has_master or plane.has_homes:
        raise ValueError(f"{name} needs a shared vector: use plane=Shared(), or rule=SGD().")
    if step is not None:
        raise ValueError(f"{name} has no schedule of step sizes; leave `step` out.")
    if not rule.is_sum:
        if rule.draws and not shuffle:
            raise ValueError(
                f"{rule} draws rows at random; leave shuffle=False out, or take SAGA() for the "
                "rows in their order."
            )
        if rule.draws and exceeds_memory(problem.rows):
            raise ValueError(
                f"{rule} visits rows wholly at random, and these are in a file larger than half "
                "the free memory; take SAGA(), which reads neighbours together."
            )
        return
    if plane.is_lock_free:
        raise ValueError(
            "SDCA needs private copies: use Shared() instead of exchange=None, or SAGA()."
        )
    if problem.loss in COUPLED:
        raise ValueError(
            f"SDCA moves one column of a row at a time, and loss={problem.loss!r} couples them; "
            "use SAGA() or SGD(), or loss='log_loss' for each class against the rest."
        )
    if problem.l2 == 0.0:
        raise ValueError(
            "SDCA needs an l2 part in the penalty: use penalty='l2', or 'elasticnet' with "
            "l1_ratio < 1, and alpha > 0; or SAGA()."
        )
    if start is None or start.memory is not None:
        return
    if not start.is_zero():
        raise ValueError(
            "SDCA starts from zero, or from a model of SDCA or SAGA on the same rows: its model is "
            "a sum over the rows' dual variables, which this start model does not have (memory)."
        )


def check_simulated(rule: Rule, plane: Plane) -> None:
    """Refuse what cannot be taken apart into reading, computing and writing."""
    if rule.remembers and plane.is_lock_free:
        raise ValueError(
            "SAGA on the one vector reads and writes row by row, and a Simulator block by block: "
            "use SAGA() with private copies, plane=Shared()."
        )


def check_confirm(rule: Rule, stop: Stop) -> None:
    """Refuse to confirm a model that is not meant to be the optimum's."""
    if stop.confirm and not rule.remembers:
        raise ValueError(
            "Stop(confirm=True) asks whether the optimum is reached, around which SGD hovers: use "
            "SDCA() or SAGA()."
        )


def check_units(problem: LinearProblem, rule: Rule, plane: Plane, stop: Stop) -> None:
    """Refuse columns in units of their own where the penalty would not know of them."""
    fits = rule.remembers and not rule.is_sum and plane.has_copies and not stop.looks
    if problem.divisors is None or fits:
        return
    raise ValueError(
        "A problem whose columns are in units of their own needs SAGA(), private copies and tol=."
    )


def check_gradients(problem: LinearProblem, gradients: bool) -> None:
    """Refuse gradients where there is none."""
    if gradients:
        from hogshare.theory.gradients import check_smooth

        check_smooth(problem)
