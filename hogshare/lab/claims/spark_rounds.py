"""SGD of Spark's library MLlib in local mode, as a measure for rounds of tasks.

It needs pyspark, and Java on the PATH. The context is made once per process and ends with it.
"""

from __future__ import annotations

import importlib.util
import logging
import shutil
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp


def is_installed() -> bool:
    """Return whether pyspark and Java are there."""
    return importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None


def least_squares(
    X: Any, y: np.ndarray, step: float, rate: float, n_workers: int
) -> Callable[[int], np.ndarray]:
    """Return MLlib's ``LinearRegressionWithSGD`` as a function of the number of rounds.

    The function returns the coefficients, shape (n_features,). Rows are cached in `n_workers`
    partitions. A sparse X may get its repeated entries added up.

    step : the first step; MLlib divides it by the root of the round's number
    rate : share of the rows that a round draws
    """
    from pyspark.mllib.linalg import Vectors
    from pyspark.mllib.regression import LabeledPoint, LinearRegressionWithSGD

    if sp.issparse(X):
        X.sum_duplicates()
        cut = zip(X.indptr, X.indptr[1:], strict=False)
        rows = [Vectors.sparse(X.shape[1], X.indices[a:b], X.data[a:b]) for a, b in cut]
    else:
        rows = list(X)
    points = [LabeledPoint(label, row) for label, row in zip(y, rows, strict=True)]
    data = _context(n_workers).parallelize(points, n_workers).cache()
    data.count()

    def run(rounds: int) -> np.ndarray:
        how: dict[str, Any] = {"step": step, "miniBatchFraction": rate, "convergenceTol": 0.0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # this class is deprecated in Spark
            model = LinearRegressionWithSGD.train(data, iterations=rounds, **how)
        return np.asarray(model.weights.toArray())

    return run


def _context(n_workers: int) -> Any:
    from pyspark import SparkConf, SparkContext

    logging.getLogger("py4j").setLevel(logging.ERROR)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    conf = SparkConf().setMaster(f"local[{n_workers}]").setAll(list(settings.items()))
    context = SparkContext.getOrCreate(conf)
    context.setLogLevel("OFF")
    return context
