"""``hogshare bench``: measurements that a user can repeat, each in its own file.

To add a measurement, write a file with an `Experiment` of `hogshare.lab.harness.experiment`, and
add the file's name below.
"""

from __future__ import annotations

from typing import Any

from hogshare.lab.experiments.barriers import BARRIERS
from hogshare.lab.experiments.centres import CENTRES
from hogshare.lab.experiments.planes import PLANES
from hogshare.lab.experiments.ranks import RANKS
from hogshare.lab.experiments.reduce import REDUCE
from hogshare.lab.experiments.rivals import RIVALS
from hogshare.lab.experiments.speedup import SPEEDUP
from hogshare.lab.experiments.tasks import TASKS

EXPERIMENTS = (SPEEDUP, BARRIERS, PLANES, REDUCE, CENTRES, TASKS, RANKS, RIVALS)


def add_parser(commands: Any) -> None:
    """Add the command and its measurements to the parser."""
    parser = commands.add_parser("bench", help="measure speedups, race against other libraries")
    kinds = parser.add_subparsers(title="measurements", metavar="WHAT", required=True)
    for experiment in EXPERIMENTS:
        experiment.add_to(kinds)
