"""A call by ranks that share no memory: rank 0's report is everybody's.

A run whose workers have an order is one in step: every rank has all of it, and computes the blocks
of its own workers (`hogshare.runtimes.mpi.lockstep`). Else each rank solves its part
(`hogshare.runtimes.mpi.machines`): rows stay where they are, what labels stand for is announced to
all, and the report of rank 0 gets the workers of all.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hogshare.engine.stops import check_length
from hogshare.links.link import Link
from hogshare.links.run_links import Network
from hogshare.links.traffic import total
from hogshare.problems.linear.part import dealt
from hogshare.problems.protocol import has_rows
from hogshare.runtimes.joint_runtime import Making
from hogshare.runtimes.mpi.calls import Call
from hogshare.runtimes.mpi.leader import REPORT
from hogshare.runtimes.mpi.lockstep import HasNoOrder, Lockstep
from hogshare.runtimes.mpi.machines import Machines
from hogshare.runtimes.mpi.rank_pool import RankPool, give_back
from hogshare.runtimes.mpi.rank_seats import MachineRanks
from hogshare.runtimes.mpi.survivors import Survivors

LABELS, REPORTED, FILES, HELD_OUT = "labels", "reported", "files", "held out"


def call_across_sites(
    call: Call,
    here: MachineRanks,
    making: Making,
    rows: str,
    link: Link | None,
    survive: bool = False,
) -> Any:
    """Make a call by a machine of each rank; its report, the same on all.

    survive : whether it goes on without ranks that die

    Raises ValueError if the call asks for what needs shared memory, or an order of the workers.
    """
    network = None if link is None else Network(link=link)
    # of this call alone: what is collective and was broken off in another is not of it
    comm = RankPool(call.talk.comm, call.poll).copy_of_comm(call.agree)
    is_over, pool = False, Survivors(call, comm) if survive else RankPool(comm, call.poll)
    try:
        report = None
        if rows == "all":
            sites = Lockstep(comm, call.poll, here.workers, network, survive)
            report = in_step(call, here, making, sites)
        if report is None:
            report = by_parts(call, here, making, Machines(pool, here.workers, rows, network))
        is_over = True
    finally:
        give_back(comm, is_over and not pool.lost)
    report.settings["n_workers"] = here.n_workers
    report.settings["workers_of_ranks"] = list(here.workers)
    report.notes.append(f"ranks exchanged messages: {here.apart}")
    if isinstance(pool, Survivors):
        return pool.of_first(lambda: report)
    return call.spread(REPORT, report)


def in_step(call: Call, here: MachineRanks, making: Making, runtime: Lockstep) -> Any:
    """The report of a run in step; None if the workers of such a run have no order."""
    try:
        report = making.with_files(call.spread(FILES, making.files)).by(runtime, here.n_workers)
    except HasNoOrder:
        return None
    found = call.gather(REPORTED, report.traffic)
    if found is not None:
        report.traffic = total(found)
        ranks = np.repeat(np.arange(len(here.workers)), here.workers).tolist()
        for worker, rank in zip(report.workers, ranks, strict=True):
            worker["rank"] = rank
    return report


def by_parts(call: Call, here: MachineRanks, making: Making, runtime: Machines) -> Any:
    """The report of a run of which each rank has a part.

    Raises ValueError if the call asks for what needs shared memory.
    """
    making = making.with_files(call.spread(FILES, making.files))
    mask = making.validation
    found = call.spread(HELD_OUT, call.gather(HELD_OUT, mask is not None))
    if True in found and False in found:
        raise ValueError(
            f"Stop(validation=...) is given on rank {found.index(True)} and not on rank "
            f"{found.index(False)}: each has to mark its own rows, or none of them."
        )
    if runtime.rows == "shard":
        making = with_all_labels(call, making)
    elif mask is not None and has_rows(making.problem):
        mine = dealt(making.problem.n_rows, here.workers_of(call.talk.rank), here.n_workers)
        check_length(making.problem.n_rows, mask)
        making = making.of(making.problem, np.asarray(mask)[mine])
    report = making.by(runtime, here.workers[call.talk.rank])
    report.notes += runtime.notes
    shared = dataclasses.replace(report.model, memory=None)  # but for what is of a rank's own rows
    digest = hashlib.sha256(pickle.dumps(shared)).hexdigest()
    own = report.workers, report.traffic, report.staleness, report.turns, digest
    if runtime.survivors is not None:
        of_ranks: dict[int, Any] = runtime.survivors.together(own)
        report.notes += runtime.survivors.notes
        if lost := runtime.survivors.lost:
            report.settings["lost_ranks"] = sorted(lost)
    else:
        of_ranks = dict(enumerate(call.gather(REPORTED, own) or ()))
    if of_ranks:
        workers, traffic, staleness, turns, digests = zip(*of_ranks.values(), strict=True)
        if len(set(digests)) > 1:
            raise RuntimeError(
                "The ranks have come to different models, which is an error of hogshare: please "
                "report it with the call. None of the models is to be trusted."
            )
        begins = [here.workers_of(rank).start for rank in of_ranks]
        report.workers = numbered(dict(zip(of_ranks, workers, strict=True)), begins)
        report.traffic = total(traffic)
        report.staleness = sum(padded(staleness))
        report.turns = np.concatenate(padded(turns, axis=1))
    return report


def with_all_labels(call: Call, making: Making) -> Making:
    """The same call, of a problem that knows the labels of all ranks' rows.

    Raises ValueError if its rows are its own business.
    """
    shard = making.problem.shard()
    if shard is None:
        return making  # which is refused for what it is
    found = call.spread(LABELS, call.gather(LABELS, shard.facts))
    mine = found.pop(call.talk.rank)
    facts = [mine, *({**other, "rows": 0} for other in found)]
    return making.of(making.problem.united(facts, shard.arrays), making.validation)


def numbered(
    found: Mapping[int, Sequence[Mapping[str, Any]]], begins: Sequence[int]
) -> list[dict[str, Any]]:
    """The workers of ranks, which begin at these numbers, with their numbers among all."""
    return [
        {**worker, "worker": begin + k, "rank": rank}
        for (rank, workers), begin in zip(found.items(), begins, strict=True)
        for k, worker in enumerate(workers)
    ]


def padded(found: Sequence[np.ndarray], axis: int = 0) -> list[np.ndarray]:
    """Arrays as long as the longest one, by zeros at the end of an axis.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare.runtimes.mpi.site_call import padded
    >>> sum(padded([np.array([1]), np.array([2, 3])])).tolist()
    [3, 3]
    """
    most = max(one.shape[axis] for one in found)
    grown = []
    for one in found:
        pad = [(0, 0)] * one.ndim
        pad[axis] = (0, most - one.shape[axis])
        grown.append(np.pad(one, pad))
    return grown
