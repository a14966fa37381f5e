"""Runs of single islands, and data for the sequential sampler."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from gapmf import GaP, log_marginal_likelihood
from gapmf.kernels import token_smc as kernel
from gapmf.kernels.particles import make_particles
from gapmf.likelihood.exact import scaled_probabilities


def estimates(model, v, n_runs, n_particles, guide=0.0, seed=0, spacing=kernel.MOVE):
    """exp(log-estimate − exact) of independent runs of a single island."""
    v = np.asarray(v)
    features = np.flatnonzero(v)
    counts = v[features].astype(np.int64)
    p, log_scale = scaled_probabilities(model.W[features], model.column_norms + model.beta)
    at = make_particles(n_particles, model.n_components, features.size)
    J = features.size
    rows = np.arange(n_runs + 1) * J
    values, variances = np.empty((2, n_runs))
    kernel.estimates(
        rows, np.tile(np.arange(J), n_runs), np.tile(counts, n_runs), p, model.alpha,
        np.tile(guide * np.ones(model.n_components), (n_runs, 1)), spacing, np.uint64(seed),
        np.arange(n_runs, dtype=np.uint64), at, values, variances,
    )  # fmt: skip
    exact = log_marginal_likelihood(v[None], model).total
    constant = counts @ log_scale - gammaln(counts + 1.0).sum()
    constant -= model.alpha @ np.log1p(model.column_norms / model.beta)
    return np.exp(values + constant - exact), variances


def a_data_set(N=12, K=6, F=30):
    rng = np.random.default_rng(3)
    model = GaP(rng.gamma(0.3, 10.0, (F, K)), alpha=10 ** rng.uniform(-1, 0.5, K))
    return model.sample(N, random_state=1), model
