"""The fitted attributes of estimators that are exported or stored in files."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import config_context

# the attributes of all estimators, with scikit-learn's names where scikit-learn has them
ATTRIBUTES = (
    *("coef_", "intercept_", "classes_", "n_iter_", "feature_names_in_", "solver_"),
    *("t_", "_standard_coef", "_standard_intercept", "_average_coef", "_average_intercept"),
    "dual_gap_",
    *("Cs_", "l1_ratios_", "C_", "l1_ratio_", "coefs_paths_", "scores_"),
    *("users_", "items_", "user_factors_", "item_factors_", "user_biases_", "item_biases_"),
    *("user_counts_", "item_counts_", "seen_", "alpha_", "mean_", "_eta0", "_unit", "_pace"),
    "_form",
    "_weights",
    "negatives_",
    *("components_", "exp_dirichlet_component_", "n_batch_iter_", "bound_", "random_state_"),
    *("doc_topic_prior_", "topic_word_prior_"),
    *("coefs_", "intercepts_", "n_layers_", "n_outputs_", "out_activation_", "loss_", "best_loss_"),
    *("loss_curve_", "validation_scores_", "best_validation_score_", "_no_improvement_count"),
    *("_best_coefs", "_best_intercepts", "_optimizer"),
)
# an attribute that only a fitted instance has; for other classes it is `coef_`
MARKS = {
    "LatentDirichletAllocation": "components_",
    "MLPClassifier": "coefs_",
    "MLPRegressor": "coefs_",
    "MatrixFactorization": "user_factors_",
}


def attributes(estimator: Any) -> dict[str, Any]:
    """Return the fitted attributes by name, without copying them."""
    return {name: vars(estimator)[name] for name in ATTRIBUTES if name in vars(estimator)}


def mark(estimator: Any) -> str:
    """Return the name of an attribute that the estimator has once it is fitted."""
    names = [kind.__name__ for kind in type(estimator).__mro__]
    return next((MARKS[name] for name in names if name in MARKS), "coef_")


def dtype(estimator: Any) -> np.dtype[Any]:
    """Return the dtype of the fitted model."""
    part = getattr(estimator, mark(estimator))
    found: np.dtype[Any] = (part[0] if isinstance(part, list) else part).dtype
    return found


def plain(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes for a file: a generator as its state, an optimizer as its attributes."""
    known = dict(attributes)
    if "_optimizer" in known:
        known["_optimizer"] = dict(vars(known["_optimizer"]))
    if "random_state_" in known:
        known["random_state_"] = tuple(known["random_state_"].get_state())
    return known


def restore(estimator: Any, saved: dict[str, Any]) -> None:
    """Set an estimator's known attributes from a file, which is untrusted; ignore all others."""
    for name in ATTRIBUTES:
        if name not in saved:
            continue
        value = saved[name]
        if name == "random_state_":
            value = np.random.RandomState()
            value.set_state(saved[name])
        elif name == "_optimizer":
            from hogshare.estimators import optimizers  # imported only for networks

            value = optimizers.restored(saved[name])
        setattr(estimator, name, value)


def requests(estimator: Any) -> dict[str, dict[str, Any]]:
    """Return the requests to scikit-learn's metadata routing, by method and name."""
    asked = vars(estimator).get("_metadata_request")
    methods = {} if asked is None else vars(asked)
    found = {
        method: {name: alias for name, alias in request.requests.items() if alias is not None}
        for method, request in methods.items()
        if hasattr(request, "requests")
    }
    return {method: asked for method, asked in found.items() if asked}


def request(estimator: Any, asked: dict[str, dict[str, Any]]) -> None:
    """Set the requests to scikit-learn's metadata routing in an estimator."""
    with config_context(enable_metadata_routing=True):  # routing may be off at present
        for method, names in asked.items():
            getattr(estimator, f"set_{method}_request")(**names)
