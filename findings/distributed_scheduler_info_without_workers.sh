#!/usr/bin/env bash
# distributed 2026.8.0, Client.scheduler_info(n_workers=-1), "all workers", on a cluster of two.
# One would guess: it has both workers in every call, as nothing comes or goes.
# Seen: now and then it has none. The call stores the answer in the client and then returns what is
# stored; a refresh that the client makes by itself, every two seconds by default, asks for no worker
# and may store its own answer in between. Client.nthreads() has both every time.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    distributed==2026.8.0 dask==2026.8.0

cat > finding.py <<'PYTHON'
import dask
from distributed import Client

CALLS, MOST = 1000, 50_000


def main():
    # the refresh more often than by default, so that it is met in seconds
    dask.config.set({"distributed.client.scheduler-info-interval": "5ms"})
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with Client(processes=False, **options) as client:
        counts, calls = set(), 0
        while counts != {0, 2} and calls < MOST:
            counts.add(len(client.scheduler_info(n_workers=-1)["workers"]))
            calls += 1
        by_threads = {len(client.nthreads()) for _ in range(CALLS)}
    print(f"workers by scheduler_info: {sorted(counts)}; by nthreads: {sorted(by_threads)}")
    assert counts == {0, 2}, counts
    assert by_threads == {2}, by_threads


if __name__ == "__main__":
    main()
PYTHON
venv/bin/python finding.py
