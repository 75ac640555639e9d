"""`MatrixFactorization`: ids, predictions, recommendations, further ratings, bad input, files."""

import dataclasses
import datetime as dt
import sys
import uuid
import warnings
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import scipy.sparse as sp
from crews import kill_members
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

import hogshare
from hogshare import BSP, Grid, MatrixFactorization, Shared
from hogshare.estimators import factorisation
from hogshare.estimators.vocabulary import Vocabulary, as_array, distinct
from hogshare.io.models import model_file, save_load
from hogshare.runtimes.processes import WorkerDied

N_USERS, N_ITEMS, RANK = 80, 50, 2
RNG = np.random.default_rng(0)
TRUTH = RNG.normal(size=(N_USERS, RANK)) @ RNG.normal(size=(RANK, N_ITEMS)) + 3.0
TRUTH += RNG.normal(size=(N_USERS, 1))
USERS, ITEMS = RNG.integers(N_USERS, size=3000), RNG.integers(N_ITEMS, size=3000)
RATINGS = TRUTH[USERS, ITEMS]
SETTINGS = {"n_factors": RANK, "alpha": 0.5, "random_state": 0, "max_iter": 60, "n_jobs": 1}


def model(**settings):
    return MatrixFactorization(**{**SETTINGS, **settings})


@pytest.fixture(scope="module")
def fitted():
    return model().fit(USERS, ITEMS, RATINGS)


def test_it_predicts_what_was_not_rated(fitted):
    users, items = (pairs.ravel() for pairs in np.meshgrid(range(N_USERS), range(N_ITEMS)))
    assert fitted.score(users, items, TRUTH[users, items]) > 0.95
    alone = model(n_factors=0).fit(USERS, ITEMS, RATINGS)
    assert alone.score(users, items, TRUTH[users, items]) < 0.7
    assert fitted.n_iter_ == 60 and fitted.report_.n_epochs == 60
    assert fitted.t_ == 61 * len(USERS)
    assert fitted.mean_ == pytest.approx(RATINGS.mean())


def test_a_seed_repeats_and_another_does_not(fitted):
    again = model().fit(USERS, ITEMS, RATINGS)
    np.testing.assert_array_equal(again.user_factors_, fitted.user_factors_)
    other = model(random_state=1).fit(USERS, ITEMS, RATINGS)
    assert (other.user_factors_ != fitted.user_factors_).any()


def test_two_workers_that_wait_repeat():
    settings = {"plane": "shared", "barrier": BSP(), "n_jobs": 2}
    first, second = (
        model(**settings, runtime=runtime).fit(USERS, ITEMS, RATINGS)
        for runtime in ("threads", "processes")
    )
    np.testing.assert_array_equal(first.item_factors_, second.item_factors_)
    assert first.score(USERS, ITEMS, RATINGS) > 0.95


KINDS = {
    "words": (lambda k: f"user {k}", lambda k: f"item {k}"),
    "words and numbers": (lambda k: k if k % 2 else f"u{k}", lambda k: k),
    "tuples": (lambda k: ("u", k), lambda k: str(k)),
    "far apart": (lambda k: k * 10**12, lambda k: -k),
    "floats": (lambda k: k + 0.5, lambda k: bytes([k])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_any_kind(fitted, kind):
    of_user, of_item = KINDS[kind]
    users, items = [of_user(int(u)) for u in USERS], [of_item(int(i)) for i in ITEMS]
    named = model().fit(users, items, RATINGS)
    assert len(named.users_) == N_USERS and len(named.items_) == N_ITEMS
    assert named.score(users, items, RATINGS) > 0.95
    one = named.predict(users[0], items[0])
    assert one.shape == (1,) and one.dtype == np.float32
    np.testing.assert_array_equal(one, named.predict(users[:5], items[:5])[:1])
    assert [type(item) for item, _ in named.recommend(users[0], n=2)] == [type(items[0])] * 2


@pytest.mark.parametrize(
    "ids",
    [
        np.array([2**63 + 2, 2**63, 2**63 + 2, 2**63 + 1], np.uint64),
        np.array([2**64 - 1, 0, 2**64 - 1, 2**63], np.uint64),
        [2**64 + 1, 0, 2**64 + 1, -1],
        np.array([-128, 127, -128, 0], np.int8),
        np.repeat(np.array([-128, 127, -128, 0], np.int8), 50),
        np.array([-(2**63), -(2**63) + 1, -(2**63), 5]),
        np.array(["2020-01-01", "2020-01-03", "2020-01-01", "2021-01-01"], "M8[ns]"),
        np.array(["2020-01-01", "2020-01-03", "2020-01-01", "2021-01-01"], "M8[D]"),
        np.array([5, 4, 5, 3], "m8[ns]"),
    ],
    ids=str,
)
def test_ids_are_given_back_as_they_are(ids):
    named = model(n_factors=1, max_iter=2).fit(ids, ids, np.resize([1.0, 2.0, 3.0, 4.0], len(ids)))
    assert set(named.users_.tolist()) == set(as_array(ids, "ids").tolist())
    best = {item for item, _ in named.recommend(ids[0], n=9, exclude_seen=False)}
    assert len(best) == 3 and all(one in best for one in as_array(ids, "ids").tolist())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(named.predict(ids, ids)).all()


def test_ids_of_pandas_that_are_missing_are_refused():
    pd = pytest.importorskip("pandas")
    for ids in (
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None], dtype="string"),
        pd.to_datetime(pd.Series(["2020-01-01", None])),
        [pd.NaT, 1],
        [1, pd.NA],
    ):
        with pytest.raises(ValueError, match=r"users contains (NaN|NaT|<NA>), which"):
            model().fit(ids, [1, 2], [1.0, 2.0])


