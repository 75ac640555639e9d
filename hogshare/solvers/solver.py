"""`solve`: one problem, one rule, one plane, one runtime, one report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import numpy as np
from sklearn.utils import check_random_state

from hogshare.barriers import BSP, Barrier, BuiltIn, barrier_of, is_bsp
from hogshare.engine.checkpoints import Checkpoint, OneFile, Saved, facts_of
from hogshare.engine.choices import Choices, may_split, rows_of_step, takes_steps_in_calls
from hogshare.engine.description import fitted
from hogshare.engine.epoch_ends import EpochEnds
from hogshare.engine.stops import Stop
from hogshare.engine.world import World
from hogshare.kernels.jit import announcements
from hogshare.kernels.rules import block_sums
from hogshare.kernels.schedule import epoch_schedule
from hogshare.planes import Plane
from hogshare.problems.model import Handed, Model
from hogshare.problems.params import Params
from hogshare.problems.protocol import Problem
from hogshare.report import Report
from hogshare.rules.protocol import Rule
from hogshare.rules.start_memory import begins_empty
from hogshare.rules.steps import StepSize
from hogshare.runtimes.choice import choose, work_of
from hogshare.runtimes.hooks import OnEpoch
from hogshare.runtimes.protocol import Runtime
from hogshare.solvers.choice_names import (
    check_settings,
    plane_of,
    problem_of,
    rule_of,
    runtime_of,
    step_of,
    stop_of,
)
from hogshare.solvers.joint_call import together
from hogshare.solvers.refusals import check_groups, refuse
from hogshare.solvers.repeats import repeatable
from hogshare.solvers.run import Run
from hogshare.stragglers import Stragglers, check_workers, stragglers_of
from hogshare.system import ranges
from hogshare.system.interrupts import leaves_numpy

if TYPE_CHECKING:
    from hogshare.simulation.simulator import Simulator


@leaves_numpy
@announcements.block("solve")
@together
def solve(
    problem: Problem,
    *others: Never,
    rule: Rule | type[Rule] | str | None = None,
    plane: Plane | type[Plane] | str | None = None,
    barrier: Barrier | type[BuiltIn] | str | None = None,
    runtime: str | Runtime | Simulator | type[Simulator] | None = "auto",
    n_workers: int | None = None,
    step: StepSize | float | str | None = None,
    stop: Stop | int | None = None,
    shuffle: bool = True,
    seed: Any = None,
    start: Model | Params | np.ndarray | None = None,
    trace: int | None = None,
    block: int | None = None,
    record: bool = False,
    gradients: bool = False,
    stragglers: Stragglers | str | None = None,
    on_epoch: OnEpoch | EpochEnds | None = None,
    checkpoint: Checkpoint | str | Path | None = None,
    resume: str | Path | None = None,
) -> Report:
    """Minimise a problem with any number of workers.

    Where the meaning is plain, an argument may be a word in place of a thing, in upper or lower
    case: ``rule="saga"`` is ``SAGA()``, ``barrier="ssp:4"`` is ``SSP(4)``, ``stop=3`` is
    ``Stop(epochs=3)``. A class stands for its defaults: ``rule=SAGA``.

    Parameters
    ----------
    problem : LinearProblem or GradientProblem
        From `hogshare.problems.linear`. It holds the caller's own arrays, checked when it was made:
        their indices must not be changed in place after that, nor by a callback. Rows and labels
        are none, for they do not say which loss is meant. Or by a gradient of one's own, from
        `hogshare.problems.user` or a class derived from `hogshare.problems.GradientProblem`.
    *others
        Nothing: all other arguments are named.
    rule : SGD, SDCA, SAGA, Adam, {"sgd", "sdca", "saga", "adam", "auto"}, default=SGD()
        How a block of rows becomes a step. "auto" is `SDCA` or `SAGA`, whichever suits the problem:
        no step size to choose, for any loss but the perceptron's, with private copies. For a
        gradient `SGD`, `Adam`, or a rule of one's own (`hogshare.Rule`).
    plane : Shared, Grid, Master, Replicas, Mirrors, \
            {"shared", "grid", "master", "replicas", "mirrors"}, default=Shared()
        Where the model lives; or a plane of one's own (`hogshare.Plane`).
    barrier : Barrier, callable or str, default=None
        When a worker may go on after a block. None: where a step has a memory (momentum, `Adam`) or
        is the mean over a mini-batch (networks), and the model is one vector, ``BSP()``, whose
        workers compute each mini-batch together, so that any number of them takes the steps of one;
        else ``ASP()``, with which nobody waits. Or `ASP`, `BSP`, `SSP`, `PBSP`, `PSSP`, `Fraction`,
        `Throttled`, or a function ``(table, me) -> bool`` of a `ProgressTable` and the worker's
        number, which is asked again and again until it says True. In words as the command has them:
        "asp", "bsp", "ssp:4", "pbsp:10", "pssp:10,4", "fraction:0.9,2", "throttled:8", and, as in
        "pbsp:10,hold", a last word for ``hold=True``.
    runtime : {"auto", "caller", "threads", "processes", "mpi", "simulator"}, MPI or Simulator, \
            default="auto"
        Who runs the workers. "auto" uses as many of `n_workers` as pay, less the cores that others
        have now where a run is short, as threads (no copy of the rows), or as processes if the
        rows come from `hogshare.share`. With a runtime named exactly `n_workers` start. A
        `Simulator` runs any number of them on a virtual clock; "simulator" is ``Simulator()``. An
        `MPI` has every rank of a job make this call, each with `n_workers`; "mpi" is ``MPI()``. Or
        a runtime of one's own (`hogshare.runtimes.protocol.Runtime`).
    n_workers : int or None, default=None
        None is one, -1 all usable cores (`joblib.effective_n_jobs`). A ceiling with
        ``runtime="auto"``, which takes fewer where more cannot pay or others have the cores now;
        with a runtime named, exactly so many start.
    step : StepSize, float or str, default=StepSize("optimal")
        Step sizes of `SGD`; the other rules have none. A number is a constant one, a word the
        schedule of that name. With a gradient of one's own ``StepSize("constant")`` by default,
        for the sum over the rows of a step.
    stop : Stop or int, default=Stop(epochs=10)
        When to end; a number is so many epochs.
    shuffle : bool, default=True
        Whether each epoch visits the rows in a new order: scikit-learn's for rows of up to 16 MB,
        and by windows of neighbours for more and for `SAGA` (`problems.linear.rows.windows`).
    seed : int, RandomState or None, default=None
        Of the row order. With one worker the same seed gives the same model bit for bit; with more
        the run depends on their timing.
    start : Model, Params or ndarray, default=None
        Where to start: coefficients, intercept, averages and step counter; of a gradient of one's
        own the vector. `SAGA` and `SDCA` go on
        with what the model remembers (`Model.memory`), also with another `alpha`; without, SAGA
        reads all rows once to remember the derivatives at a start other than zero, and SDCA
        starts from zero only.
    trace : int or None, default=None
        Snapshots of the model per epoch, for the report's curves. The objective is evaluated on
        them after the run.
    block : int or None, default=None
        Rows of a block, after which a worker's clock advances and the barrier is asked. None: an
        eighth of a worker's share of an epoch, at most 8192. A trace may need smaller ones. With
        private copies behind `BSP`, and on a virtual clock, what lies between two exchanges. With a
        gradient of one's own a block is one step, of 64 rows, or of a mini-batch.
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
        (counted from 1); ``snapshot()`` gives the model; True stops the run. Workers in threads and
        processes wait for it at each epoch's end, so that the model is that of the epoch, but for
        planes with a model for every worker, workers that go on without the others, and `BSP`,
        whose bits a wait would change: there it may be a later epoch's.
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
    GradientError
        If a gradient of the user's raises, or answers what is no loss.
    PlaneError
        If a plane of the user's raises, or answers what is no model.
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
    problem, runtime = problem_of(problem, others), runtime_of(runtime)
    if isinstance(runtime, Runtime):
        problem = runtime.local_problem(problem)
    given = start is not None
    first = problem.start_model(start)
    files = {"checkpoint": checkpoint, "resume": resume}
    check_settings(n_workers, shuffle, trace, block, on_epoch, files)
    # of Python's from here on: some of NumPy's wrap around
    trace, block = (None if one is None else int(one) for one in (trace, block))
    ranges.flag(record=record, gradients=gradients)
    rule, plane = rule_of(rule, problem, shuffle, first), plane_of(plane)
    named_barrier, barrier = barrier is not None, barrier_of(barrier)
    stragglers = stragglers_of(stragglers)
    step, stop = step_of(step), stop_of(stop)
    if isinstance(on_epoch, EpochEnds):
        on_epoch.check(stop, shuffle, files)
    step = refuse(problem, rule, plane, step, stop, first, shuffle, trace, block, gradients)
    work = work_of(problem, stop, plane, first)
    splits = n_workers != 1 and may_split(problem, rule, plane, block)  # may try the gradient
    if splits and (not named_barrier or is_bsp(barrier, 2)):
        in_calls = takes_steps_in_calls(problem, rule, plane.mode(2))
        work = work.shared(stop.epochs, rows_of_step(rule, block), in_calls)
    workers, runner, notes = choose(work, runtime, n_workers)
    if runner.has_clock:
        rule.check_simulated(plane)
    are_one = workers > 1 and runner.is_orderly and runner.everywhere(workers) == workers
    if splits and are_one and not named_barrier and not record:
        barrier = BSP()  # late steps are another optimiser's: who asks for none has one worker's
    check_groups(plane, barrier, runner.everywhere(workers))
    runner.settle(barrier, workers)
    check_workers(stragglers, workers)
    place, saved = place_of(checkpoint, runner.files), saved_run(resume, given, runner.files)
    order_seed = shuffle_seed(seed) if saved is None or seed is not None else saved.seed
    facts: dict[str, Any] = {}
    if place is not None or saved is not None:
        facts = facts_of(problem, rule, step, stop, shuffle, order_seed)
    if saved is not None:
        saved.require(facts)
    first_t = 1.0 if first is None else first.t
    choices = Choices(
        problem=problem,
        rule=rule,
        plane=plane,
        barrier=barrier,
        step=step,
        stop=stop,
        world=World((workers,)),
        seed=order_seed,
        shuffle=shuffle,
        first_t=first_t if saved is None else saved.first_t,
        trace=trace or 0,
        report_epochs=callable(on_epoch) or (place is not None and runner.is_inside),
        track=block_sums.CRITERION if stop.tol is not None else block_sums.NOTHING,
        block=block,
        record=record,
        sleeps=epoch_schedule.SIMULATED if runner.has_clock else int(stragglers is not None),
        parts=runner.parts(plane),
        orderly=runner.is_orderly,
        has_teams=runner.has_teams,
        waits_at_ends=isinstance(on_epoch, EpochEnds),
        names_barrier=named_barrier,
        empty=rule.remembers and begins_empty(first),
        iterate=weight_of_iterates(rule, plane, workers, first),
    )
    choices = runner.settled(choices)
    choices = fitted(choices)
    if record and choices.split:
        raise ValueError(
            "record=True is for runs that depend on their timing, and behind BSP this one repeats "
            "every bit: leave it out, or take another barrier."
        )
    run = Run(
        choices=choices,
        runner=runner,
        notes=notes,
        began=began,
        start=first,
        saved=saved,
        checkpoint=place,
        facts=facts,
        stragglers=stragglers,
        on_epoch=on_epoch,
        gradients=gradients,
        seed=seed,
        again=repeatable(solve, choices, OrderSeed(order_seed), given or saved is not None),
    )
    return run.to_the_end()


