"""Functions that check a block of rows on its worker, describe the block, and make its problem.

A block is a tuple of rows, targets, weights and column names, because Dask can measure a tuple's
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array, column_or_1d

from hogshare.optimum.compression import WeightedMeans, sums_of, triangle_of_rows
from hogshare.optimum.held_out_scores import HeldOutPart
from hogshare.problems.linear import build
from hogshare.problems.linear.labels import distinct, own_type
from hogshare.problems.linear.row_arrays import check_sparse
from hogshare.problems.protocol import RowProblem
from hogshare.problems.weights import row_weights

Block = tuple[Any, "np.ndarray | None", "np.ndarray | None", "np.ndarray | None"]


@dataclass(frozen=True)
class Facts:
    """A short description of a block.

    nnz : number of stored values
    dtype : name of the rows' dtype
    labels : the distinct labels of the block, sorted; empty for a regression
    counts, weights : for each label, the number of its rows and the sum of their weights
    weight : the sum of all rows' weights
    columns : names of a data frame's columns
    n_bytes : approximate memory of the rows
    n_targets : number of columns of the targets; 0 if the targets are one vector
    """

    n_rows: int
    n_features: int
    nnz: int
    dtype: str
    is_sparse: bool
    labels: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    weight: float
    columns: tuple[Any, ...] | None
    n_bytes: int = 0
    n_targets: int = 0


@dataclass(frozen=True)
class Meaning:
    """The problem without its rows: arguments of `hogshare.problems.linear.build`.

    classes : the distinct labels of all partitions, sorted; None for a regression
    row_weights : ndarray of shape (n_classes,) or None; further factor of a row's weight, by class
    scale : factor of all rows' weights
    target : number of the column of the targets, if there are several columns
    middle : number that is subtracted from the targets of a regression
    """

    loss: str
    penalty: str | None
    alpha: float
    l1_ratio: float = 0.0
    fit_intercept: bool = True
    epsilon: float = 0.1
    class_weight: np.ndarray | None = None
    classes: np.ndarray | None = None
    row_weights: np.ndarray | None = None
    scale: float = 1.0
    dtype: str = "float64"
    target: int = 0
    middle: float = 0.0


def block_of(X: Any, y: Any, sample_weight: Any = None) -> Block:
    """Check a partition's rows, targets and weights, and return them as a block.

    The arrays are not copied if they need no conversion. Raises ValueError if they are not numbers,
    not finite, damaged, or of different lengths.
    """
    columns = None
    if hasattr(X, "to_numpy"):
        # with None at the end NumPy makes an array of one dimension, even if all names are tuples
        columns = np.array([*X.columns, None], object)[:-1]
        X = X.to_numpy()
    check_sparse(X)
    X = check_array(
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order="C",
        ensure_min_samples=0,
        ensure_min_features=0,
    )
    if y is not None:
        y = targets_of(y, X.shape[0])
    weight = None
    if sample_weight is not None:
        weight = row_weights_of(sample_weight, X, X.dtype)
    return X, y, weight, columns


def targets_of(y: Any, n_rows: int) -> np.ndarray:
    """Check a partition's targets, and return them as an array; a single column as a vector.

    n_rows : number of rows of the partition

    Raises ValueError if targets are missing, masked or not finite, or if their number is not
    `n_rows`.
    """
    y = np.asarray(own_type(y))
    y = y if y.ndim == 2 and y.shape[1] > 1 else column_or_1d(y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity: drop or impute those rows.")
    if len(y) != n_rows:
        raise ValueError(
            f"{n_rows} rows and {len(y)} targets: X and y must be cut at the same rows."
        )
    return y


def row_weights_of(sample_weight: Any, X: Any, dtype: Any) -> np.ndarray:
    """Check a partition's weights, and return them; all may be zero.

    Raises ValueError for the reasons of `row_weights`.
    """
    if not X.shape[0] and not len(sample_weight):
        return np.zeros(0, dtype)  # scikit-learn's check refuses arrays without rows
    return row_weights(sample_weight, X, dtype, allow_all_zero_weights=True)


def facts_of(block: Block, with_labels: bool) -> Facts:
    """Return a block's description.

    with_labels : whether targets are labels; the description of one column of labels contains them
    """
    X, y, weight, columns = block
    labels = np.zeros(0) if y is None else np.ravel(y[:0])
    of_label = np.zeros(0, np.int64)
    with_labels = with_labels and y is not None and y.ndim == 1
    if with_labels and y is not None and len(y):
        labels = distinct(y)
        of_label = np.asarray(np.searchsorted(labels, y), np.int64)
    counts = np.bincount(of_label, minlength=len(labels))
    return Facts(
        n_rows=X.shape[0],
        n_features=X.shape[1],
        nnz=X.nnz if sp.issparse(X) else X.size,
        dtype=X.dtype.name,
        is_sparse=sp.issparse(X),
        labels=labels,
        counts=counts,
        weights=counts if weight is None or not with_labels else np.bincount(of_label, weight),
        weight=float(X.shape[0] if weight is None else weight.sum(dtype=np.float64)),
        columns=None if columns is None else tuple(columns),
        n_bytes=X.data.nbytes + (X.indices.nbytes if sp.issparse(X) else 0),
        n_targets=y.shape[1] if y is not None and y.ndim > 1 else 0,
    )


def in_order(block: Block, places: list[int]) -> Block:
    """Return a block with its columns copied in another order.

    places : for each column of the result, its place in the block
    """
    X, *others, columns = block
    assert columns is not None
    return (np.ascontiguousarray(X[:, places]), *others, columns[places])  # type: ignore[return-value]


def sums_of_block(block: Block) -> tuple[np.ndarray]:
    """Return `optimum.compression.sums_of` of a block."""
    return (sums_of(*_targets(block)),)


def triangle_of_block(block: Block, moments: WeightedMeans) -> np.ndarray:
    """Return `optimum.compression.triangle_of_rows` of a block."""
    return triangle_of_rows(*_targets(block), moments)


def _targets(block: Block) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return a block's rows, its targets of shape (n_rows, n_targets), and its weights."""
    X, y, weight, _ = block
    assert y is not None
    targets = np.asarray(y, np.float64).reshape(len(y), -1)
    return X, targets, np.ones(len(y)) if weight is None else weight


