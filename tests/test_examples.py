"""The notebooks run from the first cell to the last, and show what they promise."""

import json
import os
from pathlib import Path

import nbclient
import nbformat
import pytest
from ipykernel import kernelspec

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Of a kernel that is this interpreter, imports this tree and reads nobody's settings."""
    kernelspec.write_kernel_spec(tmp_path / "kernels" / "python3")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # a backend that somebody has chosen would keep the figures out of the notebook
    monkeypatch.delenv("MPLBACKEND", raising=False)
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


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
def test_notebook_runs(path, tmp_path, environment):
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute(env=environment)

    for cell in code_cells(notebook):
        kinds = [output.output_type for output in cell.outputs]
        assert cell.execution_count is not None and "error" not in kinds
        complaints = [o.text for o in cell.outputs if o.get("name") == "stderr"]
        assert not complaints, f"{cell.source}\n{complaints}"
        shown = {kind for output in cell.outputs for kind in output.get("data", {})}
        if ".plot(" in cell.source:
            assert "image/png" in shown, f"no figure:\n{cell.source}"
        if cell.source.endswith("report_"):
            assert "text/html" in shown, f"no table:\n{cell.source}"
    if any("ProgressBar(" in cell.source for cell in code_cells(notebook)):
        assert "100%" in json.dumps(notebook.metadata.get("widgets", {}))
