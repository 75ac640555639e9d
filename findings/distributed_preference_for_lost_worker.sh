#!/usr/bin/env bash
# distributed 2026.8.0, a task with workers=[A], allow_other_workers=True (A is only preferred).
# One would guess: once A has gone and B has joined, such a task runs on B.
# Seen: a task that had no worker at all between A and B stays in the state no-worker, though B is
# idle; the same task with the same preference, submitted after B joined, runs on B at once. A new
# worker is matched against the preferred addresses only, without regard to allow_other_workers.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    distributed==2026.8.0 dask==2026.8.0

cat > finding.py <<'PYTHON'
import logging
import time

from distributed import Client, LocalCluster

PREFERENCE_ONLY = {"allow_other_workers": True, "pure": False}


def state(key, dask_scheduler):
    return dask_scheduler.tasks[key].state


def addresses(client):
    return list(client.scheduler_info()["workers"])


def main():
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        (first,) = addresses(client)
        blocker = client.submit(time.sleep, 5, workers=[first], **PREFERENCE_ONLY)
        waiting = client.submit(abs, -1, workers=[first], **PREFERENCE_ONLY)
        time.sleep(0.5)
        print("while A sleeps:", client.run_on_scheduler(state, waiting.key))
        cluster.scale(0)
        while addresses(client):
            time.sleep(0.1)
        print("A has gone:", client.run_on_scheduler(state, waiting.key))
        blocker.cancel()
        cluster.scale(1)
        client.wait_for_workers(1, timeout=30)
        assert addresses(client) != [first]
        later = client.submit(abs, -2, workers=[first], **PREFERENCE_ONLY)
        print("B has joined, a task submitted now answers", later.result(timeout=10))
        time.sleep(5)
        last = client.run_on_scheduler(state, waiting.key)
        print("5 s later, the task from before:", waiting.status, last)
        assert (waiting.status, last) == ("pending", "no-worker")


if __name__ == "__main__":
    main()
PYTHON
timeout 120 venv/bin/python finding.py
