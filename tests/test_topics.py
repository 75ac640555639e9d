"""Topics: the same steps as scikit-learn's, and as a plain loop's; on every plane and runtime."""

import dataclasses
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma, gammaln
from sklearn import clone, decomposition
from sklearn.utils.estimator_checks import parametrize_with_checks

import hogshare
from hogshare import (
    BSP,
    SGD,
    Checkpoint,
    LatentDirichletAllocation,
    Master,
    Rule,
    Shared,
    Simulator,
    problems,
    solve,
)
from hogshare.io.models import model_file, save_load
from hogshare.problems.gradient import BlockClaim

K, V, N = 3, 12, 90
DRAWS = np.random.default_rng(0)
MEANS = np.repeat(np.kron(np.eye(K), np.full(V // K, 3.0)), N // K, axis=0) + 0.2
X = DRAWS.poisson(MEANS)[DRAWS.permutation(N)].astype(float)
ONLINE = {"learning_method": "online", "batch_size": 7, "random_state": 0, "max_iter": 3}
RUN = {"block": 10, "stop": 3, "shuffle": False, "seed": 0}
RUNTIMES = {"threads": "threads", "processes": "processes", "simulator": Simulator(seed=1)}


def problem(**settings):
    return problems.topics(X, K, **{"random_state": 0, **settings})


def theirs(kind=decomposition.LatentDirichletAllocation, **settings):
    return kind(K, **{**ONLINE, **settings})


def plain_step(components, rows, t, gammas, prior=1.0 / K):
    """Hoffman et al. 2010, Algorithm 2, as it is printed: every number of every topic moves."""
    beta = np.exp(digamma(components) - digamma(components.sum(axis=1, keepdims=True)))
    seen = np.zeros_like(components)
    for counts, gamma in zip(X[rows], gammas, strict=True):
        for _ in range(100):
            share = np.exp(digamma(gamma) - digamma(gamma.sum()))
            last, gamma = gamma, prior + share * (beta @ (counts / (share @ beta)))
            if np.abs(gamma - last).mean() < 1e-3:
                break
        share = np.exp(digamma(gamma) - digamma(gamma.sum()))
        seen += np.outer(share, counts / (share @ beta)) * beta
    rho = (10.0 + t) ** -0.7
    return (1.0 - rho) * components + rho * (prior + N / len(rows) * seen)


@pytest.mark.quick
def test_one_worker_takes_the_printed_steps():
    stream = np.random.RandomState(0)
    expected = stream.gamma(100.0, 0.01, (K, V))
    for t in range(1, 1 + 3 * N // 10):
        rows = np.arange(10) + (t - 1) * 10 % N
        expected = plain_step(expected, rows, t, stream.gamma(100.0, 0.01, (10, K)))
    report = solve(problem(), **RUN)
    np.testing.assert_allclose(report.model.components, expected, rtol=1e-6)
    assert report.model.n_batches == 27


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_one_worker_fits_scikit_learns_topics(form, dtype):
    rows = form(X.astype(dtype))
    expected = theirs().fit(rows)
    model = theirs(LatentDirichletAllocation).fit(rows)
    assert model.components_.dtype == expected.components_.dtype
    assert (model.n_iter_, model.n_batch_iter_) == (expected.n_iter_, expected.n_batch_iter_)
    near = 1e-6 if expected.components_.dtype == np.float64 else 1e-3
    for name in ("components_", "exp_dirichlet_component_", "bound_"):
        np.testing.assert_allclose(getattr(model, name), getattr(expected, name), rtol=near)
    for of in ("transform", "score", "perplexity"):
        wanted = getattr(expected, of)(rows)
        np.testing.assert_allclose(getattr(model, of)(rows), wanted, rtol=near)
    model.partial_fit(rows[:20] if form is np.asarray else sp.csr_array(rows)[:20])
    expected.partial_fit(rows[:20] if form is np.asarray else sp.csr_array(rows)[:20])
    np.testing.assert_allclose(model.components_, expected.components_, rtol=near)


@pytest.mark.parametrize(
    "settings",
    [
        {"evaluate_every": 2, "max_iter": 5},
        {"evaluate_every": 1, "perp_tol": 1e3},
        {"learning_method": "batch"},
        {"learning_decay": 0.0},
        {"learning_decay": 0.001, "max_iter": 9},
        {"learning_offset": 1.0, "learning_decay": 1.0},
        {"max_iter": 0},
        {"doc_topic_prior": 0.7, "topic_word_prior": 0.01, "max_doc_update_iter": 3},
        {"batch_size": 1000},
    ],
)
def test_settings_mean_what_they_mean_in_scikit_learn(settings, capsys):
    expected = theirs(**settings, verbose=1).fit(X)
    told = capsys.readouterr().out
    model = theirs(LatentDirichletAllocation, **settings, verbose=1).fit(X)
    assert capsys.readouterr().out == told
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-6)
    np.testing.assert_allclose(model.bound_, expected.bound_, rtol=1e-6)
    assert model.n_iter_ == expected.n_iter_


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()])
@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
def test_one_worker_fits_the_same_everywhere(plane, runtime):
    run = {**RUN, "plane": plane, "runtime": RUNTIMES.get(runtime, runtime)}
    found = solve(problem(), n_workers=1, **run).model.components
    np.testing.assert_allclose(found, solve(problem(), **RUN).model.components, rtol=1e-9)


@pytest.mark.parametrize("plane", [Shared(), Master()])
def test_behind_bsp_all_runtimes_give_the_same_bits(plane):
    run = {**RUN, "plane": plane, "barrier": BSP(), "n_workers": 2}
    found = [
        solve(problem(), runtime=runtime, **run).model.components for runtime in RUNTIMES.values()
    ]
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


@pytest.mark.parametrize("n_workers", [2, 4])
@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()])
@pytest.mark.sample(1)
def test_several_workers_find_as_good_topics(plane, n_workers):
    run = {**RUN, "stop": 10, "runtime": Simulator(seed=2)}
    bounds = [
        np.median(
            [
                problem(random_state=seed).objective_at(
                    solve(problem(random_state=seed), plane=plane, n_workers=n, **run).model
                )
                for seed in range(5)
            ]
        )
        for n in (1, n_workers)
    ]
    assert bounds[1] < 1.01 * bounds[0]


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()])
def test_a_batch_is_of_64_documents_if_nobody_says(plane):
    run = {"stop": 2, "seed": 0, "plane": plane, "runtime": "threads"}
    for n_workers in (1, 2):
        assert solve(problem(), n_workers=n_workers, **run).model.n_batches == 2 * -(-N // 64)


def test_a_run_goes_on_from_another_ones_topics():
    whole = solve(problem(), **{**RUN, "stop": 4}).model
    half = solve(problem(), **{**RUN, "stop": 2}).model
    rest = problem(
        components=half.components, n_batches=half.n_batches, random_state=half.random_state
    )
    found = solve(rest, **{**RUN, "stop": 2}).model
    np.testing.assert_allclose(found.components, whole.components, rtol=1e-9)
    assert found.n_batches == whole.n_batches == 36


@pytest.mark.parametrize("runtime", list(RUNTIMES.values()), ids=list(RUNTIMES))
@pytest.mark.parametrize("n_workers", [1, 3])
def test_a_problem_is_solved_to_the_same_bits_again(runtime, n_workers):
    barrier = BSP() if n_workers > 1 else None
    run = {**RUN, "runtime": runtime, "n_workers": n_workers, "barrier": barrier}
    stated = problem()
    first, second, anew = (solve(one, **run).model for one in (stated, stated, problem()))
    np.testing.assert_array_equal(first.components, second.components)
    np.testing.assert_array_equal(first.components, anew.components)


def test_draws_are_of_the_block_and_not_of_the_worker():
    """Whoever claims a block draws the same; blocks, epochs and sites draw differently."""
    claims = [BlockClaim(e, b, site, 10 * b, 2) for site in (0, 1) for e in (0, 1) for b in (0, 1)]
    by_worker = []
    for me in (0, 1):
        reader, found = problem().for_worker(me), []
        for claim in claims[:: 1 - 2 * me]:  # in another order
            reader.begin(claim)
            found.append(reader.draws.numbers(10))
        by_worker.append(found[:: 1 - 2 * me])
    np.testing.assert_array_equal(*by_worker)
    assert len({one.tobytes() for one in by_worker[0]}) == len(claims)


def test_one_worker_goes_on_from_a_checkpoint_with_its_own_draws(tmp_path):
    run = {**RUN, "seed": 0}
    whole = solve(problem(), **{**run, "stop": 4}).model
    solve(problem(), **{**run, "stop": 2}, checkpoint=Checkpoint(tmp_path / "run"))
    found = solve(problem(), **{**run, "stop": 4}, resume=tmp_path / "run").model
    np.testing.assert_array_equal(found.components, whole.components)


def test_the_callers_generator_moves_on_as_in_scikit_learn():
    streams = np.random.RandomState(3), np.random.RandomState(3)
    for kind, stream in zip(
        (LatentDirichletAllocation, decomposition.LatentDirichletAllocation), streams, strict=True
    ):
        theirs(kind, random_state=stream, evaluate_every=1).fit(X).partial_fit(X)
    assert streams[0].randint(1 << 30) == streams[1].randint(1 << 30)


@pytest.mark.parametrize("method", ["batch", "online"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("prior", [1e-3, 1e-4, 1e-30])
def test_small_priors_of_documents_are_as_in_scikit_learn(method, dtype, prior):
    settings = {"doc_topic_prior": prior, "learning_method": method, "evaluate_every": 1}
    rows = X.astype(dtype)
    expected = theirs(**settings).fit(rows)
    model = theirs(LatentDirichletAllocation, **settings).fit(rows)
    near = 1e-6 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(model.bound_, expected.bound_, rtol=near)
    np.testing.assert_allclose(model.perplexity(rows), expected.perplexity(rows), rtol=near)
    np.testing.assert_allclose(model.components_, expected.components_, rtol=near)
    assert model.n_iter_ == expected.n_iter_ and np.isfinite(model.partial_fit(rows).score(rows))


def test_many_topics_have_a_bound_by_default():
    model = LatentDirichletAllocation(800, max_iter=1, random_state=0).fit(X[:20])
    assert np.isfinite(model.bound_) and np.isfinite(model.score(X[:20]))


@pytest.mark.parametrize("name", ["doc_topic_prior", "topic_word_prior"])
def test_a_prior_of_nothing_is_refused(name):
    for fit in (
        lambda: theirs(LatentDirichletAllocation, **{name: 0.0}).fit(X),
        lambda: theirs(LatentDirichletAllocation, **{name: 0}).partial_fit(X),
        lambda: problem(**{name: 0.0}),
        lambda: problem(**{name: 1e-310}),
    ):
        with pytest.raises(ValueError, match=name):
            fit()


def test_the_objective_is_the_bound_and_its_gradient_vanishes_at_the_topics_that_stay():
    model = theirs(LatentDirichletAllocation, learning_method="batch", max_iter=300)
    model.set_params(mean_change_tol=1e-9, max_doc_update_iter=1000).fit(X)
    settled = problem(components=model.components_, mean_change_tol=1e-9, max_doc_update_iter=1000)
    value, slope = settled.evaluate(settled.start())
    np.testing.assert_allclose(-N * value, model.score(X), rtol=1e-9)
    start = problem().evaluate(problem().start())
    assert np.abs(slope).max() < 1e-3 * np.abs(start[1]).max() and value < start[0]


def test_the_bound_is_the_evidences():
    """Hoffman et al. 2010, equation 4, by scikit-learn's parts and SciPy's functions."""
    one = problem(components=np.full((K, V), 2.0), max_doc_update_iter=1)
    gamma = np.ones(K)
    beta = np.exp(digamma(np.full((K, V), 2.0)) - digamma(2.0 * V))
    bound = 0.0
    for counts in X:
        share = np.exp(digamma(np.ones(K)) - digamma(K))
        gamma = 1.0 / K + share * (beta @ (counts / (share @ beta)))
        level = digamma(gamma) - digamma(gamma.sum())
        bound += counts @ np.log(np.exp(level) @ beta)
        bound += ((1.0 / K - gamma) * level + gammaln(gamma) - gammaln(1.0 / K)).sum()
        bound += gammaln(1.0) - gammaln(gamma.sum())
    level = digamma(2.0) - digamma(2.0 * V)
    bound += K * V * ((1.0 / K - 2.0) * level + gammaln(2.0) - gammaln(1.0 / K))
    bound += K * (gammaln(V / K) - gammaln(2.0 * V))
    np.testing.assert_allclose(one.objective(one.start()), -bound / N, rtol=1e-7)


class Halved(Rule):
    """A rule of the user's."""

    def step(self, gradient, eta):
        gradient *= 0.5 * eta


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"step": 0.5}, "leave out step="),
        ({"step": "invscaling"}, "leave out step="),
        ({"rule": SGD(average=True)}, "use SGD"),
        ({"rule": Halved()}, "Halved would change them"),
    ],
)
def test_what_would_change_the_steps_is_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        solve(problem(), **{**RUN, **settings})


