"""Threads that take part in a pass over rows: the same findings, and nobody is waited for."""

import os
import threading

import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import SGDClassifier
from hogshare.estimators import validation
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.kernels.rows import survey as survey_module
from hogshare.kernels.rows.shared_passes import NOBODY, Helpers
from hogshare.problems.linear.row_arrays import survey_rows
from hogshare.runtimes import helper_threads
from hogshare.runtimes.helper_threads import LEAST_VALUES, helpers_for

PATIENCE = 30.0
threaded = pytest.mark.skipif(JIT_DISABLED, reason="atomic words need the compiler")


@pytest.fixture
def eight_cores(seams):
    """A machine of eight cores, and who asks for two gets two."""
    seams.usable.helpers = lambda n_jobs: {None: 1, -1: 8}.get(n_jobs, 2)
    seams.usable.cores_of_helpers = lambda: 8


@pytest.fixture
def small_parts(seams):
    seams.sizes.surveyed = 64


def rows_of(n_rows=3000, n_features=40, dtype=np.float32):
    X = sp.random(n_rows, n_features, 0.2, "csr", dtype, random_state=0)
    X.data -= dtype(0.3)
    return X


def started(functions):
    """Helpers that run at once, each in a thread of its own; their threads are listed."""

    def call(function):
        for me in (1, 2, 3):
            functions.append(threading.Thread(target=function, args=(me,)))
            functions[-1].start()

    return Helpers(3, call)


@threaded
@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("n_features", [40, survey_module.FEW + 1], ids=["counted", "too many"])
def test_several_find_what_one_finds_bit_for_bit(n_features):
    X = rows_of(n_features=n_features)
    alone = survey_rows(X, True)
    assert alone.counts is None or alone.counts.sum() == X.nnz
    for _ in range(20):
        threads = []
        together = survey_rows(X, True, started(threads))
        assert together[:4] == alone[:4]
        np.testing.assert_array_equal(together.counts, alone.counts)
        for thread in threads:
            thread.join(PATIENCE)


@threaded
def test_who_has_begun_a_part_is_waited_for(seams):
    """All parts are done when the pass is over, whoever has done them."""
    seams.sizes.surveyed = 1
    X = rows_of(n_rows=200)

    def first(function):
        helper = threading.Thread(target=function, args=(1,))
        helper.start()
        helper.join(PATIENCE)  # it has done all parts by itself

    alone, together = survey_rows(X, True), survey_rows(X, True, Helpers(1, first))
    assert together[:4] == alone[:4]
    np.testing.assert_array_equal(together.counts, alone.counts)


@pytest.mark.usefixtures("small_parts")
def test_a_helper_that_comes_too_late_changes_nothing():
    late = []
    X = rows_of()
    found = survey_rows(X, True, Helpers(2, late.append))
    before = (*found[:4], found.counts.copy())
    (look,) = late
    look(1)
    look(2)
    assert before[:4] == found[:4]
    np.testing.assert_array_equal(before[4], found.counts)
    assert found.counts.sum() == X.nnz


@threaded
@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("place", [0, 2000, -1])
def test_several_find_a_column_that_is_too_large(place):
    X = rows_of()
    X.indices[place] = X.shape[1]
    threads = []
    with pytest.raises(ValueError, match="matrix is damaged"):
        survey_rows(X, True, started(threads))
    for thread in threads:
        thread.join(PATIENCE)


@threaded
@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("sizes", [True, False])
def test_several_find_in_dense_rows_what_one_finds(sizes, seams):
    seams.sizes.helped = 1
    X = rows_of().toarray()
    alone = survey_rows(X, sizes)
    for _ in range(20):
        threads = []
        assert survey_rows(X, sizes, started(threads)) == alone
        for thread in threads:
            thread.join(PATIENCE)


@threaded
@pytest.mark.usefixtures("eight_cores")
def test_how_many_help():
    assert helpers_for(100 * LEAST_VALUES, None) is NOBODY, "one worker is the default"
    assert helpers_for(100 * LEAST_VALUES, 1) is NOBODY
    assert helpers_for(2 * LEAST_VALUES - 1, -1) is NOBODY, "not for so little"
    assert helpers_for(2 * LEAST_VALUES, 2).count == 1
    assert helpers_for(3 * LEAST_VALUES, -1).count == 2
    assert helpers_for(100 * LEAST_VALUES, -1).count == 7


def test_no_workers_at_all_are_refused():
    with pytest.raises(ValueError, match="n_workers == 0"):
        helpers_for(2 * LEAST_VALUES, 0)


@threaded
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
@pytest.mark.usefixtures("eight_cores")
def test_helpers_are_other_threads_and_free_afterwards():
    usable, seen, meeting = os.sched_getaffinity(0), {}, threading.Barrier(2)

    def function(me):
        seen[me] = threading.get_ident()
        meeting.wait(PATIENCE)

    for _ in range(20):
        helpers_for(2 * LEAST_VALUES, 2).call(function)
        function(0)
        assert seen.pop(0) == threading.get_ident() != seen.pop(1)
        assert os.sched_getaffinity(0) == usable, "the caller goes where it likes"
    tasks = [helper_threads.pool().submit(os.sched_getaffinity, 0) for _ in range(4)]
    assert all(task.result(PATIENCE) == usable for task in tasks)


@threaded
@pytest.mark.usefixtures("eight_cores")
def test_none_is_sent_for_while_some_have_not_come(seams):
    go, came = threading.Event(), []

    def late(me):
        came.append(me)
        go.wait(PATIENCE)

    helpers = helpers_for(100 * LEAST_VALUES, -1)
    helpers.call(late)
    helpers.call(late)
    assert len(helper_threads._out) == helpers.count
    go.set()
    for _, task in helper_threads._out:
        task.result(PATIENCE)
    assert len(came) == helpers.count
    seams.loop.submit = refuse
    helpers.call(late)  # nobody helps, and nobody minds
    assert len(came) == helpers.count


def refuse(*task):
    raise RuntimeError("can't start new thread")


@threaded
@pytest.mark.parametrize("dense", [False, True])
def test_a_fit_with_several_looks_its_rows_over_with_several(dense, seams, monkeypatch):
    monkeypatch.setattr(helper_threads, "LEAST_VALUES", 16)
    seams.usable.helpers = lambda n_jobs: n_jobs
    seams.usable.cores_of_helpers = lambda: 8
    seams.sizes.helped = 16
    X = rows_of()
    y = np.asarray(X.sum(axis=1)).ravel() > 0.0
    X = X.toarray() if dense else X
    asked = []

    def spied(n_values, n_jobs):
        helpers = helpers_for(n_values, n_jobs)
        asked.append((n_values, n_jobs, helpers.count))
        return helpers

    monkeypatch.setattr(validation, "helpers_for", spied)
    models = [
        SGDClassifier(n_jobs=n_jobs, runtime="auto", max_iter=3, tol=None, random_state=0).fit(X, y)
        for n_jobs in (1, 3)
    ]
    size = X.size if dense else X.nnz
    assert asked == [(size, 1, 0), (size, 3, 2)]
    assert len(models[1].report_.workers) == 1, "too few rows for a second worker"
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
