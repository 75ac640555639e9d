"""Contestants in rounds: all run in each round, so a slow minute affects all of them equally."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Contestant = TypeVar("Contestant")
Found = TypeVar("Found")


def in_order(contestants: Sequence[Contestant], number: int) -> list[Contestant]:
    """Return the contestants in the order of a round; each round begins with a different one."""
    shift = number % len(contestants)
    return [*contestants[shift:], *contestants[:shift]]


def in_rounds(
    contestants: Sequence[Contestant],
    rounds: int,
    run: Callable[[Contestant, int], Found],
    advance: Callable[[str], None] | None = None,
    called: str = "round",
) -> list[list[Found]]:
    """Run every contestant in every round.

    Parameters
    ----------
    contestants : sequence
        The contestants.
    rounds : int
        Number of rounds.
    run : callable
        ``run(contestant, round)``, the result of a run; rounds count from 0.
    advance : callable, default=None
        Called after each run, with a text about it.
    called : str, default="round"
        Name of a round in the text for `advance`.

    Returns
    -------
    list of list
        For each contestant, the results of its runs.

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
