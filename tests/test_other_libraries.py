"""Where a good guess about another library is wrong: what hogshare does there.

The cases, with what was seen of which version, are a table in `docs/support.md`.
"""

import ast
import itertools
import os
import re
import types

import numpy as np
import pytest
import ranks
import scipy.sparse as sp
from executors import NEEDS_DASK, cluster
from test_imports import FILES, PACKAGE, tree_of

import hogshare
from hogshare import BSP, SAGA, SDCA, SGD, AsyncContext, LogisticRegression
from hogshare.cli.main import main
from hogshare.kernels.jit import cache, decorators
from hogshare.kernels.rows import sums
from hogshare.kernels.schedule import streams
from hogshare.lab.rivals.linear import wabbit
from hogshare.lab.rivals.linear.linear_race import signs
from hogshare.problems import linear
from hogshare.solvers.solver import solve

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((240, 6)) * (RNG.random((240, 6)) < 0.6)
COUNTS = RNG.poisson(1.0, (240, 6)).astype(float)
NUMBERS = ROWS @ RNG.standard_normal(6) + 0.1 * RNG.standard_normal(240)
LABELS = (NUMBERS > 0.0).astype(int)
WEIGHT = RNG.random(240) + 0.5
EVERY_BYTE = 8  # places where an array may begin, between two that are aligned for every number


def places():
    """Each file of the package, by its place, with its tree."""
    for path in FILES:
        yield path.relative_to(PACKAGE).as_posix(), tree_of(path)


def calls_of(tree):
    """Names of methods that are called, with the call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr, node


# --- Dask: products of arrays whose blocks are csr_array -----------------------------------------


@pytest.fixture(scope="module")
def client():
    with cluster() as client:
        yield client


def in_blocks(X, count=3):
    """A Dask array whose blocks are rows of X, of the kind that X is."""
    import dask
    import dask.array as da

    cuts = np.linspace(0, X.shape[0], count + 1).astype(int)
    blocks = [
        da.from_delayed(
            dask.delayed(lambda rows: rows)(X[a:b]),
            shape=(b - a, *X.shape[1:]),
            dtype=X.dtype,
            meta=X[:0],
        )
        for a, b in itertools.pairwise(cuts)
    ]
    return da.concatenate(blocks)


@pytest.fixture
def no_products(monkeypatch):
    """A Dask array that is asked for a product raises."""
    import dask.array as da

    def refuse(*_, **__):
        raise AssertionError("a product of Dask arrays: blocks of csr_array multiply by element")

    for name in ("dot", "__matmul__", "__rmatmul__", "__mul__", "__rmul__"):
        monkeypatch.setattr(da.Array, name, refuse)
    for name in ("dot", "tensordot", "matmul", "einsum", "vdot", "multiply"):
        monkeypatch.setattr(da, name, refuse)
    with pytest.raises(AssertionError, match="by element"):
        in_blocks(ROWS) @ np.ones(6)


@NEEDS_DASK
@pytest.mark.usefixtures("client", "no_products")
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("name", ["LogisticRegression", "SGDClassifier", "Ridge", "SGDRegressor"])
def test_blocks_of_csr_array_are_fitted_and_predicted_without_products_of_dask(name, kind):
    X, y = kind(ROWS), LABELS if name[-1] == "n" or "Class" in name else NUMBERS
    settings = {"max_iter": 5, "tol": None, "random_state": 0} if "SGD" in name else {}
    model = getattr(hogshare, name)(**settings)
    assert type(in_blocks(X).blocks[0].compute()) is kind
    model.fit(in_blocks(X), in_blocks(y))
    score = model.score(in_blocks(X), in_blocks(y))
    assert score == pytest.approx(model.score(ROWS, y))
    for method in ("decision_function", "predict_proba", "predict"):
        if hasattr(model, method):
            found = getattr(model, method)(in_blocks(X)).compute(scheduler="sync")
            np.testing.assert_allclose(found, getattr(model, method)(ROWS), rtol=1e-9, atol=1e-12)


@pytest.mark.quick
def test_of_dask_arrays_nothing_is_asked_but_to_make_them_and_to_cut_them():
    asked = set()
    for _, tree in places():
        names = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "dask"
            for alias in node.names
        }
        asked |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in names
        }
    assert asked == {"from_array", "from_delayed", "concatenate"}


# --- Dask: copies that are dropped, and tasks that are run again ----------------------------------


@pytest.mark.quick
def test_nothing_is_scattered_and_no_retries_are_left_to_dask():
    """Copies of what is scattered are dropped, and `retries` is four times, whatever it is."""
    for place, tree in places():
        for name, call in calls_of(tree):
            is_cluster = "client" in ast.unparse(call.func)
            assert not (is_cluster and name in ("scatter", "replicate")), place
            if name in ("submit", "compute", "map"):
                given = {keyword.arg for keyword in call.keywords}
                assert not given & {"retries", "broadcast"}, f"{place}, line {call.lineno}"


@NEEDS_DASK
def test_a_version_stays_where_it_was_sent_though_copies_are_dropped(monkeypatch):
    """Workers have versions in a store of ours, of which Dask's memory manager knows nothing."""
    import dask

    from hogshare.tasks.cluster_executor import ClusterExecutor

    sent, made = [], ClusterExecutor._order

    def order(self, worker, *rest):
        found = made(self, worker, *rest)
        sent.extend((worker, key) for key in found.values)
        return found

    monkeypatch.setattr(ClusterExecutor, "_order", order)
    often = {"distributed.scheduler.active-memory-manager.interval": "20ms"}
    with dask.config.set(often), cluster() as own, AsyncContext(own) as ac:
        manager = own.run_on_scheduler(lambda dask_scheduler: _copies_are_dropped(dask_scheduler))
        assert manager, "nobody drops copies: the test would show nothing"
        points = ac.parallelize(ROWS, LABELS, partitions=4)
        w = ac.broadcast(np.ones(1000))
        values = []
        for _ in range(6):
            points.map(lambda rows, w: float(w.sum()) + len(rows[1]), w).reduce(add)
            values += [result.value for result in ac.collect_all(timeout=60)]
    assert len(values) == 12 and set(values) == {2120.0}
    assert len(sent) == len(set(sent)) == 2, "once to each worker"


