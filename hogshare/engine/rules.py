"""How a block of rows becomes a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, row by row.

    Parameters
    ----------
    average : int or bool, default=0
        Average the iterates from this many rows on; True means from the first. 0: no average.
    batch : int, default=1
        Rows whose gradients are computed from one read of the model before any is written
        (AsySG-incon's M). They are summed, not averaged. Needs a plane without exchange, where
        other workers write between read and write; with private copies it must be 1.

    Examples
    --------
    >>> from hogshare import SGD
    >>> SGD(average=True)
    SGD(average=1, batch=1)
    """

    average: int = 0
    batch: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "average", int(self.average))
        if self.average < 0:
            raise ValueError(f"average must not be negative; got {self.average}.")
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1 row; got {self.batch}.")
