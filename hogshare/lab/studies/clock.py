"""The virtual clock for the measurement of speedups."""

from __future__ import annotations

from hogshare.links.run_links import Network, message_bytes
from hogshare.problems.protocol import Problem
from hogshare.simulation import block_times
from hogshare.simulation.simulator import Simulator

LAW = "lognormal:1,0.2"
SHARE = 0.02  # share of the mean block time for reading, and the same for writing


def virtual(
    problem: Problem, law: str, ceiling: float | None, by_messages: bool, seed: int
) -> Simulator:
    """Make a simulator with drawn block times, and short times for reading and writing.

    law : law of the block times, as parsed by `hogshare.simulation.block_times.parse`
    ceiling : number of workers that fill the links at the model's home; None: no limit
    by_messages : whether changes are sent to a master, so that writing takes no time; if False,
        workers write their changes
    """
    block_time = block_times.parse(law)
    size = problem.dtype.itemsize * problem.n_features
    per_block = 2 * message_bytes(size, problem.n_columns)
    network = Network()
    if ceiling is not None:
        network = Network(ceiling=ceiling * per_block / block_time.mean)
    return Simulator(
        block_time=block_time,
        read_seconds=SHARE * block_time.mean,
        write_seconds=0.0 if by_messages else SHARE * block_time.mean,
        network=network,
        seed=seed,
    )
