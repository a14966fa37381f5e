"""gensim: LDA by on-line variational Bayes, with the settings of its own tutorial on NIPS."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from peers.protocol import Fitted, Peer, rows_to_one
from peers.watch import Watch

SETTINGS = {"chunksize": 2000, "passes": 20, "iterations": 400, "alpha": "auto", "eta": "auto"}


class _StopError(Exception):
    """Ends training: callbacks of gensim cannot."""


def corpus(counts: sp.csr_array) -> list[list[tuple[int, int]]]:
    """Return each sample as gensim's list of (feature, count)."""
    found = []
    for n in range(counts.shape[0]):
        row = slice(counts.indptr[n], counts.indptr[n + 1])
        pairs = zip(counts.indices[row].tolist(), counts.data[row].tolist(), strict=True)
        found.append(list(pairs))
    return found


def fit(train: sp.csr_array, K: int, seed: int, threads: int, watch: Watch) -> Fitted:
    """Fit LDA; one process, since α is optimised in one process only."""
    from gensim.models import LdaModel
    from gensim.models.callbacks import Metric

    data = corpus(train)
    names = {f: str(f) for f in range(train.shape[1])}

    def now(model: Any, done: int) -> Fitted:
        def infer(shown: sp.csr_array) -> np.ndarray:
            return rows_to_one(model.inference(corpus(shown))[0])

        return Fitted(rows_to_one(model.get_topics()), infer, done)

    class Look(Metric):  # called after each pass
        logger, title, done = "shell", "look", 0

        def get_value(self, **kwargs: Any) -> float:
            self.done += 1
            self.model = kwargs["model"]
            if watch(self.done, lambda: now(self.model, self.done)):
                raise _StopError
            return 0.0

    look = Look()
    watch.begin()
    try:
        model = LdaModel(
            data, K, id2word=names, eval_every=None, random_state=seed, callbacks=[look], **SETTINGS
        )
    except _StopError:
        model = look.model
    return now(model, look.done)


PEERS = (
    Peer(
        "LDA, gensim",
        "gensim",
        "variational Bayes, α and η optimised, 20 passes of up to 400 iterations, as its tutorial",
        fit,
        has_threads=False,
    ),
)
