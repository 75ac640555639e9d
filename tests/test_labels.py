"""Distinct labels against NumPy."""

import numpy as np
import pytest

from hogshare.problems.labels import distinct


@pytest.mark.parametrize("kind", ["int8", "uint64", "int64", "bool", "float32", "U3", "object"])
def test_distinct_labels_are_numpys(kind):
    rng = np.random.default_rng(0)
    for n, classes in ((0, 1), (1, 1), (50, 2), (200, 7)):
        labels = rng.integers(0, classes, size=n).astype(kind)
        np.testing.assert_array_equal(distinct(labels), np.unique(labels))
        assert distinct(labels).dtype == labels.dtype
    np.testing.assert_array_equal(distinct([3, 1, 3]), [1, 3])
    np.testing.assert_array_equal(distinct(3), [3])
