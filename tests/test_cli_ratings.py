"""The command for ratings: whatever separates their cells, names in the first line or not."""

import gzip

import numpy as np
import pytest

import hogshare
from hogshare.cli.main import main

NAMES = ["userId", "movieId", "rating", "timestamp"]
FORMS = {"MovieLens": "::", "tabs": "\t", "commas": ",", "semicolons": ";", "blanks": " "}


pytestmark = pytest.mark.usefixtures("plain_environment")


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def ratings(mark, header, n_cells=4):
    """Lines of 30 users and 20 items, as text."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(1, 31, size=300), rng.integers(1, 21, size=300)
    stars = rng.integers(1, 11, size=300) / 2
    rows = [
        [u, i, x, 978300760 + k]
        for k, (u, i, x) in enumerate(zip(users, items, stars, strict=True))
    ]
    rows = [NAMES] * header + rows
    return "".join(mark.join(map(str, row[:n_cells])) + "\n" for row in rows)


def fit(capsys, data, model):
    options = "--estimator", "factorisation", "--n-factors", 2, "--epochs", 2, "--n-jobs", 1
    return run(capsys, "fit", data, "--model", model, "--seed", 0, *options)


@pytest.fixture(scope="module")
def expected():
    """What the model of the same ratings, given as arrays, predicts of them."""
    table = [line.split(",") for line in ratings(",", False).splitlines()]
    users, items, stars = np.array(table).T[:3]
    model = hogshare.MatrixFactorization(2, max_iter=2, n_jobs=1, random_state=0)
    return model.fit(users, items, stars.astype(float)).predict(users, items)


@pytest.mark.parametrize("header", [False, True], ids=["bare", "named"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_same_ratings_is_the_same_model(capsys, tmp_path, expected, form, header):
    data, model, pairs = (tmp_path / name for name in ("r.dat", "m.npz", "p.dat.gz"))
    data.write_text(ratings(FORMS[form], header))
    code, _, err = fit(capsys, data, model)
    assert code == 0, err
    _, of_ratings, _ = run(capsys, "predict", model, data)
    pairs.write_bytes(gzip.compress(ratings(FORMS[form], header, 2).encode()))
    code, of_pairs, err = run(capsys, "predict", model, pairs)
    assert (code, err) == (0, "")
    for text in (of_ratings, of_pairs):
        np.testing.assert_allclose([float(line) for line in text.splitlines()], expected, 1e-6)


def test_ids_may_have_two_colons(capsys, tmp_path):
    data, model = tmp_path / "r.csv", tmp_path / "m.npz"
    data.write_text("u::1,i::1,3\nu::2,i::1,4\nu::2,i::2,5\n")
    assert fit(capsys, data, model)[0] == 0
    assert hogshare.load(model).users_.tolist() == ["u::1", "u::2"]


def test_a_title_with_a_comma_in_every_line_is_one_item(capsys, tmp_path):
    data, model = tmp_path / "r.dat", tmp_path / "m.npz"
    data.write_text("1::Story, A::5\n2::Story, A::3\n2::Story, B::4\n")
    assert fit(capsys, data, model)[0] == 0
    assert hogshare.load(model).items_.tolist() == ["Story, A", "Story, B"]


def test_unknown_pairs_are_counted_and_a_first_line_of_names_is_none(capsys, tmp_path):
    data, model, pairs = (tmp_path / name for name in ("r.dat", "m.npz", "p.dat"))
    data.write_text(ratings("::", False))
    assert fit(capsys, data, model)[0] == 0
    pairs.write_text("userId::movieId\n7::5\n777::5\n")
    code, out, err = run(capsys, "predict", model, pairs)
    assert (code, len(out.splitlines())) == (0, 2)
    assert "1 of 2 lines have a user or an item that was in no fit" in err


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("userId,movieId,timestamp", "column 3 is 'timestamp'"),
        (",userId,movieId,rating", "column 2 is 'userId'"),  # an index comes first
        ("rating,user,item", "column 1 is 'rating'"),
        ("userId,itemId,ts", "column 3 is 'ts'"),
        ("user_id,item_id,event_time", "column 3 is 'event_time'"),
        ("who,what,rated_at", "column 3 is 'rated_at'"),
        ("value,user_idx,item_idx", "column 2 is 'user_idx'"),
    ],
)
def test_columns_that_are_named_otherwise_are_refused(capsys, tmp_path, head, said):
    data, model = tmp_path / "r.csv", tmp_path / "m.npz"
    data.write_text(f"{head}\n" + "1,2,3,4\n2,2,4,5\n")
    code, _, err = fit(capsys, data, model)
    assert code == 1 and f"line 1: {said}" in err and not model.exists()


def test_how_long_somebody_watched_is_a_rating(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("user_id,item_id,watch_time\n1,2,30.5\n")
    assert hogshare.datasets.read_ratings(path)[2].tolist() == [30.5]


def test_a_first_line_without_its_rating_is_no_header(capsys, tmp_path):
    data = tmp_path / "r.dat"
    data.write_text("1::10::\n1::11::3\n2::10::4\n")
    code, _, err = fit(capsys, data, tmp_path / "m.npz")
    assert code == 1 and "line 1" in err and "rating" in err
