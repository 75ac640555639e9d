"""Barriers: when a worker may go on after a block, by the progress of the others.

A barrier reads clocks, the number of blocks that each worker has completed. It holds a worker
back *before* its next block. Workers that are starting, done or dead are outside of its world; who
joins late enters at the least clock of the others.

`hogshare.kernels.schedule.barrier_codes` has the compiled form of all but the user's own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from hogshare.kernels.schedule import barrier_codes as codes
from hogshare.shm.table import ProgressTable
from hogshare.system.messages import nearest, sentence
from hogshare.system.ranges import LARGEST, flag, is_integer, is_number, share, store_whole

ANY_NUMBER = 1 << 62  # of workers: no sample is as large
POLLS_PER_BLOCK = 20  # at a barrier that draws a new sample at each, if nothing else is said

UserBarrier = Callable[[ProgressTable, int], bool]


class BarrierError(RuntimeError):
    """A barrier of the user's has raised, answered neither yes nor no, or let nobody pass."""


@dataclass(frozen=True)
class ASP:
    """Asynchronous parallel: nobody waits.

    Examples
    --------
    >>> from hogshare import ASP
    >>> ASP()
    ASP()
    """


@dataclass(frozen=True)
class BSP:
    """Bulk synchronous parallel: all workers start the same block together.

    With private copies (`Shared` with an exchange) workers fold and claim in their order, so that
    the same seed and number of workers give the same model bit for bit, in threads and in
    processes.

    Source: Wang, Catterall and Mortier 2017, predicate (1); as a test of one worker,
    ``clock <= min(clocks)``.

    Examples
    --------
    >>> from hogshare import BSP
    >>> BSP()
    BSP()
    """


@dataclass(frozen=True)
class SSP:
    """Stale synchronous parallel: nobody is more than `staleness` blocks ahead of the last.

    Parameters
    ----------
    staleness : int or float
        Bound r of ``clock - min(clocks) <= r`` when a worker passes. 0 is `BSP`, infinity `ASP`.

    Notes
    -----
    Source: Ho et al. 2013; Wang et al. 2017, predicate (2). A worker that passes with a lead of r
    completes its block with a lead of up to r + 1.

    Examples
    --------
    >>> from hogshare import SSP
    >>> SSP(4)
    SSP(staleness=4)
    """

    staleness: float

    def __post_init__(self) -> None:
        _store_staleness(self)


@dataclass(frozen=True)
class PBSP:
    """Probabilistic BSP: nobody is ahead of anybody in a random sample of the others.

    Parameters
    ----------
    sample : int
        How many of the others' clocks are read, without replacement. As many as there are, or more,
        is `BSP`; 0 is `ASP`.
    hold : bool, default=False
        Keep a sample until it lets the worker pass, instead of drawing anew at every poll. (Who
        dies or joins changes it.) The paper does not say which; they differ by up to a factor of
        two in progress.

    Notes
    -----
    Source: Wang et al. 2017, predicate (4).

    Examples
    --------
    >>> from hogshare import PBSP
    >>> PBSP(10)
    PBSP(sample=10, hold=False)
    """

    sample: int
    hold: bool = False

    def __post_init__(self) -> None:
        store_whole(0, self, "sample")
        flag(hold=self.hold)


@dataclass(frozen=True)
class PSSP:
    """Probabilistic SSP: nobody is more than `staleness` blocks ahead of a random sample.

    Parameters
    ----------
    sample : int
        As of `PBSP`.
    staleness : int or float
        As of `SSP`; 0 is `PBSP`.
    hold : bool, default=False
        As of `PBSP`.

    Notes
    -----
    Source: Wang et al. 2017, predicate (5).

    Examples
    --------
    >>> from hogshare import PSSP
    >>> PSSP(10, 4)
    PSSP(sample=10, staleness=4, hold=False)
    """

    sample: int
    staleness: float
    hold: bool = False

    def __post_init__(self) -> None:
        store_whole(0, self, "sample")
        _store_staleness(self)
        flag(hold=self.hold)


