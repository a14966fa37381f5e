"""Chib's identity: unbiased for chains of any length."""

from __future__ import annotations

import numpy as np
import pytest
from sample_cases import CASES, a_sample

from gapmf.likelihood import chib
from gapmf.likelihood.sample import draw_shapes


@pytest.mark.slow
@pytest.mark.parametrize(("W", "alpha", "v"), CASES)
def test_chib_is_unbiased_for_chains_of_any_length(W, alpha, v, monkeypatch):
    """Even with chains of three sweeps, which have not mixed; the mean has four sigmas."""
    _, sample, factor = a_sample(W, alpha, v)
    monkeypatch.setattr(chib, "N_SWEEPS", 3)
    ratios = []
    point = chib.fixed_point(
        draw_shapes(sample, np.zeros(sample.alpha.size), np.uint64(0), 0, 50, 16, 8)
    )
    for name in range(40):
        density = chib.log_densities(sample, point, np.uint64(1), name, 64)
        value = sample.log_density(point[None]) + sample.constant - density
        ratios.append(np.exp(value - factor))
    ratios = np.array(ratios)
    error = ratios.mean(axis=1).std(ddof=1) / np.sqrt(len(ratios))
    assert error < 0.1
    assert abs(ratios.mean() - 1.0) < 4 * error
