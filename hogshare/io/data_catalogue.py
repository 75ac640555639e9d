"""Data sets by name: their sources, and their preparation for a linear model.

There are three sources: sets that come with scikit-learn, sets that scikit-learn downloads, and
local files in a folder. Each name has one small function, which takes the folder (or None) and
returns rows and labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hogshare.io.matrices import read_npz
from hogshare.io.readers import read, read_libsvm
from hogshare.io.rows import Wanted
from hogshare.io.sources import OPENERS, Source
from hogshare.system import memory

Rows = tuple[Any, np.ndarray]


def zero_based(name: str) -> bool | None:
    """Whether indices of a data set's file begin at 0; None if it is not LIBSVM text."""
    return False if getattr(SOURCES.get(name), "func", None) is libsvm else None


def standardised(X: np.ndarray) -> np.ndarray:
    """Scale columns to mean zero and variance one; constant columns become zero."""
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


# -- sets that come with scikit-learn, and sets that it downloads


def bundled(loader: str, _: Path | None) -> Rows:
    """Load one of the sets that come with scikit-learn, standardized."""
    from sklearn import datasets

    X, y = getattr(datasets, loader)(return_X_y=True)
    return standardised(X), y


def digits(_: Path | None) -> Rows:
    """Load scikit-learn's digits, with label 0 for the digits 0 to 4 and 1 for 5 to 9."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / 16.0, (y >= 5).astype(np.int64)


def rcv1(_: Path | None) -> Rows:
    """Load topic CCAT against all others, for the 23,149 training documents."""
    from sklearn.datasets import fetch_rcv1

    bunch = fetch_rcv1(subset="train")
    topic = list(bunch.target_names).index("CCAT")
    return sparse.csr_array(bunch.data), bunch.target[:, [topic]].toarray().ravel().astype(np.int64)


def covtype(_: Path | None) -> Rows:
    """Load class 2 against all others, standardized."""
    from sklearn.datasets import fetch_covtype

    X, y = fetch_covtype(return_X_y=True)
    return standardised(X), (y == 2).astype(np.int64)


def newsgroups(_: Path | None) -> Rows:
    """Load twenty classes of documents, as tf-idf."""
    from sklearn.datasets import fetch_20newsgroups_vectorized

    X, y = fetch_20newsgroups_vectorized(subset="train", return_X_y=True)
    return sparse.csr_array(X), y


# -- local files


def find(folder: Path | None, stem: str) -> Path:
    """Return the path of a local file, with or without a suffix of compression."""
    if folder is None:
        raise ValueError(
            f"this data set is read from a local file {stem}: "
            "name its folder in HOGSHARE_DATA or with --data-home"
        )
    for suffix in ("", *OPENERS):
        if (path := folder / (stem + suffix)).is_file():
            return path
    raise ValueError(f"there is no file {stem} (plain, .gz, .bz2 or .xz) in {folder}")


def libsvm(stem: str, n_features: int, folder: Path | None) -> Rows:
    """Load LIBSVM text without changes; in all named sets indices begin at 1."""
    return read_libsvm(find(folder, stem), n_features, zero_based=False)


def table(stem: str, folder: Path | None) -> np.ndarray:
    """Load a table of numbers, one row per line."""
    with Source(find(folder, stem)) as source:
        X: np.ndarray = read(source, Wanted(kind="csv", header=False, delimiter=",")).X
    return X


def tf_idf(stem: str, reference: str, folder: Path | None) -> Rows:
    """Load word counts as shuffled tf-idf rows of norm one; `reference` names the file for idf."""
    counts, y = read_npz(find(folder, f"{stem}.npz"))
    ground = counts if stem == reference else read_npz(find(folder, f"{reference}.npz"))[0]
    if y is None:
        raise ValueError(f"{stem}.npz in {folder} has no labels y")
    frequency = np.bincount(ground.indices, minlength=ground.shape[1])
    idf = np.log((1.0 + ground.shape[0]) / (1.0 + frequency)) + 1.0
    X = counts @ sparse.diags_array(idf)
    norm = np.sqrt(X.multiply(X).sum(axis=1))
    X = sparse.csr_array(sparse.diags_array(1.0 / np.maximum(norm, 1e-12)) @ X)
    # the files are sorted by class
    order = np.random.default_rng(0).permutation(X.shape[0])
    return X[order], y[order].astype(np.int64)


def covtype_20k(folder: Path | None) -> Rows:
    """Load a sample of Covertype, class 2 against all others, standardized and shuffled."""
    rows = table("covtype.20k.data", folder)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    return standardised(rows[:, :-1]), (rows[:, -1] == 2).astype(np.int64)


def cal_housing(folder: Path | None) -> Rows:
    """Load median house values in units of 100,000 dollars, with standardized columns."""
    rows = table("cal_housing.data", folder)
    return standardised(rows[:, :-1]), rows[:, -1] / 100_000.0


def mnist(stem: str, folder: Path | None) -> Rows:
    """Load the digit 0 against all others, with pixels from 0 to 1."""
    X, digit = mnist_digits(stem, folder)
    return X, (digit == 0).astype(np.int64)


def mnist_digits(stem: str, folder: Path | None) -> Rows:
    """Load all ten digits, with pixels from 0 to 1."""
    base = folder / "mnist" if folder is not None and (folder / "mnist").is_dir() else folder
    images = idx(find(base, f"{stem}-images-idx3-ubyte"))
    labels = idx(find(base, f"{stem}-labels-idx1-ubyte"))
    return images.reshape(len(images), -1) / 255.0, labels.astype(np.int64)


def idx(path: Path) -> np.ndarray:
    """Read a file of unsigned bytes in MNIST's IDX format; the returned array is read-only.

    The file consists of two zeros, the type, the number of axes, their sizes, and the bytes.
    """
    with Source(path) as source:
        file, _ = source.whole()
        start = file.read(4)
        if len(start) < 4 or start[:3] != b"\x00\x00\x08":
            raise ValueError(f"{path}: not an IDX file of bytes")
        sizes = file.read(4 * start[3])
        shape = np.frombuffer(sizes[: len(sizes) // 4 * 4], dtype=">u4").tolist()
        n_bytes = math.prod(shape)
        memory.require_for_file(n_bytes, path.stat().st_size, f"{path}: an array of these sizes")
        content = file.read(n_bytes + 1)
    if len(shape) != start[3] or len(content) != n_bytes:
        raise ValueError(f"{path}: truncated IDX file")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


SOURCES: dict[str, Callable[[Path | None], Rows]] = {
    "breast_cancer": partial(bundled, "load_breast_cancer"),
    "diabetes": partial(bundled, "load_diabetes"),
    "digits": digits,
    "iris": partial(bundled, "load_iris"),
    "wine": partial(bundled, "load_wine"),
    "rcv1": rcv1,
    "covtype": covtype,
    "20newsgroups": newsgroups,
    "a9a": partial(libsvm, "a9a", 123),
    "a9a-test": partial(libsvm, "a9a.t", 123),
    "ijcnn1": partial(libsvm, "ijcnn1", 22),
    "ijcnn1-test": partial(libsvm, "ijcnn1.t", 22),
    "phishing": partial(libsvm, "phishing", 68),
    "heart": partial(libsvm, "heart_scale", 13),
    "rcv1-small": partial(libsvm, "rcv1_small.svm", 47_236),
    "rcv1-small-test": partial(libsvm, "rcv1_small_test.svm", 47_236),
    "imdb": partial(tf_idf, "imdb_train_counts", "imdb_train_counts"),
    "imdb-test": partial(tf_idf, "imdb_test_counts", "imdb_train_counts"),
    "20news": partial(tf_idf, "20news_train_counts", "20news_train_counts"),
    "20news-test": partial(tf_idf, "20news_test_counts", "20news_train_counts"),
    "covtype-20k": covtype_20k,
    "cal-housing": cal_housing,
    "mnist": partial(mnist, "train"),
    "mnist-test": partial(mnist, "t10k"),
    "mnist-digits": partial(mnist_digits, "train"),
    "mnist-digits-test": partial(mnist_digits, "t10k"),
}
