"""Everybody who may race."""

from __future__ import annotations

from collections.abc import Sequence

from hogshare.rivals import hogwild, multicore, ours, scikit, snap, tickmodels, wabbit
from hogshare.rivals.contestant import Contestant

ALL: tuple[type[Contestant], ...] = (
    ours.HogshareSGD,
    ours.HogshareAuto,
    ours.HogshareLogistic,
    ours.HogshareOneVector,
    scikit.ScikitSGD,
    scikit.ScikitAveragedSGD,
    scikit.ScikitSaga,
    scikit.ScikitSag,
    scikit.ScikitLiblinear,
    scikit.ScikitLbfgs,
    scikit.ScikitCholesky,
    scikit.ScikitLinearSVC,
    snap.SnapDual,
    snap.SnapDualOne,
    snap.SnapPrimal,
    snap.SnapPrimalOne,
    snap.SnapSVM,
    snap.SnapSVMOne,
    multicore.LiblinearNewton,
    multicore.LiblinearDual,
    tickmodels.TickSVRG,
    tickmodels.TickSAGA,
    tickmodels.TickSDCA,
    wabbit.WabbitSGD,
    wabbit.WabbitBFGS,
    hogwild.TorchHogwild,
)


def select(parts: Sequence[str], loss: str) -> list[type[Contestant]]:
    """Contestants for a loss whose name contains one of the parts; all of them without parts.

    Raises
    ------
    ValueError
        If a part is in nobody's name, or nobody is left for this loss.
    """
    for part in parts:
        if not any(part.lower() in kind.name.lower() for kind in ALL):
            raise ValueError(
                f"no contestant's name contains {part!r}; there are "
                f"{', '.join(kind.name for kind in ALL)}"
            )
    chosen = [
        kind
        for kind in ALL
        if loss in kind.losses
        and (not parts or any(part.lower() in kind.name.lower() for part in parts))
    ]
    if not chosen:
        raise ValueError(f"none of these contestants has the loss {loss}")
    return chosen
