"""Matrix factorisation: ratings, pairs, alternating least squares, top lists."""
