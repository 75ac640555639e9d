"""Stragglers: laws by which workers are slow on purpose, to see what a barrier makes of it.

A law says how long a worker sleeps in a block: after it has claimed the block and read the model,
before it computes and pushes. So a late block is late in every sense: its push is, its clock is,
and it is computed from an old model.

    sleep = max(0, base + lateness)

`base` is slept by every worker in every block. With a base far above the time of computing, any
number of workers can be measured on few cores: who sleeps needs none.

What is drawn at random depends on the seed, the worker and the number of its block alone, so that
it repeats however the workers interleave.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from hogshare.system.messages import nearest, sentence
from hogshare.system.ranges import (
    LONGEST,
    is_number,
    not_negative,
    numbers,
    seconds,
    several,
    share,
    whole,
)

FIRST_BLOCKS = 100  # of a run, by which its mean block time is measured
SHORT_TAIL = (1.5, 2.5)  # multiples of the mean block time by which most stragglers are late
LONG_TAIL = (2.5, 10.0)  # and the worst of them
LARGEST_SIGMA = 50.0  # beyond, multiples are no numbers any more


Law = Callable[[int, int, int, float], float]


class StragglersError(RuntimeError):
    """A law of the user's has raised, or said something else than seconds."""


@dataclass(frozen=True, kw_only=True)
class Stragglers(ABC):
    """What all laws have in common.

    Parameters
    ----------
    base : float, default=0.0
        Seconds that every worker sleeps in every block. If there is a base it also stands for the
        mean block time, of which laws take multiples. Without one that is measured over the first
        100 blocks of the run, in which nobody is late.
    """

    base: float = 0.0

    def __post_init__(self) -> None:
        seconds(base=self.base)

    @abstractmethod
    def lateness(self, worker: int, block: int, n_workers: int, mean: float) -> float:
        """Seconds by which a block is late.

        Parameters
        ----------
        worker : int
            Which worker, from 0.
        block : int
            How many blocks it has completed before.
        n_workers : int
            Of the run.
        mean : float
            Mean block time in seconds; 0 while it is not known.
        """

    def sleep(self, worker: int, block: int, n_workers: int, measured: float = 0.0) -> float:
        """Seconds to sleep in a block; `measured` is the mean block time, 0 while not known.

        No longer than eleven days.
        """
        late = self.lateness(worker, block, n_workers, self.base or measured)
        if not is_number(late) or late != late:
            raise ValueError(f"its lateness is {late!r}, which is no number of seconds")
        return min(max(0.0, self.base + late), LONGEST)

    def misfit(self, n_workers: int) -> str:
        """What does not fit that number of workers, in words; empty if everything does."""
        return ""


@dataclass(frozen=True)
class ControlledDelay(Stragglers):
    """Some workers sleep a multiple of the mean block time in each of their blocks.

    Parameters
    ----------
    delay : float
        The multiple; with 1.0 their blocks take twice as long.
    workers : tuple of int, default=(0,)
        Which workers.
    base : float, default=0.0
        As of `Stragglers`.

    Notes
    -----
    Source: Soori et al. 2019 (ASYNC), "controlled delay": one worker of 8, delays of 0, 30, 60 and
    100 %, and the mean over the first 100 iterations.

    Examples
    --------
    >>> from hogshare.stragglers import ControlledDelay
    >>> law = ControlledDelay(0.5, base=0.02)
    >>> law.sleep(0, 7, n_workers=8), law.sleep(1, 7, n_workers=8)
    (0.03, 0.02)
    """

    delay: float
    workers: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(delay=self.delay)
        for worker in several(workers=self.workers):
            whole(**{"every one of workers": worker})

    def lateness(self, worker: int, block: int, n_workers: int, mean: float) -> float:
        """As `Stragglers.lateness`."""
        return self.delay * mean if worker in self.workers else 0.0

    def misfit(self, n_workers: int) -> str:
        """Workers that the run does not have."""
        last = max(self.workers, default=0)
        if last < n_workers:
            return ""
        return f"{self!r} names worker {last}, and the run has {n_workers}: 0 to {n_workers - 1}."


