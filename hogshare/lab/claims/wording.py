"""How numbers of claims are written, on a terminal and on a page."""

from __future__ import annotations

from typing import Any

from hogshare.io.tables import cell
from hogshare.lab.claims.claim import AGREES, IN_PART, Claim


def summary_of(results: list[dict[str, Any]]) -> str:
    """How many claims agree."""
    verdicts = [result["verdict"] for result in results]
    return (
        f"{verdicts.count(AGREES)} of {len(results)} agree by the papers' own numbers, "
        f"{verdicts.count(IN_PART)} in part"
    )


def printed_of(claim: Claim) -> str:
    """The paper's numbers, in a few words."""
    told = list(dict.fromkeys(one.printed for one in claim.numbers.values()))
    return ", ".join(in_words(one) for one in told if one is not None) or "in words"


def in_words(printed: float | str | None) -> str:
    """A printed number as it is shown."""
    return "-" if printed is None else printed if isinstance(printed, str) else f"{printed:g}"


def told(value: float | None) -> str:
    """A number of ours as it is shown; None stands for infinity: the target is not reached."""
    return "not reached" if value is None else cell(value)


def range_of(one: dict[str, Any]) -> str:
    """From the least to the most over seeds."""
    if one["low"] == one["high"] is not None:
        return "-"
    return f"{told(one['low'])} to {told(one['high'])}"
