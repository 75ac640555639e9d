"""The processes that a run has beside the caller's: found from outside, by what they run."""

import contextlib

import psutil

PATIENCE = 60.0


def members(process=None):
    """The processes of a process's crew, by default this one's: children of its fork helper."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for helper in (process or psutil.Process()).children():
            with contextlib.suppress(psutil.NoSuchProcess):  # or a zombie, which has left
                if "hogshare.runtimes.fork_helper" in " ".join(helper.cmdline()):
                    found += helper.children()
    return found


def kill_members():
    """Kill them, and wait until they are gone, which takes its time on busy cores; their ids."""
    killed = members()
    for one in killed:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    _, left = psutil.wait_procs(killed, PATIENCE)
    assert not left
    return [one.pid for one in killed]
