"""Distinct labels against NumPy."""

import numpy as np
import pytest

from hogshare.problems.linear.labels import distinct, pair_of


@pytest.mark.parametrize(
    "kind",
    ["int8", "uint64", "int64", "int32", "bool", "float32", "float64", ">f8", "U3", "object"],
)
def test_distinct_labels_are_numpys(kind):
    rng = np.random.default_rng(0)
    for n, classes in ((0, 1), (1, 1), (50, 2), (200, 7)):
        labels = rng.integers(0, classes, size=n).astype(kind)
        np.testing.assert_array_equal(distinct(labels), np.unique(labels))
        assert distinct(labels).dtype == labels.dtype
    np.testing.assert_array_equal(distinct([3, 1, 3]), [1, 3])
    np.testing.assert_array_equal(distinct(3), [3])


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int64"])
def test_a_pair_is_seen_wherever_its_second_kind_is(kind):
    largest = np.iinfo(kind).max if kind.startswith("int") else np.finfo(kind).max
    for second in (-1, 7, largest):
        for place in (0, 1, 57, 199):
            labels = np.full(200, 3, kind)
            labels[place] = second
            assert sorted(pair_of(labels)) == sorted((3, second))
            np.testing.assert_array_equal(distinct(labels), np.unique(labels))
            np.testing.assert_array_equal(distinct(labels[::2]), np.unique(labels[::2]))
            labels[1 - place] = 5
            assert pair_of(labels) is None
    assert pair_of(np.full(3, 4, kind)) == (4, 4)
    assert pair_of(np.zeros(0, kind)) is None
    assert pair_of(np.zeros((2, 2), kind)) is None
    assert labels.flags.writeable


@pytest.mark.parametrize("place", [0, 1, 2])
def test_nan_is_no_pairs(place):
    labels = np.array([1.0, 2.0, 2.0])
    labels[place] = np.nan
    assert pair_of(labels) is None
    assert pair_of(np.full(3, np.nan)) is None
    assert pair_of(np.array([np.inf, -np.inf])) == (np.inf, -np.inf)
