"""What the user has defined goes to worker processes with its code, and leaves no trace here."""

import functools
import os
import pickle
import signal
import sys
import threading
import types

import cloudpickle
import pytest

from hogshare import BSP, Stop, problems, solve
from hogshare.runtimes import user_objects
from hogshare.runtimes.user_objects import packed
from hogshare.stragglers import LogNormal, Recorded, Stragglers

PATIENCE = 60

MODULE = """
import dataclasses
from hogshare.stragglers import Stragglers

SECONDS = 0.001

@dataclasses.dataclass(frozen=True)
class Late(Stragglers):
    worker: int = 1

    def lateness(self, worker, block, n_workers, mean):
        return SECONDS * (worker == self.worker)

class Barrier:
    def __call__(self, table, me):
        return SECONDS > 0.0

    def method(self, table, me):
        return SECONDS > 0.0

def function(table, me):
    return SECONDS > 0.0

def with_limit(table, me, limit):
    return SECONDS < limit
"""


@pytest.fixture
def module(monkeypatch):
    """A module that no other process finds."""
    module = types.ModuleType("made_here")
    monkeypatch.setitem(sys.modules, "made_here", module)
    exec(MODULE, module.__dict__)
    return module


def fit(cancer, **settings):
    problem = problems.linear(*cancer, alpha=0.01)
    run = {"runtime": "processes", "n_workers": 3, "stop": Stop(epochs=2), "block": 20, "seed": 0}
    return solve(problem, **run | settings)


def in_a_function():
    class Local(Stragglers):
        def lateness(self, worker, block, n_workers, mean):
            return 0.002 * worker

    return Local


@pytest.mark.parametrize("where", ["function", "main", "module", "base"])
def test_a_law_of_the_users_reaches_processes(cancer, module, monkeypatch, where):
    kind = in_a_function()
    if where == "main":
        main = types.ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", main)
        kind.__module__, kind.__qualname__, main.Local = "__main__", "Local", kind
    elif where == "module":
        kind = module.Late
    elif where == "base":
        kind = type("OfABase", (module.Late,), {})
    report = fit(cancer, stragglers=kind(base=0.001), barrier=BSP())  # all begin when all are up
    assert {worker["state"] for worker in report.workers} == {"done"}
    assert all(worker["blocks"] > 0 for worker in report.workers)
    assert report.workers[1]["mean_block_seconds"] > 0.002


@pytest.mark.parametrize("name", ["function", "object", "method", "partial"])
def test_a_barrier_of_the_users_reaches_processes(cancer, module, name):
    barriers = {
        "function": module.function,
        "object": module.Barrier(),
        "method": module.Barrier().method,
        "partial": functools.partial(module.with_limit, limit=1.0),
    }
    report = fit(cancer, barrier=barriers[name])
    assert sum(worker["rows"] for worker in report.workers) == 2 * len(cancer[0])


def test_what_is_ours_goes_by_name():
    for law in (None, LogNormal(0.3), Recorded([[0.5]])):
        content = packed("stragglers", law)
        assert pickle.loads(content) == law and b"cloudpickle" not in content


class Spoilt:
    """A barrier that does something when it is pickled."""

    def __init__(self, act):
        self.act = act

    def __call__(self, table, me):
        return True

    def __getstate__(self):
        self.act()
        return {}


def fail():
    raise OSError("an open file")


@pytest.fixture(params=["the user's", "nobody's"])
def as_found(request):
    """Cloudpickle's list is what it was."""
    module = sys.modules[__name__]
    if request.param == "the user's":
        cloudpickle.register_pickle_by_value(module)
    before = cloudpickle.list_registry_pickle_by_value()
    yield before
    after = cloudpickle.list_registry_pickle_by_value()
    cloudpickle.cloudpickle._PICKLE_BY_VALUE_MODULES.discard(module.__name__)
    assert after == before and not user_objects._entered


def test_cloudpickles_list_is_left_as_found(as_found):
    assert b"__getstate__" in packed("barrier", Spoilt(int))  # its code
    with pytest.raises(ValueError, match=r"The barrier .*Spoilt.* cannot be sent .*an open file"):
        packed("barrier", Spoilt(fail))
    with pytest.raises(KeyboardInterrupt):
        packed("barrier", Spoilt(lambda: signal.raise_signal(signal.SIGINT)))


def test_cloudpickles_list_is_left_as_found_wherever_an_interrupt_comes(as_found):
    spoilt, met, place = Spoilt(int), 0, 0

    def interrupt(frame, event, _):
        nonlocal left
        left -= event in ("call", "return")
        if left == 0:
            signal.raise_signal(signal.SIGINT)

    while True:
        left = place = place + 1
        sys.setprofile(interrupt)
        try:
            packed("barrier", spoilt)
        except KeyboardInterrupt:
            met += 1
        finally:
            sys.setprofile(None)
        assert cloudpickle.list_registry_pickle_by_value() == as_found, place
        if left > 0:
            break
        place += place // 20  # each of the first, in Holding and the list; of those in a dump some
    assert met > 20


def test_two_threads_send_what_one_module_defines(as_found):
    inside, go_on, contents = threading.Event(), threading.Event(), []

    def wait():
        inside.set()
        assert go_on.wait(PATIENCE)

    def send(thing):
        contents.append(packed("barrier", thing))

    threads = [threading.Thread(target=send, args=[Spoilt(wait)])]
    threads[0].start()
    assert inside.wait(PATIENCE)
    threads.append(threading.Thread(target=send, args=[Spoilt(int)]))
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(contents) == 2 and all(b"__getstate__" in content for content in contents)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_meanwhile_can_send_too(as_found):
    inside, go_on = threading.Event(), threading.Event()

    def wait():
        inside.set()
        assert go_on.wait(PATIENCE)

    thread = threading.Thread(target=packed, args=["barrier", Spoilt(wait)])
    thread.start()
    assert inside.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        right = False
        try:
            signal.alarm(PATIENCE)
            right = cloudpickle.list_registry_pickle_by_value() == as_found
            right = right and b"__getstate__" in packed("barrier", Spoilt(int))
        finally:
            os._exit(0 if right else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    go_on.set()
    thread.join(PATIENCE)
    assert code == 0
