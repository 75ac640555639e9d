"""What ranks that share no memory check when all rest; `test_ranks_at_rest.py` starts this file."""

import errno
import functools
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from mpi4py import MPI as library
from rank_checks import on_all, refused
from ranks import report_on
from sklearn.metrics import accuracy_score, r2_score

from hogshare import (
    MPI,
    SGD,
    Checkpoint,
    Mirrors,
    Replicas,
    Stop,
    problems,
    solve,
)
from hogshare.optimum import held_out_scores
from hogshare.runtimes.mpi import site_files

COMM = library.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
EVEN = np.linspace(0, 1.0, SIZE + 1)
UNEVEN = np.concatenate([[0.0], np.linspace(0.1, 1.0, SIZE)])
SPACING, ALL = MPI(arena=False), MPI(arena=False, rows="all")

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
    yield stated(y, here(EVEN), **settings), SPACING, here(EVEN)
    yield stated(y, here(UNEVEN), **settings), SPACING, here(UNEVEN)
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
            assert np.isclose(last["gradient"], again.checks[0]["gradient"], rtol=0.25)


def check_scores_are_those_of_the_model_on_all_held_out_rows():
    for y, settings in (
        (Y, {}),
        (SCORES, {"loss": "squared_error"}),
        (CLASSES, {"loss": "multinomial"}),
    ):
        for part, runtime, mine in ways(y, weights=WEIGHTS, **settings):
            for plane in (None, Replicas("ring", every=16)):
                found, scores = [], held_out_scores.HeldOut.scores

                def listed(self, model, found=found, scores=scores):
                    found.append(scores(self, model))
                    return found[-1]

                held_out_scores.HeldOut.scores = listed
                stop = Stop(epochs=200, tol=1e-3, validation=HELD_OUT[mine])
                try:
                    report = solve(part, plane=plane, runtime=runtime, stop=stop, step=0.01)
                finally:
                    held_out_scores.HeldOut.scores = scores
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
    for mine, runtime in ((here(UNEVEN), SPACING), (slice(None), ALL)):
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
    text = refused(ValueError, lambda: solve(stated(Y), runtime=SPACING, stop=nobody))
    assert "marks all rows of rank 0" in text and on_all(text)
    one = Stop(epochs=2, tol=1e-3, validation=HELD_OUT if RANK else None)
    text = refused(ValueError, lambda: solve(stated(Y), runtime=SPACING, stop=one))
    assert "given on rank 1 and not on rank 0" in text and on_all(text)


def check_snapshots_within_an_epoch_are_of_all_rows_so_far():
    for part, runtime, _ in ways(Y):
        for rule in ("sgd", "sdca"):
            report = solve(
                part, rule=rule, runtime=runtime, stop=6, seed=0, trace=4, gradients=True
            )
            trace, whole = report.trace, stated(Y)
            assert len(trace.epochs) > 12 and trace.epochs[-1] == 6.0, trace.epochs
            assert (np.diff(trace.epochs) > 0.0).all() and (np.diff(trace.seconds) >= 0.0).all()
            reached = whole.objective(report.model.coef, report.model.intercept)
            assert abs(trace.objective[-1] - reached) < 1e-12
            assert trace.objective[0] == np.float64(trace.objective[0]) > 2.0 * reached
            slope = np.zeros(whole.n_params)
            w = np.concatenate([report.model.coef.ravel(), report.model.intercept])
            whole.gradient(w, np.arange(len(X)), slope)
            assert np.isclose(trace.squared_gradient[-1], np.square(slope / len(X)).sum())
            assert on_all(str(trace.objective))
    text = refused(ValueError, lambda: solve(stated(Y), plane="replicas", runtime=ALL, trace=2))
    assert "a trace of more than one snapshot an epoch on Replicas" in text and on_all(text)


@functools.cache
def folder():
    """A folder that all ranks see."""
    return Path(COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None))


def place(name):
    """A path in a folder of its own, in which there is nothing yet."""
    path = folder() / name / "run.npz"
    COMM.barrier()
    if RANK == 0:
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
    COMM.barrier()
    return path


def value(report):
    return stated(Y).objective(report.model.coef, report.model.intercept)


def check_a_resumed_run_goes_on_where_it_was():
    path = place("resumed")
    for rule in (SGD(average=1), "saga", "sdca"):
        for part, runtime, _ in ways(Y):
            run = {"rule": rule, "runtime": runtime, "seed": 0}
            solve(part, stop=6, checkpoint=path, **run)
            again = solve(part, stop=12, resume=path, checkpoint=path, **run)
            whole = solve(part, stop=12, **run)
            assert again.n_epochs == 12 and again.model.t == whole.model.t == 1 + 12 * len(X)
            # As close as two runs of it: what has not settled by then depends on when offers come.
            # An average holds every epoch; four ranks on two busy cores moved it by 5 %.
            near = {"saga": 1e-3, "sdca": 1e-2}.get(rule, 0.1)
            assert abs(value(again) / value(whole) - 1.0) < near, (rule, value(again), value(whole))
            assert on_all(again.model.coef.tobytes())
            names = sorted(os.listdir(path.parent))
            assert len(names) == 1 + SIZE and names[0] == "run.npz", names


