"""What a runtime is: who runs the workers of a run, and in whose memory.

This is all that `solve` asks of one. A run goes

    settle -> allocate -> prepare -> run, once or more -> close

and `close` comes whatever happens after `allocate`. A worker is a generator
(`hogshare.engine.loop.loop_of`), which yields its wishes: call this, let time pass, an epoch is
over. A runtime drives all of them to their ends, each by one thread at a time, and nothing else:
what they do, where they stop and who may go on is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from hogshare.engine.arrays import NOTHING, Shapes, private_memory
from hogshare.engine.checkpoints import OneFile

if TYPE_CHECKING:
    from hogshare.barriers import Barrier
    from hogshare.engine.checkpoint_schedule import OnEpoch
    from hogshare.engine.choices import Choices
    from hogshare.engine.convergence_checks import AtPause
    from hogshare.engine.session import Session
    from hogshare.planes import Plane
    from hogshare.problems.protocol import Problem


class Outcome(NamedTuple):
    """How a run went, besides what stands in the session.

    Attributes
    ----------
    notes : list of str
        For the report: what has happened that nobody would expect.
    seconds : float or None
        By the runtime's own clock, if it has one.
    traffic : dict or None
        What the runtime itself has sent since it was called, as the report has it.
    why : str or None
        Why the run has ended, if the runtime has ended it.
    """

    notes: list[str]
    seconds: float | None = None
    traffic: dict[str, Any] | None = None
    why: str | None = None


class Runtime:
    """Who runs the workers; one of one's own derives from it, and writes `run`.

    Attributes
    ----------
    name : str
        For the report.
    is_private : bool, default=True
        Whether the memory that it allocates stays as long as anybody has it, so that the model need
        not be copied out.
    is_inside : bool, default=False
        Whether the only worker runs in the calling thread, which is then told of an epoch's end at
        that end, before the next begins.
    has_clock : bool, default=False
        Whether time is its own: workers then come to it with every block, between its claim and its
        computing.
    has_teams : bool, default=False
        Whether all workers run at the same time, each in a thread or a process of its own, and in
        one memory, so that one may wait within a block for what another computes of it.
    """

    name: str
    is_private: bool = True
    is_inside: ClassVar[bool] = False
    has_clock: ClassVar[bool] = False
    has_teams: ClassVar[bool] = False

    def check(self) -> None:
        """Refuse one that lacks something.

        Raises
        ------
        TypeError
        """
        kind = type(self).__name__
        if not isinstance(getattr(self, "name", None), str):
            raise TypeError(f"{kind} has no name: give it one, for the report.")
        if getattr(self.run, "__func__", None) is Runtime.run:
            raise TypeError(f"{kind} has no run: write run(self, session, on_epoch, checks=None).")

    @property
    def is_orderly(self) -> bool:
        """Whether all workers are there from the beginning, so that `BSP` may keep their order."""
        return True

    @property
    def files(self) -> OneFile:
        """Who reads and writes checkpoints."""
        return OneFile()

    def everywhere(self, n_workers: int) -> int:
        """Workers of one plane with homes, of whom so many are here: machines have others."""
        return n_workers

    def settle(self, barrier: Barrier, n_workers: int) -> None:
        """Refuse what does not fit, before anything is allocated.

        Raises
        ------
        ValueError
        """

    def local_problem(self, problem: Problem) -> Problem:
        """The problem that the workers of this process solve: what it has of a larger one."""
        return problem

    def settled(self, choices: Choices) -> Choices:
        """The choices of the run here; refuse what does not fit, before anything is allocated.

        Raises
        ------
        ValueError
        """
        return choices

    def counts_mail(self, session: Session) -> bool:
        """Whether its `Outcome.traffic` has what workers have sent by the run's mailboxes."""
        return False

    def parts(self, plane: Plane) -> int:
        """With a clock of its own: moments of reading the one vector; 0 where there is none."""
        return 0

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        assigned: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """Memory of a run, which all workers see: zeros. By default of this process.

        Parameters
        ----------
        shapes : dict
            Shape and dtype of every array by name.
        rows : mapping of str to ndarray
            What is read only: it may be used where it is.
        assigned : mapping of str to ndarray
            Arrays of the caller's among `shapes`, which may be used as they are.
        """
        return {**private_memory(shapes, assigned), **rows}

    def prepare(self, session: Session) -> None:
        """Do what belongs before the run's time begins. By default nothing."""

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run every worker of a session to its end, and the master if the session has one.

        In a block of `hogshare.runtimes.hooks.EpochHook(session, on_epoch, checks)`, whose `poll`
        is to be called in the calling thread now and then and when all have ended: it tells of
        epochs, and looks at the model where all rest. If anything is raised meanwhile,
        ``session.stop()`` has the workers leave, and they are waited for before it is raised on.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Free the memory. By default nothing: what is this process's own is freed by itself."""

    def facts(self) -> dict[str, Any]:
        """What the report's settings say of it, besides its name."""
        return {}
