"""scikit-learn's faces: they validate, build a problem, call `solve`, and set attributes."""
