"""Everybody who may race with networks."""

from __future__ import annotations

from hogshare.lab.rivals.networks import ours, pytorch, scikit
from hogshare.lab.rivals.networks.discipline import NetworkContestant

ALL: tuple[type[NetworkContestant], ...] = (
    ours.HogshareSGD,
    ours.HogshareOneVector,
    ours.HogshareAdam,
    scikit.ScikitSGD,
    scikit.ScikitAdam,
    pytorch.TorchSGD,
    pytorch.TorchAdam,
)
