"""Loads kernels before they are needed, in the fork helper."""

from __future__ import annotations

from hogshare.kernels import turns

KERNELS = (*turns.TURNS.values(), turns.join, turns.leave)


def preload() -> None:
    """Load what the disk cache holds; compile nothing.

    A worker process forked afterwards has the machine code already. What is not cached is compiled
    by whoever needs it first.
    """
    for dispatcher in KERNELS:
        cache = getattr(dispatcher, "_cache", None)
        if cache is None or not hasattr(cache, "_cache_file"):
            continue
        codegen = dispatcher.targetctx.codegen()
        for key in cache._cache_file._load_index():
            signature = key[0]
            if key == cache._index_key(signature, codegen):  # else it would be compiled
                dispatcher.compile(signature)
