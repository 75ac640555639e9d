"""Numba kernels: pure functions over arrays. No state, no I/O, no clocks, no sibling packages."""
