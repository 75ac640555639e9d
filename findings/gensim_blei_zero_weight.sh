#!/usr/bin/env bash
# gensim 4.4.0, BleiCorpus.serialize of a document that has an entry with weight zero.
# One would guess: the file has the other entries, or all of them, and BleiCorpus reads it back.
# Seen: the number that begins a line counts all entries of the document, and an entry whose weight
# is zero (or nearly) is left out behind it. Of such a file gensim's own reader raises a ValueError.
# MmCorpus leaves the entry out as well, and counts what it has written.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    gensim==4.4.0 scipy==1.17.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
from gensim.corpora import BleiCorpus, MmCorpus

documents = [[(0, 2), (1, 0), (2, 3)], [(1, 4)]]
BleiCorpus.serialize("corpus.lda-c", documents)
lines = open("corpus.lda-c").read().splitlines()
print("corpus.lda-c:", lines)
assert lines[0].split()[0] == "3" and len(lines[0].split()) == 1 + 2
try:
    print("read back:", list(BleiCorpus("corpus.lda-c")))
except ValueError as error:
    print("read back: ValueError:", error)
else:
    raise AssertionError("a line with another number of entries than it says was expected to raise")

MmCorpus.serialize("corpus.mm", documents)
read = list(MmCorpus("corpus.mm"))
print("MmCorpus reads:", read)
assert read == [[(0, 2.0), (2, 3.0)], [(1, 4.0)]]
PYTHON
timeout 120 venv/bin/python finding.py
