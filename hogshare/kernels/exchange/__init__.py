"""Exchanges between copies of the model: private copies, centres, reduces, the master."""