MOMENT = dt.datetime(2020, 1, 1, 12, 0, 0, 5)
ALL_KINDS = [
    *("", "a", "a\0", "\ud800", b"a\0", True, None, -1, 2.5, float("inf"), Decimal("1.10")),
    *(2**64 - 1, 2**70, -(2**63) - 1, np.uint64(2**63 + 5), np.int16(3), np.float32(0.1)),
    *(dt.date(2020, 1, 1), MOMENT, dt.timedelta(3, 4, 5), uuid.UUID(int=2**100)),
    MOMENT.replace(tzinfo=dt.UTC),
    MOMENT.replace(tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    *(np.datetime64("2020-01-01T00:00:00.000000001"), np.datetime64("20000-01-01", "s")),
    *(np.timedelta64(5, "ns"), np.timedelta64(11, "M")),
    *((), ("a", 1, (b"x", None)), frozenset(["b", 1, MOMENT]), frozenset([("a",), frozenset()])),
]


def test_ids_of_all_kinds_travel(tmp_path):
    ids = ALL_KINDS
    first = model(max_iter=2).fit(ids, ids[::-1], np.arange(len(ids)))
    assert len(first.users_) == len(ids)
    hogshare.save(first, tmp_path / "model.npz")
    again = hogshare.load(tmp_path / "model.npz")
    for one, other in zip(ids, again.users_.tolist(), strict=True):
        assert type(one) is type(other) and one == other and hash(one) == hash(other)
        assert not isinstance(one, np.generic) or one.dtype == other.dtype
        assert not isinstance(one, dt.datetime) or (one.tzinfo, one.fold) == (
            other.tzinfo,
            other.fold,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # where one was not found
        np.testing.assert_array_equal(again.predict(ids, ids), first.predict(ids, ids))
        assert again.recommend(ids, n=3) == first.recommend(ids, n=3)
        again.partial_fit(ids, ids[::-1], np.arange(len(ids)))
    assert len(again.users_) == len(ids)


def test_many_ids_are_no_part_of_the_header(tmp_path):
    """Which may have a few megabytes."""
    ids = [uuid.UUID(int=k) for k in range(200_000)]
    first = model(n_factors=1, max_iter=1)
    first.fit(ids, [("item", k) for k in range(200_000)], np.arange(200_000.0))
    hogshare.save(first, tmp_path / "model.npz")
    again = hogshare.load(tmp_path / "model.npz")
    assert again.users_[-1] == ids[-1] and again.items_.tolist() == first.items_.tolist()


class Song:
    pass


@pytest.mark.parametrize("ids", [[Song(), 1], [(1, Song()), 1]])
def test_ids_that_no_file_holds_are_named(tmp_path, ids):
    path = tmp_path / "model.npz"
    path.write_bytes(b"before")
    fitted = model(max_iter=1).fit(ids, [1, 2], [1.0, 2.0])
    with pytest.raises(
        ValueError, match=r"attribute users_ contains a value of the type \S+\.Song"
    ):
        hogshare.save(fitted, path)
    assert path.read_bytes() == b"before"


def test_a_zone_of_another_library_is_its_offset(tmp_path):

    class Zone(dt.tzinfo):
        def utcoffset(self, moment):
            return dt.timedelta(hours=1)

    moments = [MOMENT.replace(tzinfo=Zone()), MOMENT]
    first = model(max_iter=1).fit(moments, [1, 2], [1.0, 2.0])
    hogshare.save(first, tmp_path / "model.npz")
    again = hogshare.load(tmp_path / "model.npz")
    assert again.users_.tolist() == moments
    assert again.users_[0].tzinfo == dt.timezone(dt.timedelta(hours=1))


def test_a_moment_is_one_id():
    """As Python, NumPy and pandas have it, also within tuples."""
    pd = pytest.importorskip("pandas")
    ns = np.array(["2020-01-01T00:00", "2020-01-02T00:01"], "M8[ns]")
    forms = [ns, ns.astype("M8[us]"), ns.astype("M8[m]"), pd.Series(ns), list(pd.Series(ns))]
    forms += [ns.astype("M8[us]").tolist(), list(ns)]
    for first in forms:
        fitted = model(max_iter=1, unknown="raise").fit(first, [1, 2], [1.0, 2.0])
        assert fitted.users_.tolist() == forms[-2]
        for other in forms:
            assert len(fitted.predict(other, [1, 2])) == 2
        fitted.partial_fit([*first, *forms[-1]], [1, 2, 1, 2], np.ones(4))
        assert len(fitted.users_) == 2
    pairs = model(max_iter=1, unknown="raise").fit([(1, one) for one in ns], [1, 2], [1.0, 2.0])
    assert len(pairs.predict([(1, one) for one in forms[-2]], [1, 2])) == 2
    spans = [pd.Timedelta(3, "us"), dt.timedelta(microseconds=3), np.timedelta64(3000, "ns")]
    assert as_array(spans, "ids").tolist() == [spans[1]] * 3
    finer = [
        pd.Timestamp("2020-01-01T00:00:00.000000001"),
        np.datetime64(1577836800000000001, "ns"),
    ]
    assert len(distinct(as_array(finer, "ids"))[0]) == 1


def test_what_is_missing_is_no_id_and_none_is():
    fitted = model(max_iter=1).fit([None, "a"], [1, 2], [1.0, 2.0])
    assert fitted.users_.tolist() == [None, "a"]
    for missing in (
        float("nan"),
        np.datetime64("NaT"),
        np.timedelta64("NaT", "ns"),
        np.float32("nan"),
    ):
        for one in (missing, (1, missing), frozenset([missing])):
            with pytest.raises(
                ValueError, match=r"users contains (NaN|NaT|nan), which.* at place 1"
            ):
                model().fit(["a", one], [1, 2], [1.0, 2.0])


def test_a_word_and_a_number_are_two():
    with_both = model(n_factors=0).fit([1, "1", 1, "1"], list("abba"), [1.0, 5.0, 1.0, 5.0])
    assert set(with_both.users_.tolist()) == {1, "1"}
    assert with_both.predict("1", "a") > with_both.predict(1, "a")


def test_frames_of_pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"u": [f"u{k}" for k in USERS], "i": ITEMS, "r": RATINGS})
    named = model().fit(frame.u, frame.i, frame.r)
    assert named.score(frame.u, frame.i, frame.r) > 0.95


class Columns:
    """A frame of no library that is known: names, and columns by name."""

    def __init__(self, columns):
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return self._columns[name]


