"""Distances in bytes between data that different workers write."""

# A cache line and its neighbour, because processors fetch lines in pairs. This is enough for single
# words, and for vectors that one worker passes to another.
PAIR = 128

# For vectors that are read repeatedly, row by row. Processors also fetch the lines after a vector,
# up to 20 lines ahead on Intel's processors and within a page. Therefore the lines of a
# neighbouring vector move between cores although only one core uses this vector. For an epoch of
# ijcnn1 (22 features), two threads took 4.3 ms with a spacing of 128 bytes, and 1.7 ms with 512
# bytes or more; one thread takes 3.1 ms. With 123 features, an epoch is 7 % faster with 2,048 bytes
# than with 1,024 bytes (docs/tried/2026-11/speed.md).
SPACING = 2048
