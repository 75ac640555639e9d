"""Several workers need as many epochs as one to the optimum: the rules that remember rows converge
linearly, and at the same rate. All workers take turns in one thread, an exchange's rows at a time.
"""

import cases
import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import (
    ASP,
    BSP,
    SAGA,
    SDCA,
    SGD,
    SSP,
    Shared,
    Simulator,
    Stop,
    Throttled,
    problems,
    solve,
)
from hogshare.datasets import dense, zipf_classification
from hogshare.engine import description, linear_description
from hogshare.kernels import layout
from hogshare.planes.shared import (
    easy_interval,
    exchange_interval,
    feature_curvature,
    row_nanoseconds,
)
from hogshare.rules.pace import (
    carries,
    interval_of_rounds,
    interval_with_memory,
    largest_share,
    longest_interval,
    oldest_reading,
    row_chances,
    windows_abreast,
)

LIMIT = 100
CLOSE = 1e-8  # relative excess of the objective


def like_a9a(n=2400):
    """Fourteen of 122 binary features a row, one of each group; each group's first are hot."""
    rng = np.random.default_rng(0)
    sizes = (5, 8, 16, 7, 14, 6, 5, 2, 2, 2, 5, 40, 6, 4)
    groups = [rng.choice(s, size=n, p=rng.dirichlet(np.ones(s))) for s in sizes]
    columns = np.stack(groups, axis=1) + np.cumsum((0, *sizes[:-1]))
    X = np.zeros((n, sum(sizes)))
    X[np.arange(n)[:, None], columns] = 1.0
    signal = X @ rng.standard_normal(X.shape[1]) + 1.5 * rng.standard_normal(n)
    return sp.csr_array(X), (signal > np.median(signal)).astype(int)


DATA = {"a9a": (like_a9a, 8), "text": (lambda: zipf_classification(4000, 1000, 30.0), 12)}
RULES = {
    "saga": (SAGA(), True),
    "lock-free": (SAGA(), False),
    "dual": (SDCA(), True),
}


@pytest.fixture(scope="module", params=DATA)
def task(request):
    """A problem, its least objective, and rows between exchanges: few beside the rows."""
    make, interval = DATA[request.param]
    X, y = make()
    problem = problems.linear(X, y, alpha=1.0 / len(y), fit_intercept=False)
    model = solve(problem, rule=SDCA(), stop=Stop(epochs=400), seed=0).model
    return problem, problem.objective(model.coef, model.intercept), interval


