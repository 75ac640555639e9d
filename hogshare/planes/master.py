"""The master plane: one owner of the model, snapshots out, changes in by mail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hogshare.kernels import epochs
from hogshare.planes.protocol import Plane
from hogshare.system.ranges import flag, keep_whole


@dataclass(frozen=True)
class Master(Plane):
    """A master that sums what workers send and updates the model version by version.

    Workers compute from a snapshot, a state that the model has really been in, and post what
    should change to the master, which is a process, a thread, or with one worker a step of its
    loop. With ``SGD(batch=B)`` a message is the step of one mini-batch of B rows from one snapshot.
    Without, and with ``batch=1`` for a linear problem, it is what a block of rows changes: rows of
    a linear problem are taken one after the other on a copy of the snapshot.

    Parameters
    ----------
    gradients : int, default=1
        M: messages that are summed, whoever sent them, in an update. They are summed, not averaged.
    cutoff : int or None, default=None
        Drop messages whose snapshot is more than so many versions old. None: none is dropped.
    damped : bool, default=False
        Multiply a message by ``1 / (1 + age)``, the versions since its snapshot, which keeps old
        ones from going too far.

    Notes
    -----
    Source: Lian, Huang, Li and Liu 2015, AsySG-con (Algorithm 1). Workers that send fewer than M
    messages between them, at the end of a run, have theirs applied as a smaller sum.

    Examples
    --------
    >>> from hogshare import Master
    >>> Master(gradients=4)
    Master(gradients=4, cutoff=None, damped=False)
    """

    gradients: int = 1
    cutoff: int | None = None
    damped: bool = False

    def __post_init__(self) -> None:
        keep_whole(1, self, "gradients")
        if self.cutoff is not None:
            keep_whole(0, self, "cutoff")
        flag(damped=self.damped)

    has_homes: ClassVar[bool] = False
    has_master: ClassVar[bool] = True
    queue = 2  # one is read while the next is computed

    def mode(self, n_workers: int) -> int:
        """Code of the plane in a run's plan."""
        return epochs.MASTER

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
        }
