"""A fit that every rank makes itself, in step with other ranks: its calls of `solve` are joint.

This is for ranks without shared memory. The whole fit, with its exchanges about all rows, is one
call (`hogshare.runtimes.mpi.calls`). So an error of one rank, at any point, ends the fit on all
ranks.
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
    """The runtime of the estimator that a rank fits, within a call of all ranks.

    rows : {"shard", "all"}; the rows of each rank in a call of `solve`: its own rows, or all rows
    everybody : the fit's exchange about all ranks' rows (`hogshare.estimators.all_rows`)
    """

    name = "mpi"

    def __init__(self, call: Call, ranks: MachineRanks, link: Link | None) -> None:
        self.call, self.ranks, self.link = call, ranks, link
        self.rows = "all"
        self.everybody: Any = None

    def __deepcopy__(self, memo: Any) -> ReplicatedFit:
        return self

    def place(self) -> tuple[int, int]:
        """Return this rank, and the number of ranks."""
        return self.call.talk.rank, self.call.talk.size

    def gathered(self, content: Any) -> list[Any]:
        """Return all ranks' content, in the order of ranks; all ranks must call it."""
        found: list[Any] = self.call.spread(FOUND, self.call.gather(FOUND, content))
        return found

    def added(self, numbers: Any) -> Any:
        """Return the sum of all ranks' arrays, with the same bits on each (collective)."""
        found = self.call.gather(SUMMED, numbers)
        return self.call.spread(SUMMED, None if found is None else sum(found[1:], found[0]))

    def require_alike(self, shard: Any) -> None:
        """Raise RanksDiffer unless all ranks have the same rows."""
        alike(self.call, self.ranks, shard)

    def make(self, making: Callable[[], Making]) -> Any:
        """Make a call of `solve` with the other ranks, whose fits make the same call."""
        asked = making()
        problem = agreement.of_problem(asked.problem, whole=self.rows == "all")
        words = {k: agreement.described(v) for k, v in asked.said().items() if k != "n_workers"}
        found = self.call.gather(SAME, words | problem)
        if found is not None and (sentence := agreement.difference(found)):
            raise agreement.RanksDiffer(sentence)
        report = call_across_sites(self.call, self.ranks, asked, self.rows, self.link)
        # memory has rank 0's rows only, and the next run may deal rows to ranks in another way
        return dataclasses.replace(report, model=dataclasses.replace(report.model, memory=None))


def make_on_every_rank(
    call: Call, ranks: MachineRanks, led: Led, rows: str, link: Link | None
) -> Any:
    """Make the same fit on every rank; return rank 0's result on each. All ranks must call it.

    rows : {"shard", "all"}; the rows of each rank: its own rows, or all rows
    link : an emulated link between ranks, or None

    Raises RuntimeError if the ranks' results differ.
    """
    made, words = led.along(ReplicatedFit(call, ranks, link), rows == "all")
    found = call.gather(
        CAME_OUT, {name: agreement.described(value) for name, value in words.items()}
    )
    if found is not None and (sentence := agreement.difference(found)):
        raise RuntimeError(
            "The ranks have come to different models, which is an error of hogshare: do not use "
            f"any of them, and please report the error with the call ({sentence})."
        )
    return call.spread(REPORT, made)
