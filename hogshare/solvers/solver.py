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
from hogshare.rules.row_memory import begins_empty
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
    """Minimize a problem with any number of workers.

    An argument may be a name, in upper or lower case, or a number, if the meaning is clear:
    ``rule="saga"`` is ``SAGA()``, ``barrier="ssp:4"`` is ``SSP(4)``, ``stop=3`` is
    ``Stop(epochs=3)``. A class stands for an instance with default arguments: ``rule=SAGA`` is
    ``SAGA()``.

    Parameters
    ----------
    problem : LinearProblem or GradientProblem
        A problem from `hogshare.problems.linear`, or a problem with a gradient of your own, from
        `hogshare.problems.user` or a class derived from `hogshare.problems.GradientProblem`. A
        problem reads your own arrays in place. They were checked when the problem was made, so do
        not change their indices afterwards, not even in a callback. Rows and labels alone are not a
        problem, because they do not specify a loss.
    *others
        Not accepted: pass all other arguments by name.
    rule : SGD, SDCA, SAGA, Adam, {"sgd", "sdca", "saga", "adam", "auto"}, default=SGD()
        How a block of rows becomes a step. "auto" is `SDCA` or `SAGA`, whichever suits the problem;
        it needs no step size, supports any loss except the perceptron's, and needs private copies.
        A problem with a gradient of your own accepts `SGD`, `Adam`, or a rule of your own
        (`hogshare.Rule`).
    plane : Shared, Grid, Master, Replicas, Mirrors, \
            {"shared", "grid", "master", "replicas", "mirrors"}, default=Shared()
        Where the model is stored, and how workers read and write it. It may be a plane of your own
        (`hogshare.Plane`).
    barrier : Barrier, callable or str, default=None
        When a worker may continue after a block: `ASP`, `BSP`, `SSP`, `PBSP`, `PSSP`, `Fraction`,
        `Throttled`, or a function ``(table, me) -> bool`` of a `ProgressTable` and the worker's
        number. The function is called repeatedly until it returns True. The names are the same as
        on the command line: "asp", "bsp", "ssp:4", "pbsp:10", "pssp:10,4", "fraction:0.9,2",
        "throttled:8", and "pbsp:10,hold" for ``hold=True``. None is ``BSP()`` if two conditions are
        true: (1) the model is one vector; (2) a step has a memory (momentum, `Adam`) or is the mean
        over a mini-batch (networks). The workers then compute each mini-batch together, and take
        the same steps as one worker. In all other cases None is ``ASP()``, with which no worker
        waits.
    runtime : {"auto", "caller", "threads", "processes", "mpi", "simulator"}, MPI or Simulator, \
            default="auto"
        Where the workers run. "auto" starts at most `n_workers` workers, and only as many as make
        the run faster; in a short run it avoids busy cores. These workers are threads, without a
        copy of the rows, or processes if the rows come from `hogshare.share`. With a named runtime
        exactly `n_workers` start. A `Simulator` runs any number of workers on a virtual clock;
        "simulator" is ``Simulator()``. With `MPI` every rank of a job makes this call, and has
        `n_workers` workers; "mpi" is ``MPI()``. You can also pass a runtime of your own
        (`hogshare.runtimes.protocol.Runtime`).
    n_workers : int or None, default=None
        Number of workers. None means 1; -1 means all usable cores (`joblib.effective_n_jobs`). With
        ``runtime="auto"`` it is a maximum: fewer workers are used if more would not be faster, or
        if the cores are busy. With a named runtime exactly this number starts.
    step : StepSize, float or str, default=StepSize("optimal")
        Step sizes of `SGD`; the other rules have none. A number is a constant step size. A string
        is the name of a schedule. For a gradient of your own the default is
        ``StepSize("constant")``, applied to the sum over the rows of a step.
    stop : Stop or int, default=Stop(epochs=10)
        The stopping criterion; an int is a number of epochs.
    shuffle : bool, default=True
        Whether each epoch visits the rows in a new order. For rows of up to 16 MB it is the order
        of scikit-learn. For more rows, and for `SAGA`, rows are shuffled in windows of neighboring
        rows (`problems.linear.rows.windows`).
    seed : int, RandomState or None, default=None
        Determines the order of the rows. With one worker the same seed gives the same model bit for
        bit. With several workers the model depends on their timing.
    start : Model, Params or ndarray, default=None
        The model from which to start: coefficients, intercept, averages and step counter. For a
        gradient of your own it is the vector of parameters. `SAGA` and `SDCA` continue with the
        model's row memory (`Model.memory`), even with another `alpha`. Without row memory, SAGA
        first reads all rows to compute the derivatives at a nonzero start, and SDCA must start from
        zero.
    trace : int or None, default=None
        Number of snapshots of the model per epoch, for the report's curves. After the run, the
        objective is evaluated at each snapshot.
    block : int or None, default=None
        Number of rows of a block, after which a worker's clock advances and the barrier is
        evaluated. If None, it is an eighth of a worker's share of an epoch, at most 8192; a trace
        may need smaller blocks. There are two exceptions. With private copies and either `BSP` or
        a virtual clock, a block contains the rows between two exchanges. With a gradient of your
        own, a block is one step: 64 rows, or a mini-batch.
    record : bool, default=False
        Whether `Report.recording` contains, for each block, its worker and the version of the model
        that the worker read. `hogshare.replay` needs such a recording. It is available with the
        `Master` plane and with ``Shared(exchange=None)``.
    gradients : bool, default=False
        Whether the trace also contains the squared norm of the objective's gradient. The objective
        must be smooth. This takes one more pass over the rows per snapshot, after the run.
    stragglers : Stragglers or str, default=None
        A model of slow workers from `hogshare.stragglers`, or its name, such as "cds:0.6". It slows
        workers down on purpose, to study barriers. Workers then pull and push for each block, and
        sleep between blocks.
    on_epoch : callable, default=None
        ``on_epoch(epoch, snapshot) -> bool`` is called in the calling thread after each epoch
        (counted from 1). ``snapshot()`` returns the model. If the function returns True, the run
        stops. Workers in threads and processes wait for the function at the end of each epoch, so
        `snapshot` returns the epoch's model. They do not wait in three cases: (1) the plane has a
        model for every worker; (2) workers continue without the other workers; (3) the barrier is
        `BSP`, with which waiting would change the model's bits. In these cases `snapshot` may
        return a later epoch's model.
    checkpoint : Checkpoint, str or Path, default=None
        Where to save the run while it is running. With a path, the run is saved after every epoch.
        See `Checkpoint` and ``docs/checkpoints.md``.
    resume : str or Path, default=None
        A checkpoint file of the same run. The run continues from it, until the epochs of `stop` are
        done; earlier epochs count. With one worker the result is, bit for bit, the result of an
        uninterrupted run. The file is not written unless it is also named in `checkpoint`. `seed`
        may be left out.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If an argument is out of its range or an unknown name, if the run diverges, or if `resume`
        is not a checkpoint of this run.
    TypeError
        If an argument is of the wrong type.
    GradientError
        If your gradient raises, or returns an invalid loss.
    PlaneError
        If your plane raises, or returns an invalid model.
    BarrierError
        If your barrier raises, returns anything but a boolean, or lets no worker pass.
    OSError
        If `resume` cannot be read, or the folder of `checkpoint` does not exist. (If a checkpoint
        cannot be written during the run, `solve` only warns.)
    MemoryError
        If the run needs more memory than is free.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import Stop, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = solve(problems.linear(scale(X), y), stop=Stop(epochs=5), seed=0)
    >>> report.n_epochs, report.model.coef.shape
    (5, (1, 30))

    A run with named choices, another rule, and two workers in step:

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
    # from this line on Python's integers: some of NumPy's wrap around
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
        # stale steps change the optimizer, so by default the steps are the same as with one worker
        barrier = BSP()
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
            "record=True is for runs that depend on their timing, but with BSP this run is "
            "repeatable bit for bit: use record=False, or another barrier."
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
    """Return the weight of an iterate in the lag; below 1 if the lag is the start's own average."""
    if not (rule.average and isinstance(start, Handed)):
        return 1.0
    alone = plane.mode(n_workers) == epoch_schedule.ALONE and not plane.has_homes
    before = start.t - rule.average
    return 1.0 / before if alone and before > 1.0 and start.average_coef is not None else 1.0


class OrderSeed(int):
    """A seed of the row order: `solve` uses it directly, and draws no other seed from it."""


def shuffle_seed(seed: Any) -> int:
    """Draw the seed of the row order as scikit-learn does: the generator's second number."""
    if isinstance(seed, OrderSeed):
        return int(seed)
    random_state = check_random_state(seed)
    random_state.randint(1, np.iinfo(np.int32).max)
    return int(random_state.randint(np.iinfo(np.int32).max))


def place_of(checkpoint: Checkpoint | str | Path | None, files: OneFile) -> Checkpoint | None:
    """Return the checkpoint's settings, if any; refuse an unsuitable place."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    files.check(checkpoint)
    return checkpoint


def saved_run(resume: str | Path | None, has_start: bool, files: OneFile) -> Saved | None:
    """Return the run to resume, or None if `resume` is None.

    Raises
    ------
    ValueError
        If the file is not a checkpoint, or if `start` is given, too.
    """
    if resume is None:
        return None
    if has_start:
        raise ValueError(
            "pass only one of start and resume: a checkpoint contains the model from which its run "
            "continues."
        )
    return files.load(resume)
