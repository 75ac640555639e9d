"""The state of a race: plan, contestants, and all fits so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hogshare.lab.rivals.contestant import Contestant
from hogshare.lab.rivals.discipline import Discipline
from hogshare.lab.rivals.lanes import Lane, Overdue, ProcessLane

Run = dict[str, Any]


@dataclass(frozen=True)
class RacePlan:
    """The plan of a race.

    `targets` are sorted from easy to tight. `limit` is the number of seconds for a contestant's
    tuning, and again for its rounds.
    """

    targets: tuple[float, ...] = (1e-1, 1e-2, 1e-3)
    workers: int = 2
    rounds: int = 5
    limit: float = 30.0
    seed: int = 0


@dataclass
class Entry:
    """A contestant with its state in a race.

    `reason` says why the contestant does not race; it is empty if it races.
    """

    contestant: Contestant
    lane: Lane | ProcessLane
    reason: str = ""
    prepare_seconds: float | None = None
    warm_up_seconds: float | None = None
    chosen: dict[float, int] = field(default_factory=dict)  # target -> setting
    spent: float = 0.0
    rounds: int = 0
    overdue: bool = False  # its last fit was ended because it took the whole limit

    def __post_init__(self) -> None:
        self.grid = self.contestant.grid()


class Race:
    """The discipline, the reference and all fits so far."""

    def __init__(
        self, discipline: Discipline, plan: RacePlan, advance: Callable[[str], None]
    ) -> None:
        self.plan = plan
        self.discipline = discipline
        self.advance = advance
        advance("reference")
        self.reference = discipline.find()
        self.lowest = self.reference.value
        self.runs: list[Run] = []

    def distance(self, run: Run) -> float:
        """Return the distance of a fit from the best value; infinity if it has no finite value."""
        if run["objective"] is None:
            return math.inf
        return float(self.discipline.distance(run["objective"], self.lowest))

    def fit(self, entry: Entry, setting: int, budget: float, round_: int) -> Run:
        """Fit once, timed, and judge the model; lower `lowest` to its value if that is better.

        An exception of the fit becomes part of the returned run.
        """
        seed = self.plan.seed + round_ + 1
        run: Run = {
            "contestant": entry.contestant.name,
            "round": round_,  # -1 is tuning
            "setting": setting,
            "budget": budget,
            "seconds": None,
            "objective": None,
            "error": None,
        }
        try:
            run["seconds"], model = entry.lane.fit(entry.grid[setting], budget, seed)
            value = self.discipline.judge(model)
        except Exception as error:  # of any library: part of the contestant's result
            run["error"] = sentence(error)
            entry.overdue = isinstance(error, Overdue)
            return run
        if math.isfinite(value):
            run["objective"] = value
            self.lowest = min(self.lowest, value)
        return run

    def climb(
        self,
        entry: Entry,
        setting: int,
        round_: int,
        ladder: Sequence[float],
        target: float,
        allowance: float,
    ) -> Iterator[Run]:
        """Fit with growing budgets until the target is reached or the allowance is used up.

        Each run is added to `runs` and yielded.

        allowance : seconds for all fits
        """
        begin = time.perf_counter()
        for i, budget in enumerate(ladder):
            run = self.fit(entry, setting, budget, round_)
            self.runs.append(run)
            yield run
            if run["error"] or self.distance(run) <= target or i + 1 == len(ladder):
                return
            growth = 1.0 if entry.contestant.unit == "tolerance" else ladder[i + 1] / budget
            if time.perf_counter() - begin + growth * run["seconds"] > allowance:
                return


def sentence(error: Exception) -> str:
    """Describe an exception on one line that fits into a table."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."
