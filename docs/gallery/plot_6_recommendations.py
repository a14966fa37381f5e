"""
Recommendations
===============

Users and the songs that they play. Components are tastes; what a user may like next are the songs with the highest expected
counts among those that were not played yet.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gapmf

rng = np.random.default_rng(2)
kinds = ["jazz", "rock", "folk", "rap"]
songs = [f"{kind} {n}" for kind in kinds for n in range(1, 13)]
popularity = 1 / np.arange(1, 13) ** 0.7
tastes = np.kron(np.eye(4), popularity / popularity.sum()) + 0.002
plays = rng.poisson(30 * rng.gamma(0.25, size=(600, 4)) @ tastes)
X = pd.DataFrame(plays, columns=songs, index=[f"user {n}" for n in range(600)])

est = gapmf.GammaPoissonMF(4, alpha=0.25, random_state=0).fit(X)
axes = gapmf.plot.components(est, n_features=6)

# %%
# Three users with mixed tastes, and their recommendations.
mixed = (est.proportions(X) > 0.2).sum(axis=1) == 2
some = X[mixed].iloc[:3]
print(est.recommend(some, n=4))

# %%
# Are they any good?
# ------------------
# Hide one play in five from each user, and ask where the hidden songs stand in the list of songs that the user does not have.
hidden = rng.binomial(plays, 0.2)
seen = pd.DataFrame(plays - hidden, columns=songs)
est = gapmf.GammaPoissonMF(4, alpha=0.25, random_state=0).fit(seen)
ranked = est.recommend(seen, n=10).items
wanted = (hidden > 0) & (seen.to_numpy() == 0)
hits = np.zeros(ranked.shape)
for n, row in enumerate(ranked):
    hits[n] = [song >= 0 and wanted[n, song] for song in row]
found = hits.cumsum(axis=1).sum(axis=0) / wanted.sum()
popular = np.argsort(-seen.sum().to_numpy(), kind="stable")
baseline = np.zeros(10)
for n in range(len(plays)):
    rest = [song for song in popular if seen.iat[n, song] == 0][:10]
    baseline[: len(rest)] += wanted[n, rest]
baseline = baseline.cumsum() / wanted.sum()
lengths = range(1, 11)
figure, ax = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
ax.plot(lengths, found, "o-", label="gapmf")
ax.plot(lengths, baseline, "s--", color="grey", label="most played songs")
ax.set(xlabel="length of the list", ylabel="share of hidden songs found", ylim=(0, None))
ax.legend(frameon=False)
