"""The protocol of runtimes, which allocate the memory of a run and run its workers.

This is all that `solve` requires of one. It calls

    settle -> allocate -> prepare -> run, once or more -> close

and calls `close` after `allocate` even if there was an error. A worker is a generator
(`hogshare.engine.loop.loop_of`) that yields its wishes: call a function, let time pass, an epoch is
over. A runtime only drives all workers to their ends, each by one thread at a time: the workers
decide on their work, their stops and their waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from hogshare.engine.arrays import NOTHING, Shapes, private_memory
from hogshare.engine.checkpoints import OneFile
from hogshare.system.deprecations import renamed

if TYPE_CHECKING:
    from hogshare.barriers import Barrier
    from hogshare.engine.checkpoint_session import OnEpoch
    from hogshare.engine.choices import Choices
    from hogshare.engine.convergence_checks import AtPause
    from hogshare.engine.session import Session
    from hogshare.planes import Plane
    from hogshare.problems.protocol import Problem


class Outcome(NamedTuple):
    """The outcome of a run, besides the content of its session.

    Attributes
    ----------
    notes : list of str
        Unexpected events, for the report.
    seconds : float or None
        By the runtime's own clock, if it has one.
    traffic : dict or None
        The messages of the runtime itself during the call, in the form of the report.
    why : str or None
        The reason for the end of the run, if the runtime has ended it.
    """

    notes: list[str]
    seconds: float | None = None
    traffic: dict[str, Any] | None = None
    why: str | None = None


@renamed(here="local_problem")
class Runtime:
    """Base class of runtimes; a subclass of the user's defines `name` and `run`.

    Attributes
    ----------
    name : str
        Name for the report.
    is_private : bool, default=True
        Whether its memory stays valid while any reference to it exists, so that the model need not
        be copied out.
    is_inside : bool, default=False
        Whether the only worker runs in the calling thread, which then reports each epoch's end
        before the next epoch begins.
    has_clock : bool, default=False
        Whether it has a clock of its own: workers then yield at every block, between its claim and
        its computing.
    has_teams : bool, default=False
        Whether all workers run at the same time, each in a thread or a process of its own, in one
        memory. Then a worker may wait within a block for another one's part of it.
    """

    name: str
    is_private: bool = True
    is_inside: ClassVar[bool] = False
    has_clock: ClassVar[bool] = False
    has_teams: ClassVar[bool] = False

    def check(self) -> None:
        """Refuse a runtime without a name or a `run`.

        Raises
        ------
        TypeError
        """
        kind = type(self).__name__
        if not isinstance(getattr(self, "name", None), str):
            raise TypeError(f"{kind} has no name: set {kind}.name to a str, for the report.")
        if getattr(self.run, "__func__", None) is Runtime.run:
            raise TypeError(f"{kind} has no run: write run(self, session, on_epoch, checks=None).")

    @property
    def is_orderly(self) -> bool:
        """Whether all workers are present from the beginning, so that `BSP` may order them."""
        return True

    @property
    def files(self) -> OneFile:
        """The reader and writer of checkpoints."""
        return OneFile()

    def everywhere(self, n_workers: int) -> int:
        """Return the number of workers on all machines, for a plane with homes.

        n_workers : number of workers of this process
        """
        return n_workers

    def settle(self, barrier: Barrier, n_workers: int) -> None:
        """Refuse a barrier or number of workers that does not fit, before any allocation.

        Raises
        ------
        ValueError
        """

    def local_problem(self, problem: Problem) -> Problem:
        """Return the problem of this process's workers: its part of a larger one."""
        return problem

    def settled(self, choices: Choices) -> Choices:
        """Return the choices of this process's run, or refuse them before any allocation.

        Raises
        ------
        ValueError
        """
        return choices

    def counts_mail(self, session: Session) -> bool:
        """Whether `Outcome.traffic` counts the messages of the run's mailboxes."""
        return False

    def parts(self, plane: Plane) -> int:
        """Return the number of moments of reading the one vector, on a clock of its own; or 0."""
        return 0

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        assigned: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """Return the memory of a run, which all workers see: zeros. By default this process's.

        Parameters
        ----------
        shapes : dict
            Shape and dtype of every array by name.
        rows : mapping of str to ndarray
            Read-only arrays, which may be used in place.
        assigned : mapping of str to ndarray
            Arrays of the caller's among `shapes`, which may be used in place.
        """
        return {**private_memory(shapes, assigned), **rows}

    def prepare(self, session: Session) -> None:
        """Do work that must not count in the run's time. By default nothing."""

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run every worker of a session to its end, and the master if the session has one.

        Do so in a with block of `hogshare.runtimes.hooks.EpochHook(session, on_epoch, checks)`.
        Call its `poll` in the calling thread now and then, and when all workers have ended: it
        reports epochs, and evaluates the model when all workers pause. After an exception, call
        ``session.stop()``, wait for the workers to leave, and raise it again.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Free the memory. By default nothing: this process's own memory needs no freeing."""

    def facts(self) -> dict[str, Any]:
        """Return entries for the report's settings, besides the name."""
        return {}