def add(one, other):
    return one + other


def _copies_are_dropped(dask_scheduler):
    return bool(dask_scheduler.extensions["amm"].running)


@NEEDS_DASK
def test_tries_are_counted_by_the_context_and_not_by_allowed_failures(tmp_path):
    """Dask gives up a task that has taken four workers along, whatever `retries` says."""

    def deadly(rows, folder=str(tmp_path)):
        tries = len(os.listdir(folder))
        if tries < 6:
            open(os.path.join(folder, str(tries)), "w").close()
            os._exit(3)
        return len(rows[1])

    with cluster(1) as own, AsyncContext(own, n_workers=1, retries=8) as ac:
        ac.parallelize(ROWS, LABELS).map(deadly).reduce(add)
        assert ac.collect(timeout=200).value == 240
        assert ac.repeated == 6


@NEEDS_DASK
@pytest.mark.usefixtures("client")
def test_rows_that_take_their_workers_along_end_a_fit_with_the_setting_s_name():
    import dask
    import dask.array as da

    def load(k):
        if k == 1:
            os._exit(3)
        return ROWS[:80]

    parts = [da.from_delayed(dask.delayed(load)(k), (80, 6), float) for k in range(3)]
    with pytest.raises(
        RuntimeError, match=r"on 4 different workers.*[^.]\. Loading.*allowed-failures"
    ):
        hogshare.SGDClassifier().fit(da.concatenate(parts), LABELS)


# --- arrays at any address -----------------------------------------------------------------------


def at(place, array):
    """The same numbers, in memory that begins so many bytes behind an aligned place."""
    array = np.ascontiguousarray(array)
    memory = np.zeros(array.nbytes + 2 * EVERY_BYTE, np.uint8)
    first = (place - memory.ctypes.data) % EVERY_BYTE
    found = memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    assert found.ctypes.data % EVERY_BYTE == place
    return found


