"""The command, mostly through main([...]); once as a process of its own."""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import hogshare
from hogshare import SAGA, SDCA, SSP, Master, Shared
from hogshare.cli import console, fit, kinds, warm
from hogshare.cli.main import build_parser, main, sentence
from hogshare.io.models import model_file, save_load
from hogshare.kernels.jit import cache, decorators
from hogshare.lab.experiments import speedup
from hogshare.lab.experiments.reduce import REDUCE
from hogshare.lab.harness.experiment import crowded
from hogshare.lab.studies import simulate
from hogshare.report import Report

compiles = pytest.mark.skipif(decorators.JIT_DISABLED, reason="nothing is compiled")

KINDS = ("speedup", "barriers", "rivals")


pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.fixture
def rows_file(tmp_path):
    """Separable LIBSVM text: the label is the sign of the first column."""
    rng = np.random.default_rng(0)
    lines = []
    for x in rng.standard_normal((200, 3)):
        values = " ".join(f"{j + 1}:{value:.6f}" for j, value in enumerate(x))
        lines.append(f"{1 if x[0] > 0 else -1} {values}\n")
    path = tmp_path / "rows.svm"
    path.write_text("".join(lines))
    return path


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# -- the frame


def test_help_imports_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "hogshare", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "examples:" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    heavy = {"numpy", "numba", "sklearn", "scipy", "joblib", "rich", "matplotlib"}
    assert not heavy & {name.split(".")[0] for name in imported}


def test_help_and_version(capsys):
    assert run(capsys, "--help")[0] == 0
    code, out, _ = run(capsys, "--version")
    assert (code, out.split()[0]) == (0, "hogshare")
    bench = (["bench", kind] for kind in KINDS)
    simulate = (["simulate", kind] for kind in ("psp", "progress"))
    for command in (*bench, *simulate, ["fit"], ["predict"], ["info"]):
        code, out, _ = run(capsys, *command, "--help")
        assert code == 0
        assert out.startswith(f"usage: hogshare {' '.join(command)}")


def parsers(parser=None, words=()):
    """Every parser of the command: its own, and those of commands and their parts."""
    parser = parser or build_parser()
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, part in action.choices.items():
                yield from parsers(part, (*words, name))


@pytest.mark.parametrize("words", [words for words, _ in parsers()], ids=" ".join)
def test_every_help_is_whole(words, monkeypatch):
    """No signs of formatting are left, every option is explained, and examples are to be copied."""
    monkeypatch.setenv("COLUMNS", "80")
    parser = dict(parsers())[words]
    text = parser.format_help()
    assert "%%" not in text and "%(" not in text
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        assert action.help, action.dest
        assert action.default is not None or "None" not in parser._get_formatter()._expand_help(
            action
        )
    examples = [line for line in text.splitlines() if re.match(r"(example:)? +hogshare ", line)]
    assert examples or not parser._defaults or words == ("info",)
    for example in examples:
        command = example.removeprefix("example:").split()[1:]
        assert build_parser().parse_args(command).run


