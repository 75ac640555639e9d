"""Draws of block times: their laws, and that nothing but seed, worker and block decides them."""

import math
import pickle

import numpy as np
import pytest
from scipy import stats

from hogshare.kernels.jit.decorators import JIT_DISABLED, exact_kernel
from hogshare.kernels.schedule import block_time_draws as codes
from hogshare.simulation import Constant, Exponential, Gamma, LogNormal, Measured, Uniform
from hogshare.simulation.block_times import law_of, parse, written

DRAWS = 2_000 if JIT_DISABLED else 40_000
TRACE = [0.5, 1.0, 1.0, 4.0]

# a law, and the same as SciPy has it
LAWS = {
    "exponential": (Exponential(2.0), stats.expon(scale=2.0)),
    "lognormal": (LogNormal(3.0, 0.5), stats.lognorm(0.5, scale=3.0 * math.exp(-0.125))),
    "gamma": (Gamma(2.0, 4.0), stats.gamma(4.0, scale=0.5)),
    "gamma below 1": (Gamma(2.0, 0.5), stats.gamma(0.5, scale=4.0)),
    "uniform": (Uniform(0.5, 1.5), stats.uniform(0.5, 1.0)),
}


@exact_kernel
def fill(code, a, b, trace, seed, workers, blocks, out):
    for i in range(out.shape[0]):
        out[i] = codes.block_seconds(code, a, b, trace, seed, workers[i], blocks[i])


def drawn(law, seed, workers, blocks):
    out = np.empty(len(workers))
    fill(*law.numbers(), seed, np.asarray(workers), np.asarray(blocks), out)
    return out


def grid(per_worker):
    """Many blocks of few workers, or few of many."""
    workers, blocks = np.divmod(np.arange(DRAWS), per_worker)
    return workers, blocks


@pytest.mark.parametrize("per_worker", [1, 40, DRAWS])
@pytest.mark.parametrize("name", LAWS)
def test_the_law_is_what_its_name_says(name, per_worker):
    law, truth = LAWS[name]
    for seed in (0, 1, 2**32 - 1):
        sample = drawn(law, seed, *grid(per_worker))
        assert stats.kstest(sample, truth.cdf).pvalue > 1e-4
        assert abs(sample.mean() - law.mean) < 4.5 * truth.std() / math.sqrt(DRAWS)
    assert law.mean == pytest.approx(truth.mean())


def test_a_measured_trace_is_drawn_from_evenly():
    law = Measured(TRACE)
    assert law.mean == np.mean(TRACE)
    sample = drawn(law, 3, *grid(40))
    counts = [(sample == value).sum() for value in (0.5, 1.0, 4.0)]
    assert sum(counts) == DRAWS
    assert stats.chisquare(counts, DRAWS * np.array([0.25, 0.5, 0.25])).pvalue > 1e-4


def test_a_constant_is_constant():
    assert Constant(0.25).mean == 0.25
    assert set(drawn(Constant(0.25), 0, *grid(40))) == {0.25}
    assert set(drawn(Uniform(2.0, 2.0), 0, *grid(40))) == {2.0}
    assert np.allclose(drawn(LogNormal(2.0, 0.0), 0, *grid(40)), 2.0)


@pytest.mark.parametrize("name", LAWS)
def test_python_draws_what_kernels_draw_in_any_order(name):
    law, _ = LAWS[name]
    rng = np.random.default_rng(0)
    workers, blocks = rng.integers(0, 10**6, 200), rng.integers(0, 10**6, 200)
    want = drawn(law, 7, workers, blocks)
    order = rng.permutation(200)
    assert np.array_equal(drawn(law, 7, workers[order], blocks[order]), want[order])
    assert [law.draw(7, int(k), int(b)) for k, b in zip(workers, blocks, strict=True)] == list(want)
    assert pickle.loads(pickle.dumps(law)).draw(7, 1, 2) == law.draw(7, 1, 2)


@pytest.mark.parametrize("name", LAWS)
def test_the_compiled_form_rounds_as_the_plain_one(name):
    """On a virtual clock one bit may turn two events round."""
    law, _ = LAWS[name]

    def plain(*arguments):
        state = codes.block_state(*arguments)
        u = float(codes.fraction(state))
        if isinstance(law, Exponential):
            return -law.mean * math.log(u)
        if isinstance(law, Uniform):
            return law.low + (law.high - law.low) * u
        if isinstance(law, LogNormal):
            two_on = codes.next_random(codes.next_random(state))
            z = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * two_on / 2**32)
            return law.mean * math.exp(law.sigma * z - 0.5 * law.sigma * law.sigma)
        function = getattr(codes.block_seconds, "py_func", codes.block_seconds)
        return float(function(*law.numbers(), *arguments))

    for block in range(200):
        assert law.draw(5, 3, block) == plain(5, 3, block)


def test_neighbours_are_unrelated():
    """In seed, worker and block: also what is drawn after one another."""
    n = int(math.sqrt(DRAWS))
    worker, block = (a.ravel() for a in np.indices((n, n)))
    here = drawn(Uniform(0.0, 1.0), 1, worker, block)
    for seed, w, b in ((2, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1), (2, 1, 0), (2, 0, 1)):
        there = drawn(Uniform(0.0, 1.0), seed, worker + w, block + b)
        assert abs(stats.pearsonr(here, there).statistic) < 4.5 / n
        cells, _, _ = np.histogram2d(here, there, bins=8, range=[[0, 1], [0, 1]])
        assert stats.chisquare(cells.ravel()).pvalue > 1e-4


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Constant(-1.0), "seconds must be a finite number, at least 0"),
        (lambda: Constant(math.nan), "seconds must be"),
        (lambda: Constant("1"), "seconds must be"),
        (lambda: Exponential(0.0), "mean must be a positive finite number"),
        (lambda: Exponential(math.inf), "mean must be"),
        (lambda: LogNormal(1.0, -0.5), "sigma must be"),
        (lambda: Gamma(1.0, 0.0), "shape must be"),
        (lambda: Uniform(-0.5, 1.0), "low must be"),
        (lambda: Uniform(1.5, 0.5), "low must not be above high"),
        (lambda: Measured([]), "at least one entry"),
        (lambda: Measured([0.5, -0.5]), "every entry of seconds"),
        (lambda: parse("weibull:1"), "no law is named 'weibull'"),
        (lambda: parse("uniform:1"), "is not a law of block times"),
        (lambda: parse("exponential:one"), "is not a law of block times"),
        (lambda: parse("gamma:1,0"), "shape must be"),
    ],
)
def test_numbers_without_a_meaning(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_what_is_no_law():
    assert law_of(Exponential()) == law_of("exponential") == Exponential()
    with pytest.raises(TypeError, match="Exponential"):
        law_of(Exponential)
    with pytest.raises(TypeError, match=r"got 1\.0"):
        law_of(1.0)


@pytest.mark.parametrize(
    "text", ["constant:1", "exponential:0.5", "lognormal:1,0.5", "gamma:1,2", "uniform:0.5,1.5"]
)
def test_laws_on_a_command_line(text):
    law = parse(text)
    assert written(law) == text
    assert parse(f" {text.upper()} ") == law
    assert written(Measured([1.0, 2.0])) == "measured (mean 1.5 s)"
