"""Products in vector registers against NumPy's, for every remainder of rows, columns and sums."""

import numpy as np
import pytest

from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.networks import tiles


@kernel
def product(m, k, width, a, row, step, b, c, adds):
    tiles.product(m, k, width, a, 0, row, step, b, 0, width, c, 0, width, adds)


@kernel
def sum_rows(numbers, places, m, width, out):
    tiles.sum_rows(places.shape[0], numbers, 0, places, 0, m, 0, width, width, out, 0)


def padded(matrix):
    """Rows that end in zeros, one after another, and how long they are."""
    width = tiles.padded(matrix.shape[1], matrix.itemsize)
    out = np.zeros((len(matrix), width), matrix.dtype)
    out[:, : matrix.shape[1]] = matrix
    return out.reshape(-1), width


SHAPES = [(1, 1, 1), (6, 3, 16), (7, 5, 17), (13, 1, 65), (5, 0, 3), (50, 784, 100), (9, 800, 130)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("flipped", [False, True])
def test_a_product_is_numpys(shape, dtype, flipped):
    m, k, n = shape
    draws = np.random.default_rng(m + k + n)
    a, b = draws.normal(size=(m, k)).astype(dtype), draws.normal(size=(k, n)).astype(dtype)
    c = draws.normal(size=(m, n)).astype(dtype)
    tolerance = 2e-4 if dtype == "float32" else 1e-12
    other, width = padded(b)
    for adds in (0, 1):
        into, _ = padded(c)
        strides = (1, m) if flipped else (k, 1)
        flat = np.ascontiguousarray(a.T if flipped else a).reshape(-1)
        product(m, k, width, flat, *strides, other, into, adds)
        found = into.reshape(m, width)
        np.testing.assert_allclose(found[:, :n], a @ b + adds * c, atol=tolerance)
        assert not found[:, n:].any()  # what is beyond the columns stays zero


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 16, 17, 100, 150, 300])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_sum_of_rows_is_numpys(n, count, dtype):
    draws = np.random.default_rng(n)
    m = draws.normal(size=(20, n)).astype(dtype)
    numbers = draws.normal(size=count).astype(dtype)
    start = draws.normal(size=(1, n)).astype(dtype)
    flat, width = padded(m)
    for kind in ("uint16", "uint32", "uint64"):
        places = draws.permutation(20)[:count].astype(kind)
        out, _ = padded(start)
        sum_rows(numbers, places, flat, width, out)
        wanted = start[0] + numbers @ m[places.astype(int)]
        np.testing.assert_allclose(out[:n], wanted, atol=1e-5 if dtype == "float32" else 1e-12)
        assert not out[n:].any()
