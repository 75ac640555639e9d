"""The notebooks run from the first cell to the last, and show what they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

# One process for all, in which each finds no name of the one before: imports and loading kernels
# take as long as most notebooks. IPython without a kernel: messages between a kernel and its client
# can be lost on a loaded machine, and what is tested here is the notebook
RUN_NOTEBOOKS = """
import os
import sys
import traceback
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
import nbformat
from IPython.core.interactiveshell import InteractiveShell

orders, answers = open(os.dup(0)), os.dup(1)  # a notebook has streams of its own

def run(shell, path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            shell.run_cell(cell.source, store_history=True).raise_error()
    print("figures:", len(plt.get_fignums()))

for line in orders:
    folder, path = line.rstrip("\\n").split("\\t")
    os.chdir(folder)
    os.environ["IPYTHONDIR"] = os.path.join(folder, "ipython")
    for number, name in ((0, os.devnull), (1, "stdout"), (2, "stderr")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT
        opened = os.open(name, flags)
        os.dup2(opened, number)
        os.close(opened)
    status, shell = 0, InteractiveShell.instance()
    shell.reset()
    plt.close("all")
    matplotlib.rcdefaults()
    try:
        run(shell, path)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(answers, b"%d\\n" % status)
"""


@pytest.fixture(scope="module")
def notebooks():
    """``notebooks(path, folder)``: run one, and return its status and all that it has said."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [sys.executable, "-c", RUN_NOTEBOOKS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(path, folder):
        process.stdin.write(f"{folder}\t{path}\n")
        process.stdin.flush()
        status = process.stdout.readline()
        assert status, "the process of all notebooks has ended"
        return int(status), *((folder / name).read_text() for name in ("stdout", "stderr"))

    with process:
        yield run
        process.stdin.close()


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_is_a_notebook():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_is_stored_with_what_it_shows(path):
    """Of one run from the first cell to the last, without errors, small, and of no machine."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    again = "run all cells of a new kernel, then save"
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)], again
    for cell in cells:
        shown = [output.output_type for output in cell.outputs]
        assert "error" not in shown and ("print(" not in cell.source or shown), again
        if ".plot(" in cell.source:
            assert any("image/png" in output.get("data", {}) for output in cell.outputs), again
    text = path.read_text("utf-8")
    assert len(text) < 150_000, "make its pictures smaller"
    assert not re.search(r"/(home|root|work|Users)/|Warning:", text), "a path or a warning is in it"


@pytest.mark.timeout(400)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_runs(path, notebooks, tmp_path):
    status, out, err = notebooks(path, tmp_path)
    assert status == 0, out + err
    assert "Warning" not in err, err
    figures = sum(".plot(" in cell.source for cell in code_cells(nbformat.read(path, as_version=4)))
    assert f"figures: {figures}" in out
    if "ProgressBar(" in path.read_text():
        assert "100%" in out + err


def test_a_notebook_has_names_of_its_own_and_its_error_is_shown(notebooks, tmp_path):
    found = []
    for number, source in enumerate(["taken = 1", "taken"]):
        folder, cell = tmp_path / str(number), nbformat.v4.new_code_cell(source)
        folder.mkdir()
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / "made.ipynb")
        found.append(notebooks(folder / "made.ipynb", folder))
    assert found[0][0] == 0 and found[0][1] == "figures: 0\n"
    assert found[1][0] == 1 and "NameError: name 'taken' is not defined" in "".join(found[1][1:])


def test_hogwild_runs(tmp_path):
    """On scikit-learn's digits: nobody has named a folder with MNIST."""
    pytest.importorskip("torch")
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("HOGSHARE_DATA", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "hogwild_mnist.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1347 rows, 8 epochs in ")
    assert float(done.stdout.split("test rows right: ")[1].split()[0]) > 0.9
