"""How many components? Our answers beside HDP's and the usual recipes, on simulated data.

Data sets are drawn from GaP with K* components. A recipe is given the counts and a grid of ranks
that has K* inside, and names a rank. LDA and NMF have no answer of their own: their users fit a
grid and take the best held-out perplexity or the best coherence. For cNMF, users look at the
stability of the consensus; here the most stable rank is taken.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp

from peers import consensus, gensim_models, measures, sklearn_models, tomotopy_models
from peers.cell import Cell
from peers.data import split
from peers.protocol import Fitted
from peers.watch import Watch, cpu_seconds
from simulated import simulate

USUAL: dict[str, Any] = {"N": 500, "F": 100, "counts": 200, "alpha": 0.3, "spread": 0.1}
CASES: dict[str, dict[str, Any]] = {
    "usual": USUAL,
    "overlapping": USUAL | {"spread": 1.0},
    "few counts": USUAL | {"counts": 40},
}
GRIDS = {5: (2, 3, 4, 5, 6, 7, 8, 10), 10: (4, 6, 8, 9, 10, 11, 12, 15, 20)}
CNMF_RUNS = 20  # per rank

Recipe = Callable[[sp.csr_array, int, tuple[int, ...], int], tuple[int, dict[str, Any]]]


def _no_looks(limit: float = 60.0) -> Watch:
    watch = Watch(lambda fitted: {}, limit)
    watch.next_look = float("inf")
    return watch


def rank_report(X: sp.csr_array, K: int, grid: tuple[int, ...], seed: int) -> tuple[int, dict]:
    """Fit twice as many components, and ask which are worth keeping."""
    from gapmf import GammaPoissonMF

    est = GammaPoissonMF(2 * K, learn_alpha=True, random_state=seed, n_jobs=1).fit(X)
    return int(est.rank_report(X).rank), {}


def select(X: sp.csr_array, K: int, grid: tuple[int, ...], seed: int) -> tuple[int, dict]:
    """Fit each rank, and compare how well they predict held-out counts."""
    from gapmf import GammaPoissonMF, select_rank

    est = GammaPoissonMF(learn_alpha=True, random_state=seed, n_jobs=1)
    return int(select_rank(X, grid, estimator=est).n_components), {}


def hdp(X: sp.csr_array, K: int, grid: tuple[int, ...], seed: int) -> tuple[int, dict]:
    """Fit an HDP from its default start, two topics; the number of live topics."""
    fitted = tomotopy_models.fit_hdp(X, 2, seed, 1, _no_looks())
    theta = fitted.infer(X[:200]).mean(axis=0)
    return fitted.components.shape[0], {"with a share above 1 %": int((theta > 0.01).sum())}


def by_perplexity(fit: Callable[..., Fitted]) -> Recipe:
    """Return the recipe "lowest perplexity of held-out samples"."""

    def recipe(X: sp.csr_array, K: int, grid: tuple[int, ...], seed: int) -> tuple[int, dict]:
        parts = split(X, None, seed)
        base = measures.background(parts.train)
        values = {}
        for k in grid:
            fitted = fit(parts.train, k, seed, 1, _no_looks())
            theta = fitted.infer(parts.shown)
            values[k] = measures.completion_perplexity(parts.hidden, theta, fitted.components, base)
        return min(values, key=values.__getitem__), {"perplexities": values}

    return recipe


def by_coherence(fit: Callable[..., Fitted]) -> Recipe:
    """Return the recipe "highest NPMI coherence"."""

    def recipe(X: sp.csr_array, K: int, grid: tuple[int, ...], seed: int) -> tuple[int, dict]:
        values = {k: measures.npmi(X, fit(X, k, seed, 1, _no_looks()).components) for k in grid}
        return max(values, key=values.__getitem__), {"coherences": values}

    return recipe


def by_stability(X: sp.csr_array, K: int, grid: tuple[int, ...], seed: int) -> tuple[int, dict]:
    """Take the rank whose cNMF runs agree best, by its silhouette."""
    with tempfile.TemporaryDirectory() as folder, consensus.quietly():
        run = consensus.prepared(X, list(grid), seed, CNMF_RUNS, folder)
        values = {}
        for k in grid:
            stats = run.consensus(
                k, skip_density_and_return_after_stats=True, show_clustering=False
            )
            values[k] = float(stats.loc["silhouette", "stats"])
    return max(values, key=values.__getitem__), {"stabilities": values}


RECIPES: dict[str, Recipe] = {
    "gapmf, rank_report": rank_report,
    "gapmf, select_rank": select,
    "HDP, tomotopy": hdp,
    "LDA tomotopy, perplexity": by_perplexity(tomotopy_models.lda(0.01)),
    "LDA tomotopy, coherence": by_coherence(tomotopy_models.lda(0.01)),
    "LDA scikit-learn, perplexity": by_perplexity(sklearn_models.fit_batch),
    "LDA gensim, coherence": by_coherence(gensim_models.fit),
    "KL-NMF, perplexity": by_perplexity(sklearn_models.fit_nmf),
    "cNMF, stability": by_stability,
}


def run_rank(cell: Cell) -> dict[str, Any]:
    """Return the rank that a recipe names for one data set; a failure is a result with a reason."""
    warnings.simplefilter("ignore")
    result: dict[str, Any] = {"cell": asdict(cell), "key": cell.key}
    try:
        X = sp.csr_array(simulate(cell.seed, K=cell.K, **CASES[cell.data]))
        grid = GRIDS[cell.K]
        if cell.quick:
            X, grid = X[:100], (2, cell.K, 2 * cell.K)
        for largest in (4, 400):  # imports and compiles: not a part of what is measured
            few = X[:60].copy()
            few.data = np.minimum(few.data, 4)
            few.data[:1] = largest
            with contextlib.suppress(Exception):  # too little data for some
                RECIPES[cell.peer](few, 2, (2, 3), 0)
        start = cpu_seconds()
        rank, notes = RECIPES[cell.peer](X, cell.K, grid, cell.seed)
    except Exception as reason:  # recorded, and shown in the table
        return result | {"reason": f"{type(reason).__name__}: {reason}"[:500]}
    return result | {"rank": int(np.int64(rank)), "cpu": cpu_seconds() - start, "notes": notes}