class Split(NamedTuple):
    """A rule that chooses a partition's held-out rows at random; the same rows in every call.

    fraction : approximate share of the rows that is held out
    seed : seed for the choice
    """

    fraction: float
    seed: int

    def mask(self, number: int, n_rows: int) -> np.ndarray:
        """Return bools of shape (n_rows,), True for the held-out rows of partition `number`."""
        # seeded by the partition's number, so that every worker draws the same rows
        draws = np.random.default_rng([self.seed, number])
        return np.asarray(draws.random(n_rows) < self.fraction)


def held_out_part(problem: RowProblem, split: Split, number: int) -> HeldOutPart:
    """Return the held-out rows of a partition.

    number : number of the partition
    """
    return HeldOutPart(problem, split.mask(number, problem.n_rows))


def held_out_moments(problem: RowProblem, number: int, split: Split) -> tuple[np.ndarray]:
    """Return `HeldOutPart.moments` of a partition."""
    return (held_out_part(problem, split, number).moments(),)


def held_out_spread(problem: RowProblem, number: int, split: Split, mean: float) -> tuple[float]:
    """Return `HeldOutPart.spread` of a partition."""
    return (held_out_part(problem, split, number).spread(mean),)


def joined(blocks: Sequence[Block]) -> tuple[Any, np.ndarray | None, np.ndarray | None]:
    """Return the stacked rows, targets and weights of all blocks; a single block is not copied."""
    if len(blocks) == 1:
        return blocks[0][:3]
    X, y, weight, _ = zip(*blocks, strict=True)
    rows: Any = sp.vstack(X, format="csr") if sp.issparse(X[0]) else np.concatenate(X)
    ends = [None if part[0] is None else np.concatenate(part) for part in (y, weight)]
    return (rows, *ends)


def problem_of(block: Block, meaning: Meaning) -> RowProblem:
    """Return the problem of a block's rows; the rows are not copied if they have its dtype."""
    X, y, weight, _ = block
    assert y is not None
    y = y[:, meaning.target] if y.ndim > 1 else y
    y = y if meaning.middle == 0.0 else y.astype(np.float64) - meaning.middle
    X = X.astype(meaning.dtype, copy=False)
    if meaning.row_weights is not None and meaning.classes is not None:
        of_rows = meaning.row_weights[np.searchsorted(meaning.classes, y)]
        weight = of_rows if weight is None else weight * of_rows
    if meaning.scale != 1.0:
        weight = meaning.scale * (np.ones(len(y)) if weight is None else weight)
    return build(
        X,
        y,
        loss=meaning.loss,
        penalty=meaning.penalty,
        alpha=meaning.alpha,
        l1_ratio=meaning.l1_ratio,
        fit_intercept=meaning.fit_intercept,
        epsilon=meaning.epsilon,
        sample_weight=None if weight is None else weight.astype(X.dtype),
        class_weight=meaning.class_weight,
        classes=meaning.classes,
    )