def epochs(problem, best, rule, plane, n_workers, block):
    """Epochs until the shared vector is that close; a turn is a block of so many rows."""
    blocks = -(-problem.n_rows // block)
    session = cases.session(
        problem,
        rule=rule,
        plane=plane,
        n_workers=n_workers,
        stop=Stop(epochs=LIMIT),
        seed=1,
        trace=blocks,
    )
    workers = [session.worker(k) for k in range(n_workers)]
    assert all(w.join() for w in workers)
    for _ in range(LIMIT * blocks):
        before = session.word(layout.EPOCHS)
        for worker in workers:
            worker.run_quantum(1)
        if session.word(layout.EPOCHS) > before:
            model = session.model()
            if problem.objective(model.coef, model.intercept) <= best * (1.0 + CLOSE):
                return session.word(layout.EPOCHS)
    raise AssertionError("not reached")


@pytest.mark.parametrize("name", RULES)
def test_as_many_epochs_as_one_worker(task, name, seams):
    seams.sizes.snapshots = np.inf  # zeros that are never touched
    problem, best, interval = task
    rule, private = RULES[name]
    plane = Shared(exchange=interval if private else None, adds="atomic")
    one, *more = (epochs(problem, best, rule, plane, k, interval) for k in (1, 2, 4, 8))
    assert max(more) <= 1.15 * one + 1.0, (one, more)


def test_as_many_epochs_with_an_intercept(seams, monkeypatch):
    """It moves by short steps, all of which count: what an exchange holds back of it is kept."""
    monkeypatch.setattr(f"{__name__}.LIMIT", 400)
    monkeypatch.setattr(f"{__name__}.CLOSE", 1e-5)
    seams.sizes.snapshots = np.inf
    X, y = like_a9a()
    problem = problems.linear(X, y, alpha=1.0 / len(y))
    model = solve(problem, rule=SDCA(), stop=Stop(epochs=2000), seed=0).model
    best = problem.objective(model.coef, model.intercept)
    one, *more = (epochs(problem, best, SAGA(), Shared(exchange=8), k, 8) for k in (1, 2, 4))
    assert max(more) <= 1.15 * one + 1.0, (one, more)


@pytest.fixture(scope="module")
def text():
    """Rows like text: a few features hot, most cold, and a vector that is dear to exchange."""
    X, y = zipf_classification(20_000, 10_000, 50.0)
    problem = problems.linear(X, y, alpha=1.0 / len(y), fit_intercept=False)
    model = solve(problem, rule=SDCA(), stop=Stop(epochs=60), seed=0).model
    return problem, problem.objective(model.coef, model.intercept)


@pytest.mark.parametrize("name", ["saga", "dual"])
def test_as_many_epochs_on_text_at_the_automatic_interval(text, name, seams, monkeypatch):
    seams.sizes.snapshots = np.inf
    monkeypatch.setattr(f"{__name__}.LIMIT", 20)
    rule, _ = RULES[name]
    one, *more = (epochs(*text, rule, Shared(), k, 50) for k in (1, 2, 4, 8))
    assert max(more) <= 1.15 * one, (one, more)


@pytest.mark.parametrize("n_workers", [4, 8])
def test_rows_of_one_place_in_their_windows_do_not_stay_together(
    text, n_workers, seams, monkeypatch
):
    """With 64 windows that all begin at their first row, runs of 64 rows are of one place each."""
    seams.sizes.snapshots = np.inf
    monkeypatch.setattr(f"{__name__}.LIMIT", 12)
    at_random = epochs(*text, SDCA(), Shared(), n_workers, 64)
    seams.sizes.cached = 0
    monkeypatch.setattr(linear_description, "windows_abreast", lambda *_: 64)
    assert epochs(*text, SDCA(), Shared(), n_workers, 64) <= 1.15 * at_random + 1.0
    plan = description.EpochPlan
    monkeypatch.setattr(
        description, "EpochPlan", lambda **numbers: plan(**{**numbers, "interleaved": 0})
    )
    with pytest.raises(AssertionError, match="not reached"):
        epochs(*text, SDCA(), Shared(), n_workers, 64)


def test_how_many_windows_are_read_in_turn():
    assert [windows_abreast(8, k, 8, 10_000) for k in (1, 2, 3, 4, 8, 16)] == [8, 8, 24, 32, 64, 64]
    assert windows_abreast(8, 8, 8, 391) == 48, "blocks have whole windows"
    assert windows_abreast(8, 8, 8, 41) == 8


def test_as_many_epochs_where_exchanges_are_cheap(seams, monkeypatch):
    """Steps that are not stretched fall within an epoch, with eight workers as with one."""
    seams.sizes.snapshots = np.inf
    monkeypatch.setattr(f"{__name__}.CLOSE", 6e-9)  # between what two epochs reach
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 20)) * (rng.random((20_000, 20)) < 0.5)
    X *= np.exp(0.3 * rng.standard_normal((20_000, 1)))
    y = X @ rng.standard_normal(20) + rng.logistic(size=20_000) > 0.0
    problem = problems.linear(sp.csr_array(X), y, alpha=1.0 / len(y), fit_intercept=False)
    model = solve(problem, rule=SDCA(), stop=Stop(epochs=3000, gradient=1e-11), seed=0).model
    best = problem.objective(model.coef, model.intercept)
    one, *more = (epochs(problem, best, SAGA(), Shared(), k, 50) for k in (1, 2, 4, 8))
    assert max(more) <= one, (one, more)