def frame_of(kind, columns):
    if kind == "another":
        return Columns(columns)
    library = pytest.importorskip({"arrow": "pyarrow"}.get(kind, kind))
    make = {"arrow": lambda: library.table(columns)}.get(kind, lambda: library.DataFrame(columns))
    return make()


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "another"])
def test_data_frames(kind):
    named = {"item": ITEMS, "user": [f"u{k}" for k in USERS], "rating": RATINGS}
    expected = model(max_iter=3).fit(named["user"], ITEMS, RATINGS)
    expected.partial_fit(named["user"], ITEMS, RATINGS)
    given = [
        (frame_of(kind, named), None),
        (frame_of(kind, {**named, "when": RATINGS}), None),
        (frame_of(kind, {f"{name.upper()}S": one for name, one in named.items()}), None),
        (
            frame_of(kind, {f"{name} ": one for name, one in named.items()}),
            ("user ", "item ", "rating "),
        ),
    ]
    for frame, columns in given:
        told = model(max_iter=3).fit(frame, columns=columns).partial_fit(frame, columns=columns)
        np.testing.assert_array_equal(told.user_factors_, expected.user_factors_)
        assert told.users_.tolist() == expected.users_.tolist()
        score = expected.score(named["user"], ITEMS, RATINGS)
        assert told.score(frame, columns=columns) == pytest.approx(score)
    pairs = MatrixFactorization(2, loss="bpr", max_iter=1, n_jobs=1, random_state=0)
    del named["rating"]
    for columns in (None, ("user", "item")):
        assert pairs.fit(frame_of(kind, named), columns=columns).negatives_ == 1


@pytest.mark.parametrize(
    ("names", "more", "error", "told"),
    [
        ("user item rating", {"items": [1]}, TypeError, r"columns=\(user, item, rating\)"),
        ("user item rating", {"columns": "user"}, ValueError, "columns must be the names"),
        ("user item rating", {"columns": ("user",)}, ValueError, "columns must be the names"),
        ("user item", {"columns": ("user", "item", "r")}, ValueError, "no column 'r', and these"),
        ("who item rating", {}, ValueError, "no column 'user', and these: 'who', 'item', 'rating'"),
        (
            "who what",
            {},
            ValueError,
            "no column 'user' and no column 'item' and no column 'rating'",
        ),
        ("user item stars", {}, ValueError, r"no column 'rating', .*'item'\) fits pairs alone"),
        ("user users item rating", {}, ValueError, "several columns of users, 'user', 'users'"),
    ],
)
def test_columns_that_are_not_clear_are_named(names, more, error, told):
    frame = Columns({name: np.arange(4.0) for name in names.split()})
    for ask in (model().fit, model().partial_fit):
        with pytest.raises(error, match=told):
            ask(frame, **more)
    with pytest.raises(TypeError, match=r"columns are names in a data frame.* got ndarray"):
        model().fit(USERS, ITEMS, RATINGS, columns=("a", "b", "c"))


def test_a_column_that_is_there_twice_is_named():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.ones((2, 4)), columns=["user", "item", "rating", "rating"])
    for columns in (None, ("user", "item", "rating")):
        with pytest.raises(ValueError, match=r"several columns.*rating"):
            model().fit(frame, columns=columns)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok"])
def test_formats_of_a_matrix_are_one_fit(form):
    dense = np.zeros((N_USERS, N_ITEMS))
    dense[USERS, ITEMS] = RATINGS
    expected = model(max_iter=3).fit(*np.nonzero(dense), dense[np.nonzero(dense)])
    for kind in (sp.coo_array, sp.coo_matrix):
        told = model(max_iter=3).fit(kind(dense).asformat(form))
        np.testing.assert_array_equal(told.user_factors_, expected.user_factors_)
        assert told.score(kind(dense)) == expected.score(kind(dense))


def test_a_matrix_has_its_zeros_that_are_stored():
    matrix = sp.csr_array(([0.0, 4.0, 2.0], ([0, 1, 2], [0, 1, 0])), shape=(4, 3))
    of_matrix = model(max_iter=3).fit(matrix)
    assert of_matrix.seen_.nnz == 3 and of_matrix.mean_ == 2.0
    assert len(of_matrix.users_) == 4 and len(of_matrix.items_) == 3
    assert of_matrix.user_counts_.tolist() == [1, 1, 1, 0]
    assert matrix.nnz == 3  # the caller's is as it was
    assert np.isfinite(of_matrix.predict(3, [0, 1, 2])).all()
    assert of_matrix.score(matrix) <= 1.0


@pytest.mark.quick
def test_a_matrix_is_its_triples(fitted):
    order = np.lexsort((ITEMS, USERS))
    pairs = np.unique(USERS[order] * N_ITEMS + ITEMS[order], return_index=True)[1]
    kept = order[pairs]
    triples = USERS[kept], ITEMS[kept], RATINGS[kept]
    matrix = sp.coo_array((triples[2], triples[:2]), shape=(N_USERS, N_ITEMS))
    np.testing.assert_array_equal(
        model().fit(matrix).user_factors_, model().fit(*triples).user_factors_
    )


@pytest.mark.parametrize("form", [sp.coo_array, sp.csr_array, sp.csc_matrix])
def test_what_a_matrix_has_twice_is_two_ratings(form):
    """And the same fit, whatever the format and the order."""
    triples = [4.0, 2.0, 1.0, 5.0], [0, 1, 1, 0], [1, 0, 2, 1]
    values, lines, columns = (np.asarray(one) for one in triples)
    given = sp.coo_array((values, (lines, columns)), shape=(2, 3))
    if form is not sp.coo_array:
        given.has_canonical_format = True  # so that SciPy sums nothing up
        given = form(given)
        assert given.nnz == 4
    pairwise = model(max_iter=3).fit(lines, columns, values)
    of_matrix = model(max_iter=3).fit(given)
    assert of_matrix.mean_ == pairwise.mean_ == 3.0
    assert of_matrix.user_counts_.tolist() == pairwise.user_counts_.tolist() == [2, 2]
    order = np.lexsort((columns, lines))
    in_order = model(max_iter=3).fit(lines[order], columns[order], values[order])
    np.testing.assert_array_equal(of_matrix.user_factors_, in_order.user_factors_)
    assert of_matrix.score(given) == pytest.approx(in_order.score(lines, columns, values))


