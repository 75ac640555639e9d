"""Problems by name, and ``bench speedup`` of them."""

import json

import numpy as np
import pytest
from scipy import sparse

from hogshare import SGD, Master, asysg_con, asysg_incon, problems, solve
from hogshare.cli.main import main
from hogshare.lab.studies import synthetic
from hogshare.lab.studies.named_problems import FAMILIES, family_of

NETWORK = "network:6-4-3"


pytestmark = pytest.mark.usefixtures("plain_environment")


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def speedup(capsys, path, *arguments):
    """What ``bench speedup`` measures, and what it says."""
    quick = "--workers", "1,2", "--epochs", 4, "--repeats", 1, "--points", 4, "--json", path
    code, out, err = run(capsys, "bench", "speedup", *quick, *arguments)
    assert code == 0, err
    return json.loads(path.read_text()), out + err


# -- names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("network:4-", "'' is not a number of units"),
        ("network:", "'' is not a number of units"),
        ("network:4-x-3", "'x' is not a number of units"),
        ("network:4-0-3", "'0' is not a number of units"),
        ("network:4-²-3", "'²' is not a number of units"),
        ("network:4-3", "at least one hidden layer"),
        ("network:4-3-2", "end the name with -1"),
        ("lenett", "Did you mean 'lenet'?"),
        ("nothing", "is not 'linear', 'lenet'"),
    ],
)
def test_a_wrong_name_is_a_sentence(capsys, name, words):
    with pytest.raises(ValueError, match=r"network|lenet") as refused:
        family_of(name)
    assert words in str(refused.value)
    code, out, err = run(capsys, "bench", "speedup", "--problem", name)
    assert (code, out) == (2, "") and words in err


def test_networks_have_the_parameters_of_the_paper():
    sizes = {"network:400-100-50-20-10": 46_380, "lenet": 431_080, "cifar10-full": 89_578}
    for name, n_params in sizes.items():
        family = family_of(name)
        problem = family.state(family.data(None, 12, np.float32, 0))
        assert (problem.n_params, problem.n_rows) == (n_params, 12)
        assert family.what(problem) == f"{name}, {n_params:,} parameters"
    two = family_of("network:5-3-1")
    assert two.state(two.data(None, 8, np.float64, 0)).n_outputs == 1


@pytest.mark.parametrize("name", [NETWORK, *FAMILIES])
def test_what_is_made_is_the_same_for_a_seed(name):
    family = family_of(name)
    one, same, other = (family.state(family.data(None, 40, np.float64, seed)) for seed in (1, 1, 2))
    start = one.start()
    assert one.n_rows == 40
    assert one.objective(start) == same.objective(start)
    if other.n_params == one.n_params:
        assert one.objective(start) != other.objective(start)


def test_a_mixture_has_all_classes_and_no_hyperplane_tells_them_apart():
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    X, y = synthetic.mixture(3000, 30, 3, np.float32, 0)
    assert X.dtype == np.float32 and set(synthetic.mixture(3, 5, 3, float, 0)[1]) == {0, 1, 2}
    near = KNeighborsClassifier(9).fit(X[:2000], y[:2000]).score(X[2000:], y[2000:])
    plane = LogisticRegression().fit(X[:2000], y[:2000]).score(X[2000:], y[2000:])
    assert near > 0.95 and plane < 0.6


def test_documents_are_counts_and_none_is_empty():
    X = synthetic.documents(40, n_words=50, n_topics=3, length=2.0)
    assert X.shape == (40, 50) and X.min() >= 0.0
    assert X.sum(axis=1).min() >= 1.0 and np.array_equal(X.data, np.rint(X.data))


def test_rows_that_do_not_fit_are_a_sentence():
    family, y = family_of(NETWORK), np.arange(9) % 3
    with pytest.raises(ValueError, match="rows have 5 columns, and network:6-4-3 takes 6"):
        family.data((np.ones((9, 5)), y), 9, float, 0)
    with pytest.raises(ValueError, match="of 2 classes, and network:6-4-3 is for 3"):
        family.data((np.ones((9, 6)), y > 0), 9, float, 0)


def test_images_that_are_given_are_scaled_and_sparse_rows_are_taken():
    pixels, y = np.full((20, 784), 255.0, np.float32), np.arange(20) % 10
    for form in (np.asarray, sparse.csr_array):
        X, _ = family_of("lenet").data((form(pixels), y), 20, np.float32, 0)
        assert X.max() == pytest.approx(1.0) and X.dtype == np.float32


# -- algorithms


def test_a_master_takes_the_mean_of_a_networks_rows():
    """So that a step is the paper's gamma, as of linear problems."""
    X, y = synthetic.mixture(60, 5, 3, float, 0)
    problem = problems.network(X, y, (4,))
    common = {"n_workers": 1, "runtime": "caller", "seed": 0, "stop": 2}
    con = asysg_con(problem, batch=20, step=0.3, theory=False, **common)
    by_hand = solve(problem, rule=SGD(batch=20), plane=Master(), step=0.3, block=20, **common)
    incon = asysg_incon(problem, batch=20, step=0.3, **common)
    np.testing.assert_array_equal(con.model.params, by_hand.model.params)
    np.testing.assert_allclose(con.model.params, incon.model.params, rtol=1e-9)
    # of the analysis' step for the sum of 20 gradients
    assert incon.theory["step"] == pytest.approx(0.3 / 20)


