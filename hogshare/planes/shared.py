"""The shared plane: one vector that all workers use, directly or through private copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hogshare.kernels.rows.moments import add_chances, estimate_curvature
from hogshare.kernels.rules import losses
from hogshare.kernels.schedule import epoch_schedule
from hogshare.planes.protocol import Plane
from hogshare.system import machine, ranges

if TYPE_CHECKING:
    from hogshare.problems.protocol import RowProblem

# The sample that separates hot features from cold features: its fewest rows, its most rows, and its
# approximate number of values, which take 0.05 ms. A sample four times as large gave the same
# objectives within 1 or 2 % (40 seeds).
SAMPLE_ROWS, SAMPLE_VALUES = (64, 512), 1 << 14
EXCHANGE_SHARE = 4.0  # the rows between two exchanges take this many times as long as an exchange
EASY_SHARE = 10.0  # the same, for exchanges that should cost next to nothing
DESCENT_SPREAD = 8  # least ratio of all rows to all workers' rows between two exchanges of descent
EXCHANGE_NS = 20.0  # fixed time of an exchange without contention
HAND_OVERS = 12.0  # shared words that cores pass to each other in an exchange, with contention
MESSAGE_EXCHANGES = 3.0  # cost of a message in exchanges: read, weigh and write a copy, and add it
MESSAGES_OF_EPOCH = 8  # fewest messages of each worker in an epoch
MESSAGE_ROWS = 8192  # most rows of a message, unless its cost needs more rows
MESSAGE_NS = 100_000  # computing time that justifies a message even with l1
EXCHANGE_BYTES = 24.0  # bytes read and written per coordinate, in float32
LINE_TRANSFERS = 2.0  # transfers of each cache line of the shared vector per exchange
LINE_BYTES = 64.0
SPARSE_CAUTION = 2.0  # time of a sparse row's value, as a multiple of its time in the plainest loop
NO_CHANCES = np.empty(0)  # all rows are visited equally often
# a problem, or an object with the attributes n_rows, n_features, n_columns, nnz, is_sparse, dtype
Size = Any


@dataclass(frozen=True)
class Shared(Plane):
    """One vector in shared memory.

    Parameters
    ----------
    exchange : "auto", int or None, default="auto"
        None: every worker reads and writes the one vector, row by row and without locks. This is
        Hogwild! and AsySG-incon as published. On sparse data with hot features (which occur in many
        rows), several workers are then slower than one worker, because the hot features' cache
        lines move between the cores. An int: every worker has a private copy, and folds the copy
        into the shared vector after this number of rows. At a run's start, while the model moves
        fast, it does so after fewer rows. The change of each coordinate has a weight that depends
        on how far a block of rows moves the coordinate (see
        `hogshare.kernels.exchange.copy_exchange`). "auto": this number of rows is chosen
        automatically. With `BSP` and on a virtual clock, exchanges come at the ends of blocks, and
        this number is the default number of rows in a block.
    adds : {"plain", "atomic"}, default="plain"
        How workers add their changes with ``exchange=None``. Plain adds may lose an update when two
        workers write a coordinate at the same time. Atomic adds lose no update, but take several
        times as long. Several workers whose iterates are averaged always add atomically: the sum of
        the iterates counts every change, and a lost change would stay in the sum for good.

    Examples
    --------
    >>> from hogshare import Shared
    >>> Shared(exchange=None, adds="atomic")
    Shared(exchange=None, adds='atomic')
    """

    exchange: str | int | None = "auto"
    adds: str = "plain"
    has_homes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.adds, str) or self.adds not in ("plain", "atomic"):
            raise ValueError(f"adds must be 'plain' or 'atomic'; got {self.adds!r}.")
        if self.exchange is None or (isinstance(self.exchange, str) and self.exchange == "auto"):
            return
        if not ranges.is_integer(self.exchange):
            raise ValueError(
                f"exchange must be 'auto', a number of rows, or None; got {self.exchange!r}."
            )
        ranges.store_whole(1, self, "exchange")

    @property
    def has_copies(self) -> bool:
        """Whether several workers exchange private copies."""
        return self.exchange is not None

    @property
    def is_lock_free(self) -> bool:
        """Whether all workers read and write the one vector."""
        return self.exchange is None

    @property
    def is_automatic(self) -> bool:
        """Whether the number of rows between two exchanges is chosen automatically."""
        return self.exchange == "auto"

    def mode(self, n_workers: int) -> int:
        """Return the plane's code in a run's plan."""
        if self.exchange is None:
            return epoch_schedule.LOCK_FREE
        return epoch_schedule.ALONE if n_workers == 1 else epoch_schedule.EXCHANGE

    def numbers(self) -> dict[str, Any]:
        """Return the plane's fields of a run's plan."""
        atomic = int(self.adds == "atomic")
        return {"atomic": atomic, "gradients": 0, "cutoff": -1, "damped": 0}

    def interval(self, problem: Size) -> int:
        """Return the number of rows between two exchanges of one worker; 0 without exchanges."""
        if self.exchange is None:
            return 0
        if self.exchange != "auto":
            return int(self.exchange)
        return exchange_interval(problem)


def row_nanoseconds(problem: Size) -> float:
    """Estimate the time of one row on one core, for comparing costs.

    The estimate assumes that a value of a sparse row takes twice the time that it takes in a plain
    loop over the rows in order, which computes no loss and has no schedule.
    """
    costs = machine.load()
    per_value = costs.dense_value_ns
    if problem.is_sparse:
        per_value = SPARSE_CAUTION * costs.sparse_value_ns
    per_value += costs.column_value_ns * (problem.n_columns - 1)
    return costs.row_ns + problem.nnz / max(1, problem.n_rows) * per_value


def exchange_interval(problem: Size) -> int:
    """Return the number of rows after which an exchange costs a quarter of the rows' own time.

    The estimate is cautious. An exchange streams three vectors of the model's size in and out (24
    bytes per coordinate). The estimate counts two waits for the shared vector's cache lines from
    another core, one to read and one to write them, although the exchange prefetches the lines
    once. A row costs `row_nanoseconds`. With the default machine constants, a coordinate costs 1
    ns, a cache line 10 ns, and a value of a sparse row 3 ns. With fewer rows, the copies agree
    better, but exchanges cost more; see `docs/exchange.md`.
    """
    return _interval(problem, EXCHANGE_NS, EXCHANGE_SHARE)


def descent_interval(problem: Size, l1: float, n_rows: int, n_workers: int) -> int:
    """Return the number of rows between two exchanges of plain descent on `n_rows` of the rows.

    The number is at least `exchange_interval`, and at most `easy_interval`, with which an exchange
    costs next to nothing. All intervals in between give the same progress per epoch, on one
    condition: between two exchanges, all workers together visit at most an eighth of the rows (and
    fewer while the step is still long). With `l1`, the number is the minimum, because a worker that
    works alone for longer wrongly sets more coefficients to zero.
    """
    least = exchange_interval(problem)
    if l1 > 0.0:
        return least
    return max(least, min(easy_interval(problem), n_rows // (DESCENT_SPREAD * n_workers)))


def message_rows(problem: Size, l1: float, n_rows: int, n_workers: int) -> int:
    """Return the number of rows that justify a message to a master.

    The number is close to `descent_interval`. Its rows take at least four times as long as reading,
    writing and adding a message of the whole vector. Above this minimum, the number is an eighth of
    a worker's share of `n_rows` (at most `MESSAGE_ROWS`), because other workers see the changes
    only after the message is sent. With `l1`, the number is the fewest rows that justify the
    master's work.
    """
    least = int(MESSAGE_EXCHANGES * exchange_interval(problem))
    even = min(MESSAGE_ROWS, -(-n_rows // (MESSAGES_OF_EPOCH * n_workers)))
    if l1 > 0.0:
        even = min(even, int(MESSAGE_NS / row_nanoseconds(problem)))
    return min(n_rows, max(least, even))


def easy_interval(problem: Size) -> int:
    """Return the number of rows after which an exchange costs next to nothing.

    Even for a small model, workers pass a dozen memory words to each other. These words are most of
    the cost of an exchange of a hundred coordinates.
    """
    return _interval(problem, HAND_OVERS * machine.load().hand_over_ns, EASY_SHARE)


def _interval(problem: Size, rendezvous_ns: float, share: float) -> int:
    """Return the number of rows that take as long as `share` exchanges."""
    costs = machine.load()
    line_share = problem.dtype.itemsize / LINE_BYTES
    per_coordinate = EXCHANGE_BYTES / costs.stream_gb_per_second
    per_coordinate += LINE_TRANSFERS * costs.line_transfer_ns * line_share
    exchange_ns = rendezvous_ns + problem.n_features * problem.n_columns * per_coordinate
    return min(8192, max(16, int(share * exchange_ns / row_nanoseconds(problem))))


def feature_curvature(
    problem: RowProblem, seed: int, chances: np.ndarray = NO_CHANCES
) -> np.ndarray:
    """Estimate the objective's curvature along each feature, from a sample of rows.

    `chances` is how often an epoch visits each row. If `chances` is given, rows are drawn in
    proportion to it. The reason is that a few rows that are much larger than all others may make up
    most of the curvature, and a uniform sample would miss them.

    Returns the loss's curvature times the mean of ``|x_j| sum_i |x_i|``: float32 of shape
    (n_features,). A feature that is too rare to be in the sample gets 0. The exchange then adds the
    feature's changes, which is right for a rare feature.
    """
    fewest, most = SAMPLE_ROWS
    n_sample = min(most, max(fewest, SAMPLE_VALUES * problem.n_rows // max(1, problem.nnz)))
    sample, counts = np.empty(n_sample, np.int64), NO_CHANCES
    if chances.size:
        ends = np.cumsum(chances)
        ends /= ends[-1]  # the last end is exactly 1, and draws are below 1
        draws = np.random.default_rng(seed).random(n_sample)
        sample = np.searchsorted(ends, draws, side="right")
        counts = 1.0 / chances[sample]
    out = np.empty(problem.n_features, np.float32)
    bound = float(losses.CURVATURE[losses.CODES[problem.loss]])
    sums = np.zeros(problem.n_features)
    estimate_curvature(problem.rows, sample, counts, seed, bound, sums, out)
    return out


def feature_rarity(problem: RowProblem, chances: np.ndarray = NO_CHANCES) -> np.ndarray:
    """Return the number of row visits per visit to a row that has the feature.

    The result is float32 of shape (n_features,). For dense rows it is 1. If `chances` is given (how
    often an epoch visits each row), rows are weighted by `chances`.
    """
    if not problem.is_sparse:
        return np.ones(problem.n_features, np.float32)
    if chances.size:
        visits, counts = float(chances.sum()), np.zeros(problem.n_features)
        add_chances(problem.rows, chances, counts)
    else:
        visits = float(problem.n_rows)
        counts = problem.nonzeros
    return (visits / np.where(counts > 0, counts, visits)).astype(np.float32)
