"""From an estimator to what a model file holds, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hogshare._version import __version__
from hogshare.cli.info import version_of

if TYPE_CHECKING:
    from hogshare.modelfile import SavedModel

CLASSES = ("SGDClassifier", "SGDRegressor")


def from_estimator(estimator: Any, params: dict[str, Any]) -> SavedModel:
    """Take the fitted state that prediction and a further fit need."""
    from hogshare.modelfile import SavedModel

    arrays = {"coef_": estimator.coef_, "intercept_": estimator.intercept_}
    if hasattr(estimator, "classes_"):
        arrays["classes_"] = estimator.classes_
    libraries = ("numpy", "numba", "scikit-learn")
    return SavedModel(
        class_name=type(estimator).__name__,
        n_features=estimator.n_features_in_,
        params=params,
        arrays=arrays,
        attributes={"t_": float(estimator.t_), "n_iter_": int(estimator.n_iter_)},
        versions={"hogshare": __version__, **{n: version_of(n) or "" for n in libraries}},
    )


def to_estimator(saved: SavedModel, path: str) -> Any:
    """Return a fitted estimator; only the two known classes are made."""
    import hogshare

    if saved.class_name not in CLASSES:
        raise ValueError(f"{path}: a model of the unknown class {saved.class_name!r}")
    try:
        estimator = getattr(hogshare, saved.class_name)(**saved.params)
    except TypeError as error:
        raise ValueError(f"{path}: the model's parameters do not fit ({error})") from error
    # by name, not whatever the file holds: a model file is not trusted
    for name in ("coef_", "intercept_", "classes_"):
        if name in saved.arrays:
            setattr(estimator, name, saved.arrays[name])
    for name in ("t_", "n_iter_"):
        setattr(estimator, name, saved.attributes.get(name))
    estimator.n_features_in_ = saved.n_features
    return estimator
