"""Stochastic optimisation that uses every core: lock-free solvers behind scikit-learn's faces.

Names are imported when they are first used, so that ``import hogshare`` and the command line's
``--help`` need neither Numba nor scikit-learn.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hogshare._version import __version__
from hogshare.system import (
    forks,  # noqa: F401  # its hooks are there from the first module on
    lazy,
)

if TYPE_CHECKING:
    from hogshare import datasets, links, problems, simulation, theory, topology
    from hogshare.barriers import ASP, BSP, PBSP, PSSP, SSP, Fraction, Throttled
    from hogshare.engine.checkpoints import Checkpoint
    from hogshare.engine.stops import Stop
    from hogshare.estimators import (
        ElasticNet,
        Lasso,
        LatentDirichletAllocation,
        LogisticRegression,
        LogisticRegressionCV,
        MatrixFactorization,
        MLPClassifier,
        MLPRegressor,
        Ridge,
        RidgeClassifier,
        SGDClassifier,
        SGDRegressor,
    )
    from hogshare.estimators.solver_report import SolverReport
    from hogshare.io.models.saving import load, save
    from hogshare.links.link import Link
    from hogshare.planes import Master, Mirrors, Plane, Replicas, Shared, Until
    from hogshare.problems.model import Model
    from hogshare.report import Report
    from hogshare.rules import SAGA, SDCA, SGD, Adam, Rule
    from hogshare.rules.steps import StepSize
    from hogshare.runtimes.mpi.dealing import shard
    from hogshare.runtimes.mpi.runtime import MPI
    from hogshare.shm.sharing import share
    from hogshare.simulation import Simulator
    from hogshare.solvers import (
        asaga,
        asaga_tasks,
        asgd,
        asysg_con,
        asysg_incon,
        gaia,
        prox_asaga,
        replay,
        saga_rounds,
        sgd_rounds,
        solve,
        stochastic_reduce,
    )
    from hogshare.tasks import AsyncContext

# a library says nothing unless its user listens
logging.getLogger("hogshare").addHandler(logging.NullHandler())

_PLACES = {
    "ASP": "barriers",
    "Adam": "rules",
    "AsyncContext": "tasks",
    "BSP": "barriers",
    "Checkpoint": "engine.checkpoints",
    "ElasticNet": "estimators",
    "Fraction": "barriers",
    "Lasso": "estimators",
    "LatentDirichletAllocation": "estimators",
    "Link": "links.link",
    "LogisticRegression": "estimators",
    "LogisticRegressionCV": "estimators",
    "MLPClassifier": "estimators",
    "MLPRegressor": "estimators",
    "MPI": "runtimes.mpi.runtime",
    "Master": "planes",
    "MatrixFactorization": "estimators",
    "Model": "problems.model",
    "PBSP": "barriers",
    "PSSP": "barriers",
    "Mirrors": "planes",
    "Plane": "planes",
    "Replicas": "planes",
    "Report": "report",
    "Ridge": "estimators",
    "RidgeClassifier": "estimators",
    "Rule": "rules",
    "SAGA": "rules",
    "SDCA": "rules",
    "SGD": "rules",
    "SGDClassifier": "estimators",
    "SGDRegressor": "estimators",
    "SSP": "barriers",
    "Shared": "planes",
    "Simulator": "simulation",
    "SolverReport": "estimators.solver_report",
    "StepSize": "rules.steps",
    "Stop": "engine.stops",
    "Throttled": "barriers",
    "Until": "planes",
    "asaga": "solvers",
    "asaga_tasks": "solvers",
    "asgd": "solvers",
    "asysg_con": "solvers",
    "asysg_incon": "solvers",
    "datasets": "datasets",
    "gaia": "solvers",
    "links": "links",
    "load": "io.models.saving",
    "problems": "problems",
    "prox_asaga": "solvers",
    "replay": "solvers",
    "saga_rounds": "solvers",
    "save": "io.models.saving",
    "sgd_rounds": "solvers",
    "shard": "runtimes.mpi.dealing",
    "share": "shm.sharing",
    "simulation": "simulation",
    "solve": "solvers",
    "stochastic_reduce": "solvers",
    "theory": "theory",
    "topology": "topology",
}

__all__ = [
    "ASP",
    "BSP",
    "MPI",
    "PBSP",
    "PSSP",
    "SAGA",
    "SDCA",
    "SGD",
    "SSP",
    "Adam",
    "AsyncContext",
    "Checkpoint",
    "ElasticNet",
    "Fraction",
    "Lasso",
    "LatentDirichletAllocation",
    "Link",
    "LogisticRegression",
    "LogisticRegressionCV",
    "MLPClassifier",
    "MLPRegressor",
    "Master",
    "MatrixFactorization",
    "Mirrors",
    "Model",
    "Plane",
    "Replicas",
    "Report",
    "Ridge",
    "RidgeClassifier",
    "Rule",
    "SGDClassifier",
    "SGDRegressor",
    "Shared",
    "Simulator",
    "SolverReport",
    "StepSize",
    "Stop",
    "Throttled",
    "Until",
    "__version__",
    "asaga",
    "asaga_tasks",
    "asgd",
    "asysg_con",
    "asysg_incon",
    "datasets",
    "gaia",
    "links",
    "load",
    "problems",
    "prox_asaga",
    "replay",
    "saga_rounds",
    "save",
    "sgd_rounds",
    "shard",
    "share",
    "simulation",
    "solve",
    "stochastic_reduce",
    "theory",
    "topology",
]

__getattr__, __dir__ = lazy.names(__name__, _PLACES)
