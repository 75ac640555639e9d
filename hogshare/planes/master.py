"""The master plane: one owner of the model, snapshots out, changes in by mail."""

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
SUMMED_ROWS = 64  # whose steps are one message, where messages are summed and none says how many
# values of a block's rows for each coordinate, from which on the rows are stepped on a whole copy
COPIED_VALUES = 0.25


@dataclass(frozen=True)
class Master(Plane):
    """A master that sums what workers send and updates the model version by version.

    Workers compute from a snapshot, a state that the model has really been in, and post what
    should change to the master, which is a process, a thread, or with one worker a step of its
    loop; a worker that has posted does the master's work where nobody is at it. With
    ``SGD(batch=B)`` a message is the step of one mini-batch of B rows from one snapshot. Without,
    and with ``batch=1`` for a linear problem, it is what a block of rows changes: rows of a linear
    problem are taken one after the other on a copy of the snapshot.

    Parameters
    ----------
    gradients : int, default=1
        M: messages that are summed, whoever sent them, in an update. They are summed, not averaged.
    cutoff : int or None, default=None
        Drop messages whose snapshot is more than so many versions old. None: none is dropped.
    damped : bool, default=False
        Multiply a message by ``1 / (1 + age)``, the versions since its snapshot, which keeps old
        ones from going too far.
    fold : {"weighted", "sum", "mean"}, default="weighted"
        What workers multiply their changes by. "weighted": each coordinate by how far the block has
        moved it and how many messages begin at about the same snapshot, as in an exchange of
        `Shared`, so that messages may be of thousands of rows, and by default are. Where the
        problem says no curvature, and for messages that are one step, that is "sum": nothing, as
        published, in messages of 64 rows where nobody names a block. "mean": all by one over the
        number of those messages.

    Notes
    -----
    Source: Lian, Huang, Li and Liu 2015, AsySG-con (Algorithm 1), with ``fold="sum"``; the weights
    are derived in `docs/exchange.md`. Workers that send fewer than M messages between them, at the
    end of a run, have theirs applied as a smaller sum.

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
        """Code of the plane in a run's plan."""
        return epoch_schedule.MASTER

    def edges(self, n_workers: int) -> list[tuple[int, int]]:
        """Each worker's to the master."""
        return [(k, n_workers) for k in range(n_workers)]

    def numbers(self) -> dict[str, Any]:
        """Fields of a run's plan."""
        return {
            "atomic": 0,
            "gradients": self.gradients,
            "cutoff": -1 if self.cutoff is None else self.cutoff,
            "damped": int(self.damped),
            "fold": FOLDS[self.fold],
        }

    @property
    def weighs(self) -> bool:
        """Whether changes are weighed by the curvature along each coordinate, which it then has."""
        return self.fold == "weighted"

    def rows_of_block(
        self, problem: Any, n_rows: int, n_workers: int, late_step: float
    ) -> int | None:
        """Rows of a message, where nobody has said how many; None: by what one costs."""
        return min(SUMMED_ROWS, n_rows) if self.fold == "sum" and problem.has_rows else None

    def steps_on_copies(self, problem: Any, batch: int, block_rows: int) -> bool:
        """Whether a worker steps rows on a whole copy of its snapshot, with a scale for l2.

        Else only the coordinates that a block's rows have are read and sent, with the penalties on
        those. A mini-batch is computed so, at the snapshot itself, and what is summed as in the
        paper.
        """
        if self.fold == "sum" or batch > 1 or not problem.has_rows:
            return False
        values = block_rows * problem.nnz / max(1, problem.n_rows)
        return not problem.is_sparse or values >= COPIED_VALUES * problem.n_features
