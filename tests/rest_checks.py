"""What ranks that share no memory check when all rest; `test_ranks_at_rest.py` starts this file."""

import json
import sys
import traceback

import numpy as np
from mpi4py import MPI as library
from rank_checks import on_all, refused
from sklearn.metrics import accuracy_score, r2_score

from hogshare import MPI, Replicas, SGDClassifier, Stop, problems, solve
from hogshare.runtimes.mpi import heldout

COMM = library.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
EVEN = np.linspace(0, 1.0, SIZE + 1)
UNEVEN = np.concatenate([[0.0], np.linspace(0.1, 1.0, SIZE)])
APART, ALL = MPI(arena=False), MPI(arena=False, rows="all")

draws = np.random.default_rng(0)
X = draws.standard_normal((1500, 8)) * np.linspace(0.5, 2.0, 8)
SCORES = X @ draws.standard_normal(8) + draws.standard_normal(len(X)) + 0.4
Y, CLASSES = (SCORES > 0.0).astype(int), np.digitize(SCORES, [-2.0, 2.0])
WEIGHTS, HELD_OUT = draws.random(len(X)), draws.random(len(X)) < 0.2


def stated(y, mine=slice(None), weights=None, **settings):
    """The problem of some of the rows."""
    weights = None if weights is None else weights[mine]
    settings = {"alpha": 1e-3, "sample_weight": weights, **settings}
    return problems.linear(X[mine], y[mine], **settings)


def here(shares):
    """The rows of this rank."""
    return slice(*(round(share * len(X)) for share in shares[RANK : RANK + 2]))


def ways(y, **settings):
    """The problem as ranks may have it: parts of even size, of uneven size, and all rows dealt."""
    yield stated(y, here(EVEN), **settings), APART, here(EVEN)
    yield stated(y, here(UNEVEN), **settings), APART, here(UNEVEN)
    yield stated(y, **settings), ALL, slice(None)


def check_saga_comes_to_the_gap_and_the_gradient_asked_for():
    whole = stated(Y)
    best = solve(whole, rule="saga", runtime="caller", stop=Stop(epochs=3000, gradient=1e-10))
    least = whole.objective(best.model.coef, best.model.intercept)
    for part, runtime, _ in ways(Y):
        for asked in ({"gap": 1e-8}, {"gradient": 1e-5}, {"relative_gap": 1e-6}):
            report = solve(
                part, rule="saga", runtime=runtime, stop=Stop(epochs=3000, **asked), seed=0
            )
            assert report.converged and on_all(report.model.coef.tobytes()), report
            reached = whole.objective(report.model.coef, report.model.intercept)
            assert reached <= least * (1.0 + 1e-6), (asked, runtime.rows, reached / least - 1.0)
            found = report.checks[-1]
            assert found["epoch"] == report.n_epochs
            assert abs(found["objective"] - reached) < 1e-12


def check_what_a_check_finds_is_what_one_process_finds():
    for y, settings in ((Y, {}), (SCORES, {"loss": "squared_error"}), (CLASSES, {})):
        for part, runtime, _ in ways(y, weights=WEIGHTS, **settings):
            stop = Stop(epochs=7, gradient=0.0, gap=0.0)
            report = solve(part, runtime=runtime, stop=stop, seed=0, step=0.01)
            whole, last = stated(y, weights=WEIGHTS, **settings), report.checks[-1]
            again = solve(whole, start=report.model, runtime="caller", stop=stop, step=1e-300)
            for kind in ("gap", "objective"):
                assert np.isclose(last[kind], again.checks[0][kind], rtol=1e-9, atol=1e-12), kind
            # units are by a sample of the rows, and parts of them have another
            assert np.isclose(last["gradient"], again.checks[0]["gradient"], rtol=0.1)


