"""EM with a learned α does not end on the plateau at large α when a better model is near."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from learned_problems import MODES, load
from scipy.optimize import minimize
from scipy.special import gammaln

from gapmf import GammaPoissonMF, GaP
from gapmf.em.alpha import LARGEST
from gapmf.em.exact_em import leave_plateau

# Eight samples whose columns, while they are alike, vary less than Poisson counts.
X = np.array(
    [
        [1, 3, 1, 0], [0, 0, 3, 0], [0, 1, 2, 1], [0, 0, 2, 2],
        [0, 1, 0, 0], [0, 0, 0, 1], [1, 1, 0, 2], [0, 1, 3, 3],
    ]
)  # fmt: skip


def fitted(algorithm, mode, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GammaPoissonMF(2, algorithm=algorithm, learn_alpha=mode, random_state=seed).fit(X)


def outside_optimum(mode):
    """The best of a few runs of a general optimiser over log W and log α.

    The likelihood is the paper's sum over all ways to divide the counts between two components.
    """
    ways = [(n, c) for n, x in enumerate(X) for c in itertools.product(*(range(v + 1) for v in x))]
    sample, first = np.array([n for n, _ in ways]), np.array([c for _, c in ways])
    begins = np.searchsorted(sample, np.arange(len(X)))
    C = np.stack([first, X[sample] - first], axis=2)  # ways × features × components
    L, constant = C.sum(axis=1), -gammaln(C + 1.0).sum(axis=(1, 2))
    sizes = np.arange(L.max() + 1)[:, None]

    def cost(x):
        log_W, alpha = x[:8].reshape(4, 2), np.exp(x[8:]) * np.ones(2)
        log_norms = np.log1p(np.exp(log_W).sum(axis=0))
        terms = C.reshape(-1, 8) @ (log_W - log_norms).ravel() - alpha @ log_norms + constant
        rising = gammaln(alpha + sizes) - gammaln(alpha)
        terms += rising[L[:, 0], 0] + rising[L[:, 1], 1]
        return -np.logaddexp.reduceat(terms, begins).sum()

    n_alpha = 1 if mode == "shared" else 2
    bounds = [(-12.0, 5.0)] * 8 + [(np.log(1e-4), np.log(1e4))] * n_alpha
    starts = np.random.default_rng(0).normal(0.0, 1.0, (4, 8 + n_alpha))
    return -min(minimize(cost, x, bounds=bounds, method="L-BFGS-B").fun for x in starts)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "seeds"), [("component", (0, 2)), ("shared", (0,))])
def test_em_c_reaches_the_maximum_from_several_starts(mode, seeds):
    """The starts of seed 0 lead over the plateau, that of seed 2 does not."""
    best = fitted("exact", mode, 0).log_likelihood_
    assert best == pytest.approx(outside_optimum(mode), abs=1e-3)
    for seed in seeds:
        est = fitted("em-c", mode, seed)
        assert est.converged_
        assert est.log_likelihood_ > best - 1e-3
        assert np.diff(est.history_["log_likelihood"]).min() > -1e-10


@pytest.mark.parametrize("mode", MODES)
def test_one_step_leaves_the_plateau_for_a_better_model(mode):
    expect = load(X, mode)
    mean = X.mean(axis=0)[:, None] / LARGEST
    alike = GaP(mean * [0.5, 0.5], LARGEST)
    value = expect.e_step(alike).log_likelihood
    better = leave_plateau(expect, alike, value)
    assert expect.e_step(better).log_likelihood > value + 0.1
    np.testing.assert_allclose(better.expected_counts(), X.mean(axis=0), rtol=1e-12)
    assert (np.ptp(better.alpha) == 0.0) == (mode == "shared")


def test_only_several_components_at_the_bound_are_a_plateau():
    expect = load(X)
    mean = X.mean(axis=0)[:, None]
    one = GaP(mean * [0.5, 0.5] / [LARGEST, 2.0], [LARGEST, 2.0])
    assert leave_plateau(expect, one, -np.inf) is None


def test_poisson_counts_stay_on_the_plateau():
    """Rows that do not vary at all have no direction in which they vary more than Poisson."""
    expect = load(np.full((6, 3), 4))
    model = GaP(np.full((3, 2), 2.0 / LARGEST), LARGEST)
    assert leave_plateau(expect, model, expect.e_step(model).log_likelihood) is None
