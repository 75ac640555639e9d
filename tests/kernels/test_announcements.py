"""What is said while kernels are compiled, to whom, and when nothing is."""

import contextlib
import fcntl
import io
import logging
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import hogshare
from hogshare.estimators import fits
from hogshare.kernels import preload
from hogshare.kernels.jit import announcements, cache, decorators

pytestmark = pytest.mark.skipif(decorators.JIT_DISABLED, reason="nothing is compiled")

BEGIN = r"hogshare: compiling kernels for {}: some 20 s, {}"
END = r"hogshare: compiled {} in \d+\.\d s"


@pytest.fixture(autouse=True)
def folder(tmp_path, seams, monkeypatch):
    """A new folder, no second of silence, and logging as it is where nobody has set it up."""
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    seams.kernels.folder = folder
    seams.kernels.told = []
    seams.clock.silent = 0.0
    monkeypatch.delenv("HOGSHARE_QUIET", raising=False)
    log = logging.Logger("hogshare")  # pytest listens to all that are known
    log.addHandler(logging.NullHandler())
    log.parent = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(announcements, "log", log)
    yield folder
    logging.disable(logging.NOTSET)


def use(n=1, of=2.5):
    """Call new kernels."""

    @decorators.kernel
    def next_number(x):
        return x[0] + 1

    @decorators.kernel
    def twice(x):
        return 2 * x[0]

    for one in (next_number, twice)[:n]:
        one(np.array([of]))


def said(capsys):
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def matches(lines, *patterns):
    return len(lines) == len(patterns) and all(map(re.fullmatch, patterns, lines))


def test_what_is_compiled_is_told_once_and_how_long_it_took(capsys, folder):
    with announcements.block("Somebody"):
        use(2)
        assert matches(
            said(capsys), BEGIN.format(r"Somebody \(float64\)", f"once; cached in {folder}")
        )
    assert matches(said(capsys), END.format("2 kernels"))


def test_what_is_loaded_is_not_told(capsys):
    use()
    assert said(capsys)
    with announcements.block("Somebody"):
        use()
    assert said(capsys) == []


def test_a_second_of_it_is_silent(capsys, seams):
    seams.clock.silent = 1e9
    with announcements.block("Somebody"):
        use(2)
    assert said(capsys) == []


def test_what_nobody_has_noticed_in_time_is_told_at_the_end(capsys, monkeypatch):
    monkeypatch.setattr(announcements, "tick", lambda: None)
    with announcements.block("Somebody"):
        use(2)
        assert said(capsys) == []
    assert matches(said(capsys), END.format("2 kernels for Somebody"))


def test_the_outermost_block_tells(capsys):
    with announcements.block("Somebody"):
        with announcements.block("somebody within"):
            use()
        use(of=1)
    first, last = said(capsys)
    assert "for Somebody" in first and "2 kernels in" in last


def test_how_long_it_took_is_told_when_the_work_begins_and_of_the_rest_at_the_end(capsys):
    with announcements.block("Somebody"):
        use()
        announcements.over()
        announcements.over()
        use(2, of=1)
    lines = said(capsys)
    assert len(lines) == 3
    assert matches(lines[1:], END.format("1 kernel"), END.format("2 kernels"))


def test_a_kernel_by_itself_is_named(capsys):
    use()
    first, last = said(capsys)
    assert "for test_announcements.next_number" in first and "1 kernel in" in last


def test_where_nothing_can_be_kept(capsys, seams):
    seams.kernels.folder = None
    with pytest.warns(cache.KernelsNotCached):
        use()
    assert "in each process, because nothing can be cached" in said(capsys)[0]


def test_a_compilation_that_fails_leaves_nothing(capsys):
    @decorators.kernel
    def wrong(x):
        return x + "1"

    with pytest.raises(Exception, match="No implementation"), announcements.block("Somebody"):
        wrong(1)
    assert len(said(capsys)) == 1
    assert (
        announcements._state.depth,
        announcements._state.kernels,
        announcements._state.lock,
    ) == (0, 0, None)
    use()
    assert len(said(capsys)) == 2


