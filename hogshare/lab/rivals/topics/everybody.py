"""Everybody who may race with topic models."""

from __future__ import annotations

from hogshare.lab.rivals.topics import gensimlda, ours, scikit
from hogshare.lab.rivals.topics.discipline import TopicsContestant

ALL: tuple[type[TopicsContestant], ...] = (
    ours.HogshareLDA,
    ours.HogshareOneVector,
    scikit.ScikitLDA,
    gensimlda.GensimLDA,
)
