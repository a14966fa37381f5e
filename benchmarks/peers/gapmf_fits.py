"""gapmf: what the README recommends for prediction, the defaults, and the paper's protocol."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from gapmf import GammaPoissonMF, GaP, posterior_activations
from peers.protocol import Fitted, Peer, rows_to_one
from peers.watch import Watch

PREDICTION = {"learn_alpha": True, "pseudo_count": "auto", "schedule": "posterior"}
# 125 + 125 sweeps per iteration are the paper's on NIPS; it makes 1,000 iterations there, which
# take an hour, so the limit on CPU time decides how many of them there are here.
PAPER = {"schedule": "paper", "n_draws": 125, "n_burn_in": 125, "max_iter": 1000}
SHOWN = 0.5  # the shown half of a sample has half of its expected counts
SMOOTHING = 1e-3  # the estimator's own default, for words that no component has
PRECISION, COARSER = 0.05, (0.1, 0.3)  # of activations: the estimator's default, and less


def fitted(model: GaP, train: sp.csr_array, passes: float, threads: int, **notes: Any) -> Fitted:
    """Return components and the posterior means of activations, given a shown half."""
    totals = np.asarray(train.sum(axis=0), dtype=float).ravel()
    smooth = model.smoothed(totals, SMOOTHING)
    half = GaP(smooth.W * SHOWN, smooth.alpha, smooth.beta)

    def infer(shown: sp.csr_array, precision: float = PRECISION) -> np.ndarray:
        found = posterior_activations(
            shown, half, precision=precision, quantiles=(), random_state=0, n_jobs=threads
        )
        return rows_to_one(found.mean * model.column_norms)

    faster = {f"precision={p}": partial(infer, precision=p) for p in COARSER}
    return Fitted(rows_to_one(model.W.T), infer, passes, notes, faster)


def peer(name: str, settings: str, **parameters: Any) -> Peer:
    """Return gapmf with some parameters."""

    def fit(train: sp.csr_array, K: int, seed: int, threads: int, watch: Watch) -> Fitted:
        def look(record: Any) -> bool:
            return watch(record.n_sweeps, lambda: fitted(record.model, train, 0, threads))

        est = GammaPoissonMF(K, random_state=seed, n_jobs=threads, callbacks=[look], **parameters)
        watch.begin()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the limit on time was reached
            est.fit(train)
        notes = {
            "iterations": int(est.n_iter_),
            "mean alpha": float(np.mean(est.alpha_)),
            "pseudo-count": float(est.pseudo_count_),
            "rank": int(est.rank_),
        }
        passes = float(est.history_["n_sweeps"][-1])
        return fitted(est.model_, train, passes, threads, **notes)

    def warm_up(few: sp.csr_array, K: int, threads: int) -> None:
        """Compile: kernels for data with and without large counts are compiled apart."""
        short = parameters | {"max_iter": 3}
        if short.get("schedule") == "posterior":
            short["max_iter"] = 150  # long enough to draw
        if "n_draws" in short:
            short |= {"n_draws": 2, "n_burn_in": 2}
        for largest in (4, 400):
            some = few.copy()
            some.data = np.minimum(some.data, 4)
            some.data[:1] = largest
            est = GammaPoissonMF(K, random_state=0, n_jobs=threads, **short).fit(some)
            fitted(est.model_, some, 0, threads).infer(some[:5])

    return Peer(name, "gapmf", settings, fit, warm_up)


PEERS = (
    peer(
        "gapmf, for prediction",
        '`learn_alpha=True, pseudo_count="auto", schedule="posterior"`, as the README recommends',
        **PREDICTION,
    ),
    peer("gapmf, default", "the paper's estimator (α = 1, no prior), adaptive schedule"),
    peer(
        "gapmf, paper's protocol",
        "α = 1, no prior, 125 + 125 sweeps per iteration, cut by the limit on CPU time",
        **PAPER,
    ),
)
