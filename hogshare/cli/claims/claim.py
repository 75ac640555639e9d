"""A claim of a paper: what it says, what is measured for it here, and what was found.

A claim names its numbers. `Claim.measure` gives them for one seed; `reproduce` repeats that over
seeds, and asks `Claim.agrees` of the medians whether the direction is the paper's. Where it is not,
or where a number is far off, `Claim.why` is the reason. A result is one dictionary of plain data:

    name, source, says, here, agrees, when, why, quick, seeds, seconds, cores, version
    numbers   a list; each has key, what, printed (a number, words or None), median, low and high
              over seeds (None where it is infinite)
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hogshare._version import __version__
from hogshare.machine import usable_cores

VIRTUAL, REAL = "virtual", "this machine's"
BOTH = "virtual, in full this machine's"

Found = Mapping[str, float]
Result = dict[str, Any]


@dataclass(frozen=True)
class Number:
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
    agrees : whether medians over seeds say what the paper says
    when : the same as a sentence
    seconds : rough seconds of three seeds quick, and of five in full, on two cores
    why : what makes the difference, where there is one
    differs : that it is known not to agree here, for the reason in `why`
    clock : whose: `VIRTUAL`, which is the same on every machine; `REAL`, which a busy one changes;
        or quick the first and in full the second
    """

    name: str
    source: str
    says: str
    here: str
    numbers: Mapping[str, Number]
    measure: Callable[[int, bool], Found]
    agrees: Callable[[Found], bool]
    when: str
    seconds: tuple[int, int]
    why: str = ""
    differs: bool = False
    clock: str = VIRTUAL


def reproduce(
    claim: Claim, seeds: Sequence[int], *, quick: bool, advance: Callable[[str], None]
) -> Result:
    """Measure a claim's numbers with every seed.

    Parameters
    ----------
    claim : Claim
    seeds : sequence of int
    quick : bool
        At the size that takes seconds, else at the one that takes minutes.
    advance : callable
        Told what comes next, before each seed.

    Returns
    -------
    dict
        See the head of this file.
    """
    began = time.perf_counter()
    found: list[Found] = []
    for seed in seeds:
        advance(f"({claim.name}, seed {seed})")
        found.append(claim.measure(seed, quick))
    measured = {
        "quick": quick,
        "seeds": list(seeds),
        "seconds": time.perf_counter() - began,
        "cores": usable_cores(),
        "version": __version__,
        "numbers": [
            {"key": key, **_over_seeds([float(one[key]) for one in found])}
            for key in claim.numbers
            if key in found[0]
        ],
    }
    return renewed(claim, measured)


def renewed(claim: Claim, measured: Result) -> Result:
    """What was measured, perhaps long ago, in the claim's words of today and by its judgement.

    Raises
    ------
    KeyError, TypeError
        If that is no result of the claim.
    """
    numbers = [one for one in measured["numbers"] if one["key"] in claim.numbers]
    medians = {
        one["key"]: math.inf if one["median"] is None else float(one["median"]) for one in numbers
    }
    words = {key: (told.what, told.printed) for key, told in claim.numbers.items()}
    return {
        "name": claim.name,
        "source": claim.source,
        "says": claim.says,
        "here": claim.here,
        "agrees": bool(claim.agrees(medians)),
        "when": claim.when,
        "why": claim.why,
        **{name: measured[name] for name in ("quick", "seeds", "seconds", "cores", "version")},
        "numbers": [
            {**one, "what": words[one["key"]][0], "printed": words[one["key"]][1]}
            for one in numbers
        ],
    }


def _over_seeds(values: Sequence[float]) -> dict[str, float | None]:
    """Median, least and most; what is not finite is None, which JSON has."""
    found = statistics.median(values), min(values), max(values)
    return {
        name: value if math.isfinite(value) else None
        for name, value in zip(("median", "low", "high"), found, strict=True)
    }