def test_saga_is_stretched_where_exchanges_are_dear(text):
    def stretch(problem, n_workers):
        return cases.session(problem, rule=SAGA(), n_workers=n_workers).rule.stretch

    short = problems.linear(*like_a9a(30_000), alpha=1e-4)
    assert [stretch(short, k) for k in (2, 4, 8)] == [1.0] * 3
    assert stretch(text[0], 2) == 1.0
    assert stretch(text[0], 8) > 1.5
    few = problems.linear(*zipf_classification(2_000, 10_000, 50.0), alpha=1e-3)
    assert stretch(few, 2) == 1.0, "as often as with a stretch, however dear"
    steady = cases.session(short, rule=SAGA(step=0.01), n_workers=4)
    assert steady.rule.stretch > 1.0, "a step that does not fall loses nothing by it"


def test_where_saga_keeps_what_an_exchange_holds_back():
    age = 150 * oldest_reading(4, 2.0)
    assert carries(SAGA(), 0.0, 10_000, age)
    assert not carries(SAGA(), 0.0, 9_000, age), "too old by then"
    assert not carries(SAGA(), 0.5, 10_000, age), "zeros have to be exact"
    assert carries(SDCA(), 0.5, 100, age), "a sum stays a sum"


def test_intervals_of_the_rules_that_remember():
    def of(rule, interval, n_rows, n_workers, stretch, easy=0):
        oldest = oldest_reading(n_workers, stretch)
        return interval_with_memory(interval, easy, rule, n_rows, n_workers, oldest)

    assert of(SDCA(), 500, 40_000, 2, 2.0) == 500, "what an exchange costs"
    assert of(SDCA(), 500, 40_000, 8, 5.0) == 312, "a sixteenth of the rows, over all workers"
    assert of(SDCA(), 16, 40_000, 2, 2.0) == 64, "a small model: by the hand-over, not its size"
    assert of(SDCA(), 16, 40_000, 2, 2.0, easy=180) == 180, "as seldom as costs next to nothing"
    assert of(SDCA(), 16, 8_000, 3, 3.0, easy=180) == 66, "where it costs no epochs: a fortieth"
    assert of(SDCA(), 16, 8_000, 2, 1.9, easy=180) == 100, "the same"
    assert of(SDCA(), 500, 8_000, 2, 2.0, easy=900) == 500, "an eighth, for two in step"
    assert of(SDCA(), 500, 8_000, 2, 2.0, easy=400) == 400, "and no more seldom than is easy"
    assert of(SDCA(), 16, 10, 2, 2.0) == 1
    assert of(SAGA(), 1000, 40_000, 8, 2.0) == 156, "so that it can keep what is held back"
    assert of(SAGA(), 500, 40_000, 8, 2.0) == 104, "and sooner, where it is not dear"
    assert of(SAGA(), 16, 40_000, 8, 1.0, easy=180) == 52, "the same"
    assert of(SAGA(), 16, 40_000, 8, 1.0, easy=300) == 78, "not where it is no longer cheap"
    assert of(SAGA(), 5000, 40_000, 8, 2.0) == 312, "not where that is too dear"


def test_saga_is_stretched_where_it_cannot_keep_what_is_held_back(text):
    """Its steps fall within an epoch unless they are stretched, which is worth more."""
    problem, _ = text

    def of(n_workers, exchange="auto"):
        plane = Shared(exchange=exchange)
        session = cases.session(problem, rule=SAGA(), n_workers=n_workers, plane=plane)
        rule, interval = session.rule, session.plan.interval
        age = interval * oldest_reading(n_workers, rule.stretch)
        assert rule.carry == carries(SAGA(), 0.0, problem.n_rows, age)
        assert (rule.level > 0.0) == (rule.stretch > 1.0)
        return round(rule.stretch, 6), rule.carry

    assert of(2) == of(2, exchange=600) == (1.0, 1.0)
    assert of(2, exchange=700) == (2.0, 1.0), "with it, it can"
    assert of(4, exchange=100) == (1.0, 1.0)
    assert of(4) == (2.0, 1.0), "or has to exchange much sooner, where that is dear"
    assert of(8, exchange=300) == (2.0, 0.0)


