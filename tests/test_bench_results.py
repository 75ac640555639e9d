"""What `bench/results` keeps: a summary for each question, and the figures of its README."""

import importlib.util
import json
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
FILES = sorted(RESULTS.glob("*.json"))
pytestmark = pytest.mark.skipif(not FILES, reason="the results are part of the repository")


def summaries():
    spec = importlib.util.spec_from_file_location("summaries", ROOT / "bench" / "summaries.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_summary_has_the_table_and_no_runs():
    runs = [
        {"contestant": "ours", "seconds": 1.0, "error": None},
        {"contestant": "ours", "seconds": None, "error": "killed"},
    ]
    who = {"name": "ours", "grid": [{"step": 1.0}], "kept": [], "rounds": 2}
    table = [{"contestant": "ours", "target": 0.1, "seconds": 1.0}]
    told = {"machine": {"cores": 2}, "contestants": [who], "runs": runs, "table": table}
    kept = summaries().summarised({"case": told})["case"]
    contestant = {"name": "ours", "rounds": 2, "fits": 2, "failed": 1}
    assert kept == {"machine": {"cores": 2}, "contestants": [contestant], "table": table}
    # runs that no table sums up are the result
    assert summaries().summarised({"runs": [1, 2]}) == {"runs": [1, 2]}


def test_a_summary_is_json_in_lines_that_can_be_read():
    told = {
        "numbers": [k / 7 for k in range(100)],
        "short": {"a": [1, 2]},
        "rows": [{"b": "c" * 90}],
    }
    text = summaries().text(told)
    assert json.loads(text) == told
    assert '"short": {"a": [1, 2]}' in text
    assert len(text.splitlines()) < 40
    # of keys that are numbers, as json has them
    assert json.loads(summaries().text({2: "c" * 90, 4: "c" * 90})) == {
        "2": "c" * 90,
        "4": "c" * 90,
    }


def test_a_bench_stores_a_summary_with_its_machine(tmp_path):
    path = tmp_path / "found.json"
    summaries().store(path, {"table": [], "runs": [1]})
    told = json.loads(path.read_text())
    assert told["machine"]["cores"] >= 1 and "numba" in told["versions"]
    assert told["table"] == [] and "runs" not in told


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_is_a_summary(file):
    told = json.loads(file.read_text())
    assert file.read_text() == summaries().text(summaries().summarised(told))


def test_the_readme_names_every_file():
    named = set(re.findall(r"`([a-z0-9_*-]+|[a-z0-9-]+-SET)`", (RESULTS / "README.md").read_text()))
    patterns = [name.replace("SET", "*") for name in named]
    assert [f.stem for f in FILES if not any(Path(f.stem).match(p) for p in patterns)] == []


def milliseconds(seconds):
    """As the README writes them: two digits, three from a hundred on."""
    ms = 1e3 * seconds
    digits = 2 if ms < 100 else 3
    rounded = round(ms, digits - 1 - math.floor(math.log10(ms)))
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:.1f}"


@pytest.mark.parametrize("name", ["zipf", "imdb", "a9a", "ijcnn1", "covtype-20k", "mnist"])
def test_the_readme_tells_what_was_raced(name):
    race = json.loads((RESULTS / f"rivals-{name}.json").read_text())
    readme = (RESULTS / "README.md").read_text()
    ours = {who["name"]: who["library"] == "hogshare" for who in race["contestants"]}
    for target in race["settings"]["targets"]:
        seconds = {True: math.inf, False: math.inf}
        for row in race["table"]:
            if row["target"] == target and row["seconds"] is not None:
                mine = ours[row["contestant"]]
                seconds[mine] = min(seconds[mine], row["seconds"])
        figures = milliseconds(seconds[True]), milliseconds(seconds[False])
        won = "**" if seconds[True] < seconds[False] else ""
        cell = f"{won}{figures[0]}{won} against {figures[1]}"
        assert cell in readme
