"""What a race is about and what has come of it so far: plan, contestants, and every fit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hogshare.rivals import optimum
from hogshare.rivals.contestant import Contestant
from hogshare.rivals.lanes import Lane, Overdue, ProcessLane
from hogshare.rivals.objective import Objective

Run = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How to race.

    `targets` from easy to tight; `limit` in seconds, for a contestant's tuning and again for its
    rounds; `alpha` None is one over the number of rows.
    """

    loss: str = "log_loss"
    alpha: float | None = None
    targets: tuple[float, ...] = (1e-1, 1e-2, 1e-3)
    workers: int = 2
    rounds: int = 5
    limit: float = 30.0
    seed: int = 0


@dataclass
class Entry:
    """A contestant in this race and what became of it; an empty `reason` means it races."""

    contestant: Contestant
    lane: Lane | ProcessLane
    reason: str = ""
    prepare_seconds: float | None = None
    warm_up_seconds: float | None = None
    kept: dict[float, int] = field(default_factory=dict)
    spent: float = 0.0
    rounds: int = 0
    overdue: bool = False  # its last fit was ended, because it took the whole limit

    def __post_init__(self) -> None:
        self.grid = self.contestant.grid()


class Race:
    """Objective, optimum and every fit so far."""

    def __init__(self, X: Any, y: np.ndarray, plan: Plan, tell: Callable[[str], None]) -> None:
        alpha = 1.0 / X.shape[0] if plan.alpha is None else plan.alpha
        self.plan = plan
        self.objective = Objective(X, y, plan.loss, alpha)
        self.tell = tell
        tell("optimum")
        self.optimum = optimum.find(self.objective)
        if not self.optimum.value > 0.0:
            raise ValueError("the optimum is zero, so there is no relative sub-optimality")
        self.lowest = self.optimum.value
        self.runs: list[Run] = []

    def distance(self, run: Run) -> float:
        """Relative sub-optimality of a fit; infinity if it failed or left the numbers."""
        if run["objective"] is None:
            return math.inf
        return float(run["objective"] / self.lowest - 1.0)

    def reaches(self, run: Run, target: float) -> bool:
        """Whether a fit is within the target."""
        return self.distance(run) <= target

    def fit(self, entry: Entry, setting: int, budget: float, round_: int) -> Run:
        """Fit once, timed, and judge the model; an exception becomes part of the run."""
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
            run["seconds"], coef = entry.lane.fit(entry.grid[setting], budget, seed)
            value = self.objective(coef)
        except Exception as error:  # of a stranger's code: part of its result
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
        """Fit with growing budgets until the target is reached, or time is up."""
        begin = time.perf_counter()
        for i, budget in enumerate(ladder):
            run = self.fit(entry, setting, budget, round_)
            self.runs.append(run)
            yield run
            if run["error"] or self.reaches(run, target) or i + 1 == len(ladder):
                return
            growth = 1.0 if entry.contestant.unit == "tolerance" else ladder[i + 1] / budget
            if time.perf_counter() - begin + growth * run["seconds"] > allowance:
                return


def sentence(error: Exception) -> str:
    """What an exception says, on one line that fits into a table."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."
