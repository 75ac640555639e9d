"""The condition that a custom plane yields to wait for other workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hogshare.system import ranges


@dataclass(frozen=True)
class Until:
    """Wait until a condition is true.

    A plane's `after_block` yields an `Until`. The yield returns True once the condition is true, or
    False if `seconds` have passed first. Meanwhile, all workers that do not wait for a condition of
    their own go on. If the run is aborted, the worker leaves at the yield, and the code after the
    yield does not run.

    Parameters
    ----------
    holds : callable
        Function ``holds() -> bool``, a condition on other workers. It may be called any number of
        times, and must not change anything.
    seconds : float or None, default=None
        The longest time to wait, in virtual seconds if the runtime is a `Simulator`. None: no
        limit.

    Examples
    --------
    Wait at most a second for all workers that can still complete this block:

    >>> import numpy as np
    >>> from hogshare import Plane, Until
    >>> class Together(Plane):
    ...     def after_block(self, home):
    ...         def holds():
    ...             table = home.table
    ...             return bool((table.gone | (table.clock >= home.clock)).all())
    ...
    ...         came = yield Until(holds, seconds=1.0)
    """

    holds: Callable[[], bool]
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.holds):
            raise TypeError(
                "Until(holds=) must be a function without arguments that returns a bool, as in "
                f"Until(lambda: ...); got {self.holds!r}."
            )
        if self.seconds is not None:
            ranges.not_negative(seconds=self.seconds)
