"""`hogshare reproduce`: every claim is there, says what it is, and what it found is in docs."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

from hogshare.cli.main import main
from hogshare.cli.options import WrongCommandLine
from hogshare.lab.claims import asysg, claim, gaia
from hogshare.lab.claims.catalogue import CLAIMS, select
from hogshare.lab.claims.page import page_of

DOCS = Path(__file__).parent.parent / "docs"
KEPT = DOCS / "reproduced.json"
NAMES = (
    [f"async-{k}" for k in range(1, 10)]
    + ["psp-1a", "psp-1a-spread", "psp-1c", "psp-1c-few", "psp-1d", "psp-1e"]
    + ["psp-2a", "psp-2b", "psp-2c", "psp-3", "psp-bounds"]
    + [f"asap-{k}" for k in range(1, 10)]
    + ["asysg-lenet", "asysg-cifar10", "asysg-network", "asysg-rate", "asysg-coordinate-rate"]
    + ["hogwild", "asaga-prox", "asaga-rate"]
    + [f"gaia-{k}" for k in range(1, 7)]
)
# some seconds each; the others take their time, and real ones a machine of their own
SHORT = (
    *("async-9", "psp-1a", "psp-1a-spread", "psp-1c", "psp-1c-few", "psp-1e", "psp-2a", "psp-2c"),
    *("psp-3", "psp-bounds", "asap-1", "asap-2", "asap-9", "asysg-rate", "asaga-rate", "gaia-6"),
)
LONG = [name for name, one in CLAIMS.items() if name not in SHORT and one.clock != claim.REAL]


def measured(name, seeds):
    return claim.reproduce(CLAIMS[name], seeds, quick=True, advance=lambda what: None)


def test_the_table_has_all_43():
    assert list(CLAIMS) == NAMES and len(NAMES) == 43
    for one in CLAIMS.values():
        assert one.numbers and one.source and one.workload and one.when, one.name
        assert one.says.endswith("."), one.name
        assert one.verdict in claim.VERDICTS
        assert one.why or one.verdict == claim.AGREES, f"{one.name} differs, and does not say why"
        assert one.partly or one.verdict != claim.IN_PART, one.name


def test_a_printed_number_is_beside_every_claim_that_has_one():
    without = {
        name
        for name, one in CLAIMS.items()
        if all(number.printed is None for number in one.numbers.values())
    }
    # figures without numbers, of which the order is the claim, and what a paper leaves open
    assert without <= {
        *(
            "async-5",
            "async-9",
            "psp-1a",
            "psp-1a-spread",
            "psp-1c-few",
            "psp-1d",
            "psp-2a",
            "psp-2b",
        ),
        *("psp-2c", "psp-3", "gaia-5"),
    }


@pytest.mark.parametrize("name", SHORT)
def test_a_short_claim_is_found_again(name):
    found = measured(name, (0, 1, 2) if name.startswith("psp") else (0,))
    assert found["verdict"] == CLAIMS[name].expected(quick=True), found["numbers"]
    assert len(found["numbers"]) == len(CLAIMS[name].numbers)


def test_a_virtual_clock_finds_the_same_numbers_again():
    assert measured("gaia-6", (3,))["numbers"] == measured("gaia-6", (3,))["numbers"]


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
def test_a_long_claim_is_found_again(name):
    found = measured(name, (0, 1, 2))
    assert found["verdict"] == CLAIMS[name].expected(quick=True), found["numbers"]


@pytest.mark.quick
def test_numbers_over_seeds():
    one = claim.Claim(
        name="x",
        source="",
        says="",
        workload="",
        numbers={key: claim.ClaimNumber(key, 2.0) for key in ("a", "b", "left out when quick")},
        measure=lambda seed, quick: {"a": seed, "b": math.inf if seed else 1.0},
        agrees=lambda x: x["a"] == 3.0 and x["b"] == math.inf,
        when="",
        seconds=(0, 0),
    )
    told = []
    found = claim.reproduce(one, (0, 3, 7), quick=True, advance=told.append)
    assert found["verdict"] == claim.AGREES and len(told) == 3 and found["seeds"] == [0, 3, 7]
    first, second = found["numbers"]
    assert (first["median"], first["low"], first["high"], first["printed"]) == (3.0, 0.0, 7.0, 2.0)
    assert (second["median"], second["low"], second["high"]) == (None, 1.0, None)
    other = dataclasses.replace(one, why="since", agrees=lambda x: False)
    assert claim.renewed(other, found) == {**found, "why": "since", "verdict": claim.DIFFERS}
    other = dataclasses.replace(other, partly=lambda x: x["a"] > 2.0)
    assert claim.renewed(other, found)["verdict"] == claim.IN_PART
    json.dumps(found, allow_nan=False)
    once = dataclasses.replace(one, is_seeded=False, agrees=lambda x: True)
    assert claim.reproduce(once, (4, 5), quick=True, advance=told.append)["seeds"] == [4]


def test_what_is_unknown_agrees_with_nothing():
    """A ratio of two runs that both miss their target, which passes no judgement."""
    assert claim.over(3.0, 2.0) == 1.5 and claim.over(None, 2.0) == math.inf
    assert math.isnan(claim.over(None, None)) and claim.over(2.0, math.inf) == 0.0
    one = dataclasses.replace(CLAIMS["asap-9"], agrees=lambda x: True)
    known, unknown = claim.AGREES, claim.DIFFERS
    for value, verdict in ((1.0, known), (math.inf, known), (math.nan, unknown)):
        found = dict.fromkeys(one.numbers, 0.0) | {"bsp": value}
        unmeasured = dataclasses.replace(one, measure=lambda seed, quick, found=found: found)
        result = claim.reproduce(unmeasured, (0,), quick=True, advance=lambda what: None)
        assert result["verdict"] == verdict and json.dumps(result, allow_nan=False)


def test_a_stored_result_that_lacks_a_number_is_not_judged():
    """As those that were measured before a rule asked for it."""
    found = claim.reproduce(CLAIMS["asap-9"], (0,), quick=True, advance=lambda what: None)
    found["numbers"] = [one for one in found["numbers"] if one["key"] != "bsp"]
    assert claim.renewed(CLAIMS["asap-9"], found)["verdict"] == claim.UNMEASURED


@pytest.mark.parametrize("name", NAMES)
def test_every_printed_number_is_asked_for(name):
    """With all at what is printed, twice or half of any one is no agreement."""
    one = CLAIMS[name]
    stored = json.loads(KEPT.read_text(encoding="utf-8"))["claims"][name]["numbers"]
    printed = {key: number.printed for key, number in one.numbers.items() if number.printed}
    exact = {key: value for key, value in printed.items() if isinstance(value, float)}
    medians = {number["key"]: claim._median_of(number) for number in stored} | exact
    for key, value in exact.items():
        moved = [{**medians, key: value * factor} for factor in (0.5, 2.0)]
        assert any(claim.verdict_of(one, found) != claim.AGREES for found in moved), key


RANGES = {  # what is printed as a range or in words, and numbers that are short of it
    "async-2": {"cds:1": 1.5},
    "async-6": {"22": 2.6},
    "async-7": {"22": 3.4},
    "async-8": {"saga round": 4.0},
    "asap-7": {"async seconds": 40.0},
    "asap-8": {"seconds both": 1.9},
    "asysg-lenet": {"learned": 0.8},
    "asysg-cifar10": {"learned": 0.8},
    "gaia-1": {"topics lan": 0.94},
    "gaia-2": {"network slowest": 40.0},
    "gaia-3": {"topics wan": 1.7},
    "gaia-4": {"topics wan": 1.5},
}
FAIR = {  # numbers that agree
    "async-2": {"cds:0": 1.1, "cds:1": 2.0},
    "async-6": {"free": 4.5, "22": 3.4},
    "async-7": {"free": 4.5, "22": 3.6},
    "async-8": {"saga round": 4.4, "sgd round": 3.0},
    "asap-6": {"async accuracy": 0.9, "notify-ack accuracy": 0.95, "bsp accuracy": 0.94},
    "asap-7": {"bsp seconds": 3.0, "async seconds": math.inf},
    "asap-8": {"seconds both": 4.0},
    "asysg-lenet": {"learned": 0.3},
    "asysg-cifar10": {"learned": 0.3},
    "gaia-1": dict.fromkeys(CLAIMS["gaia-1"].numbers, 0.96),
    "gaia-2": dict.fromkeys(CLAIMS["gaia-2"].numbers, 20.0) | {"network slowest": 53.0},
    "gaia-3": dict.fromkeys(CLAIMS["gaia-3"].numbers, 2.0) | {"topics wan filter": 1.0},
    "gaia-4": dict.fromkeys(CLAIMS["gaia-4"].numbers, 1.2) | {"topics slowest": 1.6},
}
RANGES["asap-6"] = {"async accuracy": 0.945}  # more accurate than one that waits


@pytest.mark.parametrize("name", RANGES)
def test_what_is_short_of_a_printed_range_does_not_agree(name):
    one = CLAIMS[name]
    exact = {k: v.printed for k, v in one.numbers.items() if isinstance(v.printed, float)}
    assert claim.verdict_of(one, exact | FAIR[name]) == claim.AGREES
    assert claim.verdict_of(one, exact | FAIR[name] | RANGES[name]) != claim.AGREES


def test_gaia_that_does_not_come_to_the_target_is_not_fast(monkeypatch):
    rows = {(m, k): {"seconds": 1.0} for m in gaia.METHODS for k in gaia.LINKS}
    rows["gaia", "wan"] = {"seconds": None}
    monkeypatch.setattr(gaia, "application", lambda name, seed, quick: rows)
    assert gaia.faster(0, True)["logistic wan"] == 0.0
    assert gaia.of_the_lan("gaia", 0, True)["logistic wan"] == math.inf


def test_who_misses_the_target_has_no_speedup(monkeypatch):
    ends = {1: [2.0, 1.0, 0.5], 8: [2.0, 1.9, 1.8]}

    class Finished:
        def __init__(self, workers):
            trace = {"epochs": [0.0, 1.0, 2.0], "blocks": [0, 10, 20], "seconds": [0.0, 1.0, 2.0]}
            self.plain = {"trace": {**trace, "objective": ends[workers]}, "notes": []}

        def to_dict(self):
            return self.plain

    changed = dataclasses.replace(
        asysg.speedup.SPEEDUP,
        run_once=lambda problem, settings, contestant, seed: Finished(*contestant),
        facts=lambda report: {"seconds_per_epoch": 1.0, "staleness_mean": 0.0, "staleness_max": 0},
    )
    monkeypatch.setattr(asysg.speedup, "SPEEDUP", changed)
    found = asysg.speedups("network:4-3-3", "con", 0, 20, workers=[1, 8], step=0.1)
    assert found["iteration 8"] == found["time 8"] == 0.0
    assert found["learned"] == pytest.approx((0.5 + 0.01 * 1.5) / 2.0)
    assert claim.verdict_of(CLAIMS["asysg-cifar10"], found) == claim.DIFFERS


def test_names():
    assert [one.name for one in select(["gaia-2", "asap"])] == [
        *(f"asap-{k}" for k in range(1, 10)),
        "gaia-2",
    ]
    assert len(select(["all"])) == 43 and [one.name for one in select(["hogwild"])] == ["hogwild"]
    assert [one.name for one in select(["psp-1a"])] == ["psp-1a"]
    with pytest.raises(WrongCommandLine, match=r"no claim 'gaia-7'.*Did you mean.*--list"):
        select(["psp", "gaia-7"])


# -- the command


def test_the_list_needs_no_run(capsys):
    assert main(["reproduce", "--list"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in NAMES)


def test_a_run_prints_keeps_draws_and_writes(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    kept, page, plot = (tmp_path / name for name in ("c.json", "c.md", "c.png"))
    files = ["--json", str(kept), "--page", str(page), "--plot", str(plot)]
    assert main(["reproduce", "asap-9", "--quick", "--seeds", "1", *files]) == 0
    told = capsys.readouterr()
    assert "longest wait of W2 and W3" in told.out and "1 of 1 agree" in told.err
    assert main(["reproduce", "asap-1", "--quick", "--seeds", "1", *files]) == 0
    assert list(json.loads(kept.read_text())["claims"]) == ["asap-9", "asap-1"]
    text = page.read_text()
    assert text.index("### asap-1") < text.index("### asap-9") and "](c.png)" in text
    assert plot.read_bytes()[:4] == b"\x89PNG"
    page.unlink()
    assert main(["reproduce", *files[:4]]) == 0 and page.read_text() == text.replace(
        "![Numbers found over numbers printed](c.png)\n\n", ""
    )


def test_a_whole_result_is_not_replaced_by_a_quick_one(tmp_path, capsys):
    kept = tmp_path / "c.json"
    command = ["reproduce", "asap-1", "--seeds", "1", "--json", str(kept)]
    assert main(command) == 0
    before = kept.read_bytes()
    assert main([*command, "--quick"]) == 2
    assert "'asap-1' in full" in capsys.readouterr().err and kept.read_bytes() == before


def test_a_result_of_a_claim_that_is_no_more_is_kept(tmp_path):
    kept = tmp_path / "c.json"
    command = ["reproduce", "asap-1", "--quick", "--json", str(kept)]
    assert main(command) == 0
    told = json.loads(kept.read_text())
    told["claims"]["gone-1"] = told["claims"].pop("asap-1") | {"name": "gone-1"}
    kept.write_text(json.dumps(told))
    assert main(command) == 0
    assert json.loads(kept.read_text())["claims"]["gone-1"] == told["claims"]["gone-1"]


def test_what_a_claim_fails_by_is_told_and_others_are_measured(tmp_path, capsys, monkeypatch):
    def fails(seed, quick):
        raise ZeroDivisionError("no room")

    broken = dataclasses.replace(CLAIMS["asap-1"], measure=fails)
    monkeypatch.setitem(CLAIMS, "asap-1", broken)
    kept = tmp_path / "c.json"
    command = ["reproduce", "asap-1", "asap-9", "--quick", "--seeds", "1", "--json", str(kept)]
    assert main(command) == 1
    assert "asap-1 was not measured: no room" in capsys.readouterr().err
    assert list(json.loads(kept.read_text())["claims"]) == ["asap-9"]
    page = tmp_path / "c.md"
    page.write_text("mine")
    assert main(["reproduce", "asap-1", "--quick", "--page", str(page)]) == 1
    assert page.read_text() == "mine"


def test_ctrl_c_keeps_what_was_found(tmp_path, capsys, monkeypatch):
    def interrupted(seed, quick):
        raise KeyboardInterrupt

    broken = dataclasses.replace(CLAIMS["asap-9"], measure=interrupted)
    monkeypatch.setitem(CLAIMS, "asap-9", broken)
    kept = tmp_path / "c.json"
    page = tmp_path / "c.md"
    files = ["--json", str(kept), "--page", str(page)]
    assert main(["reproduce", "asap-1", "asap-9", "--quick", "--seeds", "1", *files]) == 130
    assert list(json.loads(kept.read_text())["claims"]) == ["asap-1"]
    assert "### asap-1" in page.read_text()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "name a claim, or all"),
        (["asap-99"], "no claim 'asap-99'"),
        (["asap-1", "--list"], "--list goes with nothing else"),
        (["asap-1", "--json", "-", "--page", "-"], "both go to standard output"),
        (["asap-1", "--json", "a", "--page", "a"], "name one file"),
        (["asap-1", "--seeds", "0"], "--seeds"),
        (["asap-1", "--plot", "-"], "--plot"),
    ],
)
def test_a_wrong_command_line_is_refused_at_once(given, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *given]) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", ["{}", "[1]", "no json", "\x00\xff", '{"claims": 3}', '{"claims": {"a": 1}}']
)
def test_a_file_of_something_else_is_left_alone(text, tmp_path, capsys):
    file = tmp_path / "mine.json"
    file.write_text(text)
    assert main(["reproduce", "asap-1", "--quick", "--json", str(file)]) == 1
    assert "something else than results" in capsys.readouterr().err
    assert file.read_text() == text


# -- what is kept


def test_every_claim_has_a_kept_result_and_the_page_shows_it():
    kept = json.loads(KEPT.read_text(encoding="utf-8"))["claims"]
    assert sorted(kept) == sorted(NAMES)
    page = (DOCS / "reproduced.md").read_text(encoding="utf-8")
    assert page.strip() == page_of([kept[name] for name in NAMES], "reproduced.png").strip()
    assert (DOCS / "reproduced.png").is_file()
    for name, result in kept.items():
        one = CLAIMS[name]
        assert result == claim.renewed(one, result), f"{name}: make docs/reproduced.json again"
        assert len(result["numbers"]) == len(one.numbers) or result["quick"], name
        assert result["verdict"] == one.expected(result["quick"]), name
