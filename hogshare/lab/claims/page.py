"""A page of results: a section for each paper, a table for each claim."""

from __future__ import annotations

from typing import Any

from hogshare.lab.claims.claim import AGREES, DIFFERS, IN_PART, UNMEASURED
from hogshare.lab.claims.wording import in_words, range_of, summary_of, told
from hogshare.system.words import counted

HEAD = """\
# The papers' figures, measured again

Made by `hogshare reproduce`, with `--page`. For each claim: what the paper printed, the median here
and its range over seeds, and whether they agree. Asked is the paper's own number: one that is
printed to within a fifth, since most are read from a plot; a printed range without slack; the
largest of what is printed as "up to"; of words, and of figures without numbers, the order that they
say. A claim agrees *in part* where its direction is found, and a number or a part of it is not;
the note says why. "Not reached" is a target that a run did not come to. What is on a virtual clock
is the same on every machine.
"""
VERDICTS = {
    AGREES: "It agrees",
    IN_PART: "**It agrees in part**",
    DIFFERS: "**It differs**",
    UNMEASURED: "**A number that is asked for was not measured**",
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


def page_of(results: list[dict[str, Any]], picture: str | None = None) -> str:
    """The page, in Markdown.

    picture : file beside it that shows the numbers, if there is one
    """
    parts = [HEAD, f"{summary_of(results)}.\n"]
    if picture:
        parts.append(f"![Numbers found over numbers printed]({picture})\n")
    parts.append(_index(results))
    heading = None
    for result in results:
        paper = PAPERS[result["name"].split("-")[0]]
        if paper != heading:
            parts.append(f"## {paper}\n")
            heading = paper
        parts.append(section_of(result))
    return "\n".join(parts)


def _index(results: list[dict[str, Any]]) -> str:
    """A line for each claim."""
    lines = ["| claim | says | verdict |", "|---|---|---|"]
    for result in results:
        verdict = result["verdict"]
        verdict = verdict if verdict == AGREES else f"**{verdict}**"
        name = result["name"]
        lines.append(f"| [{name}](#{name}) | {_cell(result['says'])} | {verdict} |")
    return "\n".join([*lines, ""])


def section_of(result: dict[str, Any]) -> str:
    """A claim's heading, table and sentences."""
    size = "quick" if result["quick"] else "in full"
    lines = [
        f"### {result['name']}",
        "",
        f"{result['source']}: {result['says']}",
        "",
        "| number | printed | here | range |",
        "|---|---|---|---|",
        *(
            f"| {_cell(one['what'])} | {_cell(in_words(one['printed']))} | {told(one['median'])} "
            f"| {range_of(one)} |"
            for one in result["numbers"]
        ),
        "",
        f"- Here: {result['here']}. Clock: {result['clock']}. "
        f"{counted(len(result['seeds']), 'seed')}, {size}, {_time(result)}.",
        f"- {VERDICTS[result['verdict']]}; what is asked is that {result['when']}.",
        *([f"- Note: {result['why']}"] if result["why"] else []),
        "",
    ]
    return "\n".join(lines)


def _time(result: dict[str, Any]) -> str:
    """What measuring took, and where another claim's runs served."""
    shared = f", on the runs of {result['runs_of']}" if result["runs_of"] else ""
    return f"{result['seconds']:.1f} s on {counted(result['cores'], 'core')}{shared}"


def _cell(text: str) -> str:
    """Text that does not end a table's cell."""
    return text.replace("|", "\\|")
