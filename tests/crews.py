"""The processes that a run has beside the caller's: found from outside, by what they run."""

import contextlib

import psutil


def members(process=None):
    """The processes of a process's crew, by default this one's: children of its fork helper."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for helper in (process or psutil.Process()).children():
            with contextlib.suppress(psutil.NoSuchProcess):  # or a zombie, which has left
                if "hogshare.runtimes.fork_helper" in " ".join(helper.cmdline()):
                    found += helper.children()
    return found
