"""Barriers: they decide, from the other workers' progress, when a worker may start its next block.

A barrier reads the workers' clocks, that is, the number of blocks that each worker has completed.
It makes a worker wait *before* its next block. It ignores workers that are starting, done or dead.
A worker that joins late starts with the least clock of the other workers.

`hogshare.kernels.schedule.barrier_codes` has the compiled forms of the built-in barriers.
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

ANY_NUMBER = 1 << 62  # number of workers, above any sample
POLLS_PER_BLOCK = 20  # default for a barrier that draws a new sample at each poll

UserBarrier = Callable[[ProgressTable, int], bool]


class BarrierError(RuntimeError):
    """The user's barrier has raised an error, not returned a bool, or let no worker pass."""


@dataclass(frozen=True)
class ASP:
    """Asynchronous parallel: no worker waits.

    Examples
    --------
    >>> from hogshare import ASP
    >>> ASP()
    ASP()
    """


@dataclass(frozen=True)
class BSP:
    """Bulk synchronous parallel: all workers start the same block together.

    With private copies (`Shared` with an exchange), workers fold their changes and claim blocks in
    the order of their numbers. The same seed and number of workers then give the same model bit for
    bit, in threads and in processes.

    Source: Wang, Catterall and Mortier 2017, predicate (1). A worker passes if
    ``clock <= min(clocks)``.

    Examples
    --------
    >>> from hogshare import BSP
    >>> BSP()
    BSP()
    """


@dataclass(frozen=True)
class SSP:
    """Stale synchronous parallel: no worker is more than `staleness` blocks ahead of the slowest.

    Parameters
    ----------
    staleness : int or float
        The bound r: a worker passes if ``clock - min(clocks) <= r``. 0 is `BSP`, infinity is `ASP`.

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
    """Probabilistic BSP: a worker waits while it is ahead of any worker in a random sample.

    Parameters
    ----------
    sample : int
        Number of other workers whose clocks are read, drawn without replacement. If it is at least
        the number of all other workers, the barrier is `BSP`. If it is 0, the barrier is `ASP`.
    hold : bool, default=False
        Whether to reuse a sample until it lets the worker pass, instead of drawing a new one at
        every poll. (The sample also changes when a worker dies or joins.) The paper does not say
        whether it reuses samples. The progress with and without reuse differs by up to a factor of
        two.

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
    """Probabilistic SSP: a worker may be up to `staleness` blocks ahead of a random sample.

    Parameters
    ----------
    sample : int
        As in `PBSP`.
    staleness : int or float
        As in `SSP`; 0 is `PBSP`.
    hold : bool, default=False
        As in `PBSP`.

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
    """Fraction barrier: a share of the other workers must be at most `staleness` blocks behind.

    Parameters
    ----------
    share : float
        Least share of the other workers, between 0 and 1. With a share of 1, the barrier is `SSP`,
        or `PSSP` if there is a sample.
    staleness : int or float, default=0
        As in `SSP`.
    sample : int or None, default=None
        Number of other workers to sample. None: all other workers.
    hold : bool, default=False
        As in `PBSP`.

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
    """Throttled release: after a block, a worker waits until enough workers wait.

    Parameters
    ----------
    available : int
        When this number of workers wait, all of them go on. If fewer workers are left in the run,
        their number is used instead. 1 is `ASP`. If it is the number of workers, all workers wait
        for each other as in `BSP`, but they go on in any order. This gives a different model.

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
    object.__setattr__(barrier, "staleness", int(value))  # the dataclass is frozen


def barrier_of(barrier: Any) -> Barrier:
    """Return the barrier that an argument specifies.

    Parameters
    ----------
    barrier : Barrier, callable, str, class or None
        A str is read by `parse`. A class is called without arguments, so `ASP` is `ASP()`. None
    stands for `ASP()`.

    Raises
    ------
    ValueError
        If a str is not the name of a barrier.
    TypeError
        If the argument is not a barrier, or is a class with required parameters.
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
                f"barrier is the class {barrier.__name__}, which needs parameters: pass "
                f"{barrier.__name__}({asked})."
            )
        made: BuiltIn = barrier()
        return made
    if isinstance(barrier, type) or not callable(barrier):
        raise TypeError(
            "barrier must be one of ASP(), BSP(), SSP(4), PBSP(10), PSSP(10, 4), Fraction(0.9), "
            "Throttled(8), a name such as 'bsp' or 'ssp:4', or a function (table, me) -> bool; got "
            f"{barrier!r}."
        )
    function: UserBarrier = barrier
    return function


def name_of(barrier: Barrier) -> str:
    """Return the barrier's name, for reports and errors."""
    if isinstance(barrier, BuiltIn):
        return repr(barrier)
    return getattr(barrier, "__qualname__", None) or repr(barrier)


