"""One model on every core: scikit-learn's estimators, with one changed import.

Names are imported at first use. Therefore ``import hogshare`` and the command line's ``--help``
load neither Numba nor scikit-learn.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hogshare._version import __version__ as __version__
from hogshare.system import (
    forks,  # noqa: F401  # its fork hooks must be registered before any other module's
    lazy_imports,
)

if TYPE_CHECKING:
    from hogshare import datasets as datasets
    from hogshare import links as links
    from hogshare import metrics as metrics
    from hogshare import problems as problems
    from hogshare import simulation as simulation
    from hogshare import theory as theory
    from hogshare import topology as topology
    from hogshare.barriers import ASP as ASP
    from hogshare.barriers import BSP as BSP
    from hogshare.barriers import PBSP as PBSP
    from hogshare.barriers import PSSP as PSSP
    from hogshare.barriers import SSP as SSP
    from hogshare.barriers import Fraction as Fraction
    from hogshare.barriers import Throttled as Throttled
    from hogshare.engine.checkpoints import Checkpoint as Checkpoint
    from hogshare.engine.stops import Stop as Stop
    from hogshare.estimators import ElasticNet as ElasticNet
    from hogshare.estimators import Lasso as Lasso
    from hogshare.estimators import LatentDirichletAllocation as LatentDirichletAllocation
    from hogshare.estimators import LogisticRegression as LogisticRegression
    from hogshare.estimators import LogisticRegressionCV as LogisticRegressionCV
    from hogshare.estimators import MatrixFactorization as MatrixFactorization
    from hogshare.estimators import MLPClassifier as MLPClassifier
    from hogshare.estimators import MLPRegressor as MLPRegressor
    from hogshare.estimators import Ridge as Ridge
    from hogshare.estimators import RidgeClassifier as RidgeClassifier
    from hogshare.estimators import SGDClassifier as SGDClassifier
    from hogshare.estimators import SGDRegressor as SGDRegressor
    from hogshare.estimators.solver_report import SolverReport as SolverReport
    from hogshare.io.encoding import TableEncoder as TableEncoder
    from hogshare.io.models.save_load import load as load
    from hogshare.io.models.save_load import save as save
    from hogshare.links.link import Link as Link
    from hogshare.planes import Grid as Grid
    from hogshare.planes import Master as Master
    from hogshare.planes import Mirrors as Mirrors
    from hogshare.planes import Plane as Plane
    from hogshare.planes import Replicas as Replicas
    from hogshare.planes import Shared as Shared
    from hogshare.planes import Until as Until
    from hogshare.problems.model import Model as Model
    from hogshare.report import Report as Report
    from hogshare.rules import SAGA as SAGA
    from hogshare.rules import SDCA as SDCA
    from hogshare.rules import SGD as SGD
    from hogshare.rules import Adam as Adam
    from hogshare.rules import Rule as Rule
    from hogshare.rules.steps import StepSize as StepSize
    from hogshare.runtimes.mpi.row_shards import shard as shard
    from hogshare.runtimes.mpi.runtime import MPI as MPI
    from hogshare.shm.shared_rows import share as share
    from hogshare.simulation import Simulator as Simulator
    from hogshare.solvers import asaga as asaga
    from hogshare.solvers import asaga_tasks as asaga_tasks
    from hogshare.solvers import asgd as asgd
    from hogshare.solvers import asysg_con as asysg_con
    from hogshare.solvers import asysg_incon as asysg_incon
    from hogshare.solvers import gaia as gaia
    from hogshare.solvers import prox_asaga as prox_asaga
    from hogshare.solvers import replay as replay
    from hogshare.solvers import saga_rounds as saga_rounds
    from hogshare.solvers import sgd_rounds as sgd_rounds
    from hogshare.solvers import solve as solve
    from hogshare.solvers import stochastic_reduce as stochastic_reduce
    from hogshare.tasks import AsyncContext as AsyncContext

# a library logs nothing unless its user configures logging
logging.getLogger("hogshare").addHandler(logging.NullHandler())

__getattr__, __dir__, __all__ = lazy_imports.names(
    __name__,
    {
        "_version": "__version__",
        "barriers": "ASP BSP Fraction PBSP PSSP SSP Throttled",
        "datasets": "datasets",
        "engine.checkpoints": "Checkpoint",
        "engine.stops": "Stop",
        "estimators": (
            "ElasticNet Lasso LatentDirichletAllocation LogisticRegression "
            "LogisticRegressionCV MLPClassifier MLPRegressor MatrixFactorization Ridge "
            "RidgeClassifier SGDClassifier SGDRegressor"
        ),
        "estimators.solver_report": "SolverReport",
        "io.encoding": "TableEncoder",
        "io.models.save_load": "load save",
        "links": "links",
        "links.link": "Link",
        "metrics": "metrics",
        "planes": "Grid Master Mirrors Plane Replicas Shared Until",
        "problems": "problems",
        "problems.model": "Model",
        "report": "Report",
        "rules": "Adam Rule SAGA SDCA SGD",
        "rules.steps": "StepSize",
        "runtimes.mpi.row_shards": "shard",
        "runtimes.mpi.runtime": "MPI",
        "shm.shared_rows": "share",
        "simulation": "Simulator simulation",
        "solvers": (
            "asaga asaga_tasks asgd asysg_con asysg_incon gaia prox_asaga replay saga_rounds "
            "sgd_rounds solve stochastic_reduce"
        ),
        "tasks": "AsyncContext",
        "theory": "theory",
        "topology": "topology",
    },
)