def test_who_is_not_known_gets_what_is(fitted):
    with pytest.warns(UserWarning, match="users that were in no fit, such as 999"):
        told = fitted.predict([999, 0], [3, 3])
    assert told[0] == pytest.approx(fitted.mean_ + fitted.item_biases_[3], rel=1e-6)
    with pytest.warns(UserWarning, match="items that were in no fit"):
        told = fitted.predict(0, -5)
    assert told == pytest.approx(fitted.mean_ + fitted.user_biases_[0], rel=1e-6)
    quiet = clone(fitted).set_params(unknown="ignore").fit(USERS, ITEMS, RATINGS)
    assert quiet.predict(999, -5) == pytest.approx(fitted.mean_, rel=1e-6)
    favourite = int(np.argmax(quiet.item_biases_))
    assert quiet.recommend(999, n=1)[0][0] == favourite
    strict = clone(fitted).set_params(unknown="raise").fit(USERS, ITEMS, RATINGS)
    with pytest.raises(ValueError, match="unknown='ignore'"):
        strict.predict(999, 3)


def test_without_biases_the_mean_is_for_who_is_not_known():
    plain = model(biases=False, nonnegative=True, unknown="ignore").fit(USERS, ITEMS, RATINGS)
    assert plain.predict(999, 0) == pytest.approx(RATINGS.mean(), rel=1e-6)
    assert not plain.user_biases_.any()
    product = plain.user_factors_[0] @ plain.item_factors_[0]
    assert plain.predict(0, 0) == pytest.approx(product, rel=1e-5)


def test_without_biases_products_are_counted_from_the_mean(tmp_path):
    plain = model(biases=False, unknown="ignore").fit(USERS, ITEMS, RATINGS)
    assert plain.mean_ == pytest.approx(RATINGS.mean())
    product = plain.user_factors_[:1] @ plain.item_factors_.T
    everything = np.arange(N_ITEMS)
    np.testing.assert_allclose(plain.predict(0, everything), plain.mean_ + product[0], rtol=1e-5)
    assert plain.predict(999, 0) == pytest.approx(plain.mean_, rel=1e-6)
    for item, told in plain.recommend(0, n=N_ITEMS, exclude_seen=False):
        assert told == plain.predict(0, item)[0]
    own = USERS == 4
    given = dict(zip(ITEMS[own].tolist(), RATINGS[own].tolist(), strict=True))
    told = dict(plain.recommend(ratings=given, n=N_ITEMS, exclude_seen=False))
    close = np.array([told[item] for item in range(N_ITEMS)])
    assert np.abs(close - plain.predict(4, everything)).mean() < 0.2
    likes = (np.median(RATINGS) - 1.0 < RATINGS).astype(float)
    probable = model(biases=False, loss="logistic").fit(USERS, ITEMS, likes)
    assert probable.predict(USERS, ITEMS).mean() == pytest.approx(likes.mean(), abs=0.05)
    hogshare.save(plain, tmp_path / "model.npz")
    again = hogshare.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(USERS, ITEMS), plain.predict(USERS, ITEMS))


def test_a_file_from_before_the_mean_without_biases_predicts_as_it_did(tmp_path):
    plain = model(biases=False, nonnegative=True).fit(USERS, ITEMS, RATINGS)
    saved = save_load.to_saved(plain)
    saved.params["nonnegative"] = False  # as of a fit without bounds, which had no mean
    del saved.attributes["_form"]
    model_file.save(tmp_path / "model.npz", saved)
    old = hogshare.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(old.predict(USERS, ITEMS), plain.predict(USERS, ITEMS))
    score = old.score(USERS, ITEMS, RATINGS)
    old.partial_fit(USERS, ITEMS, RATINGS)
    assert old.score(USERS, ITEMS, RATINGS) > score - 0.05 and not old._predicts_mean
    for form in ("yes", ("squared_error", 1, 0), ("squared_error", True)):
        with pytest.raises(ValueError, match="_form"):
            bad = dataclasses.replace(saved, attributes={**saved.attributes, "_form": form})
            model_file.check(bad)


def test_recommendations_are_new_and_best_first(fitted):
    for user, told in zip([4, 9], fitted.recommend([4, 9], n=5), strict=True):
        items, scores = zip(*told, strict=True)
        assert len(items) == 5 and list(scores) == sorted(scores, reverse=True)
        seen = set(ITEMS[user == USERS])
        assert not seen & set(items)
        rest = [i for i in range(N_ITEMS) if i not in seen and i not in items]
        assert fitted.predict(user, rest).max() <= scores[-1]
        np.testing.assert_allclose(fitted.predict(user, list(items)), scores)
    everything = fitted.recommend(4, n=1000, exclude_seen=False)
    assert sorted(item for item, _ in everything) == list(range(N_ITEMS))
    assert fitted.recommend(4, n=1000) == [
        pair for pair in everything if pair[0] not in set(ITEMS[USERS == 4])
    ]


def test_partial_fit_goes_on_and_grows():
    part = slice(0, 2000)
    grown = model(max_iter=40).fit(USERS[part], ITEMS[part], RATINGS[part])
    before, steps = grown.score(USERS, ITEMS, RATINGS), grown.t_
    new = RNG.normal(size=RANK)
    items = np.arange(N_ITEMS)
    for _ in range(30):
        grown.partial_fit(["new"] * N_ITEMS, items, TRUTH[3])
        grown.partial_fit(USERS[2000:], ITEMS[2000:], RATINGS[2000:])
    assert len(grown.users_) == N_USERS + 1 and grown.users_[-1] == "new"
    assert grown.t_ == steps + 30 * (N_ITEMS + 1000)
    assert grown.score(USERS, ITEMS, RATINGS) > before - 0.01
    assert grown.score(["new"] * N_ITEMS, items, TRUTH[3]) > 0.5
    assert grown.user_counts_[-1] == N_ITEMS  # another pass over a rating is no second rating
    assert grown.seen_[[N_USERS]].nnz == N_ITEMS and len(new) == RANK


def test_partial_fits_over_the_same_ratings_are_epochs_of_a_fit():
    """To the bit, so that the penalty does not fade: pairs that are given twice included."""
    pairs = [np.concatenate([one, one[:100]]) for one in (USERS, ITEMS, RATINGS)]
    settings = {"alpha": 10.0, "eta0": 0.05}
    whole = model(**settings, max_iter=25).fit(*pairs)
    passes, longer = model(**settings), model(**settings, max_iter=15).fit(*pairs)
    for epoch in range(25):
        passes.partial_fit(*pairs)
        if epoch >= 15:
            longer.partial_fit(*pairs)
    for other in (passes, longer):
        np.testing.assert_array_equal(other.user_factors_, whole.user_factors_)
        np.testing.assert_array_equal(other.item_biases_, whole.item_biases_)
        np.testing.assert_array_equal(other.user_counts_, whole.user_counts_)


