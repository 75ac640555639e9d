"""Runs on MPI ranks: messages between machines."""
