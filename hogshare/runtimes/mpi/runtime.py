"""The runtime `MPI`: every rank of a job makes the same call, and all work on one model."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from hogshare.links.link import Link
from hogshare.runtimes.choice import usable_workers
from hogshare.runtimes.joint_runtime import Joint, Led, Making
from hogshare.runtimes.mpi import agreement, rank_exit, rank_seats, survivors
from hogshare.runtimes.mpi.calls import Call
from hogshare.runtimes.mpi.door import library
from hogshare.runtimes.mpi.follower import attached, follow
from hogshare.runtimes.mpi.leader import REPORT, AssigningLeader, Leader, borrowed
from hogshare.runtimes.mpi.replicated_fit import make_on_every_rank
from hogshare.runtimes.mpi.sequence import RankMissing, sequence_of
from hogshare.runtimes.mpi.shard_union import alike, united, whole
from hogshare.runtimes.mpi.site_call import call_across_sites
from hogshare.system import callers, missed_calls, ranges

ROWS = ("shard", "all")
NOTHING_SAID: Mapping[str, str] = MappingProxyType({})
PRESENT, GIVEN, AGREED, COUNTED = "present", "given", "agreed", "counted"


@dataclass(frozen=True)
class MPI(Joint):
    """The ranks of an MPI job as one run, each of them with workers of its own.

    Every rank makes the same call, and each gets the same report. `n_workers` (`n_jobs` for an
    estimator) is the number of workers of each rank: a run on four ranks with two workers each has
    eight workers. Start a job with ``mpiexec -n 4 python -m mpi4py script.py``. With one rank, or
    without a launcher, the run is an ordinary run, and the report says so.

    Rank 0 leads: it evaluates the model, writes checkpoints, and calls `on_epoch`; its random seed
    is used if none is given. If one rank raises an error in a call, all ranks raise it.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm, default=None
        The ranks. If None, they are all ranks of the job. The runtime uses a copy of the
        communicator, which separates its messages from yours.
    rows : {"shard", "all"}, default="shard"
        The rows in a rank's problem. With "shard", each rank has rows of its own; the whole problem
        concatenates them in the order of the ranks. With "all", every rank has all rows; the call
        checks that the rows are the same on every rank. If ranks share memory, a custom problem
        needs "all".
    arena : bool, default=True
        Whether ranks of the same machine share the memory of a run. If False, or if the ranks run
        on several machines, each rank has a vector of its own; see the notes.
    link : Link, default=None
        A `hogshare.simulation.Link` that is emulated between ranks without shared memory, in
        addition to the real link. It delays messages. Its units are seconds and bytes.
    start_timeout : float, default=60.0
        Seconds that a call waits for all ranks to make it.
    survive : bool, default=False
        Whether a run on ranks without shared memory continues when a rank dies, without the rows of
        the dead rank; see the notes. This needs a suitable MPI, which `hogshare doctor` checks.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range, or of a wrong type.

    Notes
    -----
    Ranks of the same machine share the memory of the run, as processes do. The workers of all ranks
    claim blocks in one order, and every plane and barrier works as with processes. With
    ``rows="all"``, ``BSP()`` and a seed, a run has the same bits as a run with the same number of
    threads or processes.

    Ranks without shared memory (on several machines, or with ``arena=False``) exchange messages;
    the workers of a rank are threads. On `Shared()` each rank has a vector. At intervals of rows,
    the rank sends the vector's changes to all other ranks, and adds the changes that they send. The
    weights of changes depend on the curvature. On `Master()` the workers of all ranks send their
    changes to the master, on rank 0. The master sends its versions to every rank. On `Replicas()`,
    `Mirrors()` and custom planes whose ``is_by_mail`` is True, ranks exchange the plane's messages;
    with ``rows="all"`` and a seed, a run on a repeatable plane has the same bits as a run with the
    same number of processes. Each epoch ends with an epoch barrier of all ranks. At this barrier,
    sums over the ranks decide on stops, checks, step sizes and `on_epoch` for all ranks.

    With ``rows="all"`` and ``BSP()``, ranks without shared memory run in step, if workers have an
    order. Each rank then has the whole run in its memory, and each block's result is sent to all
    other ranks. Planes (except `Mirrors`), problems, rules, stops, checkpoints and bits are the
    same as in a run with the same number of threads. The following paragraphs describe all other
    runs.

    With ``rows="shard"`` rows stay on their rank; with "all" they are dealt to the workers of all
    ranks in rotation. On ranks without shared memory, `Shared()` is for linear problems; the other
    planes are for any problem. A gradient's means, its objective and its start use the rows of all
    ranks. A network needs rows of every class on each rank. Barriers use the progress of all
    workers, which arrives after their changes. A worker that starts, or begins an epoch, delays no
    other worker. An unsupported setting raises an error before any worker starts.
    ``report.traffic`` counts messages and bytes.

    On ranks without shared memory, every rank fits the estimator, in step with the other ranks, and
    calls `solve` together with them. With linear estimators, rows stay on their rank (see
    ``docs/guide/cluster.md``). With other estimators, all ranks get all rows.

    Once all ranks have begun a run with ``survive=True``, a killed rank does not end the run. The
    run no longer trains on the dead rank's rows, and losses, stops and objectives use the remaining
    rows.
    A `RuntimeWarning` and ``report.notes`` name the rank and its number of rows;
    ``report.settings["lost_ranks"]`` lists all dead ranks. Any rank may die, including rank 0; one
    rank must survive. This is for `solve` with `SGD`, `Adam` and custom rules that remember nothing
    about rows, on `Shared()`, `Replicas()` and `Mirrors()`, and not for runs in step. Any other run
    raises an error before a worker starts. An MPI or a launcher without support for this raises an
    error, too. No checkpoint is written after a death, so the last checkpoint still has the parts
    of all ranks. The next call needs a communicator without dead ranks: ``comm.Shrink()``.

    Ranks also communicate before and after a run; waiting ranks sleep.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import MPI, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y)
    >>> solve(problem, runtime=MPI(rows="all"), stop=3, seed=0)  # doctest: +SKIP
    <Report: 1 worker, 3 epochs, ... s, all epochs were done>
    """

    comm: Any = field(default=None, repr=False)
    rows: str = "shard"
    arena: bool = True
    link: Link | None = None
    start_timeout: float = 60.0
    survive: bool = False

    name = "mpi"

    def __post_init__(self) -> None:
        if self.rows not in ROWS:
            raise ValueError(f"rows must be 'shard' or 'all'; got {self.rows!r}.")
        ranges.flag(arena=self.arena, survive=self.survive)
        if self.link is not None and not isinstance(self.link, Link):
            raise TypeError(
                f"link must be a hogshare.simulation.Link, such as Link(latency=0.01); got an "
                f"object of type {type(self.link).__name__}."
            )
        if not ranges.is_number(self.start_timeout) or not 0 < self.start_timeout < math.inf:
            raise ValueError(
                f"start_timeout must be a number of seconds, above 0; got {self.start_timeout!r}."
            )

    def __deepcopy__(self, memo: Any) -> MPI:
        # the runtime is immutable, and a communicator cannot be copied
        return self

    @missed_calls.counted
    def make(self, making: Callable[[], Making]) -> Any:
        """Make a call of `solve` together with the other ranks; return its report.

        All ranks must call this.

        Raises
        ------
        RankMissing
            If a rank does not make the same call within `start_timeout` seconds.
        RanksDiffer
            If ranks were called with different arguments.
        """
        comm = self._ranks
        if comm.Get_size() == 1:
            return _alone(making())
        with sequence_of(comm).next(self.start_timeout) as call:
            self._meet(call)
            call.begin()
            report = self._made(call, making())
            call.end()
            return report

    def _made(self, call: Call, making: Making) -> Any:
        problem = agreement.of_problem(making.problem, whole=self.rows == "all")
        ranks = self._settle(call, "solve", making.said(), making.n_workers, problem)
        if self.survive:
            survivors.require(is_shared=not ranks.separation)
        if ranks.separation:
            return call_across_sites(call, ranks, making, self.rows, self.link, self.survive)
        if self.rows == "shard":
            making = united(call, ranks, making)
        if call.talk.rank != ranks.leader:
            return follow(call, ranks, functools.partial(attached, making.parts()))
        call.is_for_all = True
        report = making.by(Leader(call, ranks), ranks.n_workers)
        call.post_all(REPORT, report)
        return report

    def place(self) -> tuple[int, int]:
        """Return the calling rank, and the number of ranks."""
        comm = self._ranks
        return comm.Get_rank(), comm.Get_size()

    @missed_calls.counted
    def lead(self, making: Callable[[], Led]) -> Any:
        """Make a fit with the workers and the data of all ranks; return its result.

        All ranks must call this. If the ranks share memory, rank 0 makes the fit; otherwise every
        rank makes it, in step with the other ranks.

        Raises
        ------
        RankMissing
            If a rank does not make the same call within `start_timeout` seconds.
        RanksDiffer
            If ranks were called with different arguments.
        """
        comm = self._ranks
        if comm.Get_size() == 1:
            led = making()
            runtime = "caller" if usable_workers(led.n_workers) == 1 else "threads"
            shard = led.shard(0, 1)
            made = led.made(runtime, led.n_workers, [shard.facts], shard.arrays)
            return led.take(led.received(made))
        with sequence_of(comm).next(self.start_timeout) as call:
            self._meet(call)
            call.begin()
            led = making()
            received = led.received(self._led(call, led))
            call.end()
            return led.take(received)

    def _led(self, call: Call, led: Led) -> Any:
        ranks = self._settle(call, led.what, led.said(), led.n_workers)
        if self.survive:
            raise survivors.refuse("an estimator")
        if ranks.separation:
            return make_on_every_rank(call, ranks, led, self.rows, self.link)
        gathered = whole if self.rows == "shard" else alike
        facts, arrays = gathered(call, ranks, led.shard(call.talk.rank, call.talk.size))
        if call.talk.rank != ranks.leader:
            return follow(call, ranks, borrowed)
        call.is_for_all = True
        made = led.made(AssigningLeader(call, ranks), ranks.n_workers, facts, arrays)
        call.post_all(REPORT, made)
        return made

    @missed_calls.counted
    def hold(self, what: str) -> Call | None:
        """Begin a call that lasts until all ranks end it; return it, or None if there is one rank.

        All ranks must call this. The caller owns the call: it works in blocks of ``with call:``. An
        exception in a block ends the call on all ranks; leaving a block without one ends nothing.

        what : the call's name, the same on all ranks

        Raises
        ------
        RankMissing
            If a rank does not make the same call within `start_timeout` seconds.
        RanksDiffer
            If ranks have different versions of a package.
        """
        comm = self._ranks
        if comm.Get_size() == 1:
            return None
        with sequence_of(comm).next(self.start_timeout) as call:
            self._meet(call)
            self._agree(call, {**_place(what), **agreement.versions()}, None)
            if self.survive:
                raise survivors.refuse(what)
        return call

    @property
    def _ranks(self) -> Any:
        return library().COMM_WORLD if self.comm is None else self.comm

    def _meet(self, call: Call) -> None:
        """Wait for all ranks to make the call; raise RankMissing after `start_timeout` seconds."""
        call.post_all(PRESENT)
        deadline = time.monotonic() + self.start_timeout
        for rank in call.talk.others:
            if call.take(rank, PRESENT, seconds=max(0.0, deadline - time.monotonic())) is None:
                raise RankMissing(
                    f"Rank {rank} has not made the call that rank {call.talk.rank} waits in for "
                    f"{self.start_timeout:g} seconds: make the same calls on all ranks, or wait "
                    "longer with MPI(start_timeout=...)."
                )

    def _settle(
        self,
        call: Call,
        what: str,
        said: Mapping[str, Any],
        n_workers: int | None,
        problem: Mapping[str, str] = NOTHING_SAID,
    ) -> rank_seats.MachineRanks:
        """Check that all ranks make the same call; return the ranks with their workers.

        All ranks must call this. Raises RanksDiffer if the calls differ.
        """
        words = _place(what) | {name: agreement.described(value) for name, value in said.items()}
        words |= agreement.versions()
        words |= {"rows of MPI": self.rows, "arena of MPI": str(self.arena), **problem}
        words |= {"survive of MPI": str(self.survive)}
        seats = self._agree(call, words, own := rank_seats.seat(n_workers))
        rank_exit.know(one.process for one in seats if one.memory == own.memory)
        counted = call.gather(COUNTED, rank_seats.workers_of(seats, call.talk.rank))
        return rank_seats.machine_of(seats, call.spread(COUNTED, counted), self.arena)

    def _agree(self, call: Call, words: Mapping[str, str], mine: Any) -> list[Any]:
        """Check that all ranks pass the same `words`; return each rank's `mine`, by rank.

        All ranks must call this. Raises RanksDiffer if the words differ.
        """
        given = call.gather(GIVEN, (words, mine))
        if given is not None and (sentence := agreement.difference([one for one, _ in given])):
            raise agreement.RanksDiffer(sentence)
        brought = None if given is None else [one for _, one in given]
        everything: list[Any] = call.spread(AGREED, brought)
        return everything


def _place(what: str) -> dict[str, str]:
    """Return the call's name, and the place of the user's line that makes the call."""
    return {agreement.CALL: what, agreement.LINE: callers.users_place()}


def _alone(making: Making) -> Any:
    """Return the report of the ordinary run, for one rank."""
    count = usable_workers(making.n_workers)
    report = making.by("caller" if count == 1 else "threads", making.n_workers)
    report.notes.append(
        f"runtime: {report.runtime}, because there is one MPI rank; start several by "
        "mpiexec -n 4 python -m mpi4py script.py"
    )
    return report
