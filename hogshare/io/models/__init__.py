"""Fitted models in files of numbers and strings, without code."""
