"""Conditional sequential Monte Carlo: the inverse of the probability is unbiased."""

from __future__ import annotations

import numpy as np
import pytest
from sample_cases import CASES, a_sample

from component_sizes import law_of_sizes
from gapmf.kernels.conditional_smc import estimate_above, make_room
from gapmf.kernels.particles import make_particles


@pytest.mark.slow
@pytest.mark.parametrize("guide", [[0.0, 0.0, 0.0], [1.0, 0.2, 3.0]])
@pytest.mark.parametrize(("W", "alpha", "v"), CASES[:2])
def test_the_inverse_is_unbiased_from_exact_draws(W, alpha, v, guide):
    """Of reverse runs with few particles, around exact posterior draws, whatever the guide."""
    model, sample, factor = a_sample(W, alpha, v)
    sizes, law = law_of_sizes(v, model)
    rng = np.random.default_rng(0)
    at, path = make_particles(4, len(alpha), len(v)), make_room(sample.counts, len(alpha))
    ratios = []
    for name, m in enumerate(rng.choice(len(law), size=8000, p=law)):
        value = estimate_above(
            np.arange(len(v)), sample.counts, sample.p, sample.alpha,
            np.array(guide[: len(alpha)]), model.alpha + sizes[m],
            (np.uint64(2), np.uint64(name)), at, path,
        )  # fmt: skip
        ratios.append(np.exp(factor - value - sample.constant))
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert 1e-4 < error < 0.02
    assert abs(np.mean(ratios) - 1.0) < 4 * error
