"""scikit-learn's online LDA."""

from __future__ import annotations

from typing import Any

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.topics.discipline import TopicsContestant


class ScikitLDA(TopicsContestant):
    """In one process: of several each batch would be handed around."""

    name = "sklearn LDA"
    library = "scikit-learn"

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        from sklearn.decomposition import LatentDirichletAllocation

        model = LatentDirichletAllocation(
            max_iter=int(budget), random_state=seed, **self.task.online
        )
        return model.fit(prepared[0])
