"""Problems by their names, for benches: ``network:400-100-50-20-10``, ``lenet``, ``topics``, ...

A family states a problem on what it is given, or on what it makes, and says how it is run if
nobody says otherwise. A new one is a row of `FAMILIES`, or of `named_networks.IMAGES`.
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
RATINGS_OF_A_USER, USERS_OF_AN_ITEM = 50, 4  # as 20,000 users and 5,000 items have it
PAIRS_OF_A_USER, FEWEST_ITEMS = 50, 600
FIRST_STEP = 0.5  # times the sharpness
MESSAGE = 64  # ratings of a gradient that goes to a master
TOPICS, DOCUMENTS = 20, 128  # of a topic model, and of its step


class Family(Protocol):
    """How a problem of a name is stated and run."""

    @property
    def reads(self) -> str:
        """What it can be given: "rows" with labels, "ratings", "pairs", or "documents"."""
        ...

    @property
    def makes(self) -> int:
        """Rows that are made if nobody says how many."""
        ...

    def data(self, given: Any, n_rows: int, dtype: Any, seed: int) -> Any:
        """What is given, checked, or where that is None as many rows that are made.

        Raises
        ------
        ValueError
            If the shape of what is given does not fit.
        """
        ...

    def state(self, data: Any) -> GradientProblem:
        """The problem on such data."""
        ...

    def what(self, problem: GradientProblem) -> str:
        """What it is, in words."""
        ...

    def batch(self, algorithm: str) -> int:
        """Rows of a gradient of "sgd", "incon" or "con"."""
        ...

    def step(self, problem: GradientProblem) -> float | None:
        """A constant step, for one row's gradient or the mean of a batch's; None: its own."""
        ...


@dataclass(frozen=True)
class NamedRatings:
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
        if values is None:
            raise ValueError("a factorisation is of ratings, and these are pairs alone.")
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


@dataclass(frozen=True)
class NamedPairs:
    """Preferences from who has met what, against drawn items: eight factors, by BPR."""

    reads: str = "pairs"
    makes: int = 150_000

    def data(self, given: Any, n_rows: int, dtype: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Users and items, by numbers; a file's ratings count for nothing."""
        if given is None:
            n_users = max(1, n_rows // PAIRS_OF_A_USER)
            # of twice as many the first: some users have met all that they may
            sizes = 2 * n_rows, n_users, max(FEWEST_ITEMS, 2 * n_users // 3)
            users, items, _ = datasets.clicks(*sizes, seed=seed)
            return users[:n_rows], items[:n_rows]
        codes = [np.unique(np.asarray(ids), return_inverse=True)[1] for ids in given[:2]]
        return codes[0], codes[1]

    def state(self, data: tuple[np.ndarray, np.ndarray]) -> PreferenceProblem:
        """The problem on such pairs."""
        return preferences(*data, n_factors=RANK)

    def what(self, problem: GradientProblem) -> str:
        """Sizes."""
        facts = problem.facts()
        return f"preferences, {facts['users']:,} users, {facts['items']:,} items"

    def batch(self, algorithm: str) -> int:
        """One at a time, but for a master."""
        return MESSAGE if algorithm == "con" else 1

    def step(self, problem: GradientProblem) -> float:
        """Of a pair."""
        return float(FIRST_STEP / problem.sharpness)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class NamedTopics:
    """Twenty topics, whose steps are online LDA's."""

    reads: str = "documents"
    makes: int = 5_000
    n_topics: int = TOPICS

    def data(self, given: Any, n_rows: int, dtype: Any, seed: int) -> Any:
        """How often each word is in each document."""
        return (
            synthetic.documents(n_rows, n_topics=self.n_topics, seed=seed)
            if given is None
            else given
        )

    def state(self, data: Any) -> GradientProblem:
        """The problem on such documents."""
        return topics(data, self.n_topics, random_state=0)

    def what(self, problem: GradientProblem) -> str:
        """Sizes."""
        return f"{self.n_topics} topics, {problem.n_params:,} parameters"

    def batch(self, algorithm: str) -> int:
        """Documents of a step."""
        return DOCUMENTS

    def step(self, problem: GradientProblem) -> None:
        """Its own."""


FAMILIES: dict[str, Family] = {
    **named_networks.IMAGES,
    "factorisation": NamedRatings(),
    "preferences": NamedPairs(),
    "topics": NamedTopics(),
}


def family_of(name: str) -> Family:
    """Return what a name stands for.

    Raises
    ------
    ValueError
        If it stands for nothing, or a network's units are no numbers.

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
