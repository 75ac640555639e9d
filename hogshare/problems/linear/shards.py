"""Shards of linear problems, and the union of their rows, labels and class weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels.rows.row_views import RowArrays
from hogshare.problems.kernel_arrays import frozen
from hogshare.problems.shard import Shard


class LabelCoding(NamedTuple):
    """The labels that a problem's targets represent.

    classes : ndarray or None
        Sorted labels; None for regression.
    positive, negative : ndarray of shape (n_columns,)
        Weights of the columns' own classes, and of all other classes.
    """

    classes: np.ndarray | None
    positive: np.ndarray
    negative: np.ndarray

    @property
    def n_columns(self) -> int:
        """Number of the model's columns."""
        return len(self.positive)

    @property
    def weights(self) -> np.ndarray:
        """Weights of the classes."""
        if self.classes is None or self.n_columns > 1:
            return self.positive
        return np.concatenate([self.negative, self.positive])


def shard_of(rows: RowArrays, labels: LabelCoding) -> Shard:
    """Return a shard with the arrays of some rows, as views, and the coding of their targets."""
    arrays = {"data": rows.data, "y": rows.y, "weight": rows.weight}
    if rows.width == 0:
        lengths = np.diff(rows.indptr)
        start, end = (int(rows.indptr[k]) for k in (0, -1))
        arrays |= {"data": rows.data[start:end], "indices": rows.indices[start:end]}
        arrays["lengths"] = lengths
    facts = {"rows": len(rows.y), "weighed": bool(len(rows.weight)), "labels": labels}
    return Shard(arrays, facts)


def whole_rows(
    width: int, facts: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]
) -> tuple[RowArrays, LabelCoding]:
    """Return all rows from the arrays of all shards, and the coding of their targets.

    Raises ValueError if shards have different weights for the same class.
    """
    counts = [one["rows"] for one in facts]
    data = arrays["data"]
    indices, indptr = np.empty(0, np.uint32), np.zeros(1, np.int64)
    if width == 0:
        indices = arrays["indices"]
        indptr = np.concatenate([indptr, np.cumsum(arrays["lengths"], dtype=np.int64)])
    weight = arrays["weight"]
    if 0 < len(weight) < sum(counts):  # the rows of shards without weights have weight one
        weight = _with_ones(weight, counts, [one["weighed"] for one in facts])
    found = [one["labels"] for one in facts]
    labels = united_labels(found)
    y = arrays["y"]
    if any(not _are_alike(one, labels) for one in found):
        ends = np.cumsum(counts)
        parts = np.split(y, ends[:-1])
        pairs = zip(parts, found, strict=True)
        y = np.concatenate([_recoded(part, one, labels) for part, one in pairs])
    data, indices, indptr, y, weight = map(frozen, (data, indices, indptr, y, weight))
    return RowArrays(data, indices, indptr, width, y, weight), labels


def united_labels(found: Sequence[LabelCoding]) -> LabelCoding:
    """Return the sorted labels of all shards with the weights of the labels."""
    first = found[0]
    if first.classes is None:
        return first
    weights: dict[Any, float] = {}
    for one in found:
        assert one.classes is not None
        for label, weight in zip(one.classes.tolist(), one.weights.tolist(), strict=True):
            if weights.setdefault(label, weight) != weight:
                raise ValueError(
                    f"the class {label!r} weighs {weights[label]:g} in one shard and {weight:g} "
                    "in another: pass the same class_weight to all shards."
                )
    classes = np.unique(np.concatenate([one.classes for one in found if one.classes is not None]))
    values = np.array([weights[label] for label in classes.tolist()])
    if len(classes) == 2:
        return LabelCoding(classes, values[1:], values[:1])
    return LabelCoding(classes, values, np.ones(len(classes)))


def _are_alike(one: LabelCoding, other: LabelCoding) -> bool:
    if one.classes is None or other.classes is None:
        return True
    return np.array_equal(one.classes, other.classes)


def _recoded(y: np.ndarray, one: LabelCoding, other: LabelCoding) -> np.ndarray:
    """Convert targets from one coding to the numbers of classes in another, larger coding."""
    assert one.classes is not None and other.classes is not None
    place = y.astype(np.int64) if one.n_columns > 1 else (y > 0).astype(np.int64)
    place = np.searchsorted(other.classes, one.classes)[place]
    return place.astype(y.dtype)


def _with_ones(weight: np.ndarray, counts: list[int], weighed: list[bool]) -> np.ndarray:
    parts, taken = [], 0
    for count, has in zip(counts, weighed, strict=True):
        parts.append(weight[taken : taken + count] if has else np.ones(count, weight.dtype))
        taken += count * has
    return np.concatenate(parts)
