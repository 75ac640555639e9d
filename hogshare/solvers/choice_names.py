"""The choices of a run by name, number or class.

`KNOWN` is the only table of names for `solve`, the papers' algorithms and the estimators. The names
of barriers are in `hogshare.barriers`, which the command line also reads. Names are accepted in
upper and lower case. A class stands for an instance with default arguments, if all of its arguments
have defaults. Invalid input raises an error that names the valid choices: a `ValueError` for a
wrong name or number, a `TypeError` for a wrong type.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hogshare.barriers import NAMES
from hogshare.engine.checkpoints import Checkpoint
from hogshare.engine.epoch_ends import EpochEnds
from hogshare.engine.stops import Stop
from hogshare.kernels.rules import step_schedules
from hogshare.planes import Grid, Master, Mirrors, Plane, Replicas, Shared
from hogshare.problems.model import Model
from hogshare.problems.protocol import Problem, RowProblem, has_rows
from hogshare.rules.adam import Adam
from hogshare.rules.automatic_rule import automatic_rule
from hogshare.rules.protocol import Rule
from hogshare.rules.saga import SAGA
from hogshare.rules.sdca import SDCA
from hogshare.rules.sgd import SGD
from hogshare.rules.steps import StepSize
from hogshare.runtimes.choice import RUNTIMES
from hogshare.runtimes.joint_runtime import Joint
from hogshare.runtimes.protocol import Runtime
from hogshare.system import ranges
from hogshare.system.messages import listed, nearest, own, speaking

if TYPE_CHECKING:
    from hogshare.simulation.simulator import Simulator

AUTO, SIMULATOR, RANKS = "auto", "simulator", "mpi"
RULES: dict[str, type[Rule]] = {"sgd": SGD, "sdca": SDCA, "saga": SAGA, "adam": Adam}
PLANES: dict[str, type[Plane]] = {
    "shared": Shared,
    "grid": Grid,
    "master": Master,
    "replicas": Replicas,
    "mirrors": Mirrors,
}
KNOWN: dict[str, tuple[str, ...]] = {
    "rule": (AUTO, *RULES),
    "plane": tuple(PLANES),
    "runtime": (*RUNTIMES, RANKS, SIMULATOR),
    "step": tuple(step_schedules.CODES),
    "barrier": NAMES,
}
Thing = TypeVar("Thing")


def problem_of(problem: Any, others: tuple[Any, ...] = ()) -> Problem:
    """Check that `problem` is a problem, not rows and labels, which lack a loss and a penalty.

    others : further positional arguments; if there are any, a TypeError is raised
    """
    if hasattr(type(problem), "has_rows"):
        if others:
            raise TypeError(
                "only the problem may be passed by position: name the other arguments, as in "
                "solve(problem, stop=10)."
            )
        known: Problem = problem
        known.check()
        return known
    raise TypeError(
        "a problem is rows and labels with a loss and a penalty: write solve(problems.linear(X, y, "
        "loss='log_loss', penalty='l2', alpha=1e-4)), or, for a gradient of your own, "
        f"problems.user(gradient, n_rows, n_params), with `problems` from hogshare; got "
        f"{_kind(problem)}."
    )


def linear_of(algorithm: str, problem: Any, others: tuple[Any, ...] = ()) -> RowProblem:
    """Check that the problem of an algorithm with row memory is linear, and return it."""
    problem = problem_of(problem, others)
    if has_rows(problem):
        return problem
    raise TypeError(
        f"{algorithm} needs a linear problem, from problems.linear, since it stores a number for "
        f"each row; got {_kind(problem)}. With a gradient of your own, call solve, asysg_incon or "
        "asysg_con."
    )


PLAIN = SGD()  # one instance may be shared, since it is frozen


def rule_of(rule: Any, problem: Problem, shuffle: bool, start: Model | None) -> Rule:
    """Return the rule; "auto" is the rule that suits the problem and needs no step size."""
    if rule is None:
        return PLAIN
    if isinstance(rule, Rule):
        return rule
    if _is(rule, AUTO):
        if not has_rows(problem):
            return SGD()
        forgetful = start is not None and start.memory is None and not start.is_zero()
        return automatic_rule(problem, shuffle, from_anywhere=forgetful)
    if isinstance(rule, type) and issubclass(rule, Rule):
        return rule()
    return _made("rule", rule, RULES, "SGD(), SDCA(), SAGA(), Adam()")


def plane_of(plane: Any) -> Plane:
    """Return the plane."""
    if plane is None:
        return Shared()
    if isinstance(plane, Plane):
        return plane.settled
    if isinstance(plane, type) and issubclass(plane, Plane):
        return plane()
    return _made("plane", plane, PLANES, "Shared(), Grid(), Master(), Replicas(), Mirrors()")


def runtime_of(runtime: Any) -> str | Runtime | Simulator:
    """Return the runtime: one of the names, in lower case, a Simulator, or the user's."""
    if runtime is None:
        return AUTO
    if isinstance(runtime, type) and issubclass(runtime, Runtime):
        runtime = runtime()
    if isinstance(runtime, Runtime):
        runtime.check()
        return runtime
    if isinstance(runtime, str):
        name = runtime.strip().lower()
        if name in RUNTIMES:
            return name
        if name == RANKS:
            from hogshare.runtimes.mpi.runtime import MPI

            return MPI()
        if name != SIMULATOR:
            raise ValueError(_misspelt("runtime", runtime, "a Simulator"))
    # imported within the function: other fits should not wait for the import
    from hogshare.simulation.simulator import Simulator

    if isinstance(runtime, Simulator):
        return runtime
    return _made("runtime", runtime, {SIMULATOR: Simulator}, "a Simulator")


