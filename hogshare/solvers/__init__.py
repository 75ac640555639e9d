"""`solve` and the papers' algorithms as compositions of the five choices.

Names are imported when they are first used: a fit needs `solve`, and no theory, recording or other
composition.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hogshare.solvers.asysg import asysg_con, asysg_incon
    from hogshare.solvers.replaying import replay
    from hogshare.solvers.saga import asaga, prox_asaga
    from hogshare.solvers.solving import solve

_PLACES = {
    "asaga": "saga",
    "asysg_con": "asysg",
    "asysg_incon": "asysg",
    "prox_asaga": "saga",
    "replay": "replaying",
    "solve": "solving",
}

__all__ = ["asaga", "asysg_con", "asysg_incon", "prox_asaga", "replay", "solve"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'hogshare.solvers' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hogshare.solvers.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
