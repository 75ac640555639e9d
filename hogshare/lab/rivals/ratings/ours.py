"""Our own, in threads, from arrays of numbers."""

from __future__ import annotations

from typing import Any, ClassVar

from hogshare.barriers import BSP
from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.ratings.discipline import RatingsContestant, descended, stated
from hogshare.planes.master import Master
from hogshare.planes.shared import Shared


class HogshareOneVector(RatingsContestant):
    """On one vector without locks: Hogwild!'s own application."""

    name = "hogshare exchange=None"
    library = "hogshare"
    choices: ClassVar[dict[str, Any]] = {"plane": Shared(exchange=None)}

    def grid(self) -> list[Setting]:
        return [{"step": step} for step in (0.8, 0.6, 1.0)]

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        crew: dict[str, Any] = {"n_workers": self.task.workers, "runtime": "threads"}
        if self.task.workers == 1:
            crew["runtime"] = "caller"
        problem = stated(prepared[0], prepared[1], self.task)
        return descended(problem, setting["step"], int(budget), seed, **crew, **self.choices)


class HogshareCopies(HogshareOneVector):
    """Private copies."""

    name = "hogshare private copies"
    choices: ClassVar[dict[str, Any]] = {"plane": Shared()}


class HogshareBSP(HogshareOneVector):
    """Private copies that wait for each other."""

    name = "hogshare copies behind BSP"
    choices: ClassVar[dict[str, Any]] = {"plane": Shared(), "barrier": BSP()}


class HogshareMaster(HogshareOneVector):
    """Messages to a master."""

    name = "hogshare master"
    choices: ClassVar[dict[str, Any]] = {"plane": Master()}
