"""The master plane: a master owns the model, publishes snapshots, and receives changes by mail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hogshare.kernels.schedule import epoch_schedule
from hogshare.planes.protocol import Plane
from hogshare.system.ranges import flag, store_whole

FOLDS = {
    "weighted": epoch_schedule.WEIGHTED,
    "sum": epoch_schedule.SUM,
    "mean": epoch_schedule.MEAN,
}
SUMMED_ROWS = 64  # default rows of a message with fold="sum"
# steps are taken on a whole copy if a block's rows have at least this many values per coordinate
COPIED_VALUES = 0.25


@dataclass(frozen=True)
class Master(Plane):
    """A master that sums workers' changes and updates the model version by version.

    Workers compute from a snapshot, an exact earlier state of the model, and post their changes to
    the master. The master is a process or a thread; with one worker, it is a step of the worker's
    loop. After a worker has posted, it does the master's work if no other worker does this work.
    With ``SGD(batch=B)``, a message is the step of one mini-batch of B rows from one snapshot.
    Without `batch`, and with ``batch=1`` for a linear problem, a message is the change by a block
    of rows. For a linear problem, these steps are taken row by row on a copy of the snapshot.

    Parameters
    ----------
    gradients : int, default=1
        Number of messages in an update (M in the paper), from any workers. The messages are summed,
        not averaged.
    cutoff : int or None, default=None
        Largest age of a message, in versions since its snapshot. Older messages are dropped. None:
        no message is dropped.
    damped : bool, default=False
        Whether to multiply a message by ``1 / (1 + age)``, where the age is the number of versions
        since its snapshot. This limits the effect of old messages.
    fold : {"weighted", "sum", "mean"}, default="weighted"
        The factor of workers' changes. "weighted": each coordinate has its own factor, as in an
        exchange of `Shared`. The factor depends on how far the block has moved the coordinate, and
        on how many messages begin at about the same snapshot. A message may have thousands of rows,
        and by default it does. If the problem has no curvature, and for messages of one step,
        "weighted" is the same as "sum". "sum": changes have no factor, as published. By default, a
        message then has 64 rows. "mean": the factor is one over the number of messages that begin
        at about the same snapshot.

    Notes
    -----
    Source: Lian, Huang, Li and Liu 2015, AsySG-con (Algorithm 1), with ``fold="sum"``; the weights
    are derived in `docs/exchange.md`. If fewer than M messages are left at the end of a run, they
    are applied as a smaller sum.

    Examples
    --------
    >>> from hogshare import Master
    >>> Master(gradients=4)
    Master(gradients=4, cutoff=None, damped=False, fold='weighted')
    """

    gradients: int = 1
    cutoff: int | None = None
    damped: bool = False
    fold: str = "weighted"

    def __post_init__(self) -> None:
        store_whole(1, self, "gradients")
        if self.cutoff is not None:
            store_whole(0, self, "cutoff")
        flag(damped=self.damped)
        if not isinstance(self.fold, str) or self.fold not in FOLDS:
            raise ValueError(
                f"fold must be one of {', '.join(map(repr, FOLDS))}; got {self.fold!r}."
            )

    has_homes: ClassVar[bool] = False
    has_master: ClassVar[bool] = True
    queue = 2  # the master reads one message while the worker computes the next one

    def mode(self, n_workers: int) -> int:
        """Return the plane's code in a run's plan."""
        return epoch_schedule.MASTER

    def edges(self, n_workers: int) -> list[tuple[int, int]]:
        """Return an edge from each worker to the master."""
        return [(k, n_workers) for k in range(n_workers)]

    def numbers(self) -> dict[str, Any]:
        """Return the plane's fields of a run's plan."""
        return {
            "atomic": 0,
            "gradients": self.gradients,
            "cutoff": -1 if self.cutoff is None else self.cutoff,
            "damped": int(self.damped),
            "fold": FOLDS[self.fold],
        }

    @property
    def weighs(self) -> bool:
        """Whether changes are weighted by the coordinates' curvature; the run then stores it."""
        return self.fold == "weighted"

    def rows_of_block(
        self, problem: Any, n_rows: int, n_workers: int, late_step: float
    ) -> int | None:
        """Return the default rows of a message, or None if they depend on a message's cost."""
        return min(SUMMED_ROWS, n_rows) if self.fold == "sum" and problem.has_rows else None

    def steps_on_copies(self, problem: Any, batch: int, block_rows: int) -> bool:
        """Whether a worker takes rows' steps on a whole copy of its snapshot, with a scale for l2.

        If it does not, the worker reads and sends only the coordinates of a block's rows, with
        their penalties. It does so for mini-batches, whose gradients are computed at the snapshot
        itself, and for ``fold="sum"``, as in the paper.
        """
        if self.fold == "sum" or batch > 1 or not problem.has_rows:
            return False
        values = block_rows * problem.nnz / max(1, problem.n_rows)
        return not problem.is_sparse or values >= COPIED_VALUES * problem.n_features
