"""Words in place of things, and the words of errors: each names what its reader has written."""

import argparse
import ast
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import hogshare
from hogshare import (
    BSP,
    PBSP,
    PSSP,
    SAGA,
    SDCA,
    SGD,
    SSP,
    ElasticNet,
    Lasso,
    LogisticRegression,
    LogisticRegressionCV,
    Master,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDRegressor,
    Shared,
    Simulator,
    StepSize,
    Stop,
    asaga,
    asysg_con,
    asysg_incon,
    problems,
    prox_asaga,
    replay,
    solve,
)
from hogshare.barriers import barrier_of
from hogshare.cli import options
from hogshare.engine.checkpoints import facts_of
from hogshare.engine.stops import CRITERIA
from hogshare.estimators import parameters
from hogshare.rules import automatic_rule
from hogshare.simulation import Exponential, Placement, progress
from hogshare.solvers.choice_names import KNOWN, PLANES, RULES
from hogshare.system import messages as words

HUGE = 1 << 61  # more than a kernel can count to
ESTIMATORS = [
    SGDClassifier,
    SGDRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    Lasso,
    ElasticNet,
]
# settings by which the workers fit, in the least time
SHORT = {
    LogisticRegressionCV: {
        "Cs": [1.0],
        "cv": 2,
        "l1_ratios": (0,),
        "scoring": "accuracy",
        "use_legacy_attributes": False,
    },
    Ridge: {"solver": "saga"},
    RidgeClassifier: {"solver": "saga"},
    Lasso: {"runtime": "caller"},
    ElasticNet: {"runtime": "caller"},
}


@pytest.fixture(scope="module")
def rows():
    X = np.random.RandomState(0).randn(60, 4)
    return X, (X @ [1.0, -2.0, 0.5, 0.0] > 0.0).astype(int)


@pytest.fixture(scope="module")
def problem(rows):
    return problems.linear(*rows, alpha=0.05)


def fit(klass, rows, fit_params=None, **settings):
    return klass(**{**SHORT.get(klass, {}), **settings}).fit(*rows, **(fit_params or {}))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"stop": 3}, {"stop": Stop(epochs=3)}),
        ({"stop": 3.0}, {"stop": Stop(epochs=3)}),
        ({"stop": np.int32(3)}, {"stop": Stop(epochs=3)}),
        ({"stop": Stop}, {}),
        ({"rule": "saga"}, {"rule": SAGA()}),
        ({"rule": " SDCA "}, {"rule": SDCA()}),
        ({"rule": "Sgd"}, {"rule": SGD()}),
        ({"rule": "auto"}, {"rule": SDCA()}),
        ({"rule": SAGA}, {"rule": SAGA()}),
        ({"plane": "shared"}, {"plane": Shared()}),
        ({"plane": "Master"}, {"plane": Master()}),
        ({"plane": Master}, {"plane": Master()}),
        ({"barrier": "BSP"}, {"barrier": BSP()}),
        ({"barrier": "ssp:3"}, {"barrier": SSP(3)}),
        ({"barrier": "pssp:10,4,hold"}, {"barrier": PSSP(10, 4, hold=True)}),
        ({"barrier": BSP}, {"barrier": BSP()}),
        ({"runtime": None}, {}),
        ({"runtime": "CALLER"}, {"runtime": "caller"}),
        ({"runtime": "simulator"}, {"runtime": Simulator()}),
        ({"runtime": Simulator}, {"runtime": Simulator()}),
        ({"step": 0.02}, {"step": StepSize("constant", eta0=0.02)}),
        ({"step": "invscaling"}, {"step": StepSize("invscaling")}),
        ({"step": StepSize}, {"step": StepSize()}),
    ],
    ids=lambda settings: repr(settings)[:40],
)
def test_a_word_is_the_thing(problem, said, meant):
    ours, theirs = (solve(problem, seed=0, **settings) for settings in (said, meant))
    assert np.array_equal(ours.model.coef, theirs.model.coef)
    assert np.array_equal(ours.model.intercept, theirs.model.intercept)
    assert ours.settings == theirs.settings


