"""Let others have the core: the one thing that kernels ask of the system."""

import time

from numba import types

from hogshare.kernels.jit import JIT_DISABLED, helper

# a symbol of the C library, which every process has; none is looked up when a kernel is compiled
sched_yield = types.ExternalFunction("sched_yield", types.int32())

if JIT_DISABLED:

    def yield_core():
        """Let another thread run."""
        time.sleep(0)

else:

    @helper
    def yield_core():
        """Let another thread run that waits for this core; come back at once if there is none."""
        sched_yield()