def check_homes_are_resumed_bit_for_bit():
    path = place("homes")
    for plane in (
        Replicas("ring", every=16),
        Replicas("ring", every=16, send="change"),
        Mirrors(list(range(SIZE)), every=16),
    ):
        for rule in ("sgd", SGD(average=1)):
            run = {"plane": plane, "rule": rule, "runtime": ALL, "seed": 0}
            solve(stated(Y), stop=4, checkpoint=path, **run)
            again = solve(stated(Y), stop=8, resume=path, **run)
            whole = solve(stated(Y), stop=8, **run)
            exact = not isinstance(plane, Mirrors) and plane.send == "model"
            distance = np.abs(again.model.coef - whole.model.coef).max()
            # mail of Mirrors comes when it comes
            assert distance <= (0.0 if exact else 1e-12 if SIZE == 2 else 0.1), (plane, distance)


def check_other_ranks_and_one_process_go_on_with_it():
    path = place("others")
    for rule in ("sgd", "saga", "sdca"):
        best = value(solve(stated(Y), rule="saga", runtime="caller", stop=300, seed=0))
        for part, runtime, _ in ways(Y):
            run = {"rule": rule, "seed": 0}
            before = solve(part, runtime=runtime, stop=6, checkpoint=path, **run)
            assert Checkpoint(path).model().coef.tobytes() == before.model.coef.tobytes()
            assert (Checkpoint(path).model().memory is not None) == (rule != "sgd")
            # rows dealt in another way, and so another part of the memory for each
            if runtime is ALL:
                dealt = solve(part, runtime=runtime, n_workers=2, stop=8, resume=path, **run)
            else:
                dealt = solve(stated(Y), runtime=ALL, stop=8, resume=path, **run)
            assert dealt.n_epochs == 8 and value(dealt) < value(before) + 0.01
            COMM.barrier()
            if RANK == 0:
                alone = solve(stated(Y), runtime="caller", stop=40, resume=path, **run)
                assert alone.n_epochs == 40
                assert value(alone) < best * (1.02 if rule == "sgd" else 1.001)
                solve(stated(Y), runtime="caller", stop=6, checkpoint=path, **run)
                assert os.listdir(path.parent) == ["run.npz"]
            COMM.barrier()
            again = solve(part, runtime=runtime, stop=8, resume=path, **run)
            assert again.n_epochs == 8 and value(again) < value(before) + 0.01


def check_criteria_go_on_with_a_resumed_run():
    path = place("criteria")
    for part, runtime, mine in ways(Y):
        run = {"rule": "saga", "runtime": runtime, "seed": 0, "checkpoint": path}
        solve(part, stop=Stop(epochs=20, gap=1e-8), **run)
        again = solve(part, stop=Stop(epochs=3000, gap=1e-8), resume=path, **run)
        assert again.converged and again.checks[0]["epoch"] < 20 < again.checks[-1]["epoch"]
        stop = {"tol": 1e-3, "validation": HELD_OUT[mine]}
        run = {"runtime": runtime, "seed": 0, "checkpoint": path, "step": 0.01}
        solve(part, stop=Stop(epochs=4, **stop), **run)
        again = solve(part, stop=Stop(epochs=100, **stop), resume=path, **run)
        assert again.converged and 4 < again.n_epochs < 100


def check_a_gradients_run_is_resumed():
    path = place("gradient")

    def gradient(w, rows, out):
        out += len(rows) * (w - 1.0)
        return 0.5 * len(rows) * float(np.square(w - 1.0).sum())

    own = problems.user(gradient, 64, 3)
    run = {"runtime": ALL, "plane": Replicas("ring"), "step": 1e-3, "block": 8, "seed": 0}
    for rule in ("sgd", "adam"):
        solve(own, rule=rule, stop=3, checkpoint=path, **run)
        again = solve(own, rule=rule, stop=6, resume=path, **run)
        whole = solve(own, rule=rule, stop=6, **run)
        assert np.array_equal(again.model.params, whole.model.params), rule


