"""Convert a finished race to plain data: the measurements, and a table by target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from hogshare.lab.harness.table_numbers import median
from hogshare.lab.rivals.race_state import Entry, Race, Run
from hogshare.solvers import outcome

# an error of F* beyond this share of the tightest target makes a race doubtful
DOUBTFUL = 0.01


def result(course: Race, entries: Sequence[Entry]) -> dict[str, Any]:
    """Gather all results as plain data."""
    plan, discipline = course.plan, course.discipline
    for run in course.runs:
        distance = course.distance(run)
        run["suboptimality"] = distance if math.isfinite(distance) else None
    contestants = [facts(entry) for entry in entries]
    return {
        "what": discipline.what,
        "measure": discipline.measure,
        "settings": {
            **discipline.settings,
            "targets": list(plan.targets),
            "workers": plan.workers,
            "rounds": plan.rounds,
            "limit": plan.limit,
            "seed": plan.seed,
        },
        "data": discipline.facts,
        "reference": {
            "objective": course.lowest,
            "found_by": course.reference.method
            if course.lowest == course.reference.value
            else "a contestant",
            "method": course.reference.method,
            "bound": course.reference.bound,
            "seconds": course.reference.seconds,
            "at_zero": discipline.at_start(),
        },
        "versions": outcome.versions() | versions(entries),
        "machine": outcome.machine(),
        "contestants": contestants,
        "runs": course.runs,
        "table": tabulate(contestants, course.runs, plan.targets),
        "notes": notes(course),
    }


def facts(entry: Entry) -> dict[str, Any]:
    """Return the facts of a contestant besides its fits."""
    contestant = entry.contestant
    return {
        "name": contestant.name,
        "library": contestant.library,
        "unit": contestant.unit,
        "reason": entry.reason,
        "prepare_seconds": entry.prepare_seconds,
        "warm_up_seconds": entry.warm_up_seconds,
        "rounds": entry.rounds,
        "grid": entry.grid,
        "kept": [{"target": t, "setting": setting} for t, setting in entry.chosen.items()],
    }


def tabulate(
    contestants: Sequence[dict[str, Any]], runs: Sequence[Run], targets: Sequence[float]
) -> list[dict[str, Any]]:
    """Return a row for each contestant and target, with the seconds over its rounds.

    A round that does not reach the target counts as infinitely long. If half of the rounds do not
    reach the target, the median is None. Setting and budget are those of the median round.
    """
    table = []
    for contestant in contestants:
        good = [
            run
            for run in sorted(runs, key=lambda run: run["seconds"] or 0.0)
            if run["contestant"] == contestant["name"] and run["suboptimality"] is not None
        ]
        for target in targets:
            fastest: list[Run | None] = [None] * contestant["rounds"]
            for run in reversed(good):
                if run["round"] >= 0 and run["suboptimality"] <= target:
                    fastest[run["round"]] = run
            reached = [run for run in fastest if run is not None]
            known = [run["seconds"] for run in reached]
            row: dict[str, Any] = {
                "contestant": contestant["name"],
                "target": target,
                "seconds": median([*known, *[None] * (len(fastest) - len(known))] or [None]),
                "fastest": min(known, default=None),
                "slowest": max(known, default=None) if len(known) == len(fastest) else None,
                "rounds": contestant["rounds"],
                "reached": len(reached),
                "setting": None,
                "budget": None,
            }
            if row["seconds"] is not None:
                middle = min(reached, key=lambda run: abs(run["seconds"] - row["seconds"]))
                row["setting"] = contestant["grid"][middle["setting"]]
                row["budget"] = middle["budget"]
            table.append(row)
    return table


def versions(entries: Sequence[Entry]) -> dict[str, str]:
    """Return the versions of the contestants' installed libraries."""
    found = {}
    for library in sorted({entry.contestant.library for entry in entries}):
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found


def notes(course: Race) -> list[str]:
    """Return warnings on the result."""
    bound, tightest = course.reference.bound, course.plan.targets[-1]
    share = DOUBTFUL * tightest * course.lowest
    found = []
    if bound is None:
        found.append("the distance of the reference from the optimum is unknown")
    elif bound > share:
        found.append(f"the reference may be {bound / course.lowest:.1g} above the optimum")
    gained = course.reference.value - course.lowest
    if gained > share:
        found.append(f"a contestant was {gained / course.lowest:.1g} below the reference")
    return found
