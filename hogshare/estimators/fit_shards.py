"""The per-row arguments of a fit as shards: one per rank, with arrays and facts about the arrays.

Rows of numbers are sent unchanged. Labels and ids that are strings or objects are sent as codes,
with a list of the values. A data frame's columns retain their names.

The facts of a shard are a dict of an argument's name to its facts: its kind ("dense", "sparse" or
"words", which are codes), its number of rows, its columns, and its dtype or its list of values.
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
from hogshare.problems.shard import Shard
from hogshare.system.callers import warn

BY_ROW = ("X", "y", "sample_weight", "users", "items", "ratings")  # arguments of methods
COUNT, NAMES = "rows", "names"


def arguments_of(method: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return a method's arguments by name, without `self`."""
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
    """Return the arguments that are not per row, which must be equal in all processes."""
    return {name: value for name, value in given.items() if name not in BY_ROW}


def shard_of(given: Mapping[str, Any]) -> Shard:
    """Return the per-row arguments as a shard, whose arrays are the caller's where possible.

    Raises
    ------
    ValueError
        If an argument is not an array with rows, contains missing or infinite numbers, or differs
        from the others in the number of rows. In the last case the rows of concatenated shards
        would not correspond.
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
    """Return the per-row arguments of all shards, with named columns in the first shard's order.

    facts : facts of each shard
    arrays : arrays of all shards, concatenated

    Raises
    ------
    ValueError
        If shards do not fit each other: some are dense and others sparse, or their numbers of
        columns or the columns' names differ.
    """
    found = {name: [one.get(name) for one in facts] for name in _names(facts)}
    return {name: _joined(name, parts, arrays) for name, parts in found.items()}


def own_of(
    place: int, facts: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Return the per-row arguments of the shard at `place`, in the form common to all shards.

    facts : facts of each shard
    arrays : arrays of this shard

    Raises
    ------
    ValueError
        If shards do not fit each other; see `whole_of`.
    """
    made = {}
    for name in _names(facts):
        found = [one.get(name) for one in facts]
        first = _require_fit(name, found)
        own = dict(found[place] or first)
        if first["kind"] != "words":  # an empty shard may be dense or sparse
            kinds = [one["dtype"] for one in found if one is not None and one[COUNT]]
            part = f"{name} {'data' if first['kind'] == 'sparse' else 'values'}"
            arrays = {**arrays, part: arrays[part].astype(np.result_type(*kinds), copy=False)}
        made[name] = _made(name, first, [own], arrays)
    return made


