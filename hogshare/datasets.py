"""Data sets: four generators, and one loader for named sets and files.

>>> from hogshare import datasets
>>> X, y = datasets.zipf_classification(n_samples=1000, n_features=500, nnz_per_row=20, seed=0)
>>> X.shape
(1000, 500)
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hogshare.io import data_catalogue
from hogshare.io.ratings import read_ratings
from hogshare.io.readers import read_file, read_libsvm, refuse_others
from hogshare.io.rows import ZeroBased
from hogshare.system.interrupts import leaves_numpy

__all__ = [
    "clicks",
    "dense",
    "known_rank",
    "load",
    "names",
    "read_file",
    "read_libsvm",
    "read_ratings",
    "zipf_classification",
]

# Mandelbrot's offset for English words: rank r is drawn in proportion to 1 / (r + 2.7)
ZIPF_OFFSET = 2.7


@leaves_numpy
def clicks(
    n_pairs: int = 150_000,
    n_users: int = 3_000,
    n_items: int = 2_000,
    rank: int = 6,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make a log of user-item pairs with popular items, busy users and different tastes.

    No pair occurs twice. The probability of a user's next item is proportional to the item's
    popularity (by Zipf's law), times the exponential of 0.6 times the product of the item's factors
    and the user's factors.

    Parameters
    ----------
    n_pairs, n_users, n_items, rank : int
        Sizes; the number of pairs is approximate. Each user has at least 3 pairs, and at most a
        quarter of the items.
    seed : int, default=0
        The same seed gives the same set.

    Returns
    -------
    users, items : ndarray of int64 of shape (n_pairs,)
    times : ndarray of float64 of shape (n_pairs,)
        Time of each pair, from 0 to 1, in ascending order. Among a user's pairs, preferred items
        tend to come first.

    Raises
    ------
    ValueError
        If `n_items` is below 12, or `n_users` is below 1.

    Examples
    --------
    >>> from hogshare import datasets
    >>> users, items, times = datasets.clicks(500, n_users=50, n_items=40, seed=0)
    >>> users.shape == items.shape == times.shape, bool((times[1:] >= times[:-1]).all())
    (True, True)
    """
    if n_users < 1 or n_items < 12:
        raise ValueError(
            "clicks needs n_users of at least 1 and n_items of at least 12; got "
            f"n_users={n_users}, n_items={n_items}."
        )
    rng = np.random.default_rng(seed)
    P, Q = rng.standard_normal((n_users, rank)), rng.standard_normal((n_items, rank))
    popularity = -rng.permutation(np.log(np.arange(1, n_items + 1)))
    busy = rng.lognormal(0.0, 0.8, n_users)
    counts = np.clip((n_pairs * busy / busy.sum()).astype(np.int64), 3, n_items // 4)
    parts = []
    for user, count in enumerate(counts.tolist()):
        # the items with the largest scores plus Gumbel noise are a random draw without repetition
        scores = 0.6 * (Q @ P[user]) + popularity + rng.gumbel(size=n_items)
        best = np.argpartition(-scores, count)[:count]
        parts.append(best[np.argsort(-scores[best])])
    users, items = np.repeat(np.arange(n_users), counts), np.concatenate(parts)
    # a user's first time is uniform between 0 and 1; the user's pairs spread from this time to 1
    within = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    begun = rng.random(n_users)
    times = begun[users] + (1.0 - begun[users]) * (within + rng.random(len(users))) / counts[users]
    order = np.argsort(times, kind="stable")
    return users[order], items[order], np.minimum(times[order], 1.0)


@leaves_numpy
def zipf_classification(
    n_samples: int = 101_210,
    n_features: int = 47_236,
    nnz_per_row: float = 67.0,
    seed: int = 0,
    dtype: Any = np.float64,
    noise: float = 0.3,
) -> tuple[sparse.csr_array, np.ndarray]:
    """Make a sparse set of two classes that resembles text; by default, it has rcv1's shape.

    A row is a bag of words. Word frequencies follow the law of Zipf and Mandelbrot: a few columns
    occur in most rows, and most columns in few rows. On such rows, workers that share one vector
    conflict. Row lengths are log-normal. Values are scikit-learn's tf-idf (sublinear, smoothed),
    scaled to rows of norm one. Columns are shuffled. Labels come from a sparse linear model with
    noise; each class has about half of the rows.

    Parameters
    ----------
    n_samples, n_features : int
        Shape.
    nnz_per_row : float, default=67
        Mean number of nonzeros of a row, before rounding.
    seed : int, default=0
        The same seed gives the same set, bit for bit.
    dtype : dtype, default=float64
        Type of the values.
    noise : float, default=0.3
        Standard deviation of the noise in the labels' margin, divided by the standard deviation of
        the margin without noise.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        The indices are sorted, unique and of type int32.
    y : ndarray of int64 of shape (n_samples,)
        0 or 1.
    """
    rng = np.random.default_rng(seed)
    share = 1.0 / (np.arange(n_features) + 1.0 + ZIPF_OFFSET)
    share /= share.sum()
    words = _words_per_row(rng, n_samples, nnz_per_row, share)
    rank = np.searchsorted(np.cumsum(share), rng.random(int(words.sum())))
    column_of_rank = rng.permutation(n_features)
    # rounding may put the last cumulated share below 1, and a rank behind the last word
    column = column_of_rank[np.minimum(rank, n_features - 1)]
    # one sort makes equal words of a row adjacent and puts rows and columns into CSR order
    key = np.sort(np.repeat(np.arange(n_samples), words) * n_features + column)
    first = np.flatnonzero(np.diff(key, prepend=-1))
    count = np.diff(first, append=len(key))
    rows, indices = np.divmod(key[first], n_features)
    indptr = np.searchsorted(rows, np.arange(n_samples + 1)).astype(np.int32)
    idf = np.log((1.0 + n_samples) / (1.0 + np.bincount(indices, minlength=n_features))) + 1.0
    data = (1.0 + np.log(count)) * idf[indices]
    norm = np.sqrt(np.add.reduceat(data * data, indptr[:-1]))
    data /= np.repeat(norm, np.diff(indptr))
    X = sparse.csr_array((data, indices.astype(np.int32), indptr), shape=(n_samples, n_features))
    truth = np.zeros(n_features)
    relevant = rng.choice(n_features, size=max(1, n_features // 20), replace=False, p=share)
    truth[column_of_rank[relevant]] = rng.standard_normal(len(relevant))
    margin = X @ truth
    margin += noise * margin.std() * rng.standard_normal(n_samples)
    return X.astype(dtype, copy=False), (margin > np.median(margin)).astype(np.int64)


def _words_per_row(
    rng: np.random.Generator, n_samples: int, nnz_per_row: float, share: np.ndarray
) -> np.ndarray:
    """Return each row's number of draws that makes the mean of *different* words `nnz_per_row`.

    With W draws, word j is missing with probability (1 - share_j)^W. This gives the expected number
    of different words as a function of W; the function is inverted by interpolation on a grid.
    """
    sigma = 0.6
    wanted = rng.lognormal(np.log(nnz_per_row) - 0.5 * sigma**2, sigma, n_samples)
    grid = np.geomspace(1.0, 40.0 * max(2.0, nnz_per_row), 40)
    # expm1 and log1p lose no digits for rare words
    different = -np.expm1(np.outer(grid, np.log1p(-np.minimum(share, 1 - 1e-12)))).sum(axis=1)
    return np.maximum(1, np.rint(np.interp(wanted, different, grid))).astype(np.int64)


@leaves_numpy
def dense(
    n_samples: int = 100_000,
    n_features: int = 100,
    task: str = "classification",
    seed: int = 0,
    dtype: Any = np.float64,
    noise: float = 0.3,
) -> tuple[np.ndarray, np.ndarray]:
    """Make a dense set of standardized, correlated columns with labels from a linear model.

    Parameters
    ----------
    n_samples, n_features : int
        Shape.
    task : {"classification", "regression"}
        Whether `y` is the class (0 or 1) or the noisy margin itself.
    seed : int, default=0
        The same seed gives the same set.
    dtype : dtype, default=float64
        Type of `X`, and of `y` for regression.
    noise : float, default=0.3
        Standard deviation of the noise in the margin, divided by the standard deviation of the
        margin without noise.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    """
    if task not in ("classification", "regression"):
        raise ValueError(f"task must be 'classification' or 'regression', not {task!r}")
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n_samples, 1))
    X = np.sqrt(0.8) * rng.standard_normal((n_samples, n_features)) + np.sqrt(0.2) * common
    margin = X @ rng.standard_normal(n_features)
    margin /= margin.std()
    margin += noise * rng.standard_normal(n_samples)
    y = (margin > 0).astype(np.int64) if task == "classification" else margin.astype(dtype)
    return X.astype(dtype, copy=False), y


@leaves_numpy
def known_rank(
    n_ratings: int = 1_000_000,
    n_users: int = 20_000,
    n_items: int = 5_000,
    rank: int = 8,
    seed: int = 0,
    noise: float = 0.3,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make noisy ratings of known rank, about equally many for each user and for each item.

    Parameters
    ----------
    n_ratings, n_users, n_items, rank : int
        Sizes.
    seed : int, default=0
        The same seed gives the same set.
    noise : float, default=0.3
        Standard deviation of the noise; without noise the ratings' standard deviation is 1.

    Returns
    -------
    users, items : ndarray of int64 of shape (n_ratings,)
    ratings : ndarray of float64 of shape (n_ratings,)
    """
    rng = np.random.default_rng(seed)
    users, items = (rng.integers(n, size=n_ratings) for n in (n_users, n_items))
    P = rng.standard_normal((n_users, rank))
    Q = rng.standard_normal((n_items, rank)) / np.sqrt(rank)
    ratings = np.einsum("ij,ij->i", P[users], Q[items])
    return users, items, ratings + noise * rng.standard_normal(n_ratings)


def names() -> list[str]:
    """Return the names of data sets that `load` knows."""
    return [*GENERATED, *data_catalogue.SOURCES]


GENERATED = {"zipf": {}, "zipf-small": {"n_samples": 40_000, "n_features": 20_000}}


def load(
    name: str | Path,
    data_home: str | Path | None = None,
    dtype: Any = np.float64,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    label_column: str | int | None = None,
    format: str | None = None,
) -> tuple[Any, np.ndarray | None]:
    """Load a named data set or a file.

    Parameters
    ----------
    name : str or Path
        One of `names`, or a file or pipe in one of the formats of `format`, plain or compressed
        (``.gz``, ``.bz2``, ``.xz``). A known name takes precedence over a file with the same name:
        "digits" is the named set, and ``./digits`` is the file.
    data_home : str or Path, default=None
        Folder of the named sets that are local files. A file that is not found from the current
        folder is searched for in this folder. By default, the environment variable
        ``HOGSHARE_DATA``. The sets that scikit-learn downloads (``rcv1``, ``covtype``,
        ``20newsgroups``) are stored in scikit-learn's folder.
    dtype : dtype, default=float64
        Type of the rows.
    n_features : int, default=None
        Number of columns of a file of LIBSVM text or LDA-C. None: the largest index in the file
        decides.
    zero_based : bool or "auto", default="auto"
        Whether indices of a file of LIBSVM text begin at 0 (True) or at 1 (False). "auto" means 0
        if an index 0 occurs, else 1. Set this parameter for files that belong together, such as
        training and test rows, because one of the files may lack index 0 by chance.
    label_column : str or int, default=None
        Name or number of the column with the labels, in a CSV file or another table. Numbers count
        from 0, and -1 is the last column. None: the file has no labels.
    format : str, default=None
        Format of a file: "libsvm", "csv", "npz", "npy", "parquet", "arrow", "jsonl", "ldac"
        (LDA-C), "mtx" (MatrixMarket), "uci" (a bag of words) or "arff". None: detected from the
        first bytes and the name.

    Returns
    -------
    X : ndarray or csr_array
    y : ndarray or None
        None for a file without labels.

    Raises
    ------
    ValueError
        If no set or file has that name, or the file is damaged (the message names the file, and
        the line of text). If `zero_based` is given for a format other than LIBSVM text.
    OSError
        If a path does not lead to a file, or a download fails.

    Warns
    -----
    UserWarning
        If neither 0 nor 1 occurs as an index, since "auto" is then a guess. If plain LIBSVM text
        does not end with a newline, since the last number may be cut off. If text was read as
        LDA-C, which resembles LIBSVM text, and the file's name does not settle the format.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hogshare import datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "corpus.ldac")
    ...     _ = path.write_text("2 0:2 3:1" + chr(10) + "1 1:4" + chr(10))  # two documents
    ...     X, y = datasets.load(path)
    >>> X.toarray(), y
    (array([[2., 0., 0., 1.],
           [0., 4., 0., 0.]]), None)
    """
    text = str(name)
    if (path := locate(name, data_home)) is not None:
        return read_file(path, n_features, dtype, zero_based, label_column, format)
    said = {"zero_based": zero_based, "n_features": n_features, "label_column": label_column}
    refuse_others(text, None, **said)
    if format is not None:
        raise ValueError(f"{text}: format is for files, and this is the name of a data set")
    if text in GENERATED:
        return zipf_classification(**GENERATED[text], dtype=dtype)
    X, y = data_catalogue.SOURCES[text](_folder(data_home))
    return X.astype(dtype, copy=False), y


def locate(name: str | Path, data_home: str | Path | None = None) -> Path | None:
    """Find the file that `load` would read; None for a named set.

    Raises
    ------
    ValueError, OSError
        If no file is found, as in `load`.
    """
    text, folder = str(name), _folder(data_home)
    if text in names():
        return None
    places = [Path(text), *([folder / text] if folder else [])]
    for path in places:
        if path.exists() and not path.is_dir():  # a file, a pipe or a device
            return path
    if any(path.is_dir() for path in places):
        raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file", text)
    if "://" in text:
        why = "nothing is fetched from an address: download it first (curl -LO URL)"
        raise FileNotFoundError(errno.ENOENT, why, text)
    if os.sep in text or Path(text).suffix:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
    raise ValueError(f"no file and no data set is called {text!r}; known: {', '.join(names())}")


def _folder(data_home: str | Path | None) -> Path | None:
    home = data_home if data_home is not None else os.environ.get("HOGSHARE_DATA") or None
    return None if home is None else Path(home)
