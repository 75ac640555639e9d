"""Compiling and caching kernels, and their calls of the processor and the system."""
