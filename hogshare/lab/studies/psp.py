"""The figures of Wang, Catterall and Mortier 2017 (PSP), on a virtual clock.

`figure` makes one. What it returns is one dictionary of plain data, which is also the JSON output:

    figure, title, kind, settings, notes,
    series   a list; each has a law and a barrier, and points
    axes     what x and y are

A point has x (None where a series is one point) and, over seeds, steps (mean clock), sd, spread,
updates, control_messages and waiting_share, each as mean, low and high: the mean and its 95 %
interval by Student's t, cut off at 0 (None with one seed, or where the mean is
infinite). By kind of figure there is more: `clocks` (how many
workers are where, all seeds together), `over_time` (updates at the server), `ratio`.

Figures 4 and 5 are theory, whose `series` are curves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hogshare.lab.psp.series import (
    FACTORS,
    MEASURED,
    PARTS,
    POLL,
    SAMPLES,
    SHARES,
    Advance,
    Result,
)
from hogshare.simulation.blocktimes import parse, written
from hogshare.system.ranges import count, positive

# the paper does not print its law: the usual guess, one with short times, one with long ones
LAWS = ("exponential:1", "uniform:0.5,1.5", "gamma:1,0.6")
POLL_WITH_STRAGGLERS = 0.2


def figure(
    name: str,
    *,
    n_workers: int = 1000,
    seconds: float = 40.0,
    laws: Sequence[str] | None = None,
    poll: float | None = None,
    seeds: int = 5,
    seed: int = 0,
    advance: Advance | None = None,
) -> Result:
    """Make a figure of the paper.

    Parameters
    ----------
    name : {"1a", "1b", "1c", "1e", "2a", "2c", "3", "4", "5"}
    n_workers : int, default=1000
        At least 101: a sample is one in a hundred, and at least ten of them in figure 3's smallest.
    seconds : float, default=40.0
        Virtual seconds of a run.
    laws : sequence of str, default=None
        Laws of block time as `hogshare.simulation.blocktimes.parse` reads them. None: exponential
        with mean 1, and in figures 1a and 1e beside it uniform from 0.5 to 1.5 and gamma with shape
        0.6.
    poll : float, default=None
        Virtual seconds after which who may not pass polls again. None: 0.05, in figures 2a and 2c
        0.2.
    seeds : int, default=5
        Runs of each setting.
    seed : int, default=0
        The first one's.
    advance : callable, default=None
        Told what comes next before each setting.

    Returns
    -------
    dict
        See the head of this file. For figures 4 and 5 only the name counts.

    Raises
    ------
    ValueError
        If there is no such figure, or a setting has no meaning.

    Examples
    --------
    >>> from hogshare.lab.studies.psp import figure
    >>> result = figure("1c", n_workers=200, seconds=5.0, seeds=1)
    >>> [series["barrier"] for series in result["series"]][:3]
    ['pbsp:0', 'pbsp:1', 'pbsp:2']
    """
    if name not in FIGURES:
        raise ValueError(f"there is no figure {name!r}; choose from {', '.join(FIGURES)}.")
    count(101, n_workers=n_workers)
    count(1, seeds=seeds)
    count(0, seed=seed)
    positive(seconds=seconds)
    if poll is None:
        poll = POLL_WITH_STRAGGLERS if name in ("2a", "2c") else POLL
    if laws is None:
        laws = default_laws(name)
    settings = {
        "n_workers": n_workers,
        "seconds": float(seconds),
        "laws": [written(parse(law)) for law in laws],
        "poll": poll,
        "seeds": seeds,
        "seed": seed,
    }
    result = FIGURES[name](settings, advance or (lambda what: None))
    return {"figure": name, "settings": settings if name not in ("4", "5") else {}, **result}


def default_laws(name: str) -> tuple[str, ...]:
    """Return the laws of block time of a figure, if none are asked for."""
    return LAWS if name in ("1a", "1e") else LAWS[:1]


def settings_of(name: str, laws: int) -> int:
    """How many times `figure` calls `advance`, with that many laws."""
    return laws * {
        "1a": 5,
        "1b": 5,
        "1c": len(SAMPLES),
        "1e": 5,
        "2a": 5 * len(SHARES),
        "2c": 5 * len(FACTORS),
        "3": 5 * len(PARTS),
    }.get(name, 0)


def bound_of(name: str, title: str) -> Callable[[Result, Advance], Result]:
    """Figures 4 and 5: the bounds of Theorem 2 against the sample."""

    def make(settings: Result, advance: Advance) -> Result:
        from hogshare.lab.bounds import psp_bound_curves

        curves = psp_bound_curves()
        return {
            "title": title,
            "kind": "bounds",
            "axes": {"x": "sample", "y": title.lower()},
            "series": [
                {"within": within, "samples": curves["samples"], "bound": bound}
                for within, bound in zip(curves["within"], curves[name], strict=True)
            ],
            "notes": [
                f"Staleness {curves['staleness']}, {curves['n_blocks']:,} blocks; F(r) is the "
                "chance that a worker's lag is within the staleness."
            ],
        }

    return make


FIGURES: dict[str, Callable[[Result, Advance], Result]] = {
    **MEASURED,
    "4": bound_of("mean_bound", "Bound (54) of the mean lag"),
    "5": bound_of("second_moment_bound", "Bound (55) of the lag's second moment"),
}
