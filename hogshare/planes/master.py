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
# least values of a block's rows per coordinate for steps on a whole copy
COPIED_VALUES = 0.25


@dataclass(frozen=True)
class Master(Plane):
    """A master that sums workers' changes and updates the model version by version.

    Workers compute from a snapshot, an exact earlier state of the model, and post their changes to
    the master. The master is a process, a thread, or with one worker a step of the worker's loop; a
    worker that has posted does the master's work if no other worker does it. With
    ``SGD(batch=B)`` a message is the step of one mini-batch of B rows from one snapshot. Without
    `batch`, and with ``batch=1`` for a linear problem, a message is the change of a block of rows:
    rows of a linear problem take their steps in order on a copy of the snapshot.

    Parameters
    ----------
    gradients : int, default=1
        M: messages in an update, from any workers. They are summed, not averaged.
    cutoff : int or None, default=None
        Drop messages whose snapshot is older than this number of versions. None: none is dropped.
    damped : bool, default=False
        Multiply a message by ``1 / (1 + age)``, with the versions since its snapshot as its age, to
        limit the effect of old messages.
    fold : {"weighted", "sum", "mean"}, default="weighted"
        The factor of workers' changes. "weighted": a factor for each coordinate, by how far the
        block has moved it and how many messages begin at about the same snapshot, as in an exchange
        of `Shared`. Messages may have thousands of rows, and do by default. If the problem has no
        curvature, and for messages of one step, this is "sum". "sum": no factor, as published; by
        default a message has 64 rows. "mean": one over the number of those messages.

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
    queue = 2  # one is read while the next is computed

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
        """Whether changes are weighted by coordinates' curvature, which the run then stores."""
        return self.fold == "weighted"

    def rows_of_block(
        self, problem: Any, n_rows: int, n_workers: int, late_step: float
    ) -> int | None:
        """Return the default rows of a message; None: they depend on a message's cost."""
        return min(SUMMED_ROWS, n_rows) if self.fold == "sum" and problem.has_rows else None

    def steps_on_copies(self, problem: Any, batch: int, block_rows: int) -> bool:
        """Whether a worker takes rows' steps on a whole copy of its snapshot, with a scale for l2.

        Otherwise it reads and sends only the coordinates of a block's rows, with their penalties.
        Mini-batches, computed at the snapshot itself, and ``fold="sum"``, as in the paper, do so.
        """
        if self.fold == "sum" or batch > 1 or not problem.has_rows:
            return False
        values = block_rows * problem.nnz / max(1, problem.n_rows)
        return not problem.is_sparse or values >= COPIED_VALUES * problem.n_features
