"""Small problems and sessions that several test modules use."""

import naive
import numpy as np
import scipy.sparse as sp
from seams import Seams

from hogshare.barriers import ASP
from hogshare.engine.arrays import fill, private_memory, row_arrays
from hogshare.engine.choices import Choices
from hogshare.engine.description import describe
from hogshare.engine.session import Session
from hogshare.engine.stops import Stop
from hogshare.engine.world import World
from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import BOUNDSCHECK, JIT_DISABLED
from hogshare.kernels.rules import block_sums
from hogshare.kernels.schedule import epoch_schedule
from hogshare.planes.shared import Shared
from hogshare.problems.linear import linear
from hogshare.rules import SGD
from hogshare.rules.row_memory import begins_empty
from hogshare.rules.steps import StepSize

EVERY_FORM = [
    ("dense", "float32"),
    ("dense", "float64"),
    ("csr", "float32"),
    ("csr", "float64"),
    ("csr64", "float64"),
]


def forms():
    """Forms and dtypes in which every kernel is tested.

    A kernel is compiled for a dtype and an index type, dense or CSR, in 10 to 25 seconds. So 64-bit
    indices are left to one rule (test_turns) and to the rows' own kernels (test_rows), but for
    plain Python, and what is within bounds in float64 is so in float32.
    """
    if JIT_DISABLED:
        return EVERY_FORM
    return [form for form in EVERY_FORM[:4] if form[1] in DTYPES]


DTYPES = ["float64"] if BOUNDSCHECK else ["float32", "float64"]
FORMS = forms()


def matrix(n_rows=23, n_features=7, seed=0, density=0.5):
    """A dense float64 matrix with zeros and one row without any feature."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) * (rng.random((n_rows, n_features)) < density)
    X[n_rows // 2] = 0.0
    return X.round(3)


def as_form(X, form):
    """`X` as "dense", "csr" (int32 indices) or "csr64"."""
    if form == "dense":
        return X
    X = sp.csr_array(X)
    if form == "csr64":
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def problem(form="csr", dtype="float64", columns=1, task="classification", seed=0, **settings):
    """A problem and what the twins need of it: dense X, targets Y and row weights."""
    X = matrix(seed=seed).astype(dtype)
    rng = np.random.default_rng(seed + 1)
    signal = X @ rng.standard_normal((X.shape[1], columns)) + 0.3 * rng.standard_normal(columns)
    if task == "regression":
        y = signal[:, 0]
        settings.setdefault("loss", "squared_error")
    else:
        y = signal.argmax(axis=1) if columns > 1 else (signal[:, 0] > 0).astype(int)
        settings.setdefault("loss", "log_loss")
    if settings.pop("weighted", False):
        settings["sample_weight"] = rng.uniform(0.5, 2.0, len(X))
        if task == "classification":
            settings["class_weight"] = rng.uniform(0.5, 2.0, max(2, columns))
    with Seams.for_now() as seams:
        seams.sizes.narrowed = 0  # "csr64" as a large matrix is
        made = linear(as_form(X, form), y, **settings)
    Y = naive.targets(made.rows.y, made.loss, made.n_columns)
    weight = made.rows.weight if made.rows.weight.size else np.ones(len(Y))
    return made, X.astype(float), Y, weight.astype(float)


def session(
    problem,
    *,
    rule=None,
    plane=None,
    barrier=None,
    step=None,
    stop=None,
    n_workers=1,
    seed=12345,
    shuffle=True,
    first_t=1.0,
    trace=0,
    report_epochs=False,
    track=block_sums.CRITERION,
    block=None,
    start=None,
    parts=0,
):
    """A filled session in this process's memory."""
    step, stop = step or StepSize("constant", eta0=0.1), stop or Stop(epochs=3)
    choices = Choices(
        problem=problem,
        rule=rule or SGD(),
        plane=plane or Shared(),
        barrier=barrier or ASP(),
        step=step,
        stop=stop,
        world=World((n_workers,)),
        seed=seed,
        shuffle=shuffle,
        first_t=first_t,
        trace=trace,
        report_epochs=report_epochs,
        track=track,
        block=block,
        sleeps=epoch_schedule.SIMULATED if parts else 0,
        parts=parts,
        empty=begins_empty(start),
    )
    settings, shapes = describe(choices)
    arrays = {**private_memory(shapes), **row_arrays(problem)}
    made = Session(arrays, settings)
    fill(made, problem, rule or SGD(), stop, step, start, stop.validation)
    return made


def groups(session):
    """The shared arrays that kernels of all planes but the master's take."""
    return session.schedule, session.vector, session.memory


def run(session, turns=1000, blocks=64):
    """Let all workers take turns in this thread until the run is over."""
    workers = [session.worker(k) for k in range(session.settings.n_workers)]
    for worker in workers:
        assert worker.join()
    live = list(workers)
    for _ in range(turns):
        live = [w for w in live if w.run_quantum(blocks) != layout.QUANTUM_DONE]
        if not live:
            break
    assert not live, "the run does not end"
    for worker in workers:
        worker.leave()
    return session


def twin_columns(session):
    """The twins' columns, as the session starts."""
    fields = session.schedule.columns
    return naive.Columns.start(
        session.settings.n_columns,
        fields[layout.C_ETA],
        fields[layout.C_POSITIVE],
        fields[layout.C_NEGATIVE],
    )


def tolerance(dtype):
    """How far a kernel of that dtype may be from its float64 twin on these sizes."""
    return (
        {"rtol": 2e-4, "atol": 2e-5}
        if np.dtype(dtype) == np.float32
        else {
            "rtol": 1e-9,
            "atol": 1e-11,
        }
    )
