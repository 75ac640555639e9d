"""The state of a user's rule that each worker stores between steps: moments, means, counts.

Writers: worker `me` writes its own row of each array in `Rule.step`. The caller writes all rows
when it restores a checkpoint, before any worker works. Readers: each worker reads its own row. The
caller reads all rows for a checkpoint while no worker works. Freeing: the session's owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hogshare.planes.protocol import Shapes
from hogshare.rules.protocol import Rule

VECTOR = "vector"  # in place of a dtype: the dtype of the run's vector
PREFIX = "rule_"  # prefix of the names of these arrays among a run's arrays


def state_shapes(rule: Rule, n_params: int, n_workers: int, vector: str) -> Shapes:
    """List the shapes of the arrays that a rule asks for, with a row for each worker.

    vector : dtype of the model's vector, for arrays that ask for the same dtype

    Raises TypeError if the rule asks for anything but such arrays.
    """
    asked, shapes = rule.state(n_params), {}
    try:
        for name, (shape, kind) in dict(asked).items():
            if not (isinstance(name, str) and name.isidentifier()):
                raise TypeError(f"{name!r} is not a name")
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
    """Select the arrays whose names begin with a prefix, by their names without the prefix."""
    found = (name for name in arrays if name.startswith(prefix))
    return {name.removeprefix(prefix): arrays[name] for name in found}


def states(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Select the states of all workers, by their names among a run's arrays (not copies)."""
    return {name: array for name, array in arrays.items() if name.startswith(PREFIX)}


class WorkerState(Mapping[str, np.ndarray]):
    """A worker's own arrays (views), by the rule's names for them.

    Setting an item copies the values into the run's array, so the state stays in the run.

    arrays : the arrays of the run
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], me: int) -> None:
        own = without_prefix(arrays, PREFIX)
        self._own = {name: array[me, ...] for name, array in own.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._own[name]

    def __setitem__(self, name: str, value: Any) -> None:
        own = self._own[name]
        if value is not own:  # ``state[name] *= ...`` passes the array itself
            own[...] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


def restore_states(arrays: Mapping[str, np.ndarray], saved: Mapping[str, np.ndarray]) -> None:
    """Write the states of a checkpoint; additional workers begin with copies of these states."""
    for name, array in states(arrays).items():
        if array.size:
            array[...] = saved[name][np.arange(len(array)) % len(saved[name])]


def remembered_states(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Copy the states of a run's workers, by the rule's names; None if the rule has no state."""
    own = without_prefix(arrays, PREFIX)
    return {name: array.copy() for name, array in own.items()} or None


def go_on_with(arrays: Mapping[str, np.ndarray], memory: Mapping[str, np.ndarray]) -> None:
    """Write the states of a handed start, if their names and shapes fit this rule."""
    own = states(arrays)
    given = {f"{PREFIX}{name}": np.asarray(array) for name, array in memory.items()}
    shapes = {name: array.shape[1:] for name, array in own.items()}
    if shapes == {name: array.shape[1:] for name, array in given.items() if array.size}:
        restore_states(arrays, given)
