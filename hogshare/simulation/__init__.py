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
    from hogshare.lab.prediction.prediction import Prediction as Prediction
    from hogshare.lab.psp.progressing import Progress as Progress
    from hogshare.lab.psp.progressing import progress as progress
    from hogshare.lab.psp.progressing import slow as slow
    from hogshare.lab.psp.tuning import Candidate as Candidate
    from hogshare.lab.psp.tuning import Tuned as Tuned
    from hogshare.lab.psp.tuning import tune as tune
    from hogshare.links.link import Link as Link
    from hogshare.links.network import Network as Network
    from hogshare.links.traffic import MODEL as MODEL
    from hogshare.simulation.blocktimes import Constant as Constant
    from hogshare.simulation.blocktimes import Exponential as Exponential
    from hogshare.simulation.blocktimes import Gamma as Gamma
    from hogshare.simulation.blocktimes import LogNormal as LogNormal
    from hogshare.simulation.blocktimes import Measured as Measured
    from hogshare.simulation.blocktimes import Uniform as Uniform
    from hogshare.simulation.churn import Churn as Churn
    from hogshare.simulation.membership import Membership as Membership
    from hogshare.simulation.overlay import Drawn as Drawn
    from hogshare.simulation.overlay import Overlay as Overlay
    from hogshare.simulation.overlay import SizeEstimate as SizeEstimate
    from hogshare.simulation.overlay import Window as Window
    from hogshare.simulation.placement import Placement as Placement
    from hogshare.simulation.simulator import SimulationError as SimulationError
    from hogshare.simulation.simulator import Simulator as Simulator

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "lab.prediction.prediction": "Prediction",
        "lab.psp.progressing": "Progress progress slow",
        "lab.psp.tuning": "Candidate Tuned tune",
        "links.link": "Link",
        "links.network": "Network",
        "links.traffic": "MODEL",
        "simulation.blocktimes": "Constant Exponential Gamma LogNormal Measured Uniform",
        "simulation.churn": "Churn",
        "simulation.membership": "Membership",
        "simulation.overlay": "Drawn Overlay SizeEstimate Window",
        "simulation.placement": "Placement",
        "simulation.simulator": "SimulationError Simulator",
    },
    within="hogshare",
)
