"""New threads get a core each for a moment, and are free afterwards."""

import os
import threading

import pytest

from hogshare.runtimes.placement import Placement

linux_only = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="binding threads to cores needs Linux"
)


def bound_cores(placement, n_workers):
    """The cores of each worker while bound, and after everyone was freed."""
    before, after = {}, {}
    everyone = threading.Barrier(n_workers + 1)

    def work(k):
        placement.bind(k)
        before[k] = os.sched_getaffinity(0)
        everyone.wait(10)
        everyone.wait(10)
        after[k] = os.sched_getaffinity(0)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(n_workers)]
    for thread in threads:
        thread.start()
    everyone.wait(10)
    placement.free()
    everyone.wait(10)
    for thread in threads:
        thread.join()
    return before, after


@linux_only
def test_every_worker_has_a_core_of_its_own_and_is_freed():
    usable = os.sched_getaffinity(0)
    if len(usable) < 2:
        pytest.skip("one usable core")
    before, after = bound_cores(Placement(2), 2)
    assert all(len(cores) == 1 for cores in before.values())
    assert before[0] != before[1]
    assert after == {0: usable, 1: usable}


@linux_only
@pytest.mark.parametrize("more", [False, True])
def test_nobody_is_bound_where_it_cannot_help(more):
    """One worker alone, or more workers than cores."""
    usable = os.sched_getaffinity(0)
    n_workers = len(usable) + 1 if more else 1
    before, _ = bound_cores(Placement(n_workers), n_workers)
    assert all(cores == usable for cores in before.values())


@linux_only
def test_freeing_threads_that_have_ended_is_harmless():
    placement = Placement(2)
    thread = threading.Thread(target=placement.bind, args=(0,))
    thread.start()
    thread.join()
    placement.free()
    placement.free()
