"""`TableEncoder`: columns of a table as numbers; whole and part by part, in memory and in files."""

import datetime
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import hogshare
from hogshare import TableEncoder
from hogshare.io import archives
from hogshare.io.encoding import Learner, Tally, part_of
from hogshare.io.models import encoders, model_file
from hogshare.io.table_parts import NotEncoded, Part

N_ROWS = 300


def people(n_rows=N_ROWS, lacking=True):
    draws = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": draws.integers(18, 80, n_rows).astype(float),
            "city": draws.choice(["Rome", "Oslo", "Bern"], n_rows),
            "income": draws.lognormal(10, 1, n_rows),
            "member": draws.random(n_rows) < 0.5,
        }
    )
    if lacking:
        table.loc[::7, "age"] = np.nan
        table.loc[::11, "city"] = None
    return table


@parametrize_with_checks([TableEncoder(), TableEncoder(scale=True, missing="indicator")])
def test_scikit_learn_takes_it_for_a_transformer(estimator, check):
    check(estimator)


@pytest.mark.quick
def test_columns_are_those_of_a_careful_pipeline():
    table = people()
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    theirs = make_column_transformer(
        (numbers, ["age"]),
        (OneHotEncoder(sparse_output=False), ["city"]),
        (StandardScaler(), ["income", "member"]),
    ).fit_transform(table)
    encoder = TableEncoder(scale=True).fit(table)
    np.testing.assert_allclose(encoder.transform(table), theirs, atol=1e-12)
    assert encoder.kinds_ == ["number", "category", "number", "number"]
    assert encoder.get_feature_names_out().tolist() == [
        *("age", "city=Bern", "city=Oslo", "city=Rome", "city missing", "income", "member"),
    ]


def test_an_indicator_says_where_numbers_are_missing():
    table = people()
    made = TableEncoder(missing="indicator").fit_transform(table)
    assert made.shape[1] == 8
    np.testing.assert_array_equal(made[:, 1], table["age"].isna())
    assert np.allclose(made[::7, 0], table["age"].mean())


def cut(table, encoder, sizes):
    """The parts of a table, and what learns of them."""
    learner = Learner(encoder, list(table.columns), range(table.shape[1]))
    called = [profile.called for profile in learner.profiles]
    ends = np.cumsum(sizes)
    return learner, [
        part_of(table.iloc[a:b], called)
        for a, b in zip([0, *ends], [*ends, len(table)], strict=True)
    ]


def test_part_by_part_is_as_whole():
    table = people()
    whole = TableEncoder(scale=True).fit(table)
    learner, parts = cut(table, TableEncoder(scale=True), [1, 50, 3, 120])
    for part in parts:
        learner.add(part)
    encoder = learner.settle()
    assert encoder.kinds_ == whole.kinds_
    for one, other in zip(encoder.categories_, whole.categories_, strict=True):
        assert one.tolist() == other.tolist()
    np.testing.assert_allclose(encoder.means_, whole.means_, rtol=1e-12)
    np.testing.assert_allclose(encoder.scales_, whole.scales_, rtol=1e-12)
    made = np.concatenate([whole.encode(part, Tally()) for part in parts])
    np.testing.assert_array_equal(made, whole.transform(table))


