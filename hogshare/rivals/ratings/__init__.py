"""The race of factorisations."""
