"""News of workers with homes, which sites send each other while the workers work.

    a message: number of epoch barriers so far | words of the local workers (`clocks`) |
    rows of the plane's arrays that other sites read at any moment

Each site sends its message to all other sites when the content has changed. If a worker has left
the run or come back, or if a worker may be waiting for the news, the message is sent at once.
Otherwise it is sent `PACE_SECONDS` after the previous message. Only the latest message counts.

News of a worker follow its mail. The site's thread that communicates with other sites reads the
words, then posts all pending mail, and then posts the words. The channel preserves this order. So
if a worker passes a barrier because of a clock, it finds the mail of the blocks that this clock
counts. If a worker sees that a sender has left the run, it has all of the sender's mail.

    worker: post, then the clock, or a pause       this thread: words, then mail, then the message

A message that was sent before an epoch barrier may arrive after the barrier. It says that workers
are paused, but they work again. Its number of epoch barriers is smaller than the reader's number,
so the reader drops it. If a site has left the barrier earlier than the reader, the site's message
has a larger number. The reader defers this message, because its clocks count from the common clock
after the barrier.

Writers: the site's thread that communicates with other sites writes the rows of the other sites'
workers, in the table and in the plane's arrays. Readers: local workers.
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

# an array of a plane, and for each site the rows that its workers write
Owned = tuple[np.ndarray, list[np.ndarray]]


class SiteNews:
    """A site's news for other sites, and the news of other sites.

    channel : the channel of this site, whose handler for news this object sets
    clocks : the progress table of all workers
    seen : the plane's arrays that other sites read at any moment
    mail : the transport of the plane's messages
    """

    def __init__(
        self, channel: Channel, clocks: Clocks, seen: Sequence[Owned], mail: MailTransport
    ) -> None:
        self.channel, self.clocks, self.mail, self._seen = channel, clocks, mail, seen
        self.epoch_barriers, self.is_over = 0, False  # whether local workers begin no further epoch
        self._early: dict[int, np.ndarray] = {}  # messages of sites that left a barrier earlier
        self._sent, self._due = np.zeros(0), 0.0
        # whether a worker may wait for the news in a message
        self._is_waited_for = clocks.are_waited_for or (mail.are_registers and bool(seen))
        channel.on(PROGRESS, self._take_in)

    def poll(self) -> bool:
        """Send pending mail, and then the news; return whether anything was sent."""
        for site in [k for k, early in self._early.items() if not self._is_early(early)]:
            self._note(site, self._early.pop(site))
        message = self._message()
        moved, now = self.mail.poll(), time.monotonic()
        if np.array_equal(message, self._sent) or not (
            now >= self._due or self._is_urgent(message)
        ):
            return moved
        if self._is_waited_for and not self.mail.has_sent_all:
            return moved  # registers must be sent before the news
        for site in self.channel.others:
            self.channel.post(site, PROGRESS, [message], "progress")
        self._sent, self._due = message, now + PACE_SECONDS
        return True

    def bury(self, site: int) -> None:
        """Drop the deferred message of a dead site."""
        self._early.pop(site, None)

    def meet(self, are_over: np.ndarray) -> None:
        """Count an epoch barrier, and set the states of the other sites' workers in the table.

        The workers of a site that has ended become done; all others become paused.

        are_over : bool array by site; True if the site has ended
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
        """Whether a worker has left the run, has come back, or may be waiting."""
        before = self._sent
        if self._is_waited_for or len(before) == 0 or message[0] != before[0]:
            return True
        states = slice(1 + 1 + STATE, 1 + self.clocks.size_of(self.channel.me), len(WORDS))
        now, then = (one[states] >= layout.DONE for one in (message, before))
        return not np.array_equal(now, then)

    def _take_in(self, site: int, content: np.ndarray) -> None:
        message = content.view(float)
        if self._is_early(message):
            self._early[site] = message  # replaces an earlier message: only the last counts
        elif message[0] >= self.epoch_barriers:
            self._note(site, message)

    def _is_early(self, message: np.ndarray) -> bool:
        return bool(message[0] > self.epoch_barriers) and not self.is_over

    def _note(self, site: int, message: np.ndarray) -> None:
        """Write another site's news."""
        at = 1 + self.clocks.size_of(site)
        words = message[1:at].astype(np.int64)
        for array, rows in self._seen:
            part = array[rows[site]]
            array[rows[site]] = message[at : at + part.size].reshape(part.shape)
            at += part.size
        self.clocks.take_in(site, words)
