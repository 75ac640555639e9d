"""The race: the time of each contestant to a distance from the best value, for any discipline.

    warm-up   a fit of each contestant (compiling, loading, starting threads), timed separately
    tuning    each setting of a contestant's grid fits with the growing budgets of a coarse ladder,
              once; each target gets the setting that reached it first
    rounds    one after another, the contestants fit with all budgets of their ladder and with the
              settings of their targets; every fit starts from scratch and is timed separately

Each contestant runs in a lane (`hogshare.lab.rivals.lanes`), by default a separate process. If it
crashes or hangs, this is reported, and the other contestants go on. Only one contestant computes at
a time.

The discipline (`hogshare.lab.rivals.discipline`) judges a model and defines its distance from the
best value. The time to a target in a round is the time of the fastest fit that reached it. A row of
the table has the median over rounds, the fastest and the slowest time. The stages pass plain data,
which is also the JSON output. This file depends on no library of a contestant.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hogshare.lab.harness.rounds import in_order
from hogshare.lab.rivals import standings
from hogshare.lab.rivals.contestant import Kind
from hogshare.lab.rivals.discipline import Discipline
from hogshare.lab.rivals.lanes import Lane, ProcessLane
from hogshare.lab.rivals.race_state import Entry, Race, RacePlan, sentence
from hogshare.system import extras

COARSE = 2  # tuning climbs every second rung


def race(
    discipline: Discipline,
    kinds: Sequence[Kind],
    plan: RacePlan,
    advance: Callable[[str], None] = lambda _: None,
    isolated: bool = True,
) -> dict[str, Any]:
    """Run a race and return all measurements.

    Parameters
    ----------
    discipline : Discipline
    kinds : sequence of Contestant classes, or variants of them
    plan : Plan
    advance : callable, default=nothing
        Called with a short text on the next stage.
    isolated : bool, default=True
        Whether each contestant runs in a separate process; its class must then be importable. If
        False, all contestants run in this process, where a crash or a hang affects the whole race.

    Returns
    -------
    dict
        Plain data with the keys settings, data, reference, versions, machine, contestants, runs,
        table and notes.

    Raises
    ------
    ValueError
        If the reference is undefined, or no contestant can race.
    """
    # the value shows whether a contestant has converged
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        course = Race(discipline, plan, advance)
        task = discipline.task(plan.workers)
        entries = [
            Entry(kind(task), ProcessLane(kind, task, plan.limit) if isolated else Lane(kind, task))
            for kind in kinds
        ]
        try:
            for stage in (start, tune):
                for entry in racing(entries):
                    stage(course, entry)
                    if entry.reason:  # it has dropped out: free its memory for the others
                        entry.lane.close()
            for k in range(plan.rounds):
                for entry in racing(in_order(entries, k)):
                    run_round(course, entry, k)
        except BaseException:
            for entry in entries:  # after an error, one of them may still be in a fit
                entry.lane.abandon()
            raise
        finally:
            for entry in entries:
                entry.lane.close()
    if not course.runs:
        reasons = "; ".join(f"{e.contestant.name}: {e.reason}" for e in entries)
        raise ValueError(f"no contestant can race: {reasons}")
    return standings.result(course, entries)


def racing(entries: Sequence[Entry]) -> list[Entry]:
    """Return the contestants that are still in the race."""
    return [entry for entry in entries if not entry.reason]


def start(course: Race, entry: Entry) -> None:
    """Prepare a contestant's data and warm it up, with the first setting that works."""
    course.advance(f"warm-up of {entry.contestant.name}")
    entry.reason = entry.contestant.refusal()
    if entry.reason:
        return
    try:
        entry.prepare_seconds = entry.lane.prepare(course.discipline.X, course.discipline.y)
    except ImportError as error:
        library = entry.contestant.library
        how = extras.command_for(library)
        entry.reason = f"{library} is not installed: {how} ({sentence(error)})"
        return
    except Exception as error:
        entry.reason = f"failed to prepare: {sentence(error)}"
        return
    begin = time.perf_counter()
    first = entry.contestant.ladder()[0]
    for setting in range(len(entry.grid)):
        run = course.fit(entry, setting, first, -1)
        if run["error"] is None:
            entry.warm_up_seconds = time.perf_counter() - begin
            entry.reason = ""
            return
        entry.reason = f"failed: {run['error']}"
        if entry.overdue:
            return


def tune(course: Race, entry: Entry) -> None:
    """Try the grid, and choose for each target the setting that reaches it first."""
    course.advance(f"tuning of {entry.contestant.name}")
    targets, ladder = course.plan.targets, entry.contestant.ladder()[::COARSE]
    best: dict[float, float] = {}
    closest, failure = math.inf, ""
    for setting in range(len(entry.grid)):
        allowance = course.plan.limit / len(entry.grid)
        for run in course.climb(entry, setting, -1, ladder, targets[-1], allowance):
            if run["error"]:
                failure = run["error"]
                break
            closest = min(closest, course.distance(run))
            for target in targets:
                if course.distance(run) <= target and run["seconds"] < best.get(target, math.inf):
                    best[target] = run["seconds"]
                    entry.chosen[target] = setting
            if run["seconds"] > best.get(targets[-1], math.inf):
                break  # more work cannot be faster
        if entry.overdue:
            break  # the limit is for the whole grid
    if not entry.chosen:
        near = f"closest {closest:.2g}" if closest < math.inf else "no finite model"
        near += f"; a fit failed: {failure}" if failure else ""
        entry.reason = f"reached no target within {course.plan.limit:g} s of tuning ({near})"


def run_round(course: Race, entry: Entry, k: int) -> None:
    """Fit once with each chosen setting and budget, until the contestant's time is used up."""
    if entry.spent + entry.spent / max(1, entry.rounds) > course.plan.limit:
        return
    course.advance(f"round {k + 1} of {entry.contestant.name}")
    begin = time.perf_counter()
    tightest = {
        entry.chosen[target]: target for target in course.plan.targets if target in entry.chosen
    }
    for setting, target in tightest.items():
        left = course.plan.limit - entry.spent - (time.perf_counter() - begin)
        for _ in course.climb(entry, setting, k, entry.contestant.ladder(), target, left):
            pass
    entry.spent += time.perf_counter() - begin
    entry.rounds += 1
