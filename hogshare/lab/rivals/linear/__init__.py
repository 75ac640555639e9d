"""The race of linear models."""
