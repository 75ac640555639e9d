"""The processes that a run has beside the caller's: found from outside, by what they run."""

import contextlib
import warnings

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


def until_it_warns(function, category, tries=5):
    """Call until it warns so: a kill may come when a worker is not there yet, or is done."""
    for _ in range(tries):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function()
        if any(issubclass(one.category, category) for one in caught):
            return
    raise AssertionError(f"{category.__name__} has not been warned of in {tries} calls")
