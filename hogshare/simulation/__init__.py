"""A virtual clock: how long blocks take, who waits for whom, and who sees whom.

Nothing here computes a gradient: `Simulator` describes a run that `hogshare.solve` carries out, and
`progress` runs clocks and barriers alone (`hogshare.lab.psp`). Names are imported when they are
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

from hogshare.system import lazy

if TYPE_CHECKING:
    from hogshare.lab.prediction.prediction import Prediction
    from hogshare.lab.psp.progressing import Progress, progress, slow
    from hogshare.lab.psp.tuning import Candidate, Tuned, tune
    from hogshare.links.link import Link
    from hogshare.links.network import MODEL, Network
    from hogshare.simulation.blocktimes import (
        Constant,
        Exponential,
        Gamma,
        LogNormal,
        Measured,
        Uniform,
    )
    from hogshare.simulation.churn import Churn
    from hogshare.simulation.membership import Membership
    from hogshare.simulation.overlay import Drawn, Overlay, SizeEstimate, Window
    from hogshare.simulation.placement import Placement
    from hogshare.simulation.simulator import SimulationError, Simulator

_PLACES = {
    "Candidate": "lab.psp.tuning",
    "Churn": "simulation.churn",
    "Constant": "simulation.blocktimes",
    "Drawn": "simulation.overlay",
    "Exponential": "simulation.blocktimes",
    "Gamma": "simulation.blocktimes",
    "Link": "links.link",
    "LogNormal": "simulation.blocktimes",
    "MODEL": "links.network",
    "Measured": "simulation.blocktimes",
    "Membership": "simulation.membership",
    "Network": "links.network",
    "Overlay": "simulation.overlay",
    "Placement": "simulation.placement",
    "Prediction": "lab.prediction.prediction",
    "Progress": "lab.psp.progressing",
    "SimulationError": "simulation.simulator",
    "Simulator": "simulation.simulator",
    "SizeEstimate": "simulation.overlay",
    "Tuned": "lab.psp.tuning",
    "Uniform": "simulation.blocktimes",
    "Window": "simulation.overlay",
    "progress": "lab.psp.progressing",
    "slow": "lab.psp.progressing",
    "tune": "lab.psp.tuning",
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
