"""What a caller gives stays as it was, and may be read-only: of every estimator, in every form."""

import itertools

import joblib
import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import estimators

N, D = 1600, 100
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.3, (N, D)).astype(float)
LABELS = (COUNTS[:, :5].sum(axis=1) > 1.0).astype(int)
TARGETS = COUNTS @ RNG.normal(size=D)
WEIGHTS = RNG.uniform(0.5, 1.5, N)

SETTINGS = {
    "ElasticNet": {"alpha": 0.1},
    "Lasso": {"alpha": 0.1},
    "LatentDirichletAllocation": {"n_components": 3, "max_iter": 2, "evaluate_every": 1},
    "LogisticRegressionCV": {"Cs": 2, "cv": 2},
    "MLPClassifier": {"hidden_layer_sizes": (4,), "max_iter": 2},
    "MLPRegressor": {"hidden_layer_sizes": (4,), "max_iter": 2},
    "SGDClassifier": {"max_iter": 3, "tol": None},
    "SGDRegressor": {"max_iter": 3, "tol": None},
}
OTHERS = np.float32, np.int64
MATRICES = sorted(set(estimators.__all__) - {"MatrixFactorization"})
pytestmark = [  # of few epochs, and of defaults that scikit-learn is to change
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def made(name, **settings):
    kind = getattr(estimators, name)
    own = {**SETTINGS.get(name, {}), **settings}
    if "random_state" in kind().get_params():
        own["random_state"] = 0
    return kind(**own)


def repeated(kind, dtype):
    """Compressed, with entries in no order and some of them stored twice."""
    whole = sp.coo_array(COUNTS)
    lines, columns = (np.concatenate([one, one[:500]]) for one in whole.coords)
    order = np.random.default_rng(1).permutation(len(lines))
    major, minor = (lines, columns) if kind is sp.csr_array else (columns, lines)
    order = order[np.argsort(major[order], kind="stable")]
    begins = np.concatenate([[0], np.bincount(major).cumsum()]).astype(np.int32)
    data = np.concatenate([whole.data, whole.data[:500]])[order].astype(dtype)
    return kind((data, minor[order].astype(np.int32), begins), shape=(N, D))


def coordinates(dtype):
    whole = sp.coo_array(COUNTS)
    pairs = tuple(np.concatenate([one, one[:500]]) for one in whole.coords)
    data = np.concatenate([whole.data, whole.data[:500]]).astype(dtype)
    return sp.coo_array((data, pairs), shape=(N, D))


FORMS = {
    "C": lambda dtype: np.ascontiguousarray(COUNTS, dtype),
    "F": lambda dtype: np.asfortranarray(COUNTS, dtype),
    "CSR": lambda dtype: repeated(sp.csr_array, dtype),
    "CSC": lambda dtype: repeated(sp.csc_array, dtype),
    "COO": coordinates,
}


def arrays_of(X):
    if not sp.issparse(X):
        return [X]
    return [X.data, *(X.coords if X.format == "coo" else (X.indices, X.indptr))]


def frozen(X):
    for array in arrays_of(X):
        array.flags.writeable = False
    return X


def use(model, X, y, weights):
    """All that may be asked of a model with rows."""
    weighted = {"sample_weight": weights} if hasattr(model, "coef_init") else {}
    model.fit(X, y, **weighted)
    if hasattr(model, "partial_fit"):
        classes = {"classes": np.unique(y)} if hasattr(model, "predict_proba") else {}
        model.partial_fit(X, y, **classes) if classes else model.partial_fit(X, y)
    for name in ("predict", "predict_proba", "decision_function", "transform", "perplexity"):
        if hasattr(model, name):
            getattr(model, name)(X)
    model.score(X, y)


def targets(name):
    regresses = name.endswith("Regressor") or name in ("ElasticNet", "Lasso", "Ridge")
    return (TARGETS if regresses else LABELS).copy()


@pytest.mark.parametrize(
    ("form", "dtype"),
    [*((form, np.float64) for form in FORMS), *itertools.product(("C", "CSR"), OTHERS)],
)
@pytest.mark.parametrize("name", MATRICES)
def test_rows_stay_as_they_are_and_may_be_read_only(name, form, dtype):
    X, y, weights = FORMS[form](dtype), targets(name), WEIGHTS.copy()
    before = [one.copy() for one in [*arrays_of(X), y, weights]]
    use(made(name), X, y, weights)
    for array, one in zip([*arrays_of(X), y, weights], before, strict=True):
        np.testing.assert_array_equal(array, one)
    y.flags.writeable = weights.flags.writeable = False
    use(made(name), frozen(FORMS[form](dtype)), y, weights)


@pytest.mark.parametrize("form", ["C", "CSR"])
@pytest.mark.parametrize("name", MATRICES)
def test_rows_may_be_joblibs_memory_maps(tmp_path, name, form):
    """As what is above 1 MiB is in a worker of `joblib.Parallel`."""
    X = FORMS[form](np.float64)
    if form == "CSR":  # more of the same, above 1 MiB
        X = sp.vstack([X] * 4, format="csr")
        assert X.data.nbytes > 1 << 20
    y = np.resize(targets(name), X.shape[0])
    joblib.dump((X, y, np.resize(WEIGHTS, X.shape[0])), tmp_path / "rows")
    X, y, weights = joblib.load(tmp_path / "rows", mmap_mode="r")
    assert not arrays_of(X)[0].flags.writeable
    use(made(name), X, y, weights)


@pytest.mark.parametrize("form", ["triples", "CSR", "CSC", "COO"])
def test_ratings_stay_as_they_are_and_may_be_read_only(tmp_path, form):
    if form == "triples":
        whole = sp.coo_array(COUNTS)
        given = [*whole.coords, whole.data]
    else:
        given = [FORMS[form](np.float64)]
    arrays = arrays_of(given[0]) if len(given) == 1 else given
    before = [one.copy() for one in arrays]
    model = estimators.MatrixFactorization(2, max_iter=2, random_state=0)
    model.fit(*given).partial_fit(*given).score(*given)
    for array, one in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, one)
        array.flags.writeable = False
    model.fit(*given).partial_fit(*given).score(*given)
    joblib.dump(given, tmp_path / "ratings")
    given = joblib.load(tmp_path / "ratings", mmap_mode="r")
    model.fit(*given).partial_fit(*given).score(*given)
