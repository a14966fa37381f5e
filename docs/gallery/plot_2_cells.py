"""
Programs in single cells
========================

Simulated cells of three types with five gene programs, and sequencing depths that differ by a factor of ten. The fit takes
depth as given.
"""

import anndata
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gapmf

rng = np.random.default_rng(1)
n_cells, n_genes = 450, 120
programs = rng.dirichlet(np.full(n_genes, 0.08), 5)
kinds = np.repeat(["T cell", "B cell", "monocyte"], 150)
typical = {
    "T cell": [4, 0.5, 0.1, 0.3, 1],
    "B cell": [0.1, 4, 0.5, 0.3, 1],
    "monocyte": [0.1, 0.1, 3, 2, 1],
}
activity = rng.gamma([typical[kind] for kind in kinds])
shares = activity / activity.sum(axis=1, keepdims=True)
depth = 10 ** rng.uniform(2, 3, n_cells)
counts = rng.poisson(depth[:, None] * (shares @ programs))
adata = anndata.AnnData(
    counts.astype(float),
    obs=pd.DataFrame(
        {"cell_type": pd.Categorical(kinds)}, index=[f"cell {n}" for n in range(n_cells)]
    ),
    var=pd.DataFrame(index=[f"gene {f}" for f in range(n_genes)]),
)

# %%
# The fit writes its results into the object: proportions of cells to ``obsm``, components to ``varm``.
estimator = gapmf.GammaPoissonMF(5, alpha=0.5, random_state=0)
est = gapmf.fit_anndata(adata, estimator, size_factor="total")
adata

# %%
# Programs by cell type
# ---------------------
ax = gapmf.plot.structure(adata, groupby="cell_type")

# %%
# Distinctive genes
# -----------------
# How much more frequent a gene is in a program than in the others.
ax = gapmf.plot.heatmap(adata)

# %%
# A map of cells
# --------------
# A UMAP of the proportions, with the Hellinger distance, which is made for proportions. Without umap-learn, the first two
# principal components of the roots of proportions.
P = adata.obsm["X_gap"]
try:
    import umap
except ImportError:
    from sklearn.decomposition import PCA

    place, method = PCA(2).fit_transform(np.sqrt(P)), "PCA"
else:
    layout = umap.UMAP(metric="hellinger", random_state=0, n_jobs=1)
    place, method = layout.fit_transform(P), "UMAP"

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for kind in np.unique(kinds):
    axes[0].scatter(*place[kinds == kind].T, s=6, label=kind)
axes[0].legend(frameon=False, markerscale=2)
axes[0].set_title("cell type")
strongest = P.mean(axis=0).argmax()
points = axes[1].scatter(*place.T, s=6, c=P[:, strongest], cmap="viridis", vmin=0, vmax=1)
axes[1].set_title(f"proportion of program {strongest}")
figure.colorbar(points, ax=axes[1])
for ax in axes:
    ax.set(xticks=[], yticks=[], xlabel=f"{method} 1", ylabel=f"{method} 2")

# %%
# Which programs differ between cell types?
# -----------------------------------------
# Intervals are for the populations that the cells come from. A star marks a difference that is significant at 0.05 after Holm's
# correction for all comparisons.
comparison = gapmf.compare_anndata(adata, est, "cell_type")
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax = comparison.plot(ax)
