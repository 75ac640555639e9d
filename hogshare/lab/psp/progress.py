"""Simulate the progress of workers under a barrier, on a virtual clock and without a model.

Every worker computes blocks, whose times are drawn from a law (a distribution). At the end of a
block, the worker's clock advances, and the worker polls the barrier. A worker that may not pass
polls again every `poll` virtual seconds. Gradients and message times are not simulated.
`hogshare.lab.psp.kernels.clockwork` processes the events.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.barriers import Barrier, BuiltIn, barrier_of, name_of, numbers_of
from hogshare.kernels.schedule import barrier_codes as codes
from hogshare.lab.psp.kernels import clockwork as kernel
from hogshare.lab.psp.kernels import clockwork_state
from hogshare.simulation.block_times import BlockTime, Exponential, law_of, written
from hogshare.system.ranges import count, is_count, is_worker, not_negative, positive

EVENTS_AT_A_TIME = 1 << 20  # events per kernel call: Ctrl-C is handled between calls
IN_A_BUCKET = 32  # approximate ends of blocks in a bucket of the calendar
LEAST_POLL = 1e-9  # share of the simulated time: shorter intervals would be lost in rounding
KINDS = ("completed", "passed", "joined", "left")
TOTALS = (
    *("barrier", "law", "n_workers", "seconds", "mean", "sd", "spread", "mean_lead"),
    *("waiting_share", "updates", "checks", "polls", "passes", "control_messages"),
)


@dataclass(frozen=True, eq=False)
class Progress:
    """The result of a run of `progress`.

    Attributes
    ----------
    barrier, law : str
        The barrier and the law of block times, in their text form.
    n_workers : int
    seconds : float
        Virtual seconds of the run.
    clock : int64 array, shape (n_workers,)
        Each worker's clock at the end: its clock when it joined plus its completed blocks.
    waiting : float64 array, shape (n_workers,)
        Virtual seconds that each worker has waited.
    present : float64 array, shape (n_workers,)
        Virtual seconds of each worker between joining and leaving.
    updates : int
        Number of completed blocks, which are the updates at the server.
    checks : int
        Number of polls of the barrier.
    polls : int
        Number of polls that were not at the end of a block.
    passes : int
        Number of passes of the barrier.
    control_messages : int
        Number of requested clocks: one at each poll of a barrier without a sample, the sample's
        size at each poll of a barrier with a sample, and none with ASP.
    leads : int64 array
        ``leads[x]`` is the number of passes with a lead of x blocks over the least clock.
    times : float64 array
        Virtual seconds at which updates were counted.
    updates_by : int64 array, shape of `times`
        Number of updates until each of the times.
    events : list of (float, int, str) or None
        Virtual seconds, worker and kind of each event: completed, passed, joined or left. None if
        events were not recorded.
    """

    barrier: str
    law: str
    n_workers: int
    seconds: float
    clock: np.ndarray
    waiting: np.ndarray
    present: np.ndarray
    updates: int
    checks: int
    polls: int
    passes: int
    control_messages: int
    leads: np.ndarray
    times: np.ndarray
    updates_by: np.ndarray
    events: list[tuple[float, int, str]] | None = None

    @property
    def mean(self) -> float:
        """Mean clock over all workers."""
        return float(self.clock.mean())

    @property
    def sd(self) -> float:
        """Standard deviation of the clocks over workers."""
        return float(self.clock.std())

    @property
    def spread(self) -> int:
        """Largest clock minus the smallest."""
        return int(self.clock.max() - self.clock.min())

    @property
    def mean_lead(self) -> float:
        """Mean lead over the least clock at a pass; 0 without passes."""
        return float(self.leads @ np.arange(len(self.leads))) / max(1, self.passes)

    @property
    def waiting_share(self) -> float:
        """Share of the workers' time spent waiting."""
        return float(self.waiting.sum() / self.present.sum()) if self.present.any() else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: totals and means, without the arrays by worker."""
        values, counts = np.unique(self.clock, return_counts=True)
        return {
            **{name: getattr(self, name) for name in TOTALS},
            "clocks": {"clock": values.tolist(), "workers": counts.tolist()},
            "leads": self.leads.tolist(),
            "times": self.times.tolist(),
            "updates_by": self.updates_by.tolist(),
        }


def slow(n_workers: int, share: float, factor: float, seed: int = 0) -> np.ndarray:
    """Make factors that slow some workers down.

    Parameters
    ----------
    n_workers : int
    share : float
        Share of slow workers, between 0 and 1, rounded to whole workers.
    factor : float
        Factor by which a slow worker's block times are multiplied.
    seed : int, default=0
        Seed of the choice of slow workers.

    Returns
    -------
    float64 array, shape (n_workers,)
        A factor for each worker, for `progress`.

    Examples
    --------
    >>> from hogshare.simulation import slow
    >>> sorted(slow(5, share=0.4, factor=4.0).tolist())
    [1.0, 1.0, 1.0, 4.0, 4.0]
    """
    count(1, n_workers=n_workers)
    count(0, seed=seed)
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share must be between 0 and 1; got {share!r}.")
    positive(factor=factor)
    factors = np.ones(n_workers)
    chosen = np.random.default_rng(seed).permutation(n_workers)[: round(share * n_workers)]
    factors[chosen] = factor
    return factors


def progress(
    barrier: Barrier,
    n_workers: int,
    *,
    block_time: BlockTime | None = None,
    seconds: float | None = None,
    blocks: int | None = None,
    poll: float | None = 0.05,
    slowness: Sequence[float] | np.ndarray | None = None,
    seed: int = 0,
    joins: Mapping[int, float] | None = None,
    leaves: Mapping[int, float] | None = None,
    times: Sequence[float] = (),
    events: bool = False,
) -> Progress:
    """Simulate workers under a barrier, and count their completed blocks and waiting times.

    Parameters
    ----------
    barrier : ASP, BSP, SSP, PBSP, PSSP, Fraction or Throttled
        The same predicates as in `hogshare.solve`. If the sample has as many workers as the run or
        more, all clocks are compared, without a sample.
    n_workers : int
        Number of workers, up to millions. PSP's papers call them nodes.
    block_time : law of `hogshare.simulation`, default=None
        Law of the block times; None is ``Exponential(1.0)``.
    seconds : float, default=None
        Virtual seconds after which the run ends. Give either `seconds` or `blocks`.
    blocks : int, default=None
        Clock at which a worker is done and leaves the barrier's world. The run ends when all
        workers are done.
    poll : float or None, default=0.05
        Virtual seconds after which a worker that may not pass polls again. With None or 0 a worker
        passes as soon as the barrier allows; barriers that draw a sample at every poll refuse this.
    slowness : array-like of float, shape (n_workers,), default=None
        Factors by which the workers' block times are multiplied; see `slow`. None: all are 1.
    seed : int, default=0
        Seed of all draws, below 2**32. The same seed gives the same run, bit for bit.
    joins : mapping of int to float, default=None
        Virtual seconds at which some workers join; all others are present from the start. A joining
        worker starts with the least clock of the others.
    leaves : mapping of int to float, default=None
        Virtual seconds at which some workers leave or die. The block that such a worker computes is
        lost.
    times : sequence of float, default=()
        Virtual seconds, ascending, at which updates are counted.
    events : bool, default=False
        Whether to record all events, which takes memory.

    Returns
    -------
    Progress

    Raises
    ------
    ValueError, TypeError
        If a setting is not valid, or the run would never end.

    Notes
    -----
    Events at the same moment are processed in order: first workers that leave or join, then ends of
    blocks by worker, then polls. Blocks of time 0 end before the other events of their moment. A
    block time depends only on the seed, the worker and the block. A sample depends only on the
    seed, the worker, its clock and the number of its poll.

    A joining worker does not change fixed samples; a leaving worker is removed from them. (Workers
    of `hogshare.solve` draw a new sample in both cases.)

    Source: the simulations of Wang, Catterall and Mortier 2017. The paper specifies neither the law
    of its block times nor when a worker polls again; see ``docs/psp.md``.

    Examples
    --------
    >>> from hogshare import BSP, PBSP
    >>> from hogshare.simulation import Constant, progress
    >>> progress(BSP(), 100, block_time=Constant(1.0), blocks=5, poll=None).seconds
    5.0
    >>> run = progress(PBSP(4), 100, seconds=20.0)
    >>> 10 < run.mean < 20, run.spread < 15
    (True, True)
    """
    law = Exponential(1.0) if block_time is None else law_of(block_time)
    barrier = barrier_of(barrier)
    plan = _plan(barrier, n_workers)
    factors = _slowness(slowness, n_workers)
    _check(law, seconds, blocks, poll, seed, plan, factors)
    assert isinstance(seed, int)
    marks = _marks(times)
    changes = _changes(joins, leaves, n_workers)
    barrier_seed = int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])
    code, a, b, trace = law.numbers()
    rate = float(np.sum(1.0 / factors)) / law.mean if law.mean > 0.0 else math.inf
    setting = clockwork_state.ClockworkSettings(
        **plan,
        code=code,
        a=a,
        b=b,
        seed=seed,
        barrier_seed=barrier_seed,
        poll=0.0 if poll is None else float(poll),
        until=math.inf if seconds is None else float(seconds),
        blocks=-1 if blocks is None else blocks,
        width=IN_A_BUCKET / rate if rate < math.inf else 1.0,
    )
    world = _world(setting, n_workers, factors, trace, changes, marks, events)
    world, recorded = _run(setting, world)
    end = float(np.max(world.joined + world.present)) if seconds is None else float(seconds)
    kernel.finish(setting, world, end)
    return _progress(barrier, law, setting, world, end, recorded)


def _plan(barrier: Barrier, n_workers: int) -> dict[str, Any]:
    """Return the fields of `ClockworkSettings` that describe a built-in barrier."""
    if not isinstance(barrier, BuiltIn):
        raise TypeError(
            f"the barrier {name_of(barrier)} is a function: progress studies are for built-in "
            "barriers, whose predicates are compiled. solve(..., runtime=Simulator()) takes "
            "functions."
        )
    count(1, n_workers=n_workers)
    return numbers_of(barrier, n_workers)


def _slowness(slowness: Any, n_workers: int) -> np.ndarray:
    if slowness is None:
        return np.ones(n_workers)
    factors = np.array(slowness, dtype=np.float64)
    if factors.shape != (n_workers,):
        raise ValueError(
            f"slowness must have one factor for each of the {n_workers} workers; got shape "
            f"{factors.shape}."
        )
    if not (np.isfinite(factors).all() and (factors > 0.0).all()):
        raise ValueError("every factor of slowness must be a positive finite number.")
    return factors


def _check(
    law: Any,
    seconds: Any,
    blocks: Any,
    poll: Any,
    seed: Any,
    plan: dict[str, Any],
    factors: np.ndarray,
) -> None:
    """Refuse settings that are not valid, or a run that would never end."""
    if (seconds is None) == (blocks is None):
        given = "neither" if seconds is None else "both"
        raise ValueError(f"give either seconds or blocks, by which the run ends; got {given}.")
    if not is_count(seed) or not 0 <= seed < 2**32:
        raise ValueError(f"seed must be a whole number from 0 to {2**32 - 1}; got {seed!r}.")
    if seconds is not None:
        positive(seconds=seconds)
        span = float(seconds)
        if law.mean == 0.0:
            raise ValueError(
                f"with {law!r} no time ever passes, and a run of {seconds!r} virtual seconds would "
                "never end; give blocks instead."
            )
    else:
        count(1, blocks=blocks)
        span = blocks * law.mean * float(factors.max())
    if poll is None or poll == 0.0:
        is_fixed = plan["reuses"] == 1 and plan["share"] == 1.0
        if plan["barrier"] == codes.LAG and plan["sample"] != codes.EVERYBODY and not is_fixed:
            raise ValueError(
                f"this barrier draws a sample at every poll: poll must be the virtual seconds "
                f"between polls, such as 0.05; got {poll!r}."
            )
        return
    positive(poll=poll)
    if poll < LEAST_POLL * span:
        raise ValueError(
            f"poll must not be below {LEAST_POLL:g} of the simulated time; got {poll!r}."
        )


def _marks(times: Sequence[float]) -> np.ndarray:
    for time in times:
        not_negative(**{"every one of times": time})
    marks = np.array(times, dtype=np.float64)
    if (np.diff(marks) < 0.0).any():
        raise ValueError("times must be ascending.")
    return marks


def _changes(
    joins: Mapping[int, float] | None, leaves: Mapping[int, float] | None, n_workers: int
) -> list[tuple[float, int, int]]:
    """Return the joins and leaves as (seconds, kind, worker), in ascending order."""
    joins, leaves, changes = joins or {}, leaves or {}, []
    for name, given, kind in (
        ("joins", joins, clockwork_state.JOINED),
        ("leaves", leaves, clockwork_state.LEFT),
    ):
        for worker, time in given.items():
            if not is_worker(worker, n_workers):
                raise ValueError(
                    f"{name} names worker {worker!r}, and there are {n_workers}: 0 to "
                    f"{n_workers - 1}."
                )
            not_negative(**{f"{name}[{worker}]": time})
            changes.append((float(time), kind, worker))
    for worker in joins.keys() & leaves.keys():
        if not joins[worker] < leaves[worker]:
            raise ValueError(
                f"worker {worker} must join before it leaves; got {joins[worker]!r} and "
                f"{leaves[worker]!r}."
            )
    return sorted(changes)


def _world(
    setting: clockwork_state.ClockworkSettings,
    n: int,
    factors: np.ndarray,
    trace: np.ndarray,
    changes: list[tuple[float, int, int]],
    marks: np.ndarray,
    events: bool,
) -> clockwork_state.ClockworkState:
    """Make the arrays of a run at time 0."""
    sampled = setting.barrier == codes.LAG and setting.sample != codes.EVERYBODY
    is_fixed = sampled and setting.reuses == 1
    watching = is_fixed and setting.share == 1.0
    n_ring = n if sampled and not watching else 0
    n_fixed = n if is_fixed else 0
    n_sample = setting.sample if is_fixed else 0
    n_watched = n if watching else 0
    n_record = 4 * n + 1024 if events else 0
    n_buckets = 1 << max(4, (n // 4).bit_length())
    whole = _lines(n)
    real = whole.view(np.float64)
    whole[:, clockwork_state.STATE] = clockwork_state.COMPUTING
    whole[:, clockwork_state.LINK] = -1
    real[:, clockwork_state.SLOWNESS] = factors
    for _, kind, worker in changes:
        if kind == clockwork_state.JOINED:
            whole[worker, clockwork_state.STATE] = clockwork_state.ABSENT
    return clockwork_state.ClockworkState(
        whole=whole,
        real=real,
        joined=np.zeros(n),
        present=np.zeros(n),
        trace=np.array(trace),  # writeable for every law, so kernels compile for one type
        bucket=np.full(n_buckets, -1, np.int64),
        heap_due=np.empty(n + 1),
        heap_rank=np.empty(n + 1, np.int64),
        ring_due=np.empty(n_ring),
        ring_worker=np.empty(n_ring, np.int32),
        ring_clock=np.empty(n_ring, np.int32),
        ring_stream=np.empty(n_ring, np.uint32),
        members=np.empty(n_fixed, np.int64),
        place=np.empty(n_fixed, np.int64),
        fixed=np.empty((n_fixed, n_sample), np.int32),
        watcher=np.full(n_watched, -1, np.int64),
        swaps=np.empty(n_sample + 1, np.int64),
        at_least=np.zeros(64, np.int64),
        first=np.full(64, -1, np.int64),
        last=np.full(64, -1, np.int64),
        leads=np.zeros(64, np.int64),
        chance=np.zeros((64, 2)),
        chance_near=np.full((64, 3), -1, np.int64),
        change_time=np.array([time for time, _, _ in changes], dtype=np.float64),
        change_worker=np.array([worker for _, _, worker in changes], dtype=np.int64),
        change_kind=np.array([kind for _, kind, _ in changes], dtype=np.int64),
        marks=marks,
        marked=np.zeros(len(marks), np.int64),
        record_time=np.empty(n_record),
        record_worker=np.empty(n_record, np.int64),
        record_kind=np.empty(n_record, np.int64),
        words=np.zeros(clockwork_state.N_WORDS, np.int64),
    )


def _lines(n: int) -> np.ndarray:
    """Allocate zeros, int64 of shape (n, N_FIELDS), whose rows are aligned to cache lines."""
    size = 8 * clockwork_state.N_FIELDS
    memory = np.zeros((n + 1) * size, np.uint8)  # one line more, for the shift
    begin = -memory.ctypes.data % size
    return memory[begin : begin + n * size].view(np.int64).reshape(n, clockwork_state.N_FIELDS)


def _run(
    setting: clockwork_state.ClockworkSettings, world: clockwork_state.ClockworkState
) -> tuple[clockwork_state.ClockworkState, list[tuple[float, int, str]]]:
    """Process events until the run is over; return the final arrays and the recorded events.

    When the kernel requests it, arrays are replaced by longer ones.
    """
    recorded: list[tuple[float, int, str]] = []
    kernel.start(setting, world)
    why = kernel.PAUSED
    while why != kernel.OVER:
        why, _ = kernel.run(setting, world, EVENTS_AT_A_TIME)
        if why == kernel.SMALL:
            world = _longer(world)
        elif why in (kernel.FULL, kernel.OVER):
            _drain(world, recorded)
    return world, recorded


def _longer(world: clockwork_state.ClockworkState) -> clockwork_state.ClockworkState:
    """Return a state whose arrays that are indexed by clock are copies of twice the length."""
    longer = {}
    for name in ("at_least", "first", "last", "leads", "chance", "chance_near"):
        old = getattr(world, name)
        filler = -1 if name in ("first", "last", "chance_near") else 0
        longer[name] = np.concatenate([old, np.full_like(old, filler)])
    return world._replace(**longer)


def _drain(world: clockwork_state.ClockworkState, recorded: list[tuple[float, int, str]]) -> None:
    used = int(world.words[clockwork_state.RECORDED])
    times, workers, kinds = (
        column[:used].tolist()
        for column in (world.record_time, world.record_worker, world.record_kind)
    )
    recorded += zip(times, workers, (KINDS[kind] for kind in kinds), strict=True)
    world.words[clockwork_state.RECORDED] = 0


def _progress(
    barrier: Barrier,
    law: BlockTime,
    setting: clockwork_state.ClockworkSettings,
    world: clockwork_state.ClockworkState,
    end: float,
    recorded: list[tuple[float, int, str]],
) -> Progress:
    words = world.words
    checks = int(words[clockwork_state.CHECKS])
    sampled = setting.barrier == codes.LAG and setting.sample != codes.EVERYBODY
    central = 0 if setting.barrier == codes.FREE else checks
    used = np.flatnonzero(world.leads)
    ends = int(words[clockwork_state.UPDATES]) - _done(setting, world)
    return Progress(
        barrier=name_of(barrier),
        law=written(law),
        n_workers=len(world.whole),
        seconds=end,
        clock=world.whole[:, clockwork_state.CLOCK].copy(),
        waiting=world.real[:, clockwork_state.WAITED].copy(),
        present=world.present,
        updates=int(words[clockwork_state.UPDATES]),
        checks=checks,
        polls=checks - ends,
        passes=int(words[clockwork_state.PASSES]),
        control_messages=int(words[clockwork_state.CONTROL]) if sampled else central,
        leads=world.leads[: used[-1] + 1 if len(used) else 0].copy(),
        times=world.marks,
        updates_by=world.marked,
        events=recorded if len(world.record_time) else None,
    )


def _done(setting: clockwork_state.ClockworkSettings, world: clockwork_state.ClockworkState) -> int:
    """Count the workers that have done all their blocks; they do not poll after the last block."""
    return (
        0
        if setting.blocks < 0
        else int((world.whole[:, clockwork_state.CLOCK] == setting.blocks).sum())
    )