def reparted(
    place: int,
    facts: Sequence[Mapping[str, Any]],
    arrays: Mapping[str, np.ndarray],
    gathered: Callable[[Any], list[Any]],
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return shards that all have rows, after moving as few rows as possible to neighbors.

    Collective: all ranks must call it. Returns the facts of all shards, and this rank's arrays.

    place : index of this rank's shard
    facts : facts of each shard
    arrays : arrays of this rank's shard
    gathered : ``gathered(content)`` returns the contents of all processes, in rank order

    Raises
    ------
    ValueError
        If there are fewer rows than shards.
    """
    name = _names(facts)[0]
    counts = [one[name][COUNT] for one in facts]
    n, of = sum(counts), len(counts)
    if min(counts) > 0:
        return [dict(one) for one in facts], dict(arrays)
    if n < of:
        raise ValueError(
            f"ranks 0 to {of - 1} have {n} rows together, and each needs one: start fewer ranks."
        )
    before = np.concatenate([[0], np.cumsum(counts)])
    after = before.copy()
    for k in range(1, of):  # the bounds do not change, except for empty shards
        after[k] = max(after[k], after[k - 1] + 1)
    for k in range(of - 1, 0, -1):
        after[k] = min(after[k], after[k + 1] - 1)
    own = before[place], before[place + 1]
    # every rank computes the same bounds, so only the rows need to be sent
    going = [
        (to, _cut(arrays, facts[place], max(own[0], after[to]), min(own[1], after[to + 1]), own[0]))
        for to in range(of)
        if to != place and max(own[0], after[to]) < min(own[1], after[to + 1])
    ]
    stays = max(own[0], after[place]), min(own[1], after[place + 1])
    staying = _cut(arrays, facts[place], *stays, own[0]) if stays[0] < stays[1] else None
    parts = []
    for source, sent in enumerate(gathered(going)):
        parts += [staying] if source == place and staying is not None else []
        parts += [part for to, part in sent if to == place]
    made = {key: np.concatenate([part[1][key] for part in parts]) for key in parts[0][1]}
    mine = {
        key: {**one, COUNT: int(after[place + 1] - after[place])}
        for key, one in parts[0][0].items()
    }
    for key, one in mine.items():
        if one["kind"] == "words":  # each part's codes are for its own list of values
            words = [part[0][key]["words"] for part in parts]
            firsts = np.cumsum([0, *map(len, words)])
            codes = [
                part[1][f"{key} codes"] + first
                for part, first in zip(parts, firsts[:-1], strict=True)
            ]
            one["words"] = [word for some in words for word in some]
            made[f"{key} codes"] = np.concatenate(codes)
    return gathered(mine), made


def _cut(
    arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], first: int, last: int, begin: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the facts and arrays of rows `first` to `last`, from a shard that starts at `begin`.

    The arrays are views. The three row numbers count the rows of all shards.
    """
    rows, made = slice(int(first - begin), int(last - begin)), {}
    for name, meaning in facts.items():
        if meaning["kind"] == "sparse":
            lengths = arrays[f"{name} lengths"]
            at, end = (int(lengths[:k].sum()) for k in (rows.start, rows.stop))
            made[f"{name} lengths"] = lengths[rows]
            for part in ("data", "indices"):
                made[f"{name} {part}"] = arrays[f"{name} {part}"][at:end]
        else:
            part = f"{name} {'codes' if meaning['kind'] == 'words' else 'values'}"
            made[part] = arrays[part][rows]
    return dict(facts), made


def n_features_of(facts: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of features, which is the same in all shards; 0 without an argument X.

    Raises
    ------
    ValueError
        If shards do not fit each other (see `whole_of`), or if there are no rows.
    """
    first = {name: _require_fit(name, [one.get(name) for one in facts]) for name in _names(facts)}
    if not sum(one[name][COUNT] for name in list(first)[:1] for one in facts):
        raise ValueError(
            f"none of the ranks 0 to {len(facts) - 1} has rows: pass rows on at least one of them."
        )
    columns = first["X"]["columns"] if "X" in first else 0
    return int(np.prod(columns))


def _names(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    return [name for name in BY_ROW if any(name in one for one in facts)]


def _packed(value: Any, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the facts about an argument, and its arrays."""
    if sp.issparse(value):
        rows = value.tocsr()
        meaning = {"kind": "sparse", "columns": rows.shape[1], "type": type(rows)}
        meaning["dtype"] = rows.dtype
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
    return meaning | {"dtype": array.dtype}, {"values": array}


def _joined(
    name: str, found: Sequence[Mapping[str, Any] | None], arrays: Mapping[str, np.ndarray]
) -> Any:
    """Return the argument `name` of all shards."""
    return _made(name, _require_fit(name, found), found, arrays)


def _require_fit(name: str, found: Sequence[Mapping[str, Any] | None]) -> Mapping[str, Any]:
    """Return the facts of an argument's leading shard, the first one with names or else with rows.

    Raises
    ------
    ValueError
        If a shard does not fit it.
    """
    given = [(k, one) for k, one in enumerate(found) if one is not None]
    ready = [(k, one) for k, one in given if one[COUNT]] or given
    rank, first = next((pair for pair in ready if NAMES in pair[1]), ready[0])
    for k, one in enumerate(found):
        if one is None:
            raise ValueError(f"{name} is given on rank {rank}, and not on rank {k}.")
        for what in ("kind", "columns") if one[COUNT] else ():  # empty shards fit all others
            if one[what] != first[what]:
                raise ValueError(
                    f"{name} does not fit: its {what} is {first[what]} on rank {rank}, and "
                    f"{one[what]} on rank {k}."
                )
    if first["kind"] != "sparse":
        _check_names(name, given)
    return first


def _made(
    name: str,
    first: Mapping[str, Any],
    found: Sequence[Mapping[str, Any] | None],
    arrays: Mapping[str, np.ndarray],
) -> Any:
    """Return an argument made of its concatenated arrays.

    first : facts of the leading shard, whose form the argument has
    found : facts of all shards in the arrays
    """
    if first["kind"] == "sparse":
        lengths = arrays[f"{name} lengths"]
        indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        parts = arrays[f"{name} data"], arrays[f"{name} indices"], indptr
        return first["type"](parts, shape=(len(lengths), first["columns"]))
    if first["kind"] == "words":
        values = _decoded(found, arrays[f"{name} codes"])
    else:
        values = arrays[f"{name} values"]
    if NAMES not in first:
        return values
    return first["type"](_in_order(values, first[NAMES], found), columns=first[NAMES])


def _in_order(
    values: np.ndarray, names: list[Any], found: Sequence[Mapping[str, Any] | None]
) -> np.ndarray:
    """Return the rows with columns in the order of `names`; shards may have different orders.

    `values` is not changed; it is copied if a shard has another order.
    """
    taken, is_own = 0, True
    for one in found:
        if one is None or not one[COUNT]:
            continue
        rows, other = slice(taken, taken + one[COUNT]), one.get(NAMES, names)
        taken += one[COUNT]
        if other != names:
            # copied once: the array may be the caller's, or shared by ranks
            values = values.copy() if is_own else values
            is_own = False
            values[rows] = values[rows][:, [other.index(column) for column in names]]
    return values


def _check_names(name: str, given: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    """Refuse shards with different column names; warn if only some shards have names.

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
        new = next((column for column in other if column not in names), None)
        if new is not None or len(set(map(repr, other))) < len(other):
            what = other if new is None else new
            raise ValueError(
                f"{name} does not fit: rank {rank} has no column {what!r}, and rank {k} has one: "
                "give all ranks the same columns."
            )
    without = next((k for k, one in given if NAMES not in one and one[COUNT]), None)
    if without is not None:
        warn(
            f"{name} has column names on rank {rank}, and none on rank {without}: its columns are "
            "assumed to be in the same order.",
        )


def _decoded(found: Sequence[Mapping[str, Any] | None], codes: np.ndarray) -> np.ndarray:
    """Return the values of concatenated codes; each shard has its own list of values."""
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