def moved(place, X):
    """Rows, dense or CSR, whose arrays all begin there."""
    if not sp.issparse(X):
        return at(place, X)
    found = type(X)(X.shape, dtype=X.dtype)
    found.data, found.indices, found.indptr = (at(place, a) for a in (X.data, X.indices, X.indptr))
    assert not found.data.flags.aligned
    return found


@pytest.fixture
def only_aligned(monkeypatch):
    """A kernel that is called with an array that is not aligned raises."""
    call = decorators.Kernel.__call__

    def checked(self, *arguments):
        for array in arrays_of(arguments):
            assert array.flags.aligned, f"{self.__name__} gets an array that is not aligned"
        return call(self, *arguments)

    monkeypatch.setattr(decorators.Kernel, "__call__", checked)
    with pytest.raises(AssertionError, match="total gets"):
        sums.total(at(1, np.ones(3)))


def learnt(model):
    """All numbers that a model has learnt, as bytes by name."""
    found = {}
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, np.ndarray | list):
            parts = value if isinstance(value, list) else [value]
            found[name] = b"".join(np.asarray(part).tobytes() for part in parts)
    return found


ESTIMATORS = {
    "ElasticNet": {"alpha": 0.01},
    "Lasso": {"alpha": 0.01},
    "LatentDirichletAllocation": {"n_components": 3, "max_iter": 2, "random_state": 0},
    "LogisticRegression": {},
    "LogisticRegressionCV": {"Cs": 2, "cv": 2, "use_legacy_attributes": False},
    "MLPClassifier": {"max_iter": 2, "random_state": 0},
    "MLPRegressor": {"max_iter": 2, "random_state": 0},
    "MatrixFactorization": {"n_factors": 2, "max_iter": 2, "random_state": 0},
    "Ridge": {},
    "RidgeClassifier": {},
    "SGDClassifier": {"loss": "log_loss", "max_iter": 3, "tol": None, "random_state": 0},
    "SGDRegressor": {"max_iter": 3, "tol": None, "random_state": 0},
}
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def given_to(name, X, dtype):
    """What is given to an estimator's fit besides rows, and its weights."""
    if name == "MatrixFactorization" or name.startswith("Latent"):
        return [], {}
    y = NUMBERS.astype(dtype) if name in ("Ridge", "Lasso", "ElasticNet") else LABELS
    y = NUMBERS.astype(dtype) if name.endswith("Regressor") else y
    return [y], {} if name.startswith("MLP") else {"sample_weight": WEIGHT}


def test_every_estimator_is_tried():
    kinds = {name for name in hogshare.__all__ if hasattr(getattr(hogshare, name), "fit")}
    assert kinds - {"TableEncoder"} == set(ESTIMATORS)  # which takes tables of words


@pytest.mark.usefixtures("only_aligned")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_rows_at_any_address_give_the_same_bits(name, form, dtype):
    """As tasks of Dask have them: not aligned, in all of 32 that were seen."""
    if name == "MatrixFactorization" and form == "dense":
        pytest.skip("ratings are a sparse matrix, or triples")
    rows = COUNTS if name in ("MatrixFactorization", "LatentDirichletAllocation") else ROWS
    X = (sp.csr_array(rows) if form == "csr" else rows).astype(dtype)
    more, weights = given_to(name, X, dtype)
    kind, place = getattr(hogshare, name), (1, 2, 3, 5, 6, 7)[len(name) % 6]
    moved_more = [at(place, one) for one in more]
    moved_weights = {key: at(place, one) for key, one in weights.items()}
    expected = kind(**ESTIMATORS[name]).fit(X, *more, **weights)
    model = kind(**ESTIMATORS[name]).fit(moved(place, X), *moved_more, **moved_weights)
    assert learnt(model) == learnt(expected) and learnt(model)
    for method in ("predict", "predict_proba", "transform"):
        if hasattr(model, method) and name != "MatrixFactorization":
            found = getattr(model, method)(moved(place, X))
            np.testing.assert_array_equal(found, getattr(expected, method)(X))


