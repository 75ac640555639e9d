"""Programs of the pages about ranks: each block that begins with a file's name is run as that file.

Those of several machines are run by ranks that share no memory, as there.
"""

import shutil
import subprocess
import sys

import numpy as np
import pytest
import ranks
from ranks import needs_mpi, needs_survivors
from test_guide import HOME, blocks

import hogshare

GUIDE = HOME / "docs" / "guide"
RUNTIME, SPACING = 'runtime="mpi"', "runtime=hogshare.MPI(arena=False)"


def text_of(page):
    return (GUIDE / f"{page}.md").read_text(encoding="utf-8")


def programs(page, folder, runtime=RUNTIME):
    """Write a page's programs into a folder, with rows for them; their paths by name."""
    found = {}
    for block in blocks(text_of(page)):
        first = block.text.partition("\n")[0]
        if block.language == "python" and first.startswith("# ") and first.endswith(".py"):
            path = folder / first.removeprefix("# ")
            path.write_text(block.text.replace(RUNTIME, runtime) + "\n", encoding="utf-8")
            found[path.name] = path
    X = np.random.default_rng(0).standard_normal((400, 6))
    np.save(folder / "rows.npy", X)
    np.save(folder / "labels.npy", (X @ np.arange(6.0) > 0.0).astype(int))
    return found


@needs_mpi
def test_the_first_program_fits_on_ranks(tmp_path, monkeypatch):
    found = programs("cluster", tmp_path)
    monkeypatch.chdir(tmp_path)
    done = ranks.run(2, found["train.py"])
    assert done.returncode == 0, done.stderr
    model = hogshare.load(tmp_path / "model.npz")
    assert model.score(np.load("rows.npy"), np.load("labels.npy")) > 0.9


@needs_mpi
def test_parts_of_the_rows_are_fitted_and_go_on(tmp_path, monkeypatch):
    found = programs("several_machines", tmp_path, SPACING)
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, found["cut.py"]], env=ranks.environment(), check=True)
    (tmp_path / "rows.npy").unlink()
    done = ranks.run(2, found["train.py"])
    assert done.returncode == 0, done.stderr
    assert "20 epochs" in done.stdout and "'update'" in done.stdout
    assert len(list(tmp_path.glob("run.npz.*of2"))) == 2
    longer = found["train.py"].read_text().replace("stop=20", "stop=25")
    found["train.py"].write_text(longer.replace("report.traffic", "report.notes"))
    done = ranks.run(2, found["train.py"])
    assert "25 epochs" in done.stdout and "resumed after 20 epochs" in done.stdout, done.stderr


DIES = """
import os, signal, threading, time
from mpi4py import MPI

def die():
    while not os.path.exists("run.npz"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

if MPI.COMM_WORLD.rank == {}:
    threading.Thread(target=die, daemon=True).start()
"""


@needs_survivors
@pytest.mark.parametrize("rank", [0, 1])
def test_the_others_go_on_without_a_rank(tmp_path, monkeypatch, rank):
    found = programs("several_machines", tmp_path)["elastic.py"]
    monkeypatch.chdir(tmp_path)
    text = found.read_text().replace("comm=comm)", "comm=comm, arena=False)")
    found.write_text(DIES.format(rank) + text.replace("stop=20", "stop=200"))
    done = ranks.run(3, found, survive=True)
    assert done.stdout.count("of 2: 200 epochs, resumed after ") == 2, done.stderr
    assert done.returncode == 0, done.stderr


SOON = """
import os, signal, threading, time
from mpi4py import MPI
from hogshare.runtimes.mpi.survivors import Survivors
begin = Survivors.begin

def begins(self):
    begin(self)
    if self.me == 1:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()

Survivors.begin = begins
"""


@needs_survivors
def test_a_run_goes_on_without_a_rank(tmp_path, monkeypatch):
    found = programs("several_machines", tmp_path)["survive.py"]
    monkeypatch.chdir(tmp_path)
    text = found.read_text().replace("survive=True", "survive=True, arena=False")
    found.write_text(SOON + text.replace("stop=20", "stop=500"))
    done = ranks.run(3, found, survive=True)
    assert done.stdout.count("[1] [") == 2, done.stderr
    assert done.stdout.count("rank 1 has died, with 133 of 400 rows") == 2
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("page", ["cluster", "several_machines"])
def test_scripts_are_whole(page):
    scripts = [block.text for block in blocks(text_of(page)) if block.language == "sh"]
    assert scripts
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