@pytest.mark.parametrize("how", ["level", "disable", "disabled", "handler", "environment"])
def test_who_does_not_want_it_does_not_get_it(capsys, monkeypatch, how):
    heard = []
    if how == "level":
        announcements.log.setLevel(logging.WARNING)
    elif how == "disable":
        logging.disable(logging.INFO)
    elif how == "disabled":
        monkeypatch.setattr(announcements.log, "disabled", True)
    elif how == "handler":  # logging is set up, for warnings
        announcements.log.addHandler(a_handler(heard))
    else:
        monkeypatch.setenv("HOGSHARE_QUIET", "1")
    use()
    assert said(capsys) == heard == []


def a_handler(heard):
    handler = logging.Handler()
    handler.emit = lambda record: heard.append((record.levelname, record.getMessage()))
    return handler


def test_where_standard_error_is_closed_nothing_goes_to_standard_output(capsys, monkeypatch):
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stderr", None)
        use()
    assert capsys.readouterr().out == ""


def test_who_listens_hears_it_and_standard_error_does_not(capsys):
    heard = []
    announcements.log.addHandler(a_handler(heard))
    announcements.log.setLevel(logging.INFO)
    use()
    assert said(capsys) == []
    assert [level for level, _ in heard] == ["INFO"] * 2
    assert heard[0][1].startswith("compiling kernels for")


@pytest.mark.parametrize("there_is", [None, "closed"])
def test_no_standard_error_is_no_trouble(monkeypatch, there_is):
    stream = io.StringIO() if there_is else None
    if stream:
        stream.close()
    with contextlib.redirect_stderr(stream):
        use()


def test_of_several_at_once_one_tells(capsys, folder):
    """Processes and threads alike: each opens the folder for itself."""
    another = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(another, fcntl.LOCK_EX)
        use(2)
        assert said(capsys) == []
    finally:
        os.close(another)
    with announcements.block("Somebody"):
        use(of=1)
        thread = threading.Thread(target=use, kwargs={"of": 1j})
        thread.start()
        thread.join()
    assert len(said(capsys)) == 2


def test_a_child_that_was_forked_meanwhile_does_not_keep_others_quiet(capsys, folder):
    with announcements.block("Somebody"):
        use()
        of_the_child = os.dup(announcements._state.lock)
    try:
        use(of=1)
        assert len(said(capsys)) == 4
    finally:
        os.close(of_the_child)


def test_members_of_the_crew_leave_it_to_their_caller(capsys, monkeypatch):
    monkeypatch.setitem(announcements._process, "silent", False)
    preload.preload(())
    use()
    assert said(capsys) == []


@pytest.mark.parametrize(
    "name",
    [
        *("SGDClassifier", "SGDRegressor", "LogisticRegression", "LogisticRegressionCV"),
        *("Ridge", "RidgeClassifier", "Lasso", "ElasticNet"),
    ],
)
def test_a_fit_is_a_block_by_its_estimators_name(monkeypatch, name):
    blocks = []

    def block(*args):
        blocks.append(args)
        raise InterruptedError  # before there is any work

    estimator = getattr(hogshare, name)()
    monkeypatch.setattr(fits.announcements, "block", block)
    for call in filter(None, (estimator.fit, getattr(estimator, "partial_fit", None))):
        with pytest.raises(InterruptedError):
            call(np.eye(2), [0, 1])
    assert blocks == [(name,)] * len(blocks) and blocks


SCRIPT = """
import numpy as np
from hogshare.kernels.jit import announcements
announcements.SILENT_SECONDS = 0.0
from hogshare.kernels.rows.sums import total
print(total(np.ones(5)))
"""


def test_a_script_says_it_on_standard_error_and_warns_of_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env={**os.environ, "HOGSHARE_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "5.0\n"), done.stderr
    begin = BEGIN.format(r"sums.total \(float64\)", f"once; cached in {tmp_path}/.*")
    assert matches(done.stderr.splitlines(), begin, END.format("1 kernel"))
