"""
Parts of handwritten digits
===========================

The pixels of scikit-learn's digits are counts of dark points, from 0 to 16. Components are parts of digits.
"""

from sklearn.datasets import load_digits

import gapmf

digits = load_digits()
X, label = digits.data[:800], digits.target[:800]
est = gapmf.GammaPoissonMF(n_components=12, tol=3e-5, random_state=0).fit(X)

# %%
# Twelve components, the largest first.
axes = gapmf.plot.components(est, image=(8, 8))

# %%
# Which parts does each digit have? One thin column per image, grouped by digit.
ax = gapmf.plot.structure(est, X, groupby=label)

# %%
# Which components are alike? The ends of neighbouring strokes overlap.
ax = gapmf.plot.similarity(est)
