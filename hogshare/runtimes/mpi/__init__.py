"""Ranks of MPI as one run: every rank makes the same call, and each gets the same report."""
