"""How much the rows of a data set get in each other's way: Hogwild!'s Omega, Delta and rho.

A row is a hyperedge: the set of its nonzero features. Nothing of rows by rows is formed: the rows
that share a feature with one are the union of the lists of rows of its features.

Source: Niu, Recht, Re and Wright, "Hogwild!: a lock-free approach to parallelizing stochastic
gradient descent", NIPS 2011, section 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare.problems.linear.row_arrays import check_sparse, each_column_once
from hogshare.system.ranges import not_negative, positive

BUDGET = 1 << 26  # entries of row lists: a few tenths of a second


@dataclass(frozen=True)
class Sparsity:
    """Hogwild!'s three numbers of a data set; see `sparsity`.

    Attributes
    ----------
    omega : int
        ``max_e |e|``: nonzero features of the fullest row.
    delta : float
        ``max_v |{e: v in e}| / |E|``: share of the rows that have the most frequent feature.
    rho : float
        ``max_e |{e': e' and e share a feature}| / |E|``, e itself among them: the largest share of
        the rows that one row gets in the way of. Where the search was cut short, of those rows
        that were searched: a lower bound.
    rho_at_most : float
        Upper bound of rho; the same number where it was found.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.sparsity([[1, 2, 0], [0, 3, 0], [0, 0, 4], [0, 0, 0]])
    Sparsity(omega=2, delta=0.5, rho=0.5, rho_at_most=0.5)
    """

    omega: int
    delta: float
    rho: float
    rho_at_most: float

    @property
    def is_exact(self) -> bool:
        """Whether `rho` is the largest share over all rows."""
        return self.rho == self.rho_at_most


def sparsity(X: Any, *, budget: int | None = BUDGET) -> Sparsity:
    """Hogwild!'s Omega, Delta and rho of a data set.

    Omega and Delta are exact. For rho the rows are taken in the order of an upper bound, which is
    the number of entries in the lists of their features; it is exact as soon as no row that is left
    has a larger bound than what has been found. Where that takes more than `budget` entries, the
    search ends, and rho is the largest share among the rows that were searched: those with the
    largest bounds, not a random sample.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Values other than zero count, wherever they are stored.
    budget : int or None, default=2**26
        Entries of row lists to read, about; the first row is always searched. None: as many
        as it takes.

    Returns
    -------
    Sparsity

    Raises
    ------
    ValueError
        If X is not a matrix with at least one row, or the budget is negative.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from hogshare import theory
    >>> theory.sparsity(sp.eye_array(5)).rho
    0.2
    """
    if budget is not None:
        not_negative(budget=budget)
    pattern = _pattern(X if sp.issparse(X) else np.asarray(X))
    n_rows = pattern.shape[0]
    counts = np.bincount(pattern.indices, minlength=pattern.shape[1])
    sizes = np.diff(pattern.indptr)
    entries = _sums_of_rows(pattern, counts)
    bounds = np.minimum(entries, n_rows)
    found, spent, at_most = 0, 0, 0
    rows_of = None
    for r in np.argsort(-bounds, kind="stable"):
        at_most = max(found, int(bounds[r]))
        if at_most == found or (budget is not None and found > 0 and spent >= budget):
            break
        features = pattern.indices[pattern.indptr[r] : pattern.indptr[r + 1]]
        if found == 0:  # by a pass over all rows: often that is all there is to do
            marks = np.zeros(pattern.shape[1], np.int8)
            marks[features] = 1
            meets = _sums_of_rows(pattern, marks) > 0
        else:
            rows_of = pattern.tocsc() if rows_of is None else rows_of
            meets = np.zeros(n_rows, bool)
            for v in features:
                meets[rows_of.indices[rows_of.indptr[v] : rows_of.indptr[v + 1]]] = True
        found = max(found, int(np.count_nonzero(meets)))
        spent += int(entries[r]) + n_rows
    else:
        at_most = found
    return Sparsity(
        omega=int(sizes.max()),
        delta=int(counts.max(initial=0)) / n_rows,
        rho=found / n_rows,
        rho_at_most=at_most / n_rows,
    )


def _pattern(X: Any) -> sp.csr_array:
    """Ones where X is not zero, as CSR whose rows hold each feature once."""
    check_sparse(X)
    if np.ndim(X) != 2 or X.shape[0] == 0:
        raise ValueError(f"X must be a matrix with at least one row; got shape {np.shape(X)}.")
    matrix = each_column_once(sp.csr_array(X))
    if matrix.nnz and not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    ones = np.ones(len(matrix.indices), np.int8)
    return sp.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def _sums_of_rows(pattern: sp.csr_array, of_feature: np.ndarray) -> np.ndarray:
    """Sum a number of each feature over the features of each row; int64 of shape (n_rows,)."""
    total = np.zeros(pattern.shape[0], np.int64)
    filled = np.flatnonzero(np.diff(pattern.indptr))
    if filled.size:  # rows without features would take their neighbour's sum
        values = of_feature[pattern.indices]
        total[filled] = np.add.reduceat(values, pattern.indptr[filled], dtype=np.int64)
    return total


def hogwild_step_size(
    share: float,
    error: float,
    convexity: float,
    L: float,
    largest_gradient: float,
    sparse: Sparsity,
    age: float,
) -> float:
    """Step size of Hogwild!'s proposition for a strongly convex function.

    ``theta eps c / (2 L M^2 Omega (1 + 6 rho tau + 4 tau^2 Omega sqrt(Delta)))``: with it an error
    of eps is reached in O(log(1 / eps) / eps) steps. The proposition was recalled, not copied, and
    is not checked here; with ``age=0`` it is the step size of one worker.

    Parameters
    ----------
    share : float
        theta, above 0 and below 1.
    error : float
        eps, of the model: ``E ||x - x*||^2``.
    convexity : float
        c, modulus of strong convexity.
    L : float
        Lipschitz constant of the gradient.
    largest_gradient : float
        M, which no gradient of a row is longer than.
    sparse : Sparsity
        Of the rows; its upper bound of rho is taken.
    age : float
        tau, updates between a read and its application, at most.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If a constant is not positive, theta is not below 1, or the age is negative.

    Examples
    --------
    >>> from hogshare import theory
    >>> rows = theory.Sparsity(omega=2, delta=0.25, rho=0.5, rho_at_most=0.5)
    >>> theory.hogwild_step_size(0.5, 0.1, 1.0, 1.0, 1.0, rows, age=1)
    0.0015625
    """
    positive(
        share=share,
        error=error,
        convexity=convexity,
        L=L,
        largest_gradient=largest_gradient,
        omega=sparse.omega,
    )
    not_negative(age=age)
    if share >= 1.0:
        raise ValueError(f"share must be below 1; got {share!r}.")
    aged = 6.0 * sparse.rho_at_most * age + 4.0 * age**2 * sparse.omega * math.sqrt(sparse.delta)
    scale = 2.0 * L * largest_gradient**2 * sparse.omega * (1.0 + aged)
    return share * error * convexity / scale