@pytest.mark.usefixtures("only_aligned")
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize("rule", [SGD(), SAGA(), SDCA()], ids=lambda rule: type(rule).__name__)
def test_workers_take_rows_at_any_address(rule, runtime, form):
    step = {"step": 0.01} if isinstance(rule, SGD) else {}
    models = []
    for place in (0, 1, 2, 3, 5, 7):
        X = sp.csr_array(ROWS) if form == "csr" else ROWS
        X, y, weight = (moved(place, X) if place else X, at(place, LABELS), at(place, WEIGHT))
        problem = linear(X, y, sample_weight=weight, alpha=0.01)
        for n_workers in (1, 2):
            barrier = BSP() if n_workers == 2 else None
            report = solve(
                problem,
                rule=rule,
                stop=3,
                n_workers=n_workers,
                runtime=runtime,
                barrier=barrier,
                seed=0,
                **step,
            )
            if n_workers == 1:
                models.append(np.array(report.model.coef).tobytes())
            assert np.isfinite(report.model.coef).all()
    assert len(set(models)) == 1


def arrays_of(things):
    """Arrays among things, those within tuples too."""
    for thing in things:
        if isinstance(thing, np.ndarray):
            yield thing
        elif isinstance(thing, tuple):
            yield from arrays_of(thing)


@pytest.mark.skipif(decorators.JIT_DISABLED, reason="nothing is compiled")
def test_numba_takes_every_array_for_an_aligned_one():
    """So that nobody but who calls a kernel can see to it."""
    from numba import typeof

    array = at(1, np.ones(3))
    assert not array.flags.aligned and typeof(array).aligned


# --- MPI -----------------------------------------------------------------------------------------

REDUCTIONS = {"Reduce", "Allreduce", "Ireduce", "Iallreduce", "reduce", "allreduce"} | {
    "Scan", "Exscan", "Reduce_scatter", "Reduce_scatter_block", "Iscan", "Accumulate",
}  # fmt: skip
# gradients and models of a race by collective calls, each a plain sum in place, whose bits nobody
# promises and on which no decision of a fit rests
MAY_REDUCE = {("lab/rivals/collectives.py", "Allreduce(_in_place(), numbers)")}


@pytest.mark.quick
def test_nothing_rests_on_a_reduction_of_mpi():
    """Not its bits, which differ from call to call, nor a largest one, which differs by rank."""
    found = set()
    for place, tree in places():
        if "mpi" not in ast.unparse(tree).lower():
            continue
        for name, call in calls_of(tree):
            if name in REDUCTIONS and not is_of_another(place, call):
                text = ast.unparse(call)
                found.add((place, text[text.index(name) :]))
        words = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not words & {"MAXLOC", "MINLOC", "Op"}, place
        if place.startswith("runtimes/mpi"):
            assert not words & {"MAX", "MIN", "SUM"}, place
    assert found == MAY_REDUCE


def is_of_another(place, call):
    """Whether it is NumPy's, Python's, a collection's or a plane's."""
    others = "np.", "functools.", "home.attached."
    return place.startswith("tasks/") or ast.unparse(call.func).startswith(others)


def test_sums_of_ranks_are_added_in_their_order():
    """So that they have the same bits on all ranks, by whichever MPI, with NaN or without."""
    from hogshare.runtimes.mpi.rank_pool import RankPool

    parts = np.array([[0.1, np.nan], [0.7, 1.0], [-0.3, np.inf]])

    class Gathers:
        def __init__(self, rank):
            self.rank = rank

        def Get_rank(self):
            return self.rank

        def Get_size(self):
            return len(parts)

        def Iallgather(self, own, found):
            np.testing.assert_array_equal(own, parts[self.rank])
            found[...] = parts
            return types.SimpleNamespace(Test=lambda: True)

    found = [RankPool(Gathers(k), lambda: None).added(parts[k]).tobytes() for k in range(3)]
    assert set(found) == {(parts[0] + parts[1] + parts[2]).tobytes()}


