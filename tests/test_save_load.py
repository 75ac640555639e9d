"""`hogshare.save` and `hogshare.load`: every class and kind of label, bit for bit; refusals."""

import copy
import io
import json
import os
import pickle
from pathlib import Path

import fleet
import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier as TheirClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hogshare
from hogshare.cli.main import main
from hogshare.io import archives
from hogshare.io.models import model_file

# MatrixFactorization, which is none of scikit-learn's, topics and networks have their own tests
ESTIMATORS = [
    name
    for name in hogshare.__all__
    if hasattr(getattr(hogshare, name), "to_sklearn")
    and hasattr(getattr(hogshare, name), "predict")
    and not name.startswith("MLP")
]


def assert_same(value, other):
    """Type by type, bit by bit."""
    assert type(value) is type(other)
    if isinstance(value, np.ndarray):
        assert value.dtype == other.dtype and value.shape == other.shape
        assert value.flags.f_contiguous == other.flags.f_contiguous
        np.testing.assert_array_equal(value, other)
    elif sparse.issparse(value):
        assert_same(value.toarray(), other.toarray())
    elif isinstance(value, dict):
        assert_same(list(value), list(other))
        assert_same(list(value.values()), list(other.values()))
    elif isinstance(value, list | tuple):
        assert len(value) == len(other)
        for part, counterpart in zip(value, other, strict=True):
            assert_same(part, counterpart)
    else:
        assert value == other


def state(estimator):
    """What there is besides parameters, as far as it travels."""
    known = vars(estimator)
    left = {"report_", "_run_by", "_label_binarizer", *estimator.get_params(deep=False)}
    return {name: value for name, value in sorted(known.items()) if name not in left}


def assert_travels(estimator, path, X):
    hogshare.save(estimator, path)
    again = hogshare.load(path)
    assert type(again) is type(estimator) and repr(again) == repr(estimator)
    assert_same(again.get_params(), estimator.get_params())
    assert_same(state(again), state(estimator))
    fleet.assert_same_answers(estimator, again, X)
    assert_same(clone(again).get_params(), clone(estimator).get_params())
    return again


def test_the_fleet_has_every_estimator():
    assert {name for name, *_ in fleet.cases().values()} == set(ESTIMATORS)


@pytest.mark.parametrize("case", fleet.cases())
@pytest.mark.quick
def test_every_estimator_travels(tmp_path, case):
    X = fleet.cases()[case][2]
    assert_travels(fleet.fitted(case), tmp_path / "m.npz", X)


def by_name(name):
    """One case of a class."""
    return next(case for case in fleet.cases() if case.startswith(f"{name}, "))