@dataclass(frozen=True)
class ProductionCluster(Stragglers):
    """A share of the workers is late in every block, each by a factor of its own, a few by a lot.

    Most stragglers sleep 1.5 to 2.5 times the mean block time on top of their blocks, those in the
    long tail 2.5 to 10 times, both uniformly drawn once per worker. Of 32 workers 6 are of the
    first kind and 2 of the second, with the default shares; which ones depends on the seed.

    Parameters
    ----------
    share : float, default=0.25
        Share of the workers that are stragglers, rounded to whole workers.
    long_tail : float, default=0.2
        Share of the stragglers that are in the long tail, rounded as well.
    seed : int, default=0
    base : float, default=0.0
        As of `Stragglers`.

    Notes
    -----
    Source: Soori et al. 2019 (ASYNC), "production cluster stragglers".

    Examples
    --------
    >>> from hogshare.stragglers import ProductionCluster
    >>> factors = ProductionCluster(seed=1).factors(32)
    >>> int((factors > 0).sum()), int((factors > 2.5).sum())
    (8, 2)
    """

    share: float = 0.25
    long_tail: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        share(share=self.share, long_tail=self.long_tail)
        whole(seed=self.seed)

    def factors(self, n_workers: int) -> np.ndarray:
        """By how many mean block times each worker's blocks are late; 0 for most."""
        return _production_factors(self.share, self.long_tail, self.seed, n_workers)

    def lateness(self, worker: int, block: int, n_workers: int, mean: float) -> float:
        """As `Stragglers.lateness`."""
        return float(self.factors(n_workers)[worker]) * mean


