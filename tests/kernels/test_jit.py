"""How Numba is shown kernels and helpers."""

import os
import signal
import subprocess
import sys
import threading

import numba
import numpy as np
import pytest
from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Flags as NumbaFlags
from numba.core.targetconfig import ConfigStack

from hogshare.kernels.jit import compilers, decorators

pytestmark = pytest.mark.skipif(decorators.JIT_DISABLED, reason="nothing is compiled")


@pytest.fixture(autouse=True)
def folder(tmp_path, seams):
    seams.kernels.folder = tmp_path / "kernels"


def made():
    """A kernel on a helper on a helper, new to Numba."""

    @decorators.inlined
    def twice(x):
        return 2.0 * x

    @decorators.helper
    def total(x):
        s = 0.0
        for k in range(x.shape[0]):
            s += twice(x[k])
        return s

    @decorators.kernel
    def total_and_one(x):
        return total(x) + 1.0

    return twice, total, total_and_one


def test_numba_is_shown_what_is_called_and_when():
    twice, total, kernel = made()
    assert twice.shown is total.shown is kernel.shown is None
    assert kernel.signatures == []
    assert kernel(np.arange(4.0)) == 13.0
    assert len(kernel.signatures) == 1
    assert twice.shown is not None and total.shown is not None


def test_helpers_are_python_to_python():
    twice, total, _ = made()
    assert total(np.arange(4.0)) == 12.0
    assert twice.shown is total.shown is None


def test_helpers_have_no_machine_code():
    twice, total, kernel = made()
    kernel(np.arange(4.0))
    for function, has_code in ((twice, False), (total, False), (kernel, True)):
        (result,) = function.dispatcher.overloads.values()
        name = result.fndesc.llvm_func_name
        assert result.library.codegen._engine.is_symbol_defined(name) == has_code


def test_a_helper_of_several_types():
    _, total, kernel = made()
    assert kernel(np.arange(4.0)) == kernel(np.arange(4, dtype=np.float32)) == 13.0
    assert len(total.dispatcher.overloads) == 2


def test_threads_that_come_at_once_show_it_once(monkeypatch):
    before = config.CACHE_DIR
    _, _, kernel = made()
    shown = []
    real = numba.njit
    monkeypatch.setattr(numba, "njit", lambda **options: shown.append(options) or real(**options))
    start = threading.Barrier(4)

    def use():
        start.wait()
        assert kernel(np.arange(4.0)) == 13.0

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(shown) == 3  # each of the three once
    assert before == config.CACHE_DIR


def test_numba_still_has_what_is_replaced():
    for name in vars(compilers.LinkedLibrary):
        assert name.startswith("__") or hasattr(JITCodeLibrary, name)


def test_the_users_own_cached_functions_stay_where_they_were(tmp_path, monkeypatch):
    own = tmp_path / "own"
    monkeypatch.setattr(config, "CACHE_DIR", str(own))
    _, _, kernel = made()
    assert kernel(np.arange(4.0)) == 13.0
    assert str(own) == config.CACHE_DIR
    assert not own.exists()
    assert list((tmp_path / "kernels").rglob("*.nbc"))


def test_flags_are_compared_by_what_was_set():
    ours, same, other = (compilers.Flags(NumbaFlags()) for _ in range(3))
    for made, value in ((ours, True), (same, True), (other, False)):
        made.nrt = value
    assert ours == same and ours != other and ours.copy() == same
    assert type(ours.copy()) is compilers.Flags
    theirs = NumbaFlags()
    theirs.nrt = True
    assert ours == theirs == ours and hash(ours) == hash(theirs)  # to Numba they are the same key
    assert other != theirs and theirs != other


def test_kernels_and_helpers_are_compiled_with_them(monkeypatch):
    """By the flags that Numba looks a call up by; inside of its own functions they are its own."""
    seen = set()
    top = ConfigStack.top_or_none
    monkeypatch.setattr(
        ConfigStack, "top_or_none", classmethod(lambda cls: seen.add(type(top())) or top())
    )

    @decorators.kernel
    def largest(x):
        return max(x[0], x[1])

    assert largest(np.arange(2.0)) == 1.0
    assert compilers.Flags in seen
    assert issubclass(compilers.HelperCompiler, compilers.QuickCompiler)


def test_numba_is_not_interrupted_while_it_loads_what_it_knows(monkeypatch):
    loaded = []

    def refresh():
        signal.raise_signal(signal.SIGINT)
        loaded.append(1)

    monkeypatch.setattr(decorators.cpu_target.target_context, "refresh", refresh)
    with pytest.raises(KeyboardInterrupt):
        decorators.load_registries.__wrapped__()
    assert loaded == [1]


INTERRUPTED = """
import os, signal, sys
import numpy as np
from numba.core.codegen import CPUCodeLibrary

asked = CPUCodeLibrary._object_getbuffer_hook.__func__
to_come = []

def interrupt(library, *args):
    if to_come:
        os.kill(os.getpid(), to_come.pop())
    return asked(library, *args)

CPUCodeLibrary._object_getbuffer_hook = classmethod(interrupt)
from hogshare.kernels.jit.decorators import load_registries
from hogshare.kernels.rows.sums import total
load_registries()
def late(number, frame):
    raise TimeoutError

signal.signal(signal.SIGALRM, late)
to_come.append(getattr(signal, sys.argv[1]))
try:
    print(total(np.ones(5)))
except (KeyboardInterrupt, TimeoutError):
    print("interrupted")
print(total(np.ones(5)), len(to_come))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGALRM"])
def test_a_signal_waits_until_machine_code_is_loaded(tmp_path, name):
    """LLVM asks Python for the code, and goes on without it if Python raises."""

    def run(code):
        done = subprocess.run(
            [sys.executable, "-c", code, name],
            env={**os.environ, "HOGSHARE_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    compiled = "import numpy as np; from hogshare.kernels.rows.sums import total; total(np.ones(5))"
    assert run(compiled) == []
    assert run(INTERRUPTED) == ["interrupted", "5.0", "0"]
