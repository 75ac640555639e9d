"""Shared memory: the arena, shared rows, and the progress table; no losses and no solvers."""
