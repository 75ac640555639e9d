"""A claim of a paper: what it says, what is measured for it here, and what was found.

A claim names its numbers. `Claim.measure` gives them for one seed; `reproduce` repeats that over
seeds, and asks of the medians whether they are the paper's own numbers (`Claim.agrees`), and where
they are not, whether the direction is the paper's at least (`Claim.partly`); `Claim.why` is then
the reason. What is asked: a printed number to within a fifth (`near`), a printed range without
slack, the largest of what is printed as "up to"; of words, the order that they say. A result is one
dictionary of plain data:

    name, source, says, verdict (of `VERDICTS`), when, why, clock, runs_of
    here, quick, seeds, seconds, cores, version   how it was measured
    numbers   a list; each has key, what, printed (a number, words or None), median, low and high
              over seeds (None where it is infinite), and unknown: whether there is none, as of a
              ratio of two runs that both miss their target. With one unknown nothing agrees
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
UNMEASURED = "not measured"  # a stored result that lacks a number which is asked for today
VERDICTS = (AGREES, IN_PART, DIFFERS, UNMEASURED)
SLACK = 0.2  # by which a number may be off a printed one, most of which are read from a plot
VIRTUAL, REAL, NONE = "virtual", "this machine's", "none"
BOTH = "virtual, in full this machine's"

MEASURED = {"here", "quick", "seeds", "seconds", "cores", "version", "numbers"}

Found = Mapping[str, float]
Result = dict[str, Any]


@dataclass(frozen=True)
class ClaimNumber:
    """One number of a claim.

    what : what it counts, with its unit
    printed : the paper's number, or how it puts it in words; None where it has none
    """

    what: str
    printed: float | str | None = None


@dataclass(frozen=True)
class Claim:
    """What a paper says, and how it is looked at here.

    name : what ``hogshare reproduce`` calls it
    source : paper and figure, table or theorem
    says : the claim
    here : the workload here, and whose clock counts: a machine's or a virtual one
    numbers : by the keys that `measure` returns
    measure : ``measure(seed, quick)``, the numbers of one seed; quick some may be left out
    agrees : whether medians over seeds are the paper's own numbers and have its direction
    when : the same as a sentence
    partly : whether their direction is the paper's, where a number or a part of the claim is not
    seconds : rough seconds of three seeds quick, and of five in full, on two cores
    why : what makes the difference, where there is one
    verdict : what is found here; unless it is `AGREES`, the reason is in `why`
    verdict_quick : of the small size, where that is another
    clock : whose: `VIRTUAL`, which is the same on every machine; `REAL`, which a busy one changes;
        `NONE`; `BOTH`, the first quick and the second in full
    is_seeded : whether seeds change anything; else it is measured once
    runs_of : claim whose runs these are; after it nothing is run again
    """

    name: str
    source: str
    says: str
    here: str
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
        """The verdict that is known, by the size."""
        return (quick and self.verdict_quick) or self.verdict


def reproduce(
    claim: Claim, seeds: Sequence[int], *, quick: bool, advance: Callable[[str], None]
) -> Result:
    """Measure a claim's numbers with every seed; the head of this file says what a result has.

    quick : at the size that takes seconds, else at the one that takes minutes
    advance : called before each seed, with words for it
    """
    began = time.perf_counter()
    found: list[Found] = []
    for seed in seeds if claim.is_seeded else seeds[:1]:
        advance(f"({claim.name}, seed {seed})")
        found.append(claim.measure(seed, quick))
    measured = {
        "quick": quick,
        "seeds": list(seeds[: len(found)]),
        "here": claim.here,
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
    """What was measured, perhaps long ago, in the claim's words of today and by its judgement."""
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
    """Whether numbers are the paper's, or in part; what is unknown differs."""
    if any(map(math.isnan, medians.values())):
        return DIFFERS
    try:
        if claim.agrees(medians):
            return AGREES
        return IN_PART if claim.partly and claim.partly(medians) else DIFFERS
    except KeyError:
        return UNMEASURED


def _clock_of(claim: Claim, quick: bool) -> str:
    """Whose clock counted."""
    if claim.clock == BOTH:
        return VIRTUAL if quick else REAL
    return claim.clock


def _median_of(number: Mapping[str, Any]) -> float:
    """A stored number's median, or what None stands for in it."""
    if number["unknown"]:
        return math.nan
    return math.inf if number["median"] is None else float(number["median"])


def near(value: float, printed: float) -> bool:
    """Whether a number is within a fifth of a printed one."""
    return abs(value / printed - 1.0) <= SLACK


def over(one: float | None, other: float | None) -> float:
    """How many times another a number is; None and infinity say that a target was not reached."""
    above, below = (math.inf if value is None else value for value in (one, other))
    if math.isinf(above) and math.isinf(below):
        return math.nan
    return above / below if below else math.nan
