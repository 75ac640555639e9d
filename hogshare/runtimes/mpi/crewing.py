"""What a leading rank and a following one do alike with their own workers, which are threads."""

from __future__ import annotations

from hogshare.runtimes.threads import ThreadCrew
from hogshare.system.interrupts import Holding

TICK_SECONDS = 0.005  # between two glances at messages, epochs and those that rest


def wait_in_vain(held: Holding, *crews: ThreadCrew) -> None:
    """Wait for threads that have been told to stop, or until that is in vain."""
    for crew in crews:
        crew.join(crew.patience(held))


def finish(*crews: ThreadCrew) -> None:
    """Wait for threads that are done; raises what one has raised."""
    for crew in crews:
        crew.finish()
