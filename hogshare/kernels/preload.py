"""Loads kernels before they are needed, in the fork helper."""

from __future__ import annotations

from collections.abc import Collection

from hogshare.kernels.exchange import master_updates
from hogshare.kernels.jit import announcements
from hogshare.kernels.schedule import quanta

QUANTA = (*dict.fromkeys(quanta.QUANTA.values()), *quanta.COPIED_QUANTA.values())
KERNELS = (*QUANTA, quanta.factors_quantum, quanta.join, quanta.leave, master_updates.serve)


def loaded() -> list[str]:
    """Names of the kernels that this process has loaded or compiled."""
    return [kernel.__name__ for kernel in KERNELS if getattr(kernel, "signatures", ())]


def preload(names: Collection[str]) -> None:
    """Load what the disk cache holds of these kernels; compile nothing.

    A worker process forked afterwards has the machine code already. What is not cached is compiled
    by whoever needs it first, and not told of: the caller does. Each signature takes 50 ms, hence
    the names: what the caller uses.
    """
    announcements.silence()
    for kernel in KERNELS:
        if kernel.__name__ not in names:
            continue
        dispatcher = kernel.dispatcher
        for signature in dispatcher._cache.signatures(dispatcher.targetctx.codegen()):
            dispatcher.compile(signature)
