"""Races of networks, factorisations and topics."""

import json

import numpy as np
import pytest

from hogshare.cli.main import main
from hogshare.lab.rivals import race, race_catalogue
from hogshare.lab.studies.named_problems import family_of

SMALL = {"network:10-5-3": 1500, "network:10-5-1": 1500, "factorisation": 3000, "topics": 200}
SMALL |= {"preferences": 4000}
HERE = ("hogshare", "scikit-learn", "torch")


def a_race(name):
    family = family_of(name)
    data = family.data(None, SMALL[name], np.float32, 0)
    return family, race_catalogue.race_of(family, data, 0)


def cases():
    for name in SMALL:
        for kind in race_catalogue.CONTESTANTS[family_of(name).reads]:
            yield pytest.param(name, kind, id=f"{name}-{kind.name}")


def fitted(kind, event, budget):
    """A contestant's model; skipped where its library is not there."""
    contestant = kind(event.task(1))
    if refusal := contestant.refusal():
        pytest.skip(refusal)
    try:
        prepared = contestant.prepare(event.X, event.y)
    except ImportError as error:
        pytest.skip(str(error))
    return contestant.model(contestant.fit(prepared, contestant.grid()[0], budget, 0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "kind"), list(cases()))
def test_contestants_come_nearer(name, kind):
    if kind.library == "torch":
        pytest.importorskip("torch")
    _, event = a_race(name)
    first, last = (event.judge(fitted(kind, event, budget)) for budget in (1, 40))
    assert last < min(first, event.at_start()) or last == 0.0


def test_a_network_is_judged_by_rows_that_it_has_not_seen():
    _, event = a_race("network:10-5-3")
    assert event.X.shape[0] == 1200 and len(event.test[1]) == 300
    vector = event.problem.start()
    wrong = np.mean(event.problem.predict(vector, event.test[0]) != event.test[1])
    assert event.judge(vector) == wrong
    assert event.judge(np.full_like(vector, np.nan)) == np.inf


def test_the_objective_of_factors_does_not_hang_on_their_sizes():
    _, event = a_race("factorisation")
    rng = np.random.default_rng(0)
    P, Q = (rng.standard_normal((n, 8)) for n in event.sizes[1:])
    assert event.judge((3.0 * P, Q / 3.0)) == pytest.approx(event.judge((P, Q)))
    lost = np.mean([(r - P[u] @ Q[i]) ** 2 for (u, i), r in zip(event.X, event.y, strict=True)])
    size = event.task(1).alpha * np.linalg.norm(P) * np.linalg.norm(Q) / len(event.y)
    assert event.judge((P, Q)) == pytest.approx(0.5 * lost + size)
    assert event.judge((np.inf * P, Q)) == np.inf


def test_perplexity_is_the_number_of_words_where_all_are_alike():
    _, event = a_race("topics")
    assert event.judge(np.ones((20, 2000))) == pytest.approx(2000.0)
    assert event.judge(np.zeros((20, 2000))) == np.inf


@pytest.mark.parametrize("name", ["network:10-5-3", "factorisation", "topics"])
def test_a_race_by_name(capsys, tmp_path, name):
    code = main(
        [
            *("bench", "rivals", "--problem", name, "--rows", str(SMALL[name]), "--workers", "1"),
            *("--rounds", "1", "--limit", "2", "--targets", "0.6", "--json", str(tmp_path / "r")),
            *("--only", "hogshare exchange=None"),
        ]
    )
    out, err = capsys.readouterr()
    assert code == 0, err
    result = json.loads((tmp_path / "r").read_text())
    (row,) = result["table"]
    assert row["seconds"] > 0.0 and row["reached"] == 1
    assert result["measure"] in out and result["what"] in err


def test_who_does_not_fit_is_told():
    kinds = race_catalogue.select(["implicit"], race_catalogue.CONTESTANTS["ratings"])
    _, event = a_race("factorisation")
    with pytest.raises(ValueError, match="are for clicks"):
        race.race(event, kinds, race.RacePlan(workers=1), isolated=False)
    task = race_catalogue.race_of(
        family_of("lenet"), family_of("lenet").data(None, 20, np.float32, 0), 0
    ).task(1)
    for kind in race_catalogue.CONTESTANTS["rows"]:
        assert bool(kind(task).refusal()) == (kind.library != "hogshare")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--problem", "factorisation", "--data", "r.csv"], "needs synthetic ratings"),
        (["--problem", "topics", "--loss", "hinge"], "--loss is for --problem linear"),
        (["--problem", "network:4-"], "not a number of units"),
    ],
)
def test_a_wrong_race_is_refused(capsys, given, words):
    assert main(["bench", "rivals", *given]) == 2
    assert words in capsys.readouterr().err
