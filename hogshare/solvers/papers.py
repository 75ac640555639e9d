"""What the papers' algorithms have in common, each of which is a composition of `solve`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hogshare.engine.stops import Stop
from hogshare.report import Report
from hogshare.solvers.choice_names import stop_of
from hogshare.system import docstrings

Algorithm = TypeVar("Algorithm", bound=Callable[..., Report])

# what the docstrings of all of them say, where they do not say otherwise
SAID = """
Parameters
----------
problem : LinearProblem or GradientProblem
    What to minimise.
*others
    Nothing: all other arguments are named.
n_workers : int, default=-1
    Workers; -1 means all usable cores.
step : StepSize, float or str, default=None
    Step size; a number is a constant one.
epochs : int, default=10
    Passes over the rows.
stop : Stop, int or None, default=None
    Another criterion than the number of epochs, which is then its own.
**settings
    Further arguments of `hogshare.solve`: `barrier`, `runtime`, `trace`, `seed`, ...

Returns
-------
Report
"""


def algorithm(*parts: type) -> Callable[[Algorithm], Algorithm]:
    """Make a function one of the papers' algorithms, whose docstring says what all of them do.

    parts : classes of its choices, which describe the parameters that it hands on to them
    """
    described = [(part.__doc__ or "").partition("Notes\n")[0] for part in parts]

    def complete(function: Algorithm) -> Algorithm:
        docstrings.complete(function, [SAID, *described])
        return function

    return complete


def stop_after(epochs: int, stop: Any) -> Stop:
    """A criterion of its own, or so many epochs."""
    return Stop(epochs=epochs) if stop is None else stop_of(stop)
