"""Race against other libraries, and print the standings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hogshare.cli import console
from hogshare.io.tables import cell
from hogshare.lab.experiments.measure.speedup import machine_warnings
from hogshare.lab.rivals.contestant import Kind
from hogshare.lab.rivals.course import Plan
from hogshare.lab.rivals.discipline import Discipline
from hogshare.lab.rivals.race import race


def measure(discipline: Discipline, kinds: Sequence[Kind], args: Any) -> dict[str, Any]:
    """Race as the options ask for, with progress on standard error."""
    import joblib

    plan = Plan(
        targets=args.targets,
        workers=args.workers or joblib.cpu_count(),
        rounds=args.rounds,
        limit=args.limit,
        seed=args.seed,
    )
    for warning in machine_warnings([plan.workers]):
        console.say(f"hogshare: warning: {warning}")
    # a reference, and for each a warm-up, a tuning and its rounds, if nobody drops out
    steps = 1 + len(kinds) * (2 + plan.rounds)
    with console.progress(steps, "race") as progress:
        result = race(discipline, kinds, plan, progress.advance)
    result["settings"] |= {"problem": args.problem, "data": args.data}
    for note in result["notes"]:
        console.say(f"hogshare: warning: {note}")
    return result


def show(result: dict[str, Any]) -> None:
    """Print a line for each contestant, the fastest to the tightest target first."""
    targets = result["settings"]["targets"]
    lines = sorted((line_of(result, who) for who in result["contestants"]), key=rank)
    console.show_table(
        ["contestant", *(f"to {target:g}" for target in targets), "with", "remark"],
        [
            [line["name"], *map(time_of, line["rows"]), line["with"], line["remark"]]
            for line in lines
        ],
        title=f"seconds to {result['measure']}: {result['settings']['data']}",
    )
    settings, reference = result["settings"], result["reference"]
    console.say(
        f"{result['what']}, {settings['workers']} worker{'s' * (settings['workers'] != 1)}, "
        f"{result['data']['dtype']}; reference {reference['objective']:.9g} by "
        f"{reference['found_by']}; medians of {settings['rounds']} rounds (fastest to slowest); "
        "warm-up and conversion not counted"
    )


def line_of(result: dict[str, Any], who: dict[str, Any]) -> dict[str, Any]:
    """Gather what one line of the table says."""
    rows = [row for row in result["table"] if row["contestant"] == who["name"]]
    reached = [row for row in rows if row["seconds"] is not None]
    remark = who["reason"]
    if not remark and who["rounds"] < result["settings"]["rounds"]:
        remark = f"time was up after {who['rounds']} of {result['settings']['rounds']} rounds"
    fits = [run for run in result["runs"] if run["contestant"] == who["name"]]
    failures = [run["error"] for run in fits if run["error"]]
    if failures and not who["reason"]:
        told = f"{len(failures)} of {len(fits)} fits failed: {failures[-1]}"
        remark = f"{remark}; {told}" if remark else told
    return {
        "name": who["name"],
        "rows": rows,
        "with": manner(reached[-1], who["unit"]) if reached else "-",
        "remark": remark or "",
    }


def manner(row: dict[str, Any], unit: str) -> str:
    """Say which setting and budget reached the tightest target that was reached."""
    settings = [f"{name} {cell(value)}" for name, value in row["setting"].items()]
    return ", ".join([*settings, f"{unit} {cell(row['budget'])}"])


def time_of(row: dict[str, Any]) -> str:
    """Median, and the spread if there is one."""
    if row["seconds"] is None:
        return "-"
    slowest = "-" if row["slowest"] is None else f"{row['slowest']:.3g}"
    return f"{row['seconds']:.3g} ({row['fastest']:.3g} to {slowest})"


def rank(line: dict[str, Any]) -> tuple[float, ...]:
    """Order of lines: by the time to the tightest target, then to the next."""
    return tuple(
        math.inf if row["seconds"] is None else row["seconds"] for row in reversed(line["rows"])
    )
