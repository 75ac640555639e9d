"""A factorisation by name: of a million ratings of known rank, or of a file's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare import datasets
from hogshare.problems.factorisation import FactorisationProblem, factorisation
from hogshare.problems.gradient import GradientProblem

USERS, ITEMS, RANK = 20_000, 5_000, 8
RATINGS_OF_A_USER, USERS_OF_AN_ITEM = 50, 4  # as those numbers have it
FIRST_STEP = 0.5  # times the sharpness
MESSAGE = 64  # ratings of a gradient that goes to a master


@dataclass(frozen=True)
class Ratings:
    """Squared errors of eight factors; of a file's ratings besides biases."""

    reads: str = "ratings"
    makes: int = 1_000_000

    def data(self, given: Any, n_rows: int, dtype: Any, seed: int) -> tuple[Any, ...]:
        """Users, items, ratings, and whether there are biases."""
        if given is None:
            users = max(1, n_rows // RATINGS_OF_A_USER)
            sizes = n_rows, users, max(1, users // USERS_OF_AN_ITEM), RANK
            return *datasets.known_rank(*sizes, seed=seed), False
        users, items, values = given
        codes = (np.unique(np.asarray(ids), return_inverse=True)[1] for ids in (users, items))
        return *codes, np.asarray(values, dtype=dtype), True

    def state(self, data: tuple[Any, ...]) -> FactorisationProblem:
        """The problem on such ratings."""
        *triples, biases = data
        return factorisation(*triples, n_factors=RANK, biases=biases)

    def what(self, problem: GradientProblem) -> str:
        """Sizes."""
        facts = problem.facts()
        return f"factorisation, {facts['users']:,} users, {facts['items']:,} items"

    def batch(self, algorithm: str) -> int:
        """One at a time, but for a master."""
        return MESSAGE if algorithm == "con" else 1

    def step(self, problem: GradientProblem) -> float:
        """Of a rating."""
        return float(FIRST_STEP / problem.sharpness)  # type: ignore[attr-defined]
