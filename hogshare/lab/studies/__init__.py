"""The papers' experiments as functions that return plain data, for tables, plots and JSON."""
