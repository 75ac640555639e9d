"""The lag of workers that poll samples: its law by PSP's Theorem 2, its moments and their bounds.

A law is a probability distribution. Source: Wang, Catterall and Mortier, "Probabilistic synchronous
parallel", arXiv 1709.07772, 2017, Theorem 2. The law is derived from the text of the proof. The
bounds (54) and (55) are as printed in the authors' later book chapter, where S is the alpha of the
law. Departure: (55) bounds the *second moment*, which the paper calls variance.

    p(s) = alpha f(s)        for s <= r
    p(s) = alpha a^(s - r)   for r < s <= T,     a = F(r)^beta

r is the staleness, beta the size of the sample, T the number of blocks, f the law of the lag
without a barrier, and F its cumulative distribution. A lag s above r needs s - r consecutive polls
that let a worker pass. One poll lets it pass with probability a: all beta workers of the sample
must be within r.

Proof of the bounds: the tail sums of the law are below the infinite sums, and each f(s) is below 1.
For the moments of the *law* this needs only 0 < a < 1 and T >= r; a minimum number of steps is not
required. The printed form divides a sum of T + 1 terms by T. Its left sides may therefore exceed
the bounds by up to a factor of (T + 1) / T if the lag at step 0 is not 0; in a run it is 0.

The cost of a mean lag is the paper's equation (13): the average regret of P workers has the form
``c / sqrt(T)`` plus ``4 P sigma L^2`` times the mean lag. Only this form is known, because the sign
of a constant in the paper's equation (8) is doubtful. This file therefore has no function for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.lab.bounds.constants import documented
from hogshare.system.interrupts import errstate
from hogshare.system.ranges import count, share

FIGURE_SAMPLES = tuple(range(1, 101))  # beta in the paper's figures 4 and 5
FIGURE_WITHIN = (0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
SHARED = """
Parameters
----------
lags : array-like of shape (n_lags,)
    f: probabilities of lags of 0, 1, 2, ... blocks without a barrier; their sum is 1. Of those
    above the staleness only the sum is used.
within : float
    F(r), the probability of a lag of at most r: share of the workers within the staleness.
    At 1, or with a sample of 0, the bound is infinite; 0 is refused, unless the sample is 0.
run : SamplingRun
    Numbers of the barrier and the run.

Raises
------
ValueError
    If `lags` is not a law, `within` is no share, or the lag has no law: no worker is within the
    staleness (``F(r) = 0``), and no poll of a sample passes.
