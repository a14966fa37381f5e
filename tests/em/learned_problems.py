"""Small problems in which α is learned."""

from __future__ import annotations

import numpy as np

from gapmf import GaP
from gapmf.counts import check_counts
from gapmf.em.alpha import with_alpha
from gapmf.em.exact_em import em_c_alpha_step, lower_bound_step
from gapmf.em.expectation import ExactExpectation
from gapmf.em.start import random_start

MODES = ("component", "shared")
STEPS = {"law of L": em_c_alpha_step, "lower bound": lower_bound_step}


def load(X, mode="component"):
    return ExactExpectation(check_counts(X), learn_alpha=mode)


def possible(model, X):
    return not (X[:, model.W.sum(axis=1) == 0] > 0).any()


def level(model, mode):
    return (
        with_alpha(model, np.full_like(model.alpha, model.alpha[0])) if mode == "shared" else model
    )


def random_model(X, K, seed, alpha=1.0):
    alpha, rng = np.full(K, alpha), np.random.default_rng(seed)
    return GaP(random_start(X.mean(axis=0), alpha, np.ones(K), rng), alpha)
