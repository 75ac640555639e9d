"""Readers of rows, where their bytes come from, archives, plain documents and tables."""
