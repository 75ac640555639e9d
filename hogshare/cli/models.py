"""From an estimator to what a model file holds, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hogshare._version import __version__
from hogshare.cli.info import version_of
from hogshare.cli.kinds import CLASSES

if TYPE_CHECKING:
    from hogshare.modelfile import SavedModel

ATTRIBUTES = ("t_", "n_iter_", "solver_")  # n_iter_ is a number or an array


def from_estimator(
    estimator: Any, params: dict[str, Any], zero_based: bool | None = None
) -> SavedModel:
    """Take the fitted state that prediction and a further fit need.

    `zero_based` is whether indices of the file of rows begin at 0, None if it has none.
    """
    import numpy as np

    from hogshare.modelfile import SavedModel

    has = {name: getattr(estimator, name) for name in ATTRIBUTES if hasattr(estimator, name)}
    arrays = {name: np.asarray(getattr(estimator, name)) for name in ("coef_", "intercept_")}
    if hasattr(estimator, "classes_"):
        arrays["classes_"] = estimator.classes_
    if isinstance(has.get("n_iter_"), np.ndarray):
        arrays["n_iter_"] = has.pop("n_iter_")
    libraries = ("numpy", "numba", "scikit-learn")
    return SavedModel(
        class_name=type(estimator).__name__,
        n_features=estimator.n_features_in_,
        params=params,
        arrays=arrays,
        attributes={name: plain(value) for name, value in has.items()},
        zero_based=zero_based,
        versions={"hogshare": __version__, **{n: version_of(n) or "" for n in libraries}},
    )


def plain(value: Any) -> Any:
    """Return a number of NumPy's as Python's own; anything else as it is."""
    return value.item() if hasattr(value, "item") else value


def to_estimator(saved: SavedModel, path: str) -> Any:
    """Return a fitted estimator; only the known classes are made."""
    from sklearn.base import is_classifier

    import hogshare
    from hogshare.modelfile import ARRAYS

    if saved.class_name not in CLASSES:
        raise ValueError(f"{path}: a model of the unknown class {saved.class_name!r}")
    try:
        estimator = getattr(hogshare, saved.class_name)(**saved.params)
        estimator._validate_params()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: the model's parameters do not fit ({error})") from error
    if is_classifier(estimator) != ("classes_" in saved.arrays):
        raise ValueError(f"{path}: a model of the class {saved.class_name!r} with the wrong arrays")
    # by name, not whatever the file holds: a model file is not trusted
    fitted = {name: saved.attributes[name] for name in ATTRIBUTES if name in saved.attributes}
    # `[()]` makes a number of an array without dimensions
    fitted |= {name: saved.arrays[name][()] for name in ARRAYS if name in saved.arrays}
    if saved.class_name == "RidgeClassifier":
        from sklearn.preprocessing import LabelBinarizer

        binarizer = LabelBinarizer(pos_label=1, neg_label=-1)  # `predict` asks it for its labels
        fitted["_label_binarizer"] = binarizer.fit(fitted.get("classes_", []))
    for name, value in fitted.items():
        setattr(estimator, name, value)
    estimator.n_features_in_ = saved.n_features
    return estimator
