"""The virtual clock's compiled functions, of arrays and numbers only."""