"""


@dataclass(frozen=True, kw_only=True)
class SamplingRun:
    """The numbers of a run under a sampling barrier in Theorem 2.

    Parameters
    ----------
    sample : int
        Number beta of workers whose clocks a poll reads. With 0, a is 1, and the law is flat above
        the staleness, as if all workers were always within it (``F(r) = 1``).
    staleness : int
        Number r of blocks that a worker may be ahead of its sample.
    n_blocks : int
        Number T of blocks of the run, at least r; it is the largest possible lag.

    Raises
    ------
    ValueError
        If a number is not a whole number of at least 0, or T is below r.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.SamplingRun(sample=1, staleness=0, n_blocks=2)
    SamplingRun(sample=1, staleness=0, n_blocks=2)
    """

    sample: int
    staleness: int
    n_blocks: int

    def __post_init__(self) -> None:
        count(0, sample=self.sample, staleness=self.staleness, n_blocks=self.n_blocks)
        if self.n_blocks < self.staleness:
            raise ValueError(
                f"n_blocks must be at least the staleness, {self.staleness}; got "
                f"{self.n_blocks!r}. In a shorter run no worker can exceed the staleness."
            )


def psp_pass_chance(within: float, sample: int) -> float:
    """Compute the probability a that a poll lets a worker pass: ``F(r)^beta``.

    Parameters
    ----------
    within : float
        Share F(r) of the workers within the staleness.
    sample : int
        Size beta of the sample; with 0 no clock is read, and every worker passes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If `within` is not a share, or `sample` is not a whole number of at least 0.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.psp_pass_chance(0.5, sample=3)
    0.125
    """
    count(0, sample=sample)
    share(within=within)
    return float(within**sample)


@documented(SHARED)
def psp_lag_law(lags: Any, run: SamplingRun) -> np.ndarray:
    """Compute the law p of Theorem 2: the lag of workers that poll samples.

    Returns
    -------
    ndarray of shape (n_blocks + 1,), float64
        Probabilities of lags of 0 to T blocks; their sum is 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> run = theory.SamplingRun(sample=1, staleness=0, n_blocks=2)
    >>> theory.psp_lag_law([0.5, 0.25, 0.25], run).tolist()
    [0.4, 0.4, 0.2]
    """
    f, within = _law(lags, run.staleness)
    alpha, log_a, _ = _scale(within, run)
    p = np.zeros(run.n_blocks + 1)
    near = min(run.staleness + 1, len(f))
    p[:near] = alpha * f[:near]
    with errstate(under="ignore"):
        beyond = np.arange(1, run.n_blocks - run.staleness + 1)
        p[run.staleness + 1 :] = alpha * np.exp(log_a * beyond)
    return p


@documented(SHARED)
def psp_mean(lags: Any, run: SamplingRun) -> float:
    """Compute the exact mean of the lag under the law of Theorem 2.

    Returns
    -------
    float
        Mean in blocks. If a = 1, the mean grows like ``T / 2``, and no bound exists.

    Notes
    -----
    The closed forms of the sums ``sum_j j^k a^j`` lose up to all digits as a tends to 1. The sums
    are therefore computed by doubling: each of log2(T) steps doubles the number of terms, which are
    all positive. a = 1 is not a special case.

    Examples
    --------
    >>> from hogshare import theory
    >>> run = theory.SamplingRun(sample=1, staleness=0, n_blocks=2)
    >>> theory.psp_mean([0.5, 0.25, 0.25], run)
    0.8
    """
    return _moments(lags, run)[0]


@documented(SHARED)
def psp_second_moment(lags: Any, run: SamplingRun) -> float:
    """Compute the exact second moment of the lag under the law of Theorem 2.

    Returns
    -------
    float
        Mean of the squared lag, in squared blocks. The variance is this number minus the square of
        `psp_mean`.

    Examples
    --------
    >>> from hogshare import theory
    >>> run = theory.SamplingRun(sample=1, staleness=0, n_blocks=2)
    >>> round(theory.psp_second_moment([0.5, 0.25, 0.25], run), 12)
    1.2
    """
    return _moments(lags, run)[1]


@documented(SHARED)
def psp_mean_bound(within: float, run: SamplingRun) -> float:
    """Compute the upper bound (54) of the mean lag, whatever the law f within the staleness.

    It is ``S (r (r + 1) / 2 + a (r + 2) / (1 - a)^2)``, where S is
    ``1 / (F(r) + a + ... + a^(T - r))``.

    Returns
    -------
    float
        Bound in blocks; infinity if a = 1. For a small F(r) the bound *rises* with the sample, to
        ``r (r + 1) / (2 F(r))``, although the mean itself does not rise.

    Examples
    --------
    >>> from hogshare import theory
    >>> run = theory.SamplingRun(sample=5, staleness=4, n_blocks=10_000)
    >>> round(theory.psp_mean_bound(0.9, run), 2)
    13.29
    """
    scale, a, complement = _bounded(within, run)
    if complement == 0.0:
        return math.inf
    r = float(run.staleness)
    return scale * (r * (r + 1.0) / 2.0 + a * (r + 2.0) / complement**2)


@documented(SHARED)
def psp_second_moment_bound(within: float, run: SamplingRun) -> float:
    """Compute the upper bound (55) of the lag's second moment, which the paper calls variance.

    It is ``S (r (r + 1) (2 r + 1) / 6 + a (r^2 + 4) / (1 - a)^3)``, with S as in `psp_mean_bound`.

    Returns
    -------
    float
        Bound in squared blocks; infinity if a = 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> run = theory.SamplingRun(sample=5, staleness=4, n_blocks=10_000)
    >>> round(theory.psp_second_moment_bound(0.9, run), 2)
    86.24
    """
    scale, a, complement = _bounded(within, run)
    if complement == 0.0:
        return math.inf
    r = float(run.staleness)
    near = r * (r + 1.0) * (2.0 * r + 1.0) / 6.0
    return scale * (near + a * (r**2 + 4.0) / complement**3)


def psp_bound_curves(
    within: Sequence[float] = FIGURE_WITHIN,
    samples: Sequence[int] = FIGURE_SAMPLES,
    staleness: int = 4,
    n_blocks: int = 10_000,
) -> dict[str, Any]:
    """Compute both bounds by sample size, for several F(r): the paper's figures 4 and 5.

    Parameters
    ----------
    within : sequence of float, default=(0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
        Values of F(r), one curve for each.
    samples : sequence of int, default=1 to 100
        Sample sizes beta, the points of a curve.
    staleness : int, default=4
        Staleness r, as in `SamplingRun`.
    n_blocks : int, default=10000
        Number of blocks T, as in `SamplingRun`.

    Returns
    -------
    dict
        Plain data. "staleness", "n_blocks", "samples" and "within" are the arguments. "mean_bound"
        (54) and "second_moment_bound" (55) have a list for each F(r), with a bound for each sample.

    Raises
    ------
    ValueError
        As in `psp_mean_bound`.

    Examples
    --------
    >>> from hogshare import theory
    >>> curves = theory.psp_bound_curves(within=(0.5, 0.9), samples=(1, 5))
    >>> [[round(y, 2) for y in curve] for curve in curves["mean_bound"]]
    [[14.67, 19.16], [55.56, 13.29]]
    """
    runs = [SamplingRun(sample=beta, staleness=staleness, n_blocks=n_blocks) for beta in samples]

    def curves(bound: Any) -> list[list[float]]:
        return [[bound(F, run) for run in runs] for F in within]

    return {
        "staleness": staleness,
        "n_blocks": n_blocks,
        "samples": list(samples),
        "within": list(within),
        "mean_bound": curves(psp_mean_bound),
        "second_moment_bound": curves(psp_second_moment_bound),
    }


def _log_chance(within: float, sample: int) -> float:
    """Return log(a); in logarithms, powers of a number near 1 lose no digits."""
    share(within=within)
    if sample == 0:
        return 0.0
    return sample * math.log(float(within)) if within > 0.0 else -math.inf


def _law(lags: Any, staleness: int) -> tuple[np.ndarray, float]:
    """Return the law as an array, and F(r)."""
    f = np.asarray(lags)
    if f.ndim != 1 or f.dtype.kind not in "iuf" or not (np.isfinite(f).all() and (f >= 0).all()):
        raise ValueError("lags must be a list of probabilities, each finite and at least 0.")
    f = f.astype(np.float64)
    if abs((total := math.fsum(f)) - 1.0) > 1e-9:
        raise ValueError(f"lags must sum to 1, as probabilities do; their sum is {total:.10g}.")
    near, far = f[: staleness + 1], f[staleness + 1 :]
    # without lags beyond r, F(r) is exactly 1 in spite of rounding
    return f, min(1.0, math.fsum(near)) if far.any() else 1.0


def _scale(within: float, run: SamplingRun) -> tuple[float, float, tuple[float, float, float]]:
    """Return alpha, log(a), and the sums over j = 1..T - r of a^j, j a^j and j^2 a^j."""
    log_a = _log_chance(within, run.sample)
    sums = _geometric(log_a, run.n_blocks - run.staleness)
    if within + sums[0] == 0.0:
        raise ValueError(
            f"There is no law: no worker is within a staleness of {run.staleness} (F(r) = 0), so "
            "no poll of a sample lets a worker pass. Use a larger staleness, or sample=0 "
            "(ASP)."
        )
    return 1.0 / (within + sums[0]), log_a, sums


def _geometric(log_a: float, m: int) -> tuple[float, float, float]:
    """Sum ``a^j``, ``j a^j`` and ``j^2 a^j`` over j = 1..m, by the bits of m from the highest.

    The sum of n terms becomes the sum of 2 n terms by
    ``sum_(j = n + 1..2 n) g(j) = a^n sum_(i = 1..n) g(n + i)``, and the sum of n + 1 terms by
    adding one term. Nothing is subtracted, so no digits are lost for any a.
    """
    zeroth = first = second = 0.0
    n = 0
    for bit in f"{m:b}":
        if n:
            factor = math.exp(n * log_a)
            # from the highest moment down: each uses the old values of the lower ones
            second += factor * (second + 2.0 * n * first + float(n) ** 2 * zeroth)
            first += factor * (first + n * zeroth)
            zeroth += factor * zeroth
            n *= 2
        if bit == "1":
            n += 1
            term = math.exp(n * log_a)
            zeroth, first, second = zeroth + term, first + n * term, second + float(n) ** 2 * term
    return zeroth, first, second


def _moments(lags: Any, run: SamplingRun) -> tuple[float, float]:
    f, within = _law(lags, run.staleness)
    alpha, _, (zeroth, first, second) = _scale(within, run)
    near = f[: run.staleness + 1]
    s = np.arange(len(near), dtype=np.float64)
    r = float(run.staleness)
    mean = float(s @ near) + r * zeroth + first
    return alpha * mean, alpha * (float(s**2 @ near) + r**2 * zeroth + 2.0 * r * first + second)


def _bounded(within: float, run: SamplingRun) -> tuple[float, float, float]:
    """Return S, a and 1 - a of the bounds."""
    scale, log_a, _ = _scale(within, run)
    return scale, math.exp(log_a), -math.expm1(log_a)
