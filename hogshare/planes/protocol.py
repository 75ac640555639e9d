"""What a plane is, and where one of one's own begins.

A plane says where the model lives. The two that kernels know keep one vector, `Shared` and
`Master`. A plane of one's own derives from `Plane`: every worker has a *home*, a vector of its own
that its steps are taken on, and after each of its blocks the plane may do with it what it likes,
with arrays that all workers share.

Who writes: a home its worker alone; the plane's arrays whoever the plane says, in `after_block` of
any worker, at any moment, also while others wait there. Aligned words of 64 bits are never read
half written; of a row that one worker writes and others read, a reader may see a part of the next
state. Who frees: the session's owner.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from hogshare.kernels.schedule import epoch_schedule

if TYPE_CHECKING:
    from hogshare.links.link import Link
    from hogshare.shm.mailbox import Message
    from hogshare.shm.table import ProgressTable

Shapes = dict[str, tuple[tuple[int, ...], str]]


class PlaneError(RuntimeError):
    """The code of a plane of the user's has raised, or answered what is no model."""


class Home(Protocol):
    """A worker's own vector, as its plane sees it after a block.

    The vector has the numbers of the model one after the other: coefficients feature by feature,
    then intercepts; of a problem by a gradient, its parameters.
    """

    me: int
    n_workers: int
    arrays: Mapping[str, np.ndarray]

    @property
    def blocks(self) -> int:
        """Blocks that this worker has completed."""
        ...

    @property
    def clock(self) -> int:
        """Blocks as barriers count them: who joins late begins at the others' least."""
        ...

    @property
    def table(self) -> ProgressTable:
        """The progress of all workers."""
        ...

    def read(self) -> np.ndarray:
        """The vector as it stands: a copy."""
        ...

    def write(self, vector: np.ndarray) -> None:
        """Go on from another vector."""
        ...

    def post(
        self, to: int, values: np.ndarray, places: np.ndarray | None = None, round: int = 0
    ) -> bool:
        """Send a message along an edge; False if as many as its queue holds are under way.

        values : float64 [n], of the places of a vector; without places of all
        places : int64 [n]
        round : what the reader is told with them
        """
        ...

    def mail(self, sender: int) -> Message | None:
        """The oldest message from there that has not been taken, if one has arrived."""
        ...

    def take(self, sender: int) -> None:
        """Acknowledge that message: its arrays are the sender's again."""
        ...


