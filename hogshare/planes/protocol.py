"""The protocol of planes, and the base class of custom planes.

A plane decides where the model is stored. Kernels support two planes with one vector, `Shared` and
`Master`. A custom plane derives from `Plane`. Every worker of a custom plane has a *home*: its own
vector, on which its steps are taken. After each block of a worker, the plane may change the
worker's home, and may use arrays that all workers share.

Writers: only a home's worker writes the home. The plane decides which worker writes which of the
plane's arrays. A worker writes to these arrays in its `after_block`, at any moment, even while
other workers wait in their `after_block`. Readers: any worker. An aligned word of 64 bits is never
read half written. If one worker writes a row and others read it, a reader may see parts of the next
state. Freeing: the session's owner frees the arrays.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from hogshare.kernels.schedule import epoch_schedule
from hogshare.system.deprecations import renamed

if TYPE_CHECKING:
    from hogshare.links.link import Link
    from hogshare.shm.mailbox import Message
    from hogshare.shm.table import ProgressTable

Shapes = dict[str, tuple[tuple[int, ...], str]]


class PlaneError(RuntimeError):
    """The code of a custom plane has raised an error, or has returned an invalid value."""


class Home(Protocol):
    """A worker's own vector, in the form that its plane uses after a block.

    The vector contains the coefficients feature by feature, then the intercepts.
    For a problem defined by a gradient, it contains the parameters.
    """

    me: int
    n_workers: int
    arrays: Mapping[str, np.ndarray]

    @property
    def blocks(self) -> int:
        """Number of blocks that this worker has completed."""
        ...

    @property
    def clock(self) -> int:
        """Number of blocks for barriers; a late worker begins at the least clock of the others."""
        ...

    @property
    def table(self) -> ProgressTable:
        """The progress of all workers."""
        ...

    def read(self) -> np.ndarray:
        """Return a copy of the current vector."""
        ...

    def write(self, vector: np.ndarray) -> None:
        """Copy another vector into the home; the worker continues from its values."""
        ...

    def post(
        self, to: int, values: np.ndarray, places: np.ndarray | None = None, round: int = 0
    ) -> bool:
        """Send a message along an edge; return False if its queue is full.

        values : float64 array of shape (n,), the vector's values at `places`, or the whole vector
        places : int64 array of shape (n,), or None for the whole vector
        round : an integer that is passed to the reader with the values

        The values are copied before the call returns.
        """
        ...

    def mail(self, sender: int) -> Message | None:
        """Return the sender's oldest message that has arrived and has not been taken, or None."""
        ...

    def take(self, sender: int) -> None:
        """Acknowledge the message that `mail` returned; its arrays may then be overwritten."""
        ...


