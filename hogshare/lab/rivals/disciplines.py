"""Races of problems by their names: who takes part, and what it is about."""

from __future__ import annotations

from typing import Any

from hogshare.lab.rivals.contestant import Contestant
from hogshare.lab.rivals.discipline import Discipline
from hogshare.lab.rivals.networks import everybody as of_networks
from hogshare.lab.rivals.networks.discipline import NetworkRace
from hogshare.lab.rivals.ratings import everybody as of_ratings
from hogshare.lab.rivals.ratings.discipline import RatingsRace
from hogshare.lab.rivals.topics import everybody as of_topics
from hogshare.lab.rivals.topics.discipline import TopicsRace

# by what a family reads
CONTESTANTS: dict[str, tuple[type[Contestant], ...]] = {
    "rows": of_networks.ALL,
    "ratings": of_ratings.ALL,
    "documents": of_topics.ALL,
}
TARGETS = {"rows": (0.1, 0.05, 0.03), "ratings": (0.1, 0.01), "documents": (0.1, 0.05, 0.02)}


def race_of(family: Any, data: Any, seed: int) -> Discipline:
    """The race of a family's data (`hogshare.lab.studies.experiments.Family`)."""
    if family.reads == "rows":
        return NetworkRace(family, data[0], data[1], seed)
    if family.reads == "ratings":
        users, items, values, _ = data
        return RatingsRace(users, items, values)
    return TopicsRace(data, family.n_topics, family.batch("sgd"), seed)
