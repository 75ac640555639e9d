"""The kernels' sums against NumPy's and Python's."""

import naive
import numpy as np
import pytest

from hogshare.kernels.rows.sums import sum_by_place, total


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [0, 1, 3, 1003])
def test_total(dtype, size):
    values = np.random.default_rng(0).uniform(0.5, 1.0, size).astype(dtype)
    rel = 1e-5 if dtype == "float32" else 1e-12
    assert total(values) == pytest.approx(values.sum(dtype=float), rel=rel)
    for bad in (np.nan, np.inf, -np.inf)[: 3 * size]:
        values[size // 2] = bad
        assert not np.isfinite(total(values))
        values[-1] = -bad
        with np.errstate(invalid="ignore"):  # where it is plain Python
            assert not np.isfinite(total(values))
        values[:] = 1.0


@pytest.mark.parametrize("kind", ["u4", "u8"])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # where it is plain Python
def test_a_sum_by_place(kind):
    words = np.frombuffer(bytes(8) + b"\xff" * 8 + np.random.default_rng(0).bytes(800), kind)
    for first in (0, 7, 1 << 40):
        assert int(sum_by_place(words, np.uint64(first))) == naive.sum_by_place(words, first)
    parts = sum_by_place(words[:50], np.uint64(0)), sum_by_place(words[50:], np.uint64(50))
    assert sum(map(int, parts)) % 2**64 == naive.sum_by_place(words, 0)


def test_splitmix():
    """Its first numbers from the seed 0, as they are published with it (Vigna's splitmix64.c)."""
    known = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    for k in range(3):
        assert naive.sum_by_place(np.zeros(1, np.uint64), k) == known[k]
