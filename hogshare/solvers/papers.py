"""The common parts of the papers' algorithms; each algorithm calls `solve` with given choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hogshare.engine.stops import Stop
from hogshare.report import Report
from hogshare.solvers.choice_names import stop_of
from hogshare.system import docstrings

Algorithm = TypeVar("Algorithm", bound=Callable[..., Report])

# sections added to the docstrings of all algorithms that do not have them
SAID = """
Parameters
----------
problem : LinearProblem or GradientProblem
    The problem to minimize.
*others
    Not accepted: pass all other arguments by name.
n_workers : int, default=-1
    Number of workers; -1 means all usable cores.
step : StepSize, float or str, default=None
    Step size; a number is a constant one.
epochs : int, default=10
    Number of passes over the rows.
stop : Stop, int or None, default=None
    Stopping criterion that replaces `epochs`.
**settings
    Further arguments of `hogshare.solve`: `barrier`, `runtime`, `trace`, `seed`, ...

Returns
-------
Report
"""


def algorithm(*parts: type) -> Callable[[Algorithm], Algorithm]:
    """Return a decorator that completes the docstring of one of the papers' algorithms.

    parts : classes of the algorithm's choices; their docstrings describe the parameters that the
        algorithm passes to them
    """
    described = [(part.__doc__ or "").partition("Notes\n")[0] for part in parts]

    def complete(function: Algorithm) -> Algorithm:
        docstrings.complete(function, [SAID, *described])
        return function

    return complete


def stop_after(epochs: int, stop: Any) -> Stop:
    """Return the given criterion or, if it is None, one that stops after a number of epochs."""
    return Stop(epochs=epochs) if stop is None else stop_of(stop)
