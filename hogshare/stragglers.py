"""Stragglers: laws that slow workers down on purpose, to measure the effect on barriers.

A law gives the time that a worker sleeps in a block. The worker sleeps after it has claimed the
block and read the model, and before it computes and pushes. In a late block the push and the clock
are late, and the step is computed from an old model.

    sleep = max(0, base + lateness)

Every worker sleeps for `base` in every block. With a base far above the computing time, any number
of workers can be measured on few cores, because a sleeping worker needs no core.

Random draws depend only on the seed, the worker and the number of the worker's block. They do not
depend on how the workers interleave.
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

FIRST_BLOCKS = 100  # number of blocks of a run from which its mean block time is measured
SHORT_TAIL = (1.5, 2.5)  # lateness of most stragglers, in mean block times
LONG_TAIL = (2.5, 10.0)  # lateness of the slowest stragglers, in mean block times
LARGEST_SIGMA = 50.0  # above this, multiples overflow


Law = Callable[[int, int, int, float], float]


class StragglersError(RuntimeError):
    """A user-defined law raised an error, or returned something other than seconds."""


@dataclass(frozen=True, kw_only=True)
class Stragglers(ABC):
    """Base class of all laws.

    Parameters
    ----------
    base : float, default=0.0
        Seconds that every worker sleeps in every block. Laws take multiples of the mean block time.
        With a base above 0, the base is used as this mean. With base 0, the mean is measured over
        the first 100 blocks of the run, in which no worker is late.
    """

    base: float = 0.0

    def __post_init__(self) -> None:
        seconds(base=self.base)

    @abstractmethod
    def lateness(self, worker: int, block: int, n_workers: int, mean: float) -> float:
        """Return the seconds by which a block is late.

        Parameters
        ----------
        worker : int
            Number of the worker, from 0.
        block : int
            Number of blocks that the worker has completed.
        n_workers : int
            Number of workers in the run.
        mean : float
            Mean block time in seconds; 0 while unknown.
        """

    def sleep(self, worker: int, block: int, n_workers: int, measured: float = 0.0) -> float:
        """Return the seconds to sleep in a block, at most eleven days.

        measured : the mean block time in seconds; 0 if unknown
        """
        late = self.lateness(worker, block, n_workers, self.base or measured)
        if not is_number(late) or late != late:  # NaN differs from itself
            raise ValueError(f"its lateness is {late!r}, which is not a number of seconds")
        return min(max(0.0, self.base + late), LONGEST)

    def misfit(self, n_workers: int) -> str:
        """Return a sentence on why the law does not fit `n_workers`; it is empty if it fits."""
        return ""


@dataclass(frozen=True)
class ControlledDelay(Stragglers):
    """Some workers sleep a multiple of the mean block time in each of their blocks.

    Parameters
    ----------
    delay : float
        The multiple; with 1.0 a slowed block takes twice as long.
    workers : tuple of int, default=(0,)
        Numbers of the slow workers.
    base : float, default=0.0
        As in `Stragglers`.

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
        """Return the seconds by which a block is late; see `Stragglers.lateness`."""
        return self.delay * mean if worker in self.workers else 0.0

    def misfit(self, n_workers: int) -> str:
        """Return a sentence about a slow worker that the run does not have, or an empty string."""
        last = max(self.workers, default=0)
        if last < n_workers:
            return ""
        return f"{self!r} names worker {last}, and the run has {n_workers}: 0 to {n_workers - 1}."


@dataclass(frozen=True)
class ProductionCluster(Stragglers):
    """A share of the workers is late in every block, each by its own factor.

    In each of its blocks, a straggler sleeps for `base`, plus the mean block time multiplied by the
    straggler's factor. The factor is from 1.5 to 2.5 for most stragglers, and from 2.5 to 10 for
    stragglers in the long tail. Factors are drawn uniformly, once per worker. With the default
    shares, 32 workers have 6 stragglers outside the long tail and 2 in it. The seed decides which
    workers they are.

    Parameters
    ----------
    share : float, default=0.25
        Share of the workers that are stragglers, rounded to whole workers.
    long_tail : float, default=0.2
        Share of the stragglers that are in the long tail, rounded to whole workers.
    seed : int, default=0
    base : float, default=0.0
        As in `Stragglers`.

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
        """Return the lateness of each worker's blocks in mean block times; 0 for most workers."""
        return _production_factors(self.share, self.long_tail, self.seed, n_workers)

    def lateness(self, worker: int, block: int, n_workers: int, mean: float) -> float:
        """Return the seconds by which a block is late; see `Stragglers.lateness`."""
        return float(self.factors(n_workers)[worker]) * mean


