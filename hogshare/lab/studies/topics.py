"""Topic models by name: of documents that are made, or of a file's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hogshare.lab.studies import made
from hogshare.problems.gradient import GradientProblem
from hogshare.problems.topics import topics

TOPICS, BATCH = 20, 128


@dataclass(frozen=True)
class Topics:
    """Twenty topics, whose steps are online LDA's."""

    reads: str = "documents"
    makes: int = 5_000
    n_topics: int = TOPICS

    def data(self, given: Any, n_rows: int, dtype: Any, seed: int) -> Any:
        """How often each word is in each document."""
        return made.documents(n_rows, n_topics=self.n_topics, seed=seed) if given is None else given

    def state(self, data: Any) -> GradientProblem:
        """The problem on such documents."""
        return topics(data, self.n_topics, random_state=0)

    def what(self, problem: GradientProblem) -> str:
        """Sizes."""
        return f"{self.n_topics} topics, {problem.n_params:,} parameters"

    def batch(self, algorithm: str) -> int:
        """Documents of a step."""
        return BATCH

    def step(self, problem: GradientProblem) -> None:
        """Its own."""
