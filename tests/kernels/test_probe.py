"""The probe's loops against their twins: a loop that did less than it says measures nothing."""

import threading

import naive
import numpy as np
import pytest

from hogshare.kernels.jit import probe

DTYPES = ["float32", "float64"]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def close(dtype):
    return {"rtol": 1e-5} if dtype == "float32" else {"rtol": 1e-12}


@pytest.mark.parametrize("dtype", DTYPES)
def test_overwrite(dtype):
    values = np.ones(1003, dtype)
    probe.overwrite(values, 0.25)
    np.testing.assert_array_equal(values, np.full(1003, 0.25))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_rows(rng, dtype):
    w = rng.uniform(0.5, 1.0, 37).astype(dtype)
    columns = rng.integers(0, 37, 203, dtype=np.uint32)  # three are left of the last row
    values = rng.uniform(0.5, 1.0, 203).astype(dtype)
    begin = w.astype(float)
    expected, margin = naive.sparse_rows(begin, columns[:200], values.astype(float)[:200], 5, -0.1)
    found = probe.sparse_rows(w, columns, values, 5, -0.1)
    assert found == pytest.approx(margin, rel=close(dtype)["rtol"])
    np.testing.assert_allclose(w, expected, **close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dense_rows(rng, dtype):
    w = rng.uniform(0.5, 1.0, 5).astype(dtype)
    data = rng.uniform(0.5, 1.0, (11, 5)).astype(dtype)
    expected, margin = naive.dense_rows(w.astype(float), data.astype(float), -0.1)
    assert probe.dense_rows(w, data, -0.1) == pytest.approx(margin, rel=close(dtype)["rtol"])
    np.testing.assert_allclose(w, expected, **close(dtype))


def test_chase(rng):
    order = rng.permutation(29)
    chain = np.zeros(29, np.int64)
    chain[order] = np.roll(order, -1)
    for start, steps in ((0, 0), (3, 1), (7, 18)):
        assert probe.chase(chain, start, steps) == naive.chase(chain, start, steps)
    assert probe.chase(chain, 5, 29) == 5


def test_hand_over_alone():
    word = np.array([4], np.int64)
    probe.hand_over(word, 4, 1, 3)
    assert word[0] == naive.hand_over(4, 4, 1, 3) == 7


def test_hand_over_between_two_threads():
    word, rounds = np.zeros(1, np.int64), 20
    threads = [
        threading.Thread(target=probe.hand_over, args=(word, me, 2, rounds)) for me in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert word[0] == 2 * rounds
