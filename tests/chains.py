"""Chains of the kernel seen one by one: h and C of every sample, not only their sums."""

import numpy as np
import scipy.sparse as sp

from gapmf.counts import check_counts
from gapmf.engines import local
from gapmf.engines.base import Sweeps
from gapmf.engines.local import scales_for
from gapmf.engines.parts import extent_of, lay_out
from gapmf.kernels.dictionary import make_weights
from gapmf.kernels.gibbs_layout import EStepPlan, Sums, make_deferred, make_workspace
from gapmf.kernels.one_sweep import add_by_feature, advance_once, tile_stride


def one_sweep(X, model, L, seed, *, iteration=0, expectations=False):
    """One sweep of every row from L: new L (N, K), h (N, K) and C (N, F, K)."""
    counts = check_counts(X)
    engine = local.LocalEngine().load(counts, seed)
    layout = lay_out(counts, 1, block_size=1)
    extent = extent_of(layout)
    sweeps = Sweeps(1, 0, expectations=expectations)
    weights = make_weights(model.W, model.column_norms, model.alpha, model.beta)
    scales = scales_for(engine.totals, engine.n_samples, model, sweeps)
    plan = EStepPlan(np.uint64(seed), iteration, 0, 1, 0, expectations)
    N, (F, K) = len(L), model.W.shape
    K4 = weights.rows.size // F
    new, g, C = np.empty_like(L), np.empty((N, K)), np.empty((N, F, K))
    n_tile = K4 * tile_stride(K4)
    workspace = make_workspace(extent.most_lanes, extent.most_tokens, K, plan, n_tile)
    deferred = make_deferred(extent.most_lanes, 1, K)
    where = layout.lanes, layout.large, weights, plan, scales, L, new, None, workspace
    for n in range(N):
        sums = Sums(np.zeros(weights.rows.size), np.zeros(2 * K), np.zeros((K, 0), np.int64))
        advance_once(n, layout.blocks, *where, deferred, sums)
        if expectations:
            add_by_feature(n, layout.blocks, weights, scales, K4, deferred, sums.c)
        g[n] = (sums.g[:K] + sums.g[K:] / scales.g_low) / scales.g
        C[n] = sums.c.reshape(F, -1)[:, :K]
    C /= scales.c[:, None]
    return new, g / (model.column_norms + model.beta), C


def burnt_in(v, model, *, n_chains, n_burn_in, seed):
    """Chains of one sample v after some sweeps: as many samples, and L (n_chains, K)."""
    X = np.tile(np.asarray(v, dtype=np.int64), (n_chains, 1))
    engine = local.LocalEngine().load(sp.csr_array(X), seed)
    engine.advance(model, Sweeps(1, n_burn_in))
    return X, engine.state.L


def draws(v, model, *, n_chains, n_burn_in, seed):
    """Independent draws of (L, h, C) given one sample v: the ends of as many chains."""
    X, L = burnt_in(v, model, n_chains=n_chains, n_burn_in=n_burn_in, seed=seed)
    return one_sweep(X, model, L, seed, iteration=1)
