"""Real data: the NIPS bag of words (1,500 documents, 12,419 terms), exactly at K = 2."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.sparse as sp

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood


@pytest.fixture(scope="module")
def nips(nips_dir):
    with gzip.open(nips_dir / "docword.nips.txt.gz", "rt") as file:
        N, F, _ = (int(next(file)) for _ in range(3))
        n, f, v = np.loadtxt(file, dtype=np.int64).T
    X = sp.csr_array((v, (n - 1, f - 1)), shape=(N, F))
    assert X.sum() == 1_932_365
    return X


def test_two_exact_methods_agree_on_documents(nips):
    docs = nips[:20]
    rng = np.random.default_rng(0)
    mean = np.asarray(nips.mean(axis=0))
    model = GaP(mean[:, None] * rng.gamma(2.0, 0.5, (nips.shape[1], 2)), alpha=[0.1, 0.7])
    quadrature = log_marginal_likelihood(docs, model, "quadrature").per_sample
    polynomial = log_marginal_likelihood(docs, model, "polynomial").per_sample
    np.testing.assert_allclose(quadrature, polynomial, rtol=1e-12)
    assert (quadrature < 0).all()


def test_an_exact_fit_of_documents_gains_and_stays_sparse(nips):
    docs = nips[:60]
    with pytest.warns(UserWarning, match="stopped after 15 iterations"):
        est = GammaPoissonMF(2, algorithm="em-c", max_iter=15, random_state=0).fit(docs)
    one = GaP(np.asarray(docs.mean(axis=0))[:, None])
    gain = est.log_likelihood_ - log_marginal_likelihood(docs, one).total
    assert gain / docs.sum() > 0.01  # nats per token
    assert (np.diff(est.history_["log_likelihood"]) > 0).all()
    np.testing.assert_allclose(
        est.components_.sum(axis=0), np.asarray(docs.mean(axis=0)), rtol=1e-12
    )
