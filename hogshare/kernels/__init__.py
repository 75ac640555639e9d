"""Numba kernels: pure functions over arrays. No classes with state, no I/O, no clocks, no sibling packages."""
