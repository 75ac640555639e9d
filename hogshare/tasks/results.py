"""What the caller collects: values with their attributes, and errors of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """What a task gave.

    Source: the attributes of Soori et al. 2019 (ASYNC), ``ASYNCcollectAll`` of Table I.

    Attributes
    ----------
    value : object
        The fold of the function's values over the drawn rows of the worker's partitions.
    worker : int
    staleness : int
        Results of others that were accepted between the task's submission and its coming back.
    n_samples : int
        Rows that were drawn, over all partitions of the task.
    partitions : tuple of int
        Which those are.
    seconds : float
        That the task took, on the worker.
    number : int
        Of the context's tasks, in the order of submission.
    """

    value: Any
    worker: int
    staleness: int
    n_samples: int
    partitions: tuple[int, ...]
    seconds: float
    number: int


class TaskError(RuntimeError):
    """A task has raised, or could not be done; its traceback in the worker is in the message.

    Attributes
    ----------
    worker : int
    partitions : tuple of int
    """

    def __init__(self, message: str, worker: int, partitions: tuple[int, ...]) -> None:
        super().__init__(message)
        self.worker, self.partitions = worker, partitions


@dataclass(frozen=True)
class TaskFailure:
    """Stands among results for a task that has no value."""

    error: TaskError
