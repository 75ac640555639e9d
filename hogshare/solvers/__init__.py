"""`solve` and the papers' algorithms as compositions of the five choices.

Names are imported when they are first used: a fit needs `solve`, and no theory, recording or other
composition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hogshare.system import lazy

if TYPE_CHECKING:
    from hogshare.solvers.asysg import asysg_con, asysg_incon
    from hogshare.solvers.centres import gaia
    from hogshare.solvers.reduces import stochastic_reduce
    from hogshare.solvers.replaying import replay
    from hogshare.solvers.saga import asaga, prox_asaga
    from hogshare.solvers.solving import solve
    from hogshare.solvers.tasksaga import asaga_tasks, saga_rounds
    from hogshare.solvers.tasksgd import asgd, sgd_rounds

_PLACES = {
    "asaga": "saga",
    "asaga_tasks": "tasksaga",
    "asgd": "tasksgd",
    "asysg_con": "asysg",
    "asysg_incon": "asysg",
    "gaia": "centres",
    "prox_asaga": "saga",
    "replay": "replaying",
    "saga_rounds": "tasksaga",
    "sgd_rounds": "tasksgd",
    "solve": "solving",
    "stochastic_reduce": "reduces",
}

__all__ = [
    "asaga",
    "asaga_tasks",
    "asgd",
    "asysg_con",
    "asysg_incon",
    "gaia",
    "prox_asaga",
    "replay",
    "saga_rounds",
    "sgd_rounds",
    "solve",
    "stochastic_reduce",
]

__getattr__, __dir__ = lazy.names(__name__, _PLACES)
