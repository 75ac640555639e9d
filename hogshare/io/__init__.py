"""Readers of rows, their sources of bytes, archives, plain documents and tables."""
