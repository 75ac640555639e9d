"""A virtual clock: the times of blocks, waits at barriers, and the members that workers know.

This package computes no gradients. `Simulator` describes a run for `hogshare.solve`. `progress`
runs only clocks and barriers, without a model (`hogshare.lab.psp`). Names are imported on first
use.

Examples
--------
>>> from hogshare import simulation
>>> law = simulation.LogNormal(mean=0.02, sigma=0.5)
>>> simulation.Simulator(block_time=law, seconds=10.0).block_time
LogNormal(mean=0.02, sigma=0.5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hogshare.system import lazy_imports

if TYPE_CHECKING:
    from hogshare.lab.prediction.prediction import Prediction as Prediction
    from hogshare.lab.psp.progress import Progress as Progress
    from hogshare.lab.psp.progress import progress as progress
    from hogshare.lab.psp.progress import slow as slow
    from hogshare.lab.psp.tuner import Candidate as Candidate
    from hogshare.lab.psp.tuner import Tuned as Tuned
    from hogshare.lab.psp.tuner import tune as tune
    from hogshare.links.link import Link as Link
    from hogshare.links.run_links import Network as Network
    from hogshare.links.traffic import MODEL as MODEL
    from hogshare.simulation.block_times import Constant as Constant
    from hogshare.simulation.block_times import Exponential as Exponential
    from hogshare.simulation.block_times import Gamma as Gamma
    from hogshare.simulation.block_times import LogNormal as LogNormal
    from hogshare.simulation.block_times import Measured as Measured
    from hogshare.simulation.block_times import Uniform as Uniform
    from hogshare.simulation.churn import Churn as Churn
    from hogshare.simulation.membership import Membership as Membership
    from hogshare.simulation.overlay import Drawn as Drawn
    from hogshare.simulation.overlay import Overlay as Overlay
    from hogshare.simulation.overlay import SizeEstimate as SizeEstimate
    from hogshare.simulation.overlay import Window as Window
    from hogshare.simulation.placement import Placement as Placement
    from hogshare.simulation.simulator import SimulationError as SimulationError
    from hogshare.simulation.simulator import Simulator as Simulator

__getattr__, __dir__, __all__ = lazy_imports.names(
    __name__,
    {
        "lab.prediction.prediction": "Prediction",
        "lab.psp.progress": "Progress progress slow",
        "lab.psp.tuner": "Candidate Tuned tune",
        "links.link": "Link",
        "links.run_links": "Network",
        "links.traffic": "MODEL",
        "simulation.block_times": "Constant Exponential Gamma LogNormal Measured Uniform",
        "simulation.churn": "Churn",
        "simulation.membership": "Membership",
        "simulation.overlay": "Drawn Overlay SizeEstimate Window",
        "simulation.placement": "Placement",
        "simulation.simulator": "SimulationError Simulator",
    },
    within="hogshare",
)