def numbers_of(barrier: Barrier, n_workers: int) -> dict[str, Any]:
    """Return the fields of a run's plan that define its barrier."""
    numbers: dict[str, Any] = {
        "barrier": codes.LAG,
        "sample": codes.EVERYBODY,
        "staleness": 0,
        "share": 1.0,
        "reuses": 0,
        "available": 0,
    }
    if not isinstance(barrier, BuiltIn):
        return {**numbers, "barrier": codes.ASKED}
    if isinstance(barrier, Throttled):
        return {**numbers, "barrier": codes.THROTTLED, "available": int(barrier.available)}
    given = asdict(barrier)
    staleness = given.get("staleness", 0)
    never_waits = given.get("sample") == 0 or given.get("share") == 0.0 or staleness == math.inf
    if isinstance(barrier, ASP) or never_waits:
        return {**numbers, "barrier": codes.FREE}
    numbers["staleness"] = int(staleness)
    numbers["share"] = float(given.get("share", 1.0))
    numbers["reuses"] = int(given.get("hold", False))
    sample = given.get("sample")
    # a sample of all other workers needs no draw: EVERYBODY
    if sample is not None and sample < n_workers - 1:
        numbers["sample"] = int(sample)
    return numbers


def is_free(barrier: Barrier) -> bool:
    """Whether a barrier of any name never makes a worker wait, for any number of workers."""
    return bool(numbers_of(barrier, ANY_NUMBER)["barrier"] == codes.FREE)


def is_bsp(barrier: Barrier, n_workers: int) -> bool:
    """Whether a barrier of any name is equivalent to `BSP` for this number of workers."""
    return numbers_of(barrier, n_workers) == numbers_of(BSP(), n_workers)


def ask(barrier: UserBarrier, table: ProgressTable, me: int) -> bool:
    """Call a barrier that the user has defined.

    Raises
    ------
    BarrierError
        If the barrier raises, or returns anything but True or False.
    """
    try:
        answer: Any = barrier(table, me)
    except Exception as error:
        raise BarrierError(
            f"The barrier {name_of(barrier)} raised {type(error).__name__}: {error}"
        ) from error
    if answer is True or answer is False:
        return answer
    if type(answer).__name__ in ("bool", "bool_"):  # NumPy's bool
        return bool(answer)
    raise BarrierError(
        f"The barrier {name_of(barrier)} returned {answer!r} ({type(answer).__name__}); it must "
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
    """Read a barrier from the text of a command line or an argument.

    The text is a name. A colon and the parameters, in the order of the class, may follow. A final
    ``hold`` means ``hold=True``.

    Raises
    ------
    ValueError
        If there is no such barrier, or if the number of parameters or one of their values is not
        valid.

    Examples
    --------
    >>> from hogshare.barriers import parse
    >>> parse("pssp:10,4")
    PSSP(sample=10, staleness=4, hold=False)
    >>> parse("pbsp:10,hold")
    PBSP(sample=10, hold=True)
    """
    name, _, listed = text.strip().lower().partition(":")
    kind = _NAMED.get(name)
    try:
        if kind is None:
            raise ValueError(f"there is none of that name.{nearest(name, NAMES)}")
        entries = [entry.strip() for entry in listed.split(",")] if listed else []
        numbers = [field for field in fields(kind) if field.name != "hold"]
        reuses = entries[-1:] == ["hold"] and len(numbers) < len(fields(kind))
        values = [_number(entry) for entry in entries[: len(entries) - reuses]]
        least = sum(field.default is MISSING for field in numbers)
        if not least <= len(values) <= len(numbers):
            span = f"{least} to {len(numbers)}" if least < len(numbers) else str(least)
            raise ValueError(f"it takes {span} number{'s' * (span != '1')}, not {len(values)}")
        made: BuiltIn = kind(*values, **({"hold": True} if reuses else {}))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{text!r} is not a barrier: {sentence(error)} Write asp, bsp, "
            "ssp:STALENESS, pbsp:SAMPLE, pssp:SAMPLE,STALENESS, fraction:SHARE,STALENESS or "
            "throttled:AVAILABLE; with a sample, end with ,hold to reuse it until it lets a worker "
            "pass, such as pbsp:10,hold."
        ) from None
    return made


def named(text: str) -> BuiltIn | None:
    """Return the built-in barrier whose `name_of` is `text`, or None for a function's name.

    Examples
    --------
    >>> from hogshare.barriers import named
    >>> named("PSSP(sample=10, staleness=4, hold=False)")
    PSSP(sample=10, staleness=4, hold=False)
    """
    name, _, listed = text.partition("(")
    kind = _NAMED.get(name.lower())
    if kind is None or not listed.endswith(")"):
        return None
    constants = {"True": True, "False": False, "None": None}
    pairs = (part.partition("=")[::2] for part in listed[:-1].split(", ") if part)
    values = {k: constants[v] if v in constants else _number(v) for k, v in pairs}
    made: BuiltIn = kind(**values)
    return made


def _number(text: str) -> float:
    try:
        return int(text) if re.fullmatch(r"\s*\d+\s*", text) else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
