"""The time of a block on a virtual clock: distributions from which block times are drawn.

A drawn time depends only on the seed, the worker and the number of the worker's block. So it is the
same for any interleaving of workers. `hogshare.kernels.schedule.block_time_draws` makes the draws.
In this package, a *law* is a distribution of block times.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from hogshare.kernels.schedule import block_time_draws as codes
from hogshare.system.messages import nearest, sentence
from hogshare.system.ranges import not_negative, numbers, positive

_NO_TRACE = np.empty(0)
_NO_TRACE.flags.writeable = False  # all laws without a trace share it

Numbers = tuple[int, float, float, np.ndarray]


class BlockTime(ABC):
    """The base class of all laws (distributions) of block times.

    Attributes
    ----------
    mean : float
        Mean seconds of a block.
    """

    mean: float
    _code: ClassVar[int]  # the law's code in `hogshare.kernels.schedule.block_time_draws`
    _given: ClassVar[tuple[str, ...]] = ("mean",)  # names of the law's one or two numbers

    def numbers(self) -> Numbers:
        """Return code, two numbers and trace for `hogshare.kernels.schedule.block_time_draws`."""
        first, second = (*(float(getattr(self, name)) for name in self._given), 0.0)[:2]
        return self._code, first, second, _NO_TRACE

    def draw(self, seed: int, worker: int, block: int) -> float:
        """Return the virtual seconds of a block.

        Parameters
        ----------
        seed : int
            At least 0 and below 2**32.
        worker : int
            The worker's number, from 0.
        block : int
            The number of blocks that the worker has completed before this block.
        """
        return float(codes.draw(*self.numbers(), seed, worker, block))


@dataclass(frozen=True)
class Constant(BlockTime):
    """Every block takes the same time.

    Parameters
    ----------
    seconds : float
        The time of a block, at least 0.

    Examples
    --------
    >>> from hogshare.simulation import Constant
    >>> Constant(0.5).draw(seed=0, worker=3, block=7)
    0.5
    """

    _code = codes.CONSTANT
    _given = ("seconds",)
    seconds: float
    mean: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        not_negative(seconds=self.seconds)
        object.__setattr__(self, "mean", float(self.seconds))


@dataclass(frozen=True)
class Exponential(BlockTime):
    """Block times without memory: most are short, a few are long.

    Parameters
    ----------
    mean : float, default=1.0
        Mean seconds of a block.

    Examples
    --------
    >>> from hogshare.simulation import Exponential
    >>> law = Exponential(2.0)
    >>> law.draw(seed=0, worker=3, block=7) == law.draw(seed=0, worker=3, block=7)
    True
    """

    _code = codes.EXPONENTIAL
    mean: float = 1.0

    def __post_init__(self) -> None:
        positive(mean=self.mean)


@dataclass(frozen=True)
class LogNormal(BlockTime):
    """Block times whose logarithm is normal, as measured on a busy machine.

    Parameters
    ----------
    mean : float
        Mean seconds of a block. (It is not the mean of the logarithm.)
    sigma : float
        Standard deviation of the logarithm. A small `sigma` is about equal to the standard
        deviation of the times divided by their mean.

    Examples
    --------
    >>> from hogshare.simulation import LogNormal
    >>> LogNormal(0.02, 0.5).mean
    0.02
    """

    _code = codes.LOG_NORMAL
    _given = ("mean", "sigma")
    mean: float
    sigma: float

    def __post_init__(self) -> None:
        positive(mean=self.mean)
        not_negative(sigma=self.sigma)


@dataclass(frozen=True)
class Gamma(BlockTime):
    """Block times with a gamma distribution: the sum of `shape` exponential times.

    Parameters
    ----------
    mean : float
        Mean seconds of a block.
    shape : float
        With shape 1 the law is `Exponential`; with larger shapes, times are more regular. The
        standard deviation is the mean divided by the square root of the shape.

    Examples
    --------
    >>> from hogshare.simulation import Gamma
    >>> Gamma(1.0, 4.0)
    Gamma(mean=1.0, shape=4.0)
    """

    _code = codes.GAMMA
    _given = ("mean", "shape")
    mean: float
    shape: float

    def __post_init__(self) -> None:
        positive(mean=self.mean, shape=self.shape)


@dataclass(frozen=True)
class Uniform(BlockTime):
    """Block times that are uniformly distributed between two bounds.

    Parameters
    ----------
    low, high : float
        Bounds in seconds, ``0 <= low <= high``.

    Examples
    --------
    >>> from hogshare.simulation import Uniform
    >>> 0.5 < Uniform(0.5, 1.5).draw(seed=0, worker=3, block=7) < 1.5
    True
    """

    _code = codes.UNIFORM
    _given = ("low", "high")
    low: float
    high: float
    mean: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        not_negative(low=self.low, high=self.high)
        if self.low > self.high:
            raise ValueError(f"low must not be above high; got {self.low!r} and {self.high!r}.")
        object.__setattr__(self, "mean", 0.5 * (float(self.low) + float(self.high)))


@dataclass(frozen=True)
class Measured(BlockTime):
    """Measured block times, drawn with equal chances and with replacement.

    Parameters
    ----------
    seconds : sequence of float
        The measured times: at least one, and each at least 0.

    Examples
    --------
    >>> from hogshare.simulation import Measured
    >>> Measured([0.25, 0.5]).draw(seed=0, worker=3, block=7) in (0.25, 0.5)
    True
    """

    seconds: Sequence[float]
    mean: float = field(init=False, repr=False, compare=False)
    _trace: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values = numbers(seconds=self.seconds)
        if not values:
            raise ValueError("seconds must have at least one entry; got none.")
        for value in values:
            not_negative(**{"every entry of seconds": value})
        object.__setattr__(self, "seconds", values)
        trace = np.array(values)
        trace.flags.writeable = False
        object.__setattr__(self, "_trace", trace)
        object.__setattr__(self, "mean", float(trace.mean()))

    def numbers(self) -> Numbers:
        """Return the law's code and trace; see `BlockTime.numbers`."""
        return codes.MEASURED, 0.0, 0.0, self._trace


