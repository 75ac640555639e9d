"""Products of matrices in flat arrays against NumPy's."""

import numpy as np
import pytest

from hogshare.kernels.gemm import gemm, load_blas
from hogshare.kernels.jit import kernel


@kernel
def product(flip_a, flip_b, m, n, k, a, a_at, b, b_at, beta, c, c_at):
    """The product as a kernel has it."""
    gemm(flip_a, flip_b, m, n, k, a, a_at, b, b_at, beta, c, c_at)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("flip_a", [0, 1])
@pytest.mark.parametrize("flip_b", [0, 1])
@pytest.mark.parametrize("beta", [0.0, 1.0, 0.5])
def test_product_from_places_on(flip_a, flip_b, beta, dtype):
    load_blas()
    draws = np.random.default_rng(0)
    m, n, k = 5, 7, 3
    a, b, c = (draws.normal(size=size).astype(dtype) for size in (2 + m * k, 1 + k * n, 4 + m * n))
    before = c.copy()
    if beta == 0.0:
        c[3:-1] = np.nan  # is not read
    left = a[2:].reshape((k, m) if flip_a else (m, k))
    right = b[1:].reshape((n, k) if flip_b else (k, n))
    exact = (left.T if flip_a else left).astype(float) @ (right.T if flip_b else right)
    exact += beta * before[3:-1].reshape(m, n)
    product(flip_a, flip_b, m, n, k, a, 2, b, 1, beta, c, 3)
    off = 1e-5 if dtype is np.float32 else 1e-13
    np.testing.assert_allclose(c[3:-1].reshape(m, n), exact, rtol=off, atol=off)
    assert (c[:3] == before[:3]).all() and c[-1] == before[-1]
