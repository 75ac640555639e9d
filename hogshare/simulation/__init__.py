"""A virtual clock: how long blocks take, who waits for whom, and who sees whom.

Nothing here computes a gradient: `Simulator` describes a run that `hogshare.solve` carries out, and
`progress` runs clocks and barriers alone (`hogshare.clockwork`). Names are imported when they are
first used.

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
    from hogshare.clockwork.blocktimes import (
        Constant,
        Exponential,
        Gamma,
        LogNormal,
        Measured,
        Uniform,
    )
    from hogshare.clockwork.churn import Churn
    from hogshare.clockwork.membership import Membership
    from hogshare.clockwork.overlay import Drawn, Overlay, SizeEstimate, Window
    from hogshare.clockwork.placement import Placement
    from hogshare.clockwork.progressing import Progress, progress, slow
    from hogshare.clockwork.tuning import Candidate, Tuned, tune
    from hogshare.links.link import Link
    from hogshare.prediction.prediction import Prediction
    from hogshare.simulation.network import MODEL, Network
    from hogshare.simulation.simulator import SimulationError, Simulator

_PLACES = {
    "Candidate": "clockwork.tuning",
    "Churn": "clockwork.churn",
    "Constant": "clockwork.blocktimes",
    "Drawn": "clockwork.overlay",
    "Exponential": "clockwork.blocktimes",
    "Gamma": "clockwork.blocktimes",
    "Link": "links.link",
    "LogNormal": "clockwork.blocktimes",
    "MODEL": "simulation.network",
    "Measured": "clockwork.blocktimes",
    "Membership": "clockwork.membership",
    "Network": "simulation.network",
    "Overlay": "clockwork.overlay",
    "Placement": "clockwork.placement",
    "Prediction": "prediction.prediction",
    "Progress": "clockwork.progressing",
    "SimulationError": "simulation.simulator",
    "Simulator": "simulation.simulator",
    "SizeEstimate": "clockwork.overlay",
    "Tuned": "clockwork.tuning",
    "Uniform": "clockwork.blocktimes",
    "Window": "clockwork.overlay",
    "progress": "clockwork.progressing",
    "slow": "clockwork.progressing",
    "tune": "clockwork.tuning",
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

__getattr__, __dir__ = lazy.names(__name__, _PLACES, within="hogshare")
