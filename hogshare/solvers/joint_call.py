"""Calls that several processes make together: `solve` by a joint runtime, such as MPI's."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.barriers import BuiltIn, barrier_of
from hogshare.engine.arrays import row_arrays
from hogshare.engine.gradient_steps import GradientSteps
from hogshare.problems.protocol import Problem, by_gradient
from hogshare.report import Report
from hogshare.runtimes.joint_runtime import ProcessParts
from hogshare.runtimes.protocol import Runtime
from hogshare.solvers.choice_names import joint_of, plane_of, problem_of, rule_of, step_of, stop_of
from hogshare.stragglers import stragglers_of

FILES = ("checkpoint", "resume")
LEADERS = ("on_epoch", *FILES)  # arguments that only one process needs


@dataclass(frozen=True)
class JointCall:
    """A call of `solve` by a joint runtime (`hogshare.runtimes.joint_runtime.Making`)."""

    solve: Callable[..., Report]
    problem: Problem
    arguments: dict[str, Any]  # all others, by name

    @property
    def validation(self) -> np.ndarray | None:
        """Mask of the held-out rows; None if none are held out."""
        return stop_of(self.arguments.get("stop")).validation

    @property
    def n_workers(self) -> int | None:
        """The argument `n_workers` of the call."""
        return self.arguments.get("n_workers")

    @property
    def files(self) -> dict[str, Any]:
        """The files of checkpoints to write and to resume, if any; rank 0's files are used."""
        return {name: self.arguments.get(name) for name in FILES}

    def with_files(self, files: Mapping[str, Any]) -> JointCall:
        """Return the same call with other files."""
        return JointCall(self.solve, self.problem, {**self.arguments, **files})

    def said(self) -> dict[str, Any]:
        """Return the arguments as objects, since their names can be written in several ways."""
        a = {k: v for k, v in self.arguments.items() if k not in LEADERS and v is not None}
        things = {"plane": plane_of, "barrier": barrier_of, "step": step_of, "stop": stop_of}
        a |= {name: of(self.arguments.get(name)) for name, of in things.items()}
        # each rank has its own held-out rows, so a comparison of the calls would find a difference
        a["stop"] = dataclasses.replace(a["stop"], validation=None)
        return a

    def of(self, problem: Problem, validation: np.ndarray | None) -> JointCall:
        """Return the same call for another problem."""
        stop = dataclasses.replace(stop_of(self.arguments.get("stop")), validation=validation)
        return JointCall(self.solve, problem, {**self.arguments, "stop": stop})

    def by(self, runtime: Runtime | str, n_workers: int | None) -> Report:
        """Make the call with a runtime."""
        return self.solve(
            self.problem, **{**self.arguments, "runtime": runtime, "n_workers": n_workers}
        )

    def parts(self) -> ProcessParts:
        """Return the parts for a process that runs workers of another process's call."""
        problem, a = self.problem, self.arguments
        plane, barrier = plane_of(a.get("plane")), barrier_of(a.get("barrier"))
        outside = None
        if by_gradient(problem):
            start = problem.start_model(a.get("start"))
            outside = GradientSteps(
                problem, rule_of(a.get("rule"), problem, a.get("shuffle", True), start)
            )
        return ProcessParts(
            rows=row_arrays(problem),
            barrier=None if isinstance(barrier, BuiltIn) else barrier,
            stragglers=stragglers_of(a.get("stragglers")),
            outside=outside,
            plane=plane if plane.has_homes else None,
        )


def together(solve: Callable[..., Report]) -> Callable[..., Report]:
    """Wrap `solve`: a joint runtime, if given, makes the call."""

    @functools.wraps(solve)
    def call(problem: Problem, *others: Any, **arguments: Any) -> Report:
        joint = joint_of(arguments.get("runtime"))
        if joint is None:
            return solve(problem, *others, **arguments)

        def asked() -> JointCall:
            given = {name: value for name, value in arguments.items() if name != "runtime"}
            return JointCall(solve, problem_of(problem, others), given)

        report: Report = joint.make(asked)
        return report

    return call
