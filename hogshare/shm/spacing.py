"""How far apart what different workers write has to be."""

# Bytes. A cache line is 64, and processors fetch them in pairs; but where a small vector is read
# again and again, row by row, they also fetch what comes after it, up to 20 lines ahead on Intel's
# and within a page. So a neighbour that is never touched travels to and fro: with 128 bytes two
# threads took 4.3 ms for an epoch of ijcnn1, of 22 features, where one takes 3.1; with 512 or more
# 1.7, and with 2,048 they are 7 % faster than with 1,024 on 123 features (docs/performance.md).
APART = 2048
