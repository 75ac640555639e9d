"""Stochastic optimisation that uses every core: lock-free solvers behind scikit-learn's faces.

Names are imported when they are first used, so that ``import hogshare`` and the command line's
``--help`` need neither Numba nor scikit-learn.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from hogshare._version import __version__

if TYPE_CHECKING:
    from hogshare import problems, theory
    from hogshare.barriers import ASP, BSP, PBSP, PSSP, SSP, Fraction, Throttled
    from hogshare.engine.checkpoints import Checkpoint
    from hogshare.engine.rules import SAGA, SDCA, SGD
    from hogshare.engine.steps import StepSize
    from hogshare.engine.stops import Stop
    from hogshare.estimators import (
        ElasticNet,
        Lasso,
        LogisticRegression,
        LogisticRegressionCV,
        Ridge,
        RidgeClassifier,
        SGDClassifier,
        SGDRegressor,
    )
    from hogshare.planes import Master, Shared
    from hogshare.problems.model import Model
    from hogshare.report import Report
    from hogshare.shm.sharing import share
    from hogshare.solvers import asaga, asysg_con, asysg_incon, prox_asaga, replay, solve

# a library says nothing unless its user listens
logging.getLogger("hogshare").addHandler(logging.NullHandler())

_PLACES = {
    "ASP": "hogshare.barriers",
    "BSP": "hogshare.barriers",
    "Checkpoint": "hogshare.engine.checkpoints",
    "ElasticNet": "hogshare.estimators",
    "Fraction": "hogshare.barriers",
    "Lasso": "hogshare.estimators",
    "LogisticRegression": "hogshare.estimators",
    "LogisticRegressionCV": "hogshare.estimators",
    "Master": "hogshare.planes",
    "Model": "hogshare.problems.model",
    "PBSP": "hogshare.barriers",
    "PSSP": "hogshare.barriers",
    "Report": "hogshare.report",
    "Ridge": "hogshare.estimators",
    "RidgeClassifier": "hogshare.estimators",
    "SAGA": "hogshare.engine.rules",
    "SDCA": "hogshare.engine.rules",
    "SGD": "hogshare.engine.rules",
    "SGDClassifier": "hogshare.estimators",
    "SGDRegressor": "hogshare.estimators",
    "SSP": "hogshare.barriers",
    "Shared": "hogshare.planes",
    "StepSize": "hogshare.engine.steps",
    "Stop": "hogshare.engine.stops",
    "Throttled": "hogshare.barriers",
    "asaga": "hogshare.solvers",
    "asysg_con": "hogshare.solvers",
    "asysg_incon": "hogshare.solvers",
    "problems": "hogshare.problems",
    "replay": "hogshare.solvers",
    "prox_asaga": "hogshare.solvers",
    "share": "hogshare.shm.sharing",
    "solve": "hogshare.solvers",
    "theory": "hogshare.theory",
}

__all__ = [
    "ASP",
    "BSP",
    "PBSP",
    "PSSP",
    "SAGA",
    "SDCA",
    "SGD",
    "SSP",
    "Checkpoint",
    "ElasticNet",
    "Fraction",
    "Lasso",
    "LogisticRegression",
    "LogisticRegressionCV",
    "Master",
    "Model",
    "Report",
    "Ridge",
    "RidgeClassifier",
    "SGDClassifier",
    "SGDRegressor",
    "Shared",
    "StepSize",
    "Stop",
    "Throttled",
    "__version__",
    "asaga",
    "asysg_con",
    "asysg_incon",
    "problems",
    "prox_asaga",
    "replay",
    "share",
    "solve",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'hogshare' has no attribute {name!r}")
    module = importlib.import_module(_PLACES[name])
    value = module if name in ("problems", "theory") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
