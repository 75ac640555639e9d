"""Which barrier for a wish: sample and staleness by simulation, for a law of block times.

Among barriers with the same staleness a larger sample means a shorter lead and more waiting. So for
each staleness the sample at the edge of the wish is found by halving, between nobody (ASP) and
everybody (SSP), and of these few the best one is taken: who waits least if the lead is bounded, who
leads least if the waiting is. Of those within 5 % of it the one that asks for the fewest clocks is
preferred: a sample of half of all workers costs some hundred times what SSP with a server does. All
runs share their seeds, and with them their block times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hogshare.barriers import ASP, BSP, PBSP, PSSP, SSP, BuiltIn
from hogshare.lab.psp.progress import Progress, progress
from hogshare.simulation.block_times import BlockTime, Exponential, law_of
from hogshare.simulation.placement import Placement
from hogshare.system.ranges import count, not_negative, positive, share

SPAN = 40  # mean block times that a run lasts, as in the paper
POLL = 0.05  # of a mean block time
CLOSE = 1.05  # candidates whose measures are within this factor are as good; messages decide


@dataclass(frozen=True)
class Candidate:
    """A barrier, and how workers got on behind it.

    Attributes
    ----------
    barrier : ASP, BSP, SSP, PBSP or PSSP
    mean_lead : float
        Mean lead over the least clock at the moment of passing, in blocks.
    waiting_share : float
        Share of their time that workers wait.
    blocks : float
        Mean clock at the end.
    messages : float
        Clocks asked for, per block completed.
    """

    barrier: BuiltIn
    mean_lead: float
    waiting_share: float
    blocks: float
    messages: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "barrier": repr(self.barrier)}


@dataclass(frozen=True)
class Tuned:
    """What `tune` has found.

    Attributes
    ----------
    best : Candidate
        The barrier to take, and what was measured of it.
    candidates : tuple of Candidate
        All that were measured, the best among them, by their mean lead.
    """

    best: Candidate
    candidates: tuple[Candidate, ...]

    @property
    def barrier(self) -> BuiltIn:
        """The barrier to take."""
        return self.best.barrier

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "best": self.best.to_dict(),
            "candidates": [candidate.to_dict() for candidate in self.candidates],
        }


def tune(
    n_workers: int,
    *,
    block_time: BlockTime | None = None,
    mean_lead: float | None = None,
    waiting_share: float | None = None,
    staleness: Sequence[int] = tuple(range(9)),
    hold: bool = False,
    placement: Placement | None = None,
    slowness: Sequence[float] | np.ndarray | None = None,
    seconds: float | None = None,
    poll: float | None = None,
    n_seeds: int = 5,
    seed: int = 0,
) -> Tuned:
    """Find a barrier that keeps the mean lead, or the waiting, below a number.

    Parameters
    ----------
    n_workers : int
        At least 2.
    block_time : law of `hogshare.simulation`, default=None
        Assumed, or `Measured` seconds of a real run. None: ``Exponential(1.0)``.
    mean_lead : float or None, default=None
        Most that workers may be ahead of the last when they pass, on average, in blocks: what the
        papers call lag. The barrier with the least waiting among those is taken.
    waiting_share : float or None, default=None
        Largest share of their time that workers may wait. The barrier with the least mean lead
        among those is taken. Give either this or `mean_lead`.
    staleness : sequence of int, default=0 to 8
        To choose from.
    hold : bool, default=False
        Of `PBSP` and `PSSP`.
    placement : Placement or None, default=None
        Leave out what it does not allow: with distributed state, those that watch everybody.
    slowness : array-like of float, shape (n_workers,), default=None
        As of `progress`.
    seconds : float or None, default=None
        Virtual seconds of a run; None: 40 mean block times. Behind ASP the lead grows with them.
    poll : float or None, default=None
        As of `progress`, the time after which a worker polls again: a sample drawn anew at every
        poll holds less, the more often one polls. None: a twentieth of a mean block time.
    n_seeds : int, default=5
        Runs of each candidate, whose means are taken. With few workers more are needed.
    seed : int, default=0
        The first of their seeds.

    Returns
    -------
    Tuned

    Raises
    ------
    ValueError
        If a number is out of its range, neither or both wishes are given, or no candidate meets
        the one that is: then with what came nearest.
    TypeError
        If `block_time` is no law.

    Notes
    -----
    Some 5 to 10 samples are tried per staleness with 1000 workers, n_seeds runs each: 2 to 8
    seconds in all. What is measured has an error of its own: the waiting behind SSP(6) of 100
    workers with log-normal block times varies by a fifth from seed to seed, because one slow block
    holds everybody. `Candidate` has means; give more seeds where they matter.

    Examples
    --------
    >>> from hogshare.simulation import Exponential, tune
    >>> found = tune(100, block_time=Exponential(0.2), waiting_share=0.3, staleness=(0, 4))
    >>> found.best.waiting_share <= 0.3
    True
    >>> tune(100, mean_lead=0.0).barrier
    BSP()
    """
    law = Exponential(1.0) if block_time is None else law_of(block_time)
    positive(**{"the mean of block_time": law.mean})
    count(2, n_workers=n_workers)
    count(1, n_seeds=n_seeds)
    count(0, seed=seed)
    meets = _wish(mean_lead, waiting_share)
    if not len(staleness):
        raise ValueError("staleness must have a number of blocks to choose from; it is empty.")
    for r in staleness:
        count(0, **{"every one of staleness": r})
    settings: dict[str, Any] = {
        "block_time": law,
        "seconds": SPAN * law.mean if seconds is None else seconds,
        "poll": POLL * law.mean if poll is None else poll,
        "slowness": slowness,
    }
    known: dict[BuiltIn, Candidate] = {}

    def measure(sample: int, r: int) -> Candidate:
        barrier = _made(sample, r, n_workers, hold)
        if barrier not in known:
            runs = [progress(barrier, n_workers, seed=seed + k, **settings) for k in range(n_seeds)]
            known[barrier] = _candidate(barrier, runs)
        return known[barrier]

    largest = _largest_sample(placement, n_workers)
    for r in sorted(set(staleness)):
        _halve(lambda sample, r=r: meets(measure(sample, r)), largest)  # type: ignore[misc]
    candidates = tuple(sorted(known.values(), key=lambda found: found.mean_lead))
    good = [found for found in candidates if meets(found)]
    if not good:
        nearest = candidates[0]
        raise ValueError(
            f"no candidate has a mean lead of at most {mean_lead!r}: the least is "
            f"{nearest.mean_lead:.3g}, with {nearest.barrier!r}. Allow a longer one, or a smaller "
            "staleness."
        )
    price = "mean_lead" if mean_lead is None else "waiting_share"
    least = min(getattr(found, price) for found in good)
    close = [found for found in good if getattr(found, price) <= CLOSE * least]
    return Tuned(min(close, key=lambda found: found.messages), candidates)


def _wish(mean_lead: float | None, waiting_share: float | None) -> Callable[[Candidate], bool]:
    if mean_lead is not None and waiting_share is None:
        most = mean_lead
        not_negative(mean_lead=most)
        return lambda found: found.mean_lead <= most
    if waiting_share is not None and mean_lead is None:
        longest = waiting_share
        share(waiting_share=longest)
        return lambda found: found.waiting_share <= longest
    given = "neither" if mean_lead is None else "both"
    raise ValueError(f"give either mean_lead or waiting_share; got {given}.")


def _largest_sample(placement: Placement | None, n_workers: int) -> int:
    """Everybody, or all but one of the others where nobody has all the clocks."""
    if placement is None:
        return n_workers - 1
    placement.check(ASP())
    try:
        placement.check(BSP())
    except ValueError:
        return n_workers - 2
    return n_workers - 1


def _made(sample: int, staleness: int, n_workers: int, hold: bool) -> BuiltIn:
    """The barrier by its usual name."""
    if sample == 0:
        return ASP()
    if sample == n_workers - 1:
        return SSP(staleness) if staleness else BSP()
    return PSSP(sample, staleness, hold) if staleness else PBSP(sample, hold)


def _halve(answer: Callable[[int], bool], largest: int) -> None:
    """Ask for samples until the edge lies between two neighbours, by geometric means: small samples
    make the difference.
    """
    low, high = 0, largest
    at_low = answer(low)
    if answer(high) == at_low:
        return
    while high - low > 1:
        middle = min(max(round(math.sqrt(max(low, 1) * high)), low + 1), high - 1)
        if answer(middle) == at_low:
            low = middle
        else:
            high = middle


def _candidate(barrier: BuiltIn, runs: list[Progress]) -> Candidate:
    def mean(values: Iterable[float]) -> float:
        return math.fsum(values) / len(runs)

    return Candidate(
        barrier,
        mean_lead=mean(run.mean_lead for run in runs),
        waiting_share=mean(run.waiting_share for run in runs),
        blocks=mean(run.mean for run in runs),
        messages=mean(run.control_messages / max(1, run.updates) for run in runs),
    )
