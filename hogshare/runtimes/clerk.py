"""The master of a simulated run: when it takes which message.

Where writing takes no time it is the master's loop, which takes a message when it is posted. Where
it takes time, messages stand in line in the order in which they were posted, and each is in the
model when it has been written, one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from hogshare.engine.loop import Compute, loop_of
from hogshare.engine.session import Session
from hogshare.kernels import layout, replay


class Clerk:
    """Takes workers' mail.

    Parameters
    ----------
    session : Session
        Of a run that has a master.
    write_seconds : float
        Virtual seconds of writing a message.
    push : callable
        ``push(seconds)`` puts the end of the present writing into the queue.
    """

    def __init__(
        self, session: Session, write_seconds: float, push: Callable[[float], None]
    ) -> None:
        self._session, self._counters = session, session.mail.box.counters
        self._seconds, self._push = write_seconds, push
        self._loop = loop_of(session, session.settings.n_workers)
        self._reply: object = None
        self._over = False
        self._line: deque[int] = deque()
        self._posted = [
            0
        ] * session.settings.n_workers  # messages of each, those in line among them

    @property
    def is_writing(self) -> bool:
        """Whether messages are in line."""
        return bool(self._line)

    def notice(self, me: int, now: float) -> bool:
        """See whether a worker has posted anything; True if it has been taken at once."""
        mailed = int(self._counters[me, layout.M_POSTED])
        if mailed == self._posted[me]:
            return False
        if self._seconds == 0.0:
            self._posted[me] = mailed
            self.serve()
            return True
        if not self._line:
            self._push(now + self._seconds)
        self._line.extend([me] * (mailed - self._posted[me]))
        self._posted[me] = mailed
        return False

    def has_written(self, now: float) -> int:
        """Take the message that has been written, and begin with the next; whose it was."""
        worker = self._line.popleft()
        s = self._session
        replay.take_again(s.plan, s.schedule, s.vector, s.mail, worker)
        if self._line:
            self._push(now + self._seconds)
        return worker

    def serve(self) -> None:
        """Let the master's loop run until it wishes to wait, or has ended."""
        if self._over:
            return
        try:
            while isinstance(wish := self._loop.send(self._reply), Compute):
                self._reply = wish.call(), 0
            self._reply = 0
        except StopIteration:
            self._over = True
