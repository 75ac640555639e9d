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
    from hogshare.simulation.membership import Membership
    from hogshare.simulation.overlay import Drawn, Overlay, SizeEstimate, Window
    from hogshare.simulation.placement import Placement
    from hogshare.simulation.progressing import Progress, progress, slow
    from hogshare.simulation.tuning import Candidate, Tuned, tune

_PLACES = {
    "Candidate": "tuning",
    "Constant": "blocktimes",
    "Drawn": "overlay",
    "Exponential": "blocktimes",
    "Gamma": "blocktimes",
    "LogNormal": "blocktimes",
    "Measured": "blocktimes",
    "Membership": "membership",
    "Overlay": "overlay",
    "Placement": "placement",
    "Progress": "progressing",
    "SizeEstimate": "overlay",
    "Tuned": "tuning",
    "Uniform": "blocktimes",
    "Window": "overlay",
    "progress": "progressing",
    "slow": "progressing",
    "tune": "tuning",
}

__all__ = [
    "Candidate",
    "Constant",
    "Drawn",
    "Exponential",
    "Gamma",
    "LogNormal",
    "Measured",
    "Membership",
    "Overlay",
    "Placement",
    "Progress",
    "SizeEstimate",
    "Tuned",
    "Uniform",
    "Window",
    "progress",
    "slow",
    "tune",
]

__getattr__, __dir__ = lazy.names(__name__, _PLACES)
