"""
Topics in text
==============

Words that occur in the same documents form a topic. The documents are drawn from four lists of words, with 5 % of
words from anywhere.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer

import gapmf

rng = np.random.default_rng(0)
topics = {
    "kitchen": "bread butter oven flour sugar recipe salt dough yeast pan".split(),
    "garden": "soil seed rose rain spade hedge lawn tulip bee compost".split(),
    "railway": "train track signal ticket platform station tunnel guard rail delay".split(),
    "music": "violin sonata choir tempo opera cello melody chord organ rhythm".split(),
}
everything = [word for words in topics.values() for word in words]
weights = 1 / np.arange(1, 11)
weights /= weights.sum()
texts, labels = [], []
for size, (name, words) in zip([90, 70, 50, 35], topics.items(), strict=True):
    for _ in range(size):
        other = list(topics)[rng.integers(4)]
        own = rng.beta(3, 1)
        text = []
        for _ in range(rng.poisson(50)):
            source = words if rng.random() < own else topics[other]
            if rng.random() < 0.05:
                text.append(rng.choice(everything))
            else:
                text.append(rng.choice(source, p=weights))
        texts.append(" ".join(text))
        labels.append(name)

# %%
# Counting words, and fitting
# ---------------------------
counter = CountVectorizer()
names = counter.fit(texts).get_feature_names_out()
X = pd.DataFrame(counter.transform(texts).toarray(), columns=names)
est = gapmf.GammaPoissonMF(n_components=4, alpha=0.3, random_state=0).fit(X)

# %%
# Each topic with its distinctive words, the largest topic first. The length of a bar is the weight of the word.
axes = gapmf.plot.components(est, n_features=8)

# %%
# What documents are about
# ------------------------
# One thin column per document, coloured by the shares of its topics, and grouped by the list that it was mostly drawn from.
ax = gapmf.plot.structure(est, X, groupby=labels)

# %%
# A document about two topics, with 90 % intervals, and its first twelve words alone.
mixed = np.sort(est.proportions(X))[:, -2].argmax()
text = texts[mixed].split()
pair = counter.transform([" ".join(text), " ".join(text[:12])]).toarray()
pair = pd.DataFrame(pair, columns=names)
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3), layout="constrained")
for n, title in enumerate([f"all {len(text)} words", "twelve words"]):
    gapmf.plot.activations(est, pair, n, name=title, ax=axes[n])
    axes[n].set_ylabel("expected counts, 90 %" if n == 0 else "")
