"""Two ranks in network namespaces of their own, with a link of 100 Mbit/s between: two machines.

Needs root, `ip` and `tc`; run with --long. Elsewhere `MPI(arena=False)` is tested on ranks of one
machine, and links are emulated.
"""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import ranks

pytest.importorskip("mpi4py")

TOOLS = ("ip", "tc", "mpiexec")
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(200),
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, TOOLS)), reason=f"needs root, and {TOOLS}"
    ),
]

LAY = """
set -e
for k in 0 1; do ip netns add hogshare$k; ip -n hogshare$k link set lo up; done
ip link add hs0 netns hogshare0 type veth peer name hs1 netns hogshare1
for k in 0 1; do
    ip -n hogshare$k addr add 10.77.0.$((k + 1))/24 dev hs$k
    ip -n hogshare$k link set hs$k up
    ip netns exec hogshare$k tc qdisc add dev hs$k root tbf rate 100mbit burst 1mb latency 50ms
done
"""
IN_NAMESPACE = '#!/bin/sh\nexec ip netns exec "hogshare$PMI_RANK" "$@"\n'
SCRIPT = """
import faulthandler
faulthandler.dump_traceback_later(120, exit=True)  # who hangs says where
import json, sys, time
import numpy as np
from hogshare import MPI, Mirrors, Replicas, datasets, problems, solve
from hogshare.runtimes.mpi import channel, heart

channel.SILENT_SECONDS = heart.SILENT_SECONDS = float(sys.argv[2])
rank, size = MPI().place()
X, y = datasets.zipf_classification(n_samples=20_000, n_features=20_000, dtype=np.float32)
mine = slice(rank, None, size)
part = problems.linear(X[mine], y[mine], alpha=1e-4, fit_intercept=False)
planes = {"shared": None, "replicas": Replicas(), "mirrors": Mirrors(2)}
run = {"runtime": MPI(arena=False), "n_workers": 1, "plane": planes[sys.argv[3]], "seed": 0}
run["rule"] = "sdca" if sys.argv[3] == "shared" else "sgd"
solve(part, stop=1, **run)
print("begins", flush=True)
began, error, value = time.monotonic(), None, None
try:
    model = solve(part, stop=int(sys.argv[1]), **run).model
    whole = problems.linear(X, y, alpha=1e-4, fit_intercept=False)
    value = whole.objective(model.coef, model.intercept)
except Exception as failure:
    error = str(failure)
took = time.monotonic() - began
print(json.dumps({"rank": rank, "took": took, "error": error, "objective": value}), flush=True)
if error:
    raise SystemExit(1)  # as an exception would: MPI's own end would wait for the link
"""


@pytest.fixture
def machines(tmp_path):
    """``run(epochs, down, silent, plane)``: what each rank tells; the link is down for so long."""
    script, wrapper = tmp_path / "fit.py", tmp_path / "rank.sh"
    script.write_text(SCRIPT)
    wrapper.write_text(IN_NAMESPACE)
    wrapper.chmod(0o755)

    def link(state):
        subprocess.run(["ip", "-n", "hogshare0", "link", "set", "hs0", state], check=True)

    def run(epochs, down=0.0, silent=30.0, plane="shared"):
        job = subprocess.Popen(
            [
                *("mpiexec", "-n", "2", str(wrapper), sys.executable, "-m", "mpi4py"),
                *(str(script), str(epochs), str(silent), plane),
            ],
            env={
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parents[1]),
                "MPIR_CVAR_NOLOCAL": "1",
                "UCX_TLS": "tcp,self",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        lines = []
        with job:
            for line in job.stdout:
                if line.strip() == "begins" and down and not lines:
                    threading.Timer(0.5, link, ["down"]).start()
                    if down < 60.0:
                        threading.Timer(0.5 + down, link, ["up"]).start()
                lines.append(line)
        return ranks.told("".join(lines))

    subprocess.run(["sh", "-c", LAY], check=True)
    yield run
    for k in (0, 1):
        subprocess.run(["ip", "netns", "del", f"hogshare{k}"], check=False)


@pytest.mark.parametrize("plane", ["shared", "replicas", "mirrors"])
def test_a_fit_over_a_link(machines, plane):
    told = machines(epochs=20, plane=plane)
    assert len(told) == 2 and all(one["error"] is None for one in told)
    assert told[0]["objective"] == told[1]["objective"] < 0.55


def test_a_link_that_is_down_for_five_seconds_costs_that(machines):
    before = machines(epochs=200)
    told = machines(epochs=200, down=5.0)
    assert [one["error"] for one in told] == [None, None]
    assert told[0]["objective"] == pytest.approx(before[0]["objective"], rel=1e-3)
    assert 5.0 < told[0]["took"] < before[0]["took"] + 15.0


def test_replicas_go_on_when_the_link_is_up_again(machines):
    before = machines(epochs=100, plane="replicas")
    told = machines(epochs=100, down=5.0, plane="replicas")
    assert [one["error"] for one in told] == [None, None]
    assert told[0]["objective"] == told[1]["objective"]
    assert told[0]["objective"] == pytest.approx(before[0]["objective"], rel=0.01)
    assert 5.0 < told[0]["took"] < before[0]["took"] + 15.0


@pytest.mark.parametrize("plane", ["shared", "replicas", "mirrors"])
def test_a_link_that_stays_down_ends_the_run_with_a_sentence(machines, plane):
    told = machines(epochs=100_000, down=1e9, silent=3.0, plane=plane)
    assert len(told) >= 1
    assert all("has not been heard of for 3 seconds" in one["error"] for one in told)
    assert all("the link to its machine is down" in one["error"] for one in told)
