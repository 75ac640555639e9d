"""The members of a simulated run over time: workers that join late, leave or die."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hogshare.system.ranges import not_negative, of_run, seconds, whole

JOIN, LEAVE, DIE = "joins", "leaves", "deaths"


@dataclass(frozen=True)
class Churn:
    """Times at which workers join, leave and die.

    Parameters
    ----------
    joins : mapping of int to float, default={}
        For each named worker, the virtual seconds at which it starts. Other workers start at 0.
    leaves : mapping of int to float, default={}
        For each named worker, the virtual seconds at which it decides to leave. It then finishes
        its current block and leaves.
    deaths : mapping of int to float, default={}
        For each named worker, the virtual seconds at which it dies, at any point of its loop. Other
        workers repeat its block.
    leave_rate, death_rate : float, default=0.0
        Rate of random leaves, and of random deaths, per worker and virtual second. These events
        come in addition to `leaves` and `deaths`.
    join_seconds : float, default=0.0
        Workers that are not named in `joins` start at random times between 0 and `join_seconds`.
    seed : int, default=0
        Seed for the random times.

    Examples
    --------
    >>> from hogshare.simulation import Churn
    >>> Churn(joins={2: 1.5}, deaths={0: 4.0}).schedule(3)
    [(0.0, 'joins', 0), (0.0, 'joins', 1), (1.5, 'joins', 2), (4.0, 'deaths', 0)]
    """

    joins: Mapping[int, float] = field(default_factory=dict)
    leaves: Mapping[int, float] = field(default_factory=dict)
    deaths: Mapping[int, float] = field(default_factory=dict)
    leave_rate: float = 0.0
    death_rate: float = 0.0
    join_seconds: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        not_negative(leave_rate=self.leave_rate, death_rate=self.death_rate)
        seconds(join_seconds=self.join_seconds)
        whole(seed=self.seed)
        for name in (JOIN, LEAVE, DIE):
            if not isinstance(getattr(self, name), Mapping):
                raise TypeError(
                    f"{name} of Churn must map workers to seconds, such as {{3: 1.5}}; got "
                    f"{getattr(self, name)!r}."
                )
            for worker, when in getattr(self, name).items():
                not_negative(**{f"{name}[{worker!r}]": when})

    def __bool__(self) -> bool:
        """Whether any worker joins late, leaves or dies."""
        named = self.joins or self.leaves or self.deaths
        return bool(named or self.leave_rate or self.death_rate or self.join_seconds)

    def check(self, n_workers: int) -> None:
        """Refuse workers that the run does not have, or that leave or die before they join.

        Raises
        ------
        ValueError
            If `joins`, `leaves` or `deaths` names such a worker.
        """
        for name in (JOIN, LEAVE, DIE):
            of_run(f"{name} of Churn", getattr(self, name), n_workers)
        for name in (LEAVE, DIE):
            for worker, when in getattr(self, name).items():
                if when < self.joins.get(worker, 0.0):
                    raise ValueError(
                        f"Churn has worker {worker} in {name} at {when} s, before it joins at "
                        f"{self.joins[worker]} s: use a later time, or an earlier one in joins."
                    )

    def schedule(self, n_workers: int) -> list[tuple[float, str, int]]:
        """Return the events, sorted by time.

        An event is ``(virtual seconds, "joins" | "leaves" | "deaths", worker)``.

        Parameters
        ----------
        n_workers : int
            The run's number of workers, including those that join late.
        """
        rng = np.random.default_rng(self.seed)
        start = rng.uniform(0.0, self.join_seconds, n_workers) if self.join_seconds else None
        ends = {
            LEAVE: _lifetimes(rng, self.leave_rate, n_workers),
            DIE: _lifetimes(rng, self.death_rate, n_workers),
        }
        events = []
        for k in range(n_workers):
            begin = self.joins.get(k, 0.0 if start is None else float(start[k]))
            events.append((begin, JOIN, k))
            for name, drawn in ends.items():
                end = getattr(self, name).get(k, begin + float(drawn[k]))
                if end < math.inf:
                    # a random start may be later than a named leave or death
                    events.append((max(begin, end), name, k))
        # at equal times joins come before leaves, and leaves before deaths; then by worker number
        rank = {JOIN: 0, LEAVE: 1, DIE: 2}
        return sorted(events, key=lambda event: (event[0], rank[event[1]], event[2]))


def _lifetimes(rng: np.random.Generator, rate: float, n_workers: int) -> np.ndarray:
    if rate == 0.0:
        return np.full(n_workers, math.inf)
    return rng.exponential(1.0 / rate, n_workers)
