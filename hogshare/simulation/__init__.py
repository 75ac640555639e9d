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
    from hogshare.simulation.progressing import Progress, progress, slow
    from hogshare.simulation.simulator import SimulationError, Simulator

_PLACES = {
    "Churn": "churn",
    "Constant": "blocktimes",
    "Exponential": "blocktimes",
    "Gamma": "blocktimes",
    "Link": "links",
    "LogNormal": "blocktimes",
    "MODEL": "links",
    "Measured": "blocktimes",
    "Network": "links",
    "SimulationError": "simulator",
    "Simulator": "simulator",
    "Progress": "progressing",
    "Uniform": "blocktimes",
    "progress": "progressing",
    "slow": "progressing",
}

__all__ = [
    "MODEL",
    "Churn",
    "Constant",
    "Exponential",
    "Gamma",
    "Link",
    "LogNormal",
    "Measured",
    "Network",
    "Progress",
    "SimulationError",
    "Simulator",
    "Uniform",
    "progress",
    "slow",
]

__getattr__, __dir__ = lazy.names(__name__, _PLACES)
