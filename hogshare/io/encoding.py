"""Encoding of tables with text and missing values as rows of numbers: `TableEncoder`.

`Learner` fits the encoder part by part, in one pass over a file of any length. Rows are encoded
part by part as well, since the encoding of a row depends on that row alone.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from hogshare.io import profiles, table_parts
from hogshare.io.profiles import Profile
from hogshare.io.table_parts import NotEncoded, Part
from hogshare.system.callers import users_line
from hogshare.system.messages import counted

NUMBER, CATEGORY, EMPTY = "number", "category", "empty"
SPARSE = 5  # rows are sparse if columns have, on average, more encoded columns than this,
NARROW = 64  # and there are more encoded columns than this in all

# fitted attributes, in addition to scikit-learn's
FITTED = ("kinds_", "categories_", "means_", "scales_", "with_missing_", "is_sparse_")
NO_TEXT = np.empty(0, object)  # the categories of numbers


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode tables with text and missing values as rows of numbers.

    This is the encoding of ``hogshare fit`` for the columns of a file. Numbers are unchanged, and
    missing numbers become the column's mean. Each different text of a column becomes one encoded
    column of 0 and 1. Missing text becomes one more such column if `fit` saw any. A column in which
    every text is a number, ``true`` or ``false`` counts as numbers. Dates, ids and free text are
    refused; the error names the column.

    Parameters
    ----------
    categories : {"auto", "error"} or int, default="auto"
        Largest number of categories of a column of text: an int, or 1,000 for "auto". A column with
        more is refused. "error" refuses all text.
    missing : {"mean", "indicator", "error"}, default="mean"
        How to encode missing numbers. "mean" inserts the column's mean; "indicator" inserts the
        mean and adds a column of 0 and 1 that marks the missing numbers; "error" refuses all
        missing values.
    scale : bool, default=False
        Whether to scale columns of numbers to a standard deviation of 1 and, unless the rows are
        sparse, a mean of 0.
    dtype : {"float64", "float32"}, default="float64"
        Data type of the encoded rows.

    Attributes
    ----------
    kinds_ : list of {"number", "category", "empty"}
        The kind of each column. An empty column has no encoded columns.
    categories_ : list of ndarray of str
        The texts of each column, sorted; empty for numbers.
    means_ : ndarray of shape (n_features,)
        The values that replace missing numbers; 0 for categories.
    scales_ : ndarray of shape (n_features,) or None
        The divisors of numbers; None without `scale`.
    with_missing_ : ndarray of bool of shape (n_features,)
        Whether each column lacked values.
    is_sparse_ : bool
        Whether encoded rows are a CSR matrix, which is the case if categories leave most values
        zero.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of str
        Names of features seen during `fit`. Defined only if the table had names.

    See Also
    --------
    save : Store a pipeline of an encoder and an estimator.

    Notes
    -----
    A text that did not occur in `fit` becomes zeros in all of its encoded columns, with a warning.

    Examples
    --------
    >>> import pandas as pd
    >>> import hogshare
    >>> table = pd.DataFrame({"age": [20.0, None, 40.0], "city": ["Rome", "Oslo", "Rome"]})
    >>> encoder = hogshare.TableEncoder().fit(table)
    >>> encoder.transform(table)
    array([[20.,  0.,  1.],
           [30.,  1.,  0.],
           [40.,  0.,  1.]])
    >>> list(encoder.get_feature_names_out())
    ['age', 'city=Oslo', 'city=Rome']
    """

    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's own form
        "categories": [StrOptions({"auto", "error"}), Interval(Integral, 1, None, closed="left")],
        "missing": [StrOptions({"mean", "indicator", "error"})],
        "scale": ["boolean"],
        "dtype": [StrOptions({"float64", "float32"})],
    }

    def __init__(
        self,
        *,
        categories: str | int = "auto",
        missing: str = "mean",
        scale: bool = False,
        dtype: str = "float64",
    ) -> None:
        self.categories = categories
        self.missing = missing
        self.scale = scale
        self.dtype = dtype

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn the kind and the contents of each column.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a column has dates, ids, free text, or values that the parameters refuse.
        """
        X = self._checked(X, reset=True)
        names = getattr(self, "feature_names_in_", None)
        if sp.issparse(X):
            return self._fit_sparse(X)
        learner = Learner(self, names, range(X.shape[1]))
        learner.add(part_of(X, [profile.called for profile in learner.profiles]))
        learner.settle()
        return self

    def transform(self, X: Any) -> Any:
        """Encode a table as rows of numbers.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray or csr_array of shape (n_samples, n_features_out)

        Raises
        ------
        ValueError
            If a column that had numbers in `fit` has text.

        Warns
        -----
        UserWarning
            If there is text that did not occur in `fit`; the message names the column and the text.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        if sp.issparse(X):
            return self._sparse_rows(X)
        tally = Tally()
        called = [tally.called(self, k) for k in range(self.n_features_in_)]
        rows = self.encode(part_of(X, called), tally)
        if said := tally.unseen_in_words(self):
            warnings.warn("; ".join(said), stacklevel=users_line())
        return rows

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : sequence of str, default=None
            Names of the table's columns, if the table had none in `fit`; by default ``x0``, ``x1``,
            and so on.

        Returns
        -------
        ndarray of str
        """
        from sklearn.utils.validation import _check_feature_names_in

        check_is_fitted(self)
        names: list[str] = []
        for k, name in enumerate(_check_feature_names_in(self, input_features)):
            own = {NUMBER: [name], EMPTY: []}.get(self.kinds_[k])
            names += [f"{name}={text}" for text in self.categories_[k]] if own is None else own
            names += [f"{name} missing"] * self._has_indicator(k)
        return np.array(names, dtype=object)

    @property
    def n_features_out_(self) -> int:
        """Number of encoded columns."""
        return sum(map(self._width, range(len(self.kinds_))))

    def encode(self, part: Part, tally: Tally) -> Any:
        """Encode the rows of a part of a table; add its missing and unseen values to `tally`."""
        n_rows, n_out = part.n_rows, self.n_features_out_
        slots = list(self._slots(part, tally))
        dtype = np.dtype(self.dtype)
        if not self.is_sparse_:
            rows = np.zeros((n_rows, n_out), dtype)
            every = np.arange(n_rows)
            for places, values in slots:
                rows[every if isinstance(places, np.ndarray) else slice(None), places] = values
            return rows
        indices = np.empty((n_rows, len(slots)), np.int32)
        data = np.empty((n_rows, len(slots)), dtype)
        for k, (places, values) in enumerate(slots):
            indices[:, k], data[:, k] = places, values
        ends = np.arange(n_rows + 1, dtype=np.int64) * len(slots)
        made = sp.csr_array((data.ravel(), indices.ravel(), ends), shape=(n_rows, n_out))
        made.eliminate_zeros()  # zeros of numbers, and of texts without a category
        if made.nnz < 2**31:  # SciPy may leave the row ends in 64 bits
            made.indptr = made.indptr.astype(np.int32, copy=False)
        return made

    def _slots(self, part: Part, tally: Tally) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield pairs (columns, values): for each row, an encoded column and the value in it.

        `columns` is an int if the column is the same for all rows.
        """
        begin = 0
        for k, (kind, cells) in enumerate(zip(self.kinds_, part.columns, strict=True)):
            if kind == NUMBER:
                values, lack = self._numbers(k, cells, part, tally)
                yield begin, values
                if self._has_indicator(k):
                    yield begin + 1, lack
            elif kind == CATEGORY:
                codes = self._codes(k, cells, part, tally)
                yield begin + np.maximum(codes, 0), codes >= 0
            begin += self._width(k)

    def _numbers(
        self, k: int, cells: table_parts.Cells, part: Part, tally: Tally
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the encoded numbers of a column, and a mask of missing ones."""
        called, column = tally.called(self, k), tally.column(self, k)
        values = table_parts.as_numbers(cells)
        if values is None:
            row = next(i for i, cell in enumerate(cells) if table_parts.as_numbers([cell]) is None)
            raise NotEncoded(
                f"{part.place(row)}, {called}: {cells[row]!r} is not a number, and the model was "
                "fitted to numbers",
                column,
            )
        if self.dtype == "float32":  # numbers beyond its range become infinite
            values = np.where(np.abs(values) > np.finfo(np.float32).max, np.inf, values)
        if np.isinf(values).any():
            row = int(np.isinf(values).argmax())
            raise NotEncoded(
                f"{part.place(row)}, {called}: the value is {cells[row]}, and a model needs "
                f"finite ones of {self.dtype}",
                column,
            )
        lack = np.isnan(values)
        if lack.any():
            self._count_missing(k, lack, part, tally)
            values = np.where(lack, self.means_[k], values)
        if self.scales_ is not None:
            values = (values - (0.0 if self.is_sparse_ else self.means_[k])) / self.scales_[k]
        return values, lack

    def _codes(self, k: int, cells: table_parts.Cells, part: Part, tally: Tally) -> np.ndarray:
        """Return the place of each text among the column's categories; -1 for an unseen text.

        A missing text has the place after the last category if `fit` saw missing text, else -1.
        """
        known = {text: place for place, text in enumerate(self.categories_[k])}
        texts = table_parts.as_text(cells)
        codes = np.fromiter((known.get(text, -1) for text in texts), np.int64, len(texts))
        others = np.flatnonzero(codes < 0).tolist()
        lack = np.zeros(len(texts), bool)
        for row in others:
            lack[row] = table_parts.is_missing(texts[row])
            if not lack[row]:
                tally.unseen.setdefault(k, Counter())[texts[row]] += 1
        if lack.any():
            self._count_missing(k, lack, part, tally)
            codes[lack] = len(known) if self.with_missing_[k] else -1
        return codes

    def _count_missing(self, k: int, lack: np.ndarray, part: Part, tally: Tally) -> None:
        if self.missing == "error":
            raise _missing(
                part.place(int(lack.argmax())), tally.called(self, k), tally.column(self, k)
            )
        tally.missing[k] += int(np.count_nonzero(lack))

    def _has_indicator(self, k: int) -> bool:
        """Whether an encoded column marks the missing values of this column."""
        kind, lacks = self.kinds_[k], bool(self.with_missing_[k])
        return lacks and (kind == CATEGORY or (kind == NUMBER and self.missing == "indicator"))

    def _width(self, k: int) -> int:
        own = {NUMBER: 1, EMPTY: 0}.get(self.kinds_[k])
        return (len(self.categories_[k]) if own is None else own) + self._has_indicator(k)

    def _checked(self, X: Any, reset: bool) -> Any:
        if hasattr(X, "columns") and hasattr(X, "__getitem__"):  # a frame, with columns of any kind
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not len(X):
                raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}); 1 is needed.")
            return X
        return validate_data(
            self, X, reset=reset, dtype=None, accept_sparse="csr", ensure_all_finite="allow-nan"
        )

    def _fit_sparse(self, X: Any) -> TableEncoder:
        """Fit to a sparse matrix, whose columns are all numbers without missing values."""
        from sklearn.utils.sparsefuncs import mean_variance_axis

        self._refuse_sparse(X)
        width = X.shape[1]
        self.kinds_, self.categories_ = [NUMBER] * width, [NO_TEXT] * width
        self.with_missing_ = np.zeros(width, bool)
        self.is_sparse_, self.scales_ = True, None
        # means are used only if dense rows with missing values are transformed
        self.means_, variance = mean_variance_axis(sp.csr_matrix(X, dtype=np.float64), axis=0)
        if self.scale:
            self.scales_ = np.where(variance > 0.0, np.sqrt(variance), 1.0)
        return self

    def _sparse_rows(self, X: Any) -> Any:
        self._refuse_sparse(X)
        if set(self.kinds_) != {NUMBER} or not self.is_sparse_:
            raise ValueError(
                "X is a sparse matrix, and the encoder was fitted to a table: pass a data frame or "
                "an array of the same columns."
            )
        data = X.data.astype(self.dtype)
        if self.scales_ is not None:
            data = (data / self.scales_[X.indices]).astype(self.dtype, copy=False)
        return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)

    def _refuse_sparse(self, X: Any) -> None:
        if X.dtype.kind not in "biuf" or not np.isfinite(X.data).all():
            raise ValueError("X is a sparse matrix, which must have finite numbers.")


class Learner:
    """Fits an encoder part by part: call `add` with each part, then `settle`."""

    def __init__(
        self, encoder: TableEncoder, names: Sequence[str] | None, places: Sequence[int]
    ) -> None:
        """`places` are the columns' places in the whole table, from 0."""
        self.encoder, self.names = encoder, names
        most = profiles.MOST if isinstance(encoder.categories, str) else encoder.categories
        self.profiles = [
            Profile(in_words(k, names, places), column_of(k, names, places), most)
            for k in range(len(places))
        ]

    def add(self, part: Part) -> None:
        """Learn from some further rows; raise as `TableEncoder.fit`."""
        for profile, cells in zip(self.profiles, part.columns, strict=True):
            profile.add(cells, part.place)
            if profile.is_text and self.encoder.categories == "error":
                raise NotEncoded(
                    f"{profile.first_text}, {profile.called}: {profile.text!r} is not a number "
                    "such as 0.5, -3 or 1e-4",
                    profile.column,
                    "text",
                )
            if profile.first_missing and self.encoder.missing == "error":
                raise _missing(profile.first_missing, profile.called, profile.column)

    def settle(self) -> TableEncoder:
        """Set the encoder's fitted attributes and return it; raise as `TableEncoder.fit`."""
        encoder = self.encoder
        kinds, categories = [], []
        for profile in self.profiles:
            texts = profile.categories() if profile.is_text else None
            kinds.append(EMPTY if profile.is_empty or texts == [] else _kind(texts))
            categories.append(np.array(texts, dtype=object) if texts else NO_TEXT)
        encoder.n_features_in_ = len(kinds)
        if self.names is not None:
            encoder.feature_names_in_ = np.array(self.names, dtype=object)
        numbers = [kind == NUMBER for kind in kinds]
        encoder.kinds_, encoder.categories_ = kinds, categories
        encoder.means_ = np.where(numbers, [p.mean for p in self.profiles], 0.0)
        encoder.with_missing_ = np.array([p.missing > 0 for p in self.profiles])
        encoder.scales_ = None
        if encoder.scale:
            spread = np.array([p.deviation for p in self.profiles])
            # the deviation of a constant column is only a rounding error
            least = 1e-12 * np.abs(encoder.means_)
            encoder.scales_ = np.where(numbers & (spread > least), spread, 1.0)
        made = encoder.n_features_out_
        encoder.is_sparse_ = made > max(NARROW, SPARSE * len(kinds))
        return encoder

    @property
    def is_plain(self) -> bool:
        """Whether encoding changes no value; call `settle` first.

        This is so if all cells are written as finite numbers, and the numbers are not scaled.
        """
        encoder = self.encoder
        changed = encoder.scale or bool(encoder.with_missing_.any())
        changed = changed or any(profile.has_truths for profile in self.profiles)
        return set(encoder.kinds_) <= {NUMBER} and not changed


class Tally:
    """Counts of missing and unseen values in encoded rows, by column.

    places : the columns' places in the whole table, from 0; None if the encoder has all columns
    """

    def __init__(self, places: Sequence[int] | None = None) -> None:
        self.places = places
        self.missing: Counter[int] = Counter()
        self.unseen: dict[int, Counter[str]] = {}

    def called(self, encoder: TableEncoder, k: int) -> str:
        """Describe a column of the encoder, counted from 0, for messages."""
        return in_words(k, getattr(encoder, "feature_names_in_", None), self.places)

    def column(self, encoder: TableEncoder, k: int) -> str | int:
        """Return a column's name, or its number in the whole table, from 1, if it has no name."""
        return column_of(k, getattr(encoder, "feature_names_in_", None), self.places)

    def unseen_in_words(self, encoder: TableEncoder) -> list[str]:
        """Return a sentence for each column with text that did not occur in the fit."""
        return [
            f"{self.called(encoder, k)}: {counted(found.total(), 'value')} that the fit did not "
            f"have ({profiles.shown(found)}), encoded as no category"
            for k, found in sorted(self.unseen.items())
        ]


def part_of(X: Any, called: Sequence[str]) -> Part:
    """Return a part with all rows of a data frame or an array; `called` names columns in errors."""
    width = X.shape[1]
    if hasattr(X, "iloc"):
        columns = [X.iloc[:, k] for k in range(width)]
    elif hasattr(X, "columns"):
        columns = [X[name] for name in X.columns]
    else:
        columns = [X[:, k] for k in range(width)]
    cells = [table_parts.cells_of(values, called[k], k + 1) for k, values in enumerate(columns)]
    return Part(cells, None, lambda row: f"row {row + 1}")


def column_of(k: int, names: Sequence[str] | None, places: Sequence[int] | None) -> str | int:
    """Return the name of column `k`, counted from 0; its number, from 1, if it has no name."""
    name = "" if names is None else str(names[k])
    return name or (k if places is None else places[k]) + 1


def in_words(k: int, names: Sequence[str] | None, places: Sequence[int] | None) -> str:
    """Describe column `k`, counted from 0, for messages: its number from 1, and any name."""
    number = (k if places is None else places[k]) + 1
    return f"column {number}" + ("" if names is None else f" ({str(names[k])!r})")


def _kind(texts: list[str] | None) -> str:
    return NUMBER if texts is None else CATEGORY


def _missing(place: str, called: str, column: str | int) -> NotEncoded:
    return NotEncoded(f"{place}, {called}: the value is missing", column, "missing")
