"""`solve`, and the papers' algorithms, which are calls of `solve` with given choices.

Names are imported on first use: a fit needs `solve`, but not the other algorithms, the theory or
the recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hogshare.system import lazy_imports

if TYPE_CHECKING:
    from hogshare.solvers.asysg import asysg_con as asysg_con
    from hogshare.solvers.asysg import asysg_incon as asysg_incon
    from hogshare.solvers.data_centres import gaia as gaia
    from hogshare.solvers.lock_free_saga import asaga as asaga
    from hogshare.solvers.lock_free_saga import prox_asaga as prox_asaga
    from hogshare.solvers.replays import replay as replay
    from hogshare.solvers.replica_graph import stochastic_reduce as stochastic_reduce
    from hogshare.solvers.solver import solve as solve
    from hogshare.solvers.task_methods import asaga_tasks as asaga_tasks
    from hogshare.solvers.task_methods import asgd as asgd
    from hogshare.solvers.task_methods import saga_rounds as saga_rounds
    from hogshare.solvers.task_methods import sgd_rounds as sgd_rounds

__getattr__, __dir__, __all__ = lazy_imports.names(
    __name__,
    {
        "asysg": "asysg_con asysg_incon",
        "data_centres": "gaia",
        "replica_graph": "stochastic_reduce",
        "replays": "replay",
        "lock_free_saga": "asaga prox_asaga",
        "solver": "solve",
        "task_methods": "asaga_tasks asgd saga_rounds sgd_rounds",
    },
)