@pytest.fixture(scope="module", params=["log_loss", "hinge", "multinomial"])
def alike(request):
    """Few dense rows that are alike, and what one worker of SAGA has come to after some epochs."""
    X, y = dense(4000, 50)
    if request.param == "multinomial":
        noise = np.random.default_rng(0).gumbel(size=(4000, 3))
        y = (X[:, :3] + 0.5 * noise).argmax(axis=1)
    problem = problems.linear(X, y, loss=request.param, alpha=1e-2)
    run = {"rule": SAGA(), "seed": 1, "n_workers": 1, "runtime": "caller"}
    model = solve(problem, stop=Stop(epochs=4, tol=None), **run).model
    return problem, problem.objective(model.coef, model.intercept)


@pytest.mark.parametrize(
    ("runtime", "barrier"),
    [
        ("threads", BSP()),
        (Simulator(), ASP()),
        (Simulator(), BSP()),
        (Simulator(), SSP(2)),
        (Simulator(), Throttled(4)),
    ],
    ids=["rounds", "free", "rounds on a virtual clock", "bounded", "throttled"],
)
def test_blocks_that_end_with_an_exchange_are_as_short_as_the_rule_asks(alike, runtime, barrier):
    """Eight workers of SAGA that cannot keep what is held back take three times the epochs."""
    problem, reached = alike

    def is_there(epoch, snapshot):
        model = snapshot()
        return problem.objective(model.coef, model.intercept) <= reached

    run = {"rule": SAGA(), "seed": 1, "n_workers": 8, "runtime": runtime, "barrier": barrier}
    report = solve(problem, stop=Stop(epochs=20, tol=None), on_epoch=is_there, **run)
    assert report.n_epochs <= 5
    assert report.settings["block_rows"] == report.settings["exchange_rows"]


def test_a_block_is_what_lies_between_two_exchanges(text):
    problem = problems.linear(*like_a9a(30_000), alpha=1e-4)
    worthwhile = int(linear_description.ROUND_NS / row_nanoseconds(problem))

    def of(rule, n_workers, plane=None, problem=problem, barrier=None, **more):
        settings = {"rule": rule, "n_workers": n_workers, "plane": plane or Shared()} | more
        session = cases.session(problem, barrier=barrier or BSP(), **settings)
        return session.plan.block_rows, session.plan.interval, session.rule.carry

    assert of(SAGA(), 2) == (worthwhile,) * 2 + (1.0,), "as many rows as are worth a round"
    assert of(SAGA(), 4) == (234, 234, 1.0), "as many as it can keep what is held back with"
    assert of(SAGA(), 8) == (58, 58, 1.0)
    assert of(SAGA(), 8, block=200) == (200, 200, 0.0), "unless somebody says how many"
    assert of(SDCA(), 8) == (469, 469, 1.0), "which the dual rule can always"
    zeros = problems.linear(*like_a9a(30_000), alpha=1e-4, penalty="l1")
    assert of(SAGA(), 8, problem=zeros) == (469, 469, 0.0), "and who has exact zeros never"
    assert of(SAGA(), 8, problem=text[0])[::2] == (78, 1.0), "stretched, if that is what it takes"
    for rule in (SGD(), SDCA(), SAGA()):
        assert of(rule, 4, Shared(exchange=20))[:2] == (20, 20), "as the user says"
    # without rounds blocks do not depend on the exchange, but where it comes at their ends only
    real = of(SAGA(), 8, barrier=ASP())
    assert real == (469, 39, 1.0)
    run = {"rule": SAGA(), "n_workers": 8, "stop": Stop(epochs=1), "seed": 0}
    facts = solve(problem, runtime=Simulator(), **run).settings
    assert (facts["block_rows"], facts["exchange_rows"]) == (39, 39)


def test_rounds_are_as_long_as_is_worthwhile_unless_something_is_lost():
    oldest = oldest_reading(8, 1.0)
    assert interval_of_rounds(20, 500, SAGA(), 0.0, 40_000, oldest) == 78
    assert interval_of_rounds(20, 50, SAGA(), 0.0, 40_000, oldest) == 50
    assert interval_of_rounds(100, 500, SAGA(), 0.0, 40_000, oldest) == 500, "lost as it is"
    assert interval_of_rounds(20, 500, SDCA(), 0.0, 40_000, oldest) == 500
    assert interval_of_rounds(20, 0, SAGA(), 0.0, 40_000, oldest) == 20, "no rounds"


