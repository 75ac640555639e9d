"""
Topics' words
=============

``LatentDirichletAllocation`` finds groups of words in documents without labels. These documents are
made of four vocabularies, and most have words of two. The fit recovers the vocabularies as topics.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from hogshare import LatentDirichletAllocation

VOCABULARIES = [
    "flour butter oven sugar yeast dough salt bake",
    "goal match league striker referee penalty pitch coach",
    "guitar chord melody drum concert singer album rhythm",
    "planet orbit telescope comet gravity moon rocket galaxy",
]
draws = np.random.default_rng(0)
weights = 1 / np.arange(1, 9)  # the first word of a vocabulary is its most frequent
documents = []
for _ in range(2_000):
    shares = draws.dirichlet(np.full(4, 0.3))
    topics = draws.choice(4, size=40, p=shares)
    ranks = draws.choice(8, size=40, p=weights / weights.sum())
    pairs = zip(topics, ranks, strict=True)
    documents.append(" ".join(VOCABULARIES[topic].split()[rank] for topic, rank in pairs))

counter = CountVectorizer()
model = LatentDirichletAllocation(
    4, learning_method="online", batch_size=64, max_iter=10, n_jobs=-1, random_state=0
).fit(counter.fit_transform(documents))
words = counter.get_feature_names_out()

# %%
# A bar is a word's share of its topic.

fig, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
shares = model.components_ / model.components_.sum(axis=1, keepdims=True)
for number, (ax, share) in enumerate(zip(axes, shares, strict=True)):
    top = share.argsort()[-8:]
    ax.barh(words[top], share[top])
    ax.set(title=f"topic {number}", xlabel="share")
plt.show()
