"""Broadcasts and results in parts: tuples and dicts of arrays and numbers."""

import collections

import numpy as np
import pytest
from executors import KINDS, MADE, client, cluster  # noqa: F401

from hogshare import AsyncContext, Simulator
from hogshare.simulation import Constant, Link, Network
from hogshare.tasks import TaskError, add
from hogshare.tasks.nested_values import bytes_of, frozen_copy

N, D = 60, 3
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, D))
Y = X @ [1.0, 2.0, 3.0] + 0.5
Point = collections.namedtuple("Point", "x y")


def loss_and_slopes(rows, model):
    X, y = rows
    left = X @ model["coef"] + model["rest"][0] - y
    return float(left @ left), {"coef": X.T @ left, "rest": (left.sum(), len(y))}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_parts_and_sums_of_parts(kind, request):
    model = {"coef": np.zeros(D), "rest": (0.0, 7)}
    with AsyncContext(MADE[kind](request), n_workers=2) as ac:
        points = ac.parallelize(X, Y, partitions=5)
        for _ in range(150):
            w_br = ac.broadcast(model)
            points.map(loss_and_slopes, w_br).reduce()
            first, second = (result.value for result in ac.collect_all())
            loss, slopes = add(first, second)
            assert slopes["rest"][1] == N
            model = {
                "coef": model["coef"] - 0.5 * slopes["coef"] / N,
                "rest": (float(model["rest"][0] - 0.5 * slopes["rest"][0] / N), 7),
            }
    assert loss < 1e-9 and np.allclose(model["coef"], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_remember_versions_of_parts(kind, request):
    """The values that a row was last used with are those of that version, and read-only."""

    def versions(rows, w):
        groups = [(-1 if old is None else old[1]) for old, places in w.groups() for _ in places]
        try:
            w.value[0][0] = 5.0
        except ValueError:
            return np.array(groups)
        return None

    with AsyncContext(MADE[kind](request), n_workers=1) as ac:
        points = ac.parallelize(X, Y)
        for k in range(3):
            w_br = ac.broadcast((np.zeros(D), k))
            points.map(versions, w_br, history=True).reduce()
            assert (ac.collect().value == k - 1).all()
        assert w_br.value[1] == 2 and w_br.value_at(4)[1] == 2


def test_the_callers_arrays_and_the_shared_value_stay():
    """A task in a thread gets tuples and dicts of its own."""
    model = {"coef": np.zeros(D)}

    def spoil(rows, w):
        w["coef"] = None
        w["new"] = 1
        return 0

    with AsyncContext("threads", n_workers=1) as ac:
        points = ac.parallelize(X, Y)
        w_br = ac.broadcast(model)
        model["coef"][:] = 7.0
        for _ in range(2):
            points.map(spoil, w_br).reduce()
            assert ac.collect().value == 0
        w_br.value["coef"] = 3
        assert list(w_br.value) == ["coef"] and not w_br.value["coef"].any()
    assert model["coef"].flags.writeable


def test_bytes_of_parts_travel():
    link = Network(Link(bandwidth=1000.0))
    with AsyncContext(Simulator(block_time=Constant(1.0), network=link), n_workers=1) as ac:
        points = ac.parallelize(X, Y)
        took = []
        for value in (np.zeros(1000), {"a": np.zeros(600), "b": (np.zeros(400),)}):
            began = ac.seconds
            points.map(lambda rows, w: 0, ac.broadcast(value)).reduce()
            ac.collect()
            took.append(ac.seconds - began)
        assert took[0] == pytest.approx(took[1], abs=0.01)
    assert bytes_of((np.zeros(3), {"a": 1.0, "b": [np.zeros(2)]})) == 24 + 8 + 16


def test_memory_counts_parts():
    with AsyncContext("threads", n_workers=1, memory=20_000) as ac:
        one = ac.broadcast((np.zeros(1000), 1.0))
        with pytest.raises(MemoryError, match="versions of broadcasts"):
            ac.broadcast({"a": np.zeros(1500)})
        assert one.value[1] == 1.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "value must be an array of numbers"),
        ((np.zeros(2), "text", None), r"value\[2\] must be an array of numbers"),
        ({"a": {"b": object()}}, r"value\['a'\]\['b'\] must be an array of numbers"),
        (Point(np.zeros(2), 1.0), r"plain tuple or dict.*pass tuple\(value\)"),
        (collections.OrderedDict(a=1.0), r"got a OrderedDict: pass dict\(value\)"),
        ({(1, 2): 3.0}, "keys of value must be str or int"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), r"pass value\.filled"),
    ],
)
def test_other_parts_are_refused(value, message):
    with pytest.raises(TypeError, match=message):
        frozen_copy(value)


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        (1, 2.5, 3.5),
        ((1, 2), (3, 4), (4, 6)),
        ([1, (2,)], [3, (4,)], [4, (6,)]),
        ({"a": 1, "b": (2, 3)}, {"b": (1, 1), "a": 1}, {"a": 2, "b": (3, 4)}),
        (Point(1, 2), Point(3, 4), Point(4, 6)),
        (np.float32(1), 2, 3.0),
        (np.bool_(True), np.bool_(True), 2),
        (collections.Counter(a=1), collections.Counter(a=2), collections.Counter(a=3)),
        ((), (), ()),
    ],
)
def test_values_are_added_part_by_part(left, right, total):
    found = add(left, right)
    assert found == total and (type(found) is type(total) or np.isscalar(found))


def test_bools_are_counted():
    assert add(np.array([True, False]), np.array([True, True])).tolist() == [2, 1]
    with AsyncContext("threads", n_workers=1) as ac:
        ac.parallelize(X).map(lambda row: row[0] > 0.0, each="row").reduce()
        assert ac.collect().value == (X[:, 0] > 0.0).sum()


def test_adding_changes_no_argument():
    left, right = (np.ones(2), {"a": 1.0}), (np.ones(2), {"a": 2.0})
    found = add(left, right)
    assert (found[0] == 2.0).all() and (left[0] == 1.0).all() and left[1] == {"a": 1.0}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 2), (1, 2, 3)),
        ({"a": 1}, {"b": 1}),
        ((np.zeros(2), 1), (np.zeros(3), 1)),
        ((1,), [1]),
        (np.zeros(2), 1.0),
    ],
)
def test_values_with_other_parts_are_not_added(left, right):
    with pytest.raises(ValueError, match="cannot be added: the function must return the same"):
        add(left, right)


def test_tasks_with_other_parts_are_refused_at_collect():
    loaders = [lambda: np.ones((2, 1)), lambda: np.ones((3, 1))]
    with AsyncContext("threads", n_workers=2) as ac:
        ac.parallelize(loaders=loaders).map(lambda rows: (1.0,) * len(rows)).reduce()
        assert len(ac.collect().value) in (2, 3)
        with pytest.raises(TaskError, match=r"tuple\(shape \(\), .*the same parts and shapes"):
            ac.collect()
