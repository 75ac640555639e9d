"""What a plane of one's own yields where it has to wait for others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hogshare.system import ranges


@dataclass(frozen=True)
class Until:
    """Wait: go on with me when this holds.

    Yielded by a plane's `after_block`. The yield's value says whether it holds: False, where the
    time was over first. Nobody else waits for the worker meanwhile but who says so, and it leaves
    where the run is broken off: what comes after the yield is not done then.

    Parameters
    ----------
    holds : callable
        ``holds() -> bool``, of what other workers do: it is asked again and again, more often than
        anybody counts, and must change nothing.
    seconds : float or None, default=None
        How long to wait at most; of a `Simulator`, virtual ones. None: for as long as it takes.

    Examples
    --------
    Wait for everybody who may still come this far, or a second:

    >>> import numpy as np
    >>> from hogshare import Plane, Until
    >>> class Together(Plane):
    ...     def after_block(self, home):
    ...         def holds():
    ...             table = home.table
    ...             return bool((table.gone | (table.blocks >= home.blocks)).all())
    ...
    ...         came = yield Until(holds, seconds=1.0)
    """

    holds: Callable[[], bool]
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.holds):
            raise TypeError(
                f"Until takes a function that says whether it holds, as in Until(lambda: ...); got "
                f"{self.holds!r}."
            )
        if self.seconds is not None:
            ranges.not_negative(seconds=self.seconds)
