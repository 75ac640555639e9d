"""Repeated columns against NumPy."""

import numpy as np
import pytest

from hogshare.kernels.rows.row_checks import has_repeats


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_repeats_are_found_in_any_order(dtype):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        sizes = rng.integers(0, 5, size=4)
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        indices = rng.integers(0, 12, size=indptr[-1]).astype(dtype)
        rows = np.split(indices, indptr[1:-1])
        expected = any(len(np.unique(row)) < len(row) for row in rows)
        assert has_repeats(indices, indptr, np.full(12, -1)) == expected
        found.append(expected)
    assert 20 < sum(found) < 180