CONTROL = """
import collections, json, warnings
warnings.simplefilter("ignore")
from hogshare import SAGA, Master, Replicas, Shared
from hogshare.runtimes.mpi import channel
sizes = collections.defaultdict(set)
send = channel.Channel._send
def counted(self, message):
    if message.to != self.me:
        sizes[message.counted].add(len(message.buffer))
    send(self, message)
channel.Channel._send = counted
for choice in ({}, {"rule": SAGA()}, {"plane": Master()}, {"plane": Replicas(every=16)},
               {"plane": Replicas(every=16, sync="bsp")}):
    for n_workers in (1, 2):
        fit(MPI(arena=False, rows="all"), n_workers=n_workers, **choice)
print(json.dumps({"rank": rank, **{kind: [min(of), max(of)] for kind, of in sizes.items()}}))
"""
# Open MPI has 256 bytes on their way at once, though nobody asks for them, and 257 not
ON_THEIR_WAY = 256


@ranks.needs_mpi
def test_words_of_the_channel_are_on_their_way_at_once(tmp_path):
    job = ranks.run(2, ranks.script(tmp_path, CONTROL))
    found = ranks.told(job.stdout)
    assert len(found) == 2, job.stderr[-2000:]
    for sizes in found:
        assert max(sizes["control"][1], sizes[""][1]) <= 40 < ON_THEIR_WAY
        assert sizes["progress"][1] <= 40 + 2 * 72 < ON_THEIR_WAY


@pytest.mark.quick
def test_nobody_waits_for_a_message_to_have_gone():
    """But at the end, where the others poll: so that no size of a message makes a rank hang."""
    waits = {"Send", "Ssend", "Bsend", "Rsend", "Sendrecv", "sendrecv", "Wait", "Waitall"}
    for place, tree in places():
        for name, call in calls_of(tree) if place.startswith("runtimes/mpi") else ():
            assert name not in waits, f"{place}, line {call.lineno}"


@ranks.needs_mpi
@pytest.mark.parametrize(("words", "code"), [(["--seed", "x"], 2), (["--label-column", "9"], 1)])
def test_all_ranks_of_the_command_end_with_one_code(tmp_path, words, code):
    """So that a launcher has nothing to make of several: MPICH would have 2 and 5 be 7."""
    np.savetxt(tmp_path / "rows.csv", np.column_stack([LABELS, ROWS]), delimiter=",")
    given = ["-m", "hogshare", "fit", tmp_path / "rows.csv", "--model", tmp_path / "m.npz"]
    job = ranks.run(2, *given, "--runtime", "mpi", *words, launched=False)
    assert job.returncode == code, job.stderr[-2000:]


# --- Numba: unsigned numbers, and what is compiled anew ------------------------------------------

UNSIGNED = {"uint8", "uint16", "uint32", "uint64"}
# where the name stands for a signed number, and in another branch for an unsigned one
MAY_MIX = {"kernels/exchange/master_updates.py: write_copy": ["-1 - j"]}
SAFE = ast.BitXor | ast.BitAnd | ast.BitOr | ast.RShift  # signed or not, the bits are the same


def mixed(function):
    """Lines where an unsigned number meets a whole one in arithmetic: Numba makes it signed."""
    unsigned = set(CONSTANTS)

    def is_unsigned(node):
        if isinstance(node, ast.Name):
            return node.id in unsigned
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Attribute) and node.func.attr in UNSIGNED
        return isinstance(node, ast.BinOp) and is_unsigned(node.left) and is_unsigned(node.right)

    def is_whole(node):
        if isinstance(node, ast.UnaryOp):
            return is_whole(node.operand)
        text = ast.unparse(node)
        is_size = text.endswith((".shape[0]", ".shape[1]", ".size"))
        if is_size or text.startswith(("len(", "np.int")):
            return True
        return isinstance(node, ast.Constant) and type(node.value) is int

    for _ in range(2):  # a loop's name may be used above the line that says what it is
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and is_unsigned(node.value):
                unsigned |= {one.id for one in node.targets if isinstance(one, ast.Name)}
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                arguments = getattr(node.iter, "args", [])
                if arguments and all(map(is_unsigned, arguments)):
                    unsigned.add(node.target.id)
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp):
            pair = node.left, node.right
        elif isinstance(node, ast.AugAssign):
            pair = node.target, node.value
        else:
            continue
        if isinstance(node.op, SAFE):
            continue
        if any(map(is_unsigned, pair)) and any(map(is_whole, pair)):
            yield ast.unparse(node)


