"""hpfrec and poismf: Poisson factorisations made for recommendations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from peers.protocol import Fitted, Peer, from_factors, rows_to_one
from peers.watch import Watch

# Neither can be looked at during a fit: both fit again with more iterations, up to their default.
# hpfrec's own rule "train-llk", which is not its default, would stop near the third of these.
HPF_ITERATIONS, POISMF_ITERATIONS = (10, 30, 60, 100), (1, 3, 10)


def _rows(counts: sp.csr_array):
    for n in range(counts.shape[0]):
        row = slice(counts.indptr[n], counts.indptr[n + 1])
        yield n, counts.indices[row], counts.data[row]


def _goes_on(watch: Watch, steps: tuple[int, ...], done: int) -> bool:
    """Return whether there is a longer fit to make, and time for it."""
    if done == steps[-1]:
        watch.complete()
        return False
    return watch.allows(steps[steps.index(done) + 1] / done)


def fit_hpf(train: sp.csr_array, K: int, seed: int, threads: int, watch: Watch) -> Fitted:
    """Fit hierarchical Poisson factorisation by coordinate ascent; its default: 100 iterations."""
    import pandas as pd
    from hpfrec import HPF

    seen = np.flatnonzero(np.asarray(train.sum(axis=0)).ravel())
    column = np.full(train.shape[1], -1)
    column[seen] = np.arange(seen.size)
    coo = train.tocoo()
    table = pd.DataFrame(
        {"UserId": coo.coords[0], "ItemId": column[coo.coords[1]], "Count": coo.data.astype(float)}
    )

    def now(model: HPF, done: int) -> Fitted:
        W = np.zeros((K, train.shape[1]))
        W[:, seen[np.asarray(model.item_mapping_)]] = np.asarray(model.Beta, dtype=float).T

        def infer(shown: sp.csr_array) -> np.ndarray:
            H = np.zeros((shown.shape[0], K))
            for n, features, counts in _rows(shown):
                known = column[features] >= 0
                if known.any():
                    frame = pd.DataFrame(
                        {"ItemId": column[features[known]], "Count": counts[known]}
                    )
                    H[n] = model.predict_factors(frame, maxiter=100, ncores=1)
            return from_factors(W, H)[1]

        return Fitted(rows_to_one(W), infer, done)

    watch.begin()
    for n_iter in HPF_ITERATIONS:
        model = None  # its memory is free
        watch.restart()
        model = HPF(
            K,
            maxiter=n_iter,
            stop_crit="maxiter",
            check_every=None,
            ncores=threads,
            random_seed=seed + 1,
            verbose=False,
            reindex=True,
            produce_dicts=True,
        )
        model.fit(table.copy())
        watch(n_iter, lambda: now(model, n_iter))  # noqa: B023  (looked at once, at once)
        if not _goes_on(watch, HPF_ITERATIONS, n_iter):
            break
    return now(model, n_iter)


def poismf(penalty: float) -> Callable[[sp.csr_array, int, int, int, Watch], Fitted]:
    """Return a function that fits with this L2 penalty, by truncated Newton steps."""

    def fit(train: sp.csr_array, K: int, seed: int, threads: int, watch: Watch) -> Fitted:
        return _fit_poismf(train, K, seed, threads, watch, penalty)

    return fit


def _fit_poismf(
    train: sp.csr_array, K: int, seed: int, threads: int, watch: Watch, penalty: float
) -> Fitted:
    from poismf import PoisMF

    data = sp.coo_matrix(train.astype(float))
    known = np.asarray(train.sum(axis=0)).ravel() > 0

    def now(model: PoisMF, done: int) -> Fitted:
        W = np.asarray(model.B, dtype=float).T

        def infer(shown: sp.csr_array) -> np.ndarray:
            H = np.zeros((shown.shape[0], K))
            for n, features, counts in _rows(shown):
                kept = known[features]
                if kept.any():
                    pair = features[kept].astype(np.uint64), counts[kept].astype(float)
                    H[n] = model.predict_factors(pair)
            return from_factors(W, np.nan_to_num(H))[1]

        return Fitted(rows_to_one(W), infer, done)

    watch.begin()
    for n_iter in POISMF_ITERATIONS:
        model = None  # its memory is free
        watch.restart()
        model = PoisMF(
            K, l2_reg=penalty, niter=n_iter, reindex=False, random_state=seed + 1, nthreads=threads
        )
        model.fit(data)
        watch(n_iter, lambda: now(model, n_iter))  # noqa: B023  (looked at once, at once)
        if not _goes_on(watch, POISMF_ITERATIONS, n_iter):
            break
    return now(model, n_iter)


PEERS = (
    Peer(
        "HPF, hpfrec",
        "hpfrec",
        "its defaults: shapes 0.3, 100 iterations; ours: 100 to infer",
        fit_hpf,
    ),
    Peer(
        "Poisson MF, poismf",
        "poismf",
        'its defaults: `method="tncg"`, L2 penalty 1,000, 10 iterations',
        poismf(1000.0),
    ),
    Peer(
        "Poisson MF, poismf L2 = 1",
        "poismf",
        "as above, but an L2 penalty of 1, our choice: the default is too strong for these counts",
        poismf(1.0),
    ),
)
