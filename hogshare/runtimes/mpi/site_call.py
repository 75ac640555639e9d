"""A call by ranks without shared memory: all ranks return the report of rank 0.

If a run's workers have an order, ranks run in step: every rank has the whole run, and computes the
blocks of its own workers (`hogshare.runtimes.mpi.lockstep`). If the workers have no order, each
rank solves its part (`hogshare.runtimes.mpi.machines`). Rows then stay on their rank, all ranks get
all labels, and the report of rank 0 contains the workers of all ranks.
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
    ranks: MachineRanks,
    making: Making,
    rows: str,
    link: Link | None,
    survive: bool = False,
) -> Any:
    """Make a call in which each rank is a machine; return its report, the same on all ranks.

    All ranks must call this.

    survive : whether the call continues without dead ranks

    Raises ValueError if the call needs shared memory, or needs an order that its workers lack.
    """
    network = None if link is None else Network(link=link)
    # a communicator for this call only: collectives that another call aborted must not match
    comm = RankPool(call.talk.comm, call.poll).copy_of_comm(call.agree)
    is_over, pool = False, Survivors(call, comm) if survive else RankPool(comm, call.poll)
    try:
        report = None
        if rows == "all":
            sites = Lockstep(comm, call.poll, ranks.workers, network, survive)
            report = in_step(call, ranks, making, sites)
        if report is None:
            report = by_parts(call, ranks, making, Machines(pool, ranks.workers, rows, network))
        is_over = True
    finally:
        give_back(comm, is_over and not pool.lost)
    report.settings["n_workers"] = ranks.n_workers
    report.settings["workers_of_ranks"] = list(ranks.workers)
    report.notes.append(f"ranks exchanged messages: {ranks.separation}")
    if isinstance(pool, Survivors):
        return pool.of_first(lambda: report)
    return call.spread(REPORT, report)


def in_step(call: Call, ranks: MachineRanks, making: Making, runtime: Lockstep) -> Any:
    """Return the report of a run in step; None if its workers have no order."""
    try:
        report = making.with_files(call.spread(FILES, making.files)).by(runtime, ranks.n_workers)
    except HasNoOrder:
        return None
    found = call.gather(REPORTED, report.traffic)
    if found is not None:
        report.traffic = total(found)
        rank_of = np.repeat(np.arange(len(ranks.workers)), ranks.workers).tolist()
        for worker, rank in zip(report.workers, rank_of, strict=True):
            worker["rank"] = rank
    return report


def by_parts(call: Call, ranks: MachineRanks, making: Making, runtime: Machines) -> Any:
    """Return the report of a run in which each rank has a part of the rows.

    All ranks must call this. Raises ValueError if the call needs shared memory.
    """
    making = making.with_files(call.spread(FILES, making.files))
    mask = making.validation
    found = call.spread(HELD_OUT, call.gather(HELD_OUT, mask is not None))
    if True in found and False in found:
        raise ValueError(
            f"Stop(validation=...) is given on rank {found.index(True)} and not on rank "
            f"{found.index(False)}: give it on all ranks, each with its own rows, or on none."
        )
    if runtime.rows == "shard":
        making = with_all_labels(call, making)
    elif mask is not None and has_rows(making.problem):
        mine = dealt(making.problem.n_rows, ranks.workers_of(call.talk.rank), ranks.n_workers)
        check_length(making.problem.n_rows, mask)
        making = making.of(making.problem, np.asarray(mask)[mine])
    report = making.by(runtime, ranks.workers[call.talk.rank])
    report.notes += runtime.notes
    shared = dataclasses.replace(report.model, memory=None)  # memory has a rank's own rows
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
                "The ranks have come to different models, which is an error of hogshare: do not "
                "use any of them, and please report the error with the call."
            )
        begins = [ranks.workers_of(rank).start for rank in of_ranks]
        report.workers = numbered(dict(zip(of_ranks, workers, strict=True)), begins)
        report.traffic = total(traffic)
        report.staleness = sum(padded(staleness))
        report.turns = np.concatenate(padded(turns, axis=1))
    return report


def with_all_labels(call: Call, making: Making) -> Making:
    """Return the same call, for a problem with the labels of all ranks' rows (collective).

    Raises ValueError if the ranks' labels do not fit together.
    """
    shard = making.problem.shard()
    if shard is None:
        return making  # the runtime refuses it later, with its own message
    found = call.spread(LABELS, call.gather(LABELS, shard.facts))
    mine = found.pop(call.talk.rank)
    facts = [mine, *({**other, "rows": 0} for other in found)]
    return making.of(making.problem.united(facts, shard.arrays), making.validation)


def numbered(
    found: Mapping[int, Sequence[Mapping[str, Any]]], begins: Sequence[int]
) -> list[dict[str, Any]]:
    """Return all ranks' workers with their numbers in the run; a rank's start at its `begins`."""
    return [
        {**worker, "worker": begin + k, "rank": rank}
        for (rank, workers), begin in zip(found.items(), begins, strict=True)
        for k, worker in enumerate(workers)
    ]


def padded(found: Sequence[np.ndarray], axis: int = 0) -> list[np.ndarray]:
    """Return copies of arrays, with zeros appended along an axis to reach the longest length.

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
