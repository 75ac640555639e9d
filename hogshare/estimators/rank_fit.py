"""Fits by a joint runtime: several processes, such as the ranks of MPI, fit one model together.

Each process has an estimator of its own, calls its method, and passes its own rows. (1) The rows of
all processes are concatenated, in memory that all processes can read. (2) The first process fits a
twin (a copy of its estimator) to these rows, with the workers of all processes. (3) The twin's
state is copied to every estimator. Labels, balanced weights, held-out rows and decisions between
epochs are therefore computed from all rows, and are the same for every estimator.
"""

from __future__ import annotations

import contextlib
import functools
import io
import numbers
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn import get_config
from sklearn.utils import check_random_state

from hogshare.estimators import all_rows, fit_shards, fitted_attributes
from hogshare.estimators.linear_models import ToTheOptimum
from hogshare.problems.shard import Shard
from hogshare.runtimes.protocol import Runtime
from hogshare.solvers import choice_names

OWN = ("runtime", "n_jobs")  # parameters in which a twin differs from its estimator

MAX_INT = np.iinfo(np.int32).max

Method = TypeVar("Method", bound=Callable[..., Any])


def with_all_ranks(method: Method) -> Method:
    """Wrap a fitting method, which all processes of a joint runtime then call together.

    This must be the outermost wrapper: errors that are raised in other wrappers then reach all
    processes. If the estimator's runtime is not joint, the method is called as it is.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        joint = choice_names.joint_of(self.runtime)
        if joint is None:
            return method(self, *args, **kwargs)

        def led() -> Fit:
            given = fit_shards.arguments_of(method, *args, **kwargs)
            in_columns = getattr(self, "_in_columns", None)
            return Fit(self, method, given if in_columns is None else in_columns(given))

        return joint.lead(led)

    return call  # type: ignore[return-value]


class Fit:
    """A call of a fitting method, in the form of `hogshare.runtimes.joint_runtime.Led`.

    arguments : the method's arguments by name
    """

    def __init__(
        self, estimator: Any, method: Callable[..., Any], arguments: dict[str, Any]
    ) -> None:
        self.estimator, self.method, self.arguments = estimator, method, arguments

    @property
    def what(self) -> str:
        """Name of the estimator's class, for messages."""
        return type(self.estimator).__name__

    @property
    def n_workers(self) -> int | None:
        """Number of workers of this process."""
        jobs: int | None = self.estimator.n_jobs
        return jobs

    def said(self) -> dict[str, Any]:
        """Return the settings that must be equal in all processes.

        These are the method, the estimator's parameters, and all arguments that are not rows. The
        parameters are checked first.
        """
        estimator = self.estimator
        if not get_config()["skip_parameter_validation"]:
            estimator._validate_params()
        said = {k: v for k, v in estimator.get_params(deep=False).items() if k not in OWN}
        if not isinstance(said["random_state"], int):
            del said["random_state"]  # the first process draws for all
        rows = [name for name in fit_shards.BY_ROW if self.arguments.get(name) is not None]
        named = f"{type(estimator).__name__}.{self.method.__name__}"
        return said | fit_shards.others(self.arguments) | {"the method": named, "its rows": rows}

    def shard(self, place: int, of: int) -> Shard:
        """Return the rows of this process."""
        return fit_shards.shard_of(self.arguments)

    def made(
        self,
        runtime: Runtime | str,
        n_workers: int | None,
        facts: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, np.ndarray],
    ) -> bytes:
        """Fit a twin to the rows of all processes, and return the twin's pickled state.

        facts : facts of each shard
        arrays : arrays of all shards, concatenated
        """
        estimator = self.estimator
        twin = object.__new__(type(estimator))
        vars(twin).update(vars(estimator))
        twin.runtime, twin.n_jobs = runtime, n_workers
        rows = fit_shards.whole_of(facts, arrays)
        self.method(twin, **{**self.arguments, **rows})
        return self._packed(twin)

    def _packed(self, twin: Any) -> bytes:
        """Pickle a twin's state without the parameters."""
        state = twin.__getstate__()
        return pickle.dumps({k: v for k, v in state.items() if k not in self._parameters})

    def along(self, runtime: Any, has_all_rows: bool) -> tuple[bytes | None, Mapping[str, Any]]:
        """Fit a twin in every process; return its pickled state and its fitted attributes.

        Collective: all ranks must call it. The state is None in all processes but the first.

        has_all_rows : whether each process passes all rows, and not rows of its own
        """
        (place, of), gathered = runtime.place(), runtime.gathered
        shard = self.shard(place, of)
        twin = object.__new__(type(self.estimator))
        vars(twin).update(vars(self.estimator))
        self._share_generator(twin, place, gathered)
        twin.runtime, runtime.everybody = runtime, all_rows.RepeatedRows(gathered)
        reads_parts = getattr(twin, "_reads_parts", None)
        if has_all_rows:
            runtime.require_alike(shard)
            rows = fit_shards.whole_of([shard.facts], shard.arrays)
        else:
            facts = gathered(shard.facts)
            n_features = fit_shards.n_features_of(facts)
            if reads_parts is not None and reads_parts(n_features):
                rows = self._own_rows(runtime, facts, shard.arrays)
            else:
                rows = self._all_rows(runtime, facts, shard.arrays)
        with _silent(place > 0):
            self.method(twin, **{**self.arguments, **rows})
        learnt = fitted_attributes.attributes(twin)
        if isinstance(learnt.get("random_state_"), np.random.RandomState):
            del learnt["random_state_"]
        return (self._packed(twin) if place == 0 else None), learnt

    def _own_rows(
        self, runtime: Any, facts: list[dict[str, Any]], arrays: Mapping[str, np.ndarray]
    ) -> dict[str, Any]:
        """Return the per-row arguments of this process, with at least one row.

        Collective: all ranks must call it. Sets `runtime.rows` and `runtime.everybody`.
        """
        place, _ = runtime.place()
        facts, arrays = fit_shards.reparted(place, facts, arrays, runtime.gathered)
        rows = fit_shards.own_of(place, facts, arrays)
        counts = [one["X"][fit_shards.COUNT] for one in facts]
        runtime.rows = "shard"
        runtime.everybody = all_rows.PartedRows(runtime.gathered, runtime.added, place, counts)
        return rows

    def _all_rows(
        self, runtime: Any, facts: list[dict[str, Any]], arrays: Mapping[str, np.ndarray]
    ) -> dict[str, Any]:
        """Return the per-row arguments of all processes; collective: all ranks must call it."""
        found = runtime.gathered(arrays)
        names = dict.fromkeys(name for one in found for name in one)
        parts = {name: [one[name] for one in found if name in one] for name in names}
        return fit_shards.whole_of(
            facts, {name: np.concatenate(_with_rows(some)) for name, some in parts.items()}
        )

    def _share_generator(self, twin: Any, place: int, gathered: Callable[[Any], list[Any]]) -> None:
        """Set the twin's `random_state` to a generator that is the same in all processes.

        Collective: all ranks must call it. An int is left unchanged.
        """
        state = twin.random_state
        if isinstance(state, numbers.Integral):
            return
        if state is None and isinstance(twin, ToTheOptimum):
            return  # its calls of `solve` agree on a seed
        if state is None and place == 0:
            state = np.random.RandomState(check_random_state(None).randint(MAX_INT))
        first = gathered(state if place == 0 else None)[0]
        twin.random_state = state if place == 0 else first

    def received(self, made: bytes) -> dict[str, Any]:
        """Unpickle a twin's state, which contains no parameters: these differ between processes."""
        state: dict[str, Any] = pickle.loads(made)
        return state

    def take(self, received: dict[str, Any]) -> Any:
        """Copy a twin's state to the estimator, and return the estimator."""
        own = {name: getattr(self.estimator, name) for name in self._parameters}
        vars(self.estimator).update({**received, **own})
        vars(self.estimator).pop("_sklearn_version", None)
        return self.estimator

    @property
    def _parameters(self) -> list[str]:
        return list(self.estimator.get_params(deep=False))


def _with_rows(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Drop empty arrays, which may have any dtype, unless all are empty."""
    return [one for one in parts if len(one)] or parts[:1]


@contextlib.contextmanager
def _silent(is_other: bool) -> Iterator[None]:
    """Suppress output and warnings in all processes but the first."""
    if not is_other:
        yield
        return
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