@pytest.mark.parametrize("how", ["pickle", "joblib", "deepcopy"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_pickles_and_copies_are_as_before(tmp_path, name, how):
    case = by_name(name)
    model = fleet.fitted(case)
    if how == "joblib":
        joblib.dump(model, tmp_path / "m")
        again = joblib.load(tmp_path / "m")
    else:
        again = copy.deepcopy(model) if how == "deepcopy" else pickle.loads(pickle.dumps(model))
    assert repr(again) == repr(model)
    fleet.assert_same_answers(model, again, fleet.cases()[case][2])


@pytest.mark.parametrize("average", [False, True, 70])
@pytest.mark.parametrize("kind", [hogshare.SGDClassifier, hogshare.SGDRegressor])
def test_partial_fit_goes_on(tmp_path, kind, average):
    X = fleet.rows()
    y = X[:, 0] if kind is hogshare.SGDRegressor else np.arange(60) % 3
    model = kind(average=average, random_state=0, n_jobs=1)
    first = {} if kind is hogshare.SGDRegressor else {"classes": [0, 1, 2]}
    model.partial_fit(X, y, **first)
    again = assert_travels(model, tmp_path / "m", X)
    for estimator in (model, again):
        estimator.partial_fit(X[::-1], y[::-1]).partial_fit(X[:7], y[:7])
    assert_same(state(again), state(model))
    again = assert_travels(model, tmp_path / "m", X)
    for estimator in (model, again):
        fleet.fit(estimator.set_params(warm_start=True, max_iter=2), X, y)
    assert_same(state(again), state(model))


@pytest.mark.parametrize("name", ["LogisticRegression", "ElasticNet"])
def test_a_warm_start_goes_on(tmp_path, name):
    settings, X, y = fleet.cases()[by_name(name)][1:]
    model = getattr(hogshare, name)(random_state=0, n_jobs=1, **settings)
    fleet.fit(model.set_params(warm_start=True, max_iter=1, runtime="caller"), X, y)
    again = assert_travels(model, tmp_path / "m", X)
    for estimator in (model, again):
        fleet.fit(estimator.set_params(max_iter=2), X, y)
    assert_same(state(again), state(model))


def test_sparse_coefficients(tmp_path):
    X = fleet.rows()
    for y in (np.arange(60) % 2, np.arange(60) % 3):
        model = fleet.fit(hogshare.SGDClassifier(penalty="l1", alpha=0.1, random_state=0), X, y)
        again = assert_travels(model.sparsify(), tmp_path / "m", X)
        assert sparse.issparse(again.coef_)
        assert_same(again.densify().coef_, model.densify().coef_)


def test_names_of_features_and_frames(tmp_path):
    X = pd.DataFrame(fleet.rows(), columns=["a", "b", "ü", "1", "d\N{SNOWMAN}"])
    y = pd.Series(["yes", "no"] * 30)
    model = fleet.fit(hogshare.LogisticRegression(), X, y)
    again = hogshare_again(model, tmp_path / "m")
    assert_same(again.feature_names_in_, model.feature_names_in_)
    assert_same(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(X[["b", "a", "ü", "1", "d\N{SNOWMAN}"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        again.predict(X.to_numpy())
    model.feature_names_in_[1] = "b\0"  # which NumPy's words lose the end of
    names = hogshare_again(model, tmp_path / "m").feature_names_in_
    assert names.tolist() == ["a", "b\0", "ü", "1", "d\N{SNOWMAN}"]


def hogshare_again(model, path):
    hogshare.save(model, path)
    return hogshare.load(path)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_many_labels_for_a_row(tmp_path, form):
    X = fleet.rows()
    y = (np.random.default_rng(1).random((60, 3)) > 0.5).astype(int)
    model = fleet.fit(hogshare.RidgeClassifier(), X, form(y))
    again = assert_travels(model, tmp_path / "m", X)
    assert sparse.issparse(again.predict(X)) == sparse.issparse(form(y))


def test_a_single_class(tmp_path):
    X = fleet.rows()
    model = hogshare.RidgeClassifier().fit(X, ["all"] * 60)
    assert_travels(model, tmp_path / "m", X)


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("ratios", [None, (0.0, 0.5)])
def test_all_that_a_choice_leaves(tmp_path, legacy, refit, ratios):
    X = fleet.rows()
    y = np.array(["a", "b", "c"])[np.arange(60) % 3]
    settings = {**fleet.CLASSIFIERS["LogisticRegressionCV"], "Cs": np.array([0.1, 1.0])}
    settings |= {"l1_ratios": ratios, "use_legacy_attributes": legacy, "refit": refit}
    model = hogshare.LogisticRegressionCV(**settings, solver="saga", n_jobs=1)
    again = assert_travels(fleet.fit(model, X, y), tmp_path / "m", X)
    assert {"scores_", "coefs_paths_", "C_", "Cs_", "l1_ratio_", "l1_ratios_"} <= vars(again).keys()


PARAMETERS = [
    ("SGDClassifier", {"barrier": hogshare.SSP(3), "plane": hogshare.Shared(exchange=None)}),
    ("SGDClassifier", {"barrier": hogshare.PSSP(10, float("inf"), hold=True)}),
    ("SGDClassifier", {"barrier": hogshare.Fraction(0.5, sample=2), "plane": hogshare.Master(2)}),
    ("SGDClassifier", {"barrier": hogshare.Throttled(2), "plane": hogshare.Shared(64)}),
    ("SGDClassifier", {"class_weight": {0: 0.1, 1: np.float32(2.0)}, "penalty": None}),
    ("SGDClassifier", {"alpha": np.float64(1e-3), "max_iter": np.int64(3), "verbose": 0}),
    ("SGDClassifier", {"learning_rate": "auto", "n_jobs": -1, "tol": None, "max_iter": 2}),
    ("LogisticRegression", {"C": np.inf, "class_weight": "balanced"}),
    ("Ridge", {"alpha": np.array([0.5])}),
    ("Lasso", {"precompute": np.cov(fleet.rows().T), "barrier": hogshare.ASP()}),
    ("RidgeClassifier", {"class_weight": {0: 1, 1: 2.5}, "barrier": hogshare.BSP()}),
    ("ElasticNet", {"barrier": hogshare.PBSP(1), "l1_ratio": 1}),
]


@pytest.mark.parametrize(("name", "params"), PARAMETERS)
def test_parameters_of_all_kinds(tmp_path, name, params):
    X = fleet.rows()
    y = X[:, 0] if name in fleet.REGRESSORS else np.arange(60) % 2
    model = fleet.fit(getattr(hogshare, name)(**params), X, y)
    assert_travels(model, tmp_path / "m", X)


def test_requests_of_metadata(tmp_path):
    X = fleet.rows()
    with config_context(enable_metadata_routing=True):
        model = hogshare.SGDClassifier(max_iter=2, tol=None).fit(X, np.arange(60) % 2)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight="weights")
        again = hogshare_again(model, tmp_path / "m")
        told = again.get_metadata_routing()
        assert told.fit.requests["sample_weight"] is True
        assert told.score.requests["sample_weight"] == "weights"
        assert told.partial_fit.requests == {"classes": None, "sample_weight": None}


class Mine(hogshare.Ridge):
    pass


class Unfitted(BaseEstimator):
    pass


def test_what_is_not_saved_is_said_before_anything_is_written(tmp_path, monkeypatch):
    X, y = fleet.rows(), np.arange(60) % 2
    path = tmp_path / "m.npz"
    path.write_bytes(b"kept")
    fitted = hogshare.SGDClassifier(max_iter=2, tol=None).fit(X, y)
    others = [
        make_pipeline(StandardScaler(), fitted),
        TheirClassifier(),
        Mine().fit(X, y),
        Unfitted(),
    ]
    for other in [*others, hogshare.SGDClassifier, None, "words"]:
        with pytest.raises(TypeError, match=rf"{type(other).__name__}.*: .*skops\.io\.dump"):
            hogshare.save(other, path)
    for name in ESTIMATORS:
        with pytest.raises(NotFittedError, match=name):
            hogshare.save(getattr(hogshare, name)(), path)
    refused = [
        ("barrier", lambda table, me: True, "is a function"),
        ("random_state", np.random.RandomState(0), r"is \(or contains\) a RandomState"),
        ("class_weight", {0: pd.Series([1.0])}, r"is \(or contains\) a Series"),
        ("class_weight", {0: np.array([1.0 + 2.0j])}, "is an array of complex128"),
    ]
    for name, value, words in refused:
        model = copy.copy(fitted).set_params(**{name: value})
        with pytest.raises(ValueError, match=rf"parameter {name} {words}, and a model file"):
            hogshare.save(model, path)
    settings = {**fleet.CLASSIFIERS["LogisticRegressionCV"], "cv": StratifiedKFold(2)}
    chosen = fleet.fit(hogshare.LogisticRegressionCV(**settings), X, y)
    with pytest.raises(ValueError, match=r"the parameter cv is \(or contains\) a StratifiedKFold"):
        hogshare.save(chosen, path)
    monkeypatch.setattr(archives, "LONGEST", 3000)
    long = copy.copy(fitted).set_params(class_weight=dict.fromkeys(range(1000), 1.0))
    with pytest.raises(ValueError, match=r"the header would have .* bytes, more than the 3,000"):
        hogshare.save(long, path)
    deep = copy.copy(fitted).set_params(class_weight={0: [[[]]]})
    monkeypatch.setattr(archives, "DEPTH", 4)
    with pytest.raises(ValueError, match="nested too deeply"):
        hogshare.save(deep, path)
    broken = copy.copy(fitted)
    broken.coef_ = broken.coef_.tolist()
    with pytest.raises(ValueError, match="coefficients coef_"):
        hogshare.save(broken, path)
    for base in ("auto", 1):
        with pytest.raises(ValueError, match=r"zero_based must be True, False or None; got"):
            hogshare.save(fitted, path, zero_based=base)
    unknown = copy.copy(fitted).set_params(loss="log")  # which `load` would refuse
    with pytest.raises(ValueError, match=r"The 'loss' parameter .* Did you mean 'log_loss'\?"):
        hogshare.save(unknown, path)
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        hogshare.save(fitted, f"{tmp_path}/new/")
    with pytest.raises(TypeError, match="PathLike"):
        hogshare.save(fitted, io.BytesIO())
    assert path.read_bytes() == b"kept" and os.listdir(tmp_path) == ["m.npz"]


def test_paths_of_all_kinds(tmp_path, monkeypatch):
    model = fleet.fitted(by_name("Ridge"))
    monkeypatch.chdir(tmp_path)
    for path in ("a", Path("b.model"), b"c.npz", str(tmp_path / "d.npz")):
        hogshare.save(model, path)
        hogshare.save(model, path)
        assert repr(hogshare.load(path)) == repr(model)
    assert sorted(os.listdir(tmp_path)) == ["a", "b.model", "c.npz", "d.npz"]
    hogshare.save(model, "a", zero_based=np.True_)
    assert model_file.load("a").zero_based is True
    with pytest.raises(OSError, match="no such folder"):
        hogshare.save(model, tmp_path / "nowhere" / "m.npz")


def test_what_is_not_loaded_is_named(tmp_path):
    model = fleet.fitted(by_name("Ridge"))
    path = tmp_path / "other"
    hogshare.save(model, path)
    whole = path.read_bytes()
    np.savez(tmp_path / "rows.npz", X=np.eye(3))
    np.save(tmp_path / "rows.npy", np.eye(3))
    sparse.save_npz(tmp_path / "sparse.npz", sparse.eye_array(3, format="csr"))
    contents = [pickle.dumps(model), whole[:-40], whole[:100], b"", b"1 1:1\n"]
    contents += [(tmp_path / name).read_bytes() for name in ("rows.npz", "rows.npy", "sparse.npz")]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ValueError, match="other: not a hogshare model"):
            hogshare.load(path)
    joblib.dump(model, path)
    with pytest.raises(ValueError, match="other: not a hogshare model"):
        hogshare.load(path)
    with pytest.raises(FileNotFoundError):
        hogshare.load(tmp_path / "nothing")


def header_of(path):
    with np.load(path) as archive:
        parts = dict(archive)
    return json.loads(parts.pop("header").tobytes()), parts


def rewrite(path, header, parts):
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with open(path, "wb") as file:
        np.savez(file, header=text, **parts)


FORGED = [
    ("params", {"alpha": {"function": "os.system"}}),
    ("params", {"alpha": {"setting": ["Popen", ["ls"]]}}),
    ("params", {"barrier": {"setting": ["SSP", [-1]]}}),
    ("params", {"barrier": {"setting": ["SSP", [1, 2, 3]]}}),
    ("params", {"alpha": {"number": ["O", 1]}}),
    ("params", {"alpha": {"number": ["<f8", [1.0]]}}),
    ("params", {"alpha": {"number": ["<i4", 1 << 80]}}),
    ("params", {"alpha": {"number": ["nothing", 1]}}),
    ("params", {"alpha": {"array": "nowhere"}}),
    ("params", {"alpha": {"array": 1}}),
    ("params", {"alpha": {"array": "a", "words": "b"}}),
    ("params", {"alpha": {}}),
    ("params", {"alpha": {"mapping": [[[1], 2]]}}),
    ("params", {"alpha": {"mapping": [[1]]}}),
    ("params", {"alpha": {"words": "coef_"}}),
    ("params", {"alpha": {"objects": [[3], [1, 2]]}}),
    ("params", {"alpha": {"objects": [[-5], [1, 2]]}}),
    ("params", {"other": 1}),
    ("params", None),
    ("requests", {"fit": {"mapping": [["nothing", True]]}}),
    ("requests", {"params": {"mapping": [["alpha", True]]}}),
    ("requests", {"fit": 3}),
    ("attributes", {"coef_": {"sparse": ["csr_matrix", [1, 5], 1, 2, 3]}}),
    ("attributes", {"coef_": {"sparse": ["dia_matrix", [1, 5], 1, 2, 3]}}),
    ("attributes", {"feature_names_in_": {"objects": [[2], ["a", "b"]]}}),
    ("attributes", []),
    ("n_features", 6),
]


FORGED_COLUMNS = [
    [-1, None, []],
    [10**15, None, [["None", None]]],
    [2, None, []],
    [2, None, [["int", {"array": "nowhere"}]]],
    [2, None, [["int", {"array": "coef_"}]]],
    [2, None, [["int", 3]]],
    [2, None, [["float", {"array": "coef_"}]]],
    [5, None, [["float", {"array": "coef_"}], ["None", None]]],
    [5, {"array": "coef_"}, [["float", {"array": "coef_"}]]],
    [3, {"array": "ints"}, [["None", None], ["None", None]]],
    [3, None, [["tuple", [{"array": "ints"}, {"column": [0, None, []]}]]]],
    [3, None, [["bytes", [{"array": "ints"}, {"array": "ints"}]]]],
    [3, None, [["bytes", [{"array": "bytes"}, {"array": "ones"}, 3]]]],
    [4, None, [["bytes", [{"array": "bytes"}, {"array": "ones"}]]]],
    [3, None, [["large int", [{"array": "bytes"}, {"array": "far"}]]]],
    [3, None, [["UUID", [{"array": "bytes"}, {"array": "ones"}]]]],
    [3, None, [["Decimal", [{"array": "bytes"}, {"array": "ones"}]]]],
    [3, None, [["str", [{"array": "bytes"}, {"array": "ones"}]]]],
    [3, None, [["date", {"array": "far"}]]],
    [3, None, [["datetime", [{"array": "far"}] * 3 + [[None]]]]],
    [3, None, [["datetime", [{"array": "ints"}] * 3 + [["../../etc/passwd"]]]]],
    [3, None, [["datetime", [{"array": "ints"}] * 3 + [["No/Where"] * 3]]]],
    [3, None, [["datetime", [{"array": "ints"}] * 3 + [[None, None, 10**30]]]]],
    [3, None, [["datetime", [{"array": "ints"}] * 3 + [[None]]]]],
    [3, None, [["Decimal", [{"array": "text"}, {"array": "ones"}]]]],
    [3, None, [["timedelta", [{"array": "far"}] * 3]]],
    [3, None, [["timedelta", [{"array": "ints"}] * 9]]],
    [3, None, [["<M8[ns]", {"array": "far"}]]],
    [3, None, [["|O", {"array": "ints"}]]],
    [3, None, [["8i8", {"array": "ints"}]]],
    [3, None, [["<f4", {"array": "coef_"}]]],
    [3, None, [["os.system", {"array": "ints"}]]],
    [3, None],
    {"a": 1},
]


@pytest.mark.parametrize("said", FORGED_COLUMNS, ids=str)
def test_forged_columns(tmp_path, said):
    path = tmp_path / "m.npz"
    hogshare.save(fleet.fitted(by_name("Ridge")), path)
    header, parts = header_of(path)
    far = np.array([-(1 << 63), 1 << 62, 1 << 61])
    parts |= {"ints": np.array([0, 1, 2]), "far": far, "ones": np.ones(3, np.int64)}
    parts["bytes"] = np.array([200, 201, 202], np.uint8)
    parts["text"] = np.frombuffer(b"abc", np.uint8)
    header["params"]["alpha"] = {"column": said}
    rewrite(path, header, parts)
    with pytest.raises((ValueError, MemoryError), match=r"m\.npz: ") as refused:
        hogshare.load(path)
    assert "parameters do not fit" not in str(refused.value)


@pytest.mark.parametrize(("part", "change"), FORGED)
def test_forged_headers(tmp_path, part, change):
    path = tmp_path / "m.npz"
    hogshare.save(fleet.fitted(by_name("Ridge")), path)
    header, parts = header_of(path)
    header[part] = {**header[part], **change} if change and isinstance(change, dict) else change
    rewrite(path, header, parts)
    with pytest.raises(ValueError, match=r"m\.npz: "):
        hogshare.load(path)


def test_sparse_coefficients_that_point_anywhere(tmp_path):
    path = tmp_path / "m.npz"
    model = fleet.fit(hogshare.SGDClassifier(max_iter=2, tol=None), fleet.rows(), np.arange(60) % 2)
    hogshare.save(model.sparsify(), path)
    header, parts = header_of(path)
    _, _, _, indices, indptr = header["attributes"]["coef_"]["sparse"]
    for name, value in ((indices["array"], 1 << 30), (indptr["array"], 1 << 30)):
        damaged = {**parts, name: parts[name].copy()}
        damaged[name][-1] = value
        rewrite(path, header, damaged)
        with pytest.raises(ValueError, match=r"m\.npz: not a hogshare model"):
            hogshare.load(path)


def test_a_file_of_the_first_format(tmp_path):
    """As the command wrote it: parameters that were given, plain JSON, arrays by their names."""
    path = tmp_path / "m.npz"
    header = {
        "format": "hogshare model",
        "format_version": 1,
        "class_name": "LogisticRegression",
        "n_features": 2,
        "params": {"C": 10.0, "class_weight": "balanced"},
        "attributes": {"solver_": "saga"},
        "zero_based": True,
        "versions": {"hogshare": "0.1.0"},
    }
    arrays = {
        "coef_": np.array([[1.0, -2.0]], np.float32),
        "intercept_": np.zeros(1, np.float32),
        "classes_": np.array(["no", "yes"]),
        "n_iter_": np.array([7], np.int32),
    }
    rewrite(path, header, arrays)
    model = hogshare.load(path)
    assert repr(model) == "LogisticRegression(C=10.0, class_weight='balanced')"
    assert model.predict([[1.0, 0.0], [0.0, 1.0]]).tolist() == ["yes", "no"]
    assert model.solver_ == "saga" and model.n_iter_.tolist() == [7]
    hogshare.save(model, path)
    assert model_file.load(path).zero_based is True
    rewrite(path, {**header, "format_version": 4}, arrays)
    with pytest.raises(ValueError, match=r"its format is 4, .* reads 1, 2 and 3: update hogshare"):
        hogshare.load(path)


def test_from_the_command_and_back(tmp_path, capsys):
    rows, model, labels = tmp_path / "rows.svm", tmp_path / "m.npz", tmp_path / "labels"
    rows.write_text("1 0:1 1:2 2:0.5\n-1 1:1 2:-1\n" * 20)
    command = ["--loss", "log_loss", "--barrier", "ssp:2", "--seed", "3", "--n-jobs", "1"]
    assert main(["fit", str(rows), "--model", str(model), *command]) == 0
    loaded = hogshare.load(model)
    told = "SGDClassifier(barrier=SSP(staleness=2), loss='log_loss', n_jobs=1, random_state=3)"
    assert " ".join(repr(loaded).split()) == told
    assert loaded.predict([[1.0, 2.0, 0.5]]).tolist() == [1]
    # what indices begin at goes along until another fit
    hogshare.save(pickle.loads(pickle.dumps(loaded)), model)
    assert model_file.load(model).zero_based is True
    assert main(["predict", str(model), str(rows), "--out", str(labels)]) == 0
    assert labels.read_text() == "1\n-1\n" * 20
    assert "accuracy against the file's labels: 1.0000" in capsys.readouterr().err
    X = np.tile([[1.0, 2.0, 0.5], [0.0, 1.0, -1.0]], (20, 1))
    hogshare.save(loaded.fit(X, np.tile([1, -1], 20)), model)
    assert model_file.load(model).zero_based is None
    hogshare.save(loaded, model, zero_based=False)
    assert model_file.load(model).zero_based is False
