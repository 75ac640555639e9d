"""Problems by their names, for benches: ``network:400-100-50-20-10``, ``lenet``, ``topics``, ...

A family states a problem on given or synthetic data, and defines its default settings. To add a
family, add a row to `FAMILIES` or `named_networks.IMAGES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hogshare import datasets
from hogshare.lab.studies import named_networks, synthetic
from hogshare.problems.factorisation import FactorisationProblem, factorisation
from hogshare.problems.gradient import GradientProblem
from hogshare.problems.preferences import PreferenceProblem, preferences
from hogshare.problems.topics import topics
from hogshare.system.messages import listed, nearest

NETWORK = "network:"
RANK = 8  # of a factorisation
RATINGS_OF_A_USER, USERS_OF_AN_ITEM = 50, 4  # as for 20,000 users and 5,000 items
PAIRS_OF_A_USER, FEWEST_ITEMS = 50, 600
FIRST_STEP = 0.5  # step times sharpness
MESSAGE = 64  # ratings of a gradient sent to a master
TOPICS, DOCUMENTS = 20, 128  # topics of a model, and documents of its step


class Family(Protocol):
    """A kind of named problems: its data, the problem on them, and its default settings."""

    @property
    def reads(self) -> str:
        """Kind of the data that the family reads: "rows", "ratings", "pairs" or "documents"."""
        ...

    @property
    def makes(self) -> int:
        """Default number of synthetic rows."""
        ...

    def data(self, given: Any, n_rows: int, dtype: Any, seed: int) -> Any:
        """Check the given data; for None, make `n_rows` synthetic rows.

        Raises
        ------
        ValueError
            If the shape of the given data does not fit.
        """
        ...

    def state(self, data: Any) -> GradientProblem:
        """Return the problem on these data."""
        ...

    def what(self, problem: GradientProblem) -> str:
        """Describe the problem."""
        ...

    def batch(self, algorithm: str) -> int:
        """Return the rows of a gradient for "sgd", "incon" or "con"."""
        ...

    def step(self, problem: GradientProblem) -> float | None:
        """Return a constant step size for the mean gradient of a batch or a row.

        None if the problem has its own step sizes.
        """
        ...


@dataclass(frozen=True)
class NamedRatings:
    """Ratings: a factorisation with eight factors; ratings from a file also have biases."""

    reads: str = "ratings"
    makes: int = 1_000_000

    def data(self, given: Any, n_rows: int, dtype: Any, seed: int) -> tuple[Any, ...]:
        """Return users, items, ratings, and whether to use biases."""
        if given is None:
            users = max(1, n_rows // RATINGS_OF_A_USER)
            sizes = n_rows, users, max(1, users // USERS_OF_AN_ITEM), RANK
            return *datasets.known_rank(*sizes, seed=seed), False
        users, items, values = given
        if values is None:
            raise ValueError("a factorisation needs ratings, and these are only pairs.")
        codes = (np.unique(np.asarray(ids), return_inverse=True)[1] for ids in (users, items))
        return *codes, np.asarray(values, dtype=dtype), True

    def state(self, data: tuple[Any, ...]) -> FactorisationProblem:
        """Return the problem on these ratings."""
        *triples, biases = data
        return factorisation(*triples, n_factors=RANK, biases=biases)

    def what(self, problem: GradientProblem) -> str:
        """Describe the problem by its sizes."""
        facts = problem.facts()
        return f"factorisation, {facts['users']:,} users, {facts['items']:,} items"

    def batch(self, algorithm: str) -> int:
        """Return the rows of a gradient: one, or `MESSAGE` for a master."""
        return MESSAGE if algorithm == "con" else 1

    def step(self, problem: GradientProblem) -> float:
        """Return the step size for one rating."""
        return float(FIRST_STEP / problem.sharpness)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class NamedPairs:
    """Pairs of users and items: eight factors by BPR, which compares a pair with a drawn item."""

    reads: str = "pairs"
    makes: int = 150_000

    def data(self, given: Any, n_rows: int, dtype: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return users and items as integer codes; the ratings of a file are ignored."""
        if given is None:
            n_users = max(1, n_rows // PAIRS_OF_A_USER)
            # twice as many are drawn: some users already have a pair with every item that they may
            sizes = 2 * n_rows, n_users, max(FEWEST_ITEMS, 2 * n_users // 3)
            users, items, _ = datasets.clicks(*sizes, seed=seed)
            return users[:n_rows], items[:n_rows]
        codes = [np.unique(np.asarray(ids), return_inverse=True)[1] for ids in given[:2]]
        return codes[0], codes[1]

    def state(self, data: tuple[np.ndarray, np.ndarray]) -> PreferenceProblem:
        """Return the problem on these pairs."""
        return preferences(*data, n_factors=RANK)

    def what(self, problem: GradientProblem) -> str:
        """Describe the problem by its sizes."""
        facts = problem.facts()
        return f"preferences, {facts['users']:,} users, {facts['items']:,} items"

    def batch(self, algorithm: str) -> int:
        """Return the rows of a gradient: one, or `MESSAGE` for a master."""
        return MESSAGE if algorithm == "con" else 1

    def step(self, problem: GradientProblem) -> float:
        """Return the step size for one pair."""
        return float(FIRST_STEP / problem.sharpness)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class NamedTopics:
    """Documents: a model of twenty topics, with the step sizes of online LDA."""

    reads: str = "documents"
    makes: int = 5_000
    n_topics: int = TOPICS

    def data(self, given: Any, n_rows: int, dtype: Any, seed: int) -> Any:
        """Return the word counts of documents."""
        return (
            synthetic.documents(n_rows, n_topics=self.n_topics, seed=seed)
            if given is None
            else given
        )

    def state(self, data: Any) -> GradientProblem:
        """Return the problem on these documents."""
        return topics(data, self.n_topics, random_state=0)

    def what(self, problem: GradientProblem) -> str:
        """Describe the problem by its sizes."""
        return f"{self.n_topics} topics, {problem.n_params:,} parameters"

    def batch(self, algorithm: str) -> int:
        """Return the documents of a step."""
        return DOCUMENTS

    def step(self, problem: GradientProblem) -> None:
        """Return None, because the problem has its own step sizes."""


FAMILIES: dict[str, Family] = {
    **named_networks.IMAGES,
    "factorisation": NamedRatings(),
    "preferences": NamedPairs(),
    "topics": NamedTopics(),
}


def family_of(name: str) -> Family:
    """Return the family of a name.

    Raises
    ------
    ValueError
        If the name is unknown, or a network's units are not numbers.

    Examples
    --------
    >>> from hogshare.lab.studies.named_problems import family_of
    >>> family = family_of("network:20-10-3")
    >>> family.state(family.data(None, 100, float, 0)).shapes
    ((20, 10), (10, 3))
    """
    if name.startswith(NETWORK):
        return named_networks.of_units(name, name.removeprefix(NETWORK))
    if name not in FAMILIES:
        known = ["linear", *FAMILIES, "network:A-B-...-C"]
        raise ValueError(f"{name!r} is not {listed(known)}.{nearest(name, [*known, 'network'])}")
    return FAMILIES[name]