CONSTANTS = {
    name
    for path in (PACKAGE / "kernels").glob("*.py")
    for name in re.findall(r"^([A-Z_]+)\b.*= np\.uint", path.read_text(), re.MULTILINE)
}


@pytest.mark.quick
def test_no_kernel_mixes_an_unsigned_number_with_a_signed_one():
    found = {}
    for place, tree in places():
        if not place.startswith("kernels/"):
            continue
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and (lines := list(mixed(node))):
                found[f"{place}: {node.name}"] = lines
    assert found == MAY_MIX


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("state = np.uint64(x)\n    return state * 3", True),
        ("for k in range(np.uint64(n)):\n        j = k + 1", True),
        ("k = np.uint64(0)\n    k += 1", True),
        ("k = np.uint64(0)\n    k += np.uint64(1)", False),
        ("k = np.uint64(a.shape[0]) - np.uint64(1)", False),
        ("k = np.uint64(a) % a.shape[0]", True),
        ("return np.uint32(x) >> 3", False),
    ],
)
def test_mixed_numbers_are_found(line, is_found):
    (function,) = ast.parse(f"def f(x, n, a):\n    {line}\n").body
    assert bool(list(mixed(function))) == is_found


EDGES = [0, 1, 2**31 - 1, 2**31, 2**32 - 1]


def test_streams_and_sums_wrap_around_as_unsigned_numbers_do():
    """Against Python's whole numbers, at the values where a signed one would be another."""
    for state in [*EDGES[1:], 0xDEADBEEF]:
        expected = state
        expected ^= expected << 13 & 0xFFFFFFFF
        expected ^= expected >> 17
        expected ^= expected << 5 & 0xFFFFFFFF
        order, plain = np.arange(40), list(range(40))
        streams_shuffle(order, state)
        swap(plain, state)
        assert order.tolist() == plain
        assert swap([0, 1], state) == expected
    full = 2**64 - 1
    for first, word in itertools.product([0, 1, 2**63 - 1, 2**63, full], [0, 2**63, full]):
        words = np.array([word, full, 5], np.uint64)
        found = sums.sum_by_place(words, np.uint64(first))
        assert int(found) % 2**64 == sum_of_places(words.tolist(), first)


def streams_shuffle(order, seed):
    """The shuffle as kernels have it, compiled."""

    @decorators.kernel
    def shuffled(numbers, seed):
        streams.shuffle(numbers, seed)

    shuffled(order, seed)


def swap(numbers, state):
    """Fisher and Yates by an xorshift of 32 bits, in place; the generator's last state."""
    for i in range(len(numbers) - 1):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        j = i + state % 2**31 % (len(numbers) - i)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    return state


def sum_of_places(words, first):
    """SplitMix64's mixing of words and places, modulo 2**64."""
    modulus, total = 2**64, 0
    state = first * int(sums.STEP) % modulus
    for number in words:
        state = (state + int(sums.STEP)) % modulus
        word = (state + number) % modulus
        word = (word ^ word >> 30) * int(sums.MIX) % modulus
        word = (word ^ word >> 27) * int(sums.REMIX) % modulus
        total = (total + (word ^ word >> 31)) % modulus
    return total