@renamed(kept="checkpointed", kept_owners="checkpointed_owners", uses_boards="uses_registers")
class Plane:
    """The place where the model is stored; the base class of custom planes.

    Examples
    --------
    Train every worker alone, and average at the end (one-shot averaging, Zinkevich et al. 2010):

    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import Plane, problems, solve
    >>> class OneShot(Plane):
    ...     def after_block(self, home):
    ...         pass
    ...
    ...     def model(self, homes, arrays):
    ...         return homes.mean(axis=0)
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y, alpha=0.01)
    >>> report = solve(problem, plane=OneShot(), n_workers=2, runtime="simulator", trace=1, seed=0)
    >>> report.plane["name"], bool(report.objective < 0.2)
    ('OneShot', True)
    """

    # a plane's declarations, with the defaults of custom planes
    has_homes: ClassVar[bool] = True  # whether each worker has a vector that the plane manages
    has_master: ClassVar[bool] = False  # whether a master owns the model
    cutoff: int | None = None  # greatest age of messages
    queue: int = 1  # number of messages of an edge that may be under way
    checkpointed: tuple[str, ...] = ()  # the plane's own arrays that checkpoints store
    seen: tuple[str, ...] = ()  # arrays in `owners` whose rows other workers read at any moment
    moved: tuple[str, ...] = ()  # arrays by edge that `reader_of` reads, written by the sender
    is_chosen: bool = False  # whether `fitted` returns another plane
    uses_registers: bool = False  # whether a message may be overwritten before it is read
    waits_for_rounds: bool = False  # whether a worker waits for messages of its own round
    needs_memory: str = "is_by_mail=False"  # the setting that needs shared memory, if any
    extra: int = 0  # how many numbers a message has besides a vector
    whose: int | None = None  # the worker whose home is the model, if it lives; None: use `model`

    @property
    def least_workers(self) -> int:
        """The least number of workers of a run."""
        return 1

    @property
    def is_by_mail(self) -> bool:
        """Whether workers communicate only by messages, and may be far from each other.

        Machines that do not share memory can run such a plane. If a worker writes to an array that
        `owners` names, other machines see the values at the next epoch barrier. They do not see
        writes to the plane's other arrays. Mail is acknowledged (``home.post``), and no message is
        overwritten.
        """
        return False

    @property
    def shares_rows(self) -> bool:
        """Whether every worker trains on its own rows, not on rows that it claims."""
        return False

    @property
    def goes_on(self) -> bool:
        """Whether a worker with rows of its own begins an epoch without waiting for the others."""
        return False

    @property
    def has_copies(self) -> bool:
        """Whether several workers have copies that kernels exchange."""
        return False

    @property
    def is_lock_free(self) -> bool:
        """Whether all workers read and write the one vector."""
        return False

    @property
    def has_cells(self) -> bool:
        """Whether a block is a cell of the problem, whose entries no other worker writes."""
        return False

    @property
    def is_automatic(self) -> bool:
        """Whether the number of rows between two exchanges is chosen automatically."""
        return False

    @property
    def is_direct(self) -> bool:
        """Whether the workers of a group read and write the group's common vector directly."""
        return False

    @property
    def weighs(self) -> bool:
        """Whether changes are weighted by the problem's curvature; the run then stores it."""
        return False

    def fitted(self, problem: Any, n_rows: int, n_workers: int) -> Plane:
        """Return the plane with its ``"auto"`` settings chosen.

        Settings that `rows_of_block` chooses are not chosen here.

        n_rows : number of rows that are trained on
        """
        return self

    def by_steps(self, block_rows: int, step_rows: int) -> Plane:
        """Return the plane for blocks of `block_rows` rows and steps of `step_rows` rows."""
        return self

    @property
    def settled(self) -> Plane:
        """The plane that runs: this plane, or an equivalent simpler plane."""
        return self

    def mode(self, n_workers: int) -> int:
        """Return the plane's code in a run's plan; by default the code of a worker on its home."""
        return epoch_schedule.ALONE

    def interval(self, problem: Any) -> int:
        """Return the number of rows between two exchanges in kernels; 0 without exchanges."""
        return 0

    def rows_of_block(
        self, problem: Any, n_rows: int, n_workers: int, late_step: float
    ) -> int | None:
        """Return the default number of rows in a block, or None if any number will do.

        n_rows : number of rows that are trained on
        late_step : step size of a row of a linear problem at the end of the run
        """
        return None

    def over_sites(self, site_of: np.ndarray) -> Plane:
        """Return the plane for workers that share memory only within their site.

        site_of : the site of each worker
        """
        return self

    def rows_worth_a_link(self, problem: Any, n_rows: int, n_workers: int) -> int | None:
        """Return the rows of a block that are worth its links' time, or None for any number.

        It is called for a problem defined by a gradient. If the number depends on the time of a
        row, the method computes and times a gradient.
        """
        return None

    def steps_on_copies(self, problem: Any, batch: int, block_rows: int) -> bool:
        """Whether a worker takes rows' steps on a whole copy of a master's snapshot."""
        return False

    def check_blocks(self, block_rows: int, own_rows: int) -> None:
        """Refuse blocks that do not fit the plane's interval of rows.

        block_rows : the final number of rows in a block
        own_rows : number of rows that a worker visits in an epoch

        Raises
        ------
        ValueError
        """

    def numbers(self) -> dict[str, Any]:
        """Return the plane's fields of a run's plan."""
        return {"atomic": 0, "gradients": 0, "cutoff": -1, "damped": 0}

    def check(self) -> None:
        """Refuse a custom plane without `after_block`.

        Raises
        ------
        TypeError
        """
        if self.has_homes and getattr(self.after_block, "__func__", None) is Plane.after_block:
            raise TypeError(
                f"{type(self).__name__} has no after_block: write after_block(self, home), which "
                "is called with a worker's home after each block."
            )

    # -- methods of custom planes ----------------------------------------------------------------

    def arrays(self, n_params: int, n_workers: int) -> Shapes:
        """Return the shapes and dtypes, by name, of the arrays that all workers share.

        The arrays are initially zero.

        Parameters
        ----------
        n_params : int
            Length of a home's vector.
        n_workers : int
            Number of workers.
        """
        return {}

    def enter(self, home: Home) -> None:
        """Prepare a worker; the worker calls this before its first block.

        At this time, the worker's home has the initial vector.
        """

    def after_block(self, home: Home) -> Generator[Any, bool, None] | None:
        """Act after a block; each worker calls this in its own thread or process.

        The method must not block. If a plane has to wait for other workers, the method must be a
        generator that yields `Until`. The worker takes its next block after the generator has
        ended.
        """
        raise NotImplementedError

    def model(self, homes: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the model for evaluations and the report; by default, the mean of the homes.

        Parameters
        ----------
        homes : ndarray of shape (n_inhabited, n_params)
            Copies of the vectors of the workers that have completed a block and have not died. If
            there are no such workers, the vectors of all workers. A worker that joins late begins
            at the current model of the others.
        arrays : mapping of str to ndarray
            The plane's own arrays.

        Returns
        -------
        ndarray of shape (n_params,)
        """
        return np.asarray(homes.mean(axis=0))

    def begin(self, arrays: Mapping[str, np.ndarray], vector: np.ndarray) -> None:
        """Write the initial values of the plane's own arrays, before any worker starts.

        vector : ndarray of shape (n_params,), the initial vector of every home
        """

    def adopts(self, me: int, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether worker `me`, which joins late, begins at the model of the other workers.

        If this is False, the worker begins at the run's first vector.
        """
        return True

    def reader_of(self, edge: int, to: int, arrays: Mapping[str, np.ndarray]) -> int:
        """Return the current reader of an edge; by default, the reader in `edges`."""
        return to

    def kind_of(self, round: int, n_places: int, n_dense: int) -> str:
        """Return the kind of a message in `Report.traffic`, judged from its header.

        Parameters
        ----------
        round : int
            The round with which the message was posted.
        n_places : int
            The number of its values with a place.
        n_dense : int
            The number of its values without a place.
        """
        return "mail"

    def account(self, arrays: Mapping[str, np.ndarray], n_workers: int) -> Any:
        """Return the plane's part of the report, after the run; by default None.

        If the returned object has a `traffic` attribute with the plane's own kinds, this attribute
        becomes `Report.traffic` for workers that share one memory. If it has no such attribute, all
        messages of these workers count as "mail".
        """
        return None

    def groups(self, n_workers: int) -> np.ndarray | None:
        """Return the group of each worker, or None if all workers are one group.

        A barrier sees only the workers of its own worker's group. A run with groups can neither
        order its workers nor use throttled release.
        """
        return None

    def bury(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Record the dead workers; called before each `model`.

        dead : bool array of shape (n_workers,)
        """

    def agree(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Repair the arrays after ranks have died; called on each surviving rank, between blocks.

        Some survivors may not have received the last messages of the dead workers. The arrays that
        `owners` and `checkpointed_owners` name contain the rows of all survivors. By default, this
        method does nothing.

        dead : bool array of shape (n_workers,)
        """

    def remark(self, arrays: Mapping[str, np.ndarray]) -> str | None:
        """Return a warning about a run that is over, or None."""
        return None

    def finish(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Finish the arrays; called after the last block and before the last `model`."""

    def resume(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Complete the arrays after a checkpoint has restored some of them, before workers start.

        Messages that were under way are not restored, so no message of the earlier run arrives.
        """

    def edges(self, n_workers: int) -> list[tuple[int, int]]:
        """Return the edges: pairs ``(from, to)`` of numbers.

        Workers are numbered from 0, and a master has the number after the last worker's. A home
        posts along its outgoing edges, and reads the mail of its incoming edges. By default, a
        plane has no edges.
        """
        return []

    def owners(self, n_workers: int) -> dict[str, np.ndarray]:
        """Return the writers of the plane's own arrays that `model` and `account` read.

        Machines that do not share memory need this information. For each array's name, the value is
        an int64 array of the length of the named array: the one worker that writes each row. By
        default, the result is empty.
        """
        return {}

    def checkpointed_owners(self, n_workers: int) -> dict[str, np.ndarray]:
        """Return the writers of those `checkpointed` arrays that `owners` omits.

        The format is the same as for `owners`. These arrays are sent to all machines when a run is
        saved. By default, the result is empty.
        """
        return {}

    def edge_links(self, n_workers: int) -> list[Link] | None:
        """Return the links that delay the messages of each edge, or None for no delays.

        In real time, links are emulated by delays (`hogshare.engine.emulated_links`). A `Simulator`
        uses these links instead of its network's links.
        """
        return None


def owners_of(
    plane: Plane, n_workers: int, arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the writer of each row of a plane's arrays, checked before a run.

    Raises ValueError if an array does not exist or has another number of rows, or if an owner is
    not a worker of the run.
    """
    name, found = type(plane).__name__, {}
    for array, workers in plane.owners(n_workers).items():
        owners = np.asarray(workers, np.int64)
        if array not in arrays:
            raise ValueError(
                f"{name}.owners names {array!r}, which {name}.arrays does not define; it has "
                f"{sorted(arrays)}."
            )
        if owners.shape != arrays[array].shape[:1]:
            raise ValueError(
                f"{name}.owners names {owners.size} workers for the rows of {array!r}, which has "
                f"{len(arrays[array])} rows: name one worker for each."
            )
        if owners.size and not 0 <= owners.min() <= owners.max() < n_workers:
            raise ValueError(
                f"{name}.owners names workers {owners.min()} to {owners.max()} for {array!r}; "
                f"the run has workers 0 to {n_workers - 1}."
            )
        found[array] = owners
    if missing := sorted(set(plane.seen) - set(found)):
        raise ValueError(
            f"{name}.seen names {missing[0]!r}, which {name}.owners lacks: add its rows' workers."
        )
    return found


def edges_of(plane: Plane, n_workers: int) -> list[tuple[int, int]]:
    """Return a plane's edges, checked before a run.

    Raises ValueError if an end is outside the run, if an edge occurs twice, or if `queue` is below
    1.
    """
    name, ends = type(plane).__name__, n_workers + plane.has_master
    edges = [(int(sender), int(to)) for sender, to in plane.edges(n_workers)]
    for sender, to in edges:
        if not (0 <= sender < ends and 0 <= to < ends) or sender == to:
            raise ValueError(
                f"The plane {name} has an edge from {sender} to {to}: an edge must join two "
                f"different workers of 0 to {n_workers - 1}."
            )
    if len(set(edges)) < len(edges):
        raise ValueError(f"The plane {name} names an edge twice: {edges!r}.")
    if plane.queue < 1:
        raise ValueError(f"{name}.queue must be at least 1 message; got {plane.queue!r}.")
    return edges
