"""Labels: distinct ones against NumPy, and the types in which they come."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import hogshare
from hogshare import problems
from hogshare.partitioned.partition_blocks import block_of, facts_of
from hogshare.problems.linear.labels import distinct, pair_of

ROWS = np.random.default_rng(0).normal(size=(90, 3))
KINDS = ROWS.argmax(axis=1)
LARGE = np.array([2**53, 2**53 + 1, 2**53 + 3])


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


def found(name, y, method="fit"):
    """The labels that an estimator, or a problem, has found."""
    if hasattr(problems, name):
        return getattr(problems, name)(ROWS, y).classes
    kwargs = {
        "LogisticRegressionCV": {
            "use_legacy_attributes": False,
            "l1_ratios": (0.0,),
            "scoring": "accuracy",
        },
        "MLPClassifier": {"solver": "sgd", "hidden_layer_sizes": (2,), "tol": 1e9},
    }
    estimator = getattr(hogshare, name)(**kwargs.get(name, {}))
    if method == "partial_fit":
        return estimator.partial_fit(ROWS, y, classes=y.unique()).classes_
    return estimator.fit(ROWS, y).classes_


FOUND = [
    *(
        (name, "fit")
        for name in (
            "SGDClassifier",
            "LogisticRegression",
            "LogisticRegressionCV",
            "RidgeClassifier",
            "MLPClassifier",
            "linear",
            "network",
        )
    ),
    ("SGDClassifier", "partial_fit"),
    ("MLPClassifier", "partial_fit"),
]


@pytest.mark.parametrize("kind", ["Int64", "UInt64", "Int8", "boolean"])
@pytest.mark.parametrize(("name", "method"), FOUND)
def test_nullable_labels_are_those_of_their_own_type(name, method, kind):
    pd = pytest.importorskip("pandas")
    values = {"Int8": KINDS.astype(np.int8), "boolean": KINDS > 0}.get(kind, LARGE[KINDS])
    y = pd.Series(values).astype(kind)
    plain = values.astype(np.uint64) if kind == "UInt64" else values
    labels = found(name, y, method)
    assert labels.dtype == plain.dtype
    np.testing.assert_array_equal(labels, np.unique(plain))


@pytest.mark.parametrize("kind", ["Int64", "boolean", "string", "category", "float64", "object"])
@pytest.mark.parametrize(("name", "method"), FOUND)
def test_missing_labels_are_a_sentence(name, method, kind):
    pd = pytest.importorskip("pandas")
    words = np.array(["a", "b", "c"], object)[KINDS]
    y = pd.Series(words if kind in ("string", "object") else KINDS.clip(0, 1)).astype(kind)
    y.iloc[3] = None if kind == "object" else np.nan
    with pytest.raises(
        ValueError, match=r"Input y contains NaN: 1 of 90 labels are missing\. Drop"
    ):
        found(name, y, method)


@pytest.mark.parametrize("name", ["SGDClassifier", "network"])
def test_none_in_a_list_is_missing(name):
    with pytest.raises(ValueError, match="2 of 90 labels are missing"):
        found(name, ["a", "b", None] * 2 + ["a"] * 84)


def test_a_partition_has_them_in_their_own_type():
    pd = pytest.importorskip("pandas")
    y = pd.Series(LARGE[KINDS]).astype("Int64")
    facts = facts_of(block_of(ROWS, y), with_labels=True)
    assert facts.labels.tolist() == LARGE.tolist() and facts.labels.dtype == np.int64
    y.iloc[3] = pd.NA
    with pytest.raises(ValueError, match="1 of 90 labels are missing"):
        block_of(ROWS, y)


@pytest.mark.parametrize(
    "model",
    [
        hogshare.SGDClassifier(max_iter=5, tol=None, random_state=0),
        hogshare.LogisticRegression(),
        hogshare.LogisticRegressionCV(
            use_legacy_attributes=False, l1_ratios=(0,), scoring="accuracy", Cs=[1.0], cv=2
        ),
        hogshare.RidgeClassifier(),
        hogshare.MLPClassifier(max_iter=2, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_score_compares_labels_of_their_own_type(model):
    """As floats 2**53 and 2**53 + 1 would be the same label."""
    pandas = pytest.importorskip("pandas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(ROWS, LARGE[KINDS])
    for y in (LARGE[KINDS], LARGE[KINDS // 2]):
        right = float((model.predict(ROWS) == y).mean())
        for given in (y, pandas.Series(y, dtype="Int64")):
            assert model.score(ROWS, given) == pytest.approx(right, abs=1e-12)