def check_what_one_rank_cannot_write_is_a_warning_on_all():
    path, write = place("full"), site_files.write_part

    def full(place, parts, site, *rest):
        if site == SIZE - 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place))
        write(place, parts, site, *rest)

    run = {"runtime": SPACING, "seed": 0, "checkpoint": path}
    part = stated(Y, here(EVEN))
    solve(part, stop=2, **run)
    before = sorted(os.listdir(path.parent))
    COMM.barrier()
    site_files.write_part = full
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = solve(part, stop=5, resume=path, **run)
    finally:
        site_files.write_part = write
    said = [str(one.message) for one in caught if one.category.__name__ == "CheckpointFailed"]
    assert len(said) == 1 and f"on rank {SIZE - 1}" in said[0], said
    assert report.n_epochs == 5 and sorted(os.listdir(path.parent)) == before
    COMM.barrier()
    gone = place("gone")

    def hear(epoch, snapshot):
        if epoch == 3 and RANK == 0:
            shutil.rmtree(gone.parent)
        if epoch == 6 and RANK == 0:
            gone.parent.mkdir()
        return False

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = solve(part, stop=9, on_epoch=hear, **{**run, "checkpoint": gone})
    said = [one for one in caught if one.category.__name__ == "CheckpointFailed"]
    assert len(said) == 1 and report.n_epochs == 9
    assert solve(part, stop=9, runtime=SPACING, seed=0, resume=gone).n_epochs == 9


def check_files_that_do_not_fit_are_refused_on_all():
    path = place("refused")
    part = stated(Y, here(EVEN))
    run = {"runtime": SPACING, "rule": "saga", "seed": 0}
    text = refused(OSError, lambda: solve(part, stop=2, resume=path, **run))
    assert "No such file" in text and on_all(text)
    solve(part, stop=2, checkpoint=path, **run)
    other = stated(1 - Y, here(EVEN))
    text = refused(ValueError, lambda: solve(other, stop=4, resume=path, **run))
    assert "have other numbers" in text and on_all(text)
    COMM.barrier()
    if RANK == 0:
        next(path.parent.glob("run.npz.*.0of*")).unlink()
    COMM.barrier()
    text = refused(OSError, lambda: solve(part, stop=4, resume=path, **run))
    assert "run.npz." in text and on_all(text)


class Apart(problems.GradientProblem):
    """Squared distances, with a penalty that is in the objective alone."""

    def __init__(self, points):
        self.points = points
        self.n_rows, self.n_params = points.shape

    def gradient(self, w, rows, out):
        away = w - self.points[rows]
        out += away.sum(axis=0) + len(rows) * 0.1 * w
        return 0.5 * np.square(away).sum()

    def objective(self, params):
        return self.evaluate(params)[0] + 0.05 * params @ params


def by_gradient():
    """Makers of problems by a gradient, of some of the rows, and a step."""
    rng = np.random.default_rng(3)
    users, items = rng.integers(0, 30, 900), rng.integers(0, 20, 900)
    levels = np.outer(rng.random(30), rng.random(20))[users, items]
    counts, inputs = rng.poisson(0.3, (200, 30)), X[:400].astype(np.float32)
    weights = WEIGHTS[:400]
    yield lambda mine: Apart(2.0 + X[:400][mine]), 400, 0.001
    for w in (None, weights):
        yield (
            lambda mine, w=w: problems.network(
                inputs[mine],
                CLASSES[:400][mine],
                (5,),
                alpha=0.1,
                sample_weight=None if w is None else w[mine],
            ),
            400,
            0.01,
        )
    yield (
        lambda mine: problems.factorisation(
            users[mine], items[mine], levels[mine], (30, 20), n_factors=3, dtype=np.float64
        ),
        900,
        0.05,
    )
    yield lambda mine: problems.topics(counts[mine], 3, random_state=0), 200, None


def check_shards_of_problems_by_a_gradient_are_the_whole():
    for make, n, step in by_gradient():
        whole = make(slice(None))
        mine = slice(*(round(share * n) for share in UNEVEN[RANK : RANK + 2]))
        for plane in (Replicas("all", sync="bsp"), Mirrors(SIZE), "master"):
            run = {"plane": plane, "runtime": SPACING, "stop": 3, "seed": 0}
            if step is not None:
                run["step"] = step
            report = solve(make(mine), trace=1, **run)
            params = report.model.params
            assert on_all(params.tobytes())
            assert np.isclose(report.trace.objective[-1], whole.objective(params), rtol=1e-9)
            start = solve(whole, runtime="caller", stop=1, step=step, trace=1, seed=0)
            first = start.trace.objective[0]
            assert np.isclose(report.trace.objective[0], first, rtol=1e-6), (whole.name, plane)
            assert report.trace.objective[-1] < first, (whole.name, plane)
            assert report.settings["problem"]["rows"] == n


def check_shards_of_a_network_that_lack_a_class_are_refused():
    labels = np.array(["a", "b"] if RANK else ["a", "c"])[np.arange(20) % 2]
    part = problems.network(X[:20], labels, (3,))
    run = {"plane": "replicas", "runtime": SPACING, "stop": 1, "step": 0.01}
    text = refused(ValueError, lambda: solve(part, **run))
    assert "lack classes that other parts have" in text and on_all(text), text


CHECKS = {name: thing for name, thing in list(globals().items()) if name.startswith("check_")}

if __name__ == "__main__":
    report_on({name: CHECKS[name] for name in sys.argv[1:] or CHECKS}, RANK)
    COMM.barrier()
    if RANK == 0 and folder.cache_info().currsize:
        shutil.rmtree(folder(), ignore_errors=True)
