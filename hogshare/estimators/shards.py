"""What a fit is given, as a part of more of it: arrays that are put end to end, and what they mean.

Rows of numbers travel as they are. Labels and ids that are words or objects travel as numbers, with
a list of what they stand for. A data frame's columns keep their names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import assert_all_finite, check_consistent_length

from hogshare.estimators.vocabulary import distinct
from hogshare.problems.linear.labels import own_type
from hogshare.problems.sharding import Shard
from hogshare.system.callers import warn

BY_ROW = ("X", "y", "sample_weight", "users", "items", "ratings")  # arguments of methods
COUNT, NAMES = "rows", "names"


def arguments_of(method: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """What a method is called with, by name, without the object itself."""
    bound = inspect.signature(method).bind(None, *args, **kwargs)
    (_, *names) = inspect.signature(method).parameters.values()
    given: dict[str, Any] = {}
    for one in names:
        if one.kind is one.VAR_KEYWORD:
            given |= bound.arguments.get(one.name, {})
        elif one.name in bound.arguments:
            given[one.name] = bound.arguments[one.name]
    return given


def others(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is not rows: the same in all processes."""
    return {name: value for name, value in given.items() if name not in BY_ROW}


def shard_of(given: Mapping[str, Any]) -> Shard:
    """Arguments by row as a shard.

    Raises
    ------
    ValueError
        If one of them has no rows, gaps or infinite numbers, or not as many rows as the others: of
        all shards end to end nobody could say whose they are, and rows would be shifted.
    """
    arrays: dict[str, np.ndarray] = {}
    facts: dict[str, Any] = {}
    for name in BY_ROW:
        if given.get(name) is None:
            continue
        meaning, parts = _packed(given[name], name)
        for part in parts.values():
            assert_all_finite(part, input_name=name)
        facts[name] = meaning
        arrays |= {f"{name} {part}": array for part, array in parts.items()}
    check_consistent_length(*(np.empty(one[COUNT]) for one in facts.values()))
    return Shard(arrays, facts)


def whole_of(
    facts: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Arguments by row, of all shards.

    Raises
    ------
    ValueError
        If shards do not fit: dense and sparse, or of several numbers of columns.
    """
    names = [name for name in BY_ROW if any(name in one for one in facts)]
    return {name: _joined(name, [one.get(name) for one in facts], arrays) for name in names}


def _packed(value: Any, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What an argument means, and the arrays that it is made of."""
    if sp.issparse(value):
        rows = value.tocsr()
        meaning = {"kind": "sparse", "columns": rows.shape[1], "type": type(rows)}
        parts = {"data": rows.data, "indices": rows.indices, "lengths": np.diff(rows.indptr)}
        return meaning | {COUNT: rows.shape[0]}, parts
    array = np.asarray(own_type(value) if name == "y" else value)
    if array.ndim == 0:
        raise ValueError(f"{name} must have rows; got {value!r}.")
    meaning = {"kind": "dense", COUNT: len(array), "columns": array.shape[1:]}
    if hasattr(value, "iloc") and array.ndim == 2:
        meaning |= {NAMES: list(value.columns), "type": type(value)}
    if array.dtype.kind not in "biuf":
        words, codes = distinct(array.ravel())
        meaning |= {"kind": "words", "words": words.tolist()}
        return meaning, {"codes": codes.reshape(array.shape)}
    return meaning, {"values": array}


def _joined(
    name: str, found: Sequence[Mapping[str, Any] | None], arrays: Mapping[str, np.ndarray]
) -> Any:
    """One argument of all shards."""
    given = [(k, one) for k, one in enumerate(found) if one is not None]
    ready = [(k, one) for k, one in given if one[COUNT]] or given
    rank, first = next((pair for pair in ready if NAMES in pair[1]), ready[0])
    for k, one in enumerate(found):
        if one is None:
            raise ValueError(f"{name} is given on rank {rank}, and not on rank {k}.")
        for what in ("kind", "columns") if one[COUNT] else ():  # of no rows all are alike
            if one[what] != first[what]:
                raise ValueError(
                    f"{name} does not fit: its {what} is {first[what]} on rank {rank}, and "
                    f"{one[what]} on rank {k}."
                )
    if first["kind"] == "sparse":
        lengths = arrays[f"{name} lengths"]
        indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        parts = arrays[f"{name} data"], arrays[f"{name} indices"], indptr
        return first["type"](parts, shape=(len(lengths), first["columns"]))
    _check_names(name, given)
    if first["kind"] == "words":
        values = _decoded(found, arrays[f"{name} codes"])
    else:
        values = arrays[f"{name} values"]
    return first["type"](values, columns=first[NAMES]) if NAMES in first else values


def _check_names(name: str, given: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    """Refuse columns of other names, or in another order, as scikit-learn does after a fit.

    Raises
    ------
    ValueError
    """
    named = [(k, one[NAMES]) for k, one in given if NAMES in one and one[COUNT]]
    if not named:
        return
    rank, names = named[0]
    for k, other in named:
        if other == names:
            continue
        if sorted(map(repr, other)) == sorted(map(repr, names)):
            at = next(at for at, column in enumerate(other) if column != names[at])
            raise ValueError(
                f"{name} does not fit: its columns come in another order on rank {k}, where column "
                f"{at} is {other[at]!r}, than on rank {rank}, where it is {names[at]!r}: give all "
                "ranks the same order."
            )
        new = next((column for column in other if column not in names), other)
        raise ValueError(
            f"{name} does not fit: rank {rank} has no column {new!r}, and rank {k} has one: give "
            "all ranks the same columns."
        )
    without = next((k for k, one in given if NAMES not in one and one[COUNT]), None)
    if without is not None:
        warn(
            f"{name} has names of columns on rank {rank}, and none on rank {without}: its columns "
            "are taken in the same order.",
        )


def _decoded(found: Sequence[Mapping[str, Any] | None], codes: np.ndarray) -> np.ndarray:
    """Objects, of the numbers that stood for them in each shard."""
    parts, taken = [], 0
    for one in found:
        if one is None or not one[COUNT]:
            continue
        words = np.empty(len(one["words"]), object)
        words[:] = one["words"]
        parts.append(words[codes[taken : taken + one[COUNT]]])
        taken += one[COUNT]
    values = np.concatenate(parts)
    return values.astype(str) if all(isinstance(one, str) for one in values.flat) else values
