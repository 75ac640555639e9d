"""Everybody who may race with linear models."""

from __future__ import annotations

from hogshare.lab.rivals.linear import hogwild, multicore, ours, scikit, snap, tickmodels, wabbit
from hogshare.lab.rivals.linear.task import Linear

ALL: tuple[type[Linear], ...] = (
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
