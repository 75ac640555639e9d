"""How far apart has to be what different workers write, in bytes."""

# A line and the one beside it, which processors fetch in pairs: enough for single words, and for
# vectors that are passed on.
PAIR = 128

# For vectors that are read again and again, row by row: there processors also fetch what comes
# after them, up to 20 lines ahead on Intel's and within a page. So a neighbour that is never
# touched travels to and fro: with 128 bytes two threads took 4.3 ms for an epoch of ijcnn1, of 22
# features, where one takes 3.1; with 512 or more 1.7, and with 2,048 they are 7 % faster than with
# 1,024 on 123 features (docs/tried/2026-11/speed.md).
SPACING = 2048