@pytest.mark.parametrize(
    "command",
    [["fit", "x", "--model", "m"], ["predict", "m", "x"], *(["bench", kind] for kind in KINDS)],
    ids=" ".join,
)
def test_who_reads_libsvm_text_is_told_where_indices_begin(capsys, command):
    for options, zero_based in (([], "auto"), (["--zero-based"], True), (["--one-based"], False)):
        assert build_parser().parse_args([*command, *options]).zero_based is zero_based
    code, _, err = run(capsys, *command, "--zero-based", "--one-based")
    assert code == 2 and "not allowed with argument" in err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["bench"],
        ["fit", "x"],
        ["simulate"],
        ["simulate", "psp"],
        ["simulate", "psp", "--figure", "6a"],
        ["simulate", "psp", "--figure", "1a", "--workers", "100"],
        ["simulate", "psp", "--figure", "1a", "--law", "weibull:1"],
        ["simulate", "progress", "--barrier", "bsp"],
        ["simulate", "progress", "--barrier", "bsp", "--seconds", "1", "--blocks", "1"],
        ["simulate", "progress", "--barrier", "bsp", "--seconds", "-1"],
        ["simulate", "progress", "--barrier", "bsp", "--seconds", "1", "--slow", "0.5"],
        ["simulate", "progress", "--barrier", "bsp", "--seconds", "1", "--slow", "1.5,4"],
        ["simulate", "progress", "--barrier", "bsp", "--seconds", "1", "--poll", "0"],
        ["bench", "speedup", "--workers", "0"],
        ["bench", "speedup", "--workers", "1,b"],
        ["bench", "speedup", "--exchange", "sometimes"],
        ["bench", "speedup", "--target", "nan"],
        ["fit", "x", "--model", "m", "--alpha", "-1"],
        ["fit", "x", "--model", "m", "--n-jobs", "0"],
        ["fit", "x", "--model", "m", "--epochs", "1.5"],
        ["fit", "x", "--model", "m", "--tol", "-1"],
        ["fit", "x", "--model", "m", "--l1-ratio", "2"],
        ["fit", "x", "--model", "m", "--estimator", "forest"],
        ["fit", "x", "--model", "m", "--estimator", "logistic", "--C", "0"],
        ["fit", "x", "--model", "m", "--estimator", "logistic", "--alpha", "1"],
        ["fit", "x", "--model", "m", "--estimator", "logistic", "--tol", "none"],
        ["fit", "x", "--model", "m", "--estimator", "lasso", "--task", "classification"],
        ["fit", "x", "--model", "m", "--estimator", "ridge", "--average"],
        ["fit", "x", "--model", "m", "--estimator", "sgd", "--C", "1"],
        ["fit", "x", "--model", "m", "--resume"],
        ["fit", "x", "--model", "m", "--n-topics", "3"],
        ["fit", "x", "--model", "m", "--estimator", "topics", "--n-topics", "0"],
        ["fit", "x", "--model", "m", "--estimator", "topics", "--tol", "0.1"],
        ["fit", "x", "--model", "m", "--estimator", "topics", "--labels", "y"],
        ["fit", "x", "--model", "m", "--estimator", "topics", "--task", "classification"],
        ["fit", "x", "--model", "m", "--estimator", "topics", "--checkpoint", "c"],
        ["fit", "x", "--model", "m", "--estimator", "ridge", "--checkpoint", "c"],
    ],
)
def test_a_wrong_command_line_is_2(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "error:" in err
    assert "positive_int" not in err


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["warm", "Rigde"], "'Ridge'"),
        (["warm", "sgdclasifier"], "'SGDClassifier'"),
        (["warm", "--rule", "saag"], "'saga'"),
        (["warm", "--plane", "mastr"], "'master'"),
        (["warm", "--barrier", "spp:1"], "'ssp'"),
        (["fit", "x", "--model", "m", "--loss", "logloss"], "'log_loss'"),
        (["fit", "x", "--model", "m", "--estimator", "rigde"], "'ridge'"),
        (["fit", "x", "--model", "m", "--lable-column", "y"], "'--label-column'"),
        (["fit", "x", "--model", "m", "--barrier", "bps"], "'bsp'"),
        (["predcit", "m", "x"], "'predict'"),
    ],
)
def test_a_wrong_command_line_names_what_was_probably_meant(capsys, arguments, near):
    code, _, err = run(capsys, *arguments)
    wrong, meant, helps = err.splitlines()
    assert code == 2 and "error: " in wrong and meant.startswith(f"Did you mean {near}?")
    assert helps.startswith("hogshare ") and helps.endswith(" --help lists every option")
    code, _, err = run(capsys, "predict", "m", "x", "--n-features", "3")
    assert code == 2 and "--n-features 3\nIt is for another command.\n" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench", "speedup", "--data", "nope"], "no data set is called 'nope'"),
        (["fit", "missing.svm", "--model", "m"], "missing.svm: No such file"),
        (["predict", "missing.npz", "rows"], "missing.npz: No such file"),
        (
            ["simulate", "progress", "--barrier", "pbsp:2", "--poll", "none", "--seconds", "1"],
            "poll must be the virtual seconds between polls",
        ),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_1(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (1, "")
    assert words in err
    assert err.startswith("hogshare: error: ")
    assert err.count("\n") == 1


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("HOGSHARE_DEBUG", "1")
    with pytest.raises(ValueError, match="nope"):
        main(["fit", "nope", "--model", "m"])


def test_errors_in_words():
    assert sentence(ValueError("a\n  b")) == "a b"
    assert sentence(MemoryError()) == "MemoryError"
    assert sentence(OSError(28, "No space left on device", "m.npz")) == (
        "m.npz: No space left on device"
    )
    assert "unexpected KeyError" in sentence(KeyError("x"))


def test_ctrl_c_is_130(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("hogshare.cli.info.gather", interrupted)
    code, out, err = run(capsys, "info")
    assert (code, out) == (130, "")
    assert "Ctrl-C" in err
    assert "Traceback" not in err


def test_warnings_are_sentences(capsys, monkeypatch):
    import warnings

    def warn():
        warnings.warn("worker 1 died", RuntimeWarning, stacklevel=2)
        return {"a": 1}

    monkeypatch.setattr("hogshare.cli.info.gather", warn)
    code, _, err = run(capsys, "info")
    assert (code, err) == (0, "hogshare: warning: worker 1 died\n")


@pytest.mark.skipif(os.name != "posix", reason="needs a pipe that its reader closes")
def test_a_reader_that_leaves_is_no_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "hogshare", "info"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


CLOSED = {
    ">&-": {1: "closed"},
    "2>&-": {2: "closed"},
    ">&- 2>&-": {1: "closed", 2: "closed"},
    "<&- >&- 2>&-": {0: "closed", 1: "closed", 2: "closed"},
    "2>/dev/full": {2: "full"},
}


def with_streams(how, *arguments):
    """Run the command in a process, with some of its streams closed."""
    command = [sys.executable, "-m", "hogshare", *map(str, arguments)]
    shell = ["sh", "-c", f'exec "$@" {how}', "sh", *command]
    return subprocess.run(shell, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a shell's streams")
@pytest.mark.parametrize("how", CLOSED)
def test_a_fit_whose_streams_are_closed_writes_its_model(rows_file, tmp_path, how):
    """What nobody can read is left out, and no file takes a stream's place."""
    model, report = tmp_path / "m.npz", tmp_path / "report.json"
    settings = "--runtime", "caller", "--epochs", 3, "--json", report
    done = with_streams(how, "fit", rows_file, "--model", model, *settings)
    assert done.returncode == 0, done.stderr
    assert hogshare.load(model).coef_.shape == (1, 3) and json.loads(report.read_text())
    assert ("training accuracy" in done.stdout) == (1 not in CLOSED[how])
    assert "rows_file" not in done.stdout and "columns," not in done.stdout
    if how not in ("<&- >&- 2>&-", "2>/dev/full"):  # the others are of both commands alike
        return
    labels = tmp_path / "labels.txt"
    done = with_streams(how, "predict", model, rows_file, "--out", labels)
    assert (done.returncode, len(labels.read_text().splitlines())) == (0, 200)


@pytest.mark.skipif(os.name != "posix", reason="needs a shell's streams")
@pytest.mark.parametrize(
    "arguments", [["info"], ["fit", "ROWS", "--model", "MODEL", "--json", "-"]], ids=lambda a: a[0]
)
def test_what_would_be_printed_on_a_closed_output_is_refused(rows_file, tmp_path, arguments):
    """Before the work."""
    model = tmp_path / "m.npz"
    known = {"ROWS": rows_file, "MODEL": model}
    done = with_streams(">&-", *(known.get(word, word) for word in arguments))
    assert done.returncode == 1 and not model.exists()
    assert done.stderr == (
        "hogshare: error: standard output: it is closed; >/dev/null drops what would be printed\n"
    )
    done = with_streams("2>&-", *arguments[:1], "--nonsense")
    assert (done.returncode, done.stdout) == (2, "")


# -- info


def test_info(capsys):
    code, out, err = run(capsys, "info")
    assert (code, err) == (0, "")
    assert "usable cores" in out
    code, out, _ = run(capsys, "info", "--json")
    facts = json.loads(out)
    assert facts["numpy"] == np.__version__
    assert facts["usable cores"] >= 1
    assert "folder of compiled kernels" in facts and "HOGSHARE_CACHE_DIR" in facts


# -- what is printed where


class Terminal:
    """Standard output that says it is a terminal."""

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def isatty(self):
        return True


WARM = """
import gc, json
import numpy as np
import scipy.sparse as sp
import hogshare
from hogshare.cli.main import main
from hogshare.kernels.jit import decorators

def loaded():
    kernels = [one for one in gc.get_objects() if isinstance(one, decorators.Kernel)]
    return {f"{one.__name__}{types}" for one in kernels for types in one.signatures}

(decorators.CACHE_FOLDER / "warm.json").unlink(missing_ok=True)  # else it has nothing to do
assert main(["warm", "--dtype", "float32", "--json"]) == 0
before = loaded()
rng = np.random.default_rng(1)
X = rng.standard_normal((300, 7)).astype("float32")
z, y, classes = X[:, 0], X[:, 0] > 0, rng.integers(4, size=300)
for rows, n_jobs in ((X, 1), (sp.csr_matrix(X), 2)):
    run = {"n_jobs": n_jobs, "runtime": "threads"}
    for labels in (y, classes):
        for more in (
            {"loss": "hinge", "penalty": "elasticnet"},
            {"loss": "modified_huber", "average": True},
            {"early_stopping": True},
            {"loss": "hinge", "learning_rate": "auto"},
            {"loss": "log_loss", "learning_rate": "auto", "penalty": "l1"},
        ):
            hogshare.SGDClassifier(**more, **run).fit(rows, labels)
        hogshare.LogisticRegression(C=1e-3, **run).fit(rows, labels)
        hogshare.RidgeClassifier(**run).fit(rows, labels)
    for kind in (hogshare.SGDClassifier, hogshare.SGDRegressor):
        for more in ({}, {"average": True}):
            model = kind(**more, **run)
            for _ in range(2):
                model.partial_fit(rows, y, *[[False, True]] * (kind is hogshare.SGDClassifier))
    hogshare.SGDRegressor(**run).fit(rows, z)
    hogshare.Ridge(fit_intercept=False, **run).fit(rows, z)
    hogshare.Lasso(alpha=0.01, **run).fit(rows, z)
    for more in ({}, {"solver": "sgd", "early_stopping": True}, {"hidden_layer_sizes": (20, 20)}):
        for labels in (y, classes):
            hogshare.MLPClassifier(max_iter=2, **more, **run).fit(rows, labels)
        hogshare.MLPRegressor(max_iter=2, **more, **run).fit(rows, z)
    for method in ("batch", "online"):
        topics = hogshare.LatentDirichletAllocation(3, learning_method=method, **run)
        topics.fit(abs(rows)).transform(abs(rows))
    pairs = rng.integers(9, size=(2, 300))
    hogshare.MatrixFactorization(**run).fit(*pairs, z)
    hogshare.MatrixFactorization(loss="bpr", **run).fit(*pairs)
text = sp.random_array((80, 400), density=0.1, format="csr", random_state=rng, dtype="float32")
text = sp.csr_array((text.data[::-1], text.indices, text.indptr), text.shape)
text.indices[:2] = text.indices[1::-1].copy()
text.has_sorted_indices = False
for rows in (text, text.toarray()):
    for labels in (rng.integers(2, size=80), rng.integers(4, size=80)):
        hogshare.LogisticRegression().fit(rows, labels)
        for loss in ("hinge", "log_loss"):
            for penalty in ("l2", "elasticnet"):
                words = {"loss": loss, "penalty": penalty, "learning_rate": "auto"}
                hogshare.SGDClassifier(**words).fit(rows, labels)
assert before
print(json.dumps(sorted(loaded() - before)))
"""


@pytest.mark.timeout(600)
def test_after_a_warm_up_no_fit_compiles():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WARM], capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 0, done.stderr
    facts, _, compiled = done.stdout.rpartition("}")
    assert json.loads(compiled) == []
    assert json.loads(facts + "}")["kernels"] > 10


READ_ONLY = """
import errno
import warnings
import numpy as np
import scipy.sparse as sp
import hogshare
from hogshare import barriers
from hogshare.kernels.jit import cache

def refuse(path, *_):
    raise OSError(errno.EROFS, "Read-only file system", str(path))

cache._write = refuse  # who compiles is told by a warning, which is an error
warnings.filterwarnings("ignore", "The rows are a sparse matrix with several entries")
rng = np.random.default_rng(1)

def inputs(shape):
    X = sp.random_array(shape, density=0.2, format="csr", random_state=rng, dtype=np.float32)
    yield "sparse", X
    unsorted = X.copy()
    for begin, end in zip(X.indptr, X.indptr[1:]):
        for part in (unsorted.data, unsorted.indices):
            part[begin:end] = part[begin:end][::-1].copy()
    unsorted = sp.csr_matrix((unsorted.data, unsorted.indices, unsorted.indptr), shape)
    assert not unsorted.has_sorted_indices
    yield "unsorted", unsorted
    for kind in ("csc", "coo", "bsr"):
        yield kind, X.asformat(kind)
    parts = X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)
    wide = sp.csr_array(parts, shape)
    yield "64-bit columns", wide
    twice = X.data, X.indices.copy(), X.indptr.copy()
    twice[1][1] = twice[1][0]
    yield "a column twice", sp.csr_array(twice, shape)
    for name, values in (("dense", X.toarray()), ("Fortran", np.asfortranarray(X.toarray()))):
        yield name, values
        values = values.view()
        values.setflags(write=False)
        yield f"{name}, read-only", values

for shape in ((300, 7), (80, 300)):
    z = rng.standard_normal(shape[0])
    targets = [z, z.astype("float32"), np.repeat(z, 2)[::2], (z > 0).astype(int)]
    targets += [(z > 0) * 2.0 - 1.0, (z > 0).astype("int32")]
    for name, X in inputs(shape):
        two = {"n_jobs": 2, "runtime": "threads"}
        runs = [{}, two, {**two, "barrier": barriers.BSP()}]
        for run in (*runs, *[{"n_jobs": 2, "runtime": "processes"}] * (name == "sparse")):
            for more in ({}, {"alpha": 1e-3}, {"fit_intercept": False}):
                for y in targets[: None if name == "sparse" else 2]:
                    try:
                        model = hogshare.Ridge(**more, **run).fit(X, y, np.ones(len(y)))
                        model.predict(X)
                    except Warning as told:
                        raise SystemExit(f"{name} {shape}, {y.dtype}, {more}, {run}: {told}")
"""


# A warm-up that takes what it would compile from where it has been compiled before. What it asks
# for is stored as if it had been compiled, and nothing else is
GIVEN = """
import shutil
import sys
from pathlib import Path
from hogshare.kernels.jit import cache

donor = Path(sys.argv.pop(1))
load = cache.KernelCache.load_overload

def load_overload(self, sig, target_context):
    target_context.refresh()
    path = self._path(self._key(sig, target_context.codegen()))
    if not path.exists() and (donor / path.name).exists():
        shutil.copy(donor / path.name, path)
    return load(self, sig, target_context)

cache.KernelCache.load_overload = load_overload
from hogshare.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def give_back(folder, donor):
    """Let later tests have what has been compiled anew."""
    for path in folder.rglob("*.nbc"):
        if not (donor / path.name).exists():
            new = shutil.copy(path, donor / f"{path.name}.{os.getpid()}.tmp")
            os.replace(new, donor / path.name)


@compiles
@pytest.mark.timeout(600)
def test_what_is_warmed_is_all_that_a_fit_needs_of_a_folder_that_may_only_be_read(tmp_path):
    folder = {**os.environ, "HOGSHARE_CACHE_DIR": str(tmp_path)}
    donor = decorators.CACHE_FOLDER or tmp_path
    command = [sys.executable, "-c", GIVEN, str(donor), "warm", "Ridge", "--barrier", "bsp"]
    command += ["--dtype", "float32"]
    subprocess.run(command, env=folder, check=True, timeout=280, capture_output=True)
    give_back(tmp_path, donor)
    there = sorted(tmp_path.rglob("*"))
    command = [sys.executable, "-W", "error", "-c", READ_ONLY]
    done = subprocess.run(command, env=folder, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(tmp_path.rglob("*")) == there  # nor has a worker's process compiled


def test_a_warm_up_that_can_keep_nothing_is_1(capsys, seams, monkeypatch):
    def keep():
        cache.warn_once("/full: No space left on device")

    seams.kernels.told = []
    monkeypatch.setattr(warm, "fits", lambda args: [("a fit", keep)])
    code, out, err = run(capsys, "warm")
    assert (code, out) == (1, "")
    assert "HOGSHARE_CACHE_DIR" in err and "/full: No space left on device" in err


def test_info_says_why_there_is_no_folder(capsys, seams):
    seams.kernels.folder = None
    seams.kernels.no_folder = "/there: others may write to it"
    facts = json.loads(run(capsys, "info", "--json")[1])
    assert facts["folder of compiled kernels"] is None
    assert "others may write" in facts["why there is none"]


@pytest.fixture
def warmed(tmp_path, seams, monkeypatch):
    """A folder with a kernel's file, and what was fitted to warm it."""
    fitted = []
    (tmp_path / "kernel.nbc").write_bytes(b"code")
    seams.kernels.folder = tmp_path
    monkeypatch.setattr(warm, "fit_all", lambda name, *_: fitted.append(name))
    return tmp_path, fitted


@compiles
def test_a_rule_for_gradients_is_not_warmed(capsys):
    code, _, err = run(capsys, "warm", "--rule", "adam")
    assert code == 2 and "use sgd, sdca, saga or auto" in err


def test_a_second_warm_up_has_nothing_to_do(capsys, seams, warmed):
    folder, fitted = warmed
    code, _, err = run(capsys, "warm", "ridge", "SGDClassifier")
    assert code == 0 and str(folder) in err
    assert fitted == ["Ridge", "SGDClassifier"] * 4  # dense and sparse rows of two types
    code, out, err = run(capsys, "warm", "Ridge", "--dtype", "float32", "--json")
    assert (code, json.loads(out)["of these new"], len(fitted)) == (0, 0, 8)
    assert "nothing to do" in err
    run(capsys, "warm", "Lasso", "--dtype", "float32")
    run(capsys, "warm", "Ridge", "Lasso", "--dtype", "float32")
    assert fitted[8:] == ["Lasso"] * 2, "what was done before is remembered"
    seams.kernels.processor = lambda: ["another"]
    run(capsys, "warm", "Ridge", "--dtype", "float32")
    assert fitted[10:] == ["Ridge"] * 2


@compiles
@pytest.mark.parametrize("trouble", ["deleted", "cut off", "no note", "nonsense", "nested"])
def test_what_is_no_longer_there_is_warmed_again(capsys, warmed, trouble):
    folder, fitted = warmed
    run(capsys, "warm", "Ridge")
    if trouble == "deleted":
        (folder / "kernel.nbc").unlink()
    elif trouble == "cut off":
        (folder / "kernel.nbc").write_bytes(b"co")
    elif trouble == "no note":
        (folder / warm.DONE).unlink()
    else:
        (folder / warm.DONE).write_text({"nonsense": "[1]", "nested": "[" * 50_000}[trouble])
    assert run(capsys, "warm", "Ridge")[0] == 0
    assert len(fitted) == 8


@compiles
def test_what_solve_is_to_be_warmed_for(capsys, monkeypatch, warmed):
    asked = []
    monkeypatch.setattr(warm, "run_all", lambda settings, *_: asked.append(settings))
    words = ("--rule", "saga", "--exchange", "none", "--barrier", "ssp:4", "--dtype", "float32")
    assert run(capsys, "warm", *words)[0] == 0
    settings = {"rule": SAGA(), "plane": Shared(exchange=None), "barrier": SSP(4)}
    assert asked == [settings] * 2 and not warmed[1]
    assert run(capsys, "warm", *words)[0] == 0
    assert len(asked) == 2
    assert run(capsys, "warm", "Ridge", "--plane", "master", "--dtype", "float32")[0] == 0
    assert asked[2]["plane"] == Master() and warmed[1] == ["Ridge"] * 2
    code, _, err = run(capsys, "warm", "--plane", "master", "--exchange", "none")
    assert code == 2 and "--exchange" in err
    assert run(capsys, "warm", "--rule", " AUTO", "--dtype", "float64")[0] == 0
    assert asked[-1]["rule"] == "auto"


def test_solve_runs_with_what_is_warmed():
    X = np.random.default_rng(0).standard_normal((40, 3))
    settings = {"rule": SDCA(), "plane": Shared(), "barrier": SSP(4)}
    warm.run_all(settings, [(X, (X[:, 0] > 0, np.arange(40) % 3))])


def test_tables_are_plain_in_a_pipe_and_rich_on_a_terminal(capsys, monkeypatch):
    console.show_table(("a", "b"), [(1, "x")], title="t")
    plain = capsys.readouterr().out
    assert plain.isascii()
    assert plain.splitlines()[0] == "t"
    pytest.importorskip("rich")
    monkeypatch.setattr(sys, "stdout", Terminal(sys.stdout))
    console.show_table(("a", "b"), [(1, "x")], title="t")
    assert not capsys.readouterr().out.isascii()


def test_progress_goes_to_standard_error(capsys, seams, monkeypatch):
    seams.clock.between_lines = 0.0
    with console.progress(2, "work") as progress:
        progress.advance("one")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "work: 1 of 2 one\n")
    pytest.importorskip("rich")
    monkeypatch.setattr(sys, "stderr", Terminal(sys.stderr))
    with console.progress(2, "work") as progress:
        progress.advance("one")
    assert capsys.readouterr().out == ""


def test_a_bench_has_its_commands_settings_for_whoever_else_measures():
    settings = REDUCE.defaults(workers=3)
    assert settings["workers"] == 3 and settings["graphs"] == ["ring", "root", "all"]
    assert settings["law"] == "lognormal:1,0.2" and settings["target"] is None
    with pytest.raises(TypeError, match="worker: no setting of reduce"):
        REDUCE.defaults(worker=3)


# -- the sums of bench speedup, on runs that are made up


def a_run(workers, repeat, objective, seconds=1.0, staleness=0):
    count = len(objective)
    return {
        "workers": workers,
        "repeat": repeat,
        "seconds_per_epoch": seconds,
        "staleness_mean": float(staleness),
        "staleness_max": staleness,
        "trace": {
            "epochs": list(range(count)),
            "blocks": list(range(count)),
            "seconds": [seconds * k for k in range(count)],
            "objective": objective,
        },
    }


def a_result(runs, workers=(1, 2), target=0.5, **changes):
    settings = {"workers": list(workers), "batch": 1, "epochs": 2, "target": target}
    settings |= {"algorithm": "sgd", "gradients": 1, "coordinate": None, "step": None}
    settings |= {"runtime": "threads"}
    return {
        "settings": settings | changes,
        "data": {"rows": 100, "columns": 3, "nonzeros": 300},
        "target": target,
        "runs": runs,
    }


def test_speedups_by_their_definition():
    runs = [
        a_run(1, 0, [1.0, 0.5, 0.25], seconds=1.0),
        a_run(2, 0, [1.0, 0.75, 0.5], seconds=0.5, staleness=3),
    ]
    one, two = speedup.SPEEDUP.tabulate(a_result(runs))
    assert (one["iterations"], one["seconds"]) == (100, 1.0)
    assert (one["iteration_speedup"], one["time_speedup"]) == (1.0, 1.0)
    assert (two["iterations"], two["seconds"]) == (200, 1.0)
    # twice the iterations with two workers: nothing gained in either
    assert (two["iteration_speedup"], two["time_speedup"]) == (1.0, 1.0)
    assert two["staleness_max"] == 3


def test_speedups_are_medians_and_interpolated():
    runs = [a_run(1, r, [1.0, 0.0], seconds=s) for r, s in enumerate([1.0, 2.0, 9.0])]
    runs += [a_run(2, r, [1.0, 0.0], seconds=s) for r, s in enumerate([0.5, 1.0, 7.0])]
    one, two = speedup.SPEEDUP.tabulate(a_result(runs))
    assert one["seconds"] == 1.0
    assert two["seconds"] == 0.5
    assert (two["iteration_speedup"], two["time_speedup"]) == (2.0, 2.0)


def test_mini_batches_make_fewer_iterations():
    (row,) = speedup.SPEEDUP.tabulate(a_result([a_run(1, 0, [1.0, 0.5])], workers=[1], batch=10))
    assert row["iterations"] == 10


def test_an_update_by_the_master_takes_several():
    runs = [a_run(1, 0, [1.0, 0.5])]
    (row,) = speedup.SPEEDUP.tabulate(a_result(runs, workers=[1], batch=5, gradients=4))
    assert row["iterations"] == 5


def test_the_algorithm_in_words():
    made = a_result([], exchange=None)["settings"]
    assert speedup.algorithm_of(made) == "exchange none"
    made |= {"algorithm": "con", "gradients": 4, "batch": 10, "step": 0.1}
    assert speedup.algorithm_of(made) == "AsySG-con, M = 4, batch 10, step 0.1"
    made |= {"algorithm": "incon", "coordinate": "uniform"}
    assert speedup.algorithm_of(made) == "AsySG-incon, M = 10, coordinate uniform, step 0.1"


def test_speedups_against_the_smallest_count():
    runs = [a_run(2, 0, [1.0, 0.5]), a_run(4, 0, [1.0, 0.5], seconds=0.5)]
    _, four = speedup.SPEEDUP.tabulate(a_result(runs, workers=[2, 4]))
    assert (four["iteration_speedup"], four["time_speedup"]) == (2.0, 2.0)


def test_a_target_that_was_not_reached(capsys):
    runs = [a_run(1, 0, [1.0, 0.5]), a_run(2, 0, [1.0, None])]
    result = a_result(runs)
    result["table"] = speedup.SPEEDUP.tabulate(result)
    assert result["table"][1]["seconds"] is None
    assert result["table"][1]["time_speedup"] is None
    result["settings"] |= {
        "exchange": None,
        "runtime": "threads",
        "repeats": 1,
    }
    result |= {"warm_up_seconds": 1.0, "what": "hinge, l2 0.0001", "paper": []}
    speedup.SPEEDUP.show(result)
    captured = capsys.readouterr()
    assert "time speedup" in captured.out
    assert "did not reach the target" in captured.err


def test_default_target_is_reached_by_every_run_of_one_worker():
    runs = [a_run(1, 0, [1.0, 0.4]), a_run(1, 1, [1.0, 0.5]), a_run(2, 0, [1.0, 0.9])]
    assert speedup.default_target(runs) == pytest.approx(0.505)
    runs[1]["trace"]["objective"][-1] = None
    with pytest.raises(ValueError, match="not finite"):
        speedup.default_target(runs)


def test_a_noisy_machine_is_told():
    runs = [a_run(1, r, [1.0], seconds=s) for r, s in enumerate([1.0, 1.05, 1.1])]
    assert speedup.doubts(a_result(runs, workers=[1])) == []
    runs[0]["seconds_per_epoch"] = 2.0
    (warning,) = speedup.doubts(a_result(runs, workers=[1]))
    assert "noisy machine" in warning


def test_more_workers_than_cores_are_told(monkeypatch):
    import joblib

    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)
    assert crowded({"workers": [1, 2, 3]}) == []
    (warning,) = crowded({"workers": [1, 4]})
    assert "4 workers on 3 usable cores" in warning
    assert speedup.default_workers() == [1, 2, 3]


