"""Let real libraries write files, and read each back with the library itself.

`peer_files.py` runs this by the Python of an environment that has the peers and no hogshare.
``files.json`` has an entry for each file: the writer with its version, the kind of file and the
peer's reading of it, whose values are in a separate ``.npz``. Usage::

    python bench/peer_writers.py FOLDER
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

PEERS: dict[str, dict[str, Any]] = {}
rng = np.random.default_rng(0)
DENSE = np.round(rng.normal(size=(30, 6)) * (rng.random((30, 6)) < 0.6), 3)
DENSE[:, 0] += 1.0  # so that no row is empty, and the first column is in every file
DENSE[0, 5] = 0.25  # and the last one
SPARSE = sp.csr_matrix(DENSE)
CLASSES = (DENSE[:, 1] > 0).astype(int)
COUNTS = sp.csr_matrix(rng.poisson(0.8, size=(12, 9)))
COUNTS[3] = 0  # an empty document
COUNTS[0, 8] = 2
COUNTS.eliminate_zeros()
DOCUMENTS = [list(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in COUNTS]
PAIRS = np.unique(rng.integers(1, 9, size=(40, 2)), axis=0)
STARS = rng.integers(1, 11, size=len(PAIRS)) / 2
TIMES = 881250949 + np.arange(len(PAIRS))


def written(peer: str, name: str, what: str, **said: Any) -> Callable[[Any], Any]:
    """Register a writer of a file; what it returns is what the peer reads from it.

    said : ``named``, a word of the sentence that refuses it (without one it names the line);
        ``options`` of hogshare's reader
    """

    def register(write: Any) -> Any:
        PEERS[name] = {"peer": peer, "what": what, "write": write, **said}
        return write

    return register


def rows(X: Any, y: Any = None) -> dict[str, np.ndarray]:
    """Values of rows and labels that a peer reads."""
    dense = np.asarray(X.todense() if sp.issparse(X) else X)
    found = {"X": dense.astype(np.float64)}
    if y is not None:
        found["y"] = np.asarray(y)
    return found


def triples(users: Any, items: Any, ratings: Any) -> dict[str, np.ndarray]:
    """Ratings that a peer reads, in any order, ids as words."""
    return {
        "users": np.array(list(map(str, users))),
        "items": np.array(list(map(str, items))),
        "ratings": np.asarray(ratings, np.float64),
    }


# scikit-learn and joblib


@written("scikit-learn", "one_based.svm", "LIBSVM text from 1")
def one_based(path: str) -> Any:
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    dump_svmlight_file(SPARSE, CLASSES, path, zero_based=False)
    return rows(*load_svmlight_file(path))


@written("scikit-learn", "zero_based.txt", "LIBSVM text from 0, with comments")
def zero_based(path: str) -> Any:
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    dump_svmlight_file(SPARSE, DENSE[:, 2], path, zero_based=True, comment="of a test")
    return rows(*load_svmlight_file(path))


@written("scikit-learn", "qid.svm", "LIBSVM text with qid")
def with_queries(path: str) -> Any:
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    queries = np.arange(30) // 10
    dump_svmlight_file(SPARSE, CLASSES, path, zero_based=False, query_id=queries)
    return rows(*load_svmlight_file(path))


@written(
    "scikit-learn", "multilabel.svm", "LIBSVM text, several labels a row", named="several labels"
)
def multilabel(path: str) -> Any:
    from sklearn.datasets import dump_svmlight_file

    labels = (rng.random((30, 3)) < 0.5).astype(int)
    labels[0] = 1
    dump_svmlight_file(SPARSE, labels, path, zero_based=False, multilabel=True)


@written("joblib", "dumped.joblib", "a dump of arrays", named="pickle")
def dumped(path: str) -> Any:
    import joblib

    joblib.dump((DENSE, CLASSES), path)


@written("joblib", "dumped.joblib.z", "a dump of arrays, compress=3", named="pickle")
def dumped_small(path: str) -> Any:
    import joblib

    joblib.dump((DENSE, CLASSES), path, compress=("zlib", 3))


# NumPy and SciPy


@written("numpy", "rows.npz", "savez of X and y")
def savez(path: str) -> Any:
    np.savez(path, X=DENSE, y=CLASSES)
    with np.load(path) as found:
        return rows(found["X"], found["y"])


@written("numpy", "rows.npy", "save, in Fortran's order")
def save(path: str) -> Any:
    np.save(path, np.asfortranarray(DENSE))
    return rows(np.load(path))


@written("numpy", "savetxt.txt", "savetxt")
def savetxt(path: str) -> Any:
    np.savetxt(path, DENSE)
    return rows(np.loadtxt(path))


def save_npz(kind: str) -> Callable[[str], Any]:
    def write(path: str) -> Any:
        sp.save_npz(path, getattr(sp, kind)(SPARSE))
        return rows(sp.load_npz(path))

    return write


for KIND in ("csr_matrix", "csr_array", "csc_array", "coo_array", "coo_matrix", "bsr_array"):
    written("scipy", f"{KIND}.npz", f"save_npz of a {KIND}")(save_npz(KIND))


def mmwrite(what: Any, **settings: Any) -> Callable[[str], Any]:
    def write(path: str) -> Any:
        scipy.io.mmwrite(path, what, **settings)
        return rows(scipy.io.mmread(path))

    return write


SQUARE = SPARSE[:6] + SPARSE[:6].T
for NAME, WHAT, MATRIX, SETTINGS in (
    ("real.mtx", "coordinate real general", SPARSE, {}),
    ("integer.mtx", "coordinate integer general", COUNTS, {}),
    ("pattern.mtx", "coordinate pattern general", SPARSE, {"field": "pattern"}),
    ("bool.mtx", "a matrix of bool", SPARSE.astype(bool), {}),
    ("symmetric.mtx", "coordinate real symmetric", SQUARE, {}),
    ("array.mtx", "array real general", DENSE, {}),
):
    written("scipy", NAME, f"mmwrite, {WHAT}")(mmwrite(MATRIX, **SETTINGS))


@written("scipy", "complex.mtx", "mmwrite, coordinate complex", named="complex")
def complex_matrix(path: str) -> Any:
    scipy.io.mmwrite(path, SPARSE * 1j)


@written("scipy", "rows.mat", "savemat", named="MAT")
def savemat(path: str) -> Any:
    scipy.io.savemat(path, {"X": DENSE})


# pandas


def frame() -> Any:
    import pandas as pd

    table = pd.DataFrame(DENSE, columns=[f"x{k}" for k in range(6)])
    return table.assign(label=CLASSES)


def read_back(table: Any) -> Any:
    return rows(table.drop(columns="label"), table["label"])


LABEL = {"label_column": "label"}


@written("pandas", "plain.csv", "to_csv(index=False)", options=LABEL)
def to_csv(path: str) -> Any:
    import pandas as pd

    frame().to_csv(path, index=False)
    return read_back(pd.read_csv(path))


@written("pandas", "quoted.csv.gz", "to_csv, all cells quoted, tabs, gzip", options=LABEL)
def to_csv_quoted(path: str) -> Any:
    import csv

    import pandas as pd

    frame().to_csv(path, index=False, quoting=csv.QUOTE_ALL, sep="\t", lineterminator="\r\n")
    return read_back(pd.read_csv(path, sep="\t"))


@written(
    *("pandas", "decimal.csv", "to_csv(sep=';', decimal=',')"), options=LABEL, named="has a comma"
)
def to_csv_decimal(path: str) -> Any:
    frame().to_csv(path, index=False, sep=";", decimal=",")


@written("pandas", "rows.parquet", "to_parquet", options=LABEL)
def to_parquet(path: str) -> Any:
    import pandas as pd

    frame().to_parquet(path)
    return read_back(pd.read_parquet(path))


@written("pandas", "rows.feather", "to_feather", options=LABEL)
def to_feather(path: str) -> Any:
    import pandas as pd

    frame().to_feather(path)
    return read_back(pd.read_feather(path))


@written("pandas", "rows.jsonl", "to_json(lines=True)", options=LABEL)
def to_json(path: str) -> Any:
    import pandas as pd

    frame().to_json(path, orient="records", lines=True)
    return read_back(pd.read_json(path, lines=True, precise_float=True))


@written("pandas", "columns.json", "to_json")
def to_json_columns(path: str) -> Any:
    frame().to_json(path)


@written("pandas", "rows.pkl", "to_pickle", named="pickle")
def to_pickle(path: str) -> Any:
    frame().to_pickle(path)


# XGBoost and LightGBM


def matrix() -> Any:
    import xgboost

    return xgboost.DMatrix(DENSE, CLASSES)


@written("xgboost", "matrix.buffer", "DMatrix.save_binary", named="XGBoost")
def save_binary(path: str) -> Any:
    matrix().save_binary(path)


@written("xgboost", "weights.libsvm", "LIBSVM text with label:weight", named="weight")
def with_weights(path: str) -> Any:
    import xgboost

    lines = [
        f"{label}:{1.5 + k % 2} " + " ".join(f"{i}:{x}" for i, x in enumerate(row, 1))
        for k, (label, row) in enumerate(zip(CLASSES, DENSE, strict=True))
    ]
    Path(path).write_text("\n".join(lines) + "\n")
    weights = xgboost.DMatrix(f"{path}?format=libsvm").get_weight()
    assert set(weights.tolist()) == {1.5, 2.5}


@written("xgboost", "model.json", "a model", named="XGBoost")
def booster(path: str) -> Any:
    import xgboost

    xgboost.train({"max_depth": 2}, matrix(), 2).save_model(path)


@written("xgboost", "model.ubj", "a model, UBJSON", named="XGBoost")
def booster_ubj(path: str) -> Any:
    import xgboost

    xgboost.train({"max_depth": 2}, matrix(), 2).save_model(path)


def data_set(source: Any = DENSE) -> Any:
    import lightgbm

    settings = {"min_data_in_leaf": 2, "verbosity": -1}
    label = None if isinstance(source, str) else CLASSES
    return lightgbm.Dataset(source, label, params=settings)


@written("lightgbm", "rows.bin", "Dataset.save_binary", named="LightGBM")
def lightgbm_binary(path: str) -> Any:
    data_set().save_binary(path)


@written(
    "lightgbm", "train.tsv", "text that it trains on, labels first", options={"label_column": 0}
)
def lightgbm_text(path: str) -> Any:
    np.savetxt(path, np.column_stack([CLASSES, DENSE]), "%.10g", "\t")
    made = data_set(path).construct()
    assert (made.num_data(), made.num_feature()) == DENSE.shape
    return rows(np.loadtxt(path)[:, 1:], made.get_label())


@written("lightgbm", "model.txt", "a model", named="LightGBM")
def lightgbm_model(path: str) -> Any:
    import lightgbm

    lightgbm.train({"verbosity": -1, "min_data_in_leaf": 2}, data_set(), 2).save_model(path)


# Vowpal Wabbit


def vowpal_lines() -> list[str]:
    features = [" ".join(f"x{i}:{x}" for i, x in enumerate(row) if x) for row in DENSE]
    return [f"{2 * y - 1} | {text}" for y, text in zip(CLASSES, features, strict=True)]


@written("vowpalwabbit", "rows.vw", "text", named="Vowpal")
def vowpal_text(path: str) -> Any:
    from vowpalwabbit import Workspace

    Path(path).write_text("\n".join(vowpal_lines()) + "\n")
    Workspace(f"--quiet -d {path} --loss_function logistic").finish()


@written("vowpalwabbit", "rows.cache", "a cache", named="Vowpal")
def vowpal_cache(path: str) -> Any:
    from vowpalwabbit import Workspace

    text = Path(path).with_suffix(".txt")
    text.write_text("\n".join(vowpal_lines()) + "\n")
    Workspace(f"--quiet -d {text} --cache_file {path} -k --passes 2").finish()
    text.unlink()


@written("vowpalwabbit", "model.vw", "a model", named="Vowpal")
def vowpal_model(path: str) -> Any:
    from vowpalwabbit import Workspace

    workspace = Workspace("--quiet")
    for line in vowpal_lines():
        workspace.learn(line)
    workspace.save(path)
    workspace.finish()


# gensim, whose documents are lists of pairs


def of_corpus(corpus: Any) -> Any:
    from gensim.matutils import corpus2csc

    return rows(corpus2csc(corpus, num_terms=COUNTS.shape[1]).T)


def corpus(kind: str) -> Callable[[str], Any]:
    def write(path: str) -> Any:
        from gensim import corpora

        made = getattr(corpora, kind)
        made.serialize(path, DOCUMENTS)
        return of_corpus(made(path))

    return write


written("gensim", "corpus.mm", "MmCorpus")(corpus("MmCorpus"))
written("gensim", "corpus.lda-c", "BleiCorpus")(corpus("BleiCorpus"))
written("gensim", "docword.txt", "UciCorpus")(corpus("UciCorpus"))
written("gensim", "corpus.svmlight", "SvmLightCorpus")(corpus("SvmLightCorpus"))


@written("gensim", "corpus.low", "LowCorpus")
def low_corpus(path: str) -> Any:
    from gensim.corpora import Dictionary, LowCorpus

    words = [[f"w{i}" for i, n in document for _ in range(n)] for document in DOCUMENTS]
    dictionary = Dictionary(words)
    LowCorpus.serialize(path, [dictionary.doc2bow(line) for line in words], id2word=dictionary)


# ratings


def user_items() -> Any:
    return sp.coo_array((STARS, tuple(PAIRS.T)), shape=(9, 9))


@written("implicit", "user_items.npz", "users by items, as its models take them", ratings=True)
def implicit_matrix(path: str) -> Any:
    from implicit.als import AlternatingLeastSquares

    sp.save_npz(path, sp.csr_matrix(user_items()))
    found = sp.load_npz(path)
    model = AlternatingLeastSquares(factors=2, iterations=1, num_threads=1)
    model.fit(found.astype(np.float32), show_progress=False)
    assert model.user_factors.shape[0] == 9
    found = found.tocoo()
    return triples(*found.coords, found.data)


@written("implicit", "als.npz", "a model", ratings=True, named="factors")
def implicit_model(path: str) -> Any:
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(factors=2, iterations=1, num_threads=1)
    model.fit(sp.csr_matrix(user_items()).astype(np.float32), show_progress=False)
    model.save(path)


@written("scipy", "ratings.mtx", "mmwrite of users by items, integer", ratings=True)
def matrix_of_ratings(path: str) -> Any:
    whole = user_items()
    whole.data = (2 * whole.data).astype(int)
    scipy.io.mmwrite(path, whole)
    found = scipy.io.mmread(path)
    return triples(*(line + 1 for line in found.coords), found.data)


@written("scipy", "clicks.mtx", "mmwrite of users by items, pattern", ratings=True)
def matrix_of_clicks(path: str) -> Any:
    scipy.io.mmwrite(path, user_items(), field="pattern")
    found = scipy.io.mmread(path)
    users, items = (line + 1 for line in found.coords)
    made = triples(users, items, found.data)
    del made["ratings"]
    return made


def lines_of_ratings(path: str, mark: str, times: bool = False) -> None:
    parts = [PAIRS[:, 0], PAIRS[:, 1], STARS, *([TIMES] if times else [])]
    lines = [mark.join(map(str, row)) for row in zip(*parts, strict=True)]
    Path(path).write_text("\n".join(lines) + "\n")


def surprise_reads(path: str, mark: str) -> Any:
    from surprise import Dataset, Reader

    reader = Reader(line_format="user item rating timestamp", sep=mark, rating_scale=(0.5, 5))
    found = Dataset.load_from_file(path, reader).raw_ratings
    return triples(*list(zip(*found, strict=True))[:3])


@written("scikit-surprise", "u.data", "tabs, as ml-100k", ratings=True)
def surprise_tabs(path: str) -> Any:
    lines_of_ratings(path, "\t", times=True)
    return surprise_reads(path, "\t")


@written("scikit-surprise", "ratings.dat", "two colons, as ml-1m", ratings=True)
def surprise_colons(path: str) -> Any:
    lines_of_ratings(path, "::", times=True)
    return surprise_reads(path, "::")


@written("scikit-surprise", "ratings_as_rows.dat", "two colons, as rows", named="read_ratings")
def colons_as_rows(path: str) -> Any:
    lines_of_ratings(path, "::", times=True)


@written("scikit-surprise", "surprise.dump", "a dump of predictions", ratings=True, named="pickle")
def surprise_dump(path: str) -> Any:
    from surprise import SVD, Dataset, Reader, dump

    lines_of_ratings(path, "\t", times=True)
    reader = Reader(line_format="user item rating timestamp", sep="\t", rating_scale=(0.5, 5))
    train = Dataset.load_from_file(path, reader).build_full_trainset()
    algo = SVD(n_epochs=1, random_state=0).fit(train)
    dump.dump(path, predictions=algo.test(train.build_testset()), algo=algo)


@written("cornac", "uir.txt", "user, item and rating by tabs", ratings=True)
def cornac_ratings(path: str) -> Any:
    from cornac.data import Reader

    lines_of_ratings(path, "\t")
    return triples(*zip(*Reader().read(path, fmt="UIR", sep="\t"), strict=True))


@written("cornac", "ui.txt", "a user and several items a line", ratings=True, named="cornac")
def cornac_items(path: str) -> Any:
    from cornac.data import Reader

    lists = [[user, *PAIRS[PAIRS[:, 0] == user, 1]] for user in np.unique(PAIRS[:, 0])]
    Path(path).write_text("".join(" ".join(map(str, line)) + "\n" for line in lists))
    assert len(Reader().read(path, fmt="UI", sep=" ")) == len(PAIRS)


@written("cornac", "dataset.pkl", "Dataset.save", ratings=True, named="pickle")
def cornac_dataset(path: str) -> Any:
    from cornac.data import Dataset

    ratings = [(*pair, star) for pair, star in zip(PAIRS.tolist(), STARS, strict=True)]
    Dataset.from_uir(ratings).save(path)


@written("libmf", "train.txt", "user, item and rating by blanks", ratings=True)
def libmf_text(path: str) -> Any:
    from libmf import mf

    lines_of_ratings(path, " ")
    found = np.loadtxt(path)  # as its page has it; LIBMF's own file has the same lines
    model = mf.MF(k=2, nr_iters=1, nr_threads=1, quiet=True)
    model.fit(found)
    users, items, ratings = found.T
    return triples(users.astype(int), items.astype(int), ratings)


@written("pandas", "ratings.parquet", "to_parquet of ratings, rating first", ratings=True)
def ratings_parquet(path: str) -> Any:
    import pandas as pd

    users, items = PAIRS.T
    table = pd.DataFrame({"rating": STARS, "userId": users + 2**53, "movieId": items})
    table.to_parquet(path)
    found = pd.read_parquet(path)
    return triples(found["userId"], found["movieId"], found["rating"])


# ARFF


def arff_object(sparse: bool) -> dict[str, Any]:
    numeric = [(f"x{k}", "REAL") for k in range(6)]
    data = np.where(SPARSE.toarray() == 0, 0.0, DENSE)
    words = np.array(["no", "yes"])[CLASSES]
    made = [[*row, word] for row, word in zip(data.tolist(), words.tolist(), strict=True)]
    if sparse:
        made = [{k: v for k, v in enumerate(row) if v not in (0.0, "no")} for row in made]
    return {
        "relation": "of a test",
        "attributes": [*numeric, ("label", ["no", "yes"])],
        "data": made,
    }


@written("liac-arff", "dense.arff", "dense", options=LABEL)
def arff_dense(path: str) -> Any:
    import arff

    Path(path).write_text(arff.dumps(arff_object(False)))
    found, _ = scipy.io.arff.loadarff(path)
    X = np.column_stack([found[f"x{k}"] for k in range(6)])
    return rows(X, found["label"].astype(str))


@written("liac-arff", "sparse.arff", "sparse", options=LABEL)
def arff_sparse(path: str) -> Any:
    import arff

    Path(path).write_text(arff.dumps(arff_object(True)))
    with open(path) as file:
        found = arff.load(file, return_type=arff.LOD)["data"]
    X = np.array([[row.get(k, 0.0) for k in range(6)] for row in found])
    return rows(X, np.array([row.get(6, "no") for row in found]))


def main(folder: Path) -> None:
    """Write all files; one that a peer does not write is left out, and it is said why."""
    found = {}
    for name, entry in PEERS.items():
        write = entry.pop("write")
        try:
            entry["version"] = importlib.metadata.version(entry["peer"])
            values = write(str(folder / name))
        except Exception as error:  # of any peer that is not there, or of another version
            found[name] = {**entry, "note": f"not written: {type(error).__name__}: {error}"[:200]}
            continue
        if values is not None:
            np.savez(folder / f"{name}.read.npz", **values)
        found[name] = entry
    (folder / "files.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