def test_auto_goes_by_the_problem_and_the_start(problem):
    start = solve(problem, seed=0).model
    assert solve(problem, rule="auto", start=start).rule["name"] == "SAGA", "from anywhere"
    unpenalised = problems.linear(problem.rows.data.reshape(60, 4), problem.rows.y, penalty=None)
    assert solve(unpenalised, rule="auto").rule["name"] == "SAGA"
    with pytest.raises(ValueError, match=r"rule='auto' finds an optimum.* rule='sgd'"):
        solve(problems.linear(*[np.eye(2), [0, 1]], loss="perceptron"), rule="auto")


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        (
            {"stop": 0},
            ValueError,
            r"stop=0 is not a number of epochs.*Stop\(epochs=100, tol=1e-3\)",
        ),
        ({"stop": 1e-3}, ValueError, r"for a tolerance, Stop\("),
        ({"stop": np.nan}, ValueError, "not a number of epochs"),
        ({"stop": True}, TypeError, r"a number of epochs, or a Stop.*got True\."),
        ({"stop": "3"}, TypeError, "got '3'"),
        ({"rule": "saag"}, ValueError, r"'sgd', 'sdca', 'saga' or 'adam'.*Did you mean 'saga'\?"),
        ({"rule": Stop}, TypeError, "rule must be.*got the class Stop"),
        ({"rule": StepSize()}, TypeError, "got an object of type StepSize"),
        ({"plane": "mastr"}, ValueError, "'replicas' or 'mirrors'.*Did you mean 'master'"),
        (
            {"plane": 3},
            TypeError,
            r"Shared\(\), Grid\(\), Master\(\), Replicas\(\), Mirrors\(\); got 3",
        ),
        (
            {"barrier": "bps"},
            ValueError,
            "'bps' is not a barrier.*Did you mean 'bsp'.*ssp:STALENESS",
        ),
        ({"barrier": SSP}, TypeError, r"class SSP.*pass SSP\(staleness=...\)"),
        ({"barrier": 3}, TypeError, "barrier must be one of"),
        ({"runtime": "thread"}, ValueError, "a Simulator; got 'thread'.*Did you mean 'threads'"),
        ({"runtime": 3}, TypeError, "runtime must be 'auto', 'caller'.*got 3"),
        ({"step": "constnt"}, ValueError, "Did you mean 'constant'"),
        ({"step": "adaptve"}, ValueError, "Did you mean 'adaptive'"),
        ({"step": [0.1]}, TypeError, "a constant step size"),
        ({"step": -1.0}, ValueError, "step must be a positive finite number"),
        ({"stragglers": "cdss:1"}, ValueError, "Did you mean 'cds'.*cds:DELAY"),
        ({"n_workers": "2"}, TypeError, "n_workers must be a whole number of workers"),
        ({"n_workers": True}, TypeError, "got True"),
        ({"n_workers": 2.0}, TypeError, r"got 2\.0"),
        ({"n_workers": 0}, ValueError, "n_workers == 0 has no meaning"),
        ({"n_workers": 2, "runtime": "caller"}, ValueError, "got n_workers=2"),
        ({"trace": True}, TypeError, "trace must be a whole number"),
        ({"block": 2.5}, TypeError, "block must be a whole number"),
        ({"shuffle": "no"}, TypeError, "shuffle must be True or False"),
        ({"start": np.zeros(4)}, TypeError, r"Model\(coef, intercept\).*ndarray of shape \(4,\)"),
        ({"on_epoch": 3}, TypeError, "on_epoch must be a function"),
        ({"resume": 0}, TypeError, "resume must be the path of a file; got 0"),
        ({"checkpoint": 1}, TypeError, "checkpoint must be the path of a file; got 1"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_there_is(problem, settings, error, sentence):
    with pytest.raises(error, match=sentence):
        solve(problem, **settings)


@pytest.mark.parametrize("function", [solve, asaga, prox_asaga, asysg_con, asysg_incon])
def test_rows_are_no_problem(function, rows, problem):
    X, y = rows
    for given in [(X,), (rows,), (X, y), (X.tolist(),), (None,)]:
        with pytest.raises(TypeError, match=r"solve\(problems\.linear\(X, y, loss='log_loss'"):
            function(*given)
    with pytest.raises(TypeError, match=r"name the other arguments, as in solve\(problem, stop="):
        function(problem, SAGA())


def test_the_papers_algorithms_and_a_replay_take_the_same_words(rows, problem):
    for function in (asaga, prox_asaga, asysg_con, asysg_incon):
        report = function(problem, n_workers=1, stop=3, barrier="ssp:2", runtime="CALLER")
        assert report.n_epochs == 3 and report.barrier == "SSP(staleness=2)"
    for function in (asysg_con, asysg_incon):
        assert function(problem, n_workers=1, step="invscaling").step["kind"] == "invscaling"
    report = solve(problem, rule="sgd", plane="master", record=True, stop=2)
    assert np.array_equal(replay(problem, report).coef, report.model.coef)
    with pytest.raises(TypeError, match=r"problems\.linear"):
        replay(rows[0], report)


def test_a_simulators_words_are_the_commands(problem):
    run = {"n_workers": 4, "stop": 2, "seed": 0}
    ours = solve(problem, runtime=Simulator(block_time="exponential:2.0"), **run)
    theirs = solve(problem, runtime=Simulator(block_time=Exponential(2.0)), **run)
    assert ours.settings == theirs.settings
    assert ours.seconds["virtual"] == theirs.seconds["virtual"]
    with pytest.raises(ValueError, match=r"Did you mean 'exponential'.*exponential:MEAN"):
        Simulator(block_time="exponental:1")
    one, other = (progress(b, 8, seconds=9.0, block_time=Exponential()) for b in ("bsp", BSP()))
    assert one.to_dict() == other.to_dict()
    assert Placement(state="distributed").messages("pbsp:10") == 20.0
    with pytest.raises(ValueError, match="Did you mean 'pbsp'"):
        Placement().check("pbps:10")


def test_there_is_one_table_of_names():
    for name in KNOWN:
        assert options.part(name)(f" {KNOWN[name][0].upper()}") == KNOWN[name][0]
        with pytest.raises(argparse.ArgumentTypeError, match=KNOWN[name][-1]):
            options.part(name)("nonsense")
    assert set(KNOWN) == {"rule", "plane", "runtime", "step", "barrier"}
    for name, kinds in {"rule": RULES, "plane": PLANES}.items():
        assert set(kinds) <= set(KNOWN[name])
        assert all(kind.__name__.lower() == word for word, kind in kinds.items())
    for word in KNOWN["barrier"]:
        numbers = {"asp": "", "bsp": ""}.get(word, ":1" if word != "pssp" else ":1,1")
        assert type(barrier_of(word + numbers)).__name__.lower() == word


@pytest.mark.parametrize("klass", ESTIMATORS)
def test_estimators_take_the_words(klass, rows):
    said = {"plane": " Shared", "barrier": "PBSP:2", "runtime": "Caller"}
    meant = {"plane": Shared(), "barrier": PBSP(2), "runtime": "caller"}
    ours, theirs = (fit(klass, rows, random_state=0, **words) for words in (said, meant))
    assert np.array_equal(ours.coef_, theirs.coef_)
    reports = [m.report_ if isinstance(m.report_, list) else [m.report_] for m in (ours, theirs)]
    assert [r.settings for r in reports[0]] == [r.settings for r in reports[1]]
    assert ours.get_params()["runtime"] == "Caller", "kept as it was written"
    in_classes = fit(klass, rows, random_state=0, barrier=BSP, plane=Shared)
    assert in_classes.coef_ == pytest.approx(ours.coef_, abs=1e-2)


def test_a_master_in_a_word(rows):
    report = fit(SGDClassifier, rows, plane="master", max_iter=5, tol=None).report_
    assert report.plane["name"] == "Master"
    with pytest.raises(ValueError, match="Ridge needs private copies"):
        fit(Ridge, rows, plane="master")


@pytest.mark.parametrize("klass", ESTIMATORS)
@pytest.mark.parametrize(
    ("name", "value", "near"),
    [
        ("plane", "shard", "shared"),
        ("barrier", "sps:4", "ssp"),
        ("runtime", "process", "processes"),
    ],
)
def test_estimators_name_what_was_probably_meant(klass, rows, name, value, near):
    sentence = rf"The '{name}' parameter of {klass.__name__} must be .*Did you mean '{near}'\?"
    with pytest.raises(ValueError, match=sentence):
        fit(klass, rows, **{name: value})


def test_what_is_not_for_estimators_is_not_proposed(rows):
    with pytest.raises(ValueError, match="The 'runtime' parameter") as caught:
        fit(Ridge, rows, runtime="simulator")
    assert "mean 'simulator'" not in str(caught.value)


ENGINE = ("n_workers", "epochs must", "StepSize", "Stop", "SGD(", "SAGA(", "start model", "rule=")
OWN = [
    *((klass, {"n_jobs": 2, "runtime": "caller"}, "n_jobs=2") for klass in ESTIMATORS),
    *((klass, {"n_jobs": 0}, "n_jobs == 0") for klass in ESTIMATORS),
    *((klass, {"max_iter": HUGE}, "max_iter must be at most") for klass in ESTIMATORS),
    (SGDClassifier, {"n_iter_no_change": HUGE}, "n_iter_no_change must be at most"),
    (SGDRegressor, {"average": HUGE}, "average must be at most"),
    (SGDClassifier, {"plane": Master(cutoff=1), "average": True}, "average counts every step"),
    (SGDClassifier, {"learning_rate": "auto", "loss": "perceptron"}, "learning_rate='auto' finds"),
    (LogisticRegression, {"tol": 1e307}, "tol must be"),
    (LogisticRegressionCV, {"tol": 1e307, "n_jobs": 2}, "tol must be"),  # in a thread
    (Ridge, {"tol": 1e308}, "tol must be"),
    (Lasso, {"tol": 1e308}, "tol must be"),
    (Ridge, {"alpha": np.array([-1.0])}, "alpha must be finite and at least 0"),
    (Ridge, {"alpha": np.array([np.inf])}, "alpha must be finite and at least 0"),
    (LogisticRegression, {"C": 1e-320}, "C=1e-320 is too small"),
]


@pytest.mark.parametrize(("klass", "settings", "expected"), OWN)
def test_errors_name_the_parameters_that_were_written(klass, settings, expected, rows):
    X, y = rows
    y = y * 1e6 if issubclass(klass, (Ridge, ElasticNet)) else y
    with pytest.raises(ValueError, match=re.escape(expected)) as caught:
        fit(klass, (X, y), **settings)
    for word in ENGINE:
        assert word not in str(caught.value), word
    with pytest.raises(ValueError, match="n_workers == 0"):  # nothing is left of it
        solve(problems.linear(*rows), n_workers=0)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"alpha": 0.0}, "use another learning_rate"),
        ({"learning_rate": "pa1", "loss": "log_loss"}, "use another learning_rate"),
        ({"runtime": "caller", "n_jobs": 2}, "n_jobs=2"),
    ],
)
def test_what_partial_fit_finds_changed_is_named_too(settings, expected, rows):
    model = SGDClassifier().partial_fit(*rows, classes=[0, 1]).set_params(**settings)
    with pytest.raises(ValueError, match=re.escape(expected)) as caught:
        model.partial_fit(*rows)
    assert not any(word in str(caught.value) for word in ENGINE)


