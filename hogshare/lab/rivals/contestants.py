"""Who may race in which discipline, and who of them is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from hogshare.lab.rivals.contestant import Contestant
from hogshare.lab.rivals.linear import everybody
from hogshare.lab.rivals.linear.task import Linear

ALL: tuple[type[Linear], ...] = everybody.ALL


def of_linear(parts: Sequence[str], loss: str) -> list[type[Contestant]]:
    """Contestants for a loss whose name contains one of the parts; all of them without parts.

    Raises
    ------
    ValueError
        If a part is in nobody's name, or nobody is left for this loss.
    """
    chosen = [
        kind
        for kind in select(parts, ALL)
        if loss in kind.losses  # type: ignore[attr-defined]
    ]
    if not chosen:
        raise ValueError(f"none of these contestants has the loss {loss}")
    return chosen


def select(parts: Sequence[str], kinds: Sequence[type[Contestant]]) -> list[type[Contestant]]:
    """Those whose name contains one of the parts; all of them without parts.

    Raises
    ------
    ValueError
        If a part is in nobody's name.
    """
    for part in parts:
        if not any(part.lower() in kind.name.lower() for kind in kinds):
            raise ValueError(
                f"no contestant's name contains {part!r}; there are "
                f"{', '.join(kind.name for kind in kinds)}"
            )
    wanted = [part.lower() for part in parts]
    return [
        kind for kind in kinds if not parts or any(part in kind.name.lower() for part in wanted)
    ]
