"""A virtual clock: how long blocks take, who waits for whom, and who sees whom.

Nothing here computes a gradient. Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hogshare import lazy

if TYPE_CHECKING:
    from hogshare.simulation.blocktimes import (
        Constant,
        Exponential,
        Gamma,
        LogNormal,
        Measured,
        Uniform,
    )

_PLACES = {
    "Constant": "blocktimes",
    "Exponential": "blocktimes",
    "Gamma": "blocktimes",
    "LogNormal": "blocktimes",
    "Measured": "blocktimes",
    "Uniform": "blocktimes",
}

__all__ = [
    "Constant",
    "Exponential",
    "Gamma",
    "LogNormal",
    "Measured",
    "Uniform",
]

__getattr__, __dir__ = lazy.names(__name__, _PLACES)
