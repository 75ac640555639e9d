"""Executors that tests of tasks run on: whoever adds one adds a line to `MADE`."""

import contextlib
import functools
import gc
import importlib.util
import warnings

import pytest

from hogshare import Simulator
from hogshare.simulation import Constant

MADE = {
    "threads": lambda request: "threads",
    "processes": lambda request: "processes",
    "simulator": lambda request: Simulator(block_time=Constant(1.0)),
    "dask": lambda request: request.getfixturevalue("client"),
}
# what a worker of a cluster imports: one process does, and workers are forked from it
IMPORTED = ["distributed", "sklearn.linear_model", "hogshare.tasks.work", "hogshare.estimators"]
HAS_DASK = importlib.util.find_spec("distributed") is not None
NEEDS_DASK = pytest.mark.skipif(not HAS_DASK, reason="needs distributed")
KINDS = [pytest.param(kind, marks=[NEEDS_DASK] * (kind == "dask")) for kind in MADE]


@functools.cache
def fork_workers():
    """Have workers of clusters forked: starting one takes a tenth of its seconds of imports."""
    import dask
    from distributed.utils import get_mp_context

    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    get_mp_context().set_forkserver_preload(IMPORTED)


@contextlib.contextmanager
def cluster(n_workers=2):
    """A Dask cluster of processes, as on so many machines."""
    from distributed import Client, LocalCluster

    fork_workers()
    options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with LocalCluster(processes=True, silence_logs=50, **options) as own, Client(own) as client:
            yield client
        gc.collect()


@pytest.fixture(scope="module")
def client():
    with cluster() as client:
        yield client
