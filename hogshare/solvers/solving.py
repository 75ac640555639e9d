"""`solve`: one problem, one rule, one plane, one runtime, one report."""

from __future__ import annotations

import dataclasses
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from hogshare import memory, ranges
from hogshare.barriers import Barrier, BuiltIn, barrier_of
from hogshare.callers import users_line
from hogshare.engine.arrays import Shapes, fill, lent, row_arrays
from hogshare.engine.checkpoints import Checkpoint, Saved, facts_of, load
from hogshare.engine.checks import FIRST_LOOK, AtRest, Checks, check_criterion
from hogshare.engine.confirming import Confirmation, can_go_on, go_on
from hogshare.engine.description import describe
from hogshare.engine.keeping import Keeper
from hogshare.engine.memory import begins_empty, memory_of
from hogshare.engine.resuming import restore
from hogshare.engine.rules import SGD, Rule
from hogshare.engine.session import Session, Settings
from hogshare.engine.steps import StepSize
from hogshare.engine.stops import Stop
from hogshare.interrupts import errstate
from hogshare.kernels import epochs, layout, telling, tracking
from hogshare.planes import Plane
from hogshare.problems.linear import LinearProblem
from hogshare.problems.model import Handed, Model, sum_of_squares
from hogshare.report import Report
from hogshare.runtimes.choice import choose
from hogshare.runtimes.driver import looks_of
from hogshare.runtimes.ending import known
from hogshare.runtimes.hooks import OnEpoch, side_by_side
from hogshare.solvers import outcome
from hogshare.solvers.again import again
from hogshare.solvers.choices import (
    check_settings,
    plane_of,
    problem_of,
    rule_of,
    runtime_of,
    start_of,
    step_of,
    stop_of,
)
from hogshare.solvers.refusals import (
    check,
    check_confirm,
    check_gradients,
    check_memory,
    check_simulated,
    check_units,
)
from hogshare.stragglers import Stragglers, check_workers, stragglers_of

if TYPE_CHECKING:
    from hogshare.engine.recording import Recording
    from hogshare.simulation.simulator import Simulator

COPIES = 4  # of a model that a fit makes in float64, at least: 27 to 58 bytes a coefficient in all