def joint_of(runtime: Any) -> Joint | None:
    """Return the runtime if it is a joint one, else None; `runtime_of` refuses invalid values."""
    if isinstance(runtime, type) and issubclass(runtime, Joint):
        return runtime()
    if isinstance(runtime, str) and runtime.strip().lower() == RANKS:
        from hogshare.runtimes.mpi.runtime import MPI

        return MPI()
    return runtime if isinstance(runtime, Joint) else None


def step_of(step: Any) -> StepSize | None:
    """Return the step size; a number is a constant step size, a string a schedule's name."""
    if step is None or isinstance(step, StepSize):
        return step
    if step is StepSize:
        return StepSize()
    if isinstance(step, str):
        name = step.strip().lower()
        if name not in step_schedules.CODES:
            raise ValueError(_misspelt("step", step, "a number, a StepSize"))
        return StepSize(name)
    if not ranges.is_number(step):
        raise TypeError(
            "step must be a number, which is a constant step size, a schedule's name, such as "
            f"'invscaling', or a StepSize; got {_kind(step)}."
        )
    with speaking({"eta0": own("step")}):
        return StepSize("constant", eta0=float(step))


def stop_of(stop: Any) -> Stop:
    """Return the criterion; a whole number is a number of epochs."""
    if stop is None or stop is Stop:
        return Stop()
    if isinstance(stop, Stop):
        return stop
    if not ranges.is_number(stop):
        raise TypeError(
            "stop must be a number of epochs, or a Stop, such as Stop(epochs=100, tol=1e-3); got "
            f"{_kind(stop)}."
        )
    if stop != stop // 1 or stop < 1:
        raise ValueError(
            f"stop={stop!r} is not a number of epochs: pass an integer of at least 1, or, for a "
            "tolerance, Stop(epochs=100, tol=1e-3)."
        )
    with speaking({"epochs": own("stop")}):
        return Stop(epochs=int(stop))


def check_settings(
    n_workers: Any, shuffle: Any, trace: Any, block: Any, on_epoch: Any, files: dict[str, Any]
) -> None:
    """Refuse settings of the wrong type; other code checks their values later.

    files : `checkpoint` and `resume` of `solve`, by name
    """
    if n_workers is not None and not ranges.is_integer(n_workers):
        raise TypeError(
            f"{own('n_workers')} must be a whole number of workers, -1 for every core, or None; "
            f"got {n_workers!r}."
        )
    if not isinstance(shuffle, (bool, np.bool_)):
        raise TypeError(f"shuffle must be True or False; got {shuffle!r}.")
    if trace is not None and not ranges.is_integer(trace):
        raise TypeError(
            "trace must be a whole number of snapshots per epoch, such as 4, or None; got "
            f"{trace!r}."
        )
    if block is not None and not ranges.is_integer(block):
        raise TypeError(f"block must be a whole number of rows, or None; got {block!r}.")
    # an EpochEnds is not callable: it decides while the workers pause
    if not (on_epoch is None or callable(on_epoch) or isinstance(on_epoch, EpochEnds)):
        raise TypeError(
            f"on_epoch must be a function (epoch, snapshot) -> bool; got {_kind(on_epoch)}."
        )
    for name, file in files.items():
        # a number would be the descriptor of an open file, such as standard input
        if not (file is None or isinstance(file, (str, os.PathLike, Checkpoint))):
            raise TypeError(f"{name} must be the path of a file; got {_kind(file)}.")


def _is(value: Any, name: str) -> bool:
    return isinstance(value, str) and value.strip().lower() == name


def _made(name: str, value: Any, kinds: dict[str, type[Thing]], things: str) -> Thing:
    """Return the instance for a name or a class, made with default arguments."""
    if isinstance(value, str):
        kind = kinds.get(value.strip().lower())
        if kind is None:
            raise ValueError(_misspelt(name, value, things))
        return kind()
    if isinstance(value, type) and value in kinds.values():
        return value()
    raise TypeError(f"{name} must be {listed(KNOWN[name])}, or {things}; got {_kind(value)}.")


def _misspelt(name: str, text: str, things: str) -> str:
    known = KNOWN[name]
    return f"{name} must be {listed(known)}, or {things}; got {text!r}.{nearest(text, known)}"


def _kind(value: Any) -> str:
    """Describe a value briefly for a message: arrays and estimators would fill a page."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{type(value).__name__} of shape {shape}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        return repr(value)
    return f"an object of type {type(value).__name__}"
