"""Fitted models in files that hold numbers and names, and no code."""
