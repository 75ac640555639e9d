"""A virtual clock: how long blocks take, who waits for whom, and who sees whom.

Nothing here computes a gradient: `Simulator` describes a run that `hogshare.solve` carries out.
Names are imported when they are first used.

Examples
--------
>>> from hogshare import simulation
>>> law = simulation.LogNormal(mean=0.02, sigma=0.5)
>>> simulation.Simulator(block_time=law, seconds=10.0).block_time
LogNormal(mean=0.02, sigma=0.5)
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
    from hogshare.simulation.churn import Churn
    from hogshare.simulation.links import MODEL, Link, Network
    from hogshare.simulation.membership import Membership
    from hogshare.simulation.overlay import Drawn, Overlay, SizeEstimate, Window
    from hogshare.simulation.placement import Placement
    from hogshare.simulation.prediction import Prediction
    from hogshare.simulation.progressing import Progress, progress, slow
    from hogshare.simulation.simulator import SimulationError, Simulator
    from hogshare.simulation.tuning import Candidate, Tuned, tune

_PLACES = {
    "Candidate": "tuning",
    "Churn": "churn",
    "Constant": "blocktimes",
    "Drawn": "overlay",
    "Exponential": "blocktimes",
    "Gamma": "blocktimes",
    "Link": "links",
    "LogNormal": "blocktimes",
    "MODEL": "links",
    "Measured": "blocktimes",
    "Membership": "membership",
    "Network": "links",
    "Overlay": "overlay",
    "Placement": "placement",
    "Prediction": "prediction",
    "Progress": "progressing",
    "SimulationError": "simulator",
    "Simulator": "simulator",
    "SizeEstimate": "overlay",
    "Tuned": "tuning",
    "Uniform": "blocktimes",
    "Window": "overlay",
    "progress": "progressing",
    "slow": "progressing",
    "tune": "tuning",
}

__all__ = [
    "MODEL",
    "Candidate",
    "Churn",
    "Constant",
    "Drawn",
    "Exponential",
    "Gamma",
    "Link",
    "LogNormal",
    "Measured",
    "Membership",
    "Network",
    "Overlay",
    "Placement",
    "Prediction",
    "Progress",
    "SimulationError",
    "Simulator",
    "SizeEstimate",
    "Tuned",
    "Uniform",
    "Window",
    "progress",
    "slow",
    "tune",
]

__getattr__, __dir__ = lazy.names(__name__, _PLACES)