def test_numbers_before_the_first_text_are_categories_as_they_were_written():
    def part(*cells):
        return Part([list(cells)], None, lambda row: f"line {row}")

    learner = Learner(TableEncoder(), ["code"], [0])
    for cells in (("1", "01", "2"), ("1", "3+"), ("2", "")):
        learner.add(part(*cells))
    encoder = learner.settle()
    assert encoder.categories_[0].tolist() == ["01", "1", "2", "3+"]
    assert encoder.encode(part("01", "1.0"), Tally()).tolist() == [[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]


def test_many_categories_make_sparse_rows_of_the_same_numbers():
    draws = np.random.default_rng(0)
    table = people(2_000)
    table["street"] = draws.choice([f"street {k}" for k in range(500)], 2_000)
    encoder = TableEncoder(scale=True).fit(table)
    made = encoder.transform(table)
    assert encoder.is_sparse_ and sp.issparse(made) and made.has_canonical_format
    names = encoder.get_feature_names_out().tolist()
    assert made.shape == (2_000, len(names)) == (2_000, encoder.n_features_out_)
    k = names.index(f"street={table['street'][5]}")
    assert made[5, k] == 1.0 and made[[5], :].nnz <= 5
    income = table["income"].to_numpy()  # not centred, which would leave no zeros
    column = np.asarray(made[:, [names.index("income")]].todense()).ravel()
    np.testing.assert_allclose(column, income / income.std())


@pytest.mark.parametrize("scale", [False, True])
def test_sparse_matrices_are_scaled_and_stay_sparse(scale):
    X = sp.random_array((200, 30), density=0.1, random_state=np.random.default_rng(0), format="csr")
    made = TableEncoder(scale=scale).fit(X).transform(X)
    theirs = StandardScaler(with_mean=False).fit_transform(sp.csr_matrix(X)) if scale else X
    np.testing.assert_allclose(made.toarray(), theirs.toarray())
    with pytest.raises(ValueError, match="finite"):
        TableEncoder().fit(sp.csr_array(np.array([[np.nan, 1.0]])))
    with pytest.raises(ValueError, match="fitted to a table"):
        TableEncoder().fit(np.eye(3)).transform(sp.csr_array(np.eye(3)))


def test_text_that_the_fit_did_not_have_is_warned_of_and_is_no_category():
    encoder = TableEncoder().fit(people())
    later = people(4, lacking=False)
    later["city"] = ["Rome", "Paris", "Paris", "Nice"]
    with pytest.warns(UserWarning, match=r"column 2 \('city'\): 3 values .*'Paris', 'Nice'"):
        made = encoder.transform(later)
    assert made[:, 1:5].sum(axis=1).tolist() == [1, 0, 0, 0]


def test_columns_without_values_are_left_out_and_missing_ones_are_filled_in_later():
    table = people(lacking=False).assign(nothing=np.nan, none=None)
    encoder = TableEncoder().fit(table)
    assert encoder.kinds_[-2:] == ["empty", "empty"]
    assert encoder.n_features_out_ == 6
    later = table.assign(age=np.nan, city=None)
    made = encoder.transform(later)
    assert np.allclose(made[:, 0], table["age"].mean()) and not made[:, 1:4].any()


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (["1", " 2 ", "true", "False", "NA", None], [1, 2, 1, 0, 1, 1]),
        ([Decimal("1.5"), 2, True, None], [1.5, 2, 1, 1.5]),
        (pd.array([1, None, 3], dtype="Int64"), [1, 2, 3]),
        (pd.array([True, None, False], dtype="boolean"), [1, 0.5, 0]),
        (pd.Categorical([3, 4, 3]), [3, 4, 3]),
        (np.array([1, 2], np.uint8), [1, 2]),
    ],
)
def test_what_are_numbers(values, numbers):
    table = pd.DataFrame({"a": pd.Series(values)})
    assert TableEncoder().fit_transform(table).ravel().tolist() == numbers


def test_numbers_and_text_are_found_alike_whatever_holds_them():
    table = people()
    text = table.astype(object).where(table.notna(), None)
    made = TableEncoder().fit_transform(table)
    np.testing.assert_array_equal(TableEncoder().fit_transform(text), made)
    np.testing.assert_array_equal(TableEncoder().fit_transform(text.to_numpy()), made)


