"""The assignment of rows to the lanes and rounds of an epoch.

A lane is one thread of a worker. If the number of quanta in progress must be smaller than the
number of workers, a lane consists of several workers that take quanta one after another. In each
round every lane takes one quantum, which is some of the rows of one of its workers. All lanes begin
a round at the same model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Span = tuple[int, int, int]  # a partition, its first row in the span, and the row after the last


class Share(NamedTuple):
    """One lane's rows of a worker's partitions.

    address : address of the worker
    partitions : numbers of the worker's partitions
    number : number of the lane among the worker's lanes
    n_lanes : number of the worker's lanes
    """

    address: str
    partitions: list[int]
    number: int = 0
    n_lanes: int = 1


Lane = list[Share]


class Quantum(NamedTuple):
    """A lane's rows in a round, and the worker that has these rows.

    lane : number of the lane
    address : address of the worker
    spans : spans of the partitions, one after another; no span is empty
    """

    lane: int
    address: str
    spans: tuple[Span, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows of the quantum."""
        return sum(last - first for _, first, last in self.spans)


def lanes_of(partitions: dict[str, list[int]], threads: dict[str, int], most: int) -> list[Lane]:
    """Return each lane's rows: all rows of some workers, or some rows of one worker.

    partitions : partitions of each worker, in the order of this epoch
    threads : number of threads of each worker; 1 if missing
    most : largest number of lanes
    """
    addresses = sorted(partitions)
    if most < len(addresses):
        return [
            [Share(address, partitions[address]) for address in addresses[k::most]]
            for k in range(most)
        ]
    spare, lanes = most - len(addresses), []
    for address in addresses:
        n_lanes = 1 + min(max(1, threads.get(address, 1)) - 1, spare)
        spare -= n_lanes - 1
        lanes += [[Share(address, partitions[address], k, n_lanes)] for k in range(n_lanes)]
    return lanes


def rounds_of(
    lanes: list[Lane], sizes: np.ndarray, per_worker: int, is_mixed: bool
) -> list[list[Quantum]]:
    """Return the quanta of each round of an epoch; each row is in exactly one quantum.

    sizes : number of rows of each partition
    per_worker : number of rounds in which a lane covers its rows of a worker
    is_mixed : if True, a quantum takes some rows of each partition of a worker, and a lane visits
        its workers repeatedly; if False, a quantum takes rows of one partition after another, and a
        lane finishes a worker's rows before the next worker's
    """
    rounds: list[list[Quantum]] = []
    for number, lane in enumerate(lanes):
        steps = [(share, k) for share in lane for k in range(per_worker)]
        if is_mixed:
            steps.sort(key=lambda step: step[1])  # stable: a worker's quanta stay in order
        taken = 0
        for share, k in steps:
            piece = k * share.n_lanes + share.number
            spans = _spans(share.partitions, sizes, piece, per_worker * share.n_lanes, is_mixed)
            if not spans:
                continue
            if taken == len(rounds):
                rounds.append([])
            rounds[taken].append(Quantum(number, share.address, spans))
            taken += 1
    return rounds


def _spans(
    partitions: list[int], sizes: np.ndarray, piece: int, count: int, is_mixed: bool
) -> tuple[Span, ...]:
    """Return the spans of one of `count` even pieces of the partitions' rows.

    piece : number of the piece, from 0
    is_mixed : if True, the piece has a span of each partition; if False, the piece is cut from all
        rows in the order of the partitions
    """
    if is_mixed:
        cuts = [(p, int(sizes[p])) for p in partitions]
        found = [(p, size * piece // count, size * (piece + 1) // count) for p, size in cuts]
    else:
        total, before, found = int(sizes[partitions].sum()), 0, []
        begin, end = total * piece // count, total * (piece + 1) // count
        for p in partitions:
            size = int(sizes[p])
            found.append((p, max(0, begin - before), min(size, end - before)))
            before += size
    return tuple(span for span in found if span[1] < span[2])
