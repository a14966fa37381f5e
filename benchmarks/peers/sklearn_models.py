"""scikit-learn: LDA by variational Bayes, batch and on-line, and NMF with the KL divergence."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from peers.protocol import Fitted, Peer, from_factors, rows_to_one
from peers.watch import Watch

BATCH_PASSES, ONLINE_PASSES, NMF_PASSES = 50, 50, 1000


def _lda(K: int, seed: int, threads: int, **parameters: Any) -> Any:
    from sklearn.decomposition import LatentDirichletAllocation

    jobs = None if threads == 1 else threads
    return LatentDirichletAllocation(K, random_state=seed, n_jobs=jobs, **parameters)


def _fit_lda(est: Any, train: sp.csr_array, passes: int, watch: Watch) -> Fitted:
    """Make passes one at a time, so that the model can be looked at."""
    data = sp.csr_matrix(train)

    def now(done: int) -> Fitted:
        return Fitted(rows_to_one(est.components_), lambda x: est.transform(sp.csr_matrix(x)), done)

    done = 0
    watch.begin()
    for done in range(1, passes + 1):
        est.partial_fit(data)
        if watch(done, lambda at=done: now(at)):
            break
    else:
        watch.complete()
    return now(done)


def fit_batch(train: sp.csr_array, K: int, seed: int, threads: int, watch: Watch) -> Fitted:
    """Fit LDA with all samples per pass.

    partial_fit with one batch of all samples and steps of weight 1 makes the very updates of
    learning_method="batch" (a test compares them), and can be looked at after each.
    """
    N = train.shape[0]
    est = _lda(K, seed, threads, batch_size=N, total_samples=N, learning_decay=0.0)
    return _fit_lda(est, train, BATCH_PASSES, watch)


def fit_online(train: sp.csr_array, K: int, seed: int, threads: int, watch: Watch) -> Fitted:
    """Fit LDA by mini-batches; a pass by partial_fit makes the updates of a pass by fit."""
    N = train.shape[0]
    return _fit_lda(_lda(K, seed, threads, total_samples=N), train, ONLINE_PASSES, watch)


def fit_nmf(train: sp.csr_array, K: int, seed: int, threads: int, watch: Watch) -> Fitted:
    """Fit KL-NMF by multiplicative updates from NNDSVDa, ten at a time.

    Updates have no memory, so ten and ten more are the same as twenty. It stops by scikit-learn's
    rule: when ten updates lower the error by less than 10⁻⁴ of the first error.
    """
    from sklearn.decomposition import NMF
    from sklearn.decomposition._nmf import _beta_divergence, _initialize_nmf
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    data = sp.csr_matrix(train, dtype=float)
    common: dict[str, Any] = {"beta_loss": "kullback-leibler", "solver": "mu", "random_state": seed}

    def now(est: Any, done: int) -> Fitted:
        def infer(shown: sp.csr_array) -> np.ndarray:
            with threadpool_limits(threads):
                est.set_params(max_iter=200, tol=1e-4)
                return from_factors(
                    est.components_, est.transform(sp.csr_matrix(shown, dtype=float))
                )[1]

        return Fitted(rows_to_one(est.components_), infer, done)

    watch.begin()
    with threadpool_limits(threads):
        H, W = _initialize_nmf(data, K, init="nndsvda", random_state=seed)
        first = error = _beta_divergence(data, H, W, "kullback-leibler", square_root=True)
        done = 0
        while done < NMF_PASSES:
            est = NMF(K, init="custom", max_iter=10, tol=0.0, **common)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # ten at a time
                H = est.fit_transform(data, W=H, H=W)
            W = est.components_
            done += 10
            before, error = error, est.reconstruction_err_
            if watch(done, lambda est=est, at=done: now(est, at)):
                break
            if (before - error) / first < 1e-4:
                break
    return now(est, done)


PEERS = (
    Peer(
        "LDA, scikit-learn batch",
        "scikit-learn",
        f"variational Bayes, priors 1/K (defaults), {BATCH_PASSES} passes (ours; default: 10)",
        fit_batch,
    ),
    Peer(
        "LDA, scikit-learn on-line",
        "scikit-learn",
        "on-line variational Bayes, mini-batches of 128, priors 1/K (defaults), "
        f"{ONLINE_PASSES} passes (ours; default: 10)",
        fit_online,
    ),
    Peer(
        "KL-NMF, scikit-learn",
        "scikit-learn",
        "multiplicative updates from NNDSVDa, tol 10⁻⁴ (defaults), "
        f"up to {NMF_PASSES:,} updates (ours; default: 200)",
        fit_nmf,
        has_threads=False,
    ),
)