def test_the_automatic_interval_of_plain_descent_is_not_that_of_others():
    X, y = zipf_classification(6_400, 50, 5.0)

    def of(plane=None, penalty="l2", n_workers=2, **settings):
        problem = problems.linear(X, y, penalty=penalty)
        settings |= {"n_workers": n_workers, "plane": plane or Shared()}
        return cases.session(problem, **settings).plan.interval

    assert exchange_interval(problems.linear(X, y)) == 16, "what an exchange costs at least"
    assert of() == easy_interval(problems.linear(X, y)) > 200, "as seldom as costs next to nothing"
    assert of(n_workers=4) == 200 and of(n_workers=8) == 100, "an eighth of the rows, over all"
    assert of(n_workers=64) == 16
    assert of(penalty="elasticnet") == 16, "zeros that a worker finds alone are often wrong"
    assert of(plane=Shared(exchange=20)) == 20
    assert of(rule=SDCA()) == of(), "two of those are alike"
    assert of(rule=SDCA(), n_workers=3) == 64, "but a fortieth: an epoch is worth a factor there"
    half = np.arange(len(y)) % 2 == 0
    assert of(stop=Stop(epochs=1, validation=half)) == 200, "of the rows that are learnt from"
    report = solve(problems.linear(X, y), runtime=Simulator(), n_workers=2, stop=Stop(epochs=1))
    assert report.settings["exchange_rows"] == 16


@pytest.fixture(scope="module")
def heavy():
    """A third of all squares is one row's, and four fifths are ten rows'."""
    rng = np.random.default_rng(20_040)
    X = rng.standard_normal((20_000, 40)) * (rng.pareto(2.0, (20_000, 1)) + 0.2)
    y = np.where(X @ rng.standard_normal(40) > 0.0, 1.0, -1.0)
    settings = {"loss": "squared_error", "alpha": 1.0 / len(y), "fit_intercept": False}
    best = np.linalg.solve(X.T @ X / len(y) + settings["alpha"] * np.eye(40), X.T @ y / len(y))
    problem = problems.linear(X, y, **settings)
    return problem, problem.objective(best[None, :], np.zeros(1))


@pytest.mark.parametrize("n_workers", [1, 2, 4, 8])
def test_rows_that_are_visited_all_the_time_do_not_diverge(heavy, n_workers):
    problem, best = heavy
    run = {"rule": SAGA(sampling="importance"), "n_workers": n_workers, "stop": Stop(epochs=6)}
    session = cases.session(problem, seed=0, block=17, **run)
    workers = [session.worker(k) for k in range(n_workers)]
    assert all(worker.join() for worker in workers)
    while session.word(layout.EPOCHS) < 6:
        for worker in workers:
            worker.run_quantum(1)
    model = session.model()
    assert problem.objective(model.coef, model.intercept) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize(("barrier", "n_workers"), [(ASP(), 2), (BSP(), 2), (BSP(), 4)], ids=str)
def test_nor_do_they_in_threads(heavy, barrier, n_workers):
    problem, best = heavy
    run = {"rule": SAGA(sampling="importance"), "n_workers": n_workers, "barrier": barrier}
    # how close depends on who comes when: with a core for both, six epochs would do
    model = solve(problem, seed=0, stop=Stop(epochs=18), runtime="threads", **run).model
    assert problem.objective(model.coef, model.intercept) < best + 0.02, "zeros are at 0.03"


def test_curvature_that_is_most_of_it_one_rows_is_not_missed(heavy):
    problem, _ = heavy
    X = problem.rows.data.reshape(problem.n_rows, -1)
    exact = np.mean(np.abs(X) * np.abs(X).sum(axis=1)[:, None], axis=0)
    chances = row_chances(problem, SAGA(sampling="importance"), None)
    assert largest_share(problem, SAGA(sampling="importance"), None) == pytest.approx(
        0.166, abs=0.01
    )
    assert largest_share(problem, SAGA(), None) == 1.0 / problem.n_rows
    assert feature_curvature(problem, 0, chances) == pytest.approx(exact, rel=0.3)
    assert np.median(feature_curvature(problem, 0) / exact) < 0.7, "which an even sample does"


