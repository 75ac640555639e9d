"""Everybody who may race with factorisations."""

from __future__ import annotations

from hogshare.lab.rivals.ratings import cornacmf, implicitals, libmfs, ours, surprisesvd
from hogshare.lab.rivals.ratings.discipline import RatingsContestant

ALL: tuple[type[RatingsContestant], ...] = (
    ours.HogshareOneVector,
    ours.HogshareCopies,
    ours.HogshareBSP,
    ours.HogshareMaster,
    libmfs.LibMF,
    cornacmf.CornacMF,
    surprisesvd.SurpriseSVD,
    implicitals.ImplicitALS,
)
