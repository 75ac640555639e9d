"""One call that all ranks make: its messages, and its end on all ranks.

A message is a `Letter` (`hogshare.runtimes.mpi.talk`). If a rank raises an error in a call, it
posts this error to the other ranks, and they raise the same error. On each rank the call fails
either by the rank's own error or by another rank's error. The rank then posts one letter FAILED,
with its own error if it has one, and waits for the letters FAILED of all other ranks, for at most
PARTING_SECONDS. All ranks then have the same errors, raise the error of the lowest rank, and begin
the next call afresh.

    own error, or another's  ->  FAILED to all  ->  FAILED of all, or PARTING_SECONDS  ->  raise
"""

from __future__ import annotations

import copy
import pickle
import re
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

from hogshare.runtimes.mpi import door
from hogshare.runtimes.mpi import heart as hearts
from hogshare.runtimes.mpi.talk import FAILED, Letter, Talk
from hogshare.system import missed_calls

PARTING_SECONDS = 2.0  # for other ranks to leave a failed call, and for letters to be sent
MOST_TEXT = 20_000  # characters of a traceback in a message
NAMES_A_RANK = re.compile(r"\b[Rr]ank \d")
AGREE, OVER = "agree", "over"


class RankFailed(RuntimeError):
    """Another rank has ended, or has raised an error that cannot be pickled."""


class RankFailure(NamedTuple):
    """An error of one rank, as sent to the others.

    error : the error without its traceback; None if the error cannot be pickled
    text : the error's traceback
    is_common : whether the error concerns all ranks, such as an error of rank 0 about all rows
    """

    error: BaseException | None
    text: str
    is_common: bool

    @property
    def said(self) -> str:
        """The traceback's last line: the error's type and message."""
        return self.text.strip().rpartition("\n")[2]


