"""The race, with scikit-learn's estimators, our own, and rivals that are made up."""

import json
import math

import numpy as np
import pytest
from scipy import sparse

from hogshare import datasets
from hogshare.cli.main import main
from hogshare.lab.rivals import race, race_catalogue, standings
from hogshare.lab.rivals.contestant import Contestant
from hogshare.lab.rivals.discipline import Reference
from hogshare.lab.rivals.linear import optimum
from hogshare.lab.rivals.linear.linear_race import LinearRace, signs
from hogshare.lab.rivals.linear.optimum import Objective


def small(loss="log_loss", alpha=0.01, form=np.asarray):
    X, y = datasets.dense(n_samples=200, n_features=5, seed=1)
    return Objective(form(X), signs(y), loss, alpha)


def kind(name):
    (found,) = (kind for kind in race_catalogue.LINEAR if kind.name == name)
    return found


class Missing(Contestant):
    name = "missing"
    library = "not-a-library"

    def prepare(self, X, y):
        import not_a_library  # noqa: F401


class Raising(Contestant):
    name = "raising"
    library = "hogshare"

    def fit(self, prepared, setting, budget, seed):
        raise RuntimeError("out\nof order")


class Still(Contestant):
    """Returns zeros whatever it is asked for, in a moment."""

    name = "still"
    library = "hogshare"

    def ladder(self):
        return (1, 2, 3)

    def fit(self, prepared, setting, budget, seed):
        return np.zeros(prepared[0].shape[1])

    def model(self, fitted):
        return fitted


# -- objective and optimum


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.quick
def test_objective_by_its_definition(form, loss):
    objective = small(loss, 0.3, form)
    w = np.random.default_rng(0).standard_normal(5)
    margins = [sign * sum(w * row) for sign, row in zip(objective.y, small().X, strict=True)]
    losses = [max(0.0, 1.0 - m) if loss == "hinge" else math.log1p(math.exp(-m)) for m in margins]
    assert objective(w) == pytest.approx(sum(losses) / 200 + 0.3 / 2 * sum(w * w))


def test_objective_is_float64_of_float32_rows():
    objective = small(form=lambda X: X.astype(np.float32))
    assert objective.X.dtype == np.float64


def test_objective_of_what_is_no_model():
    objective = small()
    assert objective(np.full(5, np.nan)) == math.inf
    assert objective(np.full(5, 1e200)) == math.inf


def test_derivatives():
    from scipy.optimize import approx_fprime, check_grad

    objective = small(form=sparse.csr_array)
    w, v = np.random.default_rng(0).standard_normal((2, 5))
    assert check_grad(objective, objective.gradient, w) < 1e-6
    along = approx_fprime(w, lambda w: objective.gradient(w) @ v)
    np.testing.assert_allclose(objective.hessian_times(w, v), along, rtol=1e-4)


def test_labels_become_signs():
    assert signs(["no", "yes", "no"]).tolist() == [-1.0, 1.0, -1.0]
    with pytest.raises(ValueError, match="two classes; these have 3"):
        signs([0, 1, 2])


def test_what_an_objective_refuses():
    with pytest.raises(ValueError, match="alpha must be positive"):
        small(alpha=0.0)
    with pytest.raises(ValueError, match="loss must be one of"):
        small(loss="huber")


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("alpha", [0.1, 1e-4])
def test_optimum_of_the_log_loss(form, alpha):
    from sklearn.linear_model import LogisticRegression

    objective = small(alpha=alpha, form=form)
    found = optimum.find(objective)
    model = LogisticRegression(
        C=1.0 / (alpha * 200), fit_intercept=False, solver="newton-cholesky", tol=1e-12
    ).fit(objective.X, objective.y)
    value = objective(model.coef_[0])
    assert found.value == pytest.approx(value, rel=1e-9)
    assert found.value - found.bound <= value


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("alpha", [0.1, 1e-4])
def test_optimum_of_the_hinge_is_the_same_by_two_methods(monkeypatch, form, alpha):
    objective = small("hinge", alpha, form)
    found = optimum.find(objective)
    assert found.method == "interior point"
    assert 0.0 <= found.bound < 1e-9
    monkeypatch.setattr(optimum, "DENSE_COLUMNS", 1)
    other = optimum.find(objective)
    assert other.bound is None
    assert found.value <= other.value + 1e-9
    assert found.value == pytest.approx(other.value, rel=1e-4)


# -- who may race