@pytest.mark.parametrize(
    ("rows", "settings", "told"),
    [
        (-X, {}, "Negative values"),
        (np.where(X > 2.0, np.nan, X), {}, "NaN"),
        (X[:0], {}, "0 sample"),
        (X, {"n_topics": 0}, "n_topics"),
        (X, {"learning_decay": 0.0}, "learning_decay"),
        (X, {"learning_decay": 1.5}, "learning_decay"),
        (X, {"learning_offset": 0.5}, "learning_offset"),
        (X, {"doc_topic_prior": 0.0}, "doc_topic_prior"),
        (X, {"components": np.ones((2, 2))}, "components must have shape"),
        (X, {"components": -np.ones((K, V))}, "components must be positive"),
        (X, {"n_batches": -1}, "n_batches"),
    ],
)
def test_bad_input_is_told(rows, settings, told):
    with pytest.raises(ValueError, match=told):
        problems.topics(rows, **{"n_topics": K, **settings})


def test_partial_fit_refuses_what_has_been_set_since():
    model = LatentDirichletAllocation(K, random_state=0).partial_fit(X)
    model.set_params(mean_change_tol=-1.0)
    with pytest.raises(ValueError, match="'mean_change_tol' parameter of LatentDirichletAll"):
        model.partial_fit(X)


