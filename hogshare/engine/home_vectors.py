"""The vectors of workers' homes: make a model of them, and store them in a checkpoint.

For writers, readers and freeing see `hogshare.engine.homes`. All methods except `vector_of` and
`model` must be called while no worker works.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hogshare.engine.home import WorkerHome
from hogshare.engine.rule_states import without_prefix
from hogshare.engine.workspace import Workspace
from hogshare.kernels import layout
from hogshare.planes.protocol import Plane, PlaneError

PREFIX = "plane_"  # prefix of the names of a plane's own arrays among a run's arrays
HOMES = "homes"  # the name of all homes' vectors in a checkpoint


class HomeVectors:
    """The vectors of one run's homes.

    plane : a plane with homes
    """

    def __init__(self, session: Workspace, plane: Plane) -> None:
        self.session = session
        self.plane = plane
        self.n_workers, self.local_workers = session.settings.n_workers, session.local_workers
        self.arrays = without_prefix(session.arrays, PREFIX)
        self.table = session.schedule.table
        self.brought: np.ndarray | None = None  # all sites' homes, as last reported
        self.name = type(plane).__name__

    def scatter(self) -> None:
        """Start every worker from the run's vector; called while no worker works."""
        session = self.session
        session.arrays["vectors"][:, : session.size] = session.vector.w
        session.arrays["vector_intercepts"][:] = session.vector.intercept
        for k in self.local_workers:
            session.private(k).w[:] = session.vector.w
        local = session.locals()
        local[:, layout.L_SCALE] = 1.0
        local[:, layout.L_INTERCEPT] = session.vector.intercept
        start = WorkerHome(session, self, self.local_workers.start).read()
        self.plane.begin(self.arrays, start)
        if self.n_workers > len(self.local_workers):
            self.brought = np.tile(start, (self.n_workers, 1))

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the vector and the intercepts of the model that the plane makes of the homes.

        Raises PlaneError if the plane returns anything else.
        """
        living = self._inhabited()
        self.plane.bury(self.arrays, self.table[:, layout.T_STATE] == layout.DEAD)
        homes = np.stack([self.vector_of(int(k)) for k in living])
        if self.plane.whose is not None and self.plane.whose in living:
            return self._cut(homes[list(living).index(self.plane.whose)])
        try:
            found = np.asarray(self.plane.model(homes, self.arrays))
        except Exception as error:
            raise self.error("model", error) from error
        if found.shape != homes.shape[1:] or found.dtype.kind != "f":
            raise PlaneError(
                f"The plane {self.name} has to make a model of shape "
                f"{homes.shape[1:]} of the homes; it made {found.dtype} of shape {found.shape}."
            )
        return self._cut(found)

    def vector_of(self, worker: int) -> np.ndarray:
        """Return a copy of a worker's vector, or the last reported vector of a remote worker."""
        if worker in self.local_workers:
            return WorkerHome(self.session, self, worker).read()
        assert self.brought is not None
        return np.asarray(self.brought[worker])

    def _cut(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cut a home's vector into the vector of coefficients and the intercepts."""
        m, session = self.session.size, self.session
        w, intercept = vector[:m].astype(session.vector.w.dtype), vector[m:].astype(np.float64)
        return w, intercept if len(intercept) else session.vector.intercept

    def state(self) -> dict[str, np.ndarray]:
        """Return the state for a checkpoint: copies of the homes and of the plane's arrays.

        Call it while no worker works, because all homes are then of the same round. In place of a
        dead worker's home, the state has the model.
        """
        w, intercept = self.model()
        model = np.concatenate((w.astype(np.float64), intercept))
        living = set(self._inhabited().tolist())
        size = len(self.vector_of(self.local_workers.start))
        vectors = np.array(
            [
                self.vector_of(k)
                # with `is_direct` the vector belongs to the worker's whole group
                if k in living or self.plane.is_direct
                else model[:size]
                for k in range(self.n_workers)
            ],
            np.float64,
        )
        return {HOMES: vectors, **{f"{PREFIX}{k}": self.arrays[k] for k in self.plane.checkpointed}}

    def go_on_with(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore the homes from a checkpoint's state.

        If the checkpoint has another number of homes or other shapes, no home changes: all homes
        continue from the checkpoint's model.
        """
        found = {
            k: state.get(k) for k in (HOMES, *(f"{PREFIX}{k}" for k in self.plane.checkpointed))
        }
        vectors = found.pop(HOMES)
        size = len(self.vector_of(self.local_workers.start))
        if vectors is None or vectors.shape != (self.n_workers, size):
            return
        restored = [
            (self.arrays[name.removeprefix(PREFIX)], array)
            for name, array in found.items()
            if array is not None
        ]
        # restore all arrays or none, since sums belong to their vectors; empty arrays are not used
        if any(own.size and own.shape != array.shape for own, array in restored):
            return
        for k in self.local_workers:
            WorkerHome(self.session, self, k).write(vectors[k])
        if self.brought is not None:
            self.brought[:] = vectors
        for own, array in restored:
            if own.size:
                own[...] = array
        self.plane.resume(self.arrays)

    def disagreement(self) -> float:
        """Return the root mean square, over workers, of the vector's distance from the mean."""
        homes = [self.vector_of(int(k)) for k in self._inhabited()]
        away = np.stack(homes).astype(np.float64)
        away -= away.mean(axis=0)
        return float(np.sqrt(np.square(away).sum() / len(away)))

    def _inhabited(self) -> np.ndarray:
        """Return the living workers that have completed a block; if there are none, all workers."""
        table = self.table
        live = (table[:, layout.T_STATE] != layout.DEAD) & (table[:, layout.T_BLOCKS] > 0)
        return np.flatnonzero(live) if live.any() else np.arange(len(table))

    def gather(self) -> None:
        """Write the model into the run's vector; called while no worker works."""
        w, intercept = self.model()
        self.session.vector.w[:] = w
        self.session.vector.intercept[:] = intercept

    def error(self, what: str, error: Exception) -> PlaneError:
        """Return the error to raise when the plane's code has raised an error."""
        return PlaneError(
            f"The plane {self.name} raised in {what}: {type(error).__name__}: {error}"
        )
