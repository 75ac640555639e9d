"""Format results of claims: their numbers, and the page of all results in Markdown."""

from __future__ import annotations

import itertools
from typing import Any

from hogshare.io.tables import cell
from hogshare.lab.claims.claim import AGREES, DIFFERS, IN_PART, UNMEASURED, WORKLOAD, Claim
from hogshare.system.messages import counted

HEAD = """\
# The papers' figures, measured again

`hogshare reproduce` writes this page with `--page`. Each table has the paper's printed number, and
the median and the range over seeds of the measured number. A printed number agrees if the measured
one is within a fifth of it, since most are read from a plot; a printed range has no tolerance. For
"up to" the largest measured number counts, and for statements and figures without numbers the
stated order. A claim agrees *in part* if its direction is found, but a number or a part of it is
not; the note gives the reason. "Not reached" means that a run did not reach its target. "A over B"
means A divided by B. Results on a virtual clock are the same on every machine. A claim is measured
in full if the page does not say "quick"; quick runs have a smaller size.
"""
VERDICTS = {
    AGREES: "It agrees",
    IN_PART: "**It agrees in part**",
    DIFFERS: "**It differs**",
    UNMEASURED: "**A number that the claim needs was not measured**",
}
PAPERS = {
    "async": "ASYNC: asynchronous tasks",
    "psp": "PSP: sampled barriers",
    "asap": "ASAP: reduces on graphs",
    "asysg": "AsySG: consistent and inconsistent reads",
    "hogwild": "Hogwild!",
    "asaga": "ASAGA",
    "gaia": "Gaia: centres on slow links",
}


def summary_of(results: list[dict[str, Any]]) -> str:
    """Return a phrase with the number of claims that agree, and that agree in part."""
    verdicts = [result["verdict"] for result in results]
    return (
        f"{verdicts.count(AGREES)} of {len(results)} agree by the papers' own numbers, "
        f"{verdicts.count(IN_PART)} in part"
    )


def printed_of(claim: Claim) -> str:
    """Return a short text with the paper's numbers."""
    printed = dict.fromkeys(one.printed for one in claim.numbers.values())
    return ", ".join(in_words(one) for one in printed if one is not None) or "in words"


def in_words(printed: float | str | None) -> str:
    """Format a printed number."""
    return "-" if printed is None else printed if isinstance(printed, str) else f"{printed:g}"


def shown(value: float | None) -> str:
    """Format a measured number; None means infinity: the target was not reached."""
    return "not reached" if value is None else cell(value)


def range_of(one: dict[str, Any]) -> str:
    """Format the range over seeds."""
    if one["low"] == one["high"] is not None:
        return "-"
    return f"{shown(one['low'])} to {shown(one['high'])}"


def page_of(results: list[dict[str, Any]], picture: str | None = None) -> str:
    """Make the page, in Markdown, with a section for each paper and a table for each claim.

    picture : the file of the figure, if any
    """
    parts = [HEAD, f"{summary_of(results)}.\n"]
    if picture:
        parts.append(f"![Numbers found over numbers printed]({picture})\n")
    parts.append(_index(results))
    for paper, of_paper in itertools.groupby(results, lambda one: one["name"].split("-")[0]):
        parts += [f"## {PAPERS[paper]}\n", *map(section_of, of_paper)]
    return "\n".join(parts)


def _index(results: list[dict[str, Any]]) -> str:
    """Make a table with a line for each claim."""
    lines = ["| claim | says | verdict |", "|---|---|---|"]
    for result in results:
        verdict = result["verdict"]
        verdict = verdict if verdict == AGREES else f"**{verdict}**"
        name = result["name"]
        lines.append(f"| [{name}](#{name}) | {_cell(result['says'])} | {verdict} |")
    return "\n".join([*lines, ""])


def section_of(result: dict[str, Any]) -> str:
    """Make a claim's heading, table and sentences."""
    size = "quick" if result["quick"] else "in full"
    shared = f" (it uses the runs of {result['runs_of']})" if result["runs_of"] else ""
    lines = [
        f"### {result['name']}",
        "",
        f"{result['source']}: {result['says']}",
        "",
        "| number | printed | measured | range |",
        "|---|---|---|---|",
        *(
            f"| {_cell(one['what'])} | {_cell(in_words(one['printed']))} | {shown(one['median'])} "
            f"| {range_of(one)} |"
            for one in result["numbers"]
        ),
        "",
        f"- Workload: {result[WORKLOAD]}. Clock: {result['clock']}. "
        f"{counted(len(result['seeds']), 'seed')}, {size}, {result['seconds']:.1f} s on "
        f"{counted(result['cores'], 'core')}{shared}.",
        f"- {VERDICTS[result['verdict']]}. Criterion: {result['when']}.",
        *([f"- Note: {result['why']}"] if result["why"] else []),
        "",
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Escape text for a table's cell."""
    return text.replace("|", "\\|")
