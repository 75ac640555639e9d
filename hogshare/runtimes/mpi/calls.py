"""One call that all ranks make: what they tell each other in it, and how it ends for all.

A rank that raises in a call tells the others, who raise the same. So a call returns on every rank,
or raises on every rank, whatever it is that one of them has met.
"""

from __future__ import annotations

import copy
import pickle
import traceback
from types import TracebackType
from typing import Any

from hogshare.runtimes.mpi.talk import FAILED, Letter, Talk

FLUSH_SECONDS = 2.0  # for the others to be told of an error
MOST_TEXT = 20_000  # characters of a traceback that travels


class RankFailed(RuntimeError):
    """Another rank has ended, or has raised what cannot be told as it was."""


class Call:
    """A block in which a rank takes part in a call; what is raised in it is raised on all ranks.

    Parameters
    ----------
    talk : Talk
    number : int
        Of the call: the same on all ranks.
    """

    def __init__(self, talk: Talk, number: int) -> None:
        self.talk, self.number = talk, number
        self._told = False  # whether others know of the error that ends it

    def __enter__(self) -> Call:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or self._told:
            return
        self._told = True
        self.post_all(FAILED, _telling(error))
        self.talk.flush(FLUSH_SECONDS)

    def post(self, to: int, kind: str, content: Any = None) -> None:
        """Tell one rank something."""
        self.talk.post(to, Letter(self.number, kind, content))

    def post_all(self, kind: str, content: Any = None) -> None:
        """Tell all other ranks something."""
        for to in self.talk.others:
            self.post(to, kind, content)

    def take(self, source: int, *kinds: str, seconds: float | None = None) -> Letter | None:
        """Wait for a rank's next letter, which has to be of one of these kinds; None: not in time.

        Raises
        ------
        RankFailed
            If a rank has ended; and whatever another rank has raised in this call.
        """

        def ready() -> Letter | None:
            if (letter := self._next(source)) is not None:
                return letter
            self.look()
            return None

        letter = self.talk.wait_for(ready, seconds)
        if letter is not None and letter.kind not in kinds:
            raise RankFailed(
                f"Rank {source} is at {letter.kind!r} in a call where rank {self.talk.rank} waits "
                f"for {' or '.join(kinds)}: the ranks do not make the same calls."
            )
        return letter

    def heard(self, source: int, kind: str) -> Letter | None:
        """A rank's next letter, if it has come and is of this kind; nobody waits."""
        letter = self._next(source, take=False)
        return self._next(source) if letter is not None and letter.kind == kind else None

    def gather(self, kind: str, content: Any) -> list[Any] | None:
        """Have all tell rank 0 something: a list by rank there, None elsewhere."""
        if self.talk.rank != 0:
            self.post(0, kind, content)
            return None
        found = [content]
        for source in self.talk.others:
            letter = self.take(source, kind)
            assert letter is not None
            found.append(letter.content)
        return found

    def spread(self, kind: str, content: Any) -> Any:
        """Have rank 0 tell all others something; what it has told."""
        if self.talk.rank == 0:
            self.post_all(kind, content)
            return content
        letter = self.take(0, kind)
        assert letter is not None
        return letter.content

    def poll(self) -> None:
        """See whether another rank has failed; called now and then by who does something else."""
        self.talk.poll()
        self.look()

    def look(self) -> None:
        """Raise what another rank has raised in this call, or that one has ended.

        Raises
        ------
        RankFailed
            And whatever another rank has raised.
        """
        for source in self.talk.others:
            for letter in self.talk.letters(source):
                if letter.kind == FAILED and letter.call == self.number:
                    self._told = True
                    raise _told(letter.content, source)
        for source, how in self.talk.gone.items():
            if self._next(source, take=False) is None:
                raise RankFailed(f"Rank {source} {how}, and this call needs every rank.")

    def _next(self, source: int, take: bool = True) -> Letter | None:
        """A rank's next letter of this call; what is left of earlier ones goes."""
        letters = self.talk.letters(source)
        while letters and letters[0].call < self.number:
            letters.popleft()
        if not letters or letters[0].call > self.number or letters[0].kind == FAILED:
            return None
        return letters.popleft() if take else letters[0]


def _telling(error: BaseException) -> tuple[BaseException | None, str]:
    """An error as it travels: itself, if it can, and its traceback."""
    text = "".join(traceback.format_exception(error))[-MOST_TEXT:]
    try:
        bare = copy.copy(error)
        bare.__traceback__ = bare.__cause__ = bare.__context__ = None
        pickle.loads(pickle.dumps(bare))
    except Exception:
        return None, text
    return bare, text


def _told(content: tuple[BaseException | None, str], source: int) -> BaseException:
    """Another rank's error, to be raised here."""
    error, text = content
    if not isinstance(error, Exception | KeyboardInterrupt):  # one that leaves leaves no others
        last = text.strip().rpartition("\n")[2]
        error = RankFailed(f"Rank {source} has left the call: {last}")
    error.add_note(f"On rank {source}:\n{text}")
    return error
