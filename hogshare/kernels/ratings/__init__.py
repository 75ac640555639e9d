"""Matrix factorisation: ratings, pairs, alternating least squares, lists of the best."""
