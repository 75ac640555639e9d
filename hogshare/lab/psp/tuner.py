"""Choose a barrier's sample and staleness for a limit on lead or waiting, by simulation.

At the same staleness, a larger sample gives a shorter lead and more waiting. For each staleness,
bisection between no sample (ASP) and all workers (SSP) finds the sample at the limit. If the lead
is limited, the best of these candidates is the one with the least waiting; if the waiting is
limited, it is the one with the least lead. Among the candidates within 5 % of the best, `tune`
chooses the one that requests the fewest clocks: a sample of half of all workers requests some
hundred times as many clocks as SSP with a server. All candidates are run with the same seeds, and
therefore with the same block times.
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

SPAN = 40  # mean block times in a run, as in the paper
POLL = 0.05  # share of a mean block time
CLOSE = 1.05  # candidates within this factor are equally good: the fewest messages decide


@dataclass(frozen=True)
class Candidate:
    """A barrier, and the progress of simulated workers under it.

    Attributes
    ----------
    barrier : ASP, BSP, SSP, PBSP or PSSP
    mean_lead : float
        Mean lead over the least clock at a pass, in blocks.
    waiting_share : float
        Share of the workers' time spent waiting.
    blocks : float
        Mean clock of the workers at the end.
    messages : float
        Requested clocks per completed block.
    """

    barrier: BuiltIn
    mean_lead: float
    waiting_share: float
    blocks: float
    messages: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**asdict(self), "barrier": repr(self.barrier)}


@dataclass(frozen=True)
class Tuned:
    """The result of `tune`.

    Attributes
    ----------
    best : Candidate
        The chosen barrier with its measurements.
    candidates : tuple of Candidate
        All measured barriers, including the best, sorted by mean lead.
    """

    best: Candidate
    candidates: tuple[Candidate, ...]

    @property
    def barrier(self) -> BuiltIn:
        """Return the chosen barrier."""
        return self.best.barrier

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
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
    """Find a barrier that limits the mean lead, or the waiting.

    Parameters
    ----------
    n_workers : int
        At least 2.
    block_time : law of `hogshare.simulation`, default=None
        Law of the block times: an assumed one, or `Measured` seconds of a real run. None is
        ``Exponential(1.0)``.
    mean_lead : float or None, default=None
        Limit of the mean lead of a worker over the least clock at a pass, in blocks (the papers'
        lag). Among the barriers within the limit, the one with the least waiting is chosen.
    waiting_share : float or None, default=None
        Limit of the share of the workers' time spent waiting. Among the barriers within the limit,
        the one with the least mean lead is chosen. Give either `waiting_share` or `mean_lead`.
    staleness : sequence of int, default=0 to 8
        Values of the staleness to choose from.
    hold : bool, default=False
        Whether a worker reuses its sample until it passes, as in `PBSP` and `PSSP`.
    placement : Placement or None, default=None
        Placement of the workers' clocks. Barriers that it does not allow are left out; with
        distributed state these are the barriers that need the clocks of all workers.
    slowness : array-like of float, shape (n_workers,), default=None
        Factors of the workers' block times, as in `progress`.
    seconds : float or None, default=None
        Virtual seconds of a run. None: 40 mean block times. Under ASP the lead grows with the
        length of the run.
    poll : float or None, default=None
        Virtual seconds after which a waiting worker polls again, as in `progress`. If every poll
        draws a new sample, frequent polls shorten the waiting. None: a twentieth of the mean block
        time.
    n_seeds : int, default=5
        Number of runs per candidate, whose means are compared. With few workers, use more.
    seed : int, default=0
        Seed of the first run; the other runs have the next seeds.

    Returns
    -------
    Tuned

    Raises
    ------
    ValueError
        If a number is out of its range, neither or both of `mean_lead` and `waiting_share` are
        given, or no candidate meets the limit (the message names the nearest candidate).
    TypeError
        If `block_time` is not a law.

    Notes
    -----
    With 1000 workers, some 5 to 10 samples are tried per staleness, with `n_seeds` runs each; this
    takes 2 to 8 seconds in all. The numbers of a `Candidate` are means over seeds, and have errors.
    For example, with 100 workers, log-normal block times and SSP(6), the waiting share varies by a
    fifth from seed to seed, because one slow block delays all workers. Use more seeds for more
    precision.

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
    """Return the largest sample: all other workers, or one less if no place has all clocks."""
    if placement is None:
        return n_workers - 1
    placement.check(ASP())
    try:
        placement.check(BSP())
    except ValueError:
        return n_workers - 2
    return n_workers - 1


def _made(sample: int, staleness: int, n_workers: int, is_fixed: bool) -> BuiltIn:
    """Make a barrier of the simplest class with this sample and staleness."""
    if sample == 0:
        return ASP()
    if sample == n_workers - 1:
        return SSP(staleness) if staleness else BSP()
    return PSSP(sample, staleness, is_fixed) if staleness else PBSP(sample, is_fixed)


def _halve(answer: Callable[[int], bool], largest: int) -> None:
    """Bisect samples until the limit lies between two neighbours.

    ``answer(sample)`` measures a sample, and returns on which side of the limit it is. The middle
    is the geometric mean, because differences between small samples matter most.
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