def test_an_index_out_of_range_is_told_before_any_kernel_sees_it():
    bad = sp.csr_matrix(X)
    bad.indices[3] = V + 7
    for fit in (
        lambda: problems.topics(bad, K),
        lambda: theirs(LatentDirichletAllocation).fit(bad),
    ):
        with pytest.raises(ValueError, match="ind"):
            fit()


def test_documents_without_words_are_as_in_scikit_learn():
    rows = np.vstack([X[:20], np.zeros((5, V))])
    model, expected = theirs(LatentDirichletAllocation).fit(rows), theirs().fit(rows)
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-6)
    np.testing.assert_allclose(model.transform(rows)[-5:], 1.0 / K)


def test_a_run_too_long_for_its_steps_says_so():
    with pytest.raises(Exception, match="nothing is left"):
        solve(problem(learning_decay=0.001), **{**RUN, "stop": 50})


def test_workers_are_as_the_parameters_say():
    model = theirs(LatentDirichletAllocation, n_jobs=2, runtime="threads", barrier="bsp")
    first, second = clone(model).fit(X), clone(model).fit(X)
    assert (first.components_ == second.components_).all()
    assert first.report_.n_workers == 2 and "BSP" in str(first.report_.barrier)
    assert (
        "batch" in theirs(LatentDirichletAllocation, learning_method="batch").fit(X).report_.reason
    )


