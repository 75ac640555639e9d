"""The settings of a run on a virtual clock: block times, links, joins and leaves, polls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from hogshare.barriers import POLLS_PER_BLOCK, Barrier, numbers_of
from hogshare.links.run_links import Network
from hogshare.simulation.block_times import BlockTime, Exponential, law_of
from hogshare.simulation.churn import Churn
from hogshare.simulation.overlay import Overlay
from hogshare.simulation.placement import ASK_AND_ANSWER, Placement
from hogshare.system.deprecations import renamed
from hogshare.system.ranges import LONGEST, numbers, positive, seconds, store_whole

if TYPE_CHECKING:
    from hogshare.problems.model import Model

HOPS_DRAWS = 1000  # draws for the estimate of a draw's mean hops


class SimulationError(RuntimeError):
    """A simulated run cannot go on, because it has no further event."""


def _factors(slowness: Any, mean: float) -> tuple[float, ...]:
    """Return each worker's factor of blocks of `mean` virtual seconds, as plain data."""
    factors = numbers(slowness=slowness)
    for factor in factors:
        positive(**{"every entry of slowness": factor})
    if max(factors, default=1.0) * mean > LONGEST:
        raise ValueError(
            f"slowness makes blocks of {mean:g} virtual seconds longer than {LONGEST:g}, by a "
            f"factor of {max(factors):g}: use a larger unit of time."
        )
    return factors