def test_selection_by_name_and_loss():
    names = [kind.name for kind in race_catalogue.of_linear(["SKLEARN SGD", "saga"], "log_loss")]
    assert names == ["sklearn SGD", "sklearn saga", "tick SAGA"]
    assert len({kind.name for kind in race_catalogue.LINEAR}) == len(race_catalogue.LINEAR)
    assert all("hinge" in kind.losses for kind in race_catalogue.of_linear([], "hinge"))
    with pytest.raises(ValueError, match="no contestant's name contains 'nobody'"):
        race_catalogue.of_linear(["nobody"], "hinge")
    with pytest.raises(ValueError, match="has the loss hinge"):
        race_catalogue.of_linear(["sklearn saga"], "hinge")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "kind",
    [kind for kind in race_catalogue.LINEAR if kind.library in ("scikit-learn", "hogshare")],
    ids=lambda kind: kind.name,
)
def test_contestants_minimise_the_objective(form, kind):
    loss = kind.losses[0]
    objective = small(loss, form=form)
    task = LinearRace(objective.X, objective.y, loss, objective.alpha).task(2)
    contestant = kind(task)
    assert contestant.refusal() == ""
    prepared = contestant.prepare(objective.X, objective.y)
    setting = contestant.grid()[0]
    fitted = contestant.fit(prepared, setting, 100, 0)
    stochastic = "SGD" in kind.name or kind.library == "hogshare"
    near = 1.5 if stochastic else 1.001
    assert objective(contestant.model(fitted)) < near * optimum.find(objective).value
    contestant.close(prepared)


# -- the race


@pytest.fixture(scope="module")
def a_race():
    X, y = datasets.dense(n_samples=400, n_features=6, seed=0, dtype=np.float32)
    kinds = [kind("hogshare SGD"), kind("sklearn liblinear"), Missing, Raising, Still]
    plan = race.RacePlan(targets=(0.5, 0.1), workers=1, rounds=2, limit=2.0)
    return race.race(LinearRace(X, y), kinds, plan, isolated=False)


@pytest.mark.quick
def test_a_race_has_times(a_race):
    rows = {(row["contestant"], row["target"]): row for row in a_race["table"]}
    for name in ("hogshare SGD", "sklearn liblinear"):
        row = rows[name, 0.5]
        assert 0.0 < row["fastest"] <= row["seconds"] <= row["slowest"]
        assert (row["rounds"], row["reached"]) == (2, 2)
        assert row["budget"] >= 1
        assert set(row["setting"]) <= {"dual"}


def test_a_race_is_plain_data(a_race):
    again = json.loads(json.dumps(a_race, allow_nan=False))
    assert again["data"] == {
        "rows": 400,
        "columns": 6,
        "nonzeros": 2400,
        "dtype": "float32",
        "format": "dense",
    }
    assert again["settings"]["alpha"] == 1 / 400
    assert again["versions"]["scikit-learn"]
    assert again["machine"]["cores"] >= 1
    assert again["reference"]["objective"] < again["reference"]["at_zero"]
    assert {run["round"] for run in again["runs"]} == {-1, 0, 1}
    assert min(run["suboptimality"] for run in again["runs"]) >= 0.0


def test_who_cannot_race_is_told_with_the_reason(a_race):
    reasons = {who["name"]: who["reason"] for who in a_race["contestants"]}
    assert reasons["hogshare SGD"] == ""
    how = "pip install not-a-library"
    assert reasons["missing"].startswith(f"not-a-library is not installed: {how} (No module named")
    assert reasons["raising"] == "failed: out of order"
    assert reasons["still"].startswith("reached no target within 2 s of tuning (closest ")
    assert all(
        row["seconds"] is None
        for row in a_race["table"]
        if row["contestant"] in ("missing", "raising", "still")
    )


def test_a_setting_that_fails_is_passed_over():
    class Picky(kind("sklearn liblinear")):
        def grid(self):
            return [{"dual": "perhaps"}, {"dual": False}]

    X, y = datasets.dense(n_samples=100, n_features=3, seed=0)
    result = race.race(
        LinearRace(X, y), [Picky], race.RacePlan(targets=(0.5,), rounds=1), isolated=False
    )
    (row,) = result["table"]
    assert row["setting"] == {"dual": False}
    assert any(run["error"] for run in result["runs"])


def test_nobody_left_is_an_error():
    X, y = datasets.dense(n_samples=50, n_features=3, seed=0)
    with pytest.raises(ValueError, match="no contestant can race: raising: failed: out of order"):
        race.race(LinearRace(X, y), [Raising], race.RacePlan(), isolated=False)


def test_what_was_prepared_is_given_back_after_a_failure():
    closed = []

    class Closing(Raising):
        def close(self, prepared):
            closed.append(prepared)

    X, y = datasets.dense(n_samples=50, n_features=3, seed=0)
    with pytest.raises(ValueError, match="no contestant can race"):
        race.race(LinearRace(X, y), [Closing], race.RacePlan(), isolated=False)
    assert len(closed) == 1