WRONG = {
    "loss": "log",
    "penalty": "l3",
    "learning_rate": "optimum",
    "runtime": "thread",
    "plane": "mastr",
    "barrier": "bps",
    "alpha": -1.0,
    "l1_ratio": 3.0,
    "eta0": -1.0,
    "fit_intercept": "x",
    "max_iter": 0,
    "tol": "x",
    "shuffle": 3,
    "epsilon": -1.0,
    "n_jobs": 2.5,
    "random_state": "x",
    "power_t": "x",
    "average": -3,
    "warm_start": "no",
    "n_iter_no_change": 0,
    "validation_fraction": 3.0,
    "class_weight": "balnced",
}
NEAR = {
    "loss": "log_loss",
    "learning_rate": "optimal",
    "runtime": "threads",
    "plane": "master",
    "barrier": "bsp",
    "class_weight": "balanced",
}


@pytest.mark.parametrize(
    ("klass", "name"),
    [(k, n) for k in (SGDClassifier, SGDRegressor) for n in k().get_params() if n in WRONG],
)
def test_partial_fit_refuses_what_fit_does(klass, name, rows):
    """scikit-learn looks at parameters before the first call only; then they are KeyErrors."""
    model = klass()
    model.partial_fit(*rows, **({"classes": [0, 1]} if klass is SGDClassifier else {}))
    model.set_params(**{name: WRONG[name]})
    kept = model.coef_.copy()
    sentence = f"The '{name}' parameter of {klass.__name__} must be"
    near = rf".*Did you mean '{NEAR[name]}'\?" if name in NEAR else ""
    near = "" if (klass, name) == (SGDRegressor, "loss") else near  # which has no log_loss
    for method in (model.partial_fit, model.fit):
        with pytest.raises(ValueError, match=sentence + near):
            method(*rows)
    np.testing.assert_array_equal(model.coef_, kept)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (SGDClassifier(warm_start=True), "coef_init"),
        (SGDRegressor(warm_start=True), "coef_init"),
        (LogisticRegression(warm_start=True), "warm_start=True"),
        (Lasso(warm_start=True, runtime="caller"), "warm_start=True"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_start_is_called_what_it_is_in_fit(model, expected, rows):
    model.fit(*rows)
    model.coef_ = np.full_like(model.coef_, np.nan)
    with pytest.raises(ValueError, match="contains NaN or infinity") as caught:
        model.fit(*rows)
    assert expected in str(caught.value) and "start model" not in str(caught.value)


@pytest.mark.parametrize("klass", ESTIMATORS)
def test_what_to_do_about_a_divergence_is_something_there_is(klass):
    model = klass()
    with words.speaking(model._words):
        told = SAGA().remedy(StepSize()) + SDCA().remedy(StepSize())
    assert "SAGA(" not in told
    assert all(name in told for name in ["learning_rate"] if hasattr(model, name))
    assert ("a smaller C" in told) == (klass in (LogisticRegression, LogisticRegressionCV))
    assert "learning_rate" not in told or hasattr(model, "learning_rate")


def test_a_divergence_names_what_the_schedule_goes_by(rows):
    with pytest.warns(ConvergenceWarning, match="; a smaller eta0 than 1000 might help too"):
        SGDRegressor(learning_rate="constant", eta0=1000.0).fit(*rows)
    problem = problems.linear(*rows, loss="squared_error")
    with pytest.warns(ConvergenceWarning, match="; a smaller eta0 than 1000 might help too"):
        solve(problem, step=StepSize("constant", eta0=1000.0), stop=20, seed=0)
    assert SGD().remedy(StepSize("optimal")) == "a larger alpha"


def words_of_messages():
    """What `own` is asked for, and the names that `ranges` is handed, in what a fit runs."""
    package = Path(hogshare.__file__).parent
    checks = {"whole", "count", "positive", "not_negative", "share"}
    for room in ("rules", "engine", "solvers", "runtimes"):
        for path in (package / room).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call):
                    continue
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name == "own" and isinstance(node.args[0], ast.Constant):
                    yield node.args[0].value
                elif name == "store_whole":
                    yield from (given.value for given in node.args[2:])
                elif name in checks:
                    yield from (keyword.arg for keyword in node.keywords)


