"""`solve`: one problem, one rule, one plane, one runtime, one report."""

from __future__ import annotations

import dataclasses
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from hogshare import memory, ranges
from hogshare.barriers import ASP, Barrier, BuiltIn, check_barrier
from hogshare.engine.arrays import Shapes, fill, lent, row_arrays
from hogshare.engine.automatic import COUPLED
from hogshare.engine.checkpoints import Checkpoint, Saved, facts_of, load
from hogshare.engine.checks import FIRST_LOOK, AtRest, Checks, check_criterion
from hogshare.engine.confirming import Confirmation, can_go_on, go_on
from hogshare.engine.description import describe
from hogshare.engine.keeping import Keeper
from hogshare.engine.memory import begins_empty, check_start, memory_of
from hogshare.engine.resuming import restore
from hogshare.engine.rules import SAGA, SDCA, SGD, Rule
from hogshare.engine.session import Session, Settings
from hogshare.engine.steps import StepSize
from hogshare.engine.stops import Stop
from hogshare.interrupts import errstate
from hogshare.kernels import epochs, layout, tracking
from hogshare.planes import Master, Plane, Shared
from hogshare.problems.linear import LinearProblem
from hogshare.problems.model import Handed, Model, sum_of_squares
from hogshare.problems.rows import exceeds_memory
from hogshare.report import Report
from hogshare.runtimes.choice import choose
from hogshare.runtimes.driver import looks_of
from hogshare.runtimes.ending import known
from hogshare.runtimes.hooks import OnEpoch, side_by_side
from hogshare.solvers import outcome
from hogshare.solvers.again import again
from hogshare.stragglers import Stragglers, check_stragglers, check_workers

if TYPE_CHECKING:
    from hogshare.engine.recording import Recording
    from hogshare.simulation.simulator import Simulator

COPIES = 4  # of a model that a fit makes in float64, at least: 27 to 58 bytes a coefficient in all


def solve(
    problem: LinearProblem,
    *,
    rule: Rule | None = None,
    plane: Plane | None = None,
    barrier: Barrier | None = None,
    runtime: str | Simulator = "auto",
    n_workers: int | None = None,
    step: StepSize | None = None,
    stop: Stop | None = None,
    shuffle: bool = True,
    seed: Any = None,
    start: Model | None = None,
    trace: int | None = None,
    block: int | None = None,
    record: bool = False,
    gradients: bool = False,
    stragglers: Stragglers | None = None,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | str | Path | None = None,
    resume: str | Path | None = None,
) -> Report:
    """Minimise a problem with any number of workers.

    Parameters
    ----------
    problem : LinearProblem
        From `hogshare.problems.linear`. It holds the caller's own arrays, checked when it was made:
        their indices must not be changed in place after that, nor by a callback.
    rule : SGD, SDCA or SAGA, default=SGD()
        How a block of rows becomes a step.
    plane : Shared or Master, default=Shared()
        Where the model lives.
    barrier : Barrier or callable, default=ASP()
        When a worker may go on after a block: `ASP`, `BSP`, `SSP`, `PBSP`, `PSSP`, `Fraction`,
        `Throttled`, or a function ``(table, me) -> bool`` of a `ProgressTable` and the worker's
        number, which is asked again and again until it says True.
    runtime : {"auto", "caller", "threads", "processes"} or Simulator, default="auto"
        Who runs the workers. "auto" uses as many of `n_workers` as pay, less the cores that others
        have now where a run is short, as threads (no copy of the rows), or as processes if the
        rows come from `hogshare.share`. A runtime named makes `n_workers` an order. A `Simulator`
        runs any number of them on a virtual clock.
    n_workers : int or None, default=None
        None is one, -1 all usable cores (`joblib.effective_n_jobs`). A ceiling with
        ``runtime="auto"``, which takes fewer where more cannot pay or others have the cores now;
        an order with a runtime named.
    step : StepSize, default=StepSize("optimal")
        Step sizes of `SGD`; the other rules have none.
    stop : Stop, default=Stop(epochs=10)
        When to end.
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
    stragglers : Stragglers, default=None
        A law of `hogshare.stragglers`: workers are slow on purpose, to see what a barrier makes of
        it. Each block is then pulled for and pushed by itself, and workers sleep in between.
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
        If an argument is out of its range, if the run diverges, or if `resume` is no checkpoint or
        that of another run.
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
    """
    rule, plane = rule or SGD(), plane or Shared()
    barrier = ASP() if barrier is None else barrier
    check_barrier(barrier)
    check_stragglers(stragglers)
    began = time.perf_counter()
    if not isinstance(rule, SGD):
        check_memory(problem, rule, plane, step, shuffle, start)
        step = StepSize("constant")
    step, stop = step or StepSize(), stop or Stop()
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
            warnings.warn(outcome.absurd(rule), ConvergenceWarning, stacklevel=2)
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


def check_simulated(rule: Rule, plane: Plane) -> None:
    """Refuse what cannot be taken apart into reading, computing and writing."""
    if isinstance(rule, SAGA) and isinstance(plane, Shared) and plane.exchange is None:
        raise ValueError(
            "SAGA on the one vector reads and writes row by row, and a Simulator block by block: "
            "use SAGA() with private copies, plane=Shared()."
        )


def check_confirm(rule: Rule, stop: Stop) -> None:
    """Refuse to confirm a model that is not meant to be the optimum's."""
    if stop.confirm and isinstance(rule, SGD):
        raise ValueError(
            "Stop(confirm=True) asks whether the optimum is reached, around which SGD hovers: use "
            "SDCA() or SAGA()."
        )


