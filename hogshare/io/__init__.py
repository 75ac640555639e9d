"""Files: readers of rows, where their bytes come from, archives, and files replaced as a whole."""
