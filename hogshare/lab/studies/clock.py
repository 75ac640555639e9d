"""The virtual clock that speedups are measured on."""

from __future__ import annotations

from hogshare.links.run_links import Network, message_bytes
from hogshare.problems.protocol import Problem
from hogshare.simulation import block_times
from hogshare.simulation.simulator import Simulator

LAW = "lognormal:1,0.2"
SHARE = 0.02  # of the mean block time, that reading takes, and writing


def virtual(
    problem: Problem, law: str, ceiling: float | None, by_messages: bool, seed: int
) -> Simulator:
    """A simulator whose blocks take what a law says, and reading and writing a little.

    law : block time, as `hogshare.simulation.block_times.parse` reads it
    ceiling : workers that keep the model's end of the links busy all the time; None: no number does
    by_messages : whether changes are sent to a master, who takes no time for them, and not written
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
