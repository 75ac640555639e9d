"""Steps of several features at once against steps of one."""

import cases
import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import SAGA, problems
from hogshare.kernels.jit.decorators import BOUNDSCHECK, JIT_DISABLED, kernel
from hogshare.kernels.rules.saga_steps import saga_move, single_step
from hogshare.kernels.rules.simd import PLAIN

if not PLAIN:
    from hogshare.kernels.rules.simd import move_four, move_two

    @kernel
    def together(w, average, rarity, indices, data, k, numbers, width):
        """Move `width` features."""
        step, reach, share, change, l2 = numbers
        if width == 4:
            move_four(w, average, rarity, indices, data, k, step, reach, share, change, l2)
        else:
            move_two(w, average, rarity, indices, data, k, step, reach, share, change, l2)


@kernel
def one_by_one(w, average, rarity, indices, data, k, numbers, width):
    """The same by `saga_move`."""
    step, reach, share, change, l2 = numbers
    pull, push = reach / step * change, share * change
    for place in range(k, k + width):
        j = indices[place]
        x = np.float64(data[place])
        old = average[j]
        rare = np.float64(rarity[j])
        w[j] = saga_move(np.float64(w[j]), pull * x, old, step, rare, l2, 0.0)
        average[j] = old + push * x


@pytest.mark.skipif(PLAIN, reason="not used where the JIT is off or indices are checked")
@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.uint32, np.uint64])
def test_several_features_move_as_one_does(width, kind, index):
    rng = np.random.default_rng(0)
    m, first = 40, 3  # a row begins anywhere, on no border of a vector's
    indices = rng.permutation(m).astype(index)
    data = rng.normal(size=m).astype(kind)
    rarity = rng.uniform(1.0, 1e4, m).astype(np.float32)
    w, average = rng.normal(size=m).astype(kind), rng.normal(size=m)
    numbers = 0.3, 0.7, 0.01, -0.1, 1e-3
    expected = w.copy(), average.copy()
    got = w.copy(), average.copy()
    one_by_one(*expected, rarity, indices, data, np.uint64(first), numbers, np.uint64(width))
    together(*got, rarity, indices, data, np.uint64(first), numbers, width)
    moved = indices[first : first + width]
    assert (got[0][moved] != w[moved]).all()
    np.testing.assert_allclose(got[0], expected[0], rtol=4 * np.finfo(kind).eps)
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-15)
    others = np.setdiff1d(np.arange(m), moved)
    assert (got[0][others] == w[others]).all()
    assert (got[1][others] == average[others]).all()


def test_it_is_used_wherever_it_can_be():
    assert (JIT_DISABLED or BOUNDSCHECK) == PLAIN


@kernel
def step_on(rows, start, end, rarity, private, change, step, l2):
    """A step of SAGA on one row."""
    single_step(rows, start, end, rarity, private, change, step, 1.0, 0.01, l2, 0.0)


@pytest.mark.parametrize("length", range(12))
def test_rows_of_every_length(length):
    """Fours, then two, then one: whatever is left over."""
    rng = np.random.default_rng(length)
    X = np.zeros((2, 30))
    X[0, rng.permutation(30)[:3]] = 1.0  # so that the second row does not begin at zero
    X[1, rng.permutation(30)[:length]] = rng.normal(size=length)
    session = cases.session(problems.linear(sp.csr_array(X), [0, 1]), rule=SAGA())
    rows, private = session.rows, session.private(0)
    rarity = rng.uniform(1.0, 9.0, 30).astype(np.float32)
    private.w[:], private.average[:] = rng.normal(size=30), rng.normal(size=30)
    w, average = private.w.copy(), private.average.copy()
    start, change, step, l2 = np.uint64(3), 0.7, 0.2, 0.1
    numbers = step, step, 0.01, change, l2
    one_by_one(w, average, rarity, rows.indices, rows.data, start, numbers, np.uint64(length))
    end = np.uint64(3 + length)
    step_on(rows, start, end, rarity, private, change, step, l2)
    np.testing.assert_allclose(private.w, w, rtol=1e-14)
    np.testing.assert_allclose(private.average, average, rtol=1e-14)
