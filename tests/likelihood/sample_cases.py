"""Small samples with exact likelihoods, for tests of single estimators."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gapmf import GaP, log_marginal_likelihood
from gapmf.likelihood.sample import sample_of_row

CASES = [
    ([[3.0, 1.0], [0.5, 2.0]], [0.3, 0.8], [2, 1]),
    ([[3.0, 0.0, 1.0], [0.5, 2.0, 0.3], [1.0, 4.0, 0.0]], [0.2, 1.0, 2.0], [9, 8, 5]),
    ([[30.0, 10.0], [5.0, 20.0]], [0.5, 2.0], [900, 700]),
]


def a_sample(W, alpha, v):
    model, v = GaP(W, alpha), np.atleast_2d(v)
    exact = log_marginal_likelihood(v, model)
    assert exact.std_error == 0.0
    sample = sample_of_row(sp.csr_array(v), 0, model)
    factor = exact.total + float(model.alpha @ np.log1p(model.column_norms / model.beta))
    return model, sample, factor
