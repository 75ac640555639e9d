"""The protocol of runtimes, which allocate the memory of a run and run its workers.

The main methods, in the order in which `solve` calls them:

    settle -> allocate -> prepare -> run, once or more -> close

After `allocate`, `solve` always calls `close`, even after an error. A worker is a generator
(`hogshare.engine.loop.loop_of`) that yields requests: call a function, let time pass, report that
an epoch is over. A runtime only drives each worker to its end; at any moment at most one thread
drives a worker. The workers themselves decide what they compute, and when they stop and wait.
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
    """The outcome of a run, in addition to the content of its session.

    Attributes
    ----------
    notes : list of str
        Unexpected events, for the report.
    seconds : float or None
        The run's time by the runtime's own clock, or None if it has no clock of its own.
    traffic : dict or None
        Counts of the runtime's own messages during the call, in the format of the report.
    why : str or None
        The reason for the end of the run, if the runtime has ended the run; otherwise None.
    """

    notes: list[str]
    seconds: float | None = None
    traffic: dict[str, Any] | None = None
    why: str | None = None


@renamed(here="local_problem")
class Runtime:
    """Base class of runtimes; a user's subclass defines `name` and `run`.

    Attributes
    ----------
    name : str
        Name for the report.
    is_private : bool, default=True
        Whether the memory of `allocate` stays valid while any reference to it exists. If True, the
        report refers to the model in this memory; otherwise the model is copied.
    is_inside : bool, default=False
        Whether the only worker runs in the calling thread, which then reports each epoch's end
        before the next epoch begins.
    has_clock : bool, default=False
        Whether the runtime has a clock of its own. If True, workers yield at every block, after
        they have claimed the block and before they compute it.
    has_teams : bool, default=False
        Whether all workers run at the same time, each in a thread or process of its own, in one
        memory. If True, a worker may wait within a block for another worker's part of the block.
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
            If `name` is not a str, or `run` is not overridden.
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
        """Refuse a barrier or number of workers that this runtime does not support.

        `solve` calls this before any allocation.

        Raises
        ------
        ValueError
            If the runtime does not support the barrier or the number of workers.
        """

    def local_problem(self, problem: Problem) -> Problem:
        """Return the problem of this process's workers: all of `problem`, or a part of it."""
        return problem

    def settled(self, choices: Choices) -> Choices:
        """Return the choices of this process's run; by default the given ones.

        `solve` calls this before any allocation.

        Raises
        ------
        ValueError
            If the runtime does not support the choices.
        """
        return choices

    def counts_mail(self, session: Session) -> bool:
        """Whether `Outcome.traffic` counts the messages of the run's mailboxes."""
        return False

    def parts(self, plane: Plane) -> int:
        """Return the number of moments of reading the lock-free vector; 0 if not modeled."""
        return 0

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        assigned: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """Return the memory of a run, filled with zeros; by default it is memory of this process.

        All workers must see this memory.

        Parameters
        ----------
        shapes : dict
            Shape and dtype of every array by name.
        rows : mapping of str to ndarray
            Read-only arrays, which may be used in place.
        assigned : mapping of str to ndarray
            The caller's arrays for some of the names in `shapes`; they may be used in place.
        """
        return {**private_memory(shapes, assigned), **rows}

    def prepare(self, session: Session) -> None:
        """Do work that must not count in the run's time; by default there is none."""

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run every worker of a session to its end, and the master if the session has one.

        An implementation runs the workers in a with block of
        ``hogshare.runtimes.hooks.EpochHook(session, on_epoch, checks)``. It calls the hook's `poll`
        in the calling thread repeatedly, and again when all workers have ended. `poll` reports
        epochs, and evaluates the model when all workers pause. After an exception, the
        implementation calls ``session.stop()``, waits for the workers to leave, and raises the
        exception again.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Free the memory; by default do nothing, as this process's own memory needs no freeing."""

    def facts(self) -> dict[str, Any]:
        """Return entries for the report's settings, besides the name."""
        return {}
