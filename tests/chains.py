"""Chains of the kernel seen one by one: h and C of every sample, not only their sums."""

import numpy as np
import scipy.sparse as sp

from gapmf.engines import local
from gapmf.engines.base import State, Sweeps
from gapmf.kernels.desk import Sums
from gapmf.kernels.gibbs import advance


def one_sweep(X, model, L, seed, *, iteration=0, expectations=False):
    """One sweep of every row from L: new L (N, K), h (N, K) and C (N, F, K)."""
    engine = local.LocalEngine().load(sp.csr_array(X), seed)
    engine.state = State(L, iteration)
    weights = local.weigh(model)
    plan = engine._plan(model, Sweeps(1, 0, expectations=expectations))
    N, (F, K) = len(L), model.W.shape
    new, g, C = np.empty_like(L), np.empty((N, K)), np.empty((N, F, K))
    for n in range(N):
        sums = Sums(np.zeros(weights.rows.size), np.zeros(K), np.zeros((K, 0), dtype=np.int64))
        advance(n, n + 1, engine._lanes, weights, plan, L, new, sums)
        g[n] = sums.g / plan.g_unit
        C[n] = sums.c.reshape(F, -1)[:, :K] / plan.c_unit
    return new, g / weights.rate, C


def draws(v, model, *, n_chains, n_burn_in, seed, expectations=False):
    """Independent draws of (L, h, C) given one sample v: the ends of as many chains."""
    X = np.tile(np.asarray(v, dtype=np.int64), (n_chains, 1))
    engine = local.LocalEngine().load(sp.csr_array(X), seed)
    engine.advance(model, Sweeps(1, n_burn_in))
    L = engine.state.L
    return one_sweep(X, model, L, seed, iteration=1, expectations=expectations)
