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
    from hogshare.simulation.progressing import Progress, progress, slow

_PLACES = {
    "Constant": "blocktimes",
    "Exponential": "blocktimes",
    "Gamma": "blocktimes",
    "LogNormal": "blocktimes",
    "Measured": "blocktimes",
    "Progress": "progressing",
    "Uniform": "blocktimes",
    "progress": "progressing",
    "slow": "progressing",
}

__all__ = [
    "Constant",
    "Exponential",
    "Gamma",
    "LogNormal",
    "Measured",
    "Progress",
    "Uniform",
    "progress",
    "slow",
]

__getattr__, __dir__ = lazy.names(__name__, _PLACES)
