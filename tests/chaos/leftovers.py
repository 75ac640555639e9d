"""What a run may not leave: threads, descriptors, children, files in shared memory."""

import gc
import os
import threading
import time
from pathlib import Path

import psutil

PATIENCE = 10.0  # seconds until what ends by itself has ended
# the crew keeps a socket for each process, and warm arenas up to its cap
KEPT = ("socket:", "anon_inode:", "/memfd:hogshare", "pipe:", "/dev/null", "/memfd:")


def held():
    """Threads, descriptors, children and files, by what they are."""
    files = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            files.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:  # the listing's own
            continue
    return {
        "threads": [t.name for t in threading.enumerate() if t.name.startswith("hogshare-")],
        "descriptors": [name for name in files if not name.startswith(KEPT)],
        "zombies": [c.pid for c in psutil.Process().children() if c.status() == "zombie"],
        "shared memory": [f.name for f in Path("/dev/shm").iterdir() if "hogshare" in f.name],
    }


def check(before):
    """Fail if there is more than before of anything."""
    deadline = time.monotonic() + PATIENCE
    while True:
        now = held()
        more = {k: v for k, v in now.items() if len(v) > len(before[k])}
        if not more or time.monotonic() > deadline:
            break
        gc.collect()
        time.sleep(0.02)
    assert not more, f"left: {more}, before: {before}"
