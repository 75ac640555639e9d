"""What all test modules share: which of them run and in which order, default constants of the
machine, and that no test leaves anything behind.
"""

import os
import signal
from pathlib import Path

import leftovers
import pytest
import selection
from seams import Seams
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from hogshare.kernels.jit import decorators
from hogshare.system import machine

HERE = Path(__file__).parent
WATCHED = ("test_solve", "test_survival", "test_exchange", "test_checkpoints")

# Run before all others, in this order. With two pytest processes (`pytest -n 2`), which share the
# cache of kernels, the first gets the first and the third file and compiles what the rules that
# remember rows have in common once; the second compiles plain descent. The next files take longest,
# and a process that begins one of them last would leave the other without work.
FIRST = (
    "kernels/test_dual.py",
    "kernels/test_quanta.py",
    "kernels/test_saga.py",
    "test_crew.py",
    "test_linear_estimators.py",
    "test_mpi.py",
    "test_contract_ranks.py",
    "test_site.py",
    "test_reproduce.py",
    "test_tasks.py",
    "test_cli.py",
    "test_units.py",
    "test_contract.py",
    "test_networks.py",
    "test_logistic_cv.py",
    "test_sgd_estimators.py",
    "test_odd_files.py",
    "test_mpi_steps.py",
    "test_tuning.py",
    "test_examples.py",
    "test_survival.py",
    "test_rivals.py",
)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # a shell that starts the tests in the background has Ctrl-C ignored by all that they start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        *("--long", "--soak"),
        dest="long",
        action="store_true",
        help="run long tests too, and all rounds of those that CI runs a tenth of",
    )
    parser.addoption(
        "--change",
        choices=("any", "product", "lab"),
        default="any",
        help="what has changed: the others' tests are fewer (see tests/selection.py)",
    )


def pytest_configure(config):
    # the scheduler below waits for ever for a process that came in another's place
    if getattr(config.option, "maxworkerrestart", "") is None:
        config.option.maxworkerrestart = "0"


COMPILED = len(decorators.cached_files())  # before the tests


def pytest_report_header(config):
    change = "" if config.option.change == "any" else f"; only {config.option.change} has changed"
    return f"kernels: {COMPILED} compiled ones in {decorators.CACHE_FOLDER}{change}"


def pytest_terminal_summary(terminalreporter):
    if more := len(decorators.cached_files()) - COMPILED:
        terminalreporter.write_line(f"kernels: {more} were compiled: the cache was not warm")


@pytest.hookimpl(tryfirst=True)  # markers are there when -m is
def pytest_collection_modifyitems(config, items):
    run = set(selection.chosen(items, config.option.change, config.option.long))
    config.hook.pytest_deselected(items=[item for item in items if item not in run])
    order = {str(HERE / name): place for place, name in enumerate(FIRST)}
    items[:] = sorted(
        filter(run.__contains__, items), key=lambda item: order.get(str(item.path), len(order))
    )


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
    """``rounds(n)``: that many with --long, a tenth of it otherwise."""
    long = request.config.option.long
    return lambda n: n if long else max(1, n // 10)


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
        # where two processes share two cores, products by two threads each took fifty times as long
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        with threadpool_limits(1, user_api="blas"):
            yield


@pytest.fixture(scope="session", autouse=True)
def workers_fit_few_rows():
    """Workers fit what a user's few rows would be left to scikit-learn for: they are the matter."""
    with pytest.MonkeyPatch.context() as patch:
        Seams(patch).sizes.few = 0
        yield


@pytest.fixture
def plain_environment(monkeypatch):
    """None of the variables that the command goes by."""
    monkeypatch.delenv("HOGSHARE_DEBUG", raising=False)
    monkeypatch.delenv("HOGSHARE_DATA", raising=False)


@pytest.fixture
def few_rows_are_left(seams):
    """A user's few rows are left to scikit-learn."""
    seams.sizes.few = 100_000


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