# -- the commands that compute


def test_bench_speedup(capsys, tmp_path, rows_file):
    pytest.importorskip("matplotlib").use("Agg")
    code, out, err = run(
        *(capsys, "bench", "speedup", "--data", rows_file, "--workers", "1,2", "--epochs", 3),
        *("--repeats", 2, "--json", tmp_path / "s.json", "--plot", tmp_path / "s.png"),
    )
    assert code == 0, err
    assert "iteration speedup" in out
    assert "warm-up" in err
    result = json.loads((tmp_path / "s.json").read_text())
    assert [row["workers"] for row in result["table"]] == [1, 2]
    assert result["table"][0]["time_speedup"] == 1.0
    assert len(result["runs"]) == 4
    assert result["data"]["rows"] == 200
    assert result["versions"]
    assert result["machine"]
    assert (tmp_path / "s.png").stat().st_size > 1000


def write_ratings(path, mark=",", header=True):
    rng = np.random.default_rng(0)
    users, items = rng.integers(30, size=900), rng.integers(20, size=900)
    likes = rng.normal(size=30)[users] + rng.normal(size=20)[items] + 3.0
    lines = [
        mark.join([f"u{u}", f"{i}", f"{r:.2f}", "17"])
        for u, i, r in zip(users, items, likes, strict=True)
    ]
    head = [mark.join(["user", "item", "rating", "time"])] if header else []
    path.write_text("\n".join([*head, *lines]) + "\n")
    return path