@pytest.mark.parametrize("alpha", ["auto", 15.0])
@pytest.mark.parametrize("parts", [1, 5, 20])
def test_passes_over_chunks_are_epochs(alpha, parts):
    """With the penalty and the steps of all ratings: no worse with more passes, as a fit is."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(150, size=12_000), rng.integers(100, size=12_000)
    ratings = (rng.normal(size=(150, 3))[users] * rng.normal(size=(100, 3))[items]).sum(axis=1)
    ratings += 1.5 * rng.normal(size=12_000) + rng.normal(size=150)[users] + 3.0
    train, test = slice(10_000), slice(10_000, None)
    given = [one[train] for one in (users, items, ratings)]

    def error(fitted):
        return np.sqrt(np.mean((fitted.predict(users[test], items[test]) - ratings[test]) ** 2))

    settings = {"alpha": alpha, "random_state": 0, "n_jobs": 1, "unknown": "ignore"}
    passes, errors = MatrixFactorization(**settings), []
    for _ in range(30):
        for part in range(parts):
            passes.partial_fit(*(one[part::parts] for one in given))
        errors.append(error(passes))
    whole = MatrixFactorization(**settings)
    for _ in range(30):
        whole.partial_fit(*given)
    if alpha == "auto":
        assert passes.alpha_ == pytest.approx(whole.alpha_, rel=0.3)
    else:
        longer = MatrixFactorization(**settings, max_iter=30).fit(*given)
        assert errors[-1] == pytest.approx(error(longer), rel=0.02)
    assert errors[-1] == pytest.approx(error(whole), rel=0.03)
    assert errors[-1] < errors[0] and errors[-1] < 1.02 * min(errors)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"n_factors": 3}, "n_factors=3, and the model has 2"),
        ({"loss": "logistic"}, "loss='logistic', .* fitted with loss='squared_error'"),
        ({"biases": False}, "biases=False, .* fitted with biases=True"),
        ({"nonnegative": True}, "nonnegative=True, .* fitted with nonnegative=False"),
    ],
)
def test_what_a_model_has_for_good_is_not_changed(tmp_path, changed, told):
    likes = (RATINGS > 3.0).astype(float)
    begun = model(max_iter=1).fit(USERS, ITEMS, likes)
    hogshare.save(begun, tmp_path / "model.npz")
    for one in (begun, hogshare.load(tmp_path / "model.npz")):
        before = one.user_factors_.copy()
        with pytest.raises(ValueError, match=f"{told}.* use fit to begin anew"):
            one.set_params(**changed).partial_fit(USERS, ITEMS, likes)
        np.testing.assert_array_equal(one.user_factors_, before)
        one.fit(USERS, ITEMS, likes).partial_fit(USERS, ITEMS, likes)
    saved = save_load.to_saved(begun)
    del saved.attributes["_form"]
    model_file.save(tmp_path / "model.npz", saved)
    hogshare.load(tmp_path / "model.npz").partial_fit(USERS, ITEMS, likes)


def test_a_pair_of_a_later_part_counts_once():
    grown = model(max_iter=2).fit([1, 1, 2], [1, 1, 3], [1.0, 2.0, 3.0])
    assert grown.user_counts_.tolist() == [2, 1]
    grown.partial_fit([1, 1, 5, 5], [1, 3, 9, 9], [1.0, 2.0, 3.0, 4.0])
    assert grown.user_counts_.tolist() == [3, 1, 2]
    assert grown.item_counts_.tolist() == [2, 2, 2]
    for _ in range(2):  # a count of 256 in a byte is none
        grown.partial_fit([1] * 255, [1] * 255, np.ones(255))
    assert grown.user_counts_.tolist() == [3, 1, 2] and grown.seen_.nnz == 4


@pytest.mark.parametrize("settings", [{}, {"alpha": "auto"}, {"biases": False}, {"n_factors": 0}])
@pytest.mark.parametrize("unit", [1e-6, 0.1, 0.25, 1e6])
def test_ratings_in_another_unit_have_the_same_fit(settings, unit):
    ratings = RATINGS + RNG.normal(size=len(RATINGS))
    plain = model(max_iter=10, **settings)
    scaled = clone(plain)
    if scaled.alpha != "auto":
        scaled.set_params(alpha=unit * scaled.alpha)
    plain.fit(USERS, ITEMS, ratings)
    scaled.fit(USERS, ITEMS, unit * ratings)
    expected = plain.predict(USERS, ITEMS)
    near = 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(scaled.predict(USERS, ITEMS) / unit, expected, rtol=0, atol=near)
    plain.partial_fit(USERS[:500], ITEMS[:500], ratings[:500])
    scaled.partial_fit(USERS[:500], ITEMS[:500], unit * ratings[:500])
    expected = plain.predict(USERS, ITEMS)
    np.testing.assert_allclose(scaled.predict(USERS, ITEMS) / unit, expected, rtol=0, atol=near)


FORMS = [
    {},
    {"biases": False},
    {"nonnegative": True},
    {"nonnegative": True, "biases": False},
    {"n_factors": 0},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("unit", [1e-6, 0.001, 0.2, 0.25, 1.0, 5.0, 1000.0, 1e6])
def test_ratings_times_a_number_are_predicted_times_that_number(form, unit):
    """With the settings that are there without a choice, to the rounding of float32."""
    rng = np.random.default_rng(0)
    ratings = np.clip(np.round(RATINGS + rng.normal(size=len(RATINGS))), 1.0, 5.0)
    plain, scaled = (MatrixFactorization(random_state=0, n_jobs=1, **form) for _ in range(2))
    expected = plain.fit(USERS, ITEMS, ratings).predict(USERS, ITEMS).astype(np.float64)
    told = scaled.fit(USERS, ITEMS, unit * ratings).predict(USERS, ITEMS) / unit
    np.testing.assert_allclose(told, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    assert scaled.alpha_ / unit == pytest.approx(plain.alpha_, rel=1e-6)
    assert scaled.report_.problem["alpha"] == pytest.approx(scaled.alpha_)
    vector = scaled.report_.model.params.reshape(N_USERS + N_ITEMS, -1)
    k = scaled.user_factors_.shape[1]
    np.testing.assert_array_equal(vector[:N_USERS, :k], scaled.user_factors_)
    if unit == 0.25:
        np.testing.assert_array_equal(told, expected)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("more", [3.0, -100.0, 1000.0])
def test_ratings_plus_a_number_are_predicted_plus_that_number(form, more):
    plain, moved = (MatrixFactorization(random_state=0, n_jobs=1, **form) for _ in range(2))
    expected = plain.fit(USERS, ITEMS, RATINGS).predict(USERS, ITEMS)
    told = moved.fit(USERS, ITEMS, RATINGS + more).predict(USERS, ITEMS)
    rounding = np.finfo(np.float32).eps * (abs(more) + 20.0)
    if form == {"nonnegative": True, "biases": False}:  # products alone, which have no mean
        assert moved.mean_ == pytest.approx(plain.mean_ + more)
        assert not moved._predicts_mean
        return
    np.testing.assert_allclose(told - np.float32(more), expected, rtol=0, atol=2 * rounding)


def test_losses_and_their_tolerance_have_the_unit_of_the_ratings():
    few = {"alpha": "auto", "tol": 0.05, "n_iter_no_change": 1}
    plain = model(**few).fit(USERS, ITEMS, RATINGS)
    scaled = model(**{**few, "tol": 0.05 * 7.0**2}).fit(USERS, ITEMS, 7.0 * RATINGS)
    assert plain.n_iter_ == scaled.n_iter_ < 60
    np.testing.assert_allclose(
        scaled.report_.epoch_losses, 49.0 * plain.report_.epoch_losses, rtol=1e-6
    )
    at_the_end = 0.5 * np.mean(np.square(plain.predict(USERS, ITEMS) - RATINGS))
    assert at_the_end < plain.report_.last_loss < 4.0 * at_the_end
    step = scaled.report_.step["eta0"] * 7.0
    assert step == pytest.approx(plain.report_.step["eta0"], rel=1e-6)


def test_ratings_that_differ_by_rounding_are_the_same():
    nearly = 0.1 + 0.2, 0.3  # which differ by a bit
    with_step = model(alpha="auto", max_iter=3)
    told = with_step.fit(USERS[:1000], ITEMS[:1000], np.resize(nearly, 1000)).predict(0, 0)
    assert told == pytest.approx(0.3, rel=1e-5)


@pytest.mark.parametrize("n_jobs", [2, 4])
@pytest.mark.parametrize("barrier", [None, "bsp"])
def test_a_master_keeps_up_where_a_few_have_rated_much(n_jobs, barrier):
    """Messages that begin at one vector carry the lines that all of them touch no further."""
    rng = np.random.default_rng(0)
    users, items = (300 * rng.random(20_000) ** 4).astype(int), rng.integers(200, size=20_000)
    users[rng.random(20_000) < 0.3] = 0
    ratings = (rng.normal(size=(300, 4))[users] * rng.normal(size=(200, 4))[items]).sum(axis=1)
    settings = {"plane": "master", "barrier": barrier, "max_iter": 20, "alpha": 2.0}
    alone = MatrixFactorization(4, random_state=0, max_iter=20, alpha=2.0)
    together = MatrixFactorization(4, random_state=0, n_jobs=n_jobs, runtime="threads", **settings)
    best = alone.fit(users, items, ratings).score(users, items, ratings)
    assert together.fit(users, items, ratings).score(users, items, ratings) > best - 0.1


@pytest.mark.parametrize("loss", ["squared_error", "logistic"])
def test_ratings_that_are_all_the_same_are_announced(loss):
    ones = np.ones(3000)
    with pytest.warns(UserWarning, match="All 3,000 ratings are 1, .*taken for pairs"):
        model(loss=loss, max_iter=2).fit(USERS, ITEMS, ones)
    with pytest.warns(UserWarning, match="All 3,000 ratings are 1: no item is rated lower"):
        as_they_are = model(loss=loss, solver="sgd", negatives=0, max_iter=2)
        assert as_they_are.fit(USERS, ITEMS, ones).predict(1, 1) > 0.99
    with pytest.warns(UserWarning, match="All 3,000 ratings are 0: no item is rated higher"):
        model(loss=loss, max_iter=2).fit(USERS, ITEMS, 0.0 * ones)
    assert model(max_iter=1).fit([1], [1], [1.0]).predict(1, 1) == pytest.approx(1.0)


def test_partial_fit_alone_is_an_epoch_of_fit():
    one = model(max_iter=1).fit(USERS, ITEMS, RATINGS)
    other = model().partial_fit(USERS, ITEMS, RATINGS)
    np.testing.assert_allclose(
        one.predict(USERS, ITEMS), other.predict(USERS, ITEMS), rtol=1e-4, atol=1e-4
    )
    other.set_params(n_factors=3)
    with pytest.raises(ValueError, match="the model has 2"):
        other.partial_fit(USERS, ITEMS, RATINGS)


def test_logistic_predicts_probabilities():
    likes = (RATINGS > 3.0).astype(int)
    probable = model(loss="logistic").fit(USERS, ITEMS, likes).predict(USERS, ITEMS)
    assert probable.min() >= 0.0 and probable.max() <= 1.0
    assert ((probable > 0.5) == likes).mean() > 0.9


def test_factors_that_are_not_negative():
    positive = model(nonnegative=True, biases=False).fit(USERS, ITEMS, RATINGS - RATINGS.min())
    assert positive.user_factors_.min() >= 0.0 and positive.item_factors_.min() >= 0.0
    assert positive.score(USERS, ITEMS, RATINGS - RATINGS.min()) > 0.3


def test_default_settings_are_no_worse_than_biases_alone():
    """Of ratings that biases explain, and noise."""
    rng = np.random.default_rng(1)
    users, items = rng.integers(400, size=6000), (300 * rng.random(6000) ** 2).astype(int)
    ratings = rng.normal(size=400)[users] + rng.normal(size=300)[items] + rng.normal(size=6000)
    train, test = np.arange(5000), np.arange(5000, 6000)
    scores = [
        MatrixFactorization(k, random_state=0, unknown="ignore")
        .fit(users[train], items[train], ratings[train])
        .score(users[test], items[test], ratings[test])
        for k in (8, 0)
    ]
    assert scores[0] > scores[1] - 0.005


def test_scikit_learns_conventions(fitted):
    same = clone(fitted)
    assert same.get_params() == fitted.get_params() and not hasattr(same, "user_factors_")
    for ask in (lambda: same.predict(0, 0), lambda: same.recommend(0), lambda: same.score(0, 0, 0)):
        with pytest.raises(NotFittedError):
            ask()
    with pytest.raises(InvalidParameterError, match="n_factors"):
        model(n_factors=-1).fit(USERS, ITEMS, RATINGS)
    with pytest.raises(InvalidParameterError, match="loss"):
        model(loss="hinge").fit(USERS, ITEMS, RATINGS)


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        (([], [], []), ValueError, "no ratings"),
        ((USERS, ITEMS, np.full(3000, np.inf)), ValueError, "NaN or infinity"),
        ((USERS, ITEMS[:5], RATINGS), ValueError, "5 items"),
        ((USERS,), TypeError, "sparse matrix"),
        (([1.0, np.nan], [1, 2], [1, 2]), ValueError, "users contains NaN"),
        (
            (np.array(["2020-01-01", "NaT"], "M8[s]"), [1, 2], [1, 2]),
            ValueError,
            "users contains NaT",
        ),
        (([1, 2], np.array([1, "NaT"], "m8[ns]"), [1, 2]), ValueError, "items contains NaT"),
        ((USERS, ITEMS, np.repeat([1.0, 1e39], 1500)), ValueError, "1e\\+39, first at"),
        ((USERS, ITEMS, -1e200 * np.ones(3000)), ValueError, "divide all of them"),
        ((USERS, ITEMS, np.repeat([0.0, -1e-50], 1500)), ValueError, "to -1e-50, first at .* 1500"),
        (([[1], [2]], [1, 2], [1, 2]), TypeError, "there is a list"),
        ((sp.csr_array((3, 3)),), ValueError, "no ratings"),
        ((sp.csr_array(np.eye(3)), USERS), TypeError, "neither items nor"),
    ],
)
def test_what_cannot_be_fitted_is_refused(given, error, told):
    with pytest.raises(error, match=told):
        model().fit(*given)


def test_a_count_is_no_probability():
    with pytest.raises(ValueError, match="give counts as 1"):
        model(loss="logistic").fit(USERS, ITEMS, np.arange(3000) - 5)


def test_steps_too_long_are_announced_in_its_own_words(monkeypatch):
    with pytest.raises(ValueError, match=r"problem: a smaller eta0 than 50 might help\.$"):
        model(eta0=50.0).fit(USERS, ITEMS, RATINGS)
    begun = model(max_iter=2).fit(USERS, ITEMS, RATINGS)
    with pytest.raises(ValueError, match="a smaller eta0 than 500 might help"):
        begun.set_params(eta0=500.0).partial_fit(USERS, ITEMS, RATINGS)
    monkeypatch.setattr(factorisation, "FIRST_STEP", 500.0)
    shortened = model().fit(USERS, ITEMS, RATINGS)  # steps of our own choice become shorter
    assert shortened.score(USERS, ITEMS, RATINGS) > 0.9
    monkeypatch.setattr(factorisation, "SHORTEST", 2.0)
    expected = r"problem: eta0=[0-9.]+ \(eta0='auto' began with [0-9.]+\) might help\.$"
    with pytest.raises(ValueError, match=expected):
        model().fit(USERS, ITEMS, RATINGS)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize("plane", [Grid(), Shared(), Shared(exchange=None)], ids=repr)
def test_a_worker_that_is_killed_leaves_a_model(plane):
    """In the middle of a fit, which ends when the death was told; the other goes on."""
    kept = model(n_jobs=2, runtime="processes", plane=plane, max_iter=10**7, eta0=0.05)
    killed = []

    def kill(epoch, snapshot):
        if not killed and epoch > 20:
            killed.extend(kill_members())
        return epoch > 4000 and len(told) > 0

    kept._on_epoch = kill
    with pytest.warns(WorkerDied) as told:
        kept.fit(USERS, ITEMS, RATINGS)
    assert killed and kept.n_iter_ > 4000
    assert kept.score(USERS, ITEMS, RATINGS) > 0.95


@pytest.mark.parametrize("kind", [int, str, lambda k: ("u", int(k)) if k % 2 else int(k)])
def test_it_travels(tmp_path, kind):
    path = tmp_path / "model.npz"
    first = model(max_iter=3, plane=Shared()).fit([kind(u) for u in USERS], ITEMS, RATINGS)
    hogshare.save(first, path)
    again = hogshare.load(path)
    assert repr(again) == repr(first) and not hasattr(again, "report_")
    for name in ("users_", "items_", "user_factors_", "item_biases_", "user_counts_"):
        ours, theirs = getattr(first, name), getattr(again, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    users = [kind(u) for u in USERS[:50]]
    np.testing.assert_array_equal(
        again.predict(users, ITEMS[:50]), first.predict(users, ITEMS[:50])
    )
    assert again.recommend(users[:3]) == first.recommend(users[:3])
    one, other = (m.partial_fit(users, ITEMS[:50], RATINGS[:50]) for m in (first, again))
    np.testing.assert_array_equal(one.user_factors_, other.user_factors_)


def test_vocabularies():
    for ids in (np.array([5, 3, 5, 9]), np.array([10**12, 3, 10**12]), np.array(["b", "a", "b"])):
        names, codes = distinct(ids)
        np.testing.assert_array_equal(names[codes], ids)
        assert len(names) == len(set(ids.tolist()))
    known = Vocabulary(np.array([4, 2]))
    assert known.lines(np.array([2, 3, 4])).tolist() == [1, -1, 0]
    grown, lines = known.grown(np.array([7, 4, 7]))
    assert grown.ids.tolist() == [4, 2, 7] and lines.tolist() == [2, 0, 2]
    assert known.grown(np.array([2]))[0] is known
    assert as_array([1, True], "ids").dtype == object


def test_a_file_of_an_earlier_version_has_biases_step_as_factors_do(fitted):
    saved = save_load.to_saved(fitted)
    attributes = {name: value for name, value in saved.attributes.items() if name != "_pace"}
    model_file.check(dataclasses.replace(saved, attributes=attributes))
    with pytest.raises(ValueError, match="_pace"):
        bad = {**attributes, "_pace": np.nan}
        model_file.check(dataclasses.replace(saved, attributes=bad))
    assert MatrixFactorization._pace == 1.0


def test_candidates_are_all_there_is_to_choose_from(fitted):
    everything = fitted.recommend(4, n=1000, exclude_seen=False)
    few = [9, 3, 3, 11, 0]
    told = fitted.recommend([4, 9], n=1000, exclude_seen=False, candidates=few)
    assert told[0] == [pair for pair in everything if pair[0] in few]
    assert told[1] == fitted.recommend(9, n=1000, exclude_seen=False, candidates=few)
    seen = set(ITEMS[USERS == 4])
    told = fitted.recommend(4, n=1000, candidates=few)
    assert [item for item, _ in told] == [i for i, _ in everything if i in few and i not in seen]
    with pytest.warns(UserWarning, match="candidates that were in no fit, such as 999"):
        assert fitted.recommend(4, candidates=[999]) == []


@pytest.mark.parametrize("biases", [True, False])
def test_lists_in_blocks_are_those_of_each(fitted, biases, monkeypatch):
    made = fitted if biases else model(biases=False, unknown="ignore").fit(USERS, ITEMS, RATINGS)
    users = [*range(12), 999] if not biases else range(12)
    whole = made.recommend(users, n=7)
    monkeypatch.setattr("hogshare.estimators.recommendations.BLOCK_SCORES", 1)
    assert made.recommend(users, n=7) == whole == [made.recommend(user, n=7) for user in users]


def test_equal_predictions_come_in_the_order_of_the_items():
    flat = model(n_factors=0).fit([0, 0, 1, 1], [0, 1, 2, 3], [1.0, 1.0, 1.0, 1.5])
    flat.item_biases_[:] = [0.0, 0.5, 0.5, 0.5]
    told = flat.recommend(0, n=2, exclude_seen=False)
    assert [item for item, _ in told] == [1, 2]


@pytest.mark.parametrize("how", ["plain", "nonnegative", "logistic", "without biases"])
def test_who_was_in_no_fit_is_folded_in(how):
    values = RATINGS
    if how == "logistic":
        values = (np.median(RATINGS) < RATINGS).astype(float)
    settings = {"nonnegative": how == "nonnegative", "biases": how != "without biases"}
    loss = "logistic" if how == "logistic" else "squared_error"
    made = model(loss=loss, alpha=0.5, **settings).fit(USERS, ITEMS, values)
    before = made.user_factors_.copy(), made.item_factors_.copy()
    own = USERS == 4
    ratings = dict(zip(ITEMS[own].tolist(), values[own].tolist(), strict=True))
    told = dict(made.recommend(ratings=ratings, n=1000, exclude_seen=False))
    lines = np.array(list(ratings))
    bias, factors = made._folded_in(lines, np.array(list(ratings.values())))
    assert not settings["nonnegative"] or factors.min() >= 0.0

    def objective(w):
        z = made.item_factors_[lines] @ w[:-1]
        z = z + made.mean_ + made.item_biases_[lines] + w[-1]
        r = np.array(list(ratings.values()))
        losses = np.logaddexp(0.0, z) - r * z if loss == "logistic" else 0.5 * (z - r) ** 2
        return losses.sum() + 0.25 * w[:-1] @ w[:-1] + 0.5 * made.bias_alpha * w[-1] ** 2

    best, rng = objective(np.append(factors, bias)), np.random.default_rng(0)
    for _ in range(50):  # nothing near it is better
        other = np.append(factors, bias) + 1e-3 * rng.standard_normal(len(factors) + 1)
        other[:-1] = np.maximum(other[:-1], 0.0) if settings["nonnegative"] else other[:-1]
        other[-1] = other[-1] if made.biases else 0.0
        assert objective(other) >= best
    # one who has rated alike is predicted alike
    items = np.arange(N_ITEMS)
    close = np.array([told[item] for item in items.tolist()])
    assert np.corrcoef(close, made.predict(4, items))[0, 1] > 0.9
    assert not set(ratings) & {item for item, _ in made.recommend(ratings=ratings, n=1000)}
    np.testing.assert_array_equal(before[0], made.user_factors_)
    np.testing.assert_array_equal(before[1], made.item_factors_)


def test_what_nobody_could_recommend_is_refused(fitted):
    with pytest.raises(TypeError, match="takes either users, or ratings="):
        fitted.recommend()
    with pytest.raises(TypeError, match="takes either users, or ratings="):
        fitted.recommend(4, ratings={1: 1.0})
    with pytest.raises(TypeError, match="ratings must be a dict"):
        fitted.recommend(ratings=[1.0])
    with pytest.warns(UserWarning, match="items that were in no fit, such as 999"):
        told = fitted.recommend(ratings={999: 1.0}, n=3)
    assert told == fitted.recommend(ratings={}, n=3)  # what all like


def test_similar_ones_have_factors_that_point_the_same_way(fitted):
    for kind, factors in (("items", fitted.item_factors_), ("users", fitted.user_factors_)):
        ask = getattr(fitted, f"similar_{kind}")
        told = ask(3, n=5)
        unit = factors / np.linalg.norm(factors, axis=1, keepdims=True)
        cosines = unit @ unit[3]
        cosines[3] = -np.inf
        assert [who for who, _ in told] == np.argsort(-cosines, kind="stable")[:5].tolist()
        np.testing.assert_allclose([c for _, c in told], np.sort(cosines)[::-1][:5], rtol=1e-5)
        assert ask([3, 5], n=5) == [told, ask(5, n=5)]
        with pytest.warns(UserWarning, match=f"{kind} that were in no fit"):
            assert ask(999) == []


@pytest.mark.parametrize("sigma", [1.0, 2.0, 4.0])
def test_a_few_huge_ratings_are_fitted(sigma):
    rng = np.random.default_rng(0)
    ratings = rng.lognormal(0.0, sigma, 3000)
    fit = MatrixFactorization(8, random_state=0, n_jobs=1).fit(USERS, ITEMS, ratings)
    assert fit.score(USERS, ITEMS, ratings) > -0.01
    ratings = np.full(3000, 5.0)
    ratings[0] = 4.0
    near = MatrixFactorization(8, random_state=0, n_jobs=1).fit(USERS, ITEMS, ratings)
    np.testing.assert_allclose(near.predict(USERS[1:], ITEMS[1:]), 5.0, atol=0.2)
