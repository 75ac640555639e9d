"""`solve` and the papers' algorithms as compositions of the five choices.

Names are imported when they are first used: a fit needs `solve`, and no theory, recording or other
composition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hogshare import lazy

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

__getattr__, __dir__ = lazy.names(__name__, _PLACES)