@telling.block("solve")
def solve(
    problem: LinearProblem,
    *others: Never,
    rule: Rule | type[Rule] | str | None = None,
    plane: Plane | type[Plane] | str | None = None,
    barrier: Barrier | type[BuiltIn] | str | None = None,
    runtime: str | Simulator | type[Simulator] | None = "auto",
    n_workers: int | None = None,
    step: StepSize | float | str | None = None,
    stop: Stop | int | None = None,
    shuffle: bool = True,
    seed: Any = None,
    start: Model | None = None,
    trace: int | None = None,
    block: int | None = None,
    record: bool = False,
    gradients: bool = False,
    stragglers: Stragglers | str | None = None,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | str | Path | None = None,
    resume: str | Path | None = None,
) -> Report:
    """Minimise a problem with any number of workers.

    Where the meaning is plain, an argument may be a word in place of a thing, in upper or lower
    case: ``rule="saga"`` is ``SAGA()``, ``barrier="ssp:4"`` is ``SSP(4)``, ``stop=3`` is
    ``Stop(epochs=3)``. A class stands for its defaults: ``rule=SAGA``.

    Parameters
    ----------
    problem : LinearProblem
        From `hogshare.problems.linear`. It holds the caller's own arrays, checked when it was made:
        their indices must not be changed in place after that, nor by a callback. Rows and labels
        are none, for they do not say which loss is meant.
    *others
        Nothing: all other arguments are named.
    rule : SGD, SDCA, SAGA, {"sgd", "sdca", "saga", "auto"}, default=SGD()
        How a block of rows becomes a step. "auto" is `SDCA` or `SAGA`, whichever suits the problem:
        no step size to choose, for any loss but the perceptron's, with private copies.
    plane : Shared, Master, {"shared", "master"}, default=Shared()
        Where the model lives.
    barrier : Barrier, callable or str, default=ASP()
        When a worker may go on after a block: `ASP`, `BSP`, `SSP`, `PBSP`, `PSSP`, `Fraction`,
        `Throttled`, or a function ``(table, me) -> bool`` of a `ProgressTable` and the worker's
        number, which is asked again and again until it says True. In words as the command has them:
        "asp", "bsp", "ssp:4", "pbsp:10", "pssp:10,4", "fraction:0.9,2", "throttled:8", and, as in
        "pbsp:10,hold", a last word for ``hold=True``.
    runtime : {"auto", "caller", "threads", "processes", "simulator"} or Simulator, default="auto"
        Who runs the workers. "auto" uses as many of `n_workers` as pay, less the cores that others
        have now where a run is short, as threads (no copy of the rows), or as processes if the
        rows come from `hogshare.share`. A runtime named makes `n_workers` an order. A `Simulator`
        runs any number of them on a virtual clock; "simulator" is ``Simulator()``.
    n_workers : int or None, default=None
        None is one, -1 all usable cores (`joblib.effective_n_jobs`). A ceiling with
        ``runtime="auto"``, which takes fewer where more cannot pay or others have the cores now;
        an order with a runtime named.
    step : StepSize, float or str, default=StepSize("optimal")
        Step sizes of `SGD`; the other rules have none. A number is a constant one, a word the
        schedule of that name.
    stop : Stop or int, default=Stop(epochs=10)
        When to end; a number is so many epochs.
    shuffle : bool, default=True
        Whether each epoch visits the rows in a new order: scikit-learn's for rows of up to 16 MB,
        and by windows of neighbours for more and for `SAGA` (`hogshare.problems.rows.windows`).
    seed : int, RandomState or None, default=None
        Of the row order. With one worker the same seed gives the same model bit for bit; with more
        the run depends on their timing.
    start : Model, default=None
        Where to start: coefficients, intercept, averages and step counter. `SAGA` and `SDCA` go on
        with what the model remembers (`Model.memory`), also with another `alpha`; without, SAGA
        looks at all rows once to remember the derivatives at a start other than zero, and SDCA
        starts from zero only.
    trace : int or None, default=None
        Snapshots of the model per epoch, for the report's curves. The objective is evaluated on
        them after the run.
    block : int or None, default=None
        Rows of a block, after which a worker's clock advances and the barrier is asked. None: an
        eighth of a worker's share of an epoch, at most 8192. A trace may need smaller ones. With
        private copies behind `BSP`, and on a virtual clock, what lies between two exchanges.
    record : bool, default=False
        Whether the report keeps who did which block from which version (`Report.recording`), for
        `hogshare.replay`. Needs the `Master` plane, or ``Shared(exchange=None)``.
    gradients : bool, default=False
        Whether the trace also holds the squared norm of the objective's gradient, which must be
        smooth: one more pass over the rows per snapshot, after the run.
    stragglers : Stragglers or str, default=None
        A law of `hogshare.stragglers`, or its words, such as "cds:0.6": workers are slow on
        purpose, to see what a barrier makes of it. Each block is then pulled for and pushed by
        itself, and workers sleep in between.
    on_epoch : callable, default=None
        ``on_epoch(epoch, snapshot) -> bool`` is called in the calling thread after each epoch
        (counted from 1); ``snapshot()`` gives the model; True stops the run.
    checkpoint : Checkpoint, str or Path, default=None
        Where to save the run on its way; a path means after every epoch. See `Checkpoint` and
        ``docs/checkpoints.md``.
    resume : str or Path, default=None
        A checkpoint file of the same run, to go on from: up to `stop`'s epochs, those before
        counted. With one worker it is bit for bit the run that was never interrupted. The file is
        not written unless it is named in `checkpoint` too. `seed` may be left out.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If an argument is out of its range, or a word that means nothing, if the run diverges, or if
        `resume` is no checkpoint or that of another run.
    TypeError
        If an argument is of another kind than it has to be.
    BarrierError
        If a barrier of the user's raises, answers neither yes nor no, or lets nobody pass.
    OSError
        If `resume` cannot be read, or there is no folder for `checkpoint`. Later on, a checkpoint
        that cannot be written is a warning.
    MemoryError
        If the run's memory does not fit.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import Stop, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = solve(problems.linear(scale(X), y), stop=Stop(epochs=5), seed=0)
    >>> report.n_epochs, report.model.coef.shape
    (5, (1, 30))

    The same in words, with another rule and two workers in step:

    >>> problem = problems.linear(scale(X), y, alpha=0.01)
    >>> solve(problem, rule="saga", barrier="bsp", runtime="threads", n_workers=2, stop=5, seed=0)
    <Report: 2 workers, 5 epochs, ... s, all epochs were done>
    """
    began = time.perf_counter()
    problem, start = problem_of(problem, others), start_of(start)
    files = {"checkpoint": checkpoint, "resume": resume}
    check_settings(n_workers, shuffle, trace, block, on_epoch, files)
    # of Python's from here on: some of NumPy's wrap around
    trace, block = (None if one is None else int(one) for one in (trace, block))
    ranges.flag(record=record, gradients=gradients)
    rule, plane = rule_of(rule, problem, shuffle, start), plane_of(plane)
    barrier, stragglers = barrier_of(barrier), stragglers_of(stragglers)
    runtime, step, stop = runtime_of(runtime), step_of(step), stop_of(stop)
    if not isinstance(rule, SGD):
        check_memory(problem, rule, plane, step, shuffle, start)
        step = StepSize("constant")
    step = step or StepSize()
    check(problem, rule, plane, step, stop, start, trace, block)
    check_gradients(problem, trace, gradients)
    check_criterion(problem, stop)
    check_confirm(rule, stop)
    check_units(problem, rule, plane, stop)
    workers, runner, notes = choose(
        problem, runtime, n_workers, stop.epochs, plane.interval(problem)
    )
    simulated = runner if runner.name == "simulator" else None
    if simulated is not None:
        check_simulated(rule, plane)
        simulated.settle(barrier, workers)
    check_workers(stragglers, workers)
    checkpoint, saved = place_of(checkpoint), saved_run(resume, start)
    order_seed = shuffle_seed(seed) if saved is None or seed is not None else saved.seed
    facts: dict[str, Any] = {}
    if checkpoint is not None or saved is not None:
        facts = facts_of(problem, rule, step, stop, shuffle, order_seed)
    if saved is not None:
        saved.require(facts)
    first_t, first, begun = 1.0 if start is None else start.t, start, 0
    if saved is not None:
        first_t, first, begun = saved.first_t, saved.model(), saved.epochs
    inside = runner.name == "caller"
    track = tracking.CRITERION if stop.tol is not None else tracking.NOTHING
    settings, shapes = describe(
        problem,
        rule=rule,
        plane=plane,
        barrier=barrier,
        step=step,
        stop=stop,
        n_workers=workers,
        seed=order_seed,
        shuffle=shuffle,
        first_t=first_t,
        trace=trace or 0,
        report_epochs=on_epoch is not None or (checkpoint is not None and inside),
        track=track,
        block=block,
        record=record,
        sleeps=int(stragglers is not None) if simulated is None else epochs.SIMULATED,
        parts=0 if simulated is None else simulated.parts(plane),
        orderly=simulated is None or simulated.simulator.is_orderly,
        empty=not isinstance(rule, SGD) and begins_empty(start),
        iterate=weight_of_iterates(rule, plane, workers, start),
    )
    if record:
        from hogshare.engine.recording import check_recordable

        check_recordable(settings)
    checks = Checks(problem, stop, not isinstance(rule, SGD)) if stop.looks else None
    handed = lent(start, settings.rule["iterate"])
    if not handed:
        memory.require(
            COPIES * 8 * problem.n_features * problem.n_columns,
            f"A fit of {problem.n_features:,} features",
        )
    arrays = runner.allocate(shapes, row_arrays(problem), handed)
    try:
        asked = None if isinstance(barrier, BuiltIn) else barrier
        session = Session(arrays, settings, asked, stragglers)
        fill(session, problem, rule, stop, step, start)
        next_look = FIRST_LOOK if start is None else 0  # a start may be good enough
        if saved is not None:
            restore(session, saved)
            next_look = saved.next_look
            notes.append(f"resumed after {saved.epochs} epochs from {saved.path}")
        if checks is not None:
            session.raise_limit(next_look)
            if saved is not None:
                checks.go_on(session, saved.looks_seen)
            elif start is None:
                checks.begin(session)
        keeper, heard = None, on_epoch
        at_rest: AtRest | None = checks
        if checkpoint is not None:
            keeper = Keeper(session, checkpoint, facts, checks, next_look, inside)
            session.raise_limit(keeper.limit)
            heard, at_rest = keeper.told_by(on_epoch), keeper.at_rest
        session.set_up_turns(looks_of(session))
        filled = time.perf_counter()
        session.worker(0).prepare()
        if checks is not None:
            checks.prepare()
        doubt = confirmation_of(problem, stop, session)
        ready = time.perf_counter()
        session.began = session.clock()
        with errstate(all="ignore") as held:  # an average may be too large for the rows' type
            try:
                with known(session):
                    notes += held.outside(run_to_the_end, runner, session, heard, at_rest, doubt)
            except BaseException:
                if handed:
                    session.settle()
                raise
            over = time.perf_counter()
            session.restore_sums()
            reason = session.word(layout.STOP)
            model = session.model(last=runner.is_private)
            remembered = memory_of(session)
            squares = sum_of_squares(model.coef)
            is_finite = model.is_finite(squares)
        if remembered is not None:
            model = dataclasses.replace(model, memory=remembered)
        if reason == layout.STOPPED_BY_DIVERGENCE or not is_finite:
            raise diverged(session.word(layout.EPOCHS), rule)
        if keeper is not None:
            keeper.finish()
            notes += keeper.notes
        if outcome.is_absurd(problem, model, squares):
            warnings.warn(outcome.absurd(rule), ConvergenceWarning, stacklevel=users_line())
            notes.append(outcome.absurd(rule))
        converged, why = reason == layout.STOPPED_BY_CRITERION, outcome.REASONS[reason]
        if doubt is not None and doubt.seen:
            if converged:
                converged = doubt.met
                why = why if converged else f"the losses no longer fall, but {doubt.sentence()}"
            else:
                notes.append(f"after {doubt.seen[-1]['epoch']} epochs {doubt.sentence()}")
        if simulated is not None and simulated.reached_limit:
            why = f"the Simulator's {simulated.seconds:g} virtual seconds were over"
        if checks is not None:
            # the model that is returned, whyever the run has ended
            if not checks.seen or checks.seen[-1]["epoch"] < session.word(layout.EPOCHS):
                with errstate(all="ignore"):  # as in the run, whose looks are within it
                    checks.look(session, side_by_side)
                model = dataclasses.replace(model, intercept=session.model().intercept)
            converged = checks.met
            if checks.hopeless:
                why = "the epochs that are left would not do"
            why = checks.sentence() if converged else f"{why}; {checks.sentence()}"
        described = outcome.settings(
            problem, rule, plane, barrier, runner.name, session, step, stop, seed
        )
        if simulated is not None:
            described["simulator"] = simulated.simulator.to_dict()
        report = Report(
            model=model,
            settings=described,
            versions=outcome.versions(),
            machine=outcome.machine(),
            n_epochs=session.word(layout.EPOCHS),
            converged=converged,
            stop_reason=why,
            checks=[*(checks.seen if checks else []), *(doubt.seen if doubt else [])],
            epoch_losses=outcome.epoch_losses(session),
            trace=outcome.trace(session, problem, first, gradients, begun) if trace else None,
            workers=outcome.workers(session),
            staleness=outcome.staleness(session),
            ages=outcome.ages(session),
            turns=outcome.turns(session),
            mail=outcome.mail(session),
            seconds={
                "setup": filled - began,
                "compile": ready - filled,
                "run": over - ready,
                "total": over - began,
                **({} if simulated is None else {"virtual": simulated.seconds}),
            },
            traffic=None if simulated is None else simulated.traffic.as_dict(),
            notes=notes,
            again=again(
                solve,
                rule,
                plane,
                barrier,
                step,
                stop,
                shuffle,
                block,
                OrderSeed(order_seed),
                start is not None or saved is not None,
            ),
            recording=recorded(session, problem, settings, shapes, rule, step, stop, start)
            if record
            else None,
        )
    finally:
        runner.close()
    return report


