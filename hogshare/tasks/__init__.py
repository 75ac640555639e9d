"""Asynchronous tasks with history: ASYNC's programming model, see `AsyncContext`."""

from __future__ import annotations

from hogshare.tasks.broadcasts import Broadcast
from hogshare.tasks.context import AsyncContext
from hogshare.tasks.handles import Handle
from hogshare.tasks.nested_values import add
from hogshare.tasks.results import Result, TaskError
from hogshare.tasks.row_collection import Collection

__all__ = ["AsyncContext", "Broadcast", "Collection", "Handle", "Result", "TaskError", "add"]
