"""Loading of kernels before they are needed, in the fork helper."""

from __future__ import annotations

from collections.abc import Collection

from hogshare.kernels.exchange import master_updates
from hogshare.kernels.jit import announcements
from hogshare.kernels.schedule import quanta, run_membership

QUANTA = dict.fromkeys(
    kernel
    for kind, kernel in quanta.QUANTA.items()
    if kind.step != quanta.OUTSIDE and not kind.virtual
)
MEMBERSHIP = run_membership.join, run_membership.leave
KERNELS = (*QUANTA, quanta.factors_quantum, *MEMBERSHIP, master_updates.serve)


def loaded() -> list[str]:
    """Return the names of the kernels that this process has loaded or compiled."""
    return [kernel.__name__ for kernel in KERNELS if getattr(kernel, "signatures", ())]


def preload(names: Collection[str]) -> None:
    """Load these kernels from the disk cache if they are in it; compile nothing.

    Worker processes that are forked afterwards have the machine code already. The first process
    that needs a kernel compiles it if it is not cached. That process does not announce the
    compilation, because the caller announces it. Each signature takes 50 ms, so pass only the names
    of kernels that the caller uses.
    """
    announcements.silence()
    for kernel in KERNELS:
        if kernel.__name__ not in names:
            continue
        dispatcher = kernel.dispatcher
        for signature in dispatcher._cache.signatures(dispatcher.targetctx.codegen()):
            dispatcher.compile(signature)
