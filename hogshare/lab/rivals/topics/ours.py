"""`hogshare.LatentDirichletAllocation`."""

from __future__ import annotations

from typing import Any

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.topics.discipline import TopicsContestant


class HogshareLDA(TopicsContestant):
    """As it comes, in threads."""

    name = "hogshare LDA"
    library = "hogshare"

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        return self.made(budget, seed).fit(prepared[0])

    def made(self, budget: float, seed: int, **extra: Any) -> Any:
        """The estimator."""
        from hogshare.estimators import LatentDirichletAllocation

        crew: dict[str, Any] = {"n_jobs": self.task.workers}
        if self.task.workers > 1:
            crew["runtime"] = "threads"
        settings = {**self.task.online, **crew, **extra}
        return LatentDirichletAllocation(max_iter=int(budget), random_state=seed, **settings)


class HogshareOneVector(HogshareLDA):
    """On one matrix without locks."""

    name = "hogshare exchange=None"

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        from hogshare.planes.shared import Shared

        return self.made(budget, seed, plane=Shared(exchange=None)).fit(prepared[0])