@lru_cache(maxsize=64)
def _production_factors(share: float, long_tail: float, seed: int, n_workers: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    late = rng.permutation(n_workers)[: round(share * n_workers)]
    worst = round(long_tail * len(late))
    factors = np.zeros(n_workers)
    factors[late[:worst]] = rng.uniform(*LONG_TAIL, worst)
    factors[late[worst:]] = rng.uniform(*SHORT_TAIL, len(late) - worst)
    factors.flags.writeable = False  # the cache shares it
    return factors


@dataclass(frozen=True)
class LogNormal(Stragglers):
    """Every block takes a random multiple of the mean block time: log-normal, with mean 1.

    With a base, a worker sleeps `base` times the multiple in each block. Without a base, a worker
    sleeps only if the multiple is above 1, because a sleep cannot make a block faster.

    Parameters
    ----------
    sigma : float
        Standard deviation of the multiple's logarithm. A small `sigma` is roughly the standard
        deviation of the multiple itself.
    seed : int, default=0
    base : float, default=0.0
        As in `Stragglers`.

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
        """Return the time of a block, in mean block times."""
        # a generator per block: the draw must not depend on the interleaving of workers
        draw = np.random.default_rng([self.seed, worker, block]).standard_normal()
        return math.exp(self.sigma * draw - 0.5 * self.sigma**2)

    def lateness(self, worker: int, block: int, n_workers: int, mean: float) -> float:
        """Return the lateness of a block; negative for blocks that are faster than the mean."""
        return (self.multiple(worker, block) - 1.0) * mean


@dataclass(frozen=True)
class Recorded(Stragglers):
    """Recorded seconds by which each worker's blocks are late.

    Parameters
    ----------
    seconds : sequence of sequences of float
        ``seconds[worker][block]``, with one list per worker of the run. After the last entry of a
        list, its first entry comes again. A worker with an empty list is never late.
    base : float, default=0.0
        As in `Stragglers`.

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
        checked = tuple(numbers(**{"every line of seconds": line}) for line in lines)
        object.__setattr__(self, "seconds", checked)
        for line in checked:
            for value in line:
                seconds(**{"every entry of seconds": value})

    def lateness(self, worker: int, block: int, n_workers: int, mean: float) -> float:
        """Return the seconds by which a block is late; see `Stragglers.lateness`."""
        line = self.seconds[worker]
        return line[block % len(line)] if line else 0.0

    def misfit(self, n_workers: int) -> str:
        """Return a sentence if the number of workers is not the number of lists; else empty."""
        known = len(self.seconds)
        if known == n_workers:
            return ""
        return f"Recorded has {known} workers, and the run has {n_workers}: give a list for each."


def stragglers_of(law: Any) -> Stragglers | None:
    """Return the law that an argument specifies, or None; text is read by `parse`.

    Raises
    ------
    ValueError
        If the text is not the name of a law.
    TypeError
        If `law` is not a law.
    """
    if isinstance(law, str):
        return parse(law)
    if law is not None and not isinstance(law, Stragglers):
        raise TypeError(
            "stragglers must be None or a law such as ControlledDelay(0.6), ProductionCluster(), "
            "LogNormal(0.3) or Recorded(seconds), of hogshare.stragglers, or as text, such as "
            f"'cds:0.6'; got {law!r}."
        )
    return law


def asked(law: Stragglers) -> Law:
    """Wrap a law for workers: its errors name the law, the block and the worker.

    Each session makes one wrapper, which all its workers call, with "threads" at the same time. So
    a law may not change its own data.

    Returns
    -------
    callable
        A function like `Stragglers.sleep`. It raises StragglersError if the law raises or does not
        return a number.
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
        If the law is unknown, or its number is not valid.

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
            f"{text!r} is not a law of stragglers: {sentence(error)} Write none, cds:DELAY (worker "
            "0), pcs or lognormal:SIGMA."
        ) from None