DAYS = [f"2020-01-{k % 28 + 1:02d}" for k in range(60)]
REFUSED = {
    "days": (DAYS, r"has dates or times \(such as '2020-01-01'\)"),
    "moments": ([f"{day}T12:30:00Z" for day in DAYS], "has dates or times"),
    "local": ([f"{k % 28 + 1}.1.2020 8:15" for k in range(60)], "has dates or times"),
    "months": ([f"{k % 28 + 1} Jan 2020" for k in range(60)], "has dates or times"),
    "clock": ([f"{k % 24}:30" for k in range(60)], "has dates or times"),
    "typed": (pd.to_datetime(DAYS), "has dates or times"),
    "objects": ([datetime.date(2020, 1, 1)] * 60, "has dates or times"),
    "ids": ([f"u{k:04d}" for k in range(60)], "60 different texts in 60 rows"),
    "slip": ([*map(str, np.linspace(0, 1, 59)), "x"], "'x' is not a number .* as 98.3% of"),
    "commas": (["1.234,5", "2,5"] * 30, "'1.234,5' has a comma"),
    "units": ([f"{k}kg" for k in range(30)] * 2, "'0kg' is not a number .* but one with a unit"),
    "infinite": ([1.0, np.inf] * 30, "the value is inf"),
    "lists": ([[1], [2]] * 30, "a value of the type list"),
    "complex": ([1j] * 60, "complex|values of complex128"),
    "many": ([f"t{k % 1001}" for k in range(4_000)], "more than 1,000 different texts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_by_name(name):
    values, words = REFUSED[name]
    table = pd.DataFrame({"a": 1.0, "b": pd.Series(values)})
    with pytest.raises(ValueError, match=words) as caught:
        TableEncoder().fit(table)
    assert "column 2 ('b')" in str(caught.value) or name == "complex"


def test_parameters_refuse_text_and_missing_values_and_take_more_categories():
    many = pd.DataFrame({"b": [f"t{k % 1001}" for k in range(4_000)]})
    assert TableEncoder(categories=1_001).fit(many).n_features_out_ == 1_001
    with pytest.raises(NotEncoded, match=r"row 1, column 2 .'city'.: 'Oslo' is not a number"):
        TableEncoder(categories="error").fit(people().iloc[1:].assign(city="Oslo"))
    with pytest.raises(NotEncoded, match=r"row 7, column 1 .'age'.: the value is missing"):
        TableEncoder(missing="error").fit(people().iloc[1:])
    encoder = TableEncoder(missing="error").fit(people(lacking=False))
    with pytest.raises(NotEncoded, match="row 1, column 1"):
        encoder.transform(people())


def test_text_where_the_fit_had_numbers_is_refused():
    encoder = TableEncoder().fit(people())
    with pytest.raises(NotEncoded, match=r"row 2, column 1 .'age'.: 'old' is not a number"):
        encoder.transform(people(3).assign(age=["1", "old", "2"]))


def pipeline(kind=hogshare.LogisticRegression, **settings):
    table = people()
    bought = np.where((table["age"].fillna(40) > 40) ^ (table["city"] == "Rome"), "yes", "no")
    model = make_pipeline(TableEncoder(**settings), kind(random_state=0))
    return model.fit(table, bought), table


@pytest.mark.parametrize("settings", [{}, {"scale": True, "missing": "indicator"}])
@pytest.mark.parametrize("kind", [hogshare.LogisticRegression, hogshare.MLPClassifier])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_pipeline_comes_back_from_its_file(tmp_path, kind, settings):
    model, table = pipeline(kind, **settings)
    hogshare.save(model, tmp_path / "m.npz")
    again = hogshare.load(tmp_path / "m.npz")
    assert [name for name, _ in again.steps] == [name for name, _ in model.steps]
    assert repr(again[0]) == repr(model[0])
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    hogshare.save(again, tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "m.npz").read_bytes()


def test_other_pipelines_are_refused(tmp_path):
    other = make_pipeline(StandardScaler(), hogshare.Ridge()).fit(np.eye(3), np.arange(3.0))
    with pytest.raises(TypeError, match="Pipeline of StandardScaler, Ridge"):
        hogshare.save(other, tmp_path / "m.npz")
    model, _ = pipeline()
    model.steps[0] = ("new", TableEncoder())
    with pytest.raises(ValueError, match="not fitted"):
        hogshare.save(model, tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())


def header_of(path):
    with np.load(path) as archive:
        return json.loads(archive["header"].tobytes())


def test_models_without_an_encoder_are_files_as_before(tmp_path):
    hogshare.save(hogshare.Ridge().fit(np.eye(3), np.arange(3.0)), tmp_path / "m.npz")
    header = header_of(tmp_path / "m.npz")
    assert header["format_version"] == 2 and "encoding" not in header
    hogshare.save(pipeline()[0], tmp_path / "m.npz")
    assert header_of(tmp_path / "m.npz")["format_version"] == 3


def change(fitted, name, value):
    return {**fitted, name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_features_in_", 5),
        ("kinds_", ["number"] * 4),
        ("kinds_", ["text"] * 4),
        ("categories_", [np.empty(0, object)] * 4),
        ("means_", np.zeros(3)),
        ("means_", np.full(4, np.nan)),
        ("scales_", np.zeros(4)),
        ("with_missing_", np.zeros(4)),
        ("is_sparse_", 1),
        ("feature_names_in_", np.array(["a"], object)),
    ],
)
def test_a_file_with_an_encoder_that_is_none_is_refused(tmp_path, name, value):
    hogshare.save(pipeline()[0], tmp_path / "m.npz")
    saved = model_file.load(tmp_path / "m.npz")
    saved.encoding["fitted"] = change(saved.encoding["fitted"], name, value)
    with pytest.raises((ValueError, TypeError)):
        encoders.check(saved.encoding, saved.n_features)


def test_an_encoder_of_another_model_is_refused(tmp_path):
    hogshare.save(pipeline()[0], tmp_path / "m.npz")
    saved = model_file.load(tmp_path / "m.npz")
    with pytest.raises(ValueError, match="not those of the model"):
        encoders.check(saved.encoding, saved.n_features + 1)
    header = header_of(tmp_path / "m.npz")
    header["encoding"]["params"] = {"mapping": [["scale", "yes"]]}
    with np.load(tmp_path / "m.npz") as archive:
        arrays = {name: archive[name] for name in archive if name != "header"}
    archives.write(tmp_path / "bad.npz", header, arrays)
    with pytest.raises(ValueError, match=r"bad.npz: not a hogshare model"):
        hogshare.load(tmp_path / "bad.npz")
