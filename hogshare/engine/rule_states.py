"""The state of a user's rule, which each worker stores between steps: moments, means, counts.

Writers: worker `me` writes its own row of each array, in `Rule.step`; restoring a checkpoint writes
all of them, before any worker works. Readers: the same, and a checkpoint while no worker works. The
session's owner frees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hogshare.planes.protocol import Shapes
from hogshare.rules.protocol import Rule

VECTOR = "vector"  # in place of a dtype: the vector's own
PREFIX = "rule_"  # of the names of these arrays among a run's


def state_shapes(rule: Rule, n_params: int, n_workers: int, vector: str) -> Shapes:
    """The arrays that a rule asks for, a row for each worker.

    vector : the vector's dtype, for arrays that ask for it

    Raises TypeError if the rule asks for anything but such arrays.
    """
    asked, shapes = rule.state(n_params), {}
    try:
        for name, (shape, kind) in dict(asked).items():
            if not (isinstance(name, str) and name.isidentifier()):
                raise TypeError(f"{name!r} is no name")
            dtype = np.dtype(vector if kind == VECTOR else kind)
            if dtype.kind not in "biuf":
                raise TypeError(f"{name!r} is of {dtype}, which is no kind of number")
            own = tuple(int(length) for length in shape)
            if min(own, default=0) < 0:
                raise ValueError(f"{name!r} has the shape {own}")
            shapes[f"{PREFIX}{name}"] = ((n_workers, *own), dtype.name)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{type(rule).__name__}.state has to name arrays by shape and dtype, as in "
            f'{{"velocity": ((n_params,), "float64")}}; it gave {asked!r} ({error}).'
        ) from error
    return shapes


def without_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, by their names without it."""
    found = (name for name in arrays if name.startswith(prefix))
    return {name.removeprefix(prefix): arrays[name] for name in found}


def states(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The states of all workers, by their names among a run's arrays."""
    return {name: array for name, array in arrays.items() if name.startswith(PREFIX)}


class WorkerState(Mapping[str, np.ndarray]):
    """A worker's own arrays, by the rule's names for them.

    Setting an item copies the numbers into the run's array, so the state stays in the run.

    arrays : a run's
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], me: int) -> None:
        own = without_prefix(arrays, PREFIX)
        self._own = {name: array[me, ...] for name, array in own.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._own[name]

    def __setitem__(self, name: str, value: Any) -> None:
        own = self._own[name]
        if value is not own:  # as it is after ``state[name] *= ...``
            own[...] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


def restore_states(arrays: Mapping[str, np.ndarray], saved: Mapping[str, np.ndarray]) -> None:
    """Give workers the states of a checkpoint; additional workers begin with copies."""
    for name, array in states(arrays).items():
        if array.size:
            array[...] = saved[name][np.arange(len(array)) % len(saved[name])]


def remembered_states(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Copy the states of a run's workers for its model: by the rule's names, a row for each."""
    own = without_prefix(arrays, PREFIX)
    return {name: array.copy() for name, array in own.items()} or None


def go_on_with(arrays: Mapping[str, np.ndarray], memory: Mapping[str, np.ndarray]) -> None:
    """Give workers the states of a start, if they are of the same rule."""
    own = states(arrays)
    given = {f"{PREFIX}{name}": np.asarray(array) for name, array in memory.items()}
    shapes = {name: array.shape[1:] for name, array in own.items()}
    if shapes == {name: array.shape[1:] for name, array in given.items() if array.size}:
        restore_states(arrays, given)