def test_every_word_that_is_translated_is_said_somewhere(problem):
    said = {*words_of_messages(), *CRITERIA, automatic_rule.AUTO, automatic_rule.SEARCHING}
    facts = facts_of(problem, SGD(), StepSize(), Stop(), True, 0)
    for name, part in facts.items():
        said |= {f"{name} {key}" for key in part} if isinstance(part, dict) else {name}
    known = {**parameters.WORDS, **parameters.SGD_WORDS, **parameters.LOGISTIC_WORDS}
    assert set(known) <= said, set(known) - said


def test_words_of_one_thread_are_not_anothers():
    assert words.own("n_workers") == "n_workers"
    with words.speaking({"n_workers": "n_jobs"}):
        assert words.own("n_workers") == "n_jobs" and words.own("plane") == "plane"
        with words.speaking({}):
            assert words.own("n_workers") == "n_workers"
    with pytest.raises(KeyError), words.speaking({"n_workers": "n_jobs"}):
        raise KeyError
    assert words.own("n_workers") == "n_workers"


def test_things_name_what_was_probably_meant(rows):
    for make, near in [
        (lambda: StepSize("optmal"), "optimal"),
        (lambda: SGD(coordinate="unform"), "uniform"),
        (lambda: problems.linear(*rows, loss="log"), "log_loss"),
        (lambda: problems.linear(*rows, penalty="elastic"), "elasticnet"),
    ]:
        with pytest.raises(ValueError, match=rf"Did you mean '{near}'\?"):
            make()
    assert words.nearest(None, ["a"]) == words.nearest("far", ["off"]) == ""


def test_a_checkpoint_of_another_fit_is_told_in_own_words(rows, tmp_path):
    path = str(tmp_path / "run.npz")
    model = SGDClassifier(random_state=0, learning_rate="constant", eta0=0.1, max_iter=3, tol=None)
    model._checkpoint = hogshare.Checkpoint(path)
    model.fit(*rows)
    model.set_params(eta0=0.2, average=True, random_state=1)
    model._checkpoint, model._resume = None, path
    with pytest.raises(ValueError, match=r"eta0 was 0\.1 and is 0\.2") as caught:
        model.fit(*rows)
    told = str(caught.value)
    assert "average was" in told and "begin a new run with another file" in told
    assert not any(word in told for word in ("rule ", "step ", "start="))


@pytest.mark.parametrize("klass", [Ridge, SGDClassifier, SGDRegressor, LogisticRegression])
def test_a_warning_is_where_fit_was_called(klass, rows):
    with pytest.warns(ConvergenceWarning) as caught:
        fit(klass, rows, max_iter=1, tol=1e-12)
    assert caught[0].filename == __file__
