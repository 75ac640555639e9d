"""The notebooks run from the first cell to the last, and show what they promise."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

# IPython without a kernel: messages between a kernel and its client can be lost on a loaded
# machine, and what is tested here is the notebook
RUN_CELLS = """
import sys
import matplotlib
import nbformat
matplotlib.use("agg")
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in nbformat.read(sys.argv[1], as_version=4).cells:
    if cell.cell_type == "code":
        shell.run_cell(cell.source, store_history=True).raise_error()
import matplotlib.pyplot as plt
print("figures:", len(plt.get_fignums()))
"""


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_is_a_notebook():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_is_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in code_cells(notebook):
        assert not cell.outputs and cell.execution_count is None, "clear all outputs, then save"


@pytest.mark.timeout(400)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_runs(path, tmp_path):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN_CELLS, str(path)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr, done.stderr
    figures = sum(".plot(" in cell.source for cell in code_cells(nbformat.read(path, as_version=4)))
    assert f"figures: {figures}" in done.stdout
    if "ProgressBar(" in path.read_text():
        assert "100%" in done.stdout + done.stderr


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
