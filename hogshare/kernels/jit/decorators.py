"""Decorators of kernels: how kernels are compiled, and where their machine code is cached.

Flags, each with its reason:

- ``nogil``: workers are often threads of one process, and the thread that waits for Ctrl-C must run
  while a kernel runs.
- ``fastmath`` without ``nnan`` and ``ninf``: reductions may be reassociated (1.35 times faster dot
  products), but a diverging run *is* NaN and infinity, so NaN and infinity must stay defined.
- ``error_model="numpy"``: a division by zero gives infinity, as in NumPy. Numba's default has a
  branch and an exception, which could end a lock-free update in the middle.
- ``_nrt=False``: no reference counts. Numba would count the references to a tuple's arrays
  atomically at every call. Two threads that use the same array would pass the cache line of its
  count back and forth at every row. Without reference counts kernels cannot allocate, so callers
  pass scratch arrays.
- no ``fastmath`` in `exact_kernel` and `exact_helper`: on a virtual clock the order of events
  depends on the last bit of a sum. So sums are rounded as they are written, with the JIT on or off.

Machine code is cached by `hogshare.kernels.jit.cache`. Its key for a kernel covers only the files
of the kernel's own folder. With this key alone, the old code would run silently after an edit of a
helper in another folder, or of a flag. Therefore the cache folder's name is a digest of every file
of the kernels' package, Numba's version, Python's version and the flags.
"""

import functools
import hashlib
import sys
from pathlib import Path

import numba
from numba import typeof
from numba.core import config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import typeof_impl

from hogshare.kernels.jit import announcements, cache
from hogshare.kernels.jit.compilers import HelperCompiler, KernelCompiler
from hogshare.system.interrupts import DeferredSignals

BOUNDSCHECK = bool(config.BOUNDSCHECK)
JIT_DISABLED = bool(config.DISABLE_JIT)

FLAGS = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
    "error_model": "numpy",
    "_nrt": False,
    "boundscheck": BOUNDSCHECK,
}


def _digest() -> str:
    """Name this version of the kernels by their source, Numba and the flags."""
    h = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        h.update(path.relative_to(package).as_posix().encode())
        h.update(path.read_bytes())
    flags = sorted((k, sorted(v) if isinstance(v, set) else v) for k, v in FLAGS.items())
    h.update(f"{numba.__version__} {sys.version_info[:2]} {flags}".encode())
    return h.hexdigest()[:16]


CACHE_FOLDER, NO_FOLDER = (None, "") if JIT_DISABLED else cache.find_folder(_digest())
announcements.cached_in(lambda: CACHE_FOLDER)


def processor() -> list[str]:
    """Return the processor for which machine code is made: system, model and features."""
    return list(cpu_target.target_context.codegen().magic_tuple())


def cached_files() -> dict[str, int]:
    """Return the number of bytes of each file of machine code in the cache folder."""
    if CACHE_FOLDER is None:
        return {}
    return {path.name: path.stat().st_size for path in CACHE_FOLDER.glob("*.nbc")}


@functools.cache
def load_registries():
    """Let Numba load its registries of Python and NumPy, once; this takes a quarter of a second.

    Numba would load them at the first kernel. An interrupt during the load is fatal: each later
    compilation of the process ends with "generator raised StopIteration". Two simultaneous loads
    are also fatal: each thread takes only the entries that the other thread has not taken, compiles
    without the other entries, and raises typing errors about attributes that exist. So signals are
    deferred and Numba's lock is taken.
    """
    # before Numba's lock: making the contexts takes their locks first and then Numba's
    context = cpu_target.target_context
    with global_compiler_lock, DeferredSignals():
        context.refresh()


class Compiled:
    """A function that is passed to Numba when it is called, or when one of its callers is compiled.

    Passing a function to Numba takes 0.1 to 0.4 ms, and a process uses a tenth of two hundred
    functions. If two threads need the function at the same time, only one thread passes it.
    """

    PIPELINE = KernelCompiler

    def __init__(self, function, **options):
        functools.update_wrapper(self, function)
        self.py_func = function
        self.options = options
        self.shown = None

    @property
    def dispatcher(self):
        """Numba's dispatcher of the function."""
        if self.shown is None:
            load_registries()
            # Numba's own lock, reentrant: a thread that compiles has it and may reach this line
            with global_compiler_lock:
                if self.shown is None:
                    self.shown = self._show()
        return self.shown

    def _show(self):
        options = {**FLAGS, "pipeline_class": self.PIPELINE, **self.options}
        return numba.njit(no_cfunc_wrapper=True, **options)(self.py_func)


@typeof_impl.register(Compiled)
def _type_of(value, context):
    """Return Numba's type of a `Compiled` in another function's code."""
    return typeof(value.dispatcher)


class Kernel(Compiled):
    """A function that Python calls."""

    def __call__(self, *arguments):
        """Run the machine code; if necessary, load or compile it first."""
        return self.dispatcher(*arguments)

    def compile(self, signature):
        """Load or compile the machine code for arguments of these types."""
        self.dispatcher.compile(signature)

    @property
    def signatures(self):
        """Return the argument types for which this process has machine code."""
        return [] if self.shown is None else self.shown.signatures

    def _show(self):
        shown = super()._show()
        if CACHE_FOLDER is None:
            shown._cache = cache.NoCacheFolder(NO_FOLDER)
        else:
            shown._cache = cache.KernelCache(self.py_func, CACHE_FOLDER)
        return shown


class Helper(Compiled):
    """A function that only compiled functions call: part of their code, with no entry for Python.

    The entry would take every array out of every tuple argument, check it and put it back. For most
    helpers the entry is more code than the helper, and it took a fifth of the time of compiling.
    """

    PIPELINE = HelperCompiler

    def __init__(self, function, **options):
        super().__init__(function, no_cpython_wrapper=True, **options)

    def __call__(self, *arguments):
        """Run the Python form: a helper has no machine code of its own."""
        return self.py_func(*arguments)


def _compiled_as(kind, **options):
    """Make a decorator that compiles a function when it is needed, with this package's flags."""

    def decorate(function):
        return function if JIT_DISABLED else kind(function, **options)

    return decorate


EXACT = {"fastmath": False}
# a function that Python calls, and whose machine code is cached
kernel = _compiled_as(Kernel)
# a function that only kernels call: it is part of their code, not of the cache
helper = _compiled_as(Helper)
# a helper of the row loop, inlined into its callers. A call takes as long as a row: Numba passes
# every array of a tuple as seven words and counts references atomically. Inlining removes both.
inlined = _compiled_as(Helper, forceinline=True)
# the same three decorators, with sums and products rounded as they are written
exact_kernel = _compiled_as(Kernel, **EXACT)
exact_helper = _compiled_as(Helper, **EXACT)
exact_inlined = _compiled_as(Helper, forceinline=True, **EXACT)
