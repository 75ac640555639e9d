"""The compiled functions of the virtual clock, whose arguments are arrays and numbers only."""
