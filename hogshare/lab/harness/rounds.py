"""Contestants in rounds: everybody runs in each, and a slow minute hits all alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Contestant = TypeVar("Contestant")
Found = TypeVar("Found")


def in_order(contestants: Sequence[Contestant], number: int) -> list[Contestant]:
    """Return them in the order of a round: each round begins with another."""
    shift = number % len(contestants)
    return [*contestants[shift:], *contestants[:shift]]


def in_rounds(
    contestants: Sequence[Contestant],
    rounds: int,
    run: Callable[[Contestant, int], Found],
    advance: Callable[[str], None] | None = None,
    called: str = "round",
) -> list[list[Found]]:
    """Let every contestant run in every round.

    Parameters
    ----------
    contestants : sequence
    rounds : int
    run : callable
        ``run(contestant, round)``, rounds from 0.
    advance : callable, default=None
        Notified after each run, with what it was.
    called : str, default="round"
        What a round is called then.

    Returns
    -------
    list of list
        Of each contestant, what its runs have returned.

    Examples
    --------
    >>> in_rounds(["a", "b"], 2, lambda one, number: f"{one}{number}")
    [['a0', 'a1'], ['b0', 'b1']]
    """
    found: list[list[Found]] = [[] for _ in contestants]
    for number in range(rounds):
        for place in in_order(range(len(contestants)), number):
            found[place].append(run(contestants[place], number))
            if advance is not None:
                advance(f"({called} {number + 1}, {contestants[place]})")
    return found
