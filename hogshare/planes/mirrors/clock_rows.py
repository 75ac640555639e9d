"""The default number of rows in a clock: the rows of a worker between two sends of its centre.

Weighted changes may cover thousands of rows (docs/exchange.md). A clock has so many rows that its
exchange is cheap; over links, it also has enough rows for the time of the bytes and the latency. An
epoch has at least four clocks, or two clocks for rows like text. If plain sums are used, long
clocks overshoot. Their length is therefore limited by the curvature and by the size of the steps at
the run's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from hogshare.links.link import Link
from hogshare.planes.shared import row_nanoseconds
from hogshare.shm.mailbox import mail_bytes

if TYPE_CHECKING:
    from hogshare.problems.gradient import GradientProblem
    from hogshare.problems.protocol import RowProblem

CLOCK_NS, NUMBER_NS = 100_000.0, 6.0  # time of a clock, and of a number of the model or a message
EASY_SHARE = 10.0  # the rows between two clocks take this many times as long as an exchange
LINK_SHARE = 1.5  # and this many times as long as a link needs for a clock's bytes
CLOCKS_UNDER_WAY = 4  # clocks that begin before a clock's last byte arrives, if rows allow
# fewest clocks in an epoch of steps by a gradient; a clock's time, in multiples of a wait
FEWEST_OF_GRADIENTS, WAITS = 2, 4.0

SAMPLE_ROWS = 512
ITERATIONS = 15  # of the power method, which finds the largest eigenvalue to some per cent
WAY = 4.0  # distances to the optimum that a clock of all other centres may move in one direction
FEWEST_CLOCKS = 4  # fewest clocks in an epoch
FEWEST_OF_RARE, RARE = 2, 0.01  # the same for rows with at most this share of the features
FEWEST_ROWS = 4  # with fewer rows, a clock costs more than its rows, and no objective improves


def clock_rows(
    problem: RowProblem, late_step: float, n_rows: int, n_workers: int, n_centres: int
) -> int:
    """Return the number of rows of a worker between two clocks, for changes that are summed.

    Along the direction of largest curvature, a row moves a distant model by a share of its distance
    to the optimum. The share is ``eta * h * lambda``, where eta is the step size, h the loss's
    curvature, and lambda the largest eigenvalue of the mean of ``x x^T``. In a clock, each worker
    moves the model by this share times its number of rows, and the changes of all centres are
    summed. With steps as small as at the run's end, the chosen number of rows lets the workers of
    the other centres together move the model by at most four times its distance. The number is at
    least `FEWEST_ROWS`. The factor of four was found by experiment (`docs/mirrors.md`).

    late_step : step size at the end of the run
    n_rows : number of rows that are trained on
    """
    longest = max(1, n_rows // (n_workers * FEWEST_CLOCKS))
    per_row = late_step * problem.sharpness * largest_eigenvalue(problem)
    others = max(1, n_workers - n_workers // n_centres)  # workers, each of which adds the same
    wanted = WAY / (per_row * others) if per_row > 0.0 else longest
    return min(longest, max(FEWEST_ROWS, int(min(wanted, longest))))


def weighted_rows(
    problem: RowProblem, n_rows: int, n_workers: int, degree: int, links: Sequence[Link] | None
) -> int:
    """Return the number of rows of a worker between two clocks, for weighted changes.

    degree : the largest number of edges that leave a centre
    links : the links of all edges, or None if no link is slow
    """
    is_rare = problem.nnz < RARE * problem.n_rows * problem.n_features
    fewest = FEWEST_OF_RARE if is_rare else FEWEST_CLOCKS
    longest = max(1, n_rows // (n_workers * fewest))
    row = row_nanoseconds(problem)
    numbers = problem.n_features * problem.n_columns * (1 + 2 * degree)
    wanted = EASY_SHARE * (CLOCK_NS + NUMBER_NS * numbers)
    for link in links or ():
        size = mail_bytes(0, problem.n_features * problem.n_columns, problem.dtype.itemsize)
        under_way = link.latency + size / link.bandwidth
        wanted = max(
            wanted, 1e9 * LINK_SHARE * size / link.bandwidth, 1e9 * under_way / CLOCKS_UNDER_WAY
        )
    return max(1, int(min(wanted / row, longest)))


def rows_over(problem: GradientProblem, n_rows: int, n_workers: int, links: Sequence[Link]) -> int:
    """Return the number of rows of a worker between two clocks over links, for gradient steps.

    Computing these rows takes four times as long as a whole message is under way. The rows are at
    most half of the worker's rows of an epoch.
    """
    size = mail_bytes(0, problem.n_params, problem.dtype.itemsize)
    under_way = max(link.latency + size / link.bandwidth for link in links)
    longest = max(1, n_rows // (n_workers * FEWEST_OF_GRADIENTS))
    return max(1, int(min(WAITS * under_way / problem.row_seconds, longest)))


def largest_eigenvalue(problem: RowProblem) -> float:
    """Return the largest eigenvalue of the mean of ``x x^T`` over some of the rows.

    The intercept counts as a feature.
    """
    rows, n = problem.rows, problem.n_rows
    some = np.linspace(0, n - 1, min(n, SAMPLE_ROWS)).astype(np.int64)
    if rows.width:
        X = rows.data.reshape(n, rows.width)[some].astype(np.float64)
    else:
        whole = (rows.data, rows.indices, rows.indptr)
        X = sp.csr_matrix(whole, (n, problem.n_features), copy=False)[some].astype(np.float64)
    vector = np.asarray(np.abs(X).mean(axis=0)).reshape(-1) + 1e-12
    found = 0.0
    for _ in range(ITERATIONS):
        image = np.asarray(X.T @ (X @ vector)).reshape(-1) / len(some)
        size = float(np.linalg.norm(image))
        found = size / max(float(np.linalg.norm(vector)), 1e-300)
        if not 0.0 < size < np.inf:
            break
        vector = image / size
    return found + float(problem.fit_intercept)
