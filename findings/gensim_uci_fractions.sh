#!/usr/bin/env bash
# gensim 4.4.0, UciCorpus.serialize of a corpus whose weights are no whole numbers (as TfidfModel's).
# One would guess: the weights are written as they are, as MmCorpus does, or refused.
# Seen: decimals are cut off without a warning: 1.75 is written as 1, and a weight below 1 is left
# out. Documents that have only such weights are empty when the file is read back.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
    gensim==4.4.0 scipy==1.17.1 numpy==2.4.6

cat > finding.py <<'PYTHON'
import warnings

from gensim.corpora import MmCorpus, UciCorpus
from gensim.models import TfidfModel

documents = [[(0, 1.75), (1, 0.5)], [(1, 0.25)], [(2, 3)]]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    UciCorpus.serialize("docword.txt", documents)
    MmCorpus.serialize("corpus.mm", documents)
print("warnings:", [str(w.message) for w in caught])
assert not caught
print("MmCorpus reads: ", list(MmCorpus("corpus.mm")))
read = [list(document) for document in UciCorpus("docword.txt")]
print("UciCorpus reads:", read)
assert list(MmCorpus("corpus.mm")) == documents
assert read == [[(0, 1)], [], [(2, 3)]]

counts = [[(0, 2), (1, 1), (2, 1)], [(1, 1), (3, 4)], [(2, 1), (3, 1)]]
model = TfidfModel(counts)
UciCorpus.serialize("tfidf.txt", [model[document] for document in counts])
read = [list(document) for document in UciCorpus("tfidf.txt")]
print("tf-idf:", [len(model[document]) for document in counts], "words, read back:", read)
assert min(len(model[document]) for document in counts) > 1 and read == [[], [], []]
PYTHON
timeout 120 venv/bin/python finding.py
