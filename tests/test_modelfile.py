import copy
import errno
import json
import os

import numpy as np
import pytest

import hogshare
from hogshare.io import archives
from hogshare.io.models import model_file
from hogshare.io.models.model_file import SavedModel
from hogshare.system import files


def attributes(**changes):
    values = {
        "coef_": np.array([[1.0, 2.0, np.pi]], np.float32),
        "intercept_": np.zeros(1, np.float32),
        "classes_": np.array(["no", "yes"]),
        "t_": 11.0,
        "n_iter_": 2,
    }
    return values | changes


def a_model(**changes):
    values = {
        "class_name": "SGDClassifier",
        "n_features": 3,
        "params": {"loss": "log_loss", "alpha": 1e-4, "penalty": None},
        "attributes": attributes(),
        "zero_based": True,
        "versions": {"numpy": "2"},
    }
    return SavedModel(**(values | changes))


@pytest.mark.quick
def test_round_trip(tmp_path):
    path = tmp_path / "model.npz"
    model_file.save(path, a_model())
    back = model_file.load(path)
    want = a_model()
    assert list(back.attributes) == list(want.attributes)
    for name, value in want.attributes.items():
        np.testing.assert_array_equal(back.attributes[name], value)
        assert type(back.attributes[name]) is type(value)
        assert getattr(back.attributes[name], "dtype", None) == getattr(value, "dtype", None)
    for name in ("class_name", "n_features", "params", "requests", "zero_based", "versions"):
        assert getattr(back, name) == getattr(want, name)
    assert os.listdir(tmp_path) == ["model.npz"]


DRAWS = np.random.default_rng(0)
COUNTS = DRAWS.poisson(1.0, (40, 6)).astype(float)
FITS = {
    "topics": lambda: hogshare.LatentDirichletAllocation(
        3, learning_method="online", max_iter=1, random_state=0
    ).fit(COUNTS),
    "network": lambda: hogshare.MLPClassifier((4,), random_state=0, tol=1.0).fit(
        COUNTS, COUNTS[:, 0] > 1
    ),
    "ratings": lambda: hogshare.MatrixFactorization(2, max_iter=2, random_state=0).fit(
        np.arange(60) % 6, np.arange(60) % 7, np.arange(60) % 3 + 1.0
    ),
    "coefficients": lambda: hogshare.SGDClassifier(random_state=0).fit(COUNTS, COUNTS[:, 0] > 1),
}


def swapped(part, one, other):
    def change(header, arrays):
        places = arrays if part == "arrays" else header[part]
        places[one], places[other] = places[other], places[one]

    return change


def changed(part, name, to):
    def change(header, arrays):
        places = arrays if part == "arrays" else header[part]
        places[name] = to(places[name]) if callable(to) else to

    return change


def of(kind):
    return lambda array: array.astype(kind)


# what none of them would do with, found by putting it there
CRAFTED = {
    "topics": [
        changed("arrays", "components_", of(np.longdouble)),
        changed("arrays", "components_", of(np.float16)),
        changed("arrays", "components_", of(">f8")),
        changed("arrays", "exp_dirichlet_component_", of(np.longdouble)),
        swapped("arrays", "components_", "exp_dirichlet_component_"),
        changed("params", "n_components", True),
        changed("params", "n_components", 2**70),
        changed("params", "max_doc_update_iter", 2**70),
        changed("params", "n_jobs", 2**70),
        changed("attributes", "doc_topic_prior_", 0.0),
        changed("attributes", "topic_word_prior_", 1e308),
    ],
    "network": [
        changed("params", "hidden_layer_sizes", True),
        changed("params", "hidden_layer_sizes", 2**70),
        swapped("attributes", "loss_curve_", "validation_scores_"),
        changed("arrays", "_optimizer.7.1.0", lambda array: -1.0 - array),
    ],
    "ratings": [
        changed("params", "n_factors", True),
        changed("params", "power_t", 2**70),
        changed("params", "power_t", 1e308),
        changed("attributes", "t_", 0.0),
        changed("attributes", "mean_", 1e308),
        changed("attributes", "_unit", -1.0),
        changed("arrays", "user_factors_", lambda array: array * np.nan),
    ],
    "coefficients": [
        changed("arrays", "coef_", of(np.longdouble)),
        changed("params", "max_iter", True),
        changed("params", "power_t", -(2**70)),
    ],
}


@pytest.mark.parametrize("kind", CRAFTED)
def test_crafted_files_are_refused_by_a_sentence(tmp_path, kind):
    path = tmp_path / "model.npz"
    hogshare.save(FITS[kind](), path)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(arrays.pop("header").tobytes())
    for change in CRAFTED[kind]:
        mine, others = copy.deepcopy(header), dict(arrays)
        change(mine, others)
        text = np.frombuffer(json.dumps(mine).encode(), np.uint8)
        np.savez(path, header=text, **others)
        with pytest.raises(
            ValueError, match=r"model\.npz: (not a hogshare model|the model's param)"
        ):
            hogshare.load(path)


def test_what_load_would_refuse_is_not_saved(tmp_path):
    model = FITS["coefficients"]().set_params(max_iter=True)
    with pytest.raises(ValueError, match="max_iter must be a number; got True"):
        hogshare.save(model, tmp_path / "model.npz")
    model = FITS["coefficients"]().set_params(average=True, early_stopping=True, verbose=True)
    hogshare.save(model, tmp_path / "model.npz")


def test_any_name_is_kept(tmp_path):
    model_file.save(tmp_path / "model", a_model())
    assert model_file.load(tmp_path / "model").n_features == 3


