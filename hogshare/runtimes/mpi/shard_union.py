"""The union of all ranks' shards: an arena that is written once, and that all ranks read.

Writers: the leader creates the arena, with the sizes that all ranks report. Each rank writes its
own part. Readers: all ranks, after each rank has confirmed that its part is written. Freeing: no
rank frees the memory; the system releases it when no rank has an array of it left.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hogshare.problems.fingerprints import digits
from hogshare.problems.shard import Shard
from hogshare.runtimes.joint_runtime import Making
from hogshare.runtimes.mpi.agreement import RanksDiffer
from hogshare.runtimes.mpi.calls import Call
from hogshare.runtimes.mpi.rank_seats import MachineRanks, accept, offer
from hogshare.shm.arena import Arena
from hogshare.system.callers import users_line

SHARD, MEMORY, WRITTEN = "shard", "memory", "written"
HELD_OUT = "held out"  # the name of the mask of held-out rows among a shard's arrays


def united(call: Call, machine: MachineRanks, making: Making) -> Making:
    """Return the same call for the union of all ranks' shards; all ranks must call it.

    Raises ValueError if the problem has no shards, or if shards do not fit together.
    """
    problem = making.problem
    shard = problem.shard()
    if shard is None:
        raise ValueError(
            f"The rows of {problem.facts().get('gradient', 'this problem')} are opaque, and the "
            "shards of several ranks cannot be concatenated: give every rank the whole problem, "
            "with runtime=MPI(rows='all')."
        )
    if making.validation is not None:
        shard = replace(shard, arrays={**shard.arrays, HELD_OUT: np.asarray(making.validation)})
    facts, arrays = whole(call, machine, shard)
    held_out = arrays.pop(HELD_OUT, None)
    return making.of(problem.united(facts, arrays), held_out)


def whole(
    call: Call, machine: MachineRanks, shard: Shard
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return all shards' facts, by rank, and their concatenated arrays, as read-only views."""
    sizes = {name: (len(one), one.shape[1:], one.dtype.str) for name, one in shard.arrays.items()}
    mine = {"facts": shard.facts, "sizes": sizes, "digits": digits(*shard.arrays.values())}
    shards: list[dict[str, Any]] = call.spread(SHARD, call.gather(SHARD, mine))
    if all(one["digits"] == shards[0]["digits"] for one in shards) and _n_rows(sizes):
        warnings.warn(
            f"All {len(shards)} ranks have the same rows, and with rows='shard' each row counts "
            f"{len(shards)} times: give every rank a part, as hogshare.shard(X, y) does, or use "
            "runtime=MPI(rows='all').",
            UserWarning,
            stacklevel=users_line(),
        )
    layout = laid_out([one["sizes"] for one in shards])
    arena = Arena.create(layout) if call.talk.rank == machine.leader else None
    offered = call.spread(MEMORY, None if arena is None else offer(arena))
    arena = arena or accept(offered)
    for name, part in shard.arrays.items():
        before = shards[: call.talk.rank]
        first = sum(one["sizes"][name][0] for one in before if name in one["sizes"])
        arena[name][first : first + len(part)] = part
    call.agree(WRITTEN)
    arrays = {name: arena[name] for name in layout}
    for array in arrays.values():
        array.flags.writeable = False
    return [one["facts"] for one in shards], arrays


def alike(
    call: Call, machine: MachineRanks, shard: Shard
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return this rank's facts and arrays, which must be the same on all ranks.

    All ranks must call this. Raises RanksDiffer if the facts or arrays differ.
    """
    mine = digits(*shard.arrays.values())
    shards = call.spread(SHARD, call.gather(SHARD, mine))
    other = next((rank for rank, one in enumerate(shards) if one != shards[0]), None)
    if other is not None:
        raise RanksDiffer(
            f"the rows of rank {other} are not those of rank 0, but MPI(rows='all') needs the same "
            "rows on all ranks: use rows='shard' if each rank has rows of its own."
        )
    return [shard.facts], shard.arrays


def laid_out(sizes: Sequence[Mapping[str, Any]]) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Return shape and dtype of each array of the union; raise ValueError if shards do not fit."""
    found: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
    for name in dict.fromkeys(name for one in sizes for name in one):
        parts = {rank: one[name] for rank, one in enumerate(sizes) if name in one}
        full = {rank: part for rank, part in parts.items() if part[0]} or parts
        at, (_, shape, _) = next(iter(full.items()))
        for rank, (_, other, _) in full.items():
            if other != shape:
                raise ValueError(
                    f"the shards do not fit: a row of {name!r} has the shape {shape} on rank {at}, "
                    f"and {other} on rank {rank}; give all ranks rows of one shape."
                )
        # ignore empty parts: their dtype is arbitrary, and must not change the dtype of labels
        kind = np.result_type(*(np.dtype(dtype) for _, _, dtype in full.values()))
        found[name] = ((sum(count for count, _, _ in parts.values()), *shape), kind)
    return found


def _n_rows(sizes: Mapping[str, Any]) -> int:
    return max((count for count, _, _ in sizes.values()), default=0)