@pytest.mark.parametrize(("mark", "header"), [(",", True), ("\t", False), (";", True)])
def test_ratings_are_fitted_and_predicted(capsys, tmp_path, mark, header):
    data, model = write_ratings(tmp_path / "r.csv", mark, header), tmp_path / "m.npz"
    code, out, err = run(
        *(capsys, "fit", data, "--estimator", "factorisation", "--model", model, "--seed", 0),
        *("--n-factors", 2, "--epochs", 30, "--n-jobs", 1, "--json", tmp_path / "r.json"),
    )
    assert code == 0, err
    assert "MatrixFactorization" in out and "900" in out
    assert re.search(r"^epochs +30$", out, re.MULTILINE)
    assert json.loads((tmp_path / "r.json").read_text())["n_epochs"] == 30
    code, out, err = run(capsys, "predict", model, data)
    assert code == 0 and len(out.splitlines()) == 900
    assert float(err.split("R2: ")[1].split(",")[0]) > 0.9
    loaded = hogshare.load(model)
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(f"u3{mark}7\nnobody{mark}7\n")
    code, out, err = run(capsys, "predict", model, pairs)
    assert "1 of 2 lines" in err
    loaded.set_params(unknown="ignore")
    told = [float(line) for line in out.splitlines()]
    np.testing.assert_allclose(told, loaded.predict(["u3", "nobody"], ["7", "7"]), rtol=1e-6)


PAIRS = {
    "userId,movieId": ("u3,7\nu4,8\n", [], 2, ""),
    "who,what": ("u3,7\nu4,8\n", [], 2, ""),  # a word above a number
    "USER ID,product_name": ("u3,x\nu4,y\n", [], 2, "2 of 2 lines"),
    "u9,12": ("u3,7\n", [], 2, ""),
    "who,x": ("u3,y\nu4,8\n", [], 3, "2 of 3 lines.*the first line among them.*--header yes"),
    "who,y": ("u3,y\nu4,8\n", ["--header", "yes"], 2, "1 of 2 lines have a user or an item"),
    "user,item": ("u3,7\nu4,8\n", ["--header", "no"], 3, "1 of 3 lines have a user or an item"),
}


@pytest.mark.parametrize("head", PAIRS)
def test_a_first_line_of_names_is_no_pair(capsys, tmp_path, head):
    others, flags, n_lines, words = PAIRS[head]
    data, model, pairs = write_ratings(tmp_path / "r.csv"), tmp_path / "m.npz", tmp_path / "p.csv"
    arguments = "--estimator", "factorisation", "--model", model, "--epochs", 1, "--n-jobs", 1
    assert run(capsys, "fit", data, *arguments)[0] == 0
    pairs.write_text(f"{head}\n{others}")
    code, out, err = run(capsys, "predict", model, pairs, *flags)
    assert (code, len(out.splitlines())) == (0, n_lines), err
    assert re.search(words, err) if words else not err