def weight_of_iterates(rule: Rule, plane: Plane, n_workers: int, start: Model | None) -> float:
    """What an iterate counts in the lag: less than 1 where that is the start's own average."""
    if not (isinstance(rule, SGD) and rule.average and isinstance(start, Handed)):
        return 1.0
    alone = plane.mode(n_workers) == epochs.ALONE
    before = start.t - rule.average
    return 1.0 / before if alone and before > 1.0 and start.average_coef is not None else 1.0


def confirmation_of(problem: LinearProblem, stop: Stop, session: Session) -> Confirmation | None:
    """Who looks at a run that `tol` would end; None where that is not asked for, or not needed."""
    if not stop.confirm or stop.tol is None:
        return None
    doubt = Confirmation(problem, stop.tol, stop.epochs)
    if not doubt.is_needed(session):
        return None
    doubt.prepare()
    return doubt


def run_to_the_end(
    runner: Any,
    session: Session,
    on_epoch: OnEpoch | None,
    at_rest: AtRest | None,
    doubt: Confirmation | None,
) -> list[str]:
    """Let the workers run, and again while the model is not what was asked for; returns notes."""
    notes: list[str] = runner.run(session, on_epoch, at_rest)
    while doubt is not None and must_go_on(doubt, session):
        go_on(session)
        notes += runner.run(session, on_epoch, at_rest)
    return notes


