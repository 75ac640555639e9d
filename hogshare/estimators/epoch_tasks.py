"""The tasks of a fit, one per epoch, for callbacks and `verbose`."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hogshare.estimators.all_rows import all_rows_of
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.report import Report


class EpochTasks:
    """Calls of the hooks of scikit-learn's callbacks, and the lines of `verbose`.

    An instance is the `on_epoch` of `hogshare.solve`. All methods run in the thread that called
    `fit`. The task of an epoch begins when the previous epoch's task ends. If a run stops early,
    the task that has already begun ends without an epoch, as in scikit-learn.

    X, y, sample_weight : arguments of `fit`, which the hooks receive
    max_iter : maximum number of epochs; None for `partial_fit`, which calls no hooks
    attributes : ``attributes(model)`` returns the fitted estimator's attributes
    """

    def __init__(
        self,
        estimator: Any,
        problem: RowProblem,
        X: Any,
        y: np.ndarray,
        sample_weight: Any,
        max_iter: int | None,
        attributes: Callable[[Model], dict[str, Any]],
    ) -> None:
        self.estimator = estimator
        self.problem = problem
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.data: dict[str, Any] = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self.max_iter = max_iter
        self.attributes = attributes
        self.calls = bool(max_iter) and bool(getattr(estimator, "_skl_callbacks", None))
        self.root: Any = None
        self.task: Any = None
        self.stopped = False  # whether a hook asked to stop
        self.began = time.perf_counter()

    @property
    def wanted(self) -> bool:
        """Whether a hook or `verbose` needs a call after every epoch, for which kernels return."""
        return self.calls or bool(self.estimator.verbose)

    @property
    def reads_models(self) -> bool:
        """Whether a hook may read an epoch's model, for which workers wait.

        A progress bar only counts epochs.
        """
        hooks = [
            getattr(callback, name)
            for callback in (self.estimator._skl_callbacks if self.calls else ())
            for name in ("on_fit_task_begin", "on_fit_task_end")
        ]
        asks = any("fitted_estimator" in inspect.signature(hook).parameters for hook in hooks)
        return asks or bool(self.estimator.verbose)

    def begin(self, start: Model) -> None:
        """Begin the fit's task and its first epoch's task."""
        if self.max_iter is None:
            return
        # also called without callbacks, since this call links a meta-estimator's tree of tasks
        self.root = self.estimator._init_callback_context(max_subtasks=self.max_iter)
        self.root.call_on_fit_task_begin(**self.data)
        if self.calls:
            self._begin_epoch(lambda: start)

    def _begin_epoch(self, snapshot: Callable[[], Model]) -> None:
        self.task = self.root.subcontext(task_name="epoch")
        self.task.call_on_fit_task_begin(
            **self.data, reconstruction_attributes=lambda: self.attributes(snapshot())
        )

    def __call__(self, epoch: int, snapshot: Callable[[], Model]) -> bool:
        """End an epoch's task; return True to stop the run."""
        cached: list[Model] = []  # a snapshot copies the model: at most one per epoch

        def model() -> Model:
            if not cached:
                cached.append(snapshot())
            return cached[0]

        if self.estimator.verbose:
            self._print(epoch, model())
        if not self.calls:
            return False
        stop = self.task.call_on_fit_task_end(
            **self.data, reconstruction_attributes=lambda: self.attributes(model())
        )
        self.task = None
        self.stopped = bool(stop)
        if not stop and epoch < self.max_iter:  # type: ignore[operator]
            self._begin_epoch(model)
        return bool(stop)

    def end(self, report: Report | None) -> None:
        """End the tasks of a fit.

        report : the report of the run; None if nothing was run
        """
        if self.estimator.verbose and report is not None and report.converged:
            seconds = time.perf_counter() - self.began
            print(f"Convergence after {report.n_epochs} epochs took {seconds:.2f} seconds")  # noqa: T201
        if self.root is None:
            return
        if self.task is not None:
            self.task.call_on_fit_task_end(estimator=self.estimator)
        self.root.call_on_fit_task_end(**self.data, reconstruction_attributes={})

    def _print(self, epoch: int, model: Model) -> None:
        """Print the objective of the model at the epoch's end, not the mean loss during the epoch.

        The objective is computed from this process's rows, because other ranks take no part in an
        epoch's end.
        """
        whose = "" if all_rows_of(self.estimator).is_one else " on the rows of rank 0"
        objective = self.problem.objective(model.coef, model.intercept)
        seconds = time.perf_counter() - self.began
        print_epoch(epoch, model, f"Objective{whose}: {objective:f}")
        print(f"Total training time: {seconds:.2f} seconds.")  # noqa: T201


def print_epoch(epoch: int, model: Model, objective: str, what: str = "Epoch") -> None:
    """Print the lines of scikit-learn's `verbose`.

    objective : text that names and contains the objective
    what : "Epoch" or "Iteration"
    """
    bias = ", ".join(f"{value:.6f}" for value in model.intercept)
    print(  # noqa: T201
        f"-- {what} {epoch}\n"
        f"Norm: {np.linalg.norm(model.coef):.2f}, NNZs: {np.count_nonzero(model.coef)}, "
        f"Bias: {bias}, T: {int(model.t) - 1}, {objective}"
    )
