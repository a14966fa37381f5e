"""Chains of the kernel seen one by one: h and C of every sample, not only their sums."""

import numpy as np
import scipy.sparse as sp

from gapmf.counts import check_counts
from gapmf.engines import local
from gapmf.engines.base import Sweeps
from gapmf.engines.local import scales_for
from gapmf.kernels.dictionary import make_weights
from gapmf.kernels.gibbs import advance
from gapmf.kernels.gibbs_layout import (
    ByFeature,
    Deferred,
    EStepPlan,
    Sums,
    make_beyond,
    make_workspace,
)
from gapmf.kernels.gibbs_loops import add_by_feature


def one_sweep(X, model, L, seed, *, iteration=0, expectations=False):
    """One sweep of every row from L: new L (N, K), h (N, K) and C (N, F, K)."""
    counts = check_counts(X)
    engine = local.LocalEngine().load(counts, seed)
    sweeps = Sweeps(1, 0, expectations=expectations)
    weights = make_weights(model.W, model.column_norms, model.alpha, model.beta)
    units = scales_for(engine.totals, engine.n_samples, model, sweeps)
    plan = EStepPlan(np.uint64(seed), iteration, 0, 1, 0, expectations)
    N, (F, K) = len(L), model.W.shape
    new, g, C = np.empty_like(L), np.empty((N, K)), np.empty((N, F, K))
    deferred = engine._make_deferred(weights, sweeps)
    workspace = make_workspace(*engine._largest, K, plan)
    beyond = make_beyond(engine._largest[0], K, plan)
    where = engine._lanes, engine._large, engine._columns, weights, plan, units, L, new
    for n in range(N):
        sums = Sums(np.zeros(weights.rows.size), np.zeros(2 * K), np.zeros((K, 0), np.int64))
        advance(n, n + 1, *where, workspace, deferred, beyond, sums)
        g[n] = (sums.g[:K] + sums.g[K:] / units.g_low) / units.g
        C[n] = sums.c.reshape(F, -1)[:, :K]
    if expectations:
        samples = np.repeat(np.arange(N, dtype=np.int32), np.diff(counts.indptr))
        ratio = deferred.ratio[engine._columns.place]
        apart = _add_apart(counts.indices, samples, Deferred(ratio, deferred.h), weights, units)
        C[samples, counts.indices] += apart[:, :K]
    C /= units.c[:, None]
    return new, g / (model.column_norms + model.beta), C


def _add_apart(features, samples, deferred, weights, units):
    """The expectations of every entry by itself, (nnz, K4): as if each had its own feature."""
    rows = weights.rows.reshape(units.c.size, -1)[features]
    nnz, K4 = rows.shape
    own = ByFeature(np.arange(nnz + 1), samples, np.arange(nnz))
    c = np.zeros(nnz * K4)
    add_by_feature(0, nnz, own, deferred, rows.ravel(), units.c[features], K4, c)
    return c.reshape(nnz, K4)


def draws(v, model, *, n_chains, n_burn_in, seed, expectations=False):
    """Independent draws of (L, h, C) given one sample v: the ends of as many chains."""
    X = np.tile(np.asarray(v, dtype=np.int64), (n_chains, 1))
    engine = local.LocalEngine().load(sp.csr_array(X), seed)
    engine.advance(model, Sweeps(1, n_burn_in))
    L = engine.state.L
    return one_sweep(X, model, L, seed, iteration=1, expectations=expectations)