def must_go_on(doubt: Confirmation, session: Session) -> bool:
    """Whether a run that `tol` has ended is to go on; looks at the model."""
    if session.word(layout.STOP) != layout.STOPPED_BY_CRITERION:
        return False
    return not doubt.look(session) and can_go_on(session) and not doubt.is_hopeless


def recorded(
    session: Session,
    problem: LinearProblem,
    settings: Settings,
    shapes: Shapes,
    rule: Rule,
    step: StepSize,
    stop: Stop,
    start: Model | None,
) -> Recording | None:
    """The run's recording; None where somebody has died, and with it part of what happened."""
    from hogshare.engine.recording import Recording, taken_from

    died = bool((session.schedule.table[:, layout.T_STATE] == layout.DEAD).any())
    events = taken_from(session)
    if died or len(events) < session.word(layout.COMPLETED):
        return None
    exact = session.plan.private == epochs.MASTER
    return Recording(events, exact, settings, shapes, rule, step, stop, start)


class OrderSeed(int):
    """A seed of the row order itself: as `seed` of `solve` it is used as it is, not drawn from."""


def shuffle_seed(seed: Any) -> int:
    """Seed of the row order, drawn as scikit-learn draws it: the second number of the generator."""
    if isinstance(seed, OrderSeed):
        return int(seed)
    random_state = check_random_state(seed)
    random_state.randint(1, np.iinfo(np.int32).max)
    return int(random_state.randint(np.iinfo(np.int32).max))


def place_of(checkpoint: Checkpoint | str | Path | None) -> Checkpoint | None:
    """Where checkpoints go, if anywhere; a place that will not do is refused."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    checkpoint.check()
    return checkpoint


def saved_run(resume: str | Path | None, start: Model | None) -> Saved | None:
    """The run to go on with, if any.

    Raises
    ------
    ValueError
        If the file is no checkpoint, or there is another start besides.
    """
    if resume is None:
        return None
    if start is not None:
        raise ValueError(
            "give one of start and resume: a checkpoint holds the model that its run goes on from."
        )
    return load(resume)


def diverged(epoch: int, rule: Rule) -> ValueError:
    """The error of a run whose model left the floating-point range."""
    return ValueError(
        f"Floating-point under-/overflow occurred at epoch #{epoch}. Scaling input data with "
        "StandardScaler or MinMaxScaler might help. The steps are too large for this data: "
        f"{outcome.remedy(rule)} might help too."
    )
