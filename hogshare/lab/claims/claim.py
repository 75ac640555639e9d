"""A claim of a paper: its statement, its measurement in this package, and the result.

`Claim.measure` returns the numbers of a claim for one seed. `reproduce` measures with every seed
and compares the medians with the paper's numbers (`Claim.agrees`). If the medians differ, it
compares them with the paper's direction (`Claim.partly`); `Claim.why` has the reason. The criteria
are: (1) a printed number agrees to within a fifth (`near`); (2) a printed range has no tolerance;
(3) for "up to" the largest number counts; (4) for statements without numbers the stated order
counts. A result is one dictionary of plain data:

    name, source, says, verdict (of `VERDICTS`), when, why, clock, runs_of
    here (the workload), quick, seeds, seconds, cores, version
    numbers   a list; each has key, what, printed (a number, text or None), median, low and high
              over seeds (None if infinite), and unknown. ``unknown`` is True if the number does
              not exist, for example the ratio of two runs that both miss their target. A claim
              with an unknown number differs
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hogshare._version import __version__
from hogshare.lab.harness.table_numbers import over_seeds
from hogshare.system.machine import usable_cores

AGREES, IN_PART, DIFFERS = "agrees", "in part", "differs"
UNMEASURED = "not measured"  # a stored result lacks a number that the claim needs today
VERDICTS = (AGREES, IN_PART, DIFFERS, UNMEASURED)
SLACK = 0.2  # relative tolerance: most printed numbers are read from a plot
VIRTUAL, REAL, NONE = "virtual", "this machine's", "none"
BOTH = "virtual, in full this machine's"

WORKLOAD = "here"  # the key of stored results, which must not change
MEASURED = {WORKLOAD, "quick", "seeds", "seconds", "cores", "version", "numbers"}

Found = Mapping[str, float]
Result = dict[str, Any]


@dataclass(frozen=True)
class ClaimNumber:
    """One number of a claim.

    what : the quantity, with its unit
    printed : the paper's number or phrase; None if the paper has none
    """

    what: str
    printed: float | str | None = None


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and its measurement in this package.

    name : name of the claim for ``hogshare reproduce``
    source : paper and figure, table or theorem
    says : the claim as a sentence
    workload : the measured runs and their data; stored with a result
    numbers : a `ClaimNumber` for each key that `measure` returns
    measure : ``measure(seed, quick)``, the numbers of one seed; a quick run may leave some out
    agrees : ``agrees(medians)``, whether the medians over seeds agree with the paper's numbers and
        direction
    when : the condition of `agrees`, as a clause
    partly : ``partly(medians)``, whether the medians have the paper's direction although a number
        or a part differs
    seconds : approximate seconds on two cores: of three quick seeds, and of five full ones
    why : the reason for a difference, or a remark; may be empty
    verdict : the expected verdict; unless it is `AGREES`, `why` has the reason
    verdict_quick : the expected verdict of the quick size; empty if it is the same
    clock : `VIRTUAL`, the same on every machine; `REAL`, which other load changes; `NONE`; or
        `BOTH`, virtual for the quick size and real for the full size
    is_seeded : whether seeds change the result; if not, the claim is measured once
    runs_of : name of an earlier claim with the same runs, which are not repeated; may be empty
    """

    name: str
    source: str
    says: str
    workload: str
    numbers: Mapping[str, ClaimNumber]
    measure: Callable[[int, bool], Found]
    agrees: Callable[[Found], bool]
    when: str
    seconds: tuple[int, int] = (1, 1)
    partly: Callable[[Found], bool] | None = None
    why: str = ""
    verdict: str = AGREES
    verdict_quick: str = ""
    clock: str = VIRTUAL
    is_seeded: bool = True
    runs_of: str = ""

    def expected(self, quick: bool) -> str:
        """Return the expected verdict at the quick or the full size."""
        return (quick and self.verdict_quick) or self.verdict


def reproduce(
    claim: Claim, seeds: Sequence[int], *, quick: bool, advance: Callable[[str], None]
) -> Result:
    """Measure a claim's numbers with every seed; return a result as described in the file head.

    seeds : all seeds; only the first one is used if seeds do not change the claim's result
    quick : whether to measure the quick size, which takes seconds; the full size takes minutes
    advance : called before each seed, with the names of claim and seed
    """
    began = time.perf_counter()
    found: list[Found] = []
    for seed in seeds if claim.is_seeded else seeds[:1]:
        advance(f"({claim.name}, seed {seed})")
        found.append(claim.measure(seed, quick))
    measured = {
        "quick": quick,
        "seeds": list(seeds[: len(found)]),
        WORKLOAD: claim.workload,
        "seconds": time.perf_counter() - began,
        "cores": usable_cores(),
        "version": __version__,
        "numbers": [
            {"key": key, **over_seeds([float(one[key]) for one in found])}
            for key in claim.numbers
            if key in found[0]
        ],
    }
    return renewed(claim, measured)


def renewed(claim: Claim, measured: Result) -> Result:
    """Combine stored measurements with the claim's current texts and verdict; return a new result.

    Numbers whose key the claim no longer has are left out.
    """
    numbers = {one["key"]: one for one in measured["numbers"] if one["key"] in claim.numbers}
    medians = {key: _median_of(one) for key, one in numbers.items()}
    return {
        "name": claim.name,
        "source": claim.source,
        "says": claim.says,
        "verdict": verdict_of(claim, medians),
        "when": claim.when,
        "why": claim.why,
        "clock": _clock_of(claim, measured["quick"]),
        "runs_of": claim.runs_of,
        **{name: measured[name] for name in sorted(MEASURED - {"numbers"})},
        "numbers": [
            {**one, "what": claim.numbers[key].what, "printed": claim.numbers[key].printed}
            for key, one in numbers.items()
        ],
    }


def verdict_of(claim: Claim, medians: Found) -> str:
    """Return the verdict on a claim's medians.

    It is `DIFFERS` if a median is NaN, and `UNMEASURED` if a number that the claim needs is
    missing.
    """
    if any(map(math.isnan, medians.values())):
        return DIFFERS
    try:
        if claim.agrees(medians):
            return AGREES
        return IN_PART if claim.partly and claim.partly(medians) else DIFFERS
    except KeyError:
        return UNMEASURED


def _clock_of(claim: Claim, quick: bool) -> str:
    """Return the clock of a run at the quick or the full size."""
    if claim.clock == BOTH:
        return VIRTUAL if quick else REAL
    return claim.clock


def _median_of(number: Mapping[str, Any]) -> float:
    """Return a stored number's median: NaN if it is unknown, infinity if it is None."""
    if number["unknown"]:
        return math.nan
    return math.inf if number["median"] is None else float(number["median"])


def near(value: float, printed: float) -> bool:
    """Whether a number is within a fifth of a printed number."""
    return abs(value / printed - 1.0) <= SLACK


def over(one: float | None, other: float | None) -> float:
    """Divide two numbers, each None or infinite if a target was not reached.

    The result is NaN if both are infinite or the divisor is 0.
    """
    above, below = (math.inf if value is None else value for value in (one, other))
    if math.isinf(above) and math.isinf(below):
        return math.nan
    return above / below if below else math.nan
