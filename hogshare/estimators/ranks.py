"""Fits by a joint runtime, such as the ranks of MPI: each process gives its rows, one fits.

All processes call the method of their own estimator. The rows of all are put together, in memory
that all can read; the first process fits a twin of its estimator to them, with the workers of all;
and every estimator becomes what came out. So labels are united, and balanced weights, held-out rows
and decisions between epochs are those of all rows, whatever the estimator does with them.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn import get_config

from hogshare.estimators import shards
from hogshare.problems.sharding import Shard
from hogshare.runtimes.protocol import Runtime
from hogshare.solvers import choices

OWN = ("runtime", "n_jobs")  # parameters that a twin has others of

Method = TypeVar("Method", bound=Callable[..., Any])


def with_all_ranks(method: Method) -> Method:
    """Have a method of an estimator called by all processes of a joint runtime together.

    It is the outermost: whatever the others find wrong is raised in all processes then.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        joint = choices.joint_of(self.runtime)
        if joint is None:
            return method(self, *args, **kwargs)
        return joint.lead(lambda: Fit(self, method, shards.arguments_of(method, *args, **kwargs)))

    return call  # type: ignore[return-value]


class Fit:
    """A method that fits an estimator, led (`hogshare.runtimes.joint.Led`)."""

    def __init__(
        self, estimator: Any, method: Callable[..., Any], arguments: dict[str, Any]
    ) -> None:
        self.estimator, self.method, self.arguments = estimator, method, arguments

    @property
    def what(self) -> str:
        """The estimator."""
        return type(self.estimator).__name__

    @property
    def n_workers(self) -> int | None:
        """Of this process."""
        jobs: int | None = self.estimator.n_jobs
        return jobs

    def said(self) -> dict[str, Any]:
        """The method, the estimator's parameters, and what the method is given besides rows."""
        estimator = self.estimator
        if not get_config()["skip_parameter_validation"]:
            estimator._validate_params()
        said = {k: v for k, v in estimator.get_params(deep=False).items() if k not in OWN}
        if not isinstance(said["random_state"], int):
            del said["random_state"]  # the first process draws
        rows = [name for name in shards.BY_ROW if self.arguments.get(name) is not None]
        named = f"{type(estimator).__name__}.{self.method.__name__}"
        return said | shards.others(self.arguments) | {"the method": named, "its rows": rows}

    def shard(self, place: int, of: int) -> Shard:
        """The rows that this process gives."""
        return shards.shard_of(self.arguments)

    def made(
        self,
        runtime: Runtime | str,
        n_workers: int | None,
        facts: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, np.ndarray],
    ) -> bytes:
        """The state of a twin that has been fitted to all rows, pickled."""
        estimator = self.estimator
        twin = object.__new__(type(estimator))
        vars(twin).update(vars(estimator))
        twin.runtime, twin.n_jobs = runtime, n_workers
        rows = shards.whole_of(facts, arrays)
        self.method(twin, **{**self.arguments, **rows})
        state = twin.__getstate__()
        return pickle.dumps({k: v for k, v in state.items() if k not in self._parameters})

    def received(self, made: bytes) -> dict[str, Any]:
        """The state that came out, without the parameters, which are each process's own."""
        state: dict[str, Any] = pickle.loads(made)
        return state

    def take(self, received: dict[str, Any]) -> Any:
        """Become what came out; the estimator."""
        own = {name: getattr(self.estimator, name) for name in self._parameters}
        vars(self.estimator).update({**received, **own})
        vars(self.estimator).pop("_sklearn_version", None)
        return self.estimator

    @property
    def _parameters(self) -> list[str]:
        return list(self.estimator.get_params(deep=False))