def test_how_often_workers_may_visit_one_row_between_exchanges():
    assert longest_interval(2, 0.1) == 10
    assert longest_interval(8, 0.5) == 1
    assert longest_interval(8, 0.9) == 1


def test_steps_are_stretched_no_further_than_their_rows_bear():
    def of(rule, X, **settings):
        y = np.arange(len(X)) % 2
        problem = problems.linear(X, y, fit_intercept=False, **settings)
        session = cases.session(problem, rule=rule, n_workers=8, plane=Shared(exchange=4))
        return session.rule.stretch

    even = np.eye(20)
    assert of(SDCA(), even, alpha=1 / 20) == pytest.approx(5.0), "a fifth of the way"
    assert of(SDCA(), even, alpha=1 / 2000) == pytest.approx(1.04), "it goes nearly all the way"
    assert of(SDCA(), even, alpha=1.0) == 8, "as many as there are workers"
    assert of(SDCA(), even, alpha=1 / 20, loss="hinge") == 1.0
    assert of(SAGA(), even) == pytest.approx(2.0), "its step is 1 / (3 L)"
    assert of(SAGA(), even, penalty="l1") == 1.0, "zeros have to be exact"
    uneven = even * np.r_[np.ones(19), 3.0][:, None]
    assert of(SAGA(), uneven) == pytest.approx(4 / 3), "1 / (2 L) of the largest"
    assert of(SAGA(sampling="importance"), uneven) == pytest.approx(1.0)
    assert of(None, even) == 1.0, "SGD weights its changes"


def after_one_epoch(problem, n_workers):
    """The objective of the model after a run's first epoch, in turns of 50 rows."""
    at = {"plane": Shared(), "n_workers": n_workers, "stop": Stop(epochs=1), "block": 50}
    session = cases.session(problem, rule=SDCA(), seed=5, **at)
    workers = [session.worker(k) for k in range(n_workers)]
    assert all(w.join() for w in workers)
    while session.word(layout.STOP) == layout.RUNNING:
        for worker in workers:
            worker.run_quantum(1)
    for worker in workers:
        worker.leave()
    model = session.model()
    return problem.objective(model.coef, model.intercept)


@pytest.mark.parametrize("n_workers", [1, 2, 4])
@pytest.mark.parametrize(
    "loss, strength", [("log_loss", 2.0), ("squared_hinge", 10.0), ("squared_error", 10.0)]
)
def test_the_first_epoch_of_sdca_knows_of_the_rows_to_come(monkeypatch, loss, strength, n_workers):
    X, y = zipf_classification(4000, 3000, 30.0)
    problem = problems.linear(X, y, loss=loss, alpha=strength / len(y), fit_intercept=False)
    model = solve(problem, rule=SDCA(), stop=Stop(epochs=400, gap=1e-10), seed=0).model
    best = problem.objective(model.coef, model.intercept)
    knowing = after_one_epoch(problem, n_workers) - best
    monkeypatch.setattr("hogshare.rules.sdca.fewest_rows", lambda reach: 1.0)
    assert knowing < 0.6 * (after_one_epoch(problem, n_workers) - best)


def test_how_many_rows_a_first_model_of_sdca_counts_as():
    def of(**settings):
        problem = problems.linear(np.eye(20), np.arange(20) % 2, fit_intercept=False, **settings)
        return problem, cases.session(problem, rule=SDCA()).rule.fewest

    assert of(alpha=1 / 20)[1] == pytest.approx(0.5), "the root of the curvature"
    assert of(alpha=1 / 5)[1] == pytest.approx(0.25)
    assert of(alpha=1 / 20, loss="squared_error")[1] == 1.0
    assert of(alpha=1 / 2000)[1] == 1.0, "a first few rows would say too much"
    assert of(alpha=1.0, loss="hinge")[1] == 1.0, "whose dual variables jump to their bounds"
    problem, _ = of(alpha=1 / 20)
    model = solve(problem, rule=SDCA(), stop=Stop(epochs=1), seed=0).model
    assert cases.session(problem, rule=SDCA(), start=model).rule.fewest == 1.0, "it remembers"