class Call:
    """A with block in which a rank takes part in a call; all ranks raise an error in the block.

    number : the call's number, the same on all ranks
    heart : the rank's heartbeats, which `begin` starts once all ranks are in the call
    is_for_all : whether this rank checks the rows and parameters of all ranks
    may_lose : whether the call continues without dead ranks
    serve : function that is called whenever letters may have come
    """

    def __init__(self, talk: Talk, number: int, heart: hearts.Heart | None = None) -> None:
        self.talk, self.number, self.heart = talk, number, heart
        self.is_for_all = self.may_lose = False
        self.serve: Callable[[], None] = lambda: None
        self._has_failed = False
        self._heard: BaseException | None = None  # the error that this rank raises for another rank
        self._over: set[int] = set()  # ranks that have parted

    def __enter__(self) -> Call:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        missed_calls.taken()  # errors within the call are not missed calls
        if error is None or self._has_failed:
            return
        sentence = door.death(error, self.talk.comm)
        agreed = self.fail(error if sentence is None else RankFailed(sentence))
        if agreed is not error:
            raise agreed from (None if error is self._heard else error)

    def begin(self) -> None:
        """Start the heartbeats, once all ranks are in the call."""
        if self.heart is not None:
            self.heart.start()

    def fail(self, error: BaseException) -> BaseException:
        """End the call on all ranks by an error; return the error that all ranks raise."""
        self._has_failed = True
        found: dict[int, RankFailure] = {}
        own = None if error is self._heard else _failure(error, self.is_for_all)
        if own is not None:
            found[self.talk.rank] = own
        self.post_all(FAILED, own)
        self.talk.wait_for(lambda: self._have_all_left() or None, PARTING_SECONDS)
        self.talk.flush(PARTING_SECONDS)
        if self.heart is not None:
            self.heart.stop()
        for source in self.talk.others:
            if (failure := self._failure_of(source)) is not None:
                found[source] = failure
        agreed = self._agreed(error, found) if found else error
        setattr(agreed, missed_calls.SETTLED, True)
        return agreed

    def report(self, error: BaseException) -> None:
        """Report that this rank has missed the call."""
        self._has_failed = True
        self.post_all(FAILED, _failure(error, is_common=False))

    def agree(self, kind: str = AGREE) -> None:
        """Wait until all ranks have called this; all ranks must call it.

        If another rank raises an error during the wait, raises this error.
        """
        self.spread(kind, self.gather(kind, None) and None)

    def end(self) -> None:
        """Leave the call once all ranks have done their work; raises as `agree` does."""
        if self.may_lose:
            self._part()
        else:
            self.agree(OVER)
        if self.heart is not None:
            self.heart.stop()

    def _part(self) -> None:
        """Wait until all surviving ranks have called this, and no rank needs another's answer."""
        self.post_all(OVER)

        def have_all() -> bool | None:
            self._over |= {k for k in self.talk.others if self.heard(k, OVER) or self.is_lost(k)}
            self.raise_failures()
            return len(self._over) == len(self.talk.others) or None

        self.talk.wait_for(have_all)

    def is_lost(self, rank: int) -> bool:
        """Whether the call continues without a rank, which has died."""
        return self.may_lose and rank in self.talk.dead

    def post(self, to: int, kind: str, content: Any = None) -> None:
        """Post content to one rank."""
        self.talk.post(to, Letter(self.number, kind, content))

    def post_all(self, kind: str, content: Any = None) -> None:
        """Post content to all other ranks."""
        for to in self.talk.others:
            self.post(to, kind, content)

    def take(self, source: int, *kinds: str, seconds: float | None = None) -> Letter | None:
        """Wait for a rank's next letter; return the letter, or None after `seconds`.

        source : the rank that sends the letter
        kinds : the allowed kinds of the letter
        seconds : largest waiting time; if None, no limit

        Raises RankFailed if a rank has ended, or if the letter is of another kind. If another rank
        raises an error in this call, raises this error.
        """

        def ready() -> Letter | None:
            if (letter := self._next(source)) is not None:
                return letter
            self.raise_failures()
            return None

        letter = self.talk.wait_for(ready, seconds)
        if letter is not None and letter.kind not in kinds:
            raise RankFailed(
                f"Rank {source} is at {letter.kind!r} in a call where rank {self.talk.rank} waits "
                f"for {' or '.join(kinds)}: make the same calls on all ranks."
            )
        return letter

    def heard(self, source: int, kind: str) -> Letter | None:
        """Return a rank's next letter, if it has come and is of this kind, without waiting."""
        letter = self._next(source, take=False)
        return self._next(source) if letter is not None and letter.kind == kind else None

    def gather(self, kind: str, content: Any) -> list[Any] | None:
        """Return all ranks' content, a list by rank, on rank 0, and None on others (collective)."""
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
        """Return rank 0's content on each rank; all ranks must call it."""
        if self.talk.rank == 0:
            self.post_all(kind, content)
            return content
        letter = self.take(0, kind)
        assert letter is not None
        return letter.content

    def poll(self) -> None:
        """Check whether another rank has failed; call it regularly during other work."""
        self.talk.poll()
        self.raise_failures()

    def raise_failures(self) -> None:
        """Raise an error if another rank has failed in this call.

        If another rank has raised an error, raises this error. Raises RankFailed if another rank
        has ended or is silent.
        """
        self.serve()
        for source in self.talk.others:
            if (failure := self._failure_of(source)) is not None:
                self._heard = _raised(failure, source)
                raise self._heard
        silent = next(filter(self._is_silent, self.talk.others), None)
        if silent is not None:
            raise RankFailed(
                f"Rank {silent} has not been heard of for {hearts.SILENT_SECONDS:g} seconds: its "
                "process is halted or does not release the GIL, or the link to its machine is down."
            )
        for source, how in self.talk.gone.items():
            is_missed = source not in self._over and not self.is_lost(source)
            if is_missed and self._next(source, take=False) is None:
                raise RankFailed(f"Rank {source} {how}, and this call needs every rank.")

    def _is_silent(self, source: int) -> bool:
        if self.heart is None or source in self.talk.dead:
            return False
        return self.heart.before == source and self.heart.misses

    def _next(self, source: int, take: bool = True) -> Letter | None:
        """Return a rank's next letter of this call, and drop letters of earlier calls."""
        letters = self.talk.letters(source)
        while letters and letters[0].call < self.number:
            letters.popleft()
        if not letters or letters[0].call > self.number or letters[0].kind == FAILED:
            return None
        return letters.popleft() if take else letters[0]

    def _letter_of_failure(self, source: int) -> Letter | None:
        return next(
            (
                letter
                for letter in self.talk.letters(source)
                if letter.kind == FAILED and letter.call == self.number
            ),
            None,
        )

    def _failure_of(self, source: int) -> RankFailure | None:
        letter = self._letter_of_failure(source)
        return None if letter is None else letter.content

    def _have_all_left(self) -> bool:
        """Whether the call has failed on all other ranks that have not ended."""
        return all(
            source in self.talk.gone
            or self._is_silent(source)
            or self._letter_of_failure(source) is not None
            for source in self.talk.others
        )

    def _agreed(self, error: BaseException, found: dict[int, RankFailure]) -> BaseException:
        """Return the lowest failed rank's error; name the rank in it, unless all ranks raise it."""
        rank = min(found)
        failure = found[rank]
        if rank != self.talk.rank:
            if not isinstance(error, Exception):
                return error  # SystemExit and KeyboardInterrupt still leave the program
            error = _raised(failure, rank)
        sayings = {one.said for one in found.values()}
        if not failure.is_common and (len(found) < self.talk.size or len(sayings) > 1):
            _name(error, rank)
        return error


def _failure(error: BaseException, is_common: bool) -> RankFailure:
    text = "".join(traceback.format_exception(error))[-MOST_TEXT:]
    is_common = is_common and isinstance(error, ValueError | TypeError)
    try:
        bare = copy.copy(error)
        bare.__traceback__ = bare.__cause__ = bare.__context__ = None
        pickle.loads(pickle.dumps(bare))
    except Exception:
        return RankFailure(None, text, is_common)
    return RankFailure(bare, text, is_common)


def _raised(failure: RankFailure, source: int) -> BaseException:
    """Return another rank's error in the form in which this rank raises it."""
    error = failure.error
    if not isinstance(error, Exception | KeyboardInterrupt):  # a SystemExit ends only its own rank
        return RankFailed(f"Rank {source} has left the call: {failure.said}")
    error = copy.copy(error)
    error.add_note(f"On rank {source}:\n{failure.text}")
    return error


def _name(error: BaseException, rank: int) -> None:
    """Add the raising rank's number to an error's message, unless the message names a rank."""
    text = str(error)
    if not text or NAMES_A_RANK.search(text):
        return
    if error.args == (text,):
        error.args = (f"On rank {rank}: {text}",)
    elif isinstance(error, OSError) and error.strerror:
        error.strerror = f"{error.strerror} (on rank {rank})"
    else:
        error.add_note(f"On rank {rank}.")
