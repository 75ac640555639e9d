"""What an event is: it is entered around a case's run, and may change its settings before."""

import threading
from abc import ABC, abstractmethod

MOMENTS = (2e-3, 1e-2, 5e-2, 0.3)  # seconds within which something happens; most runs are short
REFUSALS = (ValueError, TypeError)


class Event:
    """Nothing happens.

    It says in `may_raise` which errors are its own doing, and in `explains` whether one is.
    """

    may_raise = REFUSALS

    def __init__(self, rng, settings):
        self.rng, self.settings = rng, settings

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def call(self, run):
        """Call what runs the case, however that is done; what it returns."""
        return run()

    def check(self, report):
        """See to what the event has to bring about in the report."""

    def explains(self, error):
        """Whether an error is this event's doing."""
        return False


class Late(Event, ABC):
    """Something happens at some moment, in a thread beside the run."""

    def __enter__(self):
        self.over = threading.Event()
        seconds = self.rng.uniform(0.0, self.rng.choice(MOMENTS))
        self.thread = threading.Thread(target=self._wait, args=(seconds,), name="chaos")
        self.thread.start()
        return self

    def _wait(self, seconds):
        if not self.over.wait(seconds):
            self.happen()

    def __exit__(self, *error):
        self.over.set()
        self.thread.join()

    @abstractmethod
    def happen(self):
        """Do it."""