def test_ids_that_are_like_names_are_pairs(capsys, tmp_path):
    data, model, pairs = tmp_path / "r.csv", tmp_path / "m.npz", tmp_path / "p.csv"
    data.write_text("".join(f"user {a},item{b},{a + b}\n" for a in "12" for b in "34"))
    data.write_text(data.read_text().replace("user 1", "userId"))
    arguments = "--estimator", "factorisation", "--model", model, "--epochs", 1, "--n-jobs", 1
    assert run(capsys, "fit", data, *arguments)[0] == 0
    pairs.write_text("customerId,bookId\nuserId,item3\n")
    code, out, _ = run(capsys, "predict", model, pairs)
    assert (code, len(out.splitlines())) == (0, 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b,3\na,c\n", "line 2: there is no rating, and others have one"),
        ("a,b\na,c,3\n", "line 2: there is a rating, and others have none"),
        ("a,b,3\na\n", "line 2: user and item were expected"),
        ("a,b,3\na,c,much\n", "line 2: the rating 'much' is not a number"),
        ("a,b,3\na,c,nan\n", "line 2: the rating is nan"),
        ("a,b,3\n,c,4\n", "line 2: the user is '', which is not an id"),
        ("a,b,3\na, ,4\n", "line 2: the item is"),
        ("a,b,3\na,nan,4\n", "line 2: the item is 'nan', which is not an id"),
        ("NaN,b,3\na,c,4\n", "line 1: the user is 'NaN', which is not an id"),
        ("user,item,rating\n", "no ratings"),
        ("", "the file is empty"),
    ],
)
def test_what_is_no_rating_is_told(capsys, tmp_path, text, told):
    path = tmp_path / "r.csv"
    path.write_text(text)
    arguments = "--estimator", "factorisation", "--model", tmp_path / "m.npz"
    code, _, err = run(capsys, "fit", path, *arguments)
    assert code == 1 and told in err
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize("loss", [None, "bpr", "logistic"])
def test_pairs_alone_are_fitted_and_predicted(capsys, tmp_path, loss):
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(60), 8)
    items = rng.integers(20, size=480) + 20 * (users % 2)
    data, model = tmp_path / "clicks.csv", tmp_path / "m.npz"
    lines = [f"u{u},i{i}\n" for u, i in zip(users, items, strict=True)]
    data.write_text("".join(["user,item\n", *lines]))
    arguments = ["fit", data, "--estimator", "factorisation", "--model", model, "--n-jobs", 1]
    code, out, err = run(capsys, *arguments, *(() if loss is None else ("--loss", loss)))
    assert code == 0 and re.search(r"^ratings +480$", out, re.MULTILINE), err
    loaded = hogshare.load(model)
    assert loaded.solver_ == ("als" if loss is None else "sgd") and "user" not in loaded.users_
    code, out, err = run(capsys, "predict", model, data)
    assert code == 0 and len(out.splitlines()) == 480, err


def test_yes_and_no_are_fitted_and_predicted(capsys, tmp_path):
    rng = np.random.default_rng(0)
    users, items = rng.integers(30, size=900), rng.integers(20, size=900)
    likes = rng.normal(size=30)[users] + rng.normal(size=20)[items] > 0.0
    data, model = tmp_path / "r.csv", tmp_path / "m.npz"
    lines = zip(users, items, likes.astype(int), strict=True)
    data.write_text("".join(f"u{u},{i},{r}\n" for u, i, r in lines))
    arguments = "fit", data, "--estimator", "factorisation", "--model", model, "--seed", 0
    code, out, err = run(capsys, *arguments, "--loss", "logistic", "--n-factors", 2, "--n-jobs", 1)
    assert code == 0 and re.search(r"^loss +logistic$", out, re.MULTILINE), err
    code, out, err = run(capsys, "predict", model, data)
    told = np.array([float(line) for line in out.splitlines()])
    assert told.min() > 0.0 and told.max() < 1.0
    assert np.mean((told > 0.5) == likes) > 0.85
    code, _, err = run(capsys, *arguments, "--loss", "hinge")
    assert code == 2 and "squared_error, logistic" in err
    write_ratings(data)
    code, _, err = run(capsys, *arguments, "--loss", "logistic")
    assert code == 1 and "takes ratings from 0 (no) to 1 (yes)" in err
    code, _, err = run(capsys, *arguments[:3], "sgd", *arguments[4:], "--loss", "logistic")
    assert code == 2 and "not for" in err


@pytest.mark.parametrize(
    "flags", [["--penalty", "l1"], ["--label-column", "3"], ["--tol", "1e-3"], ["--format", "npz"]]
)
def test_what_is_not_for_ratings_is_refused(capsys, tmp_path, flags):
    data = write_ratings(tmp_path / "r.csv")
    arguments = "--estimator", "factorisation", "--model", tmp_path / "m.npz"
    code, _, err = run(capsys, "fit", data, *arguments, *flags)
    assert code == 2 and "factorisation" in err


def test_bench_speedup_prints_json_alone(capsys, rows_file):
    code, out, err = run(
        *(capsys, "bench", "speedup", "--data", rows_file, "--workers", "1", "--repeats", 1),
        *("--exchange", "none", "--adds", "atomic", "--epochs", 2, "--json", "-"),
    )
    assert code == 0, err
    assert json.loads(out)["settings"]["exchange"] is None


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (["con", "--batch", 5, "--gradients", 2, "--step", 0.5], "AsySG-con, M = 2, batch 5"),
        (["incon", "--batch", 4, "--adds", "atomic"], "AsySG-incon, M = 4, step 0.01"),
        (["incon", "--coordinate", "unbiased", "--step", 0.05], "M = 1, coordinate unbiased"),
        (["sgd", "--step", 0.05], "exchange auto, step 0.05"),
    ],
)
def test_bench_speedup_of_an_algorithm(capsys, tmp_path, rows_file, chosen, words):
    pytest.importorskip("matplotlib").use("Agg")
    code, out, err = run(
        *(capsys, "bench", "speedup", "--data", rows_file, "--workers", "1,2", "--epochs", 4),
        *("--repeats", 1, "--json", tmp_path / "s.json", "--plot", tmp_path / "s.png"),
        *("--algorithm", *chosen),
    )
    assert code == 0, err
    assert words in err
    assert "iteration speedup" in out
    result = json.loads((tmp_path / "s.json").read_text())
    made = result["settings"]
    assert made["algorithm"] == chosen[0]
    one, two = result["table"]
    per_epoch = 200 / (made["batch"] * made["gradients"])
    assert one["iterations"] == pytest.approx(one["epochs"] * per_epoch)
    if two["epochs"] is not None:
        gain = 2 * one["iterations"] / two["iterations"]
        assert two["iteration_speedup"] == pytest.approx(gain)
    assert (tmp_path / "s.png").stat().st_size > 1000


@pytest.mark.parametrize(
    "chosen",
    [
        ["con", "--exchange", "none"],
        ["con", "--adds", "atomic"],
        ["incon", "--gradients", 2],
        ["sgd", "--coordinate", "uniform"],
    ],
)
def test_options_of_another_algorithm_are_refused(capsys, rows_file, chosen):
    code, _, err = run(capsys, "bench", "speedup", "--data", rows_file, "--algorithm", *chosen)
    assert code == 2
    assert f"{chosen[1]}" in err and "is for --algorithm" in err


# -- simulate


@pytest.mark.parametrize("figure", simulate.FIGURES)
def test_simulate_psp(capsys, tmp_path, figure):
    chosen = ["--figure", figure, "--workers", 110, "--seconds", 3, "--seeds", 2]
    if figure in simulate.WITH_GRADIENTS:
        chosen += ["--parameters", 5, "--step", 0.004]
    files = tmp_path / "f.json", tmp_path / "f.png"
    code, out, err = run(capsys, "simulate", "psp", *chosen, "--json", files[0], "--plot", files[1])
    assert code == 0
    result = json.loads(files[0].read_text())
    assert result["figure"] == figure
    assert out.startswith(f"{figure}: {result['title']}")
    for note in result["notes"]:
        assert note in err
    lines = out.splitlines()[3:]
    points = [point for series in result["series"] for point in series.get("points", ())]
    assert len(lines) == (len(points) or 7)
    assert files[1].stat().st_size > 5_000


def test_simulate_psp_has_the_figures_of_the_study():
    from hogshare.lab.studies import model_error, psp_figures

    assert sorted({**psp_figures.FIGURES, **model_error.FIGURES}) == list(simulate.FIGURES)
    assert tuple(model_error.FIGURES) == simulate.WITH_GRADIENTS


@pytest.mark.parametrize("algorithm", simulate.ALGORITHMS)
def test_simulate_asysg(capsys, tmp_path, monkeypatch, algorithm):
    from hogshare.lab.studies import asysg_speedups

    monkeypatch.setattr(asysg_speedups, "ROWS", 2000)
    files = tmp_path / "s.json", tmp_path / "s.png"
    chosen = ["--algorithm", algorithm, "--workers", "1,4", "--seeds", 1, "--ceiling", 3]
    code, out, err = run(
        capsys, "simulate", "asysg", *chosen, "--json", files[0], "--plot", files[1]
    )
    assert code == 0, err
    result = json.loads(files[0].read_text())
    assert [point["x"] for point in result["series"][0]["points"]] == [1, 4]
    assert f"AsySG-{algorithm}" in out and "table" in out
    assert files[1].stat().st_size > 5_000


def test_options_of_other_figures_are_refused(capsys):
    code, _, err = run(capsys, "simulate", "psp", "--figure", "1a", "--step", 0.1)
    assert code == 2 and "--step is for --figure 1d and 2b" in err
    laws = ["--law", "exponential:1", "constant:1"]
    code, _, err = run(capsys, "simulate", "psp", "--figure", "1d", *laws)
    assert code == 2 and "takes one --law" in err


def test_simulate_psp_with_a_law_of_ones_own(capsys):
    chosen = ["--figure", "1a", "--workers", 110, "--seconds", 3, "--seeds", 1]
    code, out, _ = run(
        capsys, "simulate", "psp", *chosen, "--law", "constant:1", "gamma:1,4", "--json", "-"
    )
    assert code == 0
    result = json.loads(out)
    assert result["settings"]["laws"] == ["constant:1", "gamma:1,4"]
    assert [series["law"] for series in result["series"]] == ["constant:1"] * 5 + ["gamma:1,4"] * 5


