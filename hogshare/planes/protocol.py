"""The protocol of planes, and the base class of custom ones.

A plane says where the model lives. Kernels know two planes with one vector, `Shared` and `Master`.
A custom plane derives from `Plane`. Every worker then has a *home*, a vector of its own on which
its steps are taken. After each of a worker's blocks, the plane may change its home, and use arrays
that all workers share.

Writers: only its worker writes a home; the plane decides which worker writes its arrays. It does so
in any worker's `after_block`, at any moment, also while other workers wait in theirs. An aligned
word of 64 bits is never read half written. If one worker writes a row and others read it, a reader
may see parts of the next state. The session's owner frees the arrays.
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
    """A custom plane's code has raised, or has returned an invalid value."""


class Home(Protocol):
    """A worker's own vector, as its plane sees it after a block.

    The vector contains the model's numbers: coefficients feature by feature, then intercepts; for a
    problem by a gradient, its parameters.
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
        """Blocks as barriers count them: a late worker begins at the others' least clock."""
        ...

    @property
    def table(self) -> ProgressTable:
        """The progress of all workers."""
        ...

    def read(self) -> np.ndarray:
        """Return a copy of the current vector."""
        ...

    def write(self, vector: np.ndarray) -> None:
        """Continue from another vector."""
        ...

    def post(
        self, to: int, values: np.ndarray, places: np.ndarray | None = None, round: int = 0
    ) -> bool:
        """Send a message along an edge; return False if its queue is full.

        values : float64 [n], the vector's values at `places`, or all of them without places
        places : int64 [n]
        round : an integer that is passed to the reader with them
        """
        ...

    def mail(self, sender: int) -> Message | None:
        """Return the sender's oldest message that has arrived and has not been taken, or None."""
        ...

    def take(self, sender: int) -> None:
        """Acknowledge that message: the sender may write its arrays again."""
        ...