def check_units(problem: LinearProblem, rule: Rule, plane: Plane, stop: Stop) -> None:
    """Refuse columns in units of their own where the penalty would not know of them."""
    private = isinstance(plane, Shared) and plane.exchange is not None
    if problem.divisors is None or (isinstance(rule, SAGA) and private and not stop.looks):
        return
    raise ValueError(
        "A problem whose columns are in units of their own needs SAGA(), private copies and tol=."
    )


def check_gradients(problem: LinearProblem, trace: int | None, gradients: bool) -> None:
    """Refuse gradients where there is no trace, or no gradient."""
    if gradients and trace is None:
        raise ValueError("gradients=True records them on the trace: ask for one, trace=4.")
    if gradients:
        from hogshare.theory.gradients import check_smooth

        check_smooth(problem)


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

    died = bool((session.shared.table[:, layout.T_STATE] == layout.DEAD).any())
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


def check_memory(
    problem: LinearProblem,
    rule: SDCA | SAGA,
    plane: Plane,
    step: StepSize | None,
    shuffle: bool,
    start: Model | None,
) -> None:
    """Refuse what the rules that remember rows cannot do."""
    name = type(rule).__name__
    if isinstance(plane, Master):
        raise ValueError(f"{name} needs a shared vector: use plane=Shared(), or rule=SGD().")
    if step is not None:
        raise ValueError(f"{name} has no schedule of step sizes; leave `step` out.")
    if isinstance(rule, SAGA):
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
    assert isinstance(plane, Shared)
    if plane.exchange is None:
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


def check_coordinate(rule: Rule, plane: Plane, step: StepSize, block: int | None) -> None:
    """Refuse writes of one coordinate where they have no meaning."""
    if rule.coordinate is None:
        return
    what = f"SGD(coordinate={rule.coordinate!r})"
    if isinstance(plane, Master) or plane.exchange is not None:
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


def check(
    problem: LinearProblem,
    rule: Rule,
    plane: Plane,
    step: StepSize,
    stop: Stop,
    start: Model | None,
    trace: int | None,
    block: int | None,
) -> None:
    """Refuse combinations that do not make sense, before anything is allocated."""
    if isinstance(plane, Master) and plane.cutoff is not None and rule.average:
        raise ValueError(
            "SGD(average=...) counts every step, and Master(cutoff=...) drops some: leave out one."
        )
    if rule.batch > 1 and isinstance(plane, Shared) and plane.exchange is not None:
        raise ValueError(
            f"SGD(batch={rule.batch}) computes a mini-batch from one read of a vector that others "
            "write meanwhile; that needs Shared(exchange=None), or a Master. With private copies "
            "use batch=1."
        )
    check_coordinate(rule, plane, step, block)
    if step.kind == "optimal" and problem.alpha == 0.0:
        raise ValueError(
            "alpha must be > 0 since the step size is 'optimal', which is computed from alpha; "
            "use another StepSize."
        )
    wanted = {"pa1": "hinge", "pa2": "hinge"} if not problem.is_regression else {}
    if problem.is_regression:
        wanted = {"pa1": "epsilon_insensitive", "pa2": "epsilon_insensitive"}
    if step.kind in wanted and problem.loss != wanted[step.kind]:
        raise ValueError(
            f"StepSize({step.kind!r}) works with loss={wanted[step.kind]!r} only; "
            f"got {problem.loss!r}."
        )
    if stop.validation is not None:
        held_out = int(np.count_nonzero(stop.validation))
        if len(stop.validation) != problem.n_rows or not 0 < held_out < problem.n_rows:
            raise ValueError(
                f"Stop.validation must mark some but not all of the {problem.n_rows} rows; it has "
                f"{len(stop.validation)} entries and marks {held_out}."
            )
        weight = problem.rows.weight
        if weight.size and not weight[np.asarray(stop.validation)].any():
            raise ValueError(
                "Stop.validation marks only rows of weight 0; their score is undefined."
            )
    if block is not None and block < 1:
        raise ValueError(f"block must be at least 1 row; got {block}.")
    if trace is not None and trace < 1:
        raise ValueError(f"trace must be at least 1 snapshot per epoch; got {trace}.")
    if start is not None:
        shape = (problem.n_columns, problem.n_features)
        if np.shape(start.coef) != shape or np.shape(start.intercept) != shape[:1]:
            raise ValueError(
                f"The start model has coef of shape {np.shape(start.coef)} and intercept of shape "
                f"{np.shape(start.intercept)}; this problem needs {shape} and {shape[:1]}."
            )
        averages: list[Any] = [start.average_coef, start.average_intercept]
        of_average = [None if part is None else np.shape(part) for part in averages]
        if of_average not in ([None, None], [shape, shape[:1]]):
            raise ValueError(
                f"The start model's average has coef of shape {of_average[0]} and intercept of "
                f"shape {of_average[1]}; this problem needs {shape} and {shape[:1]}, or neither."
            )
        ranges.not_negative(**{"t of the start model": start.t})
        if isinstance(start, Handed):
            return  # of the rows' type; the run looks at its numbers when it is over
        if not start.is_finite():
            raise ValueError("The start model holds NaN or infinity.")
        with errstate(over="ignore"):
            held = np.asarray(start.coef).astype(problem.dtype)
        if not np.isfinite(held).all():
            raise ValueError(f"The start model's coef is too large for {problem.dtype}.")
        if start.memory is not None and not isinstance(rule, SGD):
            check_start(problem, start.memory)