def test_simulate_progress(capsys, tmp_path):
    chosen = ["--barrier", "pbsp:3", "--workers", 20, "--slow", "0.1,4", "--law", "uniform:0.5,1.5"]
    path = tmp_path / "p.json"
    code, out, err = run(capsys, "simulate", "progress", *chosen, "--seconds", 5, "--json", path)
    assert code == 0
    told = json.loads(path.read_text())
    assert out.startswith("PBSP(sample=3, hold=False), 20 workers, uniform:0.5,1.5")
    assert f"{told['updates']}" in out
    assert "s on this machine" in err
    assert (told["seconds"], told["slow"], told["poll"]) == (5.0, [0.1, 4.0], 0.05)
    chosen = ["--barrier", "bsp", "--workers", 20, "--blocks", 3, "--poll", "none", "--json", "-"]
    code, out, _ = run(capsys, "simulate", "progress", *chosen)
    assert code == 0
    told = json.loads(out)
    assert (told["mean"], told["polls"], told["updates"]) == (3.0, 0, 60)


# -- fit and predict


@pytest.mark.quick
def test_fit_and_predict_classes(capsys, tmp_path, rows_file):
    model, report = tmp_path / "m.npz", tmp_path / "r.json"
    code, out, err = run(
        *(capsys, "fit", rows_file, "--model", model, "--loss", "log_loss", "--seed", 0),
        *("--epochs", 30, "--n-jobs", 1, "--json", report, "--dtype", "float32"),
    )
    assert code == 0, err
    assert "training accuracy" in out
    assert json.loads(report.read_text())["n_epochs"] >= 1
    saved = model_file.load(model)
    assert saved.class_name == "SGDClassifier"
    assert saved.attributes["coef_"].dtype == np.float32
    code, out, err = run(capsys, "predict", model, rows_file)
    assert code == 0
    labels = [line.split()[0] for line in rows_file.read_text().splitlines()]
    assert np.mean(np.array(out.split()) == labels) > 0.95
    assert "accuracy against the file's labels: 0.9" in err or "1.0000" in err
    code, out, _ = run(capsys, "predict", model, rows_file, "--proba")
    lines = out.splitlines()
    assert (code, lines[0]) == (0, "-1\t1")
    assert sum(map(float, lines[1].split("\t"))) == pytest.approx(1.0)
    code, out, _ = run(capsys, "predict", model, rows_file, "--out", tmp_path / "labels")
    assert (code, out) == (0, "")
    assert len((tmp_path / "labels").read_text().splitlines()) == 200


@pytest.mark.parametrize("seed", [[], ["--seed", 4]])
@pytest.mark.parametrize("rate", ["optimal", "auto"])
def test_fit_goes_on_from_a_checkpoint(capsys, tmp_path, rows_file, rate, seed):
    def fit(name, epochs, *further):
        code, _, err = run(
            *(capsys, "fit", rows_file, "--model", tmp_path / name, "--loss", "log_loss"),
            *("--epochs", epochs, "--n-jobs", 1, "--tol", "none", "--learning-rate", rate),
            *("--average",) * (rate == "optimal"),
            *(*seed, *further),
        )
        return code, err

    kept = ("--checkpoint", tmp_path / "run.npz")
    code, err = fit("first.npz", 3, *kept, "--resume")
    assert code == 0 and "there is no checkpoint yet; the fit begins anew" in err
    assert fit("second.npz", 8, *kept, "--resume")[0] == 0
    second = model_file.load(tmp_path / "second.npz")
    assert second.attributes["n_iter_"] == 8 and second.attributes["t_"] == 1 + 8 * 200
    if seed:
        assert fit("whole.npz", 8)[0] == 0
        whole = model_file.load(tmp_path / "whole.npz")
        np.testing.assert_array_equal(second.attributes["coef_"], whole.attributes["coef_"])
    code, err = fit("third.npz", 9, *kept, "--resume", "--alpha", 0.5)
    assert code == 1 and "alpha was 0.0001 and is 0.5" in err
    assert not (tmp_path / "third.npz").exists()


def test_fit_without_a_step_size_to_tune(capsys, tmp_path, rows_file):
    model, report = tmp_path / "m.npz", tmp_path / "r.json"
    code, _, err = run(
        *(capsys, "fit", rows_file, "--model", model, "--loss", "log_loss", "--seed", 0),
        *("--learning-rate", "auto", "--json", report),
    )
    assert code == 0, err
    assert json.loads(report.read_text())["settings"]["rule"]["name"] in ("SDCA", "SAGA")
    code, _, err = run(
        *(capsys, "fit", rows_file, "--model", model, "--penalty", "l1"),
        *("--learning-rate", "auto", "--json", report),
    )
    assert code == 0, err  # a loss with kinks and no l2 part
    assert json.loads(report.read_text())["settings"]["rule"]["name"] == "SAGA"


def test_the_schedules_on_offer_are_the_estimators():
    from hogshare.cli.options import LEARNING_RATES
    from hogshare.kernels.rules import step_schedules

    assert set(LEARNING_RATES) == {"auto", *step_schedules.CODES}


def test_fit_and_predict_numbers(capsys, tmp_path):
    X = np.random.default_rng(0).standard_normal((200, 4))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", X @ [1.0, 2.0, 0.0, -1.0] + 0.5)
    model = tmp_path / "m.npz"
    code, _, err = run(capsys, "fit", tmp_path / "X.npy", "--model", model)
    assert code == 1
    assert "--labels" in err
    code, out, err = run(
        *(capsys, "fit", tmp_path / "X.npy", "--labels", tmp_path / "y.npy", "--model", model),
        *("--epochs", 50, "--seed", 0),
    )
    assert code == 0, err
    assert "training R2" in out
    code, out, err = run(capsys, "predict", model, tmp_path / "X.npy")
    assert code == 0
    np.testing.assert_allclose(np.array(out.split(), float), np.load(tmp_path / "y.npy"), atol=0.1)
    code, _, err = run(capsys, "predict", model, tmp_path / "X.npy", "--proba")
    assert code == 1
    assert "no probabilities" in err


@pytest.mark.parametrize(
    ("options", "name", "solver"),
    [
        (["logistic", "--C", "10", "--class-weight", "balanced"], "LogisticRegression", "sdca"),
        (["logistic", "--l1-ratio", "1", "--max-iter", "500"], "LogisticRegression", "saga"),
        (["ridge", "--alpha", "2"], "RidgeClassifier", "sdca"),
        (["ridge"], "RidgeClassifier", "cg"),
    ],
)
def test_fit_and_predict_classes_to_a_tolerance(capsys, tmp_path, rows_file, options, name, solver):
    model, report = tmp_path / "m.npz", tmp_path / "r.json"
    runtime = ["--runtime", "auto"] if solver == "cg" else ["--runtime", "threads"]
    code, out, err = run(
        *(capsys, "fit", rows_file, "--model", model, "--estimator", *options, *runtime),
        *("--seed", 0, "--n-jobs", 1, "--json", report),
    )
    assert code == 0, err
    assert name in out and "training accuracy" in out
    told = json.loads(report.read_text())
    if solver == "cg":
        assert told["solver"] == solver and "no workers ran" in err
    else:
        assert told["n_epochs"] >= 1 and "came down to" in out
    saved = model_file.load(model)
    assert saved.class_name == name
    again = save_load.load(model)
    assert again.solver_.split(", ")[0] in (solver, "saga")
    assert isinstance(again.n_iter_, np.ndarray) or again.n_iter_ is None
    code, out, err = run(capsys, "predict", model, rows_file)
    assert code == 0, err
    labels = [line.split()[0] for line in rows_file.read_text().splitlines()]
    assert np.mean(np.array(out.split()) == labels) > 0.95
    assert "accuracy against" in err
    code, out, err = run(capsys, "predict", model, rows_file, "--proba")
    if name == "LogisticRegression":
        assert (code, out.splitlines()[0]) == (0, "-1\t1")
    else:
        assert code == 1 and "a RidgeClassifier has no probabilities" in err


def test_three_classes_by_ridge_have_three_reports(capsys, tmp_path):
    model, report = tmp_path / "m.npz", tmp_path / "r.json"
    code, _, err = run(
        *(capsys, "fit", "iris", "--model", model, "--estimator", "ridge", "--json", report),
        *("--runtime", "caller", "--n-jobs", 1),
    )
    assert code == 0, err
    assert len(json.loads(report.read_text())) == 3
    code, out, _ = run(capsys, "predict", model, "iris")
    assert code == 0 and set(out.split()) == {"0", "1", "2"}


@pytest.mark.parametrize("estimator", ["ridge", "lasso", "elastic-net"])
@pytest.mark.parametrize("runtime", ["auto", "caller"])
def test_fit_and_predict_numbers_to_a_tolerance(capsys, tmp_path, seams, estimator, runtime):
    seams.clock.between_lines = 0.0
    X = np.random.default_rng(0).standard_normal((300, 4))
    y = X @ [1.0, 2.0, 0.0, -1.0] + 0.5
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    model = tmp_path / "m.npz"
    code, out, err = run(
        *(capsys, "fit", tmp_path / "rows.npz", "--model", model, "--estimator", estimator),
        *("--alpha", 0.01, "--runtime", runtime, "--n-jobs", 1, "--seed", 0),
    )
    assert code == 0, err
    assert "training R2" in out
    # scikit-learn's coordinate descent is handed some passes at a time, and is heard of as well
    assert ("fit: 1 of 1000" in err) == (runtime == "caller" or estimator != "ridge")
    code, out, err = run(capsys, "predict", model, tmp_path / "rows.npz")
    assert code == 0, err
    np.testing.assert_allclose(np.array(out.split(), float), y, atol=0.1)
    assert np.ndim(save_load.load(model).intercept_) == 0


