"""`solve` and the papers' algorithms as compositions of the five choices.

Names are imported when they are first used: a fit needs `solve`, and no theory, recording or other
composition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hogshare.system import lazy

if TYPE_CHECKING:
    from hogshare.solvers.asysg import asysg_con as asysg_con
    from hogshare.solvers.asysg import asysg_incon as asysg_incon
    from hogshare.solvers.centres import gaia as gaia
    from hogshare.solvers.reduces import stochastic_reduce as stochastic_reduce
    from hogshare.solvers.replaying import replay as replay
    from hogshare.solvers.saga import asaga as asaga
    from hogshare.solvers.saga import prox_asaga as prox_asaga
    from hogshare.solvers.solving import solve as solve
    from hogshare.solvers.tasksaga import asaga_tasks as asaga_tasks
    from hogshare.solvers.tasksaga import saga_rounds as saga_rounds
    from hogshare.solvers.tasksgd import asgd as asgd
    from hogshare.solvers.tasksgd import sgd_rounds as sgd_rounds

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "asysg": "asysg_con asysg_incon",
        "centres": "gaia",
        "reduces": "stochastic_reduce",
        "replaying": "replay",
        "saga": "asaga prox_asaga",
        "solving": "solve",
        "tasksaga": "asaga_tasks saga_rounds",
        "tasksgd": "asgd sgd_rounds",
    },
)