class Plane:
    """Where the model lives; one of one's own derives from it.

    Examples
    --------
    Every worker alone, and the mean of all at the end (one-shot averaging, Zinkevich et al. 2010):

    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import Plane, problems, solve
    >>> class Apart(Plane):
    ...     def after_block(self, home):
    ...         pass
    ...
    ...     def model(self, homes, arrays):
    ...         return homes.mean(axis=0)
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y, alpha=0.01)
    >>> report = solve(problem, plane=Apart(), n_workers=2, runtime="simulator", trace=1, seed=0)
    >>> report.plane["name"], bool(report.objective < 0.2)
    ('Apart', True)
    """

    # what a plane declares of itself, and what is so of those of one's own
    has_homes: ClassVar[bool] = True  # a vector for each worker, which the plane itself looks after
    has_master: ClassVar[bool] = False  # who owns the model
    cutoff: int | None = None  # of the ages of messages
    queue: int = 1  # messages of an edge that may be under way
    checkpointed: tuple[str, ...] = ()  # of the plane's own arrays, those that checkpoints keep
    seen: tuple[str, ...] = ()  # of `owners`, arrays of which others read a row at any moment
    moved: tuple[str, ...] = ()  # by edge, written by its sender: what `reader_of` goes by
    is_chosen: bool = False  # whether `fitted` makes another of it
    uses_registers: bool = False  # whether a message may be written over before it is read
    needs_memory: str = "is_by_mail=False"  # what of it does, of one that is not by mail
    extra: int = 0  # numbers of a message besides those of a vector
    whose: int | None = None  # whose home is the model, if it lives; None: what `model` says

    @property
    def least_workers(self) -> int:
        """How many workers a run needs at least."""
        return 1

    @property
    def is_by_mail(self) -> bool:
        """Whether workers tell each other everything by messages, so that some may be far away.

        Machines that share no memory then run it: what a worker writes into the plane's arrays the
        others do not see before they meet, at an epoch's end, and of that what `owners` names. Mail
        is acknowledged (``home.post``); nothing is written over.
        """
        return False

    @property
    def shares_rows(self) -> bool:
        """Whether every worker trains on rows of its own, and not on any that it claims."""
        return False

    @property
    def goes_on(self) -> bool:
        """Whether a worker with rows of its own begins its next epoch without the others."""
        return False

    @property
    def has_copies(self) -> bool:
        """Whether workers have copies that kernels exchange, if there are several."""
        return False

    @property
    def is_lock_free(self) -> bool:
        """Whether all workers read and write the one vector."""
        return False

    @property
    def has_cells(self) -> bool:
        """Whether a block is a cell of the problem's, whose numbers nobody else writes."""
        return False

    @property
    def is_automatic(self) -> bool:
        """Whether the rows between two exchanges are left to be chosen."""
        return False

    @property
    def is_direct(self) -> bool:
        """Whether the workers of a group read and write one vector, which is theirs, as they go."""
        return False

    @property
    def weighs(self) -> bool:
        """Whether changes are weighted by the problem's curvature, which a run then has by name."""
        return False

    def fitted(self, problem: Any, n_rows: int, n_workers: int) -> Plane:
        """The plane with what is chosen for a problem: of ``"auto"``, what `rows_of_block` is not.

        n_rows : rows that are trained on
        """
        return self

    def by_steps(self, block_rows: int, step_rows: int) -> Plane:
        """The plane where workers' blocks of so many rows have steps by a gradient of so many."""
        return self

    @property
    def settled(self) -> Plane:
        """The plane that does what this one says: itself, unless it is another's simplest case."""
        return self

    def mode(self, n_workers: int) -> int:
        """Code of the plane in a run's plan: a worker with a home is alone on it."""
        return epoch_schedule.ALONE

    def interval(self, problem: Any) -> int:
        """Rows between two exchanges in kernels; 0 where there are none."""
        return 0

    def rows_of_block(
        self, problem: Any, n_rows: int, n_workers: int, late_step: float
    ) -> int | None:
        """Rows of a block, where nobody has said how many; None: any.

        n_rows : rows that are trained on
        late_step : step size of a row of a linear problem at the end of the run
        """
        return None

    def over_sites(self, site_of: np.ndarray) -> Plane:
        """The plane as it is where workers share memory at their site alone.

        site_of : of each worker
        """
        return self

    def rows_worth_a_link(self, problem: Any, n_rows: int, n_workers: int) -> int | None:
        """Rows of a block of a problem by a gradient, by what links take; None: any.

        Where that depends on what a row takes, a gradient is tried and timed.
        """
        return None

    def steps_on_copies(self, problem: Any, batch: int, block_rows: int) -> bool:
        """Whether rows are stepped on a whole copy of a master's snapshot."""
        return False

    def check_blocks(self, block_rows: int, own_rows: int) -> None:
        """Refuse blocks that do not go with what the plane does every so many rows.

        block_rows : rows of a block, as they have been settled
        own_rows : rows that a worker visits in an epoch

        Raises
        ------
        ValueError
        """

    def numbers(self) -> dict[str, Any]:
        """Fields of a run's plan."""
        return {"atomic": 0, "gradients": 0, "cutoff": -1, "damped": 0}

    def check(self) -> None:
        """Refuse one of one's own that lacks what it does.

        Raises
        ------
        TypeError
        """
        if self.has_homes and getattr(self.after_block, "__func__", None) is Plane.after_block:
            raise TypeError(
                f"{type(self).__name__} has no after_block: write after_block(self, home), which "
                "does with a worker's vector what the plane does after a block."
            )

    # -- what one of one's own says --------------------------------------------------------------

    def arrays(self, n_params: int, n_workers: int) -> Shapes:
        """Arrays that all workers share, by name: shape and dtype. They begin as zeros.

        Parameters
        ----------
        n_params : int
            Numbers of a home's vector.
        n_workers : int
        """
        return {}

    def enter(self, home: Home) -> None:
        """Called by a worker before its first block, when its vector is what it begins with."""

    def after_block(self, home: Home) -> Generator[Any, bool, None] | None:
        """Called by a worker, in its own thread or process, after each block that it completes.

        Nobody waits in it; a plane that has to, for what other workers do, is a generator here, and
        yields `Until`. The worker takes its next block when all of it is done.
        """
        raise NotImplementedError

    def model(self, homes: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """The model that the homes make, for reports and on the way; by default their mean.

        Parameters
        ----------
        homes : ndarray of shape (n_inhabited, n_params)
            Vectors of the workers that have completed a block and have not died; all, if nobody
            has. Who joins a run late begins at the model that the others make by then.
        arrays : mapping of str to ndarray
            The plane's own.

        Returns
        -------
        ndarray of shape (n_params,)
        """
        return np.asarray(homes.mean(axis=0))

    def begin(self, arrays: Mapping[str, np.ndarray], vector: np.ndarray) -> None:
        """Write what the plane's own arrays begin with, if not zeros; before any worker starts.

        vector : ndarray of shape (n_params,), from which every home begins
        """

    def adopts(self, me: int, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether a worker that comes when others have done something begins at their model.

        Else at the run's start.
        """
        return True

    def reader_of(self, edge: int, to: int, arrays: Mapping[str, np.ndarray]) -> int:
        """Who reads an edge's messages by now: who `edges` has said, unless the plane moves it."""
        return to

    def kind_of(self, round: int, n_places: int, n_dense: int) -> str:
        """What kind of message one is in `Report.traffic`, by its head.

        Parameters
        ----------
        round : int
            That it was posted with.
        n_places, n_dense : int
            How many of its values have a place of their own, and how many have none.
        """
        return "mail"

    def account(self, arrays: Mapping[str, np.ndarray], n_workers: int) -> Any:
        """What a report says of how it went, when all is over; by default nothing.

        If it has a `traffic`, that is `Report.traffic` of workers in one memory, as a plane counts
        that by kinds of its own; else what they have posted is "mail" there.
        """
        return None

    def groups(self, n_workers: int) -> np.ndarray | None:
        """The group of each worker, whose barriers see those of their own only; None: all are one.

        Behind groups no order of workers holds, and no throttled release.
        """
        return None

    def bury(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Called before a model is asked for: which workers have died, bools of (n_workers,)."""

    def agree(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Called when ranks have died, on each of the others alike, while nobody works.

        What the dead had sent may have come to some only. The arrays of `owners` and
        `checkpointed_owners` are those of all who live; by default nothing is done.

        dead : bool array of shape (n_workers,)
        """

    def remark(self, arrays: Mapping[str, np.ndarray]) -> str | None:
        """What a run that is over has to be warned of; None: nothing."""
        return None

    def finish(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Called when the run is over and nobody works, before the last `model`."""

    def resume(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Called when arrays that a checkpoint has kept are there again, before any worker starts.

        What was under way is not: no message of the run before arrives.
        """

    def edges(self, n_workers: int) -> list[tuple[int, int]]:
        """Who sends messages to whom, ``(from, to)``: workers from 0, and after the last a master.

        A home posts to those that it has an edge to, and reads the mail of those that have one to
        it. By default nobody does.
        """
        return []

    def owners(self, n_workers: int) -> dict[str, np.ndarray]:
        """Of the plane's own arrays, those that `model` and `account` read, and who writes them.

        For machines that share no memory: by name the number of the one worker that writes each
        row, int64 of the array's length. By default none is.
        """
        return {}

    def checkpointed_owners(self, n_workers: int) -> dict[str, np.ndarray]:
        """Of the arrays in `kept` those that `owners` does not name, and who writes them, as there.

        They are brought to all machines when a run is saved. By default none is.
        """
        return {}

    def edge_links(self, n_workers: int) -> list[Link] | None:
        """Links that the edges stand for, in their order: what is sent is as long under way.

        In real time by a delay (`hogshare.engine.emulated_links`), and of a `Simulator` in place of
        its network's. None: nothing is delayed.
        """
        return None


def owners_of(
    plane: Plane, n_workers: int, arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Who writes which rows of a plane's arrays, looked at before a run.

    Raises ValueError: if an array is not there, or has other rows, or a worker is not in the run.
    """
    name, found = type(plane).__name__, {}
    for array, workers in plane.owners(n_workers).items():
        owners = np.asarray(workers, np.int64)
        if array not in arrays:
            raise ValueError(f"{name}.owners names {array!r}, which is none of its arrays.")
        if owners.shape != arrays[array].shape[:1]:
            raise ValueError(
                f"{name}.owners names {owners.size} workers for the rows of {array!r}, which has "
                f"{len(arrays[array])}."
            )
        if owners.size and not 0 <= owners.min() <= owners.max() < n_workers:
            raise ValueError(
                f"{name}.owners names workers {owners.min()} to {owners.max()} for {array!r}; "
                f"there are 0 to {n_workers - 1}."
            )
        found[array] = owners
    if missing := sorted(set(plane.seen) - set(found)):
        raise ValueError(f"{name}.seen names {missing[0]!r}, of which {name}.owners says nothing.")
    return found


def edges_of(plane: Plane, n_workers: int) -> list[tuple[int, int]]:
    """The edges of a plane, looked at before a run.

    Raises ValueError: if one has no end in the run, or two are the same, or a queue holds nothing.
    """
    name, ends = type(plane).__name__, n_workers + plane.has_master
    edges = [(int(sender), int(to)) for sender, to in plane.edges(n_workers)]
    for sender, to in edges:
        if not (0 <= sender < ends and 0 <= to < ends) or sender == to:
            raise ValueError(
                f"The plane {name} has an edge from {sender} to {to}: edges join two different "
                f"workers of 0 to {n_workers - 1}."
            )
    if len(set(edges)) < len(edges):
        raise ValueError(f"The plane {name} names an edge twice: {edges!r}.")
    if plane.queue < 1:
        raise ValueError(f"The queue of the plane {name} must hold 1 message; got {plane.queue!r}.")
    return edges
