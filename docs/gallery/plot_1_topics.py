"""
Topics in text
==============

Words that occur in the same documents form a topic. The documents are drawn from four lists of words, with 5 % of
words from anywhere.
"""

import numpy as np
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
texts, labels = [], []
for name, words in topics.items():
    for _ in range(60):
        other = list(topics)[rng.integers(4)]
        own = rng.beta(3, 1)
        text = []
        for _ in range(rng.poisson(50)):
            source = words if rng.random() < own else topics[other]
            noisy = rng.random() < 0.05
            text.append(rng.choice(everything if noisy else source, p=None if noisy else weights / weights.sum()))
        texts.append(" ".join(text))
        labels.append(name)

# %%
# Counting words, and fitting
# ---------------------------
counter = CountVectorizer()
X = counter.fit_transform(texts)
est = gapmf.GammaPoissonMF(n_components=4, alpha=0.3, random_state=0).fit(X)
est.feature_names_in_ = counter.get_feature_names_out()

# %%
# Each topic with its distinctive words, the largest topic first. The length of a bar is the weight of the word.
axes = gapmf.plot.components(est, n_features=8)

# %%
# What documents are about
# ------------------------
# One thin column per document, coloured by the shares of its topics, and grouped by the list that it was mostly drawn from.
ax = gapmf.plot.structure(est, X, groupby=labels)

# %%
# Two documents, with 90 % intervals: a long one, and its first ten words alone.
import matplotlib.pyplot as plt  # noqa: E402

figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained", sharey=True)
pair = counter.transform([texts[0], " ".join(texts[0].split()[:10])])
for n, title in enumerate(["all words", "ten words"]):
    gapmf.plot.activations(est, pair, n, name=title, ax=axes[n])
