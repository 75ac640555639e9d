"""The kernel's sum against NumPy's."""

import numpy as np
import pytest

from hogshare.kernels.sums import total


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