@dataclass(frozen=True)
class Fraction:
    """Enough of the others are near: a share of them is at most `staleness` blocks behind.

    Parameters
    ----------
    share : float
        Between 0 and 1. 1 is `SSP`, or `PSSP` with a sample.
    staleness : int or float, default=0
        As of `SSP`.
    sample : int or None, default=None
        Of how many of the others; None: of all.
    hold : bool, default=False
        As of `PBSP`.

    Notes
    -----
    Source: an idea in Wang et al. 2017; the form is ours.

    Examples
    --------
    >>> from hogshare import Fraction
    >>> Fraction(0.75, staleness=2)
    Fraction(share=0.75, staleness=2, sample=None, hold=False)
    """

    share: float
    staleness: float = 0
    sample: int | None = None
    hold: bool = False

    def __post_init__(self) -> None:
        share(share=self.share)
        flag(hold=self.hold)
        _store_staleness(self)
        if self.sample is not None:
            store_whole(0, self, "sample")


@dataclass(frozen=True)
class Throttled:
    """Throttled release: who has completed a block waits until enough others have too.

    Parameters
    ----------
    available : int
        Workers that have to be waiting; then all who wait go on. If fewer are left in the run, all
        of them. 1 is `ASP`. With as many as there are workers all wait for each other, as behind
        `BSP`; but they go on in any order, so that the model is another one.

    Notes
    -----
    Source: Soori et al. 2019 (ASYNC), the barrier ``Available_Workers >= k``.

    Examples
    --------
    >>> from hogshare import Throttled
    >>> Throttled(22)
    Throttled(available=22)
    """

    available: int

    def __post_init__(self) -> None:
        store_whole(1, self, "available")


BuiltIn = ASP | BSP | SSP | PBSP | PSSP | Fraction | Throttled
Barrier = BuiltIn | UserBarrier


def _store_staleness(barrier: SSP | PSSP | Fraction) -> None:
    value: Any = barrier.staleness
    if is_number(value) and value == math.inf:
        return
    if not is_integer(value) or not 0 <= value <= LARGEST:
        raise ValueError(
            f"staleness must be a whole number of blocks, at least 0, or math.inf; got {value!r}."
        )
    object.__setattr__(barrier, "staleness", int(value))


def barrier_of(barrier: Any) -> Barrier:
    """The barrier that is meant: words are read as by `parse`, and `ASP` is `ASP()`.

    Parameters
    ----------
    barrier : Barrier, callable, str, class or None
        None is `ASP()`.

    Raises
    ------
    ValueError
        If the words name none.
    TypeError
        If it is no barrier, or the class of one that has numbers.
    """
    if barrier is None:
        return ASP()
    if isinstance(barrier, str):
        return parse(barrier)
    if isinstance(barrier, BuiltIn):
        return barrier
    if isinstance(barrier, type) and barrier in _NAMED.values():
        numbers = [field.name for field in fields(barrier) if field.default is MISSING]
        if numbers:
            asked = ", ".join(f"{name}=..." for name in numbers)
            raise TypeError(
                f"barrier: {barrier.__name__} is a class, and has no numbers yet: write "
                f"{barrier.__name__}({asked})."
            )
        made: BuiltIn = barrier()
        return made
    if isinstance(barrier, type) or not callable(barrier):
        raise TypeError(
            "barrier must be one of ASP(), BSP(), SSP(4), PBSP(10), PSSP(10, 4), Fraction(0.9), "
            "Throttled(8), one in words, such as 'bsp' or 'ssp:4', or a function (table, me) -> "
            f"bool; got {barrier!r}."
        )
    function: UserBarrier = barrier
    return function


def name_of(barrier: Barrier) -> str:
    """The barrier in words, for reports and errors."""
    if isinstance(barrier, BuiltIn):
        return repr(barrier)
    return getattr(barrier, "__qualname__", None) or repr(barrier)


def numbers_of(barrier: Barrier, n_workers: int) -> dict[str, Any]:
    """The fields of a run's plan that say which barrier holds."""
    numbers: dict[str, Any] = {
        "barrier": codes.LAG,
        "sample": codes.EVERYBODY,
        "staleness": 0,
        "share": 1.0,
        "hold": 0,
        "available": 0,
    }
    if not isinstance(barrier, BuiltIn):
        return {**numbers, "barrier": codes.ASKED}
    if isinstance(barrier, Throttled):
        return {**numbers, "barrier": codes.THROTTLED, "available": int(barrier.available)}
    given = asdict(barrier)
    staleness = given.get("staleness", 0)
    nobody = given.get("sample") == 0 or given.get("share") == 0.0 or staleness == math.inf
    if isinstance(barrier, ASP) or nobody:
        return {**numbers, "barrier": codes.FREE}
    numbers["staleness"] = int(staleness)
    numbers["share"] = float(given.get("share", 1.0))
    numbers["hold"] = int(given.get("hold", False))
    sample = given.get("sample")
    if sample is not None and sample < n_workers - 1:
        numbers["sample"] = int(sample)
    return numbers