def law_of(law: Any) -> BlockTime:
    """Return `law` if it is a law of block times; if it is text, parse it with `parse`.

    Raises
    ------
    ValueError
        If the text names no law.
    TypeError
        If `law` is neither a law nor text.
    """
    if isinstance(law, str):
        return parse(law)
    if not isinstance(law, BlockTime):
        raise TypeError(
            "a block time must be one of Constant(1.0), Exponential(1.0), LogNormal(1.0, 0.5), "
            "Gamma(1.0, 4.0), Uniform(0.5, 1.5) or Measured(seconds) of hogshare.simulation, or "
            f"text such as 'exponential:1.0'; got {law!r}."
        )
    return law


_NAMED: dict[str, Any] = {
    "constant": Constant,
    "exponential": Exponential,
    "lognormal": LogNormal,
    "gamma": Gamma,
    "uniform": Uniform,
}


def parse(text: str) -> BlockTime:
    """Parse a law in the format of the command line.

    Raises
    ------
    ValueError
        If the law is unknown, or the number or the values of its parameters are invalid.

    Examples
    --------
    >>> from hogshare.simulation.block_times import parse
    >>> parse("uniform:0.5,1.5")
    Uniform(low=0.5, high=1.5)
    """
    name, _, listed = text.strip().lower().partition(":")
    kind = _NAMED.get(name)
    try:
        if kind is None:
            raise ValueError(f"no law is named {name!r}.{nearest(name, _NAMED)}")
        made: BlockTime = kind(*(float(part) for part in listed.split(",") if listed))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{text!r} is not a law of block times: {sentence(error)} Write constant:SECONDS, "
            "exponential:MEAN, lognormal:MEAN,SIGMA, gamma:MEAN,SHAPE or uniform:LOW,HIGH."
        ) from None
    return made


def written(law: BlockTime) -> str:
    """Write a law in the format of `parse`; `Measured` has no such format, so write its mean."""
    for name, kind in _NAMED.items():
        if isinstance(law, kind):
            return f"{name}:{','.join(f'{getattr(law, each):g}' for each in law._given)}"
    return f"measured (mean {law.mean:g} s)"
