"""`Link` computes how long a message is under way; `Line` is a link that queues messages."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hogshare.system.ranges import LONGEST, is_number


@dataclass(frozen=True)
class Link:
    """One direction of a connection between two ends.

    Parameters
    ----------
    latency : float, default=0.0
        Seconds for which an empty message is under way; virtual seconds with a `Simulator`.
        Infinity: no message ever arrives.
    bandwidth : float, default=inf
        Bytes per second. 0: no message ever arrives.
    outages : sequence of (float, float), default=()
        Start and end of each outage, in seconds of the run. No byte departs in an outage. Messages
        that have departed still arrive. A message that is being sent continues after the outage.

    Examples
    --------
    >>> from hogshare.links import Link
    >>> Link(latency=0.5, bandwidth=1e6).seconds(250_000)
    0.75
    >>> Link(bandwidth=1e6, outages=[(2.0, 4.0)]).departs(1.75, 500_000)
    4.25
    """

    latency: float = 0.0
    bandwidth: float = math.inf
    outages: Any = ()

    def __post_init__(self) -> None:
        for name in ("latency", "bandwidth"):
            value = getattr(self, name)
            if not is_number(value) or not value >= 0.0:
                raise ValueError(f"{name} of a link must be a number, at least 0; got {value!r}.")
        if LONGEST < self.latency < math.inf:
            raise ValueError(
                f"latency of a link must be at most {LONGEST:g} seconds, or infinite; got "
                f"{self.latency!r}."
            )
        object.__setattr__(self, "outages", _in_order(self.outages))

    @property
    def delivers(self) -> bool:
        """Whether a message ever arrives."""
        return self.latency < math.inf and self.bandwidth > 0.0

    def seconds(self, n_bytes: float) -> float:
        """Return the time that a message is under way."""
        if not self.delivers:
            return math.inf
        return self.latency + n_bytes / self.bandwidth

    def departs(self, at: float, n_bytes: float) -> float:
        """Return the time at which a message has departed if it begins to depart at `at`.

        Both times are in seconds of the run. Outages delay the message.
        """
        if not self.delivers:
            return math.inf
        end = at + n_bytes / self.bandwidth
        # outages are sorted: an end that is delayed by one outage may reach the next one
        for down, up in self.outages:
            if up > at and down < end:
                end += up - max(down, at)
        return end


def _in_order(outages: Any) -> tuple[tuple[float, float], ...]:
    """Return the outages, sorted by their starts.

    Raises
    ------
    ValueError
        If they are not pairs of seconds, or overlap.
    """
    try:
        spans = sorted((float(down), float(up)) for down, up in outages)
    except (TypeError, ValueError):
        spans = [(1.0, 0.0)]
    moments = [moment for span in spans for moment in span]
    if moments != sorted(moments) or not all(0.0 <= one < math.inf for one in moments):
        raise ValueError(
            "outages of a link must be pairs of seconds, begin and end, that do not overlap, such "
            f"as [(2.0, 4.0)]; got {outages!r}."
        )
    return tuple(spans)


class Line:
    """One direction of a `Link` in use: it computes when a message sent now arrives.

    The line is a token bucket and a delay line: a message departs after all earlier messages, at
    the link's bandwidth, and arrives a latency later.

    In real time, the sender writes the message's remaining seconds on the emulated link into the
    message, and the receiver defers the message for this time. The sender cannot write the moment
    of arrival, because two machines have two clocks. The time on the real link is thus added to the
    time on the emulated link.

    Parameters
    ----------
    link : Link
    clock : callable
        Function that returns the seconds of a monotonic clock. The link's time is 0 when the line
        is made.

    Examples
    --------
    >>> from hogshare.links import Line, Link
    >>> line = Line(Link(latency=0.5, bandwidth=100.0), clock=lambda: 0.0)
    >>> line.send(100), line.send(100)
    (1.5, 2.5)
    """

    def __init__(self, link: Link, clock: Callable[[], float] = time.monotonic) -> None:
        self.link, self._clock = link, clock
        self._began = clock()
        self._free = 0.0  # when the last message has departed, in seconds since then

    def send(self, n_bytes: int) -> float:
        """Return the seconds for which a message sent now is under way."""
        if not self.link.delivers:
            return float("inf")
        now = self._clock() - self._began
        # messages are queued: this message begins to depart after the last one has departed
        self._free = self.link.departs(max(now, self._free), n_bytes)
        return self._free - now + self.link.latency
