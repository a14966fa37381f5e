"""
Choosing the number of components
=================================

Data with four components. First, models with several numbers of components predict held-out counts. Then a model with too
many is asked which of them it needs.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gapmf

rng = np.random.default_rng(0)
truth = gapmf.GaP(120 * rng.dirichlet(np.full(40, 0.15), 4).T, alpha=0.3)
names = [f"feature {f}" for f in range(40)]
X = pd.DataFrame(truth.sample(250, random_state=0), columns=names)

# %%
# Held-out counts
# ---------------
# Each model is fitted to four fifths of the counts and predicts the rest. The smallest model within two standard errors of
# the best is chosen.
template = gapmf.GammaPoissonMF(alpha=0.3, tol=1e-4, random_state=0)
selection = gapmf.select_rank(X, [2, 3, 4, 5, 7], estimator=template)
ax = gapmf.plot.rank_selection(selection)

# %%
# The cost of each component
# --------------------------
# A fit with six components. The cost of a component is the loss in log-likelihood of held-out counts if it is removed and
# the others are refitted. No single one is needed here, because a spare one takes over its role. So they are removed one at
# a time, as long as this costs nothing. Four remain, and each of these is needed.
est = gapmf.GammaPoissonMF(n_components=6, alpha=0.3, random_state=0).fit(X)
report = est.rank_report(X)
pruned = est.prune(X, report=report)
ax = gapmf.plot.rank_report(report)

# %%
# The four that remain. "at most": the component is clearly needed, so that its refit was not taken further, and this is an
# upper bound of its cost.
ax = gapmf.plot.rank_report(pruned.rank_report(X))

# %%
# These are the true components: cosines between the true and the fitted ones.


def directions(W):
    """Return the columns of W with length 1."""
    return W / np.linalg.norm(W, axis=0)


cosines = directions(truth.W).T @ directions(pruned.model_.W)
figure, ax = plt.subplots(figsize=(4.2, 3.4), layout="constrained")
image = ax.imshow(cosines, vmin=0, vmax=1, cmap="Blues")
ax.set(
    xlabel="component of the fit",
    ylabel="true component",
    xticks=range(cosines.shape[1]),
    yticks=range(4),
)
figure.colorbar(image, label="cosine")