@pytest.mark.skipif(decorators.JIT_DISABLED, reason="nothing is compiled")
def test_a_source_counts_by_its_content_whatever_its_time_and_size(tmp_path, seams):
    """Numba's own cache goes by time and size up to 0.65, and by content in 0.68."""
    seams.kernels.folder = folder = tmp_path / "machine code"
    folder.mkdir(mode=0o700)
    (tmp_path / "sources").mkdir()
    source = tmp_path / "sources" / "numbers_of_test.py"
    text = (
        "from hogshare.kernels.jit import decorators\n\n\n"
        "@decorators.kernel\ndef add(x):\n    return x + 1\n"
    )

    def called():
        found = types.ModuleType("numbers_of_test")
        found.__file__ = str(source)
        exec(compile(source.read_text(), str(source), "exec"), found.__dict__)
        cache._digest_of_folder.cache_clear()  # as in a process of its own
        result = found.add(1)
        return result, sum(found.add.dispatcher.stats.cache_hits.values())

    source.write_text(text)
    as_it_was = source.stat()
    assert called() == (2, 0)
    os.utime(source, ns=(as_it_was.st_atime_ns, as_it_was.st_mtime_ns + 10**9))
    assert called() == (2, 1), "touched, and of the same content: loaded"
    source.write_text(text.replace("+ 1", "+ 3"))
    os.utime(source, ns=(as_it_was.st_atime_ns, as_it_was.st_mtime_ns))
    assert source.stat().st_size == as_it_was.st_size
    assert called() == (4, 0), "of the same time and size, and another content: compiled"


# --- SciPy: what a row of a csr_array is ---------------------------------------------------------


@pytest.fixture
def no_single_rows(monkeypatch):
    """A sparse array that is iterated over, or asked for one row, raises."""

    def refuse(*_):
        raise AssertionError("a row of a sparse array is of one kind by a loop, of another by [0]")

    for owner in sp.csr_array.__mro__:
        if "__iter__" in vars(owner):
            monkeypatch.setattr(owner, "__iter__", refuse)
        if "__getitem__" in vars(owner):
            monkeypatch.setattr(owner, "__getitem__", by_slices(vars(owner)["__getitem__"]))
    with pytest.raises(AssertionError, match=r"by \[0\]"):
        sp.csr_array(ROWS)[0]
    with pytest.raises(AssertionError, match=r"by \[0\]"):
        next(iter(sp.csr_array(ROWS)))


def by_slices(get):
    def found(self, key):
        assert not isinstance(key, int | np.integer), "by [0]: a row of a sparse array"
        return get(self, key)

    return found


@pytest.mark.usefixtures("no_single_rows")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_row_of_a_sparse_array_is_taken_by_itself(name):
    X = sp.csr_array(COUNTS)
    more, weights = given_to(name, X, np.float64)
    model = getattr(hogshare, name)(**ESTIMATORS[name]).fit(X, *more, **weights)
    if hasattr(model, "partial_fit"):
        model.partial_fit(X, *more)
    for method in ("predict", "predict_proba", "decision_function", "transform"):
        if hasattr(model, method) and name != "MatrixFactorization":
            getattr(model, method)(X)
    if more:
        model.score(X, *more)


def test_a_row_that_is_a_sparse_array_of_one_dimension_is_not_called_damaged():
    with pytest.raises(ValueError, match="Expected 2D input"):
        LogisticRegression().fit(sp.csr_array(ROWS[0]), LABELS[:1])


# --- NumPy: masked values, and words of any length -----------------------------------------------

MASKED = np.ma.masked_array(ROWS, mask=ROWS > 1.0)


@pytest.mark.parametrize("few", [0, 100_000])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_masked_values_are_refused(name, few, seams):
    """NumPy's conversions and scikit-learn's take the numbers below the mask, without a word."""
    seams.sizes.few = few
    model = getattr(hogshare, name)(**ESTIMATORS[name])
    if name == "MatrixFactorization":
        users, items, ratings = np.arange(6), np.arange(6), np.arange(6.0)
        for k, what in enumerate(("users", "items", "ratings")):
            given = [users, items, ratings]
            given[k] = np.ma.masked_array(given[k], mask=given[k] > 3)
            with pytest.raises(ValueError, match=f"{what} is a masked array, and 2 of"):
                model.fit(*given)
        return
    y, weights = given_to(name, ROWS, np.float64)
    with pytest.raises(ValueError, match=f"X is a masked array, and {MASKED.mask.sum()} of"):
        model.fit(MASKED, *y)
    if y:
        masked = np.ma.masked_array(y[0], mask=np.arange(240) < 7)
        with pytest.raises(ValueError, match=r"7 of (its .* masked|240 labels are missing)"):
            model.fit(ROWS, masked)
    if weights:
        masked = np.ma.masked_array(WEIGHT, mask=np.arange(240) < 7)
        with pytest.raises(ValueError, match="sample_weight is a masked array, and 7 of"):
            model.fit(ROWS, *y, sample_weight=masked)
    assert not hasattr(model, "coef_")


