"""Problems by their names, for benches: ``network:400-100-50-20-10``, ``lenet``, ``topics``, ...

A family states a problem on what it is given, or on what it makes, and says how it is run if
nobody says otherwise. A new one is a row of `FAMILIES`, or of `networks.IMAGES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from hogshare.lab.studies import networks, ratings, topics
from hogshare.problems.gradient import GradientProblem
from hogshare.system.words import listed, nearest

NETWORK = "network:"


class Family(Protocol):
    """How a problem of a name is stated and run."""

    @property
    def reads(self) -> str:
        """What it can be given: "rows" with labels, "ratings", or "documents"."""
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


FAMILIES: dict[str, Callable[[], Family]] = {
    **{name: lambda name=name: networks.of_images(name) for name in networks.IMAGES},  # type: ignore[misc]
    "factorisation": ratings.Ratings,
    "topics": topics.Topics,
}


def family_of(name: str) -> Family:
    """Return what a name stands for.

    Raises
    ------
    ValueError
        If it stands for nothing, or a network's units are no numbers.

    Examples
    --------
    >>> from hogshare.lab.studies.experiments import family_of
    >>> family = family_of("network:20-10-3")
    >>> family.state(family.data(None, 100, float, 0)).shapes
    ((20, 10), (10, 3))
    """
    if name.startswith(NETWORK):
        return networks.of_units(name, name.removeprefix(NETWORK))
    if name not in FAMILIES:
        known = ["linear", *FAMILIES, "network:A-B-...-C"]
        raise ValueError(f"{name!r} is not {listed(known)}.{nearest(name, [*known, 'network'])}")
    return FAMILIES[name]()
