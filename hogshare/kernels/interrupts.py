"""Ctrl-C, kept away from what must not be left half done."""

import contextlib
import signal
import threading


@contextlib.contextmanager
def interrupts_held():
    """Let Ctrl-C wait until the end."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # it does not come here
        return
    caught = []
    signal.signal(signal.SIGINT, lambda *args: caught.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if caught:
            before(*caught[0])
