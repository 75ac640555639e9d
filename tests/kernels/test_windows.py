"""Windows in vector registers, and matrices by columns, against NumPy's."""

import numpy as np
import pytest

from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.networks import padded_matrices, pools, windows
from hogshare.kernels.networks.tiles import VECTOR_BYTES, padded

DRAWS = np.random.default_rng(0)


@kernel
def flip(n_rows, n_columns, a, row, out, out_row):
    padded_matrices.flip(n_rows, n_columns, a, 0, row, out, 0, out_row)


@kernel
def window_product(m, width, how, a, places, b, start, c, numbers):
    windows.product(m, width, how, a, places, b, start, c, numbers)


@kernel
def largest(window, image, out, marks):
    pools.largest(window, image, 0, out, 0, marks, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (16, 16), (33, 50), (64, 17)])
def test_a_matrix_by_columns(shape, dtype):
    matrix = DRAWS.standard_normal(shape).astype(dtype)
    width = padded(shape[0], matrix.itemsize)
    out = np.full((shape[1], width), np.nan, dtype)
    flip(*shape, matrix.reshape(-1), shape[1], out.reshape(-1), width)
    np.testing.assert_array_equal(out[:, : shape[0]], matrix.T)
    assert not out[:, shape[0] :].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 17), (8, 100), (13, 64), (7, 33)])
def test_a_product_of_windows_is_numpys(m, n, dtype):
    outer, inner, line, row = 5, 7, 30, 12
    image = DRAWS.standard_normal(400).astype(dtype)
    places = DRAWS.integers(0, 100, m + 2)
    width = padded(n, image.itemsize)
    b = DRAWS.standard_normal((outer, row, width)).astype(dtype)
    start = DRAWS.standard_normal(width).astype(dtype)
    numbers = 3, 2, outer, inner, line, 2, 0, row * width, width, 0, 0, width
    o, k = np.arange(outer)[:, np.newaxis], np.arange(inner)
    rows = np.array([image[3 + place + o * line + 2 * k] for place in places[2:]])
    sums = np.einsum("mok,okn->mn", rows.astype(float), b[:, :inner].astype(float))
    into = DRAWS.standard_normal((m, width)).astype(dtype)
    expected = {
        windows.WRITES: sums,
        windows.ADDS: into + sums,
        windows.BEGINS: start + sums,
        windows.BEGINS | windows.CUTS: np.maximum(start + sums, 0.0),
    }
    for how, wanted in expected.items():
        c = into.reshape(-1).copy()
        ends = image, places, b.reshape(-1), start, c, numbers
        window_product(m, width, how, *ends)
        tolerance = 1e-4 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(c.reshape(m, width), wanted, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_number_is_the_largest_wherever_it_is(dtype):
    lanes = VECTOR_BYTES // np.dtype(dtype).itemsize
    for place in range(4):
        image = np.arange(4.0 * lanes).astype(dtype)
        image[place * lanes + 1] = np.nan
        out, marks = np.zeros(lanes, dtype), np.zeros(lanes, np.int32)
        largest((0, 2, 2, 2 * lanes, lanes), image, out, marks)
        assert np.isnan(out[1]) and marks[1] == place * lanes + 1
        others = np.arange(lanes) != 1
        np.testing.assert_array_equal(out[others], image[3 * lanes :][others])
        np.testing.assert_array_equal(marks[others], (3 * lanes + np.arange(lanes))[others])
