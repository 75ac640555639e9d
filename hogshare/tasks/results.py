"""Results of tasks: values with their attributes, and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """The result of a task.

    Source: Soori et al. 2019 (ASYNC), the attributes of ``ASYNCcollectAll`` in Table I.

    Attributes
    ----------
    value : object
        The fold of the function's values over the drawn rows of the worker's partitions.
    worker : int
    staleness : int
        Number of results of other tasks that were accepted between this task's submission and its
        return.
    n_samples : int
        Number of drawn rows, over all partitions of the task.
    partitions : tuple of int
        Numbers of the task's partitions.
    seconds : float
        Duration of the task on the worker.
    number : int
        Number of the task among the context's tasks, in the order of submission.
    """

    value: Any
    worker: int
    staleness: int
    n_samples: int
    partitions: tuple[int, ...]
    seconds: float
    number: int


class TaskError(RuntimeError):
    """A task raised an exception or could not be done; the message has the worker's traceback.

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
    """The result of a task without a value."""

    error: TaskError