def check_scores_are_those_of_the_model_on_all_held_out_rows():
    for y, settings in (
        (Y, {}),
        (SCORES, {"loss": "squared_error"}),
        (CLASSES, {"loss": "multinomial"}),
    ):
        for part, runtime, mine in ways(y, weights=WEIGHTS, **settings):
            for plane in (None, Replicas("ring", every=16)):
                found, scores = [], heldout.HeldOut.scores

                def listed(self, model, found=found, scores=scores):
                    found.append(scores(self, model))
                    return found[-1]

                heldout.HeldOut.scores = listed
                stop = Stop(epochs=200, tol=1e-3, validation=HELD_OUT[mine])
                try:
                    report = solve(part, plane=plane, runtime=runtime, stop=stop, step=0.01)
                finally:
                    heldout.HeldOut.scores = scores
                assert report.converged and report.n_epochs == len(found) < 100
                shown = X[HELD_OUT] @ report.model.coef.T + report.model.intercept
                weights = {"sample_weight": WEIGHTS[HELD_OUT]}
                if y is SCORES:
                    score = r2_score(y[HELD_OUT], shown[:, 0], **weights)
                else:
                    label = shown.argmax(axis=1) if shown.shape[1] > 1 else shown[:, 0] > 0.0
                    score = accuracy_score(y[HELD_OUT], label, **weights)
                assert abs(found[-1][0] - score) < 1e-12 and score > 0.7


def check_a_stop_is_confirmed_on_the_sums_of_all():
    wild = X * np.append(np.ones(7), 1e5)
    for mine, runtime in ((here(UNEVEN), APART), (slice(None), ALL)):
        part = problems.linear(wild[mine], Y[mine], alpha=1e-6)
        stop = Stop(epochs=60, tol=1e-3, confirm=True)
        report = solve(part, rule="saga", runtime=runtime, stop=stop, seed=0)
        assert not report.converged and len(report.checks) > 1, report
        assert on_all((report.n_epochs, str(report.checks)))
        part = stated(Y, mine)
        report = solve(part, rule="saga", runtime=runtime, stop=stop, seed=0)
        assert report.converged


def check_a_problem_by_a_gradient_is_checked_alike():
    target = np.arange(1.0, 7.0)

    def gradient(w, rows, out):
        out += len(rows) * (w - target)
        return 0.5 * len(rows) * float(np.square(w - target).sum())

    own = problems.user(gradient, 64, 6)
    stop = Stop(epochs=200, gradient=1e-6)
    report = solve(own, runtime=ALL, plane=Replicas("ring"), stop=stop, step=0.01, block=8)
    assert report.converged and np.abs(report.model.params - target).max() < 1e-5
    assert on_all(str(report.checks))


def check_masks_that_do_not_fit_are_refused_on_all():
    stop = Stop(epochs=2, tol=1e-3, validation=HELD_OUT[:-1])
    text = refused(ValueError, lambda: solve(stated(Y), runtime=ALL, stop=stop))
    assert "must mark some but not all" in text and on_all(text)
    nobody = Stop(epochs=2, tol=1e-3, validation=np.full(len(X), RANK == 0))
    text = refused(ValueError, lambda: solve(stated(Y), runtime=APART, stop=nobody))
    assert "marks all rows of rank 0" in text and on_all(text)
    one = Stop(epochs=2, tol=1e-3, validation=HELD_OUT if RANK else None)
    text = refused(ValueError, lambda: solve(stated(Y), runtime=APART, stop=one))
    assert "given on rank 1 and not on rank 0" in text and on_all(text)
    assert "share memory" in refused(
        ValueError, lambda: SGDClassifier(runtime=APART).fit(X[:9], Y[:9])
    )


CHECKS = {name: thing for name, thing in list(globals().items()) if name.startswith("check_")}

if __name__ == "__main__":
    for name in sys.argv[1:] or CHECKS:
        failure = None
        try:
            CHECKS[name]()
        except BaseException:
            failure = traceback.format_exc()
        print(json.dumps({"check": name, "rank": RANK, "failure": failure}), flush=True)
