"""Machines without shared memory that exchange messages in one run, each with its own workers.

Every machine has a session over its own rows, as in a run on one machine. A `Level` connects the
sessions. A level has one vector for each machine (`vector_level`), one master (`master_level`), or
the homes of one plane (`homes_level`). After each epoch, a machine's workers pause until all
machines have ended the epoch. Then all machines make the same decisions on epochs, step sizes and
stops.

Writers: (1) each rank's calling thread, which communicates with other ranks, as the level
describes; (2) the worker threads, as `hogshare.engine.session` describes. Freeing: `close`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hogshare.engine.arrays import NOTHING, Shapes, private_memory
from hogshare.engine.choices import Choices
from hogshare.engine.convergence_checks import AtPause
from hogshare.engine.description import block_pace
from hogshare.engine.linear_description import row_numbers, row_pace
from hogshare.engine.session import Session
from hogshare.engine.world import World
from hogshare.kernels import layout
from hogshare.links.run_links import Network
from hogshare.optimum.held_out_scores import HeldOut
from hogshare.problems.gradient import GradientProblem, Whole
from hogshare.problems.linear.part import (
    Sizes,
    dealt,
    is_dealt,
    part_of,
    picked,
    sizes_of,
    together,
)
from hogshare.problems.protocol import Problem, by_gradient, has_rows
from hogshare.runtimes.events import Bell
from hogshare.runtimes.hooks import EpochHook, OnEpoch
from hogshare.runtimes.mpi import channel, survivors
from hogshare.runtimes.mpi.homes_level import HomesLevel
from hogshare.runtimes.mpi.level import Level
from hogshare.runtimes.mpi.machine_epochs import Asked, MachineEpochs
from hogshare.runtimes.mpi.master_level import MasterLevel
from hogshare.runtimes.mpi.rank_pool import RankPool
from hogshare.runtimes.mpi.site_files import SiteFiles, identity_of_all
from hogshare.runtimes.mpi.site_pace import SitePace, in_rounds, need_rounds, site_pace
from hogshare.runtimes.mpi.survivors import Survivors
from hogshare.runtimes.mpi.vector_level import VectorLevel
from hogshare.runtimes.protocol import Outcome, Runtime
from hogshare.runtimes.threads import ThreadCrew
from hogshare.system.interrupts import DeferredSignals

ONE = "the ranks of one machine"
LOCK_FREE = "writes are lock-free within a rank; between ranks what has changed is exchanged"


class Machines(Runtime):
    """The runtime of machines that exchange messages; each machine is one rank.

    pool : one rank for each machine
    sites : the number of workers of each rank
    rows : {"shard", "all"}, default="shard". With "shard", the problem of a rank contains rows of
        its own. With "all", it contains all rows, which are dealt to all workers in rotation.
    network : emulated links between the machines
    """

    name = "mpi"

    def __init__(
        self,
        pool: RankPool,
        sites: Sequence[int],
        rows: str = "shard",
        network: Network | None = None,
    ) -> None:
        self.rows, self.network, self.is_linked = rows, network or Network(), network is not None
        self.pool = pool
        self.world = World(tuple(sites), self.pool.me)
        self.level: Level | None = None
        self.pace: SitePace | None = None
        self.notes: list[str] = []
        self._is_running = False
        self._local_rows: tuple[np.ndarray, int] = np.zeros(0, np.int64), 0

    @property
    def survivors(self) -> Survivors | None:
        """The surviving ranks, if the run continues without dead ranks; None otherwise."""
        return self.pool if isinstance(self.pool, Survivors) else None

    @property
    def is_orderly(self) -> bool:
        """False: a site's workers begin as soon as the site has started."""
        return False

    # -- before

    def local_problem(self, problem: Problem) -> Problem:
        """Return the problem of this machine's rows, with the number and size of all rows.

        All machines must call this. Raises ValueError if a machine has no rows.
        """
        if by_gradient(problem):
            return problem if self.rows == "all" else self._part_by_gradient(problem)
        own: Any = problem
        world = self.world
        if self.rows == "all":
            mine = dealt(own.n_rows, world.local_workers, world.n_workers)
            if not world.is_one:
                own = own.with_rows(picked(own.rows, mine))
        sizes = sizes_of(own)
        found = self.pool.gathered(np.array([*sizes, *_shape(problem)]))
        n = len(sizes)
        for rank, other in enumerate(found):
            if other[0] < 1:
                raise ValueError(
                    f"rank {rank} has no rows: on separate machines each rank needs some."
                )
            if (other[n:] != found[0, n:]).any():
                (features, columns), (first, most) = other[n : n + 2], found[0, n : n + 2]
                raise ValueError(
                    f"rank {rank} has {features:g} features and {columns:g} columns (one for each "
                    f"class, if more than two), rank 0 has {first:g} and {most:g}, or alpha, "
                    "l1_ratio, fit_intercept or dtype differ: give all ranks the same problem."
                )
        self.pool.rows = found[:, 0]
        whole = together([Sizes(int(one[0]), *one[1:n].tolist()) for one in found])
        stated = problem.identity
        if self.rows != "all":
            before = int(found[: self.pool.me, 0].sum())
            mine = np.arange(before, before + problem.n_rows)
            stated = functools.partial(identity_of_all, own, self.pool)
        self._local_rows = mine, whole.n_rows
        return part_of(own, whole, mine, stated, self._added)

    def _part_by_gradient(self, problem: GradientProblem) -> GradientProblem:
        """Return the problem with the same gradient for the local part of all rows."""
        found = self.pool.gathered(np.array([problem.n_rows]))
        self.pool.rows = found[:, 0]
        n_all, before = int(found[:, 0].sum()), int(found[: self.pool.me, 0].sum())
        self._local_rows = np.arange(before, before + problem.n_rows), n_all
        return problem.among(Whole(n_all, self._added))

    @property
    def files(self) -> SiteFiles:
        """The reader and writer of checkpoints, which all machines call together."""
        return SiteFiles(self.pool, self._gathered, self._local_rows, self.world.local_workers)

    def everywhere(self, n_workers: int) -> int:
        """Return the number of workers of all ranks."""
        return self.world.n_workers

    def settled(self, choices: Choices) -> Choices:
        """Return the choices with the numbers of machines and rows; raise ValueError if invalid."""
        self._check(choices)
        problem, world, far = choices.problem, self.world, None
        if has_rows(problem) or self.rows != "all":
            training = self.pool.gathered(np.array([choices.n_training]))[:, 0].astype(int)
            if training.min() < 1:
                raise ValueError(
                    f"Stop.validation marks all rows of rank {training.argmin()}: on separate "
                    "machines each rank needs some rows to train on."
                )
            self.pool.training = training
            n_far = int(training.sum()) - choices.n_training
        else:
            far = ~is_dealt(problem.n_rows, world.local_workers, world.n_workers)
            n_far = int(np.count_nonzero(far))
            if self.survivors is not None:
                found = self.pool.gathered(np.array([problem.n_rows - n_far]))
                self.pool.rows = self.pool.training = found[:, 0].astype(int)
        choices = dataclasses.replace(
            choices, world=world, n_far=n_far, far=far, iterate=1.0, orderly=False
        )
        self.n_rows, self.problem = choices.n_all, problem
        self.validation, self.trace = choices.stop.validation, choices.trace
        if choices.plane.has_homes:
            return self._with_homes(choices)
        if choices.plane.has_master:
            return choices
        vectors = 2 if choices.rule.remembers and not choices.rule.is_sum else 1
        if choices.plane.is_lock_free:
            self.notes.append(LOCK_FREE)
        size = vectors * problem.n_features * problem.n_columns
        if self.pool.gathered(np.array([need_rounds(choices, size)]))[0, 0]:
            choices = in_rounds(choices)
        self.pace = site_pace(choices, size)
        return choices

    def _check(self, choices: Choices) -> None:
        if self.survivors is not None:
            survivors.check(choices)
        plane, rule = choices.plane, choices.rule
        name, is_linear = type(plane).__name__, has_rows(choices.problem)
        lock_free = plane.is_lock_free or plane.is_direct
        n = self.world.n_workers
        for is_asked, what in (
            (
                not (is_linear or plane.has_homes or plane.has_master),
                f"a problem by a gradient on {name}",
            ),
            (plane.has_homes and not plane.is_by_mail, f"{name} with {plane.needs_memory}"),
            (bool(choices.record), "record=True"),
            (
                choices.trace > 1 and (plane.has_homes or plane.has_master),
                f"a trace of more than one snapshot an epoch on {name}, whose model is complete "
                f"only at an epoch's end (got trace={choices.trace}; use trace=1),",
            ),
            (
                self.is_linked and plane.edge_links(n) is not None,
                "MPI(link=...) and links= of a plane",
            ),
            (bool(rule.average) and lock_free, "an average of iterates on one vector"),
        ):
            if is_asked:
                raise ValueError(f"{what} needs {ONE}: separate machines do not support it.")

    def _with_homes(self, choices: Choices) -> Choices:
        """Return the choices for one plane on all machines, with blocks of the same length.

        All machines must call this. Raises ValueError if a group of workers is on several machines.
        """
        share = np.array([choices.n_training // choices.n_local])
        least = int(self.pool.gathered(share).min())
        choices = dataclasses.replace(choices, least_share=least)
        machine_of = self.world.site_of
        choices = dataclasses.replace(choices, plane=choices.plane.over_sites(machine_of))
        groups = choices.plane.groups(choices.n_workers)
        for group in range(0 if groups is None else groups.max() + 1):
            sites = machine_of[groups == group]
            if sites.min() < sites.max():
                raise ValueError(
                    f"group {group} has workers on ranks {sites.min()} and {sites.max()}, which "
                    "share no memory: put a group's workers on one rank."
                )
        if has_rows(choices.problem):
            rows = row_pace(choices, row_numbers(choices))[0].block_rows
        else:
            rows = block_pace(choices).block_rows
        agreed = int(self.pool.gathered(np.array([rows]))[0, 0])  # for the first machine's rows
        return dataclasses.replace(choices, home_rows=agreed)

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        assigned: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """Return memory of this process; copy assigned arrays, as all machines write them."""
        arrays = {**private_memory(shapes), **rows}
        for name, array in assigned.items():
            arrays[name][:] = array
        return arrays

    def prepare(self, session: Session) -> None:
        """Open the edges to the other machines, and make workers pause after each epoch."""
        self.due, self.asked = session.word(layout.LIMIT), Asked(session)
        self.plan = session.plan
        if session.word(layout.EPOCHS):
            self._take_own_sums(session)
        if session.homes is not None:
            # a link may be silent for half as long before the channel reports it
            session.patience_ns = round(2e9 * channel.SILENT_SECONDS)
            self.level = HomesLevel(self.pool, session, self.n_rows, self.network)
        elif session.has_master:
            self.level = MasterLevel(self.pool, session, self.n_rows, self.network)
        else:
            assert self.pace is not None
            self.level = VectorLevel(self.pool, session, self.pace, self.n_rows, self.network)
        if self.validation is not None:
            self._held_out, self._held_out_epoch = HeldOut(self.problem, self.validation), 0
            self.level.score = lambda: self._score(session)
        self.level.prepare()
        session.raise_limit(session.word(layout.EPOCHS) + 1)

    def _score(self, session: Session) -> np.ndarray:
        """Return each column's score on all survivors' held-out rows; survivors must call it."""
        assert self.validation is not None
        if len(self.pool.lost) > self._held_out_epoch:
            self._held_out_epoch = len(self.pool.lost)
            self._held_out = HeldOut(self.problem, self.validation)
        return self._held_out.scores(session.model())

    def _prepare_again(self, session: Session) -> None:
        """Open new edges for an ended run, which continues with each machine's data."""
        assert self.level is not None
        self.level.close()
        session.plan = self.plan
        self.prepare(session)

    def _take_own_sums(self, session: Session) -> None:
        """Replace a resumed run's sums by this machine's part; all parts add up to the sums."""
        local = session.locals()
        session.row_memory.sum_anew(session)
        if session.row_memory.checkpointed:
            local[:, layout.L_DUAL_MEAN] = session.arrays["dual_mean"]
        if self.pool.me > 0:  # the first machine has the sums of iterates
            session.arrays["lag"][:] = 0.0
            local[:, [layout.L_AVERAGE_COUNT, layout.L_AVERAGE_SCALE]] = 0.0
            local[:, layout.L_AVERAGE_INTERCEPT] = 0.0

    def counts_mail(self, session: Session) -> bool:
        """Return True: the channel counts mail between sites, and mail within one is not sent."""
        return True

    # -- the run

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run this machine's workers until all machines end the run."""
        if self.level is not None and self.level.is_over:
            self._prepare_again(session)
        level = self.level
        assert level is not None
        crew = ThreadCrew(session, session.local_workers, news := Bell())
        reported = session.word(layout.EPOCHS)
        with DeferredSignals(news) as signals:

            def notify(n_epochs: int) -> bool:
                nonlocal reported
                if on_epoch is None:
                    return False
                reported = n_epochs
                level.channel.pause()  # the caller may take long: others must not wait for messages
                return bool(signals.outside(on_epoch, n_epochs, session.snapshot))

            level.deliver = signals.deliver
            parts = checks, self.due, self.asked, self.problem
            at_epochs = MachineEpochs(level, notify, *parts)
            with EpochHook(session, None, at_epochs, crew.each, signals) as hook:
                try:
                    if self.survivors is not None:
                        self.survivors.begin()
                    level.begin(on_epoch is not None or checks is not None)
                    self._is_running = True
                    crew.start()
                    while crew.running:
                        moved = level.poll()
                        level.pool.watch()
                        hook.poll()
                        if not (moved and level.is_served):
                            crew.wait(level.nap)
                except BaseException:
                    session.stop(layout.STOPPED_BY_CALLER)
                    crew.join(crew.patience(signals))
                    raise
                crew.finish()
                level.end()
                self._is_running = False
                if self.survivors is not None:
                    self.survivors.is_over = True
                is_last = reported < (n_epochs := session.word(layout.EPOCHS))
                if is_last and session.word(layout.STOP) != layout.STOPPED_BY_DIVERGENCE:
                    notify(n_epochs)
        return Outcome([], traffic=level.channel.traffic.as_dict())

    def close(self) -> None:
        """Free the channel's resources."""
        if self.level is not None:
            self.level.close()
            self.level = None

    def facts(self) -> dict[str, Any]:
        """Return the number of machines, and each machine's number of rows between exchanges."""
        exchange = {} if self.pace is None else {"machine_exchange_rows": self.pace.rows}
        return {"machines": len(self.world.sites), **exchange}

    def _gathered(self, numbers: np.ndarray) -> np.ndarray:
        if not self._is_running:
            return self.pool.gathered(numbers)
        assert self.level is not None
        return self.level.gathered(numbers)

    def _added(self, numbers: np.ndarray) -> np.ndarray:
        found = self._gathered(numbers).sum(axis=0)
        if not self.pool.lost:
            return np.asarray(found)
        rows = self.pool.rows  # scaled: means over all rows become means over survivors' rows
        return np.asarray(found * (rows.sum() / np.delete(rows, self.pool.lost).sum()))


def _shape(problem: Any) -> tuple[float, ...]:
    """Return the numbers that must be equal on all machines."""
    return (
        float(problem.n_features),
        float(problem.n_columns),
        float(problem.alpha),
        float(problem.l1_ratio),
        float(problem.fit_intercept),
        float(problem.dtype.itemsize),
    )
