"""What a run may not leave behind: threads of ours and open descriptors."""

import gc
import os
import threading
import time

# the crew keeps one socket per process, and warm arenas up to its cap
KEPT = ("socket:", "anon_inode:", "/memfd:hogshare", "pipe:")


def held():
    """Our threads by name, and descriptors by what they are open on, the crew's apart."""
    files = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            files.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:  # the listing's own
            continue
    threads = sorted(t.name for t in threading.enumerate() if t.name.startswith("hogshare-"))
    return {"threads": threads, "files": sorted(f for f in files if not f.startswith(KEPT))}


def check(before, patience=2.0, look=held):
    """Fail if something is held that was not before, once what ends by itself has had its time.

    before : what `look` has found then, lists by kind
    """
    deadline = time.monotonic() + patience
    while True:
        now = look()
        left = {kind: found for kind, found in now.items() if len(found) > len(before[kind])}
        if new := [name for name in now["threads"] if name not in before["threads"]]:
            left["threads"] = new
        if not left or time.monotonic() > deadline:
            break
        gc.collect()
        time.sleep(0.05)
    assert not left, f"left: {left}"
