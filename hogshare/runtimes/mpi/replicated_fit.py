"""A fit that every rank makes by itself, in step with the others: its calls of `solve` are joint.

For ranks that share no memory. All of the fit is one call (`hogshare.runtimes.mpi.calls`), with
what it asks of the rows of all, so that what one rank raises, wherever it is, ends it on all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from hogshare.links.link import Link
from hogshare.runtimes.joint_runtime import Joint, Led, Making
from hogshare.runtimes.mpi import agreement
from hogshare.runtimes.mpi.calls import Call
from hogshare.runtimes.mpi.leader import REPORT
from hogshare.runtimes.mpi.rank_seats import MachineRanks
from hogshare.runtimes.mpi.shard_union import alike
from hogshare.runtimes.mpi.site_call import call_across_sites

FOUND, SUMMED, SAME, CAME_OUT = "found", "summed", "same", "came out"


class ReplicatedFit(Joint):
    """The runtime of the estimator that a rank fits: the ranks of a call that all are in.

    rows : {"shard", "all"}, of a call of `solve`
    everybody : what the fit asks of the rows of all ranks (`hogshare.estimators.all_rows`)
    """

    name = "mpi"

    def __init__(self, call: Call, ranks: MachineRanks, link: Link | None) -> None:
        self.call, self.ranks, self.link = call, ranks, link
        self.rows = "all"
        self.everybody: Any = None

    def __deepcopy__(self, memo: Any) -> ReplicatedFit:
        return self

    def place(self) -> tuple[int, int]:
        """Which rank this is, and how many there are."""
        return self.call.talk.rank, self.call.talk.size

    def gathered(self, content: Any) -> list[Any]:
        """What all ranks have, in their order, on each: all have to ask."""
        found: list[Any] = self.call.spread(FOUND, self.call.gather(FOUND, content))
        return found

    def added(self, numbers: Any) -> Any:
        """The sum of the ranks' arrays, the same bits on each: all have to ask."""
        found = self.call.gather(SUMMED, numbers)
        return self.call.spread(SUMMED, None if found is None else sum(found[1:], found[0]))

    def require_alike(self, shard: Any) -> None:
        """See that all ranks have the same rows; raises RanksDiffer if they have not."""
        alike(self.call, self.ranks, shard)

    def make(self, making: Callable[[], Making]) -> Any:
        """Make a call of `solve` with the other ranks, whose fits have come as far."""
        asked = making()
        problem = agreement.of_problem(asked.problem, whole=self.rows == "all")
        words = {k: agreement.described(v) for k, v in asked.said().items() if k != "n_workers"}
        found = self.call.gather(SAME, words | problem)
        if found is not None and (sentence := agreement.difference(found)):
            raise agreement.RanksDiffer(sentence)
        report = call_across_sites(self.call, self.ranks, asked, self.rows, self.link)
        # of the rows of rank 0, where those are not all, and the next run may deal them otherwise
        return dataclasses.replace(report, model=dataclasses.replace(report.model, memory=None))


def make_on_every_rank(
    call: Call, ranks: MachineRanks, led: Led, rows: str, link: Link | None
) -> Any:
    """Have every rank make something by itself; what has come of it, that of rank 0 for all.

    Raises RuntimeError if the ranks do not come to the same.
    """
    made, words = led.along(ReplicatedFit(call, ranks, link), rows == "all")
    found = call.gather(
        CAME_OUT, {name: agreement.described(value) for name, value in words.items()}
    )
    if found is not None and (sentence := agreement.difference(found)):
        raise RuntimeError(
            "The ranks have come to different models, which is an error of hogshare: please "
            f"report it with the call ({sentence}). None of the models is to be trusted."
        )
    return call.spread(REPORT, made)