def weight_of_iterates(rule: Rule, plane: Plane, n_workers: int, start: Model | None) -> float:
    """What an iterate counts in the lag: less than 1 where that is the start's own average."""
    if not (rule.average and isinstance(start, Handed)):
        return 1.0
    alone = plane.mode(n_workers) == epoch_schedule.ALONE and not plane.has_homes
    before = start.t - rule.average
    return 1.0 / before if alone and before > 1.0 and start.average_coef is not None else 1.0


class OrderSeed(int):
    """A seed of the row order itself: as `seed` of `solve` it is used as it is, not drawn from."""


def shuffle_seed(seed: Any) -> int:
    """Seed of the row order, drawn as scikit-learn draws it: the second number of the generator."""
    if isinstance(seed, OrderSeed):
        return int(seed)
    random_state = check_random_state(seed)
    random_state.randint(1, np.iinfo(np.int32).max)
    return int(random_state.randint(np.iinfo(np.int32).max))


def place_of(checkpoint: Checkpoint | str | Path | None, files: OneFile) -> Checkpoint | None:
    """Where checkpoints go, if anywhere; a place that will not do is refused."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    files.check(checkpoint)
    return checkpoint


def saved_run(resume: str | Path | None, has_start: bool, files: OneFile) -> Saved | None:
    """The run to go on with, if any.

    Raises
    ------
    ValueError
        If the file is no checkpoint, or there is another start besides.
    """
    if resume is None:
        return None
    if has_start:
        raise ValueError(
            "give one of start and resume: a checkpoint holds the model that its run goes on from."
        )
    return files.load(resume)