# -- the command


@pytest.mark.parametrize("algorithm", ["sgd", "incon", "con"])
@pytest.mark.parametrize(
    ("name", "n_rows"), [(NETWORK, 1000), ("factorisation", 1000), ("topics", 400)]
)
def test_speedup_of_a_problem_by_name(capsys, tmp_path, name, n_rows, algorithm):
    result, said = speedup(
        *(capsys, tmp_path / "s.json", "--problem", name, "--rows", n_rows),
        *("--algorithm", algorithm, "--runtime", "simulator"),
    )
    one, two = result["table"]
    assert result["data"]["rows"] == n_rows and result["settings"]["data"] == "made, seed 0"
    assert one["iteration_speedup"] == one["time_speedup"] == 1.0
    assert two["staleness_mean"] > 0.5
    trace = result["runs"][0]["trace"]["objective"]
    assert trace[-1] < trace[0]
    assert name.split(":")[0] in said and "virtual clock" in said


def test_the_virtual_clock_repeats_itself_and_has_a_ceiling(capsys, tmp_path):
    given = (
        *("--problem", NETWORK, "--rows", 2000, "--algorithm", "con", "--runtime", "simulator"),
        *("--workers", "1,6"),
    )
    results = [
        speedup(capsys, tmp_path / "s.json", *given, *more)[0]
        for more in ([], [], ["--ceiling", 1.2])
    ]
    free, again, bound = (result["table"][1] for result in results)
    assert free == again
    # one worker's block takes 1 of computing and 1 / 1.2 on the way, and no two are on their way
    assert bound["time_speedup"] < 2.5 < 4.0 < free["time_speedup"]
    assert bound["iteration_speedup"] > 4.0


def test_speedup_by_threads_of_rows_that_are_given(capsys, tmp_path):
    X, y = synthetic.mixture(400, 6, 3, float, 0)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    result, said = speedup(
        capsys, tmp_path / "s.json", "--problem", NETWORK, "--data", tmp_path / "rows.npz"
    )
    assert result["data"]["rows"] == 400 and result["settings"]["batch"] == 50
    assert result["settings"]["step"] == 0.05 and "paper's" not in said


def test_ratings_and_documents_are_read(capsys, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"u{rng.integers(20)},{rng.integers(10)},{rng.normal():.3f}" for _ in range(500)]
    (tmp_path / "r.csv").write_text("\n".join(lines) + "\n")
    result, said = speedup(
        *(capsys, tmp_path / "s.json", "--problem", "factorisation"),
        *("--data", tmp_path / "r.csv", "--algorithm", "incon"),
    )
    assert result["data"] == {"rows": 500, "columns": 30 * 9, "nonzeros": 500 * 18}
    assert "Hogwild!, Netflix): 10: -, 5.3" in said
    sparse.save_npz(tmp_path / "d.npz", sparse.csr_matrix(synthetic.documents(60, 30, 3)))
    result, _ = speedup(
        capsys, tmp_path / "s.json", "--problem", "topics", "--data", tmp_path / "d.npz"
    )
    assert result["data"]["rows"] == 60 and result["settings"]["step"] is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--loss", "hinge"], "--loss is for --problem linear"),
        (["--alpha", "1"], "--alpha is for --problem linear"),
        (["--coordinate", "uniform", "--algorithm", "incon"], "--coordinate is for"),
        (["--labels", "y.npy"], "--labels needs --data"),
        (["--data", "a9a", "--rows", "9"], "--rows is for synthetic rows"),
        (["--law", "constant:1"], "--law needs --runtime simulator"),
        (["--ceiling", "3"], "--ceiling needs --runtime simulator"),
    ],
)
def test_what_does_not_go_with_a_name_is_refused(capsys, given, words):
    code, _, err = run(capsys, "bench", "speedup", "--problem", NETWORK, *given)
    assert code == 2 and words in err


def test_more_that_is_refused(capsys):
    code, _, err = run(capsys, "bench", "speedup", "--rows", "9")
    assert code == 2 and "--rows is for a --problem that makes its own" in err
    code, _, err = run(capsys, "bench", "speedup", "--problem", "topics", "--adds", "atomic")
    assert code == 2 and "only plain adds" in err


def test_a_step_that_is_too_long_is_a_sentence(capsys):
    given = "--problem", "factorisation", "--rows", 2000, "--step", 1000, "--workers", 1
    code, _, err = run(capsys, "bench", "speedup", *given, "--algorithm", "con")
    assert code == 1 and "with 1 worker the model is not finite" in err
    assert "use a --step below 1000" in err
