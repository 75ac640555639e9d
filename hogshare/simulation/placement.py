"""The place of the model and of the workers' clocks, and the barriers that it allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hogshare.barriers import ANY_NUMBER, Barrier, barrier_of, name_of, numbers_of
from hogshare.kernels.schedule import barrier_codes as codes
from hogshare.system.ranges import count, not_negative

PLACES = ("central", "distributed")
ASK_AND_ANSWER = 2  # messages of a question and its answer


@dataclass(frozen=True)
class Placement:
    """The places of the model and of the state; the state consists of the workers' clocks.

    ============= ============= ========================================================
    model         state         barriers
    ============= ============= ========================================================
    central       central       all: the server has the clocks, and draws the samples
    central       distributed   barriers that need no clocks, or a sample's clocks
    distributed   distributed   the same barriers
    distributed   central       none: this combination has no use
    ============= ============= ========================================================

    Parameters
    ----------
    model : {"central", "distributed"}, default="central"
        The place of the model: on a server, or at the workers.
    state : {"central", "distributed"}, default="central"
        The place of the clocks: on a server, or each at its worker.

    Raises
    ------
    ValueError
        If `model` or `state` is neither "central" nor "distributed".

    Notes
    -----
    Source: Wang, Catterall and Mortier 2017. Barriers that are not in the paper follow the same
    rule: `Fraction` with a sample asks a sample; `Throttled` and a user's function ask all workers.

    Examples
    --------
    >>> from hogshare import BSP, PBSP
    >>> from hogshare.simulation import Placement
    >>> nowhere = Placement(model="distributed", state="distributed")
    >>> nowhere.check(PBSP(10))
    >>> nowhere.messages(PBSP(10), hops=58)
    78.0
    >>> nowhere.check(BSP())
    Traceback (most recent call last):
        ...
    ValueError: BSP() needs everybody's clock, ...
    """

    model: str = "central"
    state: str = "central"

    def __post_init__(self) -> None:
        for name in ("model", "state"):
            value = getattr(self, name)
            if value not in PLACES:
                raise ValueError(f"{name} must be 'central' or 'distributed'; got {value!r}.")

    def check(self, barrier: Barrier, n_workers: int | None = None) -> None:
        """Refuse a barrier that this placement does not allow.

        Parameters
        ----------
        barrier : Barrier
        n_workers : int or None, default=None
            The number of workers, needed to detect a sample of all workers. If None, the number is
            assumed to be larger than any sample.

        Raises
        ------
        ValueError
            If the placement does not allow the barrier.
        TypeError
            If `barrier` is not a barrier.
        """
        barrier = barrier_of(barrier)
        numbers = _numbers(barrier, n_workers)
        if self.state == "central":
            if self.model == "distributed":
                raise ValueError(
                    "A distributed model with central state is of no use: every worker depends on "
                    "the server of the clocks, which could have the model as well. Use "
                    "model='central', or state='distributed'."
                )
            return
        if numbers["barrier"] == codes.FREE or _sampled(numbers):
            return
        needs = f"{name_of(barrier)} needs everybody's clock"
        if getattr(barrier, "sample", None) is not None:
            needs = f"{name_of(barrier)} samples everybody of {n_workers} workers"
        raise ValueError(
            f"{needs}, and with state='distributed' no worker has them all. Take a barrier that "
            "asks a sample, such as PBSP(10), PSSP(10, 4) or Fraction(0.9, sample=10), or ASP(); "
            "or use state='central'."
        )

    def messages(
        self, barrier: Barrier, n_workers: int | None = None, *, hops: float = 0.0
    ) -> float:
        """Return the number of control messages of one poll by a worker.

        Parameters
        ----------
        barrier : Barrier
        n_workers : int or None, default=None
            As in `check`.
        hops : float, default=0
            The number of hops to find the sample. With an `Overlay` it is the sum of `Drawn.hops`,
            or the mean of such sums. With a `Membership` it is 0. Ignored with central state.

        Returns
        -------
        float
            Number of messages. It is 0 if the barrier needs no clocks. With central state it is 2
            for any barrier: a question to the server and its answer. With distributed state it is 2
            for each worker of the sample, plus the hops.

        Raises
        ------
        ValueError
            If the placement does not allow the barrier, or `hops` is not a number of at least 0.
        TypeError
            If `barrier` is not a barrier.
        """
        barrier = barrier_of(barrier)
        self.check(barrier, n_workers)
        not_negative(hops=hops)
        numbers = _numbers(barrier, n_workers)
        if numbers["barrier"] == codes.FREE:
            return 0.0
        if self.state == "central":
            return float(ASK_AND_ANSWER)
        return float(ASK_AND_ANSWER * numbers["sample"] + hops)


def _numbers(barrier: Barrier, n_workers: int | None) -> dict[str, Any]:
    if n_workers is not None:
        count(1, n_workers=n_workers)
    return numbers_of(barrier, ANY_NUMBER if n_workers is None else n_workers)


def _sampled(numbers: dict[str, Any]) -> bool:
    return bool(numbers["barrier"] == codes.LAG and numbers["sample"] != codes.EVERYBODY)
