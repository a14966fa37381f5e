"""tomotopy: LDA and HDP by collapsed Gibbs sampling in C++."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from peers.protocol import Fitted, Peer, rows_to_one
from peers.watch import Watch

SWEEPS = 500
AT_ONCE = 10  # sweeps between looks; hyperparameters are optimised every ten
INFERENCE_SWEEPS = 100  # its default


def documents(counts: sp.csr_array) -> list[list[str]]:
    """Return each sample as a list of tokens, in order of features."""
    words = [str(f) for f in range(counts.shape[1])]
    found = []
    for n in range(counts.shape[0]):
        row = slice(counts.indptr[n], counts.indptr[n + 1])
        found.append([words[f] for f in np.repeat(counts.indices[row], counts.data[row])])
    return found


def _components(model: Any, topics: list[int], F: int, eta: float) -> np.ndarray:
    """Return the topics over all features; words that it has not seen get its prior η."""
    words = np.array([int(word) for word in model.used_vocabs])
    found = np.full((len(topics), F), eta)
    for row, k in enumerate(topics):
        found[row, words] = model.get_topic_word_dist(k, normalize=False)
    return rows_to_one(found)


def _infer(model: Any, topics: list[int], threads: int, shown: sp.csr_array) -> np.ndarray:
    known = set(model.used_vocabs)
    kept = [[word for word in doc if word in known] for doc in documents(shown)]
    docs = [model.make_doc(doc) for doc in kept if doc]
    theta = np.zeros((shown.shape[0], len(topics)))
    if docs:
        found, _ = model.infer(docs, iterations=INFERENCE_SWEEPS, workers=threads)
        theta[[bool(doc) for doc in kept]] = np.asarray(found)[:, topics]
    return rows_to_one(theta)


def _fit(model: Any, train: sp.csr_array, threads: int, watch: Watch, eta: float) -> Fitted:
    given = documents(train)
    watch.begin()
    for doc in given:
        if doc:
            model.add_doc(doc)

    def now(done: int) -> Fitted:
        live = [k for k in range(model.k) if not hasattr(model, "live_k") or model.is_live_topic(k)]
        notes = {"mean alpha": float(np.mean(model.alpha))}
        phi = _components(model, live, train.shape[1], eta)
        return Fitted(phi, partial(_infer, model, live, threads), done, notes)

    done = 0
    while done < SWEEPS:
        model.train(AT_ONCE, workers=threads, show_progress=False)
        done += AT_ONCE
        if watch(done, lambda: now(done)):  # noqa: B023  (looked at, if at all, at once)
            break
    else:
        watch.complete()
    return now(done)


def lda(eta: float) -> Any:
    """Return a function that fits LDA with this η; α is optimised, as by default."""

    def fit(train: sp.csr_array, K: int, seed: int, threads: int, watch: Watch) -> Fitted:
        import tomotopy

        return _fit(tomotopy.LDAModel(k=K, eta=eta, seed=seed), train, threads, watch, eta)

    return fit


def fit_hdp(train: sp.csr_array, K: int, seed: int, threads: int, watch: Watch) -> Fitted:
    """Fit an HDP, which begins with K topics and ends with as many as it likes."""
    import tomotopy

    model = tomotopy.HDPModel(initial_k=max(K, 2), seed=seed)
    return _fit(model, train, threads, watch, float(model.eta))


PEERS = (
    Peer(
        "LDA, tomotopy",
        "tomotopy",
        f"η = 0.01 and α optimised (its defaults), {SWEEPS} sweeps (ours)",
        lda(0.01),
    ),
    Peer("LDA, tomotopy η = 0.1", "tomotopy", "as above, but η = 0.1 (ours)", lda(0.1)),
    Peer(
        "HDP, tomotopy",
        "tomotopy",
        f"η = 0.01, α and γ optimised (its defaults), begins with K topics, {SWEEPS} sweeps (ours)",
        fit_hdp,
    ),
)