def test_arrays_with_a_mask_of_nothing_are_taken():
    plain = np.ma.masked_array(ROWS, mask=False)
    found = LogisticRegression().fit(plain, np.ma.masked_array(LABELS)).coef_
    np.testing.assert_array_equal(found, LogisticRegression().fit(ROWS, LABELS).coef_)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="needs NumPy 2")
@pytest.mark.parametrize("few", [0, 100_000])
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name[-5:] in ("ifier", "ssion")])
def test_labels_may_be_words_of_any_length(name, few, seams):
    """scikit-learn 1.9.1 ends with a TypeError, and NumPy 2.4 casts to a given length only."""
    seams.sizes.few = few
    words = np.array(["no", "certainly"])[LABELS]
    kind = np.dtypes.StringDType(na_object=None)
    model = getattr(hogshare, name)(**ESTIMATORS[name]).fit(ROWS, words.astype(kind))
    expected = getattr(hogshare, name)(**ESTIMATORS[name]).fit(ROWS, words)
    assert model.predict(ROWS).tolist() == expected.predict(ROWS).tolist()
    assert model.classes_.tolist() == ["certainly", "no"]
    missing = words.astype(kind)
    missing[3] = None
    with pytest.raises(ValueError, match="1 of 240 labels are missing"):
        model.fit(ROWS, missing)
    if hasattr(model, "partial_fit") and not name.startswith("MLP"):
        classes = np.array(["certainly", "no"], np.dtypes.StringDType())
        anew = getattr(hogshare, name)().partial_fit(ROWS, words.astype(kind), classes=classes)
        assert set(anew.predict(ROWS)) <= {"certainly", "no"}


# --- scikit-learn: Ctrl-C in the fit of a network -------------------------------------------------


@pytest.mark.usefixtures("plain_environment")
def test_ctrl_c_in_a_networks_fit_ends_the_command(tmp_path, monkeypatch, capsys):
    """Its fit warns and returns, as scikit-learn's does, and no model is written."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    np.savetxt(tmp_path / "rows.csv", np.column_stack([LABELS, ROWS]), delimiter=",")
    model = tmp_path / "m.npz"
    monkeypatch.setattr("hogshare.estimators.network_mixin.solve", interrupted)
    given = ["fit", str(tmp_path / "rows.csv"), "--model", str(model), "--estimator", "mlp"]
    assert main([*given, "--label-column", "1"]) == 130
    assert "stopped by Ctrl-C" in capsys.readouterr().err and not model.exists()


# --- rivals of the race --------------------------------------------------------------------------


def test_vowpal_wabbit_gets_minus_one_and_one(tmp_path):
    """Label 0 has no gradient in its logistic loss, and nothing says so."""
    for y in (LABELS, LABELS + 1, LABELS.astype(bool), 2 * LABELS - 1):
        wabbit.write_text(ROWS, signs(y), tmp_path / "rows.txt")
        lines = (tmp_path / "rows.txt").read_text().splitlines()
        assert [int(line.split(" ", 1)[0]) for line in lines] == (2 * LABELS - 1).tolist()


@pytest.mark.quick
def test_libmf_is_not_asked_to_predict():
    """Where users and items are columns of a C-ordered array it answers for other pairs."""
    using = [(place, tree) for place, tree in places() if "libmf" in ast.unparse(tree)]
    assert "lab/rivals/ratings_race.py" in dict(using)
    for place, tree in using:
        assert not [name for name, _ in calls_of(tree) if name == "predict"], place