@renamed(kept="checkpointed", kept_owners="checkpointed_owners", uses_boards="uses_registers")
class Plane:
    """The place where the model lives; the base class of custom planes.

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
    has_homes: ClassVar[bool] = True  # a vector for each worker, which the plane itself manages
    has_master: ClassVar[bool] = False  # whether a master owns the model
    cutoff: int | None = None  # greatest age of messages
    queue: int = 1  # messages of an edge that may be under way
    checkpointed: tuple[str, ...] = ()  # the plane's own arrays that checkpoints store
    seen: tuple[str, ...] = ()  # arrays in `owners` whose rows other workers read at any moment
    moved: tuple[str, ...] = ()  # arrays by edge that `reader_of` reads, written by the sender
    is_chosen: bool = False  # whether `fitted` returns another plane
    uses_registers: bool = False  # whether a message may be overwritten before it is read
    needs_memory: str = "is_by_mail=False"  # the setting that needs shared memory, if any
    extra: int = 0  # numbers of a message besides those of a vector
    whose: int | None = None  # the worker whose home is the model, if alive; None: use `model`

    @property
    def least_workers(self) -> int:
        """The least number of workers of a run."""
        return 1

    @property
    def is_by_mail(self) -> bool:
        """Whether workers communicate by messages only, and may be far from each other.

        Machines that share no memory can run such a plane. Other machines see what a worker writes
        into the plane's arrays at the next epoch barrier, and only for arrays that `owners` names.
        Mail is acknowledged (``home.post``); no message is overwritten.
        """
        return False

    @property
    def shares_rows(self) -> bool:
        """Whether every worker trains on rows of its own, and not on rows that it claims."""
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
        """Whether a block is a cell of the problem, whose numbers no other worker writes."""
        return False

    @property
    def is_automatic(self) -> bool:
        """Whether the number of rows between two exchanges is chosen automatically."""
        return False

    @property
    def is_direct(self) -> bool:
        """Whether the workers of a group read and write the group's one vector directly."""
        return False

    @property
    def weighs(self) -> bool:
        """Whether changes are weighted by the problem's curvature, which the run then stores."""
        return False

    def fitted(self, problem: Any, n_rows: int, n_workers: int) -> Plane:
        """Return the plane with its ``"auto"`` settings chosen, except those of `rows_of_block`.

        n_rows : rows that are trained on
        """
        return self

    def by_steps(self, block_rows: int, step_rows: int) -> Plane:
        """Return the plane for blocks of `block_rows` rows and gradient steps of `step_rows`."""
        return self

    @property
    def settled(self) -> Plane:
        """The plane that runs: this one, unless it is the same as a simpler plane."""
        return self

    def mode(self, n_workers: int) -> int:
        """Return the plane's code in a run's plan: a worker with a home is alone on it."""
        return epoch_schedule.ALONE

    def interval(self, problem: Any) -> int:
        """Return the rows between two exchanges in kernels; 0: kernels do not exchange."""
        return 0

    def rows_of_block(
        self, problem: Any, n_rows: int, n_workers: int, late_step: float
    ) -> int | None:
        """Return the default number of rows in a block; None: any number.

        n_rows : rows that are trained on
        late_step : step size of a row of a linear problem at the end of the run
        """
        return None

    def over_sites(self, site_of: np.ndarray) -> Plane:
        """Return the plane for workers that share memory only within their site.

        site_of : the site of each worker
        """
        return self

    def rows_worth_a_link(self, problem: Any, n_rows: int, n_workers: int) -> int | None:
        """Return a block's rows by the links' times, for a problem by a gradient; None: any.

        If that depends on the time of a row, a gradient is computed and timed.
        """
        return None

    def steps_on_copies(self, problem: Any, batch: int, block_rows: int) -> bool:
        """Whether steps on rows are taken on a whole copy of a master's snapshot."""
        return False

    def check_blocks(self, block_rows: int, own_rows: int) -> None:
        """Refuse blocks that do not fit the plane's interval of rows.

        block_rows : the final number of rows in a block
        own_rows : rows that a worker visits in an epoch

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
        """Return shape and dtype of the arrays that all workers share, by name; initially zeros.

        Parameters
        ----------
        n_params : int
            Numbers of a home's vector.
        n_workers : int
        """
        return {}

    def enter(self, home: Home) -> None:
        """Prepare a worker: it calls this before its first block, with its initial vector."""

    def after_block(self, home: Home) -> Generator[Any, bool, None] | None:
        """Act after a block: each worker calls this in its own thread or process.

        It must not block. A plane that waits for other workers makes it a generator that yields
        `Until`. The worker takes its next block after the generator has ended.
        """
        raise NotImplementedError

    def model(self, homes: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the model of the homes, for evaluations and the report; by default their mean.

        Parameters
        ----------
        homes : ndarray of shape (n_inhabited, n_params)
            Vectors of the workers that have completed a block and have not died; all vectors, if no
            worker has. A worker that joins late begins at the others' current model.
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
        """Whether a worker that joins late begins at the others' model.

        If not, it begins at the run's first vector.
        """
        return True

    def reader_of(self, edge: int, to: int, arrays: Mapping[str, np.ndarray]) -> int:
        """Return the current reader of an edge: the one of `edges`, unless the plane moves it."""
        return to

    def kind_of(self, round: int, n_places: int, n_dense: int) -> str:
        """Return the kind of a message in `Report.traffic`, by its header.

        Parameters
        ----------
        round : int
            The round that it was posted with.
        n_places, n_dense : int
            The number of its values with a place, and without one.
        """
        return "mail"

    def account(self, arrays: Mapping[str, np.ndarray], n_workers: int) -> Any:
        """Return the plane's part of the report, after the run; by default None.

        If it has a `traffic` attribute, this is `Report.traffic` of workers in one memory, with the
        plane's own kinds. Otherwise all their messages count as "mail".
        """
        return None

    def groups(self, n_workers: int) -> np.ndarray | None:
        """Return the group of each worker; None: one group. A barrier sees its worker's group only.

        Groups exclude an order of workers and throttled release.
        """
        return None

    def bury(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Note the dead workers, bools of shape (n_workers,): called before each `model`."""

    def agree(self, arrays: Mapping[str, np.ndarray], dead: np.ndarray) -> None:
        """Repair the arrays after ranks have died: called on each surviving rank, between blocks.

        Only some survivors may have received the dead workers' last messages. The arrays of
        `owners` and `checkpointed_owners` contain all survivors' rows. By default nothing is done.

        dead : bool array of shape (n_workers,)
        """

    def remark(self, arrays: Mapping[str, np.ndarray]) -> str | None:
        """Return a warning about a run that is over; None: no warning."""
        return None

    def finish(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Finish the arrays: called after the last block, before the last `model`."""

    def resume(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Complete the arrays after a checkpoint has restored some, before any worker starts.

        Messages under way are not restored: no message of the earlier run arrives.
        """

    def edges(self, n_workers: int) -> list[tuple[int, int]]:
        """Return the pairs ``(from, to)`` of workers, from 0, and of a master, numbered after them.

        A home posts along its outgoing edges, and reads the mail of its incoming ones. By default
        no plane has edges.
        """
        return []

    def owners(self, n_workers: int) -> dict[str, np.ndarray]:
        """Return the writers of the plane's own arrays that `model` and `account` read.

        For machines that share no memory: by array name, the one worker that writes each row, int64
        of the array's length. By default empty.
        """
        return {}

    def checkpointed_owners(self, n_workers: int) -> dict[str, np.ndarray]:
        """Return the writers, as `owners` does, of `checkpointed` arrays that `owners` omits.

        These arrays are sent to all machines when a run is saved. By default empty.
        """
        return {}

    def edge_links(self, n_workers: int) -> list[Link] | None:
        """Return the link of each edge, which delays its messages; None: no delay.

        Real time emulates links by delays (`hogshare.engine.emulated_links`). A `Simulator` uses
        them instead of its network's links.
        """
        return None


def owners_of(
    plane: Plane, n_workers: int, arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the writer of each row of a plane's arrays, checked before a run.

    Raises ValueError: if an array does not exist, has another number of rows, or an owner is no
    worker of the run.
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

    Raises ValueError: if an end is outside the run, an edge occurs twice, or `queue` is below 1.
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