def test_the_time_limit_ends_tuning_and_rounds(seams):
    clock = iter(range(10**6))
    seams.clock.of_races = lambda: float(next(clock))
    budgets = []

    class Slow(Still):
        def ladder(self):
            return tuple(range(1, 100))

        def fit(self, prepared, setting, budget, seed):
            budgets.append(budget)
            return super().fit(prepared, setting, budget, seed)

    X, y = datasets.dense(n_samples=50, n_features=3, seed=0)
    # each look at this clock takes a second, so a fit takes one and its rung three
    result = race.race(LinearRace(X, y), [Slow], race.RacePlan(limit=10.0), isolated=False)
    assert "reached no target within 10 s" in result["contestants"][0]["reason"]
    assert 1 < len(budgets) < 6


def test_a_contestant_below_the_reference_lowers_it(monkeypatch):
    true = optimum.find

    def too_high(objective):
        found = true(objective)
        return Reference(1.5 * found.value, None, "a guess", 0.0)

    monkeypatch.setattr(optimum, "find", too_high)
    X, y = datasets.dense(n_samples=100, n_features=3, seed=0)
    result = race.race(
        LinearRace(X, y), [kind("sklearn lbfgs")], race.RacePlan(rounds=1), isolated=False
    )
    assert result["reference"]["found_by"] == "a contestant"
    assert min(run["suboptimality"] for run in result["runs"]) == 0.0
    assert "from the optimum is unknown" in result["notes"][0]
    assert "below the reference" in result["notes"][1]


def a_run(round_, seconds, distance, budget=1):
    return {
        "contestant": "a",
        "round": round_,
        "setting": 0,
        "budget": budget,
        "seconds": seconds,
        "suboptimality": distance,
    }


def test_standings_are_medians_of_the_fastest_fits():
    who = {"name": "a", "rounds": 3, "grid": [{}]}
    runs = [a_run(-1, 0.001, 0.0)]  # tuning does not count
    for k, seconds in enumerate([5.0, 1.0, 2.0]):
        runs += [a_run(k, 0.1, 0.9), a_run(k, seconds, 0.05, 2), a_run(k, 9.0, 0.01, 3)]
    easy, tight, beyond = standings.tabulate([who], runs, [0.1, 0.01, 0.001])
    assert (easy["seconds"], easy["fastest"], easy["slowest"]) == (2.0, 1.0, 5.0)
    assert easy["budget"] == 2
    assert (tight["seconds"], tight["budget"]) == (9.0, 3)
    assert (beyond["seconds"], beyond["fastest"], beyond["reached"]) == (None, None, 0)


def test_a_missed_round_is_infinitely_long():
    who = {"name": "a", "rounds": 3, "grid": [{}]}
    runs = [a_run(0, 1.0, 0.0), a_run(1, 2.0, None), a_run(2, 3.0, 0.0)]
    (row,) = standings.tabulate([who], runs, [0.1])
    assert (row["seconds"], row["slowest"], row["reached"]) == (3.0, None, 2)
    (row,) = standings.tabulate([who], runs[:2], [0.1])
    assert row["seconds"] is None


# -- the command


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


QUICK = ("--data", "breast_cancer", "--rounds", 1, "--limit", 1, "--workers", 1, "--targets", "0.5")


def test_bench_rivals(capsys, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    code, out, err = run(
        *(capsys, "bench", "rivals", *QUICK, "--only", "hogshare SGD,liblinear"),
        *("--json", tmp_path / "r.json", "--plot", tmp_path / "r.png"),
    )
    assert code == 0, err
    assert "sklearn liblinear" in out
    assert "to 0.5" in out
    assert "interior point" not in err
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["settings"]["data"] == "breast_cancer"
    assert result["data"]["dtype"] == "float32"
    assert (tmp_path / "r.png").stat().st_size > 1000


def test_bench_rivals_prints_json_alone(capsys):
    code, out, err = run(
        *(capsys, "bench", "rivals", *QUICK, "--only", "LinearSVC", "--loss", "hinge"),
        *("--json", "-", "--alpha", "1e-3"),
    )
    assert code == 0, err
    assert json.loads(out)["settings"]["alpha"] == 1e-3


@pytest.mark.parametrize(
    "arguments",
    [
        ["--targets", "0.1,0"],
        ["--targets", "often"],
        ["--alpha", "0"],
        ["--workers", "0"],
        ["--rounds", "0"],
        ["--limit", "-1"],
        ["--loss", "huber"],
    ],
)
def test_a_wrong_command_line_is_2(capsys, arguments):
    code, out, err = run(capsys, "bench", "rivals", *arguments)
    assert (code, out) == (2, "")
    assert "error:" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "nobody"], "no contestant's name contains 'nobody'"),
        (["--data", "iris", "--only", "lbfgs"], "two classes; these have 3"),
        (["--data", "nope"], "no data set is called 'nope'"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_1(capsys, arguments, words):
    code, out, err = run(capsys, "bench", "rivals", *arguments)
    assert (code, out) == (1, "")
    assert words in err.splitlines()[-1]