def test_what_only_the_labels_tell_is_refused(capsys, tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.eye(4), y=np.array([0.5, 1.5, 2.5, 0.1]))
    arguments = ["fit", tmp_path / "rows.npz", "--model", tmp_path / "m", "--estimator"]
    code, _, err = run(capsys, *arguments, "ridge", "--class-weight", "balanced")
    assert (code, err.splitlines()[-1]) == (
        2,
        "hogshare: error: --class-weight is for classes, and this is a regression",
    )
    code, _, err = run(capsys, *arguments, "logistic")
    assert code == 1 and "continuous" in err


def test_every_option_of_an_estimator_is_its_parameter():
    import argparse
    import inspect

    import hogshare

    parser = argparse.ArgumentParser()
    fit.add_estimator_options(parser)
    offered = {action.dest for action in parser._actions} - {"help"}
    assert offered == {name for kind in kinds.KINDS.values() for name in kind.options}
    for kind in kinds.KINDS.values():
        for task, name in kind.classes.items():
            known = inspect.signature(getattr(hogshare, name)).parameters
            wanted = {kinds.PARAMETERS.get(option, option) for option in kind.options}
            if task == "regression":
                wanted -= {"class_weight"}
                # which of the rest are for classes the command says when it knows the labels
                wanted -= {"C", "l1_ratio"} if kind is kinds.KINDS[kinds.AUTO] else set()
            assert wanted <= set(known), name


def test_a_model_of_ridge_without_its_labels(capsys, tmp_path, rows_file):
    arrays = {"coef_": np.ones((1, 3)), "intercept_": np.zeros(1)}
    saved = model_file.SavedModel(class_name="RidgeClassifier", n_features=3, attributes=arrays)
    model_file.save(tmp_path / "m.npz", saved)
    code, _, err = run(capsys, "predict", tmp_path / "m.npz", rows_file)
    assert code == 1 and err.startswith("hogshare: error: ") and "unexpected" not in err


def test_predict_with_other_columns(capsys, tmp_path, rows_file):
    model, rows = tmp_path / "m.npz", tmp_path / "other.svm"
    assert run(capsys, "fit", rows_file, "--model", model, "--epochs", 5, "--tol", "none")[0] == 0
    told = {}
    for text in ("1 1:1\n-1 1:-1\n", "1 1:1 4:9 9:1\n-1 1:-1 9:7\n"):
        rows.write_text(text)
        code, told[text], err = run(capsys, "predict", model, rows)
        assert code == 0 and f"{rows}: 2 rows, 3 columns, 2 nonzeros" in err
        assert ("left out" in err) == ("9:" in text)
    assert len(set(told.values())) == 1
    assert (
        f"{rows}: 3 values beyond the 3 columns of the model left out (indices begin at 1)" in err
    )
    rows.write_text("1 9:1\n")
    code, _, err = run(capsys, "predict", model, rows)
    assert code == 0 and f"{rows}: 1 value beyond the 3 columns" in err and " 0 nonzeros" in err


# -- where the indices of LIBSVM text begin


@pytest.fixture
def zero_based(tmp_path):
    """A model of a file whose indices begin at 0; the label is the sign of column 1."""
    X = np.random.default_rng(0).standard_normal((200, 3))
    names = [tmp_path / name for name in ("from0.svm", "few.svm", "from1.svm")]
    for name, base, columns in zip(names, (0, 0, 1), ((0, 1, 2), (1, 2), (0, 1, 2)), strict=True):
        lines = [
            f"{1 if x[1] > 0 else -1} {' '.join(f'{j + base}:{x[j]:.4f}' for j in columns)}\n"
            for x in X
        ]
        name.write_text("".join(lines))
    return names


def accuracy(err):  # half, if columns are shifted
    return float(err.rpartition("accuracy against the file's labels: ")[2])


@pytest.mark.parametrize("estimator", ["sgd", "logistic", "ridge"])
def test_predict_begins_where_the_models_file_did(capsys, tmp_path, zero_based, estimator):
    rows, few, from_1 = zero_based
    model = tmp_path / "m.npz"
    code, _, err = run(capsys, "fit", rows, "--model", model, "--estimator", estimator)
    assert code == 0 and "is a guess" not in err
    assert model_file.load(model).zero_based is True
    code, _, err = run(capsys, "predict", model, few)  # in which no index is 0
    assert code == 0 and "is a guess" not in err
    assert accuracy(err) > 0.8
    code, _, err = run(capsys, "predict", model, from_1)
    assert code == 0
    advice = "use --one-based if they begin at 1 in this one"
    assert f"(indices begin at 0 as in the model's file; {advice})" in err
    code, _, err = run(capsys, "predict", model, from_1, "--one-based")
    assert code == 0 and "left out" not in err and accuracy(err) > 0.8


def test_a_file_that_contradicts_where_indices_begin(capsys, tmp_path, zero_based):
    rows, few, from_1 = zero_based
    model = tmp_path / "m.npz"
    code, _, err = run(capsys, "fit", rows, "--one-based", "--model", model)
    assert code == 1 and err == (
        f"hogshare: error: {rows}, line 1: index 0, and --one-based says that indices begin at 1\n"
    )
    code, _, err = run(capsys, "fit", from_1, "--model", model)
    assert code == 0 and "is a guess" not in err  # an ordinary file
    assert model_file.load(model).zero_based is False
    code, out, err = run(capsys, "predict", model, rows)
    assert (code, out) == (1, "")
    assert f"{rows}, line 1: index 0, and in the file that {model} was fitted to indices" in err
    assert "predict with --zero-based" in err
    assert accuracy(run(capsys, "predict", model, rows, "--zero-based")[2]) > 0.8
    code, _, err = run(capsys, "predict", model, rows, "--one-based")
    assert code == 1 and "line 1: index 0, and --one-based says" in err
    assert run(capsys, "fit", few, "--zero-based", "--model", model)[0] == 0
    assert model_file.load(model).zero_based is True
    assert model_file.load(model).n_features == 3


def test_a_guess_where_indices_begin_is_told(capsys, tmp_path, zero_based):
    few, model, rows = zero_based[1], tmp_path / "m.npz", tmp_path / "late.svm"
    rows.write_text("1 2:1\n-1 2:-1 4:1\n" * 10)
    told = f"{rows}: indices were taken to begin at 1, which is a guess (the smallest is 2); "
    code, _, err = run(capsys, "fit", rows, "--model", model)
    assert code == 0 and f"{told}set --one-based or --zero-based\n" in err
    for option in ("--one-based", "--zero-based"):
        code, _, err = run(capsys, "fit", rows, "--model", model, option)
        assert code == 0 and "is a guess" not in err
    # a model that does not know: here not even an ordinary file speaks for itself
    saved = model_file.load(model)
    saved.zero_based = None
    model_file.save(model, saved)
    code, _, err = run(capsys, "predict", model, few)
    assert code == 0 and f"a guess ({model} does not say it and the smallest is 1); " in err
    assert "is a guess" not in run(capsys, "predict", model, few, "--zero-based")[2]
    assert (
        "is a guess" not in run(capsys, "predict", model, zero_based[0])[2]
    )  # there is an index 0


def test_rows_without_indices_have_no_base(capsys, tmp_path, rows_file):
    model = tmp_path / "m.npz"
    np.savez(tmp_path / "rows.npz", X=np.eye(3)[[0, 1, 2] * 9], y=np.array([0, 1, 1] * 9))
    for name in (tmp_path / "rows.npz", "digits"):
        code, _, err = run(capsys, "fit", name, "--model", model, "--zero-based")
        assert code == 2
        assert err == (
            f"hogshare: error: --zero-based is for files of LIBSVM text; {name} is none\n"
        )
    assert run(capsys, "fit", tmp_path / "rows.npz", "--model", model)[0] == 0
    assert model_file.load(model).zero_based is None
    assert run(capsys, "fit", rows_file, "--model", model)[0] == 0
    code, _, err = run(capsys, "predict", model, tmp_path / "rows.npz")  # where no index is
    assert code == 0, err


def test_a_set_with_a_name_knows_its_base(capsys, tmp_path):
    model = tmp_path / "m.npz"
    (tmp_path / "heart_scale").write_text("1 2:1\n-1 3:1\n" * 9)
    code, _, err = run(capsys, "fit", "heart", "--data-home", tmp_path, "--model", model)
    assert code == 0 and "is a guess" not in err
    assert model_file.load(model).zero_based is False
    assert model_file.load(model).n_features == 13


def test_a_line_that_is_wrong_is_named(capsys, tmp_path):
    rows = tmp_path / "rows.svm"
    rows.write_text("1 1:2\n\n-1 1:x\n1 1:3\n")
    code, _, err = run(capsys, "fit", rows, "--model", tmp_path / "m")
    assert (code, err) == (
        1,
        f"hogshare: error: {rows}, line 3: not LIBSVM text: the value of '1:x' is not a number\n",
    )


def test_a_loss_of_the_other_task(capsys, tmp_path, rows_file):
    code, _, err = run(
        *(capsys, "fit", rows_file, "--model", tmp_path / "m", "--loss", "hinge"),
        *("--task", "regression"),
    )
    assert code == 2
    assert "--loss hinge is not for regression" in err