@lru_cache(maxsize=64)
def _production_factors(share: float, long_tail: float, seed: int, n_workers: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    late = rng.permutation(n_workers)[: round(share * n_workers)]
    worst = round(long_tail * len(late))
    factors = np.zeros(n_workers)
    factors[late[:worst]] = rng.uniform(*LONG_TAIL, worst)
    factors[late[worst:]] = rng.uniform(*SHORT_TAIL, len(late) - worst)
    factors.flags.writeable = False
    return factors


@dataclass(frozen=True)
class LogNormal(Stragglers):
    """Every block takes a random multiple of the mean block time: log-normal, with mean 1.

    With a base, blocks sleep `base` times that. Without, only those sleep whose multiple is above 1
    (nobody can compute faster than it does).

    Parameters
    ----------
    sigma : float
        Standard deviation of the multiple's logarithm; about that of the multiple itself, if small.
    seed : int, default=0
    base : float, default=0.0
        As of `Stragglers`.

    Examples
    --------
    >>> from hogshare.stragglers import LogNormal
    >>> law = LogNormal(0.2, base=0.02)
    >>> law.sleep(0, 7, n_workers=8) == law.sleep(0, 7, n_workers=8) != law.sleep(0, 8, n_workers=8)
    True
    """

    sigma: float
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(sigma=self.sigma)
        if self.sigma > LARGEST_SIGMA:
            raise ValueError(f"sigma must be at most {LARGEST_SIGMA:g}; got {self.sigma!r}.")
        whole(seed=self.seed)

    def multiple(self, worker: int, block: int) -> float:
        """What a block takes, in mean block times."""
        draw = np.random.default_rng([self.seed, worker, block]).standard_normal()
        return math.exp(self.sigma * draw - 0.5 * self.sigma**2)

    def lateness(self, worker: int, block: int, n_workers: int, mean: float) -> float:
        """As `Stragglers.lateness`; negative for blocks that are faster than the mean."""
        return (self.multiple(worker, block) - 1.0) * mean


@dataclass(frozen=True)
class Recorded(Stragglers):
    """Seconds by which each worker's blocks are late, as they were written down.

    Parameters
    ----------
    seconds : sequence of sequences of float
        ``seconds[worker][block]``. Behind its last entry a worker begins with its first again; one
        with none is never late. One list for each worker of the run.
    base : float, default=0.0
        As of `Stragglers`.

    Examples
    --------
    >>> from hogshare.stragglers import Recorded
    >>> law = Recorded([[0.0, 0.3], []])
    >>> [law.sleep(0, block, n_workers=2) for block in range(3)]
    [0.0, 0.3, 0.0]
    """

    seconds: Sequence[Sequence[float]]

    def __post_init__(self) -> None:
        super().__post_init__()
        lines = several(seconds=self.seconds)
        kept = tuple(numbers(**{"every line of seconds": line}) for line in lines)
        object.__setattr__(self, "seconds", kept)
        for line in kept:
            for value in line:
                seconds(**{"every entry of seconds": value})

    def lateness(self, worker: int, block: int, n_workers: int, mean: float) -> float:
        """As `Stragglers.lateness`."""
        line = self.seconds[worker]
        return line[block % len(line)] if line else 0.0

    def misfit(self, n_workers: int) -> str:
        """Another number of workers."""
        known = len(self.seconds)
        if known == n_workers:
            return ""
        return f"Recorded has {known} workers, and the run has {n_workers}: give a list for each."


def stragglers_of(law: Any) -> Stragglers | None:
    """The law that is meant, if any: words are read as by `parse`.

    Raises
    ------
    ValueError
        If the words name none.
    TypeError
        If it is no law.
    """
    if isinstance(law, str):
        return parse(law)
    if law is not None and not isinstance(law, Stragglers):
        raise TypeError(
            "stragglers must be None or a law such as ControlledDelay(0.6), ProductionCluster(), "
            "LogNormal(0.3) or Recorded(seconds), of hogshare.stragglers, or in words, such as "
            f"'cds:0.6'; got {law!r}."
        )
    return law


def asked(law: Stragglers) -> Law:
    """The law as workers ask it: what goes wrong in it says that it was there.

    Returns
    -------
    callable
        As `Stragglers.sleep`. Raises StragglersError if the law raises, or says no number.
    """
    name = type(law).__qualname__

    def ask(worker: int, block: int, n_workers: int, measured: float) -> float:
        try:
            return law.sleep(worker, block, n_workers, measured)
        except Exception as error:
            raise StragglersError(
                f"The law of stragglers {name}, asked for block {block} of worker {worker}, raised "
                f"{type(error).__name__}: {error}"
            ) from error

    ask.__qualname__ = name
    return ask


def check_workers(law: Stragglers | None, n_workers: int) -> None:
    """Refuse a law that does not fit the number of workers.

    Raises
    ------
    ValueError
    """
    if law is not None and (misfit := law.misfit(n_workers)):
        raise ValueError(misfit)


def parse(text: str, base: float = 0.0, seed: int = 0) -> Stragglers:
    """Read a law as it is written on a command line.

    Raises
    ------
    ValueError
        If there is no such law, or its number does not fit.

    Examples
    --------
    >>> from hogshare.stragglers import parse
    >>> parse("cds:0.6").delay
    0.6
    """
    name, _, number = text.strip().lower().partition(":")
    try:
        if name == "none" and not number:
            return ControlledDelay(0.0, (), base=base)
        if name == "pcs" and not number:
            return ProductionCluster(seed=seed, base=base)
        if name == "cds":
            return ControlledDelay(float(number), base=base)
        if name == "lognormal":
            return LogNormal(float(number), seed=seed, base=base)
        known = ("none", "cds", "pcs", "lognormal")
        raise ValueError(f"there is none of that name.{nearest(name, known)}")
    except ValueError as error:
        raise ValueError(
            f"{text!r} is no law of stragglers: {sentence(error)} Write none, cds:DELAY (worker "
            "0), pcs or lognormal:SIGMA."
        ) from None