def is_free(barrier: Barrier) -> bool:
    """Whether it holds nobody, whatever it is called and however many workers there are."""
    return bool(numbers_of(barrier, ANY_NUMBER)["barrier"] == codes.FREE)


def is_bsp(barrier: Barrier, n_workers: int) -> bool:
    """Whether it keeps workers in step, whatever it is called."""
    return numbers_of(barrier, n_workers) == numbers_of(BSP(), n_workers)


def ask(barrier: UserBarrier, table: ProgressTable, me: int) -> bool:
    """Ask a barrier of the user's.

    Raises
    ------
    BarrierError
        If it raises, or answers anything but True or False.
    """
    try:
        answer: Any = barrier(table, me)
    except Exception as error:
        raise BarrierError(
            f"The barrier {name_of(barrier)} raised {type(error).__name__}: {error}"
        ) from error
    if answer is True or answer is False:
        return answer
    if type(answer).__name__ in ("bool", "bool_"):  # NumPy's
        return bool(answer)
    raise BarrierError(
        f"The barrier {name_of(barrier)} answered {answer!r} ({type(answer).__name__}); it has to "
        "return True (go on) or False (wait)."
    )


_NAMED = {
    "asp": ASP,
    "bsp": BSP,
    "ssp": SSP,
    "pbsp": PBSP,
    "pssp": PSSP,
    "fraction": Fraction,
    "throttled": Throttled,
}
NAMES = tuple(_NAMED)


def parse(text: str) -> BuiltIn:
    """Read a barrier as it is written, on a command line or as an argument.

    Numbers in the order of the class's parameters, and a last word ``hold`` for ``hold=True``.

    Raises
    ------
    ValueError
        If there is no such barrier, or its numbers do not fit.

    Examples
    --------
    >>> from hogshare.barriers import parse
    >>> parse("pssp:10,4")
    PSSP(sample=10, staleness=4, hold=False)
    >>> parse("pbsp:10,hold")
    PBSP(sample=10, hold=True)
    """
    name, _, rest = text.strip().lower().partition(":")
    kind = _NAMED.get(name)
    try:
        if kind is None:
            raise ValueError(f"there is none of that name.{nearest(name, NAMES)}")
        words = [word.strip() for word in rest.split(",")] if rest else []
        numbers = [field for field in fields(kind) if field.name != "hold"]
        hold = words[-1:] == ["hold"] and len(numbers) < len(fields(kind))
        values = [_number(word) for word in words[: len(words) - hold]]
        least = sum(field.default is MISSING for field in numbers)
        if not least <= len(values) <= len(numbers):
            span = f"{least} to {len(numbers)}" if least < len(numbers) else str(least)
            raise ValueError(f"it takes {span} number{'s' * (span != '1')}, not {len(values)}")
        made: BuiltIn = kind(*values, **({"hold": True} if hold else {}))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{text!r} is no barrier: {sentence(error)} Write asp, bsp, "
            "ssp:STALENESS, pbsp:SAMPLE, pssp:SAMPLE,STALENESS, fraction:SHARE,STALENESS or "
            "throttled:AVAILABLE; who draws a sample keeps it with a last word hold, such as "
            "pbsp:10,hold."
        ) from None
    return made


def named(text: str) -> BuiltIn | None:
    """The built-in barrier of which `name_of` is the name; None for a function's.

    Examples
    --------
    >>> from hogshare.barriers import named
    >>> named("PSSP(sample=10, staleness=4, hold=False)")
    PSSP(sample=10, staleness=4, hold=False)
    """
    name, _, rest = text.partition("(")
    kind = _NAMED.get(name.lower())
    if kind is None or not rest.endswith(")"):
        return None
    words = {"True": True, "False": False, "None": None}
    pairs = (part.partition("=")[::2] for part in rest[:-1].split(", ") if part)
    made: BuiltIn = kind(**{key: words[v] if v in words else _number(v) for key, v in pairs})
    return made


def _number(text: str) -> float:
    try:
        return int(text) if re.fullmatch(r"\s*\d+\s*", text) else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