def left_in(model):
    return {
        name: value
        for name, value in vars(model).items()
        if name not in {"report_", "random_state_", *model.get_params()}
    }


@pytest.mark.parametrize("method", ["online", "batch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_topics_travel_in_files_and_go_on(tmp_path, method, dtype):
    rows = X.astype(dtype)
    model = theirs(LatentDirichletAllocation, learning_method=method).fit(rows)
    hogshare.save(model, tmp_path / "topics")
    again = hogshare.load(tmp_path / "topics")
    for _ in range(2):
        assert repr(again) == repr(model)
        assert left_in(again).keys() == left_in(model).keys()
        for name, value in left_in(model).items():
            assert type(left_in(again)[name]) is type(value), name
            np.testing.assert_array_equal(left_in(again)[name], value)
        for of in ("transform", "score", "perplexity"):
            np.testing.assert_array_equal(getattr(again, of)(rows), getattr(model, of)(rows))
        model.partial_fit(rows[:30])
        again.partial_fit(rows[:30])


def test_a_file_of_topics_that_do_not_fit_is_refused(tmp_path):
    model = theirs(LatentDirichletAllocation).fit(X)
    saved = save_load.to_saved(model)
    for name, value in {
        "components_": -model.components_,
        "exp_dirichlet_component_": model.components_[:2],
        "doc_topic_prior_": np.nan,
        "n_batch_iter_": 1.5,
        "n_iter_": -1,
        "random_state_": ("MT19937", np.zeros(3, np.uint32), 0, 0, 0.0),
    }.items():
        bad = dataclasses.replace(saved, attributes={**saved.attributes, name: value})
        with pytest.raises(ValueError, match=name):
            model_file.check(bad)


def test_scikit_learns_own_goes_on_from_our_topics():
    model = theirs(LatentDirichletAllocation).fit(X)
    made = model.to_sklearn()
    assert type(made) is decomposition.LatentDirichletAllocation
    assert b"hogshare" not in pickle.dumps(made)
    np.testing.assert_allclose(made.transform(X), model.transform(X), rtol=1e-7)
    np.testing.assert_allclose(
        made.partial_fit(X).components_, model.partial_fit(X).components_, rtol=1e-6
    )


def expected_failures(_):
    from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS

    return PER_ESTIMATOR_XFAIL_CHECKS.get(decomposition.LatentDirichletAllocation, {})


@parametrize_with_checks(
    [
        LatentDirichletAllocation(max_iter=5, batch_size=10),
        LatentDirichletAllocation(max_iter=5, batch_size=10, learning_method="online"),
    ],
    expected_failed_checks=expected_failures,
    xfail_strict=False,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
