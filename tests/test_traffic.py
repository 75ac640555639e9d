"""`Report.traffic`: on every plane, in every runtime, one shape, and what was sent is counted."""

import pytest
from contract import D, X, Y
from traffic_checks import Ring, messages, sums_agree

from hogshare import Master, Mirrors, Replicas, Shared, Simulator, Stop, asgd, problems, solve

WORKERS = 3
RUNTIMES = ("threads", "processes", "simulator")

PLANES = {
    "shared": Shared(),
    "lock-free": Shared(exchange=None),
    "master": Master(),
    "master of three": Master(3, cutoff=2),
    "replicas": Replicas("ring", every=16),
    "replicas, async": Replicas("all", every=16, sync="async"),
    "replicas, push-sum": Replicas("ring", every=16, weights="push-sum"),
    "replicas, changes": Replicas("all", every=16, send="change"),
    "mirrors": Mirrors(2, every=16),
    "mirrors, a worker each": Mirrors(3, every=16, threshold=0.5, clock_difference=1),
    "one's own": Ring(),
}


def run(plane, runtime, n_workers=WORKERS, **more):
    problem = problems.linear(X, Y, alpha=0.01)
    settings = {"step": 0.01, "stop": Stop(epochs=3, tol=None), "seed": 0, "block": 8, **more}
    return solve(problem, plane=PLANES[plane], runtime=runtime, n_workers=n_workers, **settings)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("plane", PLANES)
def test_what_was_sent_is_counted(plane, runtime):
    report = run(plane, runtime)
    traffic, blocks = report.traffic, sum(worker["blocks"] for worker in report.workers)
    sums_agree(traffic)
    assert report.to_dict()["traffic"] == traffic
    assert all(f"{kind} messages, bytes" in str(report) for kind in traffic)
    control = {"control"} if runtime == "simulator" else set()
    if plane in ("shared", "lock-free"):
        assert set(traffic) == ({"model", "update", "control"} if control else set())
    elif plane.startswith("master"):
        assert set(traffic) == {"model", "update"} | control
        assert messages(traffic, "update") == report.mail["messages"] == blocks
        assert messages(traffic, "model") == blocks
        assert set(traffic["update"]["edges"]) <= {f"{k} to model" for k in range(WORKERS)}
    elif plane.startswith("replicas"):
        assert set(traffic) == {"whole", "sparse"} | control
        assert {kind: traffic[kind] for kind in ("whole", "sparse")} == report.reduces.traffic
        assert messages(traffic, "whole", "sparse") == report.reduces.messages > 0
    elif plane.startswith("mirrors"):
        assert set(traffic) == {"update", "barrier", "clock"} | control
        kinds = ("update", "barrier", "clock")
        assert {kind: traffic[kind] for kind in kinds} == report.exchanges.traffic
        assert messages(traffic, *kinds) == report.exchanges.sent[:, :, 0].sum() > 0
        assert sum(traffic[kind]["bytes"] for kind in kinds) == report.exchanges.bytes
    else:
        whole, few = PLANES[plane].sent.sum(axis=0)
        assert set(traffic) == {"mail"} | control and whole + few > 0
        size = whole * ((D + 1) * 8 + 32) + few * (3 * (8 + 4) + 32)
        assert (messages(traffic, "mail"), traffic["mail"]["bytes"]) == (whole + few, size)


@pytest.mark.parametrize("plane", PLANES)
def test_one_worker_sends_nothing_but_to_a_master(plane):
    if plane.startswith("mirrors"):
        pytest.skip("a centre needs a worker")
    report = run(plane, "caller", n_workers=1)
    sums_agree(report.traffic)
    assert set(report.traffic) == ({"model", "update"} if plane.startswith("master") else set())


@pytest.mark.parametrize("workers", ["processes", Simulator()], ids=str)
def test_tasks_and_results_are_counted(workers):
    problem = problems.linear(X, Y, alpha=0.01)
    report = asgd(problem, workers=workers, n_workers=2, epochs=2, seed=0)
    sums_agree(report.traffic)
    tasks = sum(worker["blocks"] for worker in report.workers)
    assert report.traffic["model"]["messages"] >= messages(report.traffic, "update") >= tasks > 0
    assert report.traffic["update"]["bytes"] >= tasks * (D + 1) * 8
