"""The conflicts between the rows of a data set: Hogwild!'s Omega, Delta and rho.

A row is a hyperedge: the set of its nonzero features. Two rows conflict if they have a feature in
common. No matrix of rows by rows is formed. Each feature has a list of its rows; the rows that
conflict with a row are the union of the lists of its features.

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

BUDGET = 1 << 26  # entries of row lists to read: a few tenths of a second


@dataclass(frozen=True)
class Sparsity:
    """Hogwild!'s three numbers for a data set; see `sparsity`.

    Attributes
    ----------
    omega : int
        Largest number of nonzero features in a row: ``max_e |e|``.
    delta : float
        Share of the rows that have the most frequent feature: ``max_v |{e: v in e}| / |E|``.
    rho : float
        Largest share of the rows that conflict with one row, which counts as one of them:
        ``max_e |{e': e' and e share a feature}| / |E|``. If the search was cut short, `rho` is the
        largest share among the searched rows, which is a lower bound.
    rho_at_most : float
        Upper bound of rho. It is equal to `rho` if the search was complete.

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
    """Compute Hogwild!'s Omega, Delta and rho for a data set.

    Omega and Delta are exact. For rho, each row has an upper bound: the number of entries in the
    lists of its features. The rows are searched in descending order of this bound. rho is exact as
    soon as no remaining row has a bound above the largest share found. After `budget` entries the
    search ends, and rho is the largest share among the searched rows. These rows are the ones with
    the largest bounds, not a random sample.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        The rows. Only values other than zero count; stored zeros do not.
    budget : int or None, default=2**26
        Approximate number of entries of row lists to read. The first row is always searched. None:
        unlimited.

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
        at_most = max(found, int(bounds[r]))  # bounds descend: no later row has more
        if at_most == found or (budget is not None and found > 0 and spent >= budget):
            break
        features = pattern.indices[pattern.indptr[r] : pattern.indptr[r + 1]]
        if found == 0:  # the first row by a pass over all rows: often it settles the search
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
    """Return a CSR matrix with ones where X is not zero; a row has each feature at most once."""
    check_sparse(X)
    if np.ndim(X) != 2 or X.shape[0] == 0:
        raise ValueError(f"X must be a matrix with at least one row; got shape {np.shape(X)}.")
    matrix = each_column_once(sp.csr_array(X))
    if matrix.nnz and not matrix.data.all():
        matrix = matrix.copy()  # the caller's array must not change
        matrix.eliminate_zeros()
    ones = np.ones(len(matrix.indices), np.int8)
    return sp.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def _sums_of_rows(pattern: sp.csr_array, of_feature: np.ndarray) -> np.ndarray:
    """Sum the numbers of a row's features, for each row; int64 of shape (n_rows,)."""
    total = np.zeros(pattern.shape[0], np.int64)
    filled = np.flatnonzero(np.diff(pattern.indptr))
    if filled.size:  # empty rows are skipped: `reduceat` would give them their neighbour's sum
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
    """Compute the step size of Hogwild!'s proposition for a strongly convex function.

    It is ``theta eps c / (2 L M^2 Omega (1 + 6 rho tau + 4 tau^2 Omega sqrt(Delta)))``. With this
    step size, an error of eps is reached in O(log(1 / eps) / eps) steps. The proposition was
    recalled, not copied, and no test checks it. With ``age=0`` it gives the step size of one
    worker.

    Parameters
    ----------
    share : float
        The factor theta, above 0 and below 1.
    error : float
        The error eps of the model, ``E ||x - x*||^2``.
    convexity : float
        The modulus c of strong convexity.
    L : float
        The Lipschitz constant of the gradient.
    largest_gradient : float
        An upper bound M of the norms of the rows' gradients.
    sparse : Sparsity
        Omega, Delta and rho of the rows; the upper bound of rho is used.
    age : float
        The largest number tau of updates between the read of the model and the application of the
        gradient.

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