def test_a_model_of_an_unknown_class(capsys, tmp_path, rows_file):
    arrays = {"coef_": np.ones((1, 3)), "intercept_": np.zeros(1)}
    saved = model_file.SavedModel(class_name="os", n_features=3, attributes=arrays)
    model_file.save(tmp_path / "m.npz", saved)
    code, _, err = run(capsys, "predict", tmp_path / "m.npz", rows_file)
    assert code == 1
    assert "unknown class 'os'" in err


def test_a_report_is_what_the_bench_reads():
    report = Report(model=None, n_epochs=2, seconds={"run": 1.0}, workers=[{"pushes": 3}, {}])
    facts = speedup.facts(report)
    assert facts["seconds_per_epoch"] == 0.5
    assert facts["pushes"] == 3


# -- the machine's constants


def test_info_tells_the_constants(capsys):
    code, out, _ = run(capsys, "info")
    assert code == 0
    assert "1.4 (default)" in out
    assert "floor of sparse float32 rows, ns per nonzero: 1 thread" in out
    facts = json.loads(run(capsys, "info", "--json")[1])
    assert facts["constants"]["sparse_value_ns"] == {"value": 1.4, "source": "default"}


def test_info_probe_measures_and_stores(capsys, monkeypatch, tmp_path):
    from hogshare.system import machine

    quick = machine.Machine(miss_ns=90.0, measured=("miss_ns",))
    monkeypatch.setattr("hogshare.cli.info.probe", lambda: quick)
    monkeypatch.setenv("HOGSHARE_MACHINE", str(tmp_path / "machine.json"))
    try:
        code, out, err = run(capsys, "info", "--probe", "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["constants"]["miss_ns"] == {"value": 90.0, "source": "measured"}
        out = run(capsys, "info")[1]
        assert "90 (measured)" in out
        assert "25 (default)" in out
    finally:
        monkeypatch.undo()
        machine.load.cache_clear()


def test_info_probe_that_cannot_be_stored_is_printed_and_1(capsys, monkeypatch, tmp_path):
    from hogshare.system import machine

    quick = machine.Machine(miss_ns=90.0, measured=("miss_ns",))
    monkeypatch.setattr("hogshare.cli.info.probe", lambda: quick)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOGSHARE_MACHINE", str(tmp_path / "file" / "machine.json"))
    code, out, err = run(capsys, "info", "--probe")
    assert code == 1
    assert "90 (measured)" in out
    assert err.startswith("hogshare: error: the machine's constants could not be stored: ")
    assert err.count("\n") == 1


# -- files to write


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "missing", "--model", "nowhere/m.npz"], "nowhere: there is no such folder"),
        (["fit", "missing", "--model", "."], ".: this is a folder; name a file"),
        (["fit", "missing", "--model", "m", "--json", "nowhere/r.json"], "no such folder"),
        (["predict", "missing", "rows", "--out", "nowhere/o"], "no such folder"),
        (["bench", "speedup", "--data", "missing", "--json", "nowhere/r"], "no such folder"),
        (["bench", "barriers", "--data", "missing", "--json", "nowhere/r"], "no such folder"),
        (["bench", "rivals", "--data", "missing", "--json", "nowhere/r"], "no such folder"),
        (["simulate", "psp", "--figure", "4", "--json", "nowhere/r"], "no such folder"),
        (["simulate", "asysg", "--algorithm", "con", "--json", "nowhere/r"], "no such folder"),
        (
            ["simulate", "progress", "--barrier", "bsp", "--blocks", "9", "--json", "nowhere/r"],
            "no such folder",
        ),
    ],
)
def test_what_cannot_be_written_is_told_before_the_work(
    capsys, monkeypatch, tmp_path, arguments, words
):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out, os.listdir()) == (1, "", [])
    assert words in err and err.count("\n") == 1


def test_a_plot_of_a_kind_that_nobody_draws_is_refused(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "plot.foo"
    code, _, err = run(capsys, "simulate", "psp", "--figure", "4", "--plot", plot)
    assert code == 2 and ".foo is not supported; choose from" in err and ".png" in err


def test_fit_prints_json_alone(capsys, tmp_path, rows_file):
    model = tmp_path / "m.npz"
    arguments = ("fit", rows_file, "--model", model, "--epochs", 5, "--tol", "none", "--json", "-")
    code, out, _ = run(capsys, *arguments)
    assert code == 0 and json.loads(out)["n_epochs"] == 5 and model.exists()
    assert not os.path.exists("-")


# -- labels and names that make no sense


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--barrier", "pbsp"], "it takes 1 number, not 0"),
        (["--barrier", "pssp:1"], "it takes 2 numbers, not 1"),
        (["--barrier", "ssp:1,2,3"], "it takes 1 number, not 3"),
        (["--barrier", "pbsp:10,4"], "it takes 1 number, not 2"),
        (["--barrier", "fraction:1,2,3,4,5"], "numbers, not 5"),
        (["--json", "m"], "--model and --json name one file; they need two"),
        (["--checkpoint", "m"], "--model and --checkpoint name one file; they need two"),
        (["--checkpoint", "c", "--json", "./c"], "--checkpoint and --json name one file"),
        (["--barrier", "pbsp:x"], "'x' is not a number"),
        (
            ["--estimator", "sgd", "--l1-ratio", "0.5"],
            "--l1-ratio needs --penalty elasticnet, not l2",
        ),
    ],
)
def test_what_is_wrong_is_told_in_words_of_the_command(capsys, options, words):
    code, _, err = run(capsys, "fit", "rows", "--model", "m", *options)
    assert code == 2 and words in err and "__init__" not in err


def test_no_output_replaces_another_or_what_is_read(capsys, tmp_path):
    data, labels, link = tmp_path / "rows.npy", tmp_path / "y.npy", tmp_path / "link"
    np.save(data, np.eye(4))
    np.save(labels, np.arange(4) % 2)
    link.symlink_to(data)
    before = data.read_bytes()
    fit = ["fit", data, "--labels", labels, "--epochs", "1", "--tol", "none"]
    for arguments, words in [
        ([*fit, "--model", link], "DATA and --model name one file"),
        ([*fit, "--model", tmp_path / "m", "--checkpoint", labels], "--labels and --checkpoint"),
        ([*fit, "--model", tmp_path / "m", "--json", data], "DATA and --json name one file"),
        (["predict", tmp_path / "m", data, "--out", link], "DATA and --out name one file"),
        (["predict", tmp_path / "m", data, "--out", tmp_path / "m"], "MODEL and --out name one"),
        (["bench", "speedup", "--json", "p.svg", "--plot", "p.svg"], "--json and --plot name one"),
        (["bench", "speedup", "--json", "p.png", "--plot", "p"], "--json and --plot name one file"),
    ]:
        code, _, err = run(capsys, *arguments)
        assert code == 2 and words in err
    assert data.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["link", "rows.npy", "y.npy"]
    code, _, _ = run(capsys, *fit, "--model", tmp_path / "zipf", "--json", os.devnull)
    assert code == 0


def test_labels_that_are_no_numbers(capsys, tmp_path):
    rows = tmp_path / "rows.svm"
    rows.write_text("1 1:1\nnan 1:2\n-1 1:3\n")
    code, _, err = run(capsys, "fit", rows, "--model", tmp_path / "m")
    assert code == 1 and f"the label of row 2 of {rows} is nan: every row needs one" in err
    assert "warning" not in err


def test_fractions_are_no_classes(capsys, tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.eye(4), y=np.array([0.5, 1.5, 2.5, 0.1]))
    arguments = ["fit", tmp_path / "rows.npz", "--model", tmp_path / "m"]
    code, _, err = run(capsys, *arguments, "--task", "classification")
    assert code == 1 and "are continuous, and classes are not" in err


def test_a_folder_is_no_data_set_and_an_array_no_model(capsys, tmp_path):
    code, _, err = run(capsys, "fit", tmp_path, "--model", tmp_path / "m")
    assert code == 1 and f"{tmp_path}: this is a folder; name a file" in err
    np.save(tmp_path / "x.npy", np.eye(2))
    np.savez(tmp_path / "x.npz", X=np.eye(2))
    for name, words in (("x.npy", "(a single array)"), ("x.npz", "(it has no header)")):
        code, _, err = run(capsys, "predict", tmp_path / name, tmp_path / "x.npy")
        assert code == 1 and "not a hogshare model" in err and words in err


def test_messages_name_the_options_of_the_command():
    from hogshare.cli.options import words_of

    fitting = words_of(build_parser().parse_args(["fit", "x", "--model", "m"]))
    assert fitting("runtime='caller' runs one; got n_jobs=2.") == (
        "--runtime caller runs one; got --n-jobs 2."
    )
    assert fitting("Increase max_iter. A loss in n_features.svm") == (
        "Increase --epochs. A loss in n_features.svm"
    )
    bench = words_of(build_parser().parse_args(["bench", "speedup"]))
    assert bench("n_workers=3 and max_iter") == "--workers 3 and --epochs"
    info = words_of(build_parser().parse_args(["info"]))
    assert info("n_workers") == "n_workers"


def test_every_estimator_can_be_warmed():
    import hogshare

    public = (getattr(hogshare, name) for name in hogshare.__all__)
    fitted = {one.__name__ for one in public if hasattr(one, "fit")}
    assert fitted - {"TableEncoder"} == set(warm.ESTIMATORS)