@renamed(cost_of_look="cost_of_poll")
@dataclass(frozen=True, kw_only=True, eq=False)
class Simulator:
    """Run workers one after another on a virtual clock: a runtime of `hogshare.solve`.

    Workers run the same loop on the same kernels as in threads and processes, with real gradients;
    only time is modelled. A run may have a thousand workers. Runs with the same seeds are equal bit
    for bit.

    A block is computed from one reading of the model. It takes::

        model to the worker + read_seconds + block time * slowness + write_seconds + update back

    plus the straggler's sleep with ``solve(stragglers=...)``. The worker reads the model at the
    start of the block, and its update is in the model at the end of the block. On the lock-free
    vector (``Shared(exchange=None)``), the worker reads the model in `parts` parts at different
    moments of the seconds of reading, and writes its update in the same way. Other workers may
    write between these moments. On this vector, a block is one mini-batch of the rule by default.
    With private copies, a worker exchanges its copy at the end of a block, and by default a block
    is as long as the interval between exchanges. ``solve(block=...)`` overrides both defaults. A
    resumed run starts its clock at 0, and draws the same times.

    Parameters
    ----------
    block_time : BlockTime or str, default=Exponential(1.0)
        Distribution of the virtual seconds of computing in a block. A str contains its name and
        parameters as on the command line, such as "lognormal:1.0,0.5".
    slowness : sequence of float or None, default=None
        For each worker, a factor of its block times. If None, all factors are 1.
    seconds : float or None, default=None
        The latest end of the run, in virtual seconds. If None, only `Stop` ends the run.
    poll : float or None, default=None
        Virtual seconds between two polls of a worker that waits at a barrier. With 0, the worker
        passes at the first moment at which it may. If None, `poll` is 0 for most barriers. But if a
        poll can change the barrier's answer (your function, or a barrier that draws a new sample at
        each poll), it is a twentieth of the mean block time. If `poll` is above 0, `BSP` does not
        preserve the order of workers. Such a run can be repeated, but differs from other runtimes'
        runs.
    network : Network, default=Network()
        Links between workers and the model; by default messages take no time.
    read_seconds, write_seconds : float, default=0.0
        Virtual seconds of reading the model, and of writing a change to it. A master takes
        `write_seconds` for each message, one message after another.
    parts : int, default=8
        Number of moments of reading a model, and of writing an update, on the lock-free vector. It
        is 1 if reading and writing take no time.
    churn : Churn, default=Churn()
        Workers that join late, leave or die.
    placement : Placement, default=Placement()
        The place of workers' clocks, which determines the allowed barriers and a poll's control
        messages. With central state, the clocks are with the model. With distributed state, each
        worker has its clock and is asked for it over the network's `link`. The answer takes the
        link's time, and contains the clocks at the time of the question.
    overlay : Overlay or None, default=None
        The overlay by which a worker finds its sample with distributed state; the hops take
        messages and time, too. If None, all workers know each other.
    watch : callable or None, default=None
        ``watch(seconds, model)`` is called with the current model every `watch_seconds` of the
        virtual clock, beginning at 0.
    watch_seconds : float, default=1.0
        Virtual seconds between two calls of `watch`.
    seed : int, default=0
        Seed for block times. (The seed of ``solve`` is for the row order and barriers' samples.)

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import SSP, Simulator, Stop, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y)
    >>> run = {"barrier": SSP(2), "runtime": Simulator(), "n_workers": 40, "block": 8, "seed": 0}
    >>> report = solve(problem, stop=Stop(epochs=5), **run)
    >>> report.seconds["virtual"] == solve(problem, stop=Stop(epochs=5), **run).seconds["virtual"]
    True
    """

    block_time: BlockTime = field(default_factory=Exponential)
    slowness: Sequence[float] | None = None
    seconds: float | None = None
    poll: float | None = None
    network: Network = field(default_factory=Network)
    read_seconds: float = 0.0
    write_seconds: float = 0.0
    parts: int = 8
    churn: Churn = field(default_factory=Churn)
    placement: Placement = field(default_factory=Placement)
    overlay: Overlay | None = None
    watch: Callable[[float, Model], None] | None = None
    watch_seconds: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "block_time", law_of(self.block_time))
        if self.block_time.mean > LONGEST:
            raise ValueError(
                f"block_time has blocks of {self.block_time.mean:g} virtual seconds, too long for "
                "a clock that counts nanoseconds: use a larger unit of time, in which the mean is "
                f"at most {LONGEST:g}."
            )
        if self.slowness is not None:
            object.__setattr__(self, "slowness", _factors(self.slowness, self.block_time.mean))
        if self.seconds is not None:
            positive(seconds=self.seconds)
        if self.poll is not None:
            seconds(poll=self.poll)
        positive(watch_seconds=self.watch_seconds)
        if self.watch is not None and not callable(self.watch):
            raise TypeError(f"watch must be a function (seconds, model); got {self.watch!r}.")
        seconds(read_seconds=self.read_seconds, write_seconds=self.write_seconds)
        store_whole(1, self, "parts")
        store_whole(0, self, "seed")
        if self.seed >= 2**32:  # the limit of `block_time_draws`
            raise ValueError(f"seed must be below 2**32; got {self.seed!r}.")
        kinds: dict[str, type] = {"network": Network, "churn": Churn, "placement": Placement}
        if self.overlay is not None:
            kinds["overlay"] = Overlay
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"{name} must be a {kind.__name__}; got {getattr(self, name)!r}.")
        if self.placement.model != "central":
            raise ValueError(
                "the planes Shared and Master have the model in one place: use "
                "Placement(model='central')."
            )
        if self.overlay is not None and self.placement.state == "central":
            raise ValueError(
                "overlay is for distributed state, because central state needs no search for a "
                "sample: remove overlay, or use Placement(state='distributed')."
            )

    def check(self, barrier: Barrier, n_workers: int) -> None:
        """Refuse settings that do not fit the barrier or the number of workers.

        Raises
        ------
        ValueError
            If a setting does not fit.
        """
        self.placement.check(barrier, n_workers)
        if self.overlay is not None and self.overlay.n_workers != n_workers:
            raise ValueError(
                f"the overlay has {self.overlay.n_workers} workers, but the run has {n_workers}: "
                f"use Overlay({n_workers})."
            )
        if self.slowness is not None and len(self.slowness) != n_workers:
            raise ValueError(
                f"slowness has {len(self.slowness)} entries, but the run has {n_workers} workers: "
                "give a factor for each."
            )
        self.network.check(n_workers)
        self.churn.check(n_workers)

    @property
    def is_orderly(self) -> bool:
        """Whether BSP may preserve the order of workers, as in threads and processes.

        This needs two conditions: (1) all workers are in the run from start to end; (2) `poll` lets
        workers pass at the first moment, so no worker polls at times of its own.
        """
        return not self.churn and not self.poll

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data for a report, without `watch`; objects become text."""
        names = [entry.name for entry in fields(self) if entry.name != "watch"]
        known = {name: getattr(self, name) for name in names}
        known["overlay"] = None if self.overlay is None else f"{self.overlay.n_workers} workers"
        return {
            name: value if value is None or isinstance(value, (int, float)) else repr(value)
            for name, value in known.items()
        }

    def parts_of(self, lock_free: bool) -> int:
        """Return the number of moments of reading the lock-free vector; 0 on other planes."""
        if not lock_free:
            return 0
        return self.parts if self.read_seconds or self.write_seconds else 1

    def cost_of_poll(self, barrier: Barrier, n_workers: int) -> tuple[int, float]:
        """Return a barrier poll's number of messages, and virtual seconds until its answer."""
        sample = numbers_of(barrier, n_workers)["sample"]
        per_draw = 0.0
        if self.overlay is not None:
            # a separate copy: draws from the user's overlay would change the next run
            overlay = Overlay(self.overlay.identifiers, bits=self.overlay.bits, seed=self.seed)
            hops = overlay.draw(HOPS_DRAWS, me=int(overlay.workers[0])).hops
            per_draw = float(np.mean(hops))
        routed = per_draw * max(0, sample)
        messages = self.placement.messages(barrier, n_workers, hops=routed)
        seconds = 0.0
        if messages and self.placement.state == "distributed":
            # all workers of a sample are searched in parallel
            seconds = (per_draw + ASK_AND_ANSWER) * self.network.link.latency
        return round(messages), seconds

    def poll_seconds(self, barrier: str, must_poll: bool, late: float = 0.0) -> float:
        """Return the seconds between two polls of a waiting worker; 0 if it passes when it may.

        Parameters
        ----------
        barrier : str
            The barrier's name.
        must_poll : bool
            Whether a poll can change the barrier's answer: the barrier draws a new sample at each
            poll, or is a user's function.
        late : float, default=0.0
            Seconds that stragglers add to every block.

        Raises
        ------
        ValueError
            If the barrier must poll, and `poll` is 0. Also if the barrier must poll, `poll` is
            None, and blocks take no time.
        """
        if self.poll == 0.0 and must_poll:
            raise ValueError(
                f"poll=0 lets a worker pass at the first moment it may, but the answer of "
                f"{barrier} changes from poll to poll: set poll to the seconds between two polls."
            )
        if self.poll is not None:
            return float(self.poll)
        mean = self.block_time.mean + late
        if must_poll and mean == 0.0:
            raise ValueError(
                f"the answer of {barrier} changes from poll to poll, and the default of poll is a "
                "share of the block time, which is 0: set poll to the seconds between two polls."
            )
        return mean / POLLS_PER_BLOCK if must_poll else 0.0
