"""What all test modules share: the --soak option, default constants of the machine, which files run
at the same time, and that no test leaves anything behind.
"""

import os
import signal
from pathlib import Path

import leftovers
import pytest
from seams import Seams
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale

from hogshare.system import machine

HERE = Path(__file__).parent
WATCHED = ("test_solve", "test_survival", "test_exchange", "test_checkpoints")

# Run before all others, in this order. With two pytest processes (`pytest -n 2`), which share the
# cache of kernels, the first gets the first and the third file and compiles what the rules that
# remember rows have in common once; the second compiles plain descent. The next files take longest,
# and a process that begins one of them last would keep the other waiting.
FIRST = (
    "kernels/test_dual.py",
    "kernels/test_turns.py",
    "kernels/test_saga.py",
    "test_crew.py",
    "test_linear_estimators.py",
    "test_logistic_cv.py",
    "test_survival.py",
    "test_barriers.py",
    "test_master.py",
    "test_sgd_estimators.py",
    "test_saga.py",
    "test_examples.py",
    "test_lanes.py",
    "test_rivals.py",
)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # a shell that starts the tests in the background has Ctrl-C ignored by all that they start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--soak",
        action="store_true",
        help="run all rounds of the survival and mutation tests, not a tenth of them, and installs",
    )


def pytest_configure(config):
    # the scheduler below waits for ever for a process that came in another's place
    if getattr(config.option, "maxworkerrestart", "") is None:
        config.option.maxworkerrestart = "0"


def pytest_collection_modifyitems(items):
    order = {str(HERE / name): place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(str(item.path), len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With several pytest processes a file is one process's, and files begin in the order above."""
    if config.getoption("dist") != "load":  # what -n means by itself; another choice stands
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


@pytest.fixture(scope="session")
def rounds(request):
    """``rounds(n)``: that many with --soak, a tenth of it otherwise."""
    soak = request.config.getoption("--soak")
    return lambda n: n if soak else max(1, n // 10)


@pytest.fixture
def long(request):
    """Skips a test that takes minutes, but with --soak."""
    if not request.config.getoption("--soak"):
        pytest.skip("takes minutes: --soak")


@pytest.fixture(scope="session", autouse=True)
def default_machine(tmp_path_factory):
    """What has been measured on this machine is not the tests' business; processes inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("machine")
        patch.setenv("HOGSHARE_MACHINE", str(folder / "not measured.json"))
        Seams(patch).machine.busy_others = lambda more=0: 0  # nor what else runs here now
        machine.load.cache_clear()
        # how long compiling takes is not either: processes whose messages are compared say nothing
        patch.setenv("HOGSHARE_QUIET", "1")
        yield


@pytest.fixture
def seams(monkeypatch):
    """Where a test reaches inside, as named in `seams.py`."""
    return Seams(monkeypatch)


@pytest.fixture(scope="session")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="session")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), (y - y.mean()) / y.std()


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """Fail a test of a fit that leaves a thread of ours or an open file."""
    if request.module.__name__.rpartition(".")[2] not in WATCHED or not os.path.isdir("/proc/self"):
        yield
        return
    before = leftovers.held()
    yield
    leftovers.check(before)
