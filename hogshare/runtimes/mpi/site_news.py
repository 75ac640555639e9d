"""What sites whose workers have homes tell each other of their workers while these work.

    a message: epoch_barriers so far | words of the workers here (`clocks`) | rows of the plane's
    arrays that others read at any moment

Each site sends its own to every other when something in it has changed: at once if a worker has
left the run or come back, or somebody may be waiting for it, else so many seconds after the one
before. The last one counts.

What is told of a worker travels behind what it has done: this thread reads the words, then posts
all mail that there is, and then the words, and the channel keeps that order. So who passes a
barrier on account of a clock finds the mail of the blocks that it counts, and who sees that a
sender has left the run has all of its mail.

    worker: post, then the clock, or a rest        this thread: words, then mail, then the message

A message that was sent before a meeting may come after it, when those that it calls resting work
again: it has fewer epoch_barriers than its reader, and is left out. One of a site that is through a
meeting first has more of them, and is put off: its clocks count from where all go on.

Who writes: the thread of a site that talks to the others, the rows of their workers in the table,
and rows of the plane's arrays that belong to those workers. Who reads: the workers here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.schedule import worker_life
from hogshare.runtimes.mpi.channel import Channel
from hogshare.runtimes.mpi.clocks import STATE, WORDS, Clocks
from hogshare.runtimes.mpi.mail import FIRST_KIND_OF_RUN, MailTransport

PROGRESS = FIRST_KIND_OF_RUN
PACE_SECONDS = 0.01

# an array of a plane, and the rows of it that each site's workers write
Owned = tuple[np.ndarray, list[np.ndarray]]


class SiteNews:
    """A site's news for the others, and theirs.

    seen : the plane's arrays that others read at any moment
    mail : what brings the plane's messages
    """

    def __init__(
        self, channel: Channel, clocks: Clocks, seen: Sequence[Owned], mail: MailTransport
    ) -> None:
        self.channel, self.clocks, self.mail, self._seen = channel, clocks, mail, seen
        self.epoch_barriers, self.is_over = 0, False  # whether workers here begin no other epoch
        self._early: dict[int, np.ndarray] = {}  # messages of sites that are through a meeting
        self._sent, self._due = np.zeros(0), 0.0
        # whether somebody may wait for what a message tells
        self._is_waited_for = clocks.are_waited_for or (mail.are_registers and bool(seen))
        channel.on(PROGRESS, self._take_in)

    def poll(self) -> bool:
        """Send the mail that there is, and behind it what there is to tell; whether any was."""
        for site in [k for k, early in self._early.items() if not self._is_early(early)]:
            self._note(site, self._early.pop(site))
        message = self._message()
        moved, now = self.mail.poll(), time.monotonic()
        if np.array_equal(message, self._sent) or not (
            now >= self._due or self._is_urgent(message)
        ):
            return moved
        if self._is_waited_for and not self.mail.has_sent_all:
            return moved  # boards that are still to be sent go before
        for site in self.channel.others:
            self.channel.post(site, PROGRESS, [message], "progress")
        self._sent, self._due = message, now + PACE_SECONDS
        return True

    def bury(self, site: int) -> None:
        """Note nothing more of a site that has died."""
        self._early.pop(site, None)

    def meet(self, are_over: np.ndarray) -> None:
        """All sites have met, with all that they have done, and go on but for some.

        are_over : bools by site
        """
        self.epoch_barriers += 1
        for site in self.channel.others:
            state = layout.DONE if are_over[site] else layout.RESTING
            for row in self.clocks.rows_of(site):
                worker_life.copy_state(row, state)

    def _message(self) -> np.ndarray:
        words, me = self.clocks.words(), self.channel.me
        rows = [array[rows[me]].reshape(-1) for array, rows in self._seen]
        return np.concatenate([[self.epoch_barriers], words, *rows]).astype(float)

    def _is_urgent(self, message: np.ndarray) -> bool:
        """Whether somebody has left the run, or come back, or may be waiting."""
        before = self._sent
        if self._is_waited_for or len(before) == 0 or message[0] != before[0]:
            return True
        states = slice(1 + 1 + STATE, 1 + self.clocks.size_of(self.channel.me), len(WORDS))
        now, then = (one[states] >= layout.DONE for one in (message, before))
        return not np.array_equal(now, then)

    def _take_in(self, site: int, content: np.ndarray) -> None:
        message = content.view(float)
        if self._is_early(message):
            self._early[site] = message  # in place of one before: the last one counts
        elif message[0] >= self.epoch_barriers:
            self._note(site, message)

    def _is_early(self, message: np.ndarray) -> bool:
        return bool(message[0] > self.epoch_barriers) and not self.is_over

    def _note(self, site: int, message: np.ndarray) -> None:
        """Write down what another site has told."""
        at = 1 + self.clocks.size_of(site)
        words = message[1:at].astype(np.int64)
        for array, rows in self._seen:
            part = array[rows[site]]
            array[rows[site]] = message[at : at + part.size].reshape(part.shape)
            at += part.size
        self.clocks.take_in(site, words)
