"""The contestants and disciplines of each kind of problem, and the selection of contestants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hogshare.lab.rivals import network_race, pairs_race, ratings_race, topics_race
from hogshare.lab.rivals.contestant import Kind
from hogshare.lab.rivals.discipline import Discipline
from hogshare.lab.rivals.linear import compiled_libraries, hogshare_models, hogwild, scikit, wabbit

LINEAR: tuple[Kind, ...] = (
    *(*hogshare_models.CONTESTANTS, *scikit.CONTESTANTS, *compiled_libraries.CONTESTANTS),
    *(wabbit.WabbitSGD, wabbit.WabbitBFGS, hogwild.TorchHogwild),
)
# for named problems, by the data that their family reads
CONTESTANTS: dict[str, tuple[Kind, ...]] = {
    "rows": network_race.CONTESTANTS,
    "ratings": ratings_race.CONTESTANTS,
    "pairs": pairs_race.CONTESTANTS,
    "documents": topics_race.CONTESTANTS,
}
TARGETS = {
    "rows": (0.1, 0.05, 0.03),
    "ratings": (0.1, 0.01),
    "pairs": (0.1, 0.01),
    "documents": (0.1, 0.05, 0.02),
}


def race_of(family: Any, data: Any, seed: int) -> Discipline:
    """Return the discipline for the data of a `hogshare.lab.studies.named_problems.Family`."""
    if family.reads == "rows":
        return network_race.NetworkRace(family, data[0], data[1], seed)
    if family.reads == "ratings":
        return ratings_race.RatingsRace(*data[:3])
    if family.reads == "pairs":
        return pairs_race.PairsRace(*data)
    return topics_race.TopicsRace(data, family.n_topics, family.batch("sgd"), seed)


def of_linear(parts: Sequence[str], loss: str) -> list[Kind]:
    """Select contestants for linear models with a loss; ValueError also if none supports it."""
    chosen = [kind for kind in select(parts, LINEAR) if loss in getattr(kind, "losses", ())]
    if not chosen:
        raise ValueError(f"none of these contestants has the loss {loss}")
    return chosen


def select(parts: Sequence[str], kinds: Sequence[Kind]) -> list[Kind]:
    """Select the contestants whose name contains one of the parts; without parts, select all.

    Raises ValueError for a part that no name contains.
    """
    for part in parts:
        if not any(part.lower() in kind.name.lower() for kind in kinds):
            raise ValueError(
                f"no contestant's name contains {part!r}; there are "
                f"{', '.join(kind.name for kind in kinds)}"
            )
    wanted = [part.lower() for part in parts] or [""]
    return [kind for kind in kinds if any(part in kind.name.lower() for part in wanted)]