def test_permissions_are_those_of_a_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    model_file.save(tmp_path / "model", a_model())
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "model").chmod(0o600)
    model_file.save(tmp_path / "model", a_model())
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("broken", ["write", "fsync", "replace"])
def test_full_disk_leaves_the_old_file(tmp_path, monkeypatch, broken):
    path = tmp_path / "model.npz"
    model_file.save(path, a_model())
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    if broken == "write":

        def unbuffered(*args, **options):
            return FullFile(open(*args, buffering=0, **options))

        monkeypatch.setattr(files, "open", unbuffered, raising=False)
    else:
        monkeypatch.setattr(os, broken, full)
    with pytest.raises(OSError, match="No space"):
        model_file.save(path, a_model(n_features=3, attributes=attributes(t_=99.0)))
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.npz"]


class FullFile:
    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process with a limit of its own")
def test_a_limit_of_the_system_is_an_oserror(tmp_path):
    """A real refusal by the kernel: a process that may write no file beyond 1000 bytes."""
    import subprocess
    import sys

    path = tmp_path / "model.npz"
    model_file.save(path, a_model())
    before = path.read_bytes()
    script = f"""
import resource, signal
import numpy as np
from hogshare.io.models import model_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
parts = {{"coef_": np.ones((1, 999)), "intercept_": 0.0}}
model = model_file.SavedModel(class_name="x", n_features=999, attributes=parts)
try:
    model_file.save({str(path)!r}, model)
except OSError as error:
    print("refused", error.errno)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"refused {errno.EFBIG}\n"
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.npz"]


def test_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model_file.save(tmp_path / "model.npz", a_model())
    assert os.listdir(tmp_path) == []


def test_what_is_no_model(tmp_path):
    whole = tmp_path / "model.npz"
    model_file.save(whole, a_model())
    content = whole.read_bytes()
    path = tmp_path / "other"
    cases = [b"", b"hello", content[:50], content[:-30], b"PK\x03\x04" + bytes(100)]
    for case in cases:
        path.write_bytes(case)
        with pytest.raises(ValueError, match=r"other: not a hogshare model") as caught:
            model_file.load(path)
        assert "unsafely" not in str(caught.value)
    np.savez(tmp_path / "data.npz", X=np.eye(2))
    with pytest.raises(ValueError, match="not a hogshare model"):
        model_file.load(tmp_path / "data.npz")
    np.savez(tmp_path / "objects.npz", header=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="never loaded"):
        model_file.load(tmp_path / "objects.npz")
    with pytest.raises(FileNotFoundError):
        model_file.load(tmp_path / "nothing.npz")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format_version": 99}, "update hogshare"),
        ({"format": "other"}, "header says"),
        ({"params": None}, "not a hogshare model"),
        ({"n_features": 4}, "coefficients"),
        ({"n_features": float("inf")}, "not a hogshare model"),
        ({"zero_based": 1}, "not a hogshare model"),
        ({"zero_based": "auto"}, "not a hogshare model"),
    ],
)
def test_headers_that_do_not_fit(tmp_path, change, words):
    path = tmp_path / "model.npz"
    model_file.save(path, a_model())
    with np.load(path) as archive:
        parts = dict(archive)
    header = json.loads(parts.pop("header").tobytes()) | change
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **parts)
    with pytest.raises(ValueError, match=words):
        model_file.load(path)


def test_a_file_from_before_indices_had_a_base(tmp_path):
    path = tmp_path / "model.npz"
    model_file.save(path, a_model())
    with np.load(path) as archive:
        parts = dict(archive)
    header = json.loads(parts.pop("header").tobytes())
    del header["zero_based"]
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **parts)
    assert model_file.load(path).zero_based is None


def test_damaged_bytes_never_crash(tmp_path):
    path = tmp_path / "model.npz"
    model_file.save(path, a_model())
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        broken = bytearray(content)
        for place in rng.integers(0, len(content), 3):
            broken[place] = rng.integers(256)
        path.write_bytes(broken)
        try:
            model_file.load(path)
        except ValueError as error:
            assert "model.npz" in str(error)
            refused += 1
    assert refused > 100, "a place that nobody reads is no damage, but most are read"


def test_what_cannot_be_stored(tmp_path):
    with pytest.raises(
        ValueError, match=r"the parameter plane is \(or contains\) a object, and a model file"
    ):
        model_file.save(tmp_path / "m", a_model(params={"plane": object()}))
    with pytest.raises(ValueError, match="attribute loss_ is a function"):
        model_file.save(tmp_path / "m", a_model(attributes=attributes(loss_=np.array([max]))))
    assert os.listdir(tmp_path) == []


def test_an_interrupted_write_keeps_no_buffer(tmp_path, monkeypatch):
    """Its traceback would, and be collected in whatever order."""
    seen = []

    def interrupted(path, content):
        seen.append(content)
        raise KeyboardInterrupt

    monkeypatch.setattr(archives.files, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        archives.write(tmp_path / "m.npz", {}, {"a": np.eye(3)})
    with pytest.raises(ValueError, match="released"):
        seen[0].tobytes()


def test_header_and_arrays_are_of_one_file(tmp_path, monkeypatch):
    """Also if the file is replaced while it is read."""
    path = tmp_path / "m.npz"
    whole = {"format": "f", "format_version": 1}
    archives.write(path, whole, {"a": np.zeros(1)})
    loads = json.loads

    def slowly(text):
        archives.write(path, whole, {"a": np.ones(1)})
        return loads(text)

    monkeypatch.setattr(archives.json, "loads", slowly)
    assert archives.read(path, "a test", "f", [1], lambda _: ["a"])[1]["a"] == 0.0
